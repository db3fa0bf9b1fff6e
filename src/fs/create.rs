//! Making files.

use super::files::Settled;
use super::handles::Handle;
use super::open::direct_if_stream;
use super::{Attr, Caller, Error, Fs, OpenFlags, Opened};
use crate::namespace::{Attributes, Entry, Ino, PlaceError};
use crate::staging::FileId;
use crate::store::Location;
use crate::telemetry::activities::Activity;

/// Permission bits that are kept. Set-user-id and set-group-id are not: what a bucket holds should
/// not run with someone else's rights.
const MODE_BITS: u32 = 0o1777;

impl Fs {
    /// Makes a file and opens it; opens it if it is there, unless `flags.exclusive`. The kernel holds
    /// it from now on.
    pub async fn create(
        &self,
        caller: Caller,
        parent: Ino,
        name: &str,
        mode: u32,
        flags: OpenFlags,
    ) -> Result<(Attr, Opened), Error> {
        let path = self.new_path(parent, name)?;
        if let Some(entry) = self.find(parent, name).await? {
            return self.open_present(&entry, flags).await;
        }
        if self.claims(&path) {
            self.ingest.prepare(&path).await?;
        }
        let attributes = self.new_attributes(caller, mode);
        let ino = match self.tree.create_file(parent, name, attributes) {
            Ok(ino) => ino,
            Err(PlaceError::Taken(ino)) => {
                let entry = self.tree.entry(ino).ok_or(Error::NotFound)?;
                return self.open_present(&entry, flags).await;
            }
            Err(error @ PlaceError::NoFolder) => return Err(error.into()),
        };
        let opened = self.stage_new(ino, &path, &attributes, flags)?;
        self.tree.remember(ino);
        let entry = self.tree.entry(ino).ok_or(Error::NotFound)?;
        Ok((self.local_attr(&entry)?, opened))
    }

    async fn open_present(&self, entry: &Entry, flags: OpenFlags) -> Result<(Attr, Opened), Error> {
        if flags.exclusive {
            return Err(Error::Exists);
        }
        if entry.is_folder() {
            return Err(Error::IsFolder);
        }
        self.tree.remember(entry.ino);
        let opened = self.open(entry.ino, flags).await;
        let attr = match opened {
            Ok(opened) => self.getattr(entry.ino, Some(opened.fh)).await.map(|attr| (attr, opened)),
            Err(error) => Err(error),
        };
        if attr.is_err() {
            self.forget(entry.ino, 1);
        }
        attr
    }

    fn stage_new(
        &self,
        ino: Ino,
        path: &Location,
        attributes: &Attributes,
        flags: OpenFlags,
    ) -> Result<Opened, Error> {
        let record = super::attributes::record_of(attributes);
        let file = match self.staging.create(FileId(ino.0), path, &record) {
            Ok(file) => file,
            Err(error) => {
                self.tree.remove_file(ino);
                return Err(error.into());
            }
        };
        file.open_writer();
        self.files.begin(ino, &file, Settled::Never);
        self.call_back(ino, Some(path));
        let writer = Some(self.activities.enter(Activity::Writer));
        let handle = Handle { writer, file: Some(file), ..Handle::new(ino, flags) };
        Ok(Opened { fh: self.handles.add(handle), cache: direct_if_stream(flags) })
    }

    /// Makes an empty regular file without opening it. The kernel holds it from now on.
    pub async fn mknod(
        &self,
        caller: Caller,
        parent: Ino,
        name: &str,
        mode: u32,
    ) -> Result<Attr, Error> {
        let kind = mode & libc::S_IFMT;
        if kind != libc::S_IFREG && kind != 0 {
            return Err(Error::NoSuchKind("a device, pipe or socket"));
        }
        let flags = OpenFlags { write: true, exclusive: true, ..OpenFlags::default() };
        let (attr, opened) = self.create(caller, parent, name, mode, flags).await?;
        self.release(opened.fh);
        Ok(attr)
    }

    pub(super) fn new_attributes(&self, caller: Caller, mode: u32) -> Attributes {
        let now = self.clock.wall();
        Attributes {
            mode: self.new_mode(mode),
            uid: self.options.uid.unwrap_or(caller.uid),
            gid: self.options.gid.unwrap_or(caller.gid),
            atime: now,
            mtime: now,
            ctime: now,
        }
    }

    pub(super) fn new_mode(&self, mode: u32) -> u32 {
        mode & MODE_BITS & !self.options.umask
    }

    pub(super) fn changed_mode(mode: u32) -> u32 {
        mode & MODE_BITS
    }
}
