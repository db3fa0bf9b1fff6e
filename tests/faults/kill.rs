//! `kill -9` of the daemon at any moment, then a remount: nothing acknowledged is missing, nothing
//! is shown before it is there, and in the end the bucket is as without the kill.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bucket::Bucket;
use zarrmount::netcdf::fixtures::{ocean, write_netcdf4};

use crate::daemon::{Daemon, Place, copy_in};
use crate::order::{Acknowledged, violations};
use crate::support::request_log::digest;
use crate::support::{LoggedRequest, Moment, S3Server};
use crate::sweep::{seeds, sweep};
use crate::workload::{Op, content_in, files_after, key, ops, reference};

/// When the daemon dies.
#[derive(Debug, Clone, Copy)]
enum Trigger {
    /// At a moment of the request of this number since it started.
    Request(u64, Moment),
    /// With the write that makes its journal longer than this: the record is cut there.
    Journal(u64),
    /// So long after it started.
    Time(Duration),
    Never,
}

impl Trigger {
    /// Within what a run of the reference's size does.
    fn draw(random: &mut fastrand::Rng, requests: u64, journal_bytes: u64, took: Duration) -> Self {
        match random.u32(0..10) {
            0..6 => {
                let moments = [Moment::Begun, Moment::Arrived, Moment::Done];
                let moment = random.choice(moments).unwrap();
                Self::Request(random.u64(0..requests.max(1)), moment)
            }
            6..9 => Self::Journal(random.u64(1500..journal_bytes.max(2000))),
            _ => Self::Time(took.mul_f64(random.f64())),
        }
    }
}

/// A bucket, a place to mount it, and who kills.
struct Scene {
    server: S3Server,
    place: Place,
}

impl Scene {
    fn new() -> Self {
        let server = S3Server::start();
        let place = Place::new(&server);
        Self { server, place }
    }

    /// Starts a daemon that will be killed; `None` if that was before it served.
    fn mount(&self, trigger: Trigger) -> Option<Daemon> {
        let victim = Arc::new(AtomicI32::new(0));
        let strike = {
            let victim = Arc::clone(&victim);
            move || {
                let pid = victim.load(Ordering::SeqCst);
                // It may have ended by itself.
                let _gone = pid > 0 && kill(Pid::from_raw(pid), Signal::SIGKILL).is_err();
            }
        };
        let mut journal_bytes_max = None;
        match trigger {
            Trigger::Request(number, at) => {
                let seen = AtomicU64::new(0);
                self.server.set_witness(Box::new(move |_, moment| {
                    if moment == at && seen.fetch_add(1, Ordering::SeqCst) == number {
                        strike();
                    }
                }));
            }
            Trigger::Journal(bytes) => journal_bytes_max = Some(bytes),
            Trigger::Time(after) => {
                // Ends with the test's process; a daemon that has ended is not hit any more.
                std::thread::spawn(move || {
                    std::thread::sleep(after);
                    strike();
                });
            }
            Trigger::Never => {}
        }
        self.place.mount(journal_bytes_max, victim)
    }
}

/// How far the workload came.
struct Progress {
    /// Steps that were acknowledged.
    done: usize,
    acknowledged: Vec<Acknowledged>,
}

fn work(scene: &Scene) -> Progress {
    let mut progress = Progress { done: 0, acknowledged: vec![] };
    for op in ops() {
        // What is on its way at this moment is in doubt either way.
        if let Op::Remove(path) | Op::Rename(path, _) = &op {
            progress.acknowledged.retain(|chunk| chunk.key != key(path));
        }
        if let Op::Copy(path, _) = &op {
            progress.acknowledged.retain(|chunk| chunk.key != key(path));
        }
        if op.apply(&scene.place).is_err() {
            break;
        }
        if let Op::Copy(path, content) = &op {
            let (key, digest) = (key(path), digest(content));
            progress.acknowledged.push(Acknowledged { key, event: scene.server.now(), digest });
        }
        progress.done += 1;
    }
    progress
}

fn one_run(seed: u64) -> Result<&'static str, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let reference = reference();
    let scene = Scene::new();
    let trigger = Trigger::draw(
        &mut random,
        reference.requests as u64,
        reference.journal_bytes,
        reference.took,
    );
    let outcome = live_through(&scene, trigger, &mut random);
    outcome.map_err(|reason| {
        let log = scene.place.keep_log(&format!("kill-{seed}"));
        format!("{trigger:?}: {reason}; log in {log}")
    })
}

