//! Where the time goes: which stage everything else waits for.
//!
//! Whoever works says so with [`Activities::enter`] or [`Activities::within`]. Each stretch of wall
//! time is then shared out among those at work during it:
//!
//! - Reading, decoding and encoding hold processors. They get the share of the processors that they
//!   hold, and all of it when nobody else is at work: then the work at hand has no more parallelism.
//! - What is left of it belongs to the network while requests are in flight: processors are idle
//!   because everything that they could work on is waiting to be sent.
//! - With no request in flight it belongs to the programs that write: there is nothing to do yet.
//! - Nobody at work is nobody's time.
//!
//! So a pipeline with a slow store shows the network although its processors are busy now and then,
//! and one with a slow codec shows encoding although requests are always in flight.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::base::clock::Clock;

/// A stage of the way from a program to the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// Source bytes from the disk.
    Reading,
    /// Source chunks into elements, and these to where they belong.
    Decoding,
    /// Elements into objects.
    Encoding,
    /// Requests to the store, with the pauses before they are tried again.
    Network,
    /// Programs that write into the mount.
    Writer,
}

const ALL: [Activity; 5] = [
    Activity::Reading,
    Activity::Decoding,
    Activity::Encoding,
    Activity::Network,
    Activity::Writer,
];

/// A program that has a file open counts as writing for so long after its last write. Longer pauses
/// are its own affair: it may hold a log open for days.
const WRITER_PAUSE: Duration = Duration::from_secs(10);

/// What is shown of a running mount fades with this time constant: it is about the last minutes.
const MEMORY: Duration = Duration::from_mins(1);

/// Time below which nothing is said of where it went.
const TELLING: f64 = 0.02;

/// A codec that is not so many times as fast is not worth a word.
const WORTHWHILE: f64 = 1.5;

/// Seconds of wall time by activity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the activities")]
pub struct Seconds {
    pub reading: f64,
    pub decoding: f64,
    pub encoding: f64,
    pub network: f64,
    pub writer: f64,
}

impl Seconds {
    fn of(&self, activity: Activity) -> f64 {
        match activity {
            Activity::Reading => self.reading,
            Activity::Decoding => self.decoding,
            Activity::Encoding => self.encoding,
            Activity::Network => self.network,
            Activity::Writer => self.writer,
        }
    }

    fn add(&mut self, activity: Activity, seconds: f64) {
        let sum = match activity {
            Activity::Reading => &mut self.reading,
            Activity::Decoding => &mut self.decoding,
            Activity::Encoding => &mut self.encoding,
            Activity::Network => &mut self.network,
            Activity::Writer => &mut self.writer,
        };
        *sum += seconds;
    }

    /// Of all activities.
    pub fn sum(&self) -> f64 {
        ALL.iter().map(|activity| self.of(*activity)).sum()
    }

    fn fade(&mut self, factor: f64) {
        for activity in ALL {
            let now = self.of(activity);
            self.add(activity, now * (factor - 1.0));
        }
    }

    /// The activity with the largest share.
    fn largest(&self) -> Activity {
        let by_share = |a: &Activity, b: &Activity| self.of(*a).total_cmp(&self.of(*b));
        ALL.into_iter().max_by(by_share).unwrap_or(Activity::Network)
    }
}

/// What another codec did with chunks that were encoded anyway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// The codec, as `--codec` takes it.
    pub codec: String,
    /// How many times as fast it was.
    pub times_as_fast: f64,
    /// Bytes of its objects for one byte of those that were made.
    pub times_as_large: f64,
}

/// Where the time went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// What the rest waited for most.
    pub stage: Activity,
    /// Wall time of each stage.
    pub seconds: Seconds,
    /// With encoding as the bottleneck: what a faster codec would give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternative: Option<Alternative>,
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reading => "reading",
            Self::Decoding => "decoding",
            Self::Encoding => "encoding",
            Self::Network => "network",
            Self::Writer => "writer",
        })
    }
}

