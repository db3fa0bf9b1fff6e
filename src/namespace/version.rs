//! Whether two looks at an object saw the same content.

use crate::store::{ObjectAttributes, Version};

/// Compares what both sides name. Etags are compared without quotes: some stores quote them in
/// headers and not in listings. `None` if the versions have nothing in common to compare.
pub(super) fn same_version(one: &Version, other: &Version) -> Option<bool> {
    let bare = |version: &Version| version.etag.trim_matches('"').to_owned();
    let (a, b) = (bare(one), bare(other));
    if !a.is_empty() && !b.is_empty() {
        return Some(a == b);
    }
    Some(one.generation.as_ref()? == other.generation.as_ref()?)
}

/// Whether two sets of attributes are certainly of one content. Doubt counts as no.
pub fn same_content(one: &ObjectAttributes, other: &ObjectAttributes) -> bool {
    let same = match (&one.version, &other.version) {
        (Some(a), Some(b)) => same_version(a, b),
        _ => None,
    };
    one.size == other.size && same.unwrap_or(one.modified == other.modified)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn object(etag: &str, generation: Option<&str>) -> ObjectAttributes {
        let generation = generation.map(str::to_owned);
        let version = Some(Version { etag: etag.to_owned(), generation });
        ObjectAttributes { size: 1, modified: SystemTime::UNIX_EPOCH, version }
    }

    #[test]
    fn versions_are_compared_by_what_both_sides_name() {
        assert!(same_content(&object("\"a\"", None), &object("a", Some("7"))));
        assert!(!same_content(&object("a", Some("7")), &object("b", Some("7"))));
        assert!(same_content(&object("", Some("7")), &object("", Some("7"))));
        assert!(!same_content(&object("", Some("7")), &object("", Some("8"))));
        let unnamed = ObjectAttributes { version: None, ..object("", None) };
        assert!(same_content(&unnamed, &object("a", None)));
        let later = ObjectAttributes {
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
            ..unnamed.clone()
        };
        assert!(!same_content(&later, &unnamed));
    }
}
