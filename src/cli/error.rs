//! Errors as the user sees them: `error: …`, and what to do as `hint: …`.

use std::fmt::Display;

use super::exit::Exit;
use super::output::tell;
use crate::base::durable::FileError;
use crate::config::ConfigError;
use crate::config::layers::LayerError;
use crate::config::machine::NoStateHome;
use crate::fuse::session::{MountError, UnmountError};
use crate::mount::client::ClientError;
use crate::mount::daemon::StartError;
use crate::mount::launch::LaunchError;
use crate::mount::registry::RegistryError;
use crate::mount::status::Phase;
use crate::mount::wiring::OpenError;
use crate::telemetry::logging::LoggingError;

/// What went wrong, what to do about it, and the exit code.
#[derive(Debug)]
pub(super) struct CliError {
    pub(super) message: String,
    pub(super) hints: Vec<String>,
    pub(super) exit: Exit,
}

impl CliError {
    #[allow(clippy::needless_pass_by_value, reason = "so that errors and texts can be given alike")]
    pub(super) fn new(exit: Exit, message: impl Display) -> Self {
        Self { message: message.to_string(), hints: Vec::new(), exit }
    }

    pub(super) fn failed(message: impl Display) -> Self {
        Self::new(Exit::Failed, message)
    }

    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(super) fn print(&self) {
        tell(format_args!("error: {}", self.message));
        for hint in &self.hints {
            tell(format_args!("hint: {hint}"));
        }
    }
}

impl From<NoStateHome> for CliError {
    fn from(error: NoStateHome) -> Self {
        Self::failed(error).hint("set HOME, or XDG_STATE_HOME to a folder that survives a reboot")
    }
}

impl From<LayerError> for CliError {
    fn from(error: LayerError) -> Self {
        let hint = match &error {
            LayerError::Unknown { place, .. } if place == "-o" => {
                "`zarrmount help mount` lists the options; inside `-o` write \
                 `chunks=time=1:lat=256`, because `,` separates options there"
            }
            LayerError::Unknown { .. } => "`zarrmount help mount` lists the options",
            _ => return Self::new(Exit::Usage, error),
        };
        Self::new(Exit::Usage, error).hint(hint)
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        let hint = match &error {
            ConfigError::Nested { .. } => "choose a folder outside",
            ConfigError::Url(_) | ConfigError::Invalid { .. } => {
                return Self::new(Exit::Usage, error);
            }
        };
        Self::new(Exit::Usage, error).hint(hint)
    }
}

impl From<LoggingError> for CliError {
    fn from(error: LoggingError) -> Self {
        Self::new(Exit::Usage, error)
    }
}

impl From<MountError> for CliError {
    fn from(error: MountError) -> Self {
        let hint = match &error {
            MountError::Missing(path) => format!("mkdir -p '{}'", path.display()),
            MountError::AlreadyMounted { path, .. } => {
                format!("zarrmount umount '{}'", path.display())
            }
            MountError::ForeignDeadMount { path, .. } => {
                format!("fusermount3 -u '{}', or umount as root", path.display())
            }
            MountError::NoDevice => "load the kernel module (`modprobe fuse`); a container needs \
                 `--device /dev/fuse --cap-add SYS_ADMIN`"
                .to_owned(),
            MountError::DeviceDenied(_) => {
                "distributions ship it open to all: `chmod 666 /dev/fuse` as root; a container \
                 needs `--device /dev/fuse`"
                    .to_owned()
            }
            MountError::Refused { .. } => {
                "mounting needs CAP_SYS_ADMIN; a container needs `--cap-add SYS_ADMIN`".to_owned()
            }
            MountError::NoFusermount => {
                "install the package `fuse3` (Debian, Ubuntu, Fedora, Alpine, Arch)".to_owned()
            }
            MountError::Fusermount { .. } => {
                "the mount point must belong to you and be writable".to_owned()
            }
            MountError::AllowOtherForbidden => {
                "add the line as root, or mount without --allow-other".to_owned()
            }
            MountError::NotAFolder(_)
            | MountError::Inaccessible { .. }
            | MountError::Handshake(_) => return Self::failed(error),
        };
        Self::failed(error).hint(hint)
    }
}

impl From<UnmountError> for CliError {
    fn from(error: UnmountError) -> Self {
        let exit = match &error {
            UnmountError::Busy { .. } => Exit::Busy,
            UnmountError::Failed { .. }
            | UnmountError::Gone { .. }
            | UnmountError::Covered { .. } => Exit::Failed,
        };
        Self::new(exit, error)
    }
}

impl From<RegistryError> for CliError {
    fn from(error: RegistryError) -> Self {
        let hint = match &error {
            RegistryError::InUse { dir, phase: Phase::Draining, .. } => format!(
                "it still sends what was copied before; `zarrmount umount '{}'` shows how far it is",
                dir.display()
            ),
            RegistryError::InUse { dir, .. } => format!("zarrmount umount '{}'", dir.display()),
            RegistryError::UnsafeFolder(_) => {
                "set XDG_STATE_HOME to a shorter path, or remove that folder".to_owned()
            }
            RegistryError::File(_) => {
                "set XDG_STATE_HOME to a folder that you can write to".to_owned()
            }
            RegistryError::Damaged { path, .. } => {
                format!("remove {}: it only records the mount, no data", path.display())
            }
        };
        Self::failed(error).hint(hint)
    }
}

impl From<FileError> for CliError {
    fn from(error: FileError) -> Self {
        RegistryError::File(error).into()
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        Self::failed(error)
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Registry(error) => error.into(),
            StartError::Mount(error) => error.into(),
            StartError::Open(error) => error.into(),
            StartError::Socket(_) | StartError::System(_) | StartError::Abandoned(_) => {
                Self::failed(error)
            }
        }
    }
}

impl From<LaunchError> for CliError {
    fn from(error: LaunchError) -> Self {
        Self::failed(error)
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        Self::failed(error)
    }
}
