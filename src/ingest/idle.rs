//! Datasets that are left alone publish themselves.

use super::dataset::Event;
use super::driver::Ingest;
use crate::base::tasks;
use crate::namespace::Ino;
use crate::staging::FileId;
use crate::store::Location;

impl Ingest {
    /// Somebody writes to a dataset.
    pub(super) fn touch(&self, dataset: &Location) {
        if let Some(last) = self.0.activity.lock().get_mut(dataset) {
            *last = self.0.clock.now();
        }
    }

    /// Publishes what waits for a dataset once nobody has written to it for a while.
    pub(super) fn publish_when_idle(&self, dataset: &Location) {
        let now = self.0.clock.now();
        if self.0.activity.lock().insert(dataset.clone(), now).is_some() {
            return;
        }
        let (engine, dataset) = (self.clone(), dataset.clone());
        tasks::spawn("idle", async move { engine.wait_until_idle(&dataset).await });
    }

    async fn wait_until_idle(&self, dataset: &Location) {
        let (clock, idle) = (&self.0.clock, self.0.options.idle);
        loop {
            let last = self.0.activity.lock().get(dataset).copied();
            let left = last.map(|last| idle.saturating_sub(clock.now().duration_since(last)));
            match left {
                Some(left) if !left.is_zero() => clock.sleep(left).await,
                Some(_) if self.is_being_written(dataset) => clock.sleep(idle).await,
                _ => break,
            }
        }
        self.0.activity.lock().remove(dataset);
        if self.is_gathering(dataset) {
            tracing::info!(%dataset, "left alone: published");
        }
        self.feed(dataset, Event::Due);
    }

    /// Whether a source file of the dataset is open for writing.
    fn is_being_written(&self, dataset: &Location) -> bool {
        self.0.tree.staged_below(Ino::ROOT).into_iter().any(|(ino, path)| {
            let file = self.0.staging.file(FileId(ino.0));
            file.is_some_and(|file| file.writers() > 0)
                && self.target(&path).is_some_and(|target| target.dataset() == dataset)
        })
    }
}
