//! From the kernel's operations to [`Fs`], and back: numbers, names and flags. No decisions.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType,
    Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use tokio::runtime::Handle;

use super::run::{run, run_now};
use crate::fs::{Attr, BLOCK_BYTES, Cache, Caller, Changes, Error, Fs, Kind, SetTime, Written};
use crate::namespace::Ino;

/// How long the kernel believes names and attributes: what it did not change itself (an ingest that
/// was published) shows after this time.
const TTL: Duration = Duration::from_secs(1);

/// Numbers are never given twice, so one generation is enough.
const GENERATION: Generation = Generation(0);

/// Largest write the kernel may send; more than 1 MiB it does not.
const WRITE_BYTES_MAX: u32 = 1 << 20;

/// Requests in the background (readahead, direct writes in parallel); the kernel's default is 12.
const BACKGROUND_MAX: u16 = 64;

/// What readdir tells for a name that has no number yet. Zero would hide the name.
const NO_NUMBER: INodeNo = INodeNo(0xffff_ffff);

/// The file system as fuser wants it.
#[derive(Debug)]
pub struct FuseFilesystem {
    fs: Arc<Fs>,
    runtime: Handle,
}

impl FuseFilesystem {
    /// Operations that wait go on in `runtime`.
    pub fn new(fs: Arc<Fs>, runtime: Handle) -> Self {
        Self { fs, runtime }
    }

    fn fs(&self) -> Arc<Fs> {
        Arc::clone(&self.fs)
    }
}

