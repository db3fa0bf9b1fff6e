//! `fusermount3`, the setuid helper by which users other than root mount and unmount.
//!
//! It opens /dev/fuse, mounts, and sends the open device over the Unix socket that `_FUSE_COMMFD`
//! names. The socket is its standard input here: that is inherited without any care for descriptor
//! numbers.

use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::{FILE_SYSTEM_TYPE, MountError, MountOptions, UnmountError, entry_at, holders};

/// Looked for on `PATH`, then where distributions put it: daemons often run with a short `PATH`.
const PROGRAMS: [&str; 3] = ["fusermount3", "/usr/bin/fusermount3", "/bin/fusermount3"];

pub(super) fn mount(options: &MountOptions) -> Result<OwnedFd, MountError> {
    if options.allow_other && !allow_other_is_permitted() {
        return Err(MountError::AllowOtherForbidden);
    }
    let failed =
        |message: String| MountError::Fusermount { path: options.mount_point.clone(), message };
    let (ours, theirs) = UnixStream::pair().map_err(|error| failed(error.to_string()))?;
    let output = first_program(|program| {
        Command::new(program)
            .arg("-o")
            .arg(option_text(options))
            .arg("--")
            .arg(&options.mount_point)
            .env("_FUSE_COMMFD", "0")
            .stdin(OwnedFd::from(theirs.try_clone()?))
            .stdout(Stdio::null())
            .output()
    });
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(MountError::NoFusermount);
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    if !output.status.success() {
        return Err(failed(said(&output)));
    }
    // Without our own copy of its end, reading ends at once where nothing was sent.
    drop(theirs);
    receive_descriptor(&ours)
        .map_err(|error| failed(error.to_string()))?
        .ok_or_else(|| failed("it sent no descriptor".to_owned()))
}

fn option_text(options: &MountOptions) -> String {
    let subtype = FILE_SYSTEM_TYPE.trim_start_matches("fuse.");
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut text =
        format!("nosuid,nodev,noatime,default_permissions,subtype={subtype},fsname={source}");
    if options.read_only {
        text.push_str(",ro");
    }
    if options.allow_other {
        text.push_str(",allow_other");
    }
    text
}

fn allow_other_is_permitted() -> bool {
    let text = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    text.lines().any(|line| line.trim() == "user_allow_other")
}

fn receive_descriptor(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    Ok(ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
}

pub(super) fn unmount(path: &Path) -> Result<(), UnmountError> {
    run_unmount(path, &["-u"])
}

pub(super) fn unmount_lazily(path: &Path) -> Result<(), UnmountError> {
    run_unmount(path, &["-u", "-z"])
}

fn run_unmount(path: &Path, flags: &[&str]) -> Result<(), UnmountError> {
    let output = first_program(|program| {
        Command::new(program).args(flags).arg("--").arg(path).stdin(Stdio::null()).output()
    });
    let message = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => said(&output),
        Err(error) => format!("fusermount3 could not be started: {error}"),
    };
    // Its exit code says only that it failed; the table and the processes say why.
    let holders = holders(path);
    if entry_at(path).is_some() && !holders.is_empty() {
        return Err(UnmountError::Busy { path: path.to_owned(), holders });
    }
    Err(UnmountError::Failed { path: path.to_owned(), message })
}

fn first_program(run: impl Fn(&str) -> io::Result<Output>) -> io::Result<Output> {
    let mut missing = None;
    for program in PROGRAMS {
        match run(program) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing = Some(error),
            outcome => return outcome,
        }
    }
    Err(missing.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    match text.trim() {
        "" => format!("it ended with {}", output.status),
        text => text.trim_start_matches("fusermount3: ").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_with_commas_and_backslashes_stays_one_option() {
        let options = MountOptions {
            source: "s3://bucket/a,b\\c".into(),
            mount_point: "/mnt".into(),
            read_only: true,
            allow_other: false,
        };
        let text = option_text(&options);
        assert!(text.contains(",fsname=s3://bucket/a\\,b\\\\c,ro"), "{text}");
        assert!(text.contains("subtype=zarrmount"));
    }

    #[test]
    fn nothing_sent_is_no_descriptor() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(receive_descriptor(&ours).unwrap().is_none());
    }
}
