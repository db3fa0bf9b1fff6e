//! What a store answers when it does not do what was asked, told by what the caller can do about it.
//!
//! Decided from HTTP status and the store's error code as they arrived, never from the wording of
//! a message.

use std::fmt;

use super::exchange::{Failure, Transport};
use super::location::Location;

/// What was asked of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the methods of Store")]
pub enum Operation {
    Put,
    PutIf,
    PutLarge,
    Get,
    Head,
    List,
    Delete,
    Copy,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Put => "write",
            Self::PutIf => "conditionally write",
            Self::PutLarge => "write in parts",
            Self::Get => "read",
            Self::Head => "look up",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Copy => "copy",
        })
    }
}

/// What the store, or the way to it, said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What was asked.
    pub operation: Operation,
    /// HTTP status; `None` if no answer came, and for stores without HTTP.
    pub status: Option<u16>,
    /// The store's error code, such as `AccessDenied`; empty if it gave none.
    pub code: String,
    /// The store's own words, or the system's.
    pub message: String,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (self.status, self.code.is_empty()) {
            (Some(status), true) => write!(f, " (HTTP {status})"),
            (Some(status), false) => write!(f, " ({}, HTTP {status})", self.code),
            (None, false) => write!(f, " ({})", self.code),
            (None, true) => Ok(()),
        }
    }
}

/// Why a store did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no object.
    #[error("`{location}` is not in the store: {reply}")]
    NotFound {
        /// The object.
        location: Location,
        /// What the store said.
        reply: Box<Reply>,
    },
    /// The condition of a put does not hold: the object exists already, or is another version.
    #[error("`{location}` was changed by someone else: {reply}")]
    Conflict {
        /// The object.
        location: Location,
        /// What the store said.
        reply: Box<Reply>,
    },
    /// The credentials do not allow it.
    #[error("not allowed to {} `{location}`: {reply}", reply.operation)]
    Denied {
        /// The object or folder.
        location: Location,
        /// What the store said.
        reply: Box<Reply>,
    },
    /// The store refuses the request for good, or its answer makes no sense.
    #[error("cannot {} `{location}`: {reply}", reply.operation)]
    Invalid {
        /// The object or folder.
        location: Location,
        /// What the store said.
        reply: Box<Reply>,
    },
    /// The same request may succeed later.
    #[error("could not {} `{location}` for now: {reply}", reply.operation)]
    Passing {
        /// The object or folder.
        location: Location,
        /// What the store or the network said.
        reply: Box<Reply>,
        /// The store asks for fewer requests.
        slow_down: bool,
    },
}

impl StoreError {
    /// Whether the same request may succeed later.
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Passing { .. })
    }

    /// Whether the store asks for fewer requests.
    pub const fn is_slow_down(&self) -> bool {
        matches!(self, Self::Passing { slow_down: true, .. })
    }

    /// What the store said.
    pub fn reply(&self) -> &Reply {
        match self {
            Self::NotFound { reply, .. }
            | Self::Conflict { reply, .. }
            | Self::Denied { reply, .. }
            | Self::Invalid { reply, .. }
            | Self::Passing { reply, .. } => reply,
        }
    }

    /// The object or folder it is about.
    pub const fn location(&self) -> &Location {
        match self {
            Self::NotFound { location, .. }
            | Self::Conflict { location, .. }
            | Self::Denied { location, .. }
            | Self::Invalid { location, .. }
            | Self::Passing { location, .. } => location,
        }
    }

    /// A refusal by this program, before anything was sent.
    pub(super) fn invalid(
        operation: Operation,
        location: &Location,
        message: impl Into<String>,
    ) -> Self {
        Kind::Invalid.error(operation, location, None, String::new(), message.into())
    }
}

/// The variants of [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    NotFound,
    Conflict,
    Denied,
    Invalid,
    Passing,
    SlowDown,
}

impl Kind {
    pub(super) fn error(
        self,
        operation: Operation,
        location: &Location,
        status: Option<u16>,
        code: String,
        message: String,
    ) -> StoreError {
        let location = location.clone();
        let reply = Box::new(Reply { operation, status, code, message });
        match self {
            Self::NotFound => StoreError::NotFound { location, reply },
            Self::Conflict => StoreError::Conflict { location, reply },
            Self::Denied => StoreError::Denied { location, reply },
            Self::Invalid => StoreError::Invalid { location, reply },
            Self::Passing => StoreError::Passing { location, reply, slow_down: false },
            Self::SlowDown => StoreError::Passing { location, reply, slow_down: true },
        }
    }
}

