//! Several files as one dataset. Pure.
//!
//! - [`Member`]: what has to be known of a file to join it with others.
//! - [`Existing`]: what is published already; its encoding is frozen.
//! - [`Union`]: the files that have been accepted so far. It takes another one or says why not;
//!   the order in which they come decides nothing but which of two conflicting files is refused.
//! - [`EpochPlan`]: the arrays that the accepted files become.
//!
//! Files are joined along one dimension for each group that they are copied into (`placement`);
//! variables without it must be the same in all of them.

mod along;
mod differences;
mod encoding;
mod epoch;
mod existing;
mod findings;
mod fit;
mod member;
mod placement;
mod refusal;
mod rules;
mod union;

pub use differences::{Difference, compare};
pub use encoding::{coordinate_keys, describe as describe_key};
pub use epoch::{EpochPlan, GapFills, fill_candidates};
pub use existing::Existing;
pub use findings::{Findings, Overlapping, Scan, StaticArray};
pub use fit::conversion_between;
pub use member::{Coordinate, Member};
pub use refusal::JoinRefusal;
pub use rules::{Overlap, Rules, SchemaRule};
pub use union::Union;
