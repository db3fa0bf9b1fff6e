//! Writing to the terminal. A reader that goes away (`zarrmount status | head`) ends the output and
//! nothing else.

use std::fmt::Display;
use std::io::{self, Write as _};

/// A line on standard output.
pub(super) fn say(line: impl Display) {
    let _written = writeln!(io::stdout(), "{line}").is_ok();
}

/// A line on standard error.
pub(super) fn tell(line: impl Display) {
    let _written = writeln!(io::stderr(), "{line}").is_ok();
}