/// The error of an operation: from what was seen on the wire, else from the client library.
pub(super) fn from_failure(
    operation: Operation,
    location: &Location,
    failure: Option<Failure>,
    error: &object_store::Error,
) -> StoreError {
    let Some(failure) = failure else {
        let kind = kind_of_library_error(error);
        return kind.error(operation, location, None, String::new(), error.to_string());
    };
    let kind = match failure.transport {
        Some(Transport::Unreachable | Transport::Stalled | Transport::Interrupted) => Kind::Passing,
        // What a credentials service does not find says nothing about an object.
        None if failure.elsewhere => match kind_of_status(Operation::List, failure.status) {
            kind @ (Kind::Passing | Kind::SlowDown) => kind,
            _ => Kind::Denied,
        },
        None if failure.may_be_renewed => Kind::Passing,
        None => kind_of_reply(operation, failure.status, &failure.code),
    };
    kind.error(operation, location, failure.status, failure.code, failure.message)
}

/// From status and error code; codes as in the S3 API's list of error responses.
pub(super) fn kind_of_reply(operation: Operation, status: Option<u16>, code: &str) -> Kind {
    match code {
        "SlowDown"
        | "ServerBusy"
        | "TooManyRequests"
        | "ThrottlingException"
        | "RequestLimitExceeded" => Kind::SlowDown,
        // The request was cut or damaged on its way, or came between two others; an upload that
        // is repeated starts with a new identifier.
        "RequestTimeout"
        | "BadDigest"
        | "XAmzContentSHA256Mismatch"
        | "IncompleteBody"
        | "OperationAborted"
        | "ConditionalRequestConflict"
        | "InternalError"
        | "NoSuchUpload" => Kind::Passing,
        "ExpiredToken" | "TokenRefreshRequired" => Kind::Denied,
        // A missing bucket must never look like a missing object.
        "NoSuchBucket" | "ContainerNotFound" => Kind::Invalid,
        _ => kind_of_status(operation, status),
    }
}

fn kind_of_status(operation: Operation, status: Option<u16>) -> Kind {
    match (status, operation) {
        (Some(404 | 409), Operation::PutIf) | (Some(304 | 412), _) => Kind::Conflict,
        (Some(404), Operation::Get | Operation::Head | Operation::Delete | Operation::Copy) => {
            Kind::NotFound
        }
        (Some(401 | 403), _) => Kind::Denied,
        (Some(429), _) => Kind::SlowDown,
        (Some(408 | 425 | 500 | 502..=504 | 506..), _) => Kind::Passing,
        _ => Kind::Invalid,
    }
}

fn kind_of_library_error(error: &object_store::Error) -> Kind {
    use object_store::Error;
    match error {
        Error::NotFound { .. } => Kind::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
            Kind::Conflict
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Kind::Denied,
        _ => Kind::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_credentials_service_lacks_is_never_a_missing_object() {
        let library = object_store::Error::NotImplemented {
            operation: String::new(),
            implementer: String::new(),
        };
        for (status, passing) in [(404, false), (412, false), (503, true)] {
            let status = Some(status);
            let failure = Failure { status, elsewhere: true, ..Failure::default() };
            let error = from_failure(Operation::Get, &Location::root(), Some(failure), &library);
            assert_eq!(error.is_passing(), passing, "{error:?}");
            assert_eq!(matches!(error, StoreError::Denied { .. }), !passing, "{error:?}");
        }
    }

    #[test]
    fn replies_are_told_apart_by_what_the_caller_can_do() {
        use Operation::{Get, Head, List, Put, PutIf, PutLarge};
        for (operation, status, code, kind) in [
            (Get, 404, "NoSuchKey", Kind::NotFound),
            (Head, 404, "", Kind::NotFound),
            (Get, 404, "NoSuchBucket", Kind::Invalid),
            (List, 404, "", Kind::Invalid),
            (PutIf, 412, "PreconditionFailed", Kind::Conflict),
            (PutIf, 404, "NoSuchKey", Kind::Conflict),
            (PutIf, 409, "BlobAlreadyExists", Kind::Conflict),
            (PutIf, 409, "ConditionalRequestConflict", Kind::Passing),
            (Put, 403, "SignatureDoesNotMatch", Kind::Denied),
            (Put, 400, "ExpiredToken", Kind::Denied),
            (Put, 400, "EntityTooLarge", Kind::Invalid),
            (Put, 400, "RequestTimeout", Kind::Passing),
            (Put, 503, "SlowDown", Kind::SlowDown),
            (Put, 500, "", Kind::Passing),
            (Put, 301, "PermanentRedirect", Kind::Invalid),
            (Put, 501, "NotImplemented", Kind::Invalid),
            (PutLarge, 404, "NoSuchUpload", Kind::Passing),
        ] {
            assert_eq!(kind_of_reply(operation, Some(status), code), kind, "{status} {code}");
        }
    }
}