impl fmt::Display for Bottleneck {
    /// `encoding, 71 % of 12.3 s (network 20 %, decoding 9 %); blosc:zstd:1:shuffle would encode …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_PERCENT: f64 = 1.0;
        let sum = self.seconds.sum();
        let percent = |activity| 100.0 * self.seconds.of(activity) / sum.max(f64::MIN_POSITIVE);
        write!(f, "{}, {:.0} % of {sum:.1} s", self.stage, percent(self.stage))?;
        let mut others: Vec<Activity> = ALL.into_iter().filter(|it| *it != self.stage).collect();
        others.retain(|activity| percent(*activity) >= SHOWN_PERCENT);
        others.sort_by(|a, b| percent(*b).total_cmp(&percent(*a)));
        let others: Vec<String> = others
            .iter()
            .map(|activity| format!("{activity} {:.0} %", percent(*activity)))
            .collect();
        if !others.is_empty() {
            write!(f, " ({})", others.join(", "))?;
        }
        match &self.alternative {
            Some(it) => write!(
                f,
                "; {} would encode {:.1} times as fast, into {:.2} times the bytes",
                it.codec, it.times_as_fast, it.times_as_large
            ),
            None => Ok(()),
        }
    }
}

/// What is going on in one mount or import. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Activities(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    processors: u32,
    start: Instant,
    /// Nanoseconds after `start`.
    last_write: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    at_work: [u32; ALL.len()],
    /// Up to when time has been shared out.
    at: Instant,
    /// Since the last flush.
    total: Seconds,
    /// A flush is over: what comes next belongs to another.
    is_over: bool,
    recent: Seconds,
    trial: Trial,
}

/// The same chunks with two codecs.
#[derive(Debug, Clone, Default)]
struct Trial {
    codec: String,
    own: (f64, f64),
    other: (f64, f64),
}

/// Somebody at work; dropping it ends that.
#[derive(Debug)]
pub struct AtWork {
    activities: Activities,
    activity: Activity,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.activities.change(Some(self.activity), None);
    }
}

thread_local! {
    static OUTER: Cell<Option<Activity>> = const { Cell::new(None) };
}

/// Gives back what a thread did before, also if it panics.
struct Within<'a> {
    activities: &'a Activities,
    own: Activity,
    outer: Option<Activity>,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        OUTER.set(self.outer);
        self.activities.change(Some(self.own), self.outer);
    }
}

impl Default for Activities {
    fn default() -> Self {
        Self::new(Clock::system(), 1)
    }
}

impl Activities {
    /// Nobody at work yet; at most `processors` decode and encode at a time.
    pub fn new(clock: Clock, processors: usize) -> Self {
        let now = clock.now();
        Self(Arc::new(Inner {
            clock,
            processors: u32::try_from(processors).unwrap_or(u32::MAX).max(1),
            start: now,
            last_write: AtomicU64::new(0),
            state: Mutex::new(State {
                at_work: [0; ALL.len()],
                at: now,
                total: Seconds::default(),
                is_over: false,
                recent: Seconds::default(),
                trial: Trial::default(),
            }),
        }))
    }

    /// Counts somebody as at work until the result is dropped, on whichever thread.
    pub fn enter(&self, activity: Activity) -> AtWork {
        if activity == Activity::Writer {
            self.wrote();
        }
        self.change(None, Some(activity));
        AtWork { activities: self.clone(), activity }
    }

    /// Does something on this thread that counts as `activity`. What the thread did before does not
    /// go on meanwhile.
    pub fn within<T>(&self, activity: Activity, work: impl FnOnce() -> T) -> T {
        let outer = OUTER.replace(Some(activity));
        self.change(outer, Some(activity));
        let _within = Within { activities: self, own: activity, outer };
        work()
    }

