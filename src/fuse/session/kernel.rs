//! mount(2) and umount2(2), for root.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::unistd::{getegid, geteuid};

use super::{FILE_SYSTEM_TYPE, MountError, MountOptions, UnmountError, holders, utab};

pub(super) fn mount(options: &MountOptions) -> Result<OwnedFd, MountError> {
    let device = open_device()?;
    let mut flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOATIME;
    flags.set(MsFlags::MS_RDONLY, options.read_only);
    nix::mount::mount(
        Some(options.source.as_str()),
        &options.mount_point,
        Some(FILE_SYSTEM_TYPE),
        flags,
        Some(data(options, &device).as_str()),
    )
    .map_err(|errno| match errno {
        Errno::ENODEV => MountError::NoDevice,
        errno => MountError::Refused { path: options.mount_point.clone(), source: errno.into() },
    })?;
    Ok(device.into())
}

fn open_device() -> Result<File, MountError> {
    OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(|error| {
        match error.kind() {
            io::ErrorKind::NotFound => MountError::NoDevice,
            _ => MountError::DeviceDenied(error),
        }
    })
}

/// Numbers and fixed words only: nothing a user wrote goes in here, so nothing needs escaping.
fn data(options: &MountOptions, device: &File) -> String {
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        geteuid(),
        getegid(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    data
}

pub(super) fn unmount(path: &Path) -> Result<(), UnmountError> {
    umount2(path, MntFlags::UMOUNT_NOFOLLOW).map_err(|errno| match errno {
        Errno::EBUSY => UnmountError::Busy { path: path.to_owned(), holders: holders(path) },
        errno => failed(path, errno),
    })?;
    utab::remove(path);
    Ok(())
}

pub(super) fn unmount_lazily(path: &Path) -> Result<(), UnmountError> {
    umount2(path, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW)
        .map_err(|errno| failed(path, errno))?;
    utab::remove(path);
    Ok(())
}

fn failed(path: &Path, errno: Errno) -> UnmountError {
    UnmountError::Failed { path: path.to_owned(), message: io::Error::from(errno).to_string() }
}
