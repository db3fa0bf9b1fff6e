//! Where the text of an option comes from: flag (and `-o`) before environment before file.
//! This file knows nothing about what the texts mean.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::options::{ALL, OptionSpec};

/// Where a value was given, for error messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The command line, `-o` included.
    CommandLine,
    /// An environment variable.
    Environment,
    /// A configuration file.
    File(PathBuf),
}

/// A value and where it was given.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// As it was written.
    pub text: &'a str,
    option: &'static OptionSpec,
    origin: &'a Origin,
}

impl fmt::Display for Found<'_> {
    /// As an error message names it: `--memory soon`, `ZARRMOUNT_MEMORY=soon`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, option, .. } = self;
        match self.origin {
            Origin::CommandLine => write!(f, "`--{} {text}`", option.name),
            Origin::Environment => write!(f, "`{}={text}`", option.variable),
            Origin::File(path) => write!(f, "`{} = {text}` in {}", option.name, path.display()),
        }
    }
}

/// Why a layer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// No option has this name.
    #[error("there is no option `{name}` ({place})")]
    Unknown {
        /// What was written.
        name: String,
        /// Where.
        place: String,
    },
    /// One option, two values.
    #[error("`{name}` is given twice: `{first}` and `{second}`")]
    Twice {
        /// The option.
        name: &'static str,
        /// The value read first.
        first: String,
        /// The other one.
        second: String,
    },
    /// An option that needs a value has none.
    #[error("`-o {0}` needs a value: `-o {0}=..`")]
    NoValue(&'static str),
    /// The configuration file cannot be read.
    #[error("the configuration file {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The configuration file is not TOML.
    #[error("the configuration file {} is not TOML: {source}", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<toml::de::Error>,
    },
    /// A value that is no text, number or boolean.
    #[error("`{name}` in {} must be a text, a number, `true` or `false`", path.display())]
    NotScalar {
        /// The option.
        name: &'static str,
        /// The file.
        path: PathBuf,
    },
}

/// The texts that one place gives.
#[derive(Debug, Clone)]
pub struct Layer {
    origin: Origin,
    values: BTreeMap<&'static str, String>,
}

impl Layer {
    /// A layer without values.
    pub fn empty(origin: Origin) -> Self {
        Self { origin, values: BTreeMap::new() }
    }

