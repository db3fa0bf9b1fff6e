//! Time by argument: the one place that asks the machine what time it is.
//!
//! Everything that waits or stamps takes a [`Clock`], so that a test can let an hour pass at once.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

/// A source of monotonic and wall-clock time, cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual { start: Instant, start_wall: SystemTime, elapsed: Arc<watch::Sender<Duration>> },
}

impl Clock {
    /// The machine's clock.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until [`advance`](Self::advance).
    pub fn manual() -> Self {
        Self(Source::Manual {
            start: system_instant(),
            start_wall: SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 50),
            elapsed: Arc::new(watch::Sender::new(Duration::ZERO)),
        })
    }

    /// Lets time pass on a manual clock and wakes who waits for it. Does nothing on the system clock.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual { elapsed, .. } = &self.0 {
            elapsed.send_modify(|elapsed| *elapsed = elapsed.saturating_add(by));
        }
    }

    /// Monotonic time.
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System => system_instant(),
            Source::Manual { start, elapsed, .. } => *start + *elapsed.borrow(),
        }
    }

    /// Wall-clock time.
    pub fn wall(&self) -> SystemTime {
        match &self.0 {
            Source::System => system_wall(),
            Source::Manual { start_wall, elapsed, .. } => *start_wall + *elapsed.borrow(),
        }
    }

    /// Returns once `duration` has passed.
    pub async fn sleep(&self, duration: Duration) {
        match &self.0 {
            Source::System => tokio::time::sleep(duration).await,
            Source::Manual { elapsed, .. } => {
                let mut elapsed = elapsed.subscribe();
                let until = elapsed.borrow().saturating_add(duration);
                // The sender lives in `self`, so waiting cannot end early.
                let _ended = elapsed.wait_for(|elapsed| *elapsed >= until).await.is_ok();
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the clock is where time comes from")]
fn system_instant() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "the clock is where time comes from")]
fn system_wall() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_it_is_advanced() {
        let clock = Clock::manual();
        let before = clock.now();
        let sleeper = {
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_hours(1)).await }
        };
        tokio::pin!(sleeper);
        assert!(futures::poll!(&mut sleeper).is_pending());
        clock.advance(Duration::from_mins(59));
        assert!(futures::poll!(&mut sleeper).is_pending());
        clock.advance(Duration::from_mins(1));
        sleeper.await;
        assert_eq!(clock.now() - before, Duration::from_hours(1));
    }
}