    /// A program has written. Called for each write: it must be quick.
    pub fn wrote(&self) {
        let after = self.0.clock.now().saturating_duration_since(self.0.start).as_nanos();
        self.0.last_write.store(u64::try_from(after).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether encoding is what everything waits for at present, so that a trial is of use.
    pub fn is_encoding_the_bottleneck(&self) -> bool {
        let mut state = self.0.state.lock();
        self.catch_up(&mut state);
        state.recent.sum() > TELLING && state.recent.largest() == Activity::Encoding
    }

    /// How long something takes.
    pub fn timed<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let start = self.0.clock.now();
        let done = work();
        (done, self.0.clock.now().saturating_duration_since(start))
    }

    /// The same chunk was encoded by the codec in use, and by `codec` to see what that would give:
    /// time and size of both objects.
    pub fn tried(&self, codec: &str, own: (Duration, usize), other: (Duration, usize)) {
        let trial = &mut self.0.state.lock().trial;
        if trial.codec != codec {
            *trial = Trial { codec: codec.to_owned(), ..Trial::default() };
        }
        #[allow(clippy::cast_precision_loss, reason = "chunks are far below 2^52 bytes")]
        let add = |sum: &mut (f64, f64), (time, bytes): (Duration, usize)| {
            sum.0 += time.as_secs_f64();
            sum.1 += bytes as f64;
        };
        add(&mut trial.own, own);
        add(&mut trial.other, other);
    }

    /// Where the time of the last minutes went; `None` if nothing happened.
    pub fn recent(&self) -> Option<Bottleneck> {
        let mut state = self.0.state.lock();
        self.catch_up(&mut state);
        bottleneck(&state.recent, &state.trial)
    }

    /// Where the time went since the last call that was followed by anything.
    pub fn finish(&self) -> Option<Bottleneck> {
        let mut state = self.0.state.lock();
        self.catch_up(&mut state);
        state.is_over = true;
        bottleneck(&state.total, &state.trial)
    }

    fn change(&self, from: Option<Activity>, to: Option<Activity>) {
        let mut state = self.0.state.lock();
        self.catch_up(&mut state);
        if state.is_over && to.is_some() && state.at_work == [0; ALL.len()] {
            state.is_over = false;
            state.total = Seconds::default();
            state.trial = Trial::default();
        }
        let mut count = |activity: Option<Activity>, change: fn(u32) -> u32| {
            let slot = activity.and_then(|activity| state.at_work.get_mut(activity as usize));
            if let Some(count) = slot {
                *count = change(*count);
            }
        };
        count(from, |count| count.saturating_sub(1));
        count(to, |count| count.saturating_add(1));
    }

    /// Shares out the time up to now.
    fn catch_up(&self, state: &mut State) {
        let now = self.0.clock.now();
        let since = std::mem::replace(&mut state.at, now);
        let elapsed = now.saturating_duration_since(since);
        if elapsed.is_zero() {
            return;
        }
        let wrote = self.0.start + Duration::from_nanos(self.0.last_write.load(Ordering::Relaxed));
        let writing = (wrote + WRITER_PAUSE).saturating_duration_since(since).min(elapsed);
        let shares = shares(&state.at_work, self.0.processors, elapsed, writing);
        state.recent.fade((-elapsed.as_secs_f64() / MEMORY.as_secs_f64()).exp());
        for (activity, seconds) in ALL.into_iter().zip(shares) {
            state.recent.add(activity, seconds);
            state.total.add(activity, seconds);
        }
    }
}

fn bottleneck(seconds: &Seconds, trial: &Trial) -> Option<Bottleneck> {
    if seconds.sum() < TELLING {
        return None;
    }
    let stage = seconds.largest();
    let alternative = (stage == Activity::Encoding && trial.own.1 > 0.0 && trial.other.0 > 0.0)
        .then(|| Alternative {
            codec: trial.codec.clone(),
            times_as_fast: trial.own.0 / trial.other.0,
            times_as_large: trial.other.1 / trial.own.1,
        })
        .filter(|alternative| alternative.times_as_fast >= WORTHWHILE);
    Some(Bottleneck { stage, seconds: *seconds, alternative })
}

/// Seconds of `elapsed` for each activity. Programs wrote during `writing` of it, if they have
/// anything open.
fn shares(
    at_work: &[u32; ALL.len()],
    processors: u32,
    elapsed: Duration,
    writing: Duration,
) -> [f64; ALL.len()] {
    let [reading, decoding, encoding, network, writers] = at_work.map(f64::from);
    let elapsed = elapsed.as_secs_f64();
    let busy = reading + decoding + encoding;
    let held = (busy / f64::from(processors)).min(1.0);
    let (of_processors, of_network, of_writer) = if network > 0.0 {
        (held * elapsed, (1.0 - held) * elapsed, 0.0)
    } else if writers > 0.0 {
        (held * elapsed, 0.0, (1.0 - held) * writing.as_secs_f64())
    } else if busy > 0.0 {
        (elapsed, 0.0, 0.0)
    } else {
        (0.0, 0.0, 0.0)
    };
    let each = |count: f64| if busy > 0.0 { of_processors * count / busy } else { 0.0 };
    [each(reading), each(decoding), each(encoding), of_network, of_writer]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bottleneck: Option<Bottleneck>) -> String {
        bottleneck.map(|bottleneck| bottleneck.to_string()).unwrap_or_default()
    }