    /// Sets a value; another one for the same option is an error.
    pub fn set(&mut self, option: &'static OptionSpec, text: &str) -> Result<(), LayerError> {
        match self.values.insert(option.name, text.to_owned()) {
            Some(first) if first != text => {
                Err(LayerError::Twice { name: option.name, first, second: text.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Adds what an `-o` argument says. Options that only concern mount(8) or /etc/fstab are skipped.
    pub fn add_mount_options(&mut self, text: &str) -> Result<(), LayerError> {
        for item in split_mount_options(text) {
            let (name, value) = item
                .split_once('=')
                .map_or((item.as_str(), None), |(name, value)| (name, Some(value)));
            match (name, OptionSpec::find(&name.replace('_', "-"))) {
                ("ro", _) => self.set(&super::options::READ_ONLY, "on")?,
                (_, Some(option)) => match (value, option.is_switch()) {
                    (Some(value), _) => self.set(option, value)?,
                    (None, true) => self.set(option, "on")?,
                    (None, false) => return Err(LayerError::NoValue(option.name)),
                },
                (_, None) if is_for_mount(name) => {}
                (_, None) => {
                    return Err(LayerError::Unknown { name: name.to_owned(), place: "-o".into() });
                }
            }
        }
        Ok(())
    }

    /// What the environment gives; `lookup` answers for one variable.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let values = ALL
            .iter()
            .filter_map(|option| Some((option.name, lookup(option.variable)?)))
            .filter(|(_, text)| !text.is_empty())
            .collect();
        Self { origin: Origin::Environment, values }
    }

    /// Reads a configuration file: `name = value` lines of TOML.
    pub fn from_file(path: &Path) -> Result<Self, LayerError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| LayerError::Unreadable { path: path.to_owned(), source })?;
        let table: toml::Table = text.parse().map_err(|source| LayerError::NotToml {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let mut layer = Self::empty(Origin::File(path.to_owned()));
        for (name, value) in &table {
            let option = OptionSpec::find(name).ok_or_else(|| LayerError::Unknown {
                name: name.clone(),
                place: path.display().to_string(),
            })?;
            let text = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(on) => if *on { "on" } else { "off" }.to_owned(),
                _ => {
                    return Err(LayerError::NotScalar { name: option.name, path: path.to_owned() });
                }
            };
            layer.set(option, &text)?;
        }
        Ok(layer)
    }
}

/// All layers, the strongest first.
#[derive(Debug, Clone)]
pub struct Layers(Vec<Layer>);

impl Layers {
    /// Takes the layers, the strongest first.
    pub fn new(layers: Vec<Layer>) -> Self {
        Self(layers)
    }

    /// The strongest value of an option.
    pub fn get(&self, option: &'static OptionSpec) -> Option<Found<'_>> {
        self.0.iter().find_map(|layer| {
            let text = layer.values.get(option.name)?;
            Some(Found { text, option, origin: &layer.origin })
        })
    }
}

/// Splits at commas that no backslash precedes, as mount(8) and libfuse do.
fn split_mount_options(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let character = match character {
            ',' => {
                items.push(String::new());
                continue;
            }
            '\\' => characters.next().unwrap_or('\\'),
            other => other,
        };
        if let Some(item) = items.last_mut() {
            item.push(character);
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

/// Words that /etc/fstab lines carry and that mean nothing to a file system.
fn is_for_mount(name: &str) -> bool {
    const WORDS: [&str; 24] = [
        "rw", "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "nofail",
        "_netdev", "dev", "nodev", "suid", "nosuid", "exec", "noexec", "atime", "noatime",
        "relatime", "sync", "async", "dirsync", "uhelper", "comment",
    ];
    WORDS.contains(&name) || name.starts_with("x-") || name.starts_with("X-")
}

#[cfg(test)]
mod tests {
    use super::super::options::{CHUNKS, CODEC, CONNECTIONS, MEMORY, NO_CONSOLIDATED, READ_ONLY};
    use super::*;

    fn command_line(options: &str) -> Result<Layer, LayerError> {
        let mut layer = Layer::empty(Origin::CommandLine);
        layer.add_mount_options(options).map(|()| layer)
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zarrmount.toml");
        std::fs::write(&path, "memory = \"1GiB\"\nconnections = 8\nno-consolidated = true\n")
            .unwrap();
        let environment = Layer::from_environment(|name| match name {
            "ZARRMOUNT_MEMORY" => Some("2GiB".into()),
            "ZARRMOUNT_CODEC" => Some("none".into()),
            "ZARRMOUNT_CHUNKS" => Some(String::new()),
            _ => None,
        });
        let layers = Layers::new(vec![
            command_line("memory=3GiB").unwrap(),
            environment,
            Layer::from_file(&path).unwrap(),
        ]);
        let text = |option| layers.get(option).map(|found| found.to_string());
        assert_eq!(text(&MEMORY).as_deref(), Some("`--memory 3GiB`"));
        assert_eq!(text(&CODEC).as_deref(), Some("`ZARRMOUNT_CODEC=none`"));
        assert_eq!(layers.get(&CONNECTIONS).unwrap().text, "8");
        assert!(text(&NO_CONSOLIDATED).unwrap().ends_with("zarrmount.toml"));
        assert_eq!(text(&CHUNKS), None, "an empty variable is not set");
    }

    #[test]
    fn fstab_options_are_read_and_words_for_mount_are_skipped() {
        let layer =
            command_line("rw,_netdev,x-systemd.automount,ro,chunks=time=1:lat=2,codec=a\\,b")
                .unwrap();
        let layers = Layers::new(vec![layer]);
        assert_eq!(layers.get(&READ_ONLY).unwrap().text, "on");
        assert_eq!(layers.get(&CHUNKS).unwrap().text, "time=1:lat=2");
        assert_eq!(layers.get(&CODEC).unwrap().text, "a,b");
    }

    #[test]
    fn misspelt_and_contradicting_options_are_refused() {
        assert!(matches!(command_line("chunk=1"), Err(LayerError::Unknown { .. })));
        assert!(matches!(command_line("memory"), Err(LayerError::NoValue("memory"))));
        assert!(matches!(command_line("memory=1,memory=2"), Err(LayerError::Twice { .. })));
        assert!(command_line("memory=1,memory=1").is_ok());
    }
}
