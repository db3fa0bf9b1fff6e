//! Names that were deleted here and that the bucket still has.
//!
//! A whiteout hides its name until the bucket has really let go of it. A folder that was removed is
//! hidden too, until the last object below it is gone.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::store::Location;

#[derive(Debug, Default)]
pub(super) struct Whiteouts {
    objects: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Whiteouts {
    pub(super) fn hide_object(&mut self, location: &Location) {
        self.objects.insert(location.as_str().to_owned());
    }

    /// Hides a removed folder, if anything below it is still to be deleted.
    /// Returns false if there is nothing to wait for.
    pub(super) fn hide_folder(&mut self, location: &Location) -> bool {
        let waits = self.any_below(location.as_str());
        if waits {
            self.folders.insert(location.as_str().to_owned());
        }
        waits
    }

    pub(super) fn hides_object(&self, location: &Location) -> bool {
        self.objects.contains(location.as_str())
    }

    pub(super) fn hides_folder(&self, location: &Location) -> bool {
        self.folders.contains(location.as_str())
    }

    /// An object came to this location: it and its folders exist again.
    pub(super) fn arrived(&mut self, location: &Location) {
        self.objects.remove(location.as_str());
        self.show_folders(location.parent());
    }

    /// The folder and those above it exist again.
    pub(super) fn show_folders(&mut self, mut folder: Option<Location>) {
        while let Some(at) = folder {
            self.folders.remove(at.as_str());
            folder = at.parent();
        }
    }

    /// The object is gone. Returns the removed folders that went with it, innermost first.
    pub(super) fn deleted(&mut self, location: &Location) -> Vec<Location> {
        self.objects.remove(location.as_str());
        let mut gone = Vec::new();
        let mut folder = location.parent();
        while let Some(at) = folder {
            if self.folders.contains(at.as_str()) && !self.any_below(at.as_str()) {
                self.folders.remove(at.as_str());
                gone.push(at.clone());
            }
            folder = at.parent();
        }
        gone
    }

    /// The hidden objects below a folder.
    pub(super) fn below(&self, folder: &Location) -> impl Iterator<Item = Location> {
        self.range(folder.as_str()).filter_map(|text| Location::parse(text).ok())
    }

    fn any_below(&self, folder: &str) -> bool {
        self.range(folder).next().is_some()
    }

    fn range(&self, folder: &str) -> impl Iterator<Item = &String> {
        // Keys below `folder` sort between `folder/` and `folder0`, `0` being what follows `/`.
        let (from, to) = (format!("{folder}/"), format!("{folder}0"));
        self.objects.range((Bound::Included(from), Bound::Excluded(to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    #[test]
    fn a_removed_folder_stays_hidden_until_its_last_object_is_gone() {
        let mut whiteouts = Whiteouts::default();
        whiteouts.hide_object(&at("a/b/1"));
        whiteouts.hide_object(&at("a/b/2"));
        whiteouts.hide_object(&at("a/b-c"));
        assert!(whiteouts.hide_folder(&at("a/b")));
        assert!(whiteouts.deleted(&at("a/b/1")).is_empty());
        assert!(whiteouts.hides_folder(&at("a/b")));
        assert_eq!(whiteouts.deleted(&at("a/b/2")), [at("a/b")]);
        assert!(!whiteouts.hides_folder(&at("a/b")));
        assert!(whiteouts.hides_object(&at("a/b-c")));
    }

    #[test]
    fn an_empty_folder_needs_no_whiteout() {
        let mut whiteouts = Whiteouts::default();
        whiteouts.hide_object(&at("ab/1"));
        assert!(!whiteouts.hide_folder(&at("a")));
    }

    #[test]
    fn an_arriving_object_shows_its_folders_again() {
        let mut whiteouts = Whiteouts::default();
        whiteouts.hide_object(&at("a/b/1"));
        assert!(whiteouts.hide_folder(&at("a/b")));
        whiteouts.arrived(&at("a/b/1"));
        assert!(!whiteouts.hides_folder(&at("a/b")) && !whiteouts.hides_object(&at("a/b/1")));
    }
}
