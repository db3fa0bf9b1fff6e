//! What the user types: one file per verb. The only place that prints.

use std::process::ExitCode;

/// Parses the command line, runs the verb and turns its outcome into an exit code.
pub fn run() -> ExitCode {
    ExitCode::SUCCESS
}