fn live_through(
    scene: &Scene,
    trigger: Trigger,
    random: &mut fastrand::Rng,
) -> Result<&'static str, String> {
    let reference = reference();
    let Scene { server, place } = scene;
    let mut progress = Progress { done: 0, acknowledged: vec![] };
    let mut was_hit = true;
    if let Some(mut daemon) = scene.mount(trigger) {
        progress = work(scene);
        if progress.done == ops().len() {
            was_hit = place.umount().is_err();
        }
        if was_hit && !daemon.dies() {
            return Err(format!("step {} failed although nobody killed", progress.done));
        }
        daemon.wait();
    }
    server.clear_witness();
    // Recovery is killed too.
    if was_hit && random.u32(0..10) < 4 {
        let trigger = Trigger::draw(random, 40, 20_000, reference.took.mul_f64(0.3));
        if let Some(mut daemon) = scene.mount(trigger) {
            // Either way the next one goes on.
            let _flushed = place.flush().is_ok();
            daemon.kill();
        }
        server.clear_witness();
    }
    let mut daemon = scene.mount(Trigger::Never).ok_or("it cannot be mounted again")?;
    let partial = acknowledged_is_there(scene, &progress)?;
    let early = violations(&server.requests(), &reference.after, &progress.acknowledged);
    if !early.is_empty() {
        return Err(early.join("; "));
    }
    for op in ops().iter().skip(progress.done) {
        op.apply_again(place).map_err(|error| format!("{} afterwards: {error}", op.name()))?;
    }
    place.umount()?;
    daemon.wait();
    let end = Bucket::of(server).differences(reference.after.last().unwrap());
    if !end.is_empty() {
        return Err(format!("in the end {end}"));
    }
    let early = violations(&server.requests(), &reference.after, &[]);
    if !early.is_empty() {
        return Err(early.join("; "));
    }
    match place.left_behind() {
        left if left.is_empty() => Ok(match (was_hit, partial) {
            (false, _) => "ended before the kill",
            (true, false) => "equal",
            (true, true) => "partial, named",
        }),
        left => Err(format!("left behind: {left}")),
    }
}

/// After a remount: what was acknowledged can be read, is sent, and nothing else is. Answers whether
/// a file was reported as partial.
fn acknowledged_is_there(scene: &Scene, progress: &Progress) -> Result<bool, String> {
    let Scene { server, place } = scene;
    let all = ops();
    let in_doubt = all.get(progress.done);
    let touched = in_doubt.map(Op::touches).unwrap_or_default();
    for (path, content) in files_after(progress.done) {
        let is_in_doubt = match in_doubt {
            Some(Op::Copy(at, _) | Op::Remove(at)) => *at == path,
            Some(Op::Rename(from, to)) => *from == path || *to == path,
            Some(Op::Flush) | None => false,
        };
        let is_source = std::path::Path::new(path).extension().is_some_and(|e| e == "nc");
        if is_in_doubt {
            continue;
        }
        if is_source {
            let size = std::fs::metadata(place.mount_point().join(path)).map(|stat| stat.len());
            if size.as_ref().ok() != Some(&(content.len() as u64)) {
                return Err(format!("{path} was acknowledged and stat says {size:?}"));
            }
            continue;
        }
        match content_in(&place.mount_point(), path) {
            Ok(found) if found == content => {}
            Ok(_) => return Err(format!("{path} was acknowledged and reads otherwise")),
            Err(error) => return Err(format!("{path} was acknowledged: {error}")),
        }
    }
    place.flush()?;
    let partial = place.files_in_state("partial");
    for path in &partial {
        if !in_doubt.is_some_and(|op| matches!(op, Op::Copy(at, _) if at == path)) {
            return Err(format!("{path} is partial although nobody was writing it"));
        }
    }
    let states = &reference().after;
    let found = Bucket::of(server);
    let mut allowed = vec![states[progress.done].clone()];
    allowed.extend(states.get(progress.done + 1).cloned());
    if !partial.is_empty() {
        // The version before it was given up by who wrote over it.
        allowed.extend(touched.iter().map(|path| states[progress.done].without(path)));
    }
    if allowed.contains(&found) {
        return Ok(!partial.is_empty());
    }
    Err(format!("after {} steps {}", progress.done, found.differences(&allowed[0])))
}

#[test]
fn a_dataset_cut_at_nine_tenths_of_its_chunks_sends_at_most_a_seventh_again() {
    let long = write_netcdf4(&ocean(0, 240, 6, 8));
    let is_chunk = |request: &LoggedRequest| request.method == "PUT" && request.key.contains("/c/");
    let whole = Scene::new();
    let mut daemon = whole.mount(Trigger::Never).unwrap();
    copy_in(&whole.place.mount_point().join("a.nc"), &long).unwrap();
    whole.place.umount().unwrap();
    daemon.wait();
    let puts = whole.server.requests().iter().filter(|request| is_chunk(request)).count();
    assert!(puts > 150, "{puts}");

    let scene = Scene::new();
    let mut daemon = scene.mount(Trigger::Never).unwrap();
    let (pid, seen) = (daemon.pid(), AtomicU64::new(0));
    let cut_at = puts as u64 * 9 / 10;
    scene.server.set_witness(Box::new(move |request, moment| {
        let is_it = moment == Moment::Done && is_chunk(request);
        if is_it && seen.fetch_add(1, Ordering::SeqCst) == cut_at {
            kill(pid, Signal::SIGKILL).unwrap();
        }
    }));
    copy_in(&scene.place.mount_point().join("a.nc"), &long).unwrap();
    assert!(scene.place.umount().is_err() && daemon.dies());
    scene.server.clear_witness();
    let mut daemon = scene.mount(Trigger::Never).unwrap();
    scene.place.umount().unwrap();
    daemon.wait();
    assert_eq!(Bucket::of(&scene.server).differences(&Bucket::of(&whole.server)), "");
    let all = scene.server.requests().iter().filter(|request| is_chunk(request)).count();
    println!("cut at {cut_at} of {puts} chunks: {} were sent again", all - puts);
    assert!((all - puts) * 100 <= puts * 15, "{} of {puts} were sent again", all - puts);
    assert_eq!(scene.place.left_behind(), "");
}

#[test]
fn after_kill_nine_at_any_moment_a_remount_brings_the_bucket_to_the_same_end() {
    sweep("kill -9", seeds(12), one_run);
}