impl Filesystem for FuseFilesystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            // Else the kernel asks for `security.capability` before every write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
        ] {
            if let Err(missing) = config.add_capabilities(wanted) {
                tracing::info!(?missing, "the kernel lacks a capability; slower, not wrong");
            }
        }
        if let Err(most) = config.set_max_write(WRITE_BYTES_MAX) {
            tracing::info!(most, "the kernel writes smaller pieces");
        }
        if let Err(least) = config.set_max_background(BACKGROUND_MAX) {
            tracing::info!(least, "the kernel's default of background requests stays");
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (fs, name) = (self.fs(), text_of(name));
        let work = async move { fs.lookup(Ino(parent.0), &name.ok_or(Error::NotFound)?).await };
        run(&self.runtime, "lookup", reply, work, answer_entry);
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.fs.forget(Ino(ino.0), lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        let (fs, fh) = (self.fs(), fh.map(|fh| fh.0));
        let work = async move { fs.getattr(Ino(ino.0), fh).await };
        run(&self.runtime, "getattr", reply, work, answer_attr);
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (atime, mtime) = (atime.map(time_of), mtime.map(time_of));
        let changes = Changes { mode, uid, gid, size, atime, mtime };
        let (fs, fh) = (self.fs(), fh.map(|fh| fh.0));
        let work = async move { fs.setattr(Ino(ino.0), fh, changes).await };
        run(&self.runtime, "setattr", reply, work, answer_attr);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let (fs, caller, name) = (self.fs(), caller(request), name_of(name));
        let work = async move { fs.mknod(caller, Ino(parent.0), &name?, mode).await };
        run(&self.runtime, "mknod", reply, work, answer_entry);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let (fs, caller, name) = (self.fs(), caller(request), name_of(name));
        let work = async move { fs.mkdir(caller, Ino(parent.0), &name?, mode).await };
        run(&self.runtime, "mkdir", reply, work, answer_entry);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (fs, name) = (self.fs(), name_of(name));
        let work = async move { fs.unlink(Ino(parent.0), &name?).await };
        run(&self.runtime, "unlink", reply, work, answer_empty);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (fs, name) = (self.fs(), name_of(name));
        let work = async move { fs.rmdir(Ino(parent.0), &name?).await };
        run(&self.runtime, "rmdir", reply, work, answer_empty);
    }

    fn symlink(&self, _: &Request, _: INodeNo, name: &OsStr, _: &Path, reply: ReplyEntry) {
        tracing::warn!(?name, "symbolic links cannot be kept in a bucket");
        reply.error(Errno::EPERM);
    }

    fn readlink(&self, _: &Request, _: INodeNo, reply: ReplyData) {
        reply.error(Errno::EINVAL);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (fs, from, to) = (self.fs(), name_of(name), name_of(newname));
        let work = async move {
            if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
                return Err(Error::BadFlags("exchanging two names"));
            }
            let no_replace = flags.contains(RenameFlags::RENAME_NOREPLACE);
            fs.rename((Ino(parent.0), &from?), (Ino(newparent.0), &to?), no_replace).await
        };
        run(&self.runtime, "rename", reply, work, answer_empty);
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let (fs, name) = (self.fs(), name_of(newname));
        let work = async move { fs.link(Ino(ino.0), Ino(newparent.0), &name?).await };
        run(&self.runtime, "link", reply, work, answer_entry);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (fs, caller, name) = (self.fs(), caller(request), name_of(name));
        let flags = crate::fs::OpenFlags::from_bits(flags);
        let work = async move { fs.create(caller, Ino(parent.0), &name?, mode, flags).await };
        run(&self.runtime, "create", reply, work, move |reply, (attr, opened)| {
            let cache = cache_flags(opened.cache, flags);
            reply.created(&TTL, &file_attr(&attr), GENERATION, FileHandle(opened.fh), cache);
        });
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let fs = self.fs();
        let flags = crate::fs::OpenFlags::from_bits(flags.0);
        let work = async move { fs.open(Ino(ino.0), flags).await };
        run(&self.runtime, "open", reply, work, move |reply, opened| {
            reply.opened(FileHandle(opened.fh), cache_flags(opened.cache, flags));
        });
    }

    fn read(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let fs = self.fs();
        let work = async move { fs.read(fh.0, offset, u64::from(size)).await };
        run(&self.runtime, "read", reply, work, |reply, bytes: Bytes| reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let answer = |reply: ReplyWrite, written| match written {
            Written::Taken(count) => reply.written(count),
            Written::Full => {
                let (fs, data) = (self.fs(), Bytes::copy_from_slice(data));
                let work = async move { fs.write_parked(fh.0, offset, data).await };
                run(&self.runtime, "write", reply, work, ReplyWrite::written);
            }
        };
        run_now("write", reply, |_| self.fs.write(fh.0, offset, data), answer);
    }

    fn flush(&self, _: &Request, _: INodeNo, fh: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let fs = self.fs();
        run(&self.runtime, "flush", reply, async move { fs.flush(fh.0).await }, answer_empty);
    }

    fn release(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        // In the runtime's context: the ingest may start a task.
        let fs = self.fs();
        let work = async move {
            fs.release(fh.0);
            Ok(())
        };
        run(&self.runtime, "release", reply, work, answer_empty);
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        let fs = self.fs();
        run(&self.runtime, "fsync", reply, async move { fs.fsync(fh.0).await }, answer_empty);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let fs = self.fs();
        let work = async move { fs.opendir(Ino(ino.0)).await };
        run(&self.runtime, "opendir", reply, work, |reply, fh| {
            reply.opened(FileHandle(fh), FopenFlags::empty());
        });
    }

    fn readdir(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let fill = |reply: &mut ReplyDirectory| self.fill(fh.0, offset, reply);
        run_now("readdir", reply, fill, |reply, ()| reply.ok());
    }

    fn readdirplus(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let fill = |reply: &mut ReplyDirectoryPlus| self.fill_plus(fh.0, offset, reply);
        run_now("readdirplus", reply, fill, |reply, ()| reply.ok());
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.fs.releasedir(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let fs = self.fs();
        let work = async move { fs.fsyncdir(Ino(ino.0)).await };
        run(&self.runtime, "fsyncdir", reply, work, answer_empty);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let space = self.fs.statfs();
        let block = u64::from(BLOCK_BYTES);
        let total = space.bytes_total / block;
        // `df` then shows what staging can take as available, and a bucket that is not full.
        let used = space.bytes_staged.div_ceil(block);
        let (free, available) = (total.saturating_sub(used), space.bytes_free / block);
        // Files have no limit: a large round number is free.
        let free_files = 1 << 32;
        let files = free_files + space.files;
        reply.statfs(total, free, available, files, free_files, BLOCK_BYTES, 255, BLOCK_BYTES);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        // Mounted with `default_permissions`, the kernel decides from mode and owner.
        reply.ok();
    }

    fn setxattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: &[u8],
        _: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        // The kernel then answers EOPNOTSUPP by itself and asks no more.
        reply.error(Errno::ENOSYS);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    // What follows the kernel does by itself once it has heard that it is not done here; fuser's own
    // answers would also fill the log.

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(Errno::ENOSYS);
    }
}

