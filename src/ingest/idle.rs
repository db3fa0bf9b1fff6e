//! Datasets that are left alone publish themselves.

use std::sync::Arc;
use std::time::Duration;

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
        // Who waits does not keep the engine alive.
        let (engine, clock) = (Arc::downgrade(&self.0), self.0.clock.clone());
        let dataset = dataset.clone();
        tasks::spawn("idle", async move {
            while let Some(wait) = engine.upgrade().and_then(|it| Self(it).idle_for(&dataset)) {
                clock.sleep(wait).await;
            }
        });
    }

    /// How long to wait until the dataset may have been left alone for long enough. `None`: it has,
    /// and what waits for it is published.
    fn idle_for(&self, dataset: &Location) -> Option<Duration> {
        let idle = self.0.options.idle;
        let last = self.0.activity.lock().get(dataset).copied();
        let passed = last.map(|last| self.0.clock.now().duration_since(last));
        match passed.map(|passed| idle.saturating_sub(passed)) {
            Some(left) if !left.is_zero() => return Some(left),
            Some(_) if self.is_being_written(dataset) => return Some(idle),
            _ => {}
        }
        self.0.activity.lock().remove(dataset);
        if self.is_gathering(dataset) {
            tracing::info!(%dataset, "left alone: published");
        }
        self.feed(dataset, Event::Due);
        None
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
