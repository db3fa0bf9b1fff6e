//! Which names are source files, which dataset each belongs to, and where its receipts lie. Pure.

use crate::store::Location;
use crate::zarr::NodePath;

/// Folder beside datasets that holds their receipts; never shown through the mount.
pub const RECEIPTS_FOLDER: &str = ".zarrmount";

/// Name endings of source files.
const SOURCE_ENDINGS: [&str; 4] = [".nc", ".nc4", ".cdf", ".netcdf"];

/// Ending of dataset folders.
const DATASET_ENDING: &str = ".zarr";

/// Whether a file of this name is meant to be ingested.
pub(super) fn is_source_name(name: &str) -> bool {
    source_stem(name).is_some_and(|stem| !stem.is_empty())
}

/// Whether the ending alone is no proof: other formats use `.cdf` too, and are stored as they are.
pub(super) fn is_doubtful_name(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".cdf")
}

/// `sst.nc` -> `sst`; `None` for names that are not source files.
fn source_stem(name: &str) -> Option<&str> {
    SOURCE_ENDINGS.iter().find_map(|ending| {
        let split = name.len().checked_sub(ending.len())?;
        let (stem, rest) = name.split_at_checked(split)?;
        rest.eq_ignore_ascii_case(ending).then_some(stem)
    })
}

/// How a source file relates to its dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Copied into a plain folder: `name.nc` makes `name.zarr` beside it, and that alone.
    OwnDataset(Location),
    /// Copied into a dataset folder or a group of it: joins that dataset.
    Joins {
        /// The dataset.
        dataset: Location,
        /// The group that the file's root group becomes.
        landing: NodePath,
    },
}

impl Target {
    /// The dataset's location.
    pub fn dataset(&self) -> &Location {
        match self {
            Self::OwnDataset(dataset) | Self::Joins { dataset, .. } => dataset,
        }
    }

    /// The group that the file's root group becomes.
    pub fn landing(&self) -> NodePath {
        match self {
            Self::OwnDataset(_) => NodePath::root(),
            Self::Joins { landing, .. } => landing.clone(),
        }
    }

    /// What receipts call the file of this name.
    pub fn record_name(&self, name: &str) -> String {
        self.landing().key(name)
    }
}

/// Where a source file copied to `source` goes. `is_hierarchy` tells whether a folder without the
/// usual ending is a dataset folder all the same. `None` for names that are not source files, and
/// for folders whose names no group can have.
pub(super) fn target(
    source: &Location,
    is_hierarchy: impl Fn(&Location) -> bool,
) -> Option<Target> {
    let stem = source_stem(source.name())?;
    let folder = source.parent()?;
    if let Some(dataset) = dataset_of(&folder, is_hierarchy) {
        let landing = match folder.relative_to(&dataset) {
            Some(below) => NodePath::parse(below.as_str()).ok()?,
            None => NodePath::root(),
        };
        return Some(Target::Joins { dataset, landing });
    }
    folder.child(&format!("{stem}{DATASET_ENDING}")).ok().map(Target::OwnDataset)
}

/// The dataset that this folder or object is, or is a part of. The outermost one counts; what lies
/// in it are its groups.
pub(super) fn dataset_of(
    at: &Location,
    is_hierarchy: impl Fn(&Location) -> bool,
) -> Option<Location> {
    let mut dataset = None;
    let mut above = Some(at.clone());
    while let Some(at) = above {
        above = at.parent();
        if is_dataset_name(at.name()) || is_hierarchy(&at) {
            dataset = Some(at);
        }
    }
    dataset
}

/// Whether a folder of this name is a dataset folder.
pub(super) fn is_dataset_name(name: &str) -> bool {
    name.len() > DATASET_ENDING.len() && name.to_ascii_lowercase().ends_with(DATASET_ENDING)
}

/// Where the receipts of a dataset lie: `<parent>/.zarrmount/<name>`. `None` for a dataset that is
/// the mounted folder itself, which has no place beside it.
pub(super) fn receipts_folder(dataset: &Location) -> Option<Location> {
    let parent = dataset.parent()?;
    parent.child(RECEIPTS_FOLDER).and_then(|folder| folder.child(dataset.name())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    #[test]
    fn source_files_are_known_by_their_ending() {
        for name in ["a.nc", "a.NC", "a.nc4", "a.cdf", "a.netcdf", "température.nc", "a.b.nc"] {
            assert!(is_source_name(name), "{name}");
        }
        for name in ["nc", ".nc", "a.nc.partial", ".a.nc.Xy12Zz", "a.ncx", "zarr.json", "é"] {
            assert!(!is_source_name(name), "{name}");
        }
    }

    #[test]
    fn a_file_in_a_plain_folder_makes_its_own_dataset_and_one_in_a_dataset_folder_joins_it() {
        let plain = |_: &Location| false;
        assert_eq!(
            target(&at("runs/sst.nc"), plain),
            Some(Target::OwnDataset(at("runs/sst.zarr")))
        );
        assert_eq!(target(&at("sst.nc"), plain), Some(Target::OwnDataset(at("sst.zarr"))));
        let joins = |dataset: &str, landing: &str| {
            let landing = NodePath::parse(landing).unwrap();
            Some(Target::Joins { dataset: at(dataset), landing })
        };
        assert_eq!(target(&at("o.zarr/a.nc"), plain), joins("o.zarr", ""));
        assert_eq!(target(&at("x/o.zarr/g/h/a.nc"), plain), joins("x/o.zarr", "g/h"));
        assert_eq!(target(&at("old/a.nc"), |f| *f == at("old")), joins("old", ""));
        assert_eq!(target(&at("old/readme"), |_| true), None);
    }

    #[test]
    fn receipts_lie_beside_the_dataset() {
        assert_eq!(receipts_folder(&at("a/b.zarr")), Some(at("a/.zarrmount/b.zarr")));
        assert_eq!(receipts_folder(&at("b.zarr")), Some(at(".zarrmount/b.zarr")));
        assert_eq!(receipts_folder(&Location::root()), None);
    }
}
