//! Many seeded runs of one thing, a few at a time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Runs side by side: they mostly wait for timers and disks.
const SIDE_BY_SIDE: u64 = 3;

/// Seeds of a sweep: `sample` of them, or as many as `make soak` asks for.
pub(crate) fn seeds(sample: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("ZARRMOUNT_SOAK_SEED").unwrap_or(1).saturating_mul(1_000_000);
    first..first + number("ZARRMOUNT_SOAK_RUNS").unwrap_or(sample)
}

/// Runs `one` for each seed. It answers with the name of what happened, or says what is wrong: then
/// the sweep fails at its end, naming the seeds. Prints how many runs ended how.
pub(crate) fn sweep(
    name: &str,
    seeds: std::ops::Range<u64>,
    one: impl Fn(u64) -> Result<&'static str, String> + Sync,
) {
    let next = AtomicU64::new(seeds.start);
    let counts = Mutex::new(BTreeMap::<&str, u64>::new());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match one(seed) {
                        Ok(outcome) => *counts.lock().entry(outcome).or_default() += 1,
                        Err(reason) => {
                            println!("{name}: WRONG with seed {seed}: {reason}");
                            wrong.lock().push(format!("seed {seed}: {reason}"));
                        }
                    }
                }
            });
        }
    });
    let (counts, wrong) = (counts.into_inner(), wrong.into_inner());
    println!("{name}: {} runs: {counts:?}, wrong: {}", seeds.end - seeds.start, wrong.len());
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

/// Asks until `is_so`, for at most `patience`.
pub(crate) fn until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
