//! Taking up what an earlier daemon left in staging.

use super::attributes::recorded;
use super::files::Settled;
use super::rename::FILE_NOTE_PREFIX;
use super::rename_folder::{Cut, NOTE_PREFIX};
use super::{Error, Fs};
use crate::namespace::Ino;
use crate::staging::Recovered;
use crate::store::Location;

impl Fs {
    /// Shows again what was closed, and hands it over. What was still being written is not a file:
    /// it stays in staging until someone decides. Before the kernel asks for anything.
    pub fn restore(&self, recovered: &Recovered) {
        self.tree.reserve(recovered.next_id);
        for location in &recovered.deletes {
            self.tree.restore_deletion(location);
            self.queue.delete(location);
        }
        for left in &recovered.files {
            if !left.closed {
                let mut partial = self.partial.lock();
                partial.entry(left.path.clone()).or_default().push(left.id);
                continue;
            }
            let Some(file) = self.staging.file(left.id) else { continue };
            let ino = Ino(left.id.0);
            self.tree.restore_file(ino, &left.path, recorded(&left.attributes));
            self.files.begin(ino, &file, Settled::Sealed(file.generation()));
            self.hand_over(ino);
        }
    }

    /// A whole file has this name now: what was cut short under it is not wanted any more.
    pub(super) fn supersede(&self, path: &Location) {
        for id in self.partial.lock().remove(path).unwrap_or_default() {
            tracing::info!(%path, "a partial copy gives way to a whole one");
            if let Err(error) = self.staging.discard(id) {
                tracing::error!(%path, %error, "cannot record that a partial copy was discarded");
            }
        }
    }

    /// Ends the renames that an earlier daemon had begun to copy. After [`Fs::restore`], and
    /// before the kernel asks for anything. What cannot be ended now is tried at the next start.
    pub async fn resume_renames(&self, recovered: &Recovered) -> Result<(), Error> {
        for (key, note) in recovered.notes.iter().filter(|(key, _)| key.starts_with(NOTE_PREFIX)) {
            tracing::warn!(key, "a folder rename was cut short; it is ended now");
            let cut: Cut = serde_json::from_value(note.clone()).map_err(std::io::Error::other)?;
            self.end_rename(&cut).await?;
        }
        let files = recovered.notes.iter().filter(|(key, _)| key.starts_with(FILE_NOTE_PREFIX));
        for (key, note) in files {
            tracing::warn!(key, "a rename was cut short; it is ended now");
            let cut: Cut = serde_json::from_value(note.clone()).map_err(std::io::Error::other)?;
            self.end_file_rename(&cut).await?;
        }
        Ok(())
    }
}
