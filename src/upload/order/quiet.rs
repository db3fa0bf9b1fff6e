//! When something last happened in each hierarchy that has files here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::store::Location;

/// Folders of this name hold a whole hierarchy.
const HIERARCHY_ENDING: &str = ".zarr";

/// Forgets a hierarchy when its last file has gone.
#[derive(Debug, Default)]
pub(super) struct Quiet(HashMap<Arc<str>, State>);

#[derive(Debug)]
struct State {
    since: Instant,
    members: usize,
}

impl Quiet {
    /// A file comes into the hierarchy of `path`, whose name is returned.
    pub(super) fn join(&mut self, path: &Location, now: Instant) -> Arc<str> {
        let name = hierarchy(path);
        let (name, members) = match self.0.get_key_value(name) {
            Some((name, state)) => (Arc::clone(name), state.members + 1),
            None => (name.into(), 1),
        };
        let since = self.since(&name).map_or(now, |since| since.max(now));
        self.0.insert(Arc::clone(&name), State { since, members });
        name
    }

    pub(super) fn leave(&mut self, hierarchy: &str) {
        if let Some(state) = self.0.get_mut(hierarchy) {
            state.members = state.members.saturating_sub(1);
            if state.members == 0 {
                self.0.remove(hierarchy);
            }
        }
    }

    pub(super) fn since(&self, hierarchy: &str) -> Option<Instant> {
        self.0.get(hierarchy).map(|state| state.since)
    }
}

/// The outermost folder that names itself a Zarr hierarchy, else the folder the file lies in.
fn hierarchy(path: &Location) -> &str {
    let key = path.as_str();
    let outermost = super::folders_above(key).filter(|folder| folder.ends_with(HIERARCHY_ENDING));
    outermost.last().or_else(|| super::folders_above(key).next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hierarchy_is_the_outermost_folder_that_says_so() {
        let of = |text| hierarchy(&Location::parse(text).unwrap()).to_owned();
        assert_eq!(of("data/a.zarr/g/b.zarr/x/c/0"), "data/a.zarr");
        assert_eq!(of("data/plain/x"), "data/plain");
        assert_eq!(of("x"), "");
        assert_eq!(of("a.zarr"), "");
    }

    #[test]
    fn a_hierarchy_is_forgotten_with_its_last_file() {
        let mut quiet = Quiet::default();
        let (path, now) =
            (Location::parse("a.zarr/x").unwrap(), crate::base::clock::Clock::manual().now());
        let name = quiet.join(&path, now);
        quiet.join(&path, now);
        quiet.leave(&name);
        assert!(quiet.since(&name).is_some());
        quiet.leave(&name);
        assert!(quiet.since(&name).is_none());
    }
}
