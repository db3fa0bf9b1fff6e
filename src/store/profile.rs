//! Static profiles of the AWS command line: `~/.aws/credentials` and `~/.aws/config`.
//!
//! The format is that of the AWS SDKs: `[name]` sections in the first file, `[default]` and
//! `[profile name]` in the second; `key = value` lines; lines that start with `#` or `;` are
//! comments; indented lines belong to a nested setting and are not for us. Values are literal.
//! A profile that needs a program, a browser or another role is refused, never half understood.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::options::Environment;

/// The settings of one profile that matter here.
#[derive(Clone, Default)]
pub(super) struct Profile {
    pub(super) name: String,
    /// Files it was looked for in.
    pub(super) files: [PathBuf; 2],
    values: BTreeMap<String, String>,
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// A profile that was asked for is in neither file.
    #[error("there is no profile `{name}` in {} or {}", files[0].display(), files[1].display())]
    Missing {
        /// As asked for.
        name: String,
        /// Where it was looked for.
        files: [PathBuf; 2],
    },
    /// The profile has no keys of its own and needs something that is not built in.
    #[error(
        "profile `{name}` needs {needs}, which is not built in; run \
         `eval \"$(aws configure export-credentials --profile {name} --format env)\"` \
         in this shell and try again without the profile"
    )]
    NeedsMore {
        /// The profile.
        name: String,
        /// What it needs.
        needs: &'static str,
    },
    /// Only one of key and secret is there.
    #[error("profile `{name}` has only one of `aws_access_key_id` and `aws_secret_access_key`")]
    HalfAKey {
        /// The profile.
        name: String,
    },
    /// A file exists but cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Keys of a profile.
pub(super) struct Keys {
    pub(super) key_id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

impl Profile {
    /// Reads the profile `asked_for`, else `AWS_PROFILE`, else `default`. The last may be missing.
    pub(super) fn load(
        asked_for: Option<&str>,
        environment: &Environment,
    ) -> Result<Self, ProfileError> {
        let asked_for = asked_for.or_else(|| environment.get("AWS_PROFILE"));
        let name = asked_for.unwrap_or("default").to_owned();
        let file = |variable: &str, standard: &str| match environment.get(variable) {
            Some(path) => PathBuf::from(path),
            None => environment.home().join(".aws").join(standard),
        };
        let files =
            [file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), file("AWS_CONFIG_FILE", "config")];
        let config_section = match name.as_str() {
            "default" => vec!["default".to_owned(), "profile default".to_owned()],
            _ => vec![format!("profile {name}")],
        };
        let in_config = section(&files[1], &config_section)?;
        let in_credentials = section(&files[0], std::slice::from_ref(&name))?;
        if asked_for.is_some() && in_config.is_none() && in_credentials.is_none() {
            return Err(ProfileError::Missing { name, files });
        }
        let mut values = in_config.unwrap_or_default();
        values.extend(in_credentials.unwrap_or_default());
        Ok(Self { name, files, values })
    }

    /// A setting; an empty one counts as not there.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Its static keys; `None` if it has no credentials of any kind.
    pub(super) fn keys(&self) -> Result<Option<Keys>, ProfileError> {
        let name = || self.name.clone();
        match (self.get("aws_access_key_id"), self.get("aws_secret_access_key")) {
            (Some(key_id), Some(secret)) => {
                return Ok(Some(Keys {
                    key_id: key_id.to_owned(),
                    secret: secret.to_owned(),
                    token: self.get("aws_session_token").map(str::to_owned),
                }));
            }
            (None, None) => {}
            _ => return Err(ProfileError::HalfAKey { name: name() }),
        }
        let needs = [
            ("sso_session", "a single sign-on"),
            ("sso_start_url", "a single sign-on"),
            ("login_session", "a sign-in in the browser"),
            ("credential_process", "another program to fetch its credentials"),
            ("source_profile", "to assume a role"),
            ("credential_source", "to assume a role"),
            ("web_identity_token_file", "to assume a role"),
            ("role_arn", "to assume a role"),
        ];
        match needs.iter().find(|(key, _)| self.get(key).is_some()) {
            Some((_, needs)) => Err(ProfileError::NeedsMore { name: name(), needs }),
            None => Ok(None),
        }
    }
}

/// The settings below the first of `names` that the file has; `None` without file or section.
fn section(
    path: &Path,
    names: &[String],
) -> Result<Option<BTreeMap<String, String>>, ProfileError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ProfileError::Unreadable { path: path.to_owned(), source }),
    };
    let mut sections = sections(&text);
    Ok(names.iter().find_map(|name| sections.remove(name)))
}

fn sections(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            let name = name.0.split_whitespace().collect::<Vec<_>>().join(" ");
            current = Some(sections.entry(name).or_default());
        } else if let (Some(section), Some((key, value))) = (&mut current, line.split_once('=')) {
            section.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    sections
}