impl FuseFilesystem {
    fn fill(&self, fh: u64, offset: u64, reply: &mut ReplyDirectory) -> Result<(), Error> {
        for index in offset.. {
            let Some(line) = self.fs.folder_line(fh, index)? else { break };
            let ino = line.ino.map_or(NO_NUMBER, |ino| INodeNo(ino.0));
            if reply.add(ino, index + 1, file_type(line.kind), &*line.name) {
                break;
            }
        }
        Ok(())
    }

    fn fill_plus(&self, fh: u64, offset: u64, reply: &mut ReplyDirectoryPlus) -> Result<(), Error> {
        for index in offset.. {
            let Some(line) = self.fs.folder_line(fh, index)? else { break };
            let looked_up = self.fs.lookup_line(fh, index)?;
            let attr = looked_up.map_or_else(|| nameless(&line), |attr| file_attr(&attr));
            let full = reply.add(attr.ino, index + 1, &*line.name, &TTL, &attr, GENERATION);
            if full {
                if let Some(attr) = looked_up {
                    self.fs.forget(attr.ino, 1);
                }
                break;
            }
        }
        Ok(())
    }
}

/// A line without a lookup: number 0 tells the kernel that there is none.
fn nameless(line: &crate::fs::FolderLine) -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind: file_type(line.kind),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.size.div_ceil(512),
        atime: attr.attributes.atime,
        mtime: attr.attributes.mtime,
        ctime: attr.attributes.ctime,
        crtime: attr.attributes.ctime,
        kind: file_type(attr.kind),
        // Masked to permission bits, which fit.
        perm: u16::try_from(attr.attributes.mode & 0o7777).unwrap_or(0),
        nlink: if attr.kind == Kind::Folder { 2 } else { 1 },
        uid: attr.attributes.uid,
        gid: attr.attributes.gid,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

const fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Folder => FileType::Directory,
    }
}

fn cache_flags(cache: Cache, flags: crate::fs::OpenFlags) -> FopenFlags {
    let pages = match cache {
        Cache::Direct => FopenFlags::FOPEN_DIRECT_IO,
        Cache::Fresh => FopenFlags::empty(),
        Cache::Keep => FopenFlags::FOPEN_KEEP_CACHE,
    };
    // A close of what was only read has nothing to report.
    if flags.write { pages } else { pages | FopenFlags::FOPEN_NOFLUSH }
}

fn answer_entry(reply: ReplyEntry, attr: Attr) {
    reply.entry(&TTL, &file_attr(&attr), GENERATION);
}

fn answer_attr(reply: ReplyAttr, attr: Attr) {
    reply.attr(&TTL, &file_attr(&attr));
}

fn answer_empty(reply: ReplyEmpty, (): ()) {
    reply.ok();
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

fn time_of(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(time),
    }
}

fn text_of(name: &OsStr) -> Option<String> {
    name.to_str().map(str::to_owned)
}

fn name_of(name: &OsStr) -> Result<String, Error> {
    text_of(name).ok_or_else(|| Error::BadName(name.to_string_lossy().into_owned()))
}
