//! Keys of objects, literal and relative to the mounted URL.

use std::fmt;

/// The place of an object or folder below the mounted URL, such as `ocean.zarr/sst/c/0/1`.
///
/// - Segments are separated by `/`; none is empty, `.` or `..`; there is no leading or trailing `/`.
/// - The root is the empty string.
/// - Nothing is percent-encoded: the key in the bucket is this text after the URL's prefix.
#[derive(
    Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Location(String);

/// Why a text is not a [`Location`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// A segment is empty, `.` or `..`.
    #[error("`{0}` has a path segment that is empty, `.` or `..`")]
    BadSegment(String),
    /// A control character cannot be part of a key here.
    #[error("`{0:?}` holds a control character")]
    ControlCharacter(String),
}

impl Location {
    /// The mounted folder itself.
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// Takes a literal key. The empty text is the root.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        if text.is_empty() {
            return Ok(Self::root());
        }
        for segment in text.split('/') {
            check_segment(segment)?;
        }
        Ok(Self(text.to_owned()))
    }

    /// The child `name` of this folder.
    pub fn child(&self, name: &str) -> Result<Self, LocationError> {
        if name.contains('/') {
            return Err(LocationError::BadSegment(name.to_owned()));
        }
        check_segment(name)?;
        if self.0.is_empty() {
            return Ok(Self(name.to_owned()));
        }
        Ok(Self(format!("{}/{name}", self.0)))
    }

    /// This location with `other` below it.
    #[must_use]
    pub fn join(&self, other: &Location) -> Self {
        match (self.0.is_empty(), other.0.is_empty()) {
            (true, _) => other.clone(),
            (_, true) => self.clone(),
            _ => Self(format!("{}/{}", self.0, other.0)),
        }
    }

    /// The folder it lies in; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.0.is_empty() {
            return None;
        }
        Some(Self(self.0.rsplit_once('/').map(|(parent, _)| parent.to_owned()).unwrap_or_default()))
    }

    /// The last segment; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, name)| name)
    }

    /// The literal text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the mounted folder itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this lies strictly below `folder`.
    pub fn is_below(&self, folder: &Location) -> bool {
        if folder.is_root() {
            return !self.is_root();
        }
        self.0.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The rest of this location below `folder`; `None` if it is not strictly below it.
    pub fn relative_to(&self, folder: &Location) -> Option<Self> {
        if !self.is_below(folder) {
            return None;
        }
        if folder.is_root() {
            return Some(self.clone());
        }
        self.0.strip_prefix(folder.as_str())?.strip_prefix('/').map(|rest| Self(rest.to_owned()))
    }

    /// The segments, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|segment| !segment.is_empty())
    }
}

fn check_segment(segment: &str) -> Result<(), LocationError> {
    if segment.is_empty() || segment == "." || segment == ".." {
        return Err(LocationError::BadSegment(segment.to_owned()));
    }
    if segment.chars().any(char::is_control) {
        return Err(LocationError::ControlCharacter(segment.to_owned()));
    }
    Ok(())
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl TryFrom<String> for Location {
    type Error = LocationError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<Location> for String {
    fn from(location: Location) -> Self {
        location.0
    }
}