    fn second(clock: &Clock, seconds: u64) {
        clock.advance(Duration::from_secs(seconds));
    }

    #[test]
    fn idle_processors_with_requests_in_flight_wait_for_the_network() {
        let clock = Clock::manual();
        let activities = Activities::new(clock.clone(), 2);
        let sending = activities.enter(Activity::Network);
        let encoding = [activities.enter(Activity::Encoding), activities.enter(Activity::Encoding)];
        second(&clock, 2);
        drop(encoding);
        second(&clock, 6);
        drop(sending);
        assert_eq!(shown(activities.finish()), "network, 75 % of 8.0 s (encoding 25 %)");
    }

    #[test]
    fn busy_processors_are_the_bottleneck_however_many_requests_are_in_flight() {
        let clock = Clock::manual();
        let activities = Activities::new(clock.clone(), 2);
        let _sending: Vec<_> = (0..20).map(|_| activities.enter(Activity::Network)).collect();
        let _one = activities.enter(Activity::Encoding);
        let _other = activities.enter(Activity::Encoding);
        second(&clock, 10);
        activities.tried("faster", (Duration::from_secs(4), 100), (Duration::from_secs(1), 125));
        assert!(activities.is_encoding_the_bottleneck());
        assert_eq!(
            shown(activities.finish()),
            "encoding, 100 % of 10.0 s; faster would encode 4.0 times as fast, into 1.25 times the \
             bytes"
        );
    }

    #[test]
    fn reading_within_decoding_is_not_decoding() {
        let clock = Clock::manual();
        let activities = Activities::new(clock.clone(), 1);
        activities.within(Activity::Decoding, || {
            second(&clock, 1);
            activities.within(Activity::Reading, || second(&clock, 3));
            second(&clock, 1);
        });
        let spent = activities.finish().unwrap();
        assert_eq!(spent.stage, Activity::Reading);
        let expected = Seconds { reading: 3.0, decoding: 2.0, ..Seconds::default() };
        assert_eq!(spent.seconds, expected);
    }

    #[test]
    fn with_nothing_else_to_do_a_writer_is_waited_for_but_not_for_ever() {
        let clock = Clock::manual();
        let activities = Activities::new(clock.clone(), 2);
        let _open = activities.enter(Activity::Writer);
        second(&clock, 5);
        activities.wrote();
        second(&clock, 1000);
        let spent = activities.finish().unwrap();
        assert_eq!((spent.stage, spent.seconds.sum()), (Activity::Writer, 15.0));
    }

    #[test]
    fn one_that_works_alone_is_what_the_rest_waits_for() {
        let clock = Clock::manual();
        let activities = Activities::new(clock.clone(), 8);
        let _alone = activities.enter(Activity::Encoding);
        second(&clock, 4);
        assert_eq!(shown(activities.finish()), "encoding, 100 % of 4.0 s");
    }

    #[test]
    fn what_comes_after_a_flush_belongs_to_the_next_one() {
        let clock = Clock::manual();
        let activities = Activities::new(clock.clone(), 1);
        assert_eq!(activities.finish(), None);
        let sending = activities.enter(Activity::Network);
        second(&clock, 4);
        drop(sending);
        // Asked twice for the same work.
        assert_eq!(activities.finish(), activities.finish());
        second(&clock, 100);
        let _decoding = activities.enter(Activity::Decoding);
        second(&clock, 1);
        assert_eq!(shown(activities.finish()), "decoding, 100 % of 1.0 s");
    }
}
