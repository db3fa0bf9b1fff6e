//! Threads for work that keeps a processor busy, one for each processor.
//!
//! Such work would starve the threads that wait for kernel and network if it ran among them, and on
//! threads made as needed it would spread its buffers over many. Here the number of threads bounds
//! both.

use std::collections::VecDeque;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// What is done first when more is asked for than there are threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Work at whose end memory is given back.
    Ending,
    /// Work that leads to more work.
    Beginning,
}

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads. Cheap to clone; they end when the last clone is gone.
#[derive(Clone)]
pub struct Processors(Arc<Owner>);

struct Owner(Arc<Shared>, usize);

#[derive(Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    ready: Condvar,
}

#[derive(Default)]
struct Jobs {
    ending: VecDeque<Job>,
    beginning: VecDeque<Job>,
    is_over: bool,
}

impl Processors {
    /// Starts `threads` threads, at least one.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::<Shared>::default();
        let threads = threads.max(1);
        for number in 0..threads {
            let of_thread = Arc::clone(&shared);
            let named = thread::Builder::new().name(format!("processor-{number}"));
            if let Err(error) = named.spawn(move || of_thread.work()) {
                // With none at all, jobs are done by whoever asks.
                tracing::error!(%error, "a thread cannot be started");
                return Self(Arc::new(Owner(shared, number)));
            }
        }
        Self(Arc::new(Owner(shared, threads)))
    }

    /// How many there are.
    pub fn threads(&self) -> usize {
        self.0.1.max(1)
    }

    /// Does `work` on one of the threads. `None` if it panicked (logged). It is done even if nobody
    /// waits for it any more.
    pub async fn run<T, W>(&self, urgency: Urgency, work: W) -> Option<T>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let (sender, done) = oneshot::channel();
        let job: Job = Box::new(move || {
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(work));
            if outcome.is_err() {
                tracing::error!("work on a processor panicked; this is a defect");
            }
            // Nobody may wait any more.
            let _told = sender.send(outcome.ok()).is_ok();
        });
        if self.0.1 == 0 {
            job();
        } else {
            let shared = &self.0.0;
            let mut jobs = shared.jobs.lock();
            match urgency {
                Urgency::Ending => jobs.ending.push_back(job),
                Urgency::Beginning => jobs.beginning.push_back(job),
            }
            drop(jobs);
            shared.ready.notify_one();
        }
        done.await.ok().flatten()
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let job = {
                let mut jobs = self.jobs.lock();
                loop {
                    if let Some(job) = jobs.next() {
                        break job;
                    }
                    if jobs.is_over {
                        return;
                    }
                    self.ready.wait(&mut jobs);
                }
            };
            job();
        }
    }
}

impl Jobs {
    fn next(&mut self) -> Option<Job> {
        self.ending.pop_front().or_else(|| self.beginning.pop_front())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.jobs.lock().is_over = true;
        self.0.ready.notify_all();
    }
}

impl fmt::Debug for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processors").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_gives_memory_back_is_done_before_what_was_asked_for_earlier() {
        let processors = Processors::new(1);
        let (started, begun) = std::sync::mpsc::channel::<()>();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let order = Arc::clone(&order);
            move || order.lock().push(name)
        };
        let first = processors.run(Urgency::Beginning, move || {
            started.send(()).unwrap();
            wait.recv().unwrap();
        });
        let beginning = processors.run(Urgency::Beginning, note("beginning"));
        let ending = processors.run(Urgency::Ending, note("ending"));
        tokio::pin!(first, beginning, ending);
        assert!(futures::poll!(&mut first).is_pending());
        begun.recv().unwrap();
        assert!(futures::poll!(&mut beginning).is_pending());
        assert!(futures::poll!(&mut ending).is_pending());
        go.send(()).unwrap();
        futures::join!(first, beginning, ending);
        assert_eq!(*order.lock(), ["ending", "beginning"]);
    }

    #[tokio::test]
    async fn a_panic_ends_neither_the_thread_nor_who_waits() {
        let processors = Processors::new(1);
        let panicked = processors.run(Urgency::Ending, || assert_eq!(1, 2, "on purpose")).await;
        assert_eq!(panicked, None);
        assert_eq!(processors.run(Urgency::Ending, || 7).await, Some(7));
    }
}
