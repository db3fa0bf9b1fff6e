//! Listings of a local folder.

use std::fs;
use std::io;

use super::error::Operation;
use super::folder::{Folder, Result, STAGED_FOLDER, attributes_of, from_io};
use super::location::Location;
use super::object::{ListedObject, Listing, Page, PageToken, Token};

/// Objects after which a page ends with the folder it is in.
const PAGE_OBJECTS: usize = 1000;

impl Folder {
    /// What lies in `folder`; nothing if it does not exist.
    pub(super) fn list_folder(&self, folder: &Location) -> Result<Listing> {
        let path = self.path(Operation::List, folder)?;
        let failed = |error| from_io(Operation::List, folder, &error);
        let mut listing = Listing::default();
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => return Ok(listing),
                _ => return Err(failed(error)),
            },
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            take_entry(folder, &entry, &mut listing).map_err(failed)?;
        }
        listing.objects.sort_by(|a, b| a.location.cmp(&b.location));
        listing.folders.sort();
        Ok(listing)
    }

    /// The objects of some of the folders below `folder`.
    pub(super) fn list_below(
        &self,
        folder: &Location,
        pending: Option<Vec<Location>>,
    ) -> Result<Page> {
        let mut pending = pending.unwrap_or_else(|| vec![folder.clone()]);
        let mut page = Page::default();
        while page.objects.len() < PAGE_OBJECTS {
            let Some(next) = pending.pop() else { return Ok(page) };
            let listing = self.list_folder(&next)?;
            page.objects.extend(listing.objects);
            page.unrepresentable.extend(listing.unrepresentable);
            pending.extend(listing.folders.iter().filter_map(|name| next.child(name).ok()));
        }
        page.next = (!pending.is_empty()).then_some(PageToken(Token::Folders(pending)));
        Ok(page)
    }
}

fn take_entry(folder: &Location, entry: &fs::DirEntry, listing: &mut Listing) -> io::Result<()> {
    let name = entry.file_name();
    let lossy = name.to_string_lossy();
    if lossy == STAGED_FOLDER {
        return Ok(());
    }
    let metadata = match fs::metadata(entry.path()) {
        Ok(metadata) => metadata,
        // Removed meanwhile, a link to nowhere, or one to itself.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Ok(()),
        Err(error) => return Err(error),
    };
    let location = name.to_str().and_then(|name| folder.child(name).ok());
    match location {
        Some(location) if metadata.is_file() => {
            let attributes = attributes_of(&metadata)?;
            listing.objects.push(ListedObject { location, attributes });
        }
        Some(_) if metadata.is_dir() => listing.folders.push(lossy.into_owned()),
        _ if folder.is_root() => listing.unrepresentable.push(lossy.into_owned()),
        _ => listing.unrepresentable.push(format!("{folder}/{lossy}")),
    }
    Ok(())
}
