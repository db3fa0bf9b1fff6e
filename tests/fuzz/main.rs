//! Mutated source files through the reader and the planner: no panic, not even one that is caught, and
//! memory that does not follow lengths that a file claims.
//!
//! `make test` runs a few hundred of each kind. `ZARRMOUNT_FUZZ_INPUTS` says how many in all,
//! `ZARRMOUNT_FUZZ_SEED` with which numbers; a failure prints the input's number, and
//! `ZARRMOUNT_FUZZ_ONLY` runs that alone.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and print")]

mod exercise;
mod mutation;

use std::fs;
use std::panic;
use std::path::Path;
use std::sync::Mutex;

use zarrmount::netcdf::fixtures::{ocean, sample_classic, sample_netcdf4, write_netcdf4};

use mutation::{Numbers, Seed};

/// Inputs of each kind in an ordinary run: a few seconds.
const INPUTS: u64 = 1500;
/// Resident bytes at most, with the program itself: no seed is larger than a few KiB, and nothing
/// expands more than a thousandfold.
const RESIDENT_KIB_MAX: u64 = 512 << 10;
/// Bytes of address space that may be asked for beyond what there is at the start.
const ADDRESS_SPACE_KIB_MAX: u64 = 2 << 20;

/// The panics of this program's own code, with their places.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Panics inside of the HDF5 library are expected and caught: it is called as if it could.
fn record_own_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if !place.contains("hdf5-reader") {
            eprintln!("panic at {place}: {info}");
            PANICS.lock().unwrap().push(place);
        }
    }));
}

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// A value of `/proc/self/status` in KiB.
fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim_end_matches("kB").trim().parse().unwrap()
}

/// The shipped files whose names begin with one of these.
fn shipped(prefixes: &[&str]) -> Vec<Seed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/seeds");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.retain(|path| prefixes.iter().any(|prefix| name(path).starts_with(prefix)));
    assert!(!paths.is_empty(), "no seeds named {prefixes:?}");
    paths.iter().map(|path| Seed::new(name(path), fs::read(path).unwrap())).collect()
}

fn run(kind: u64, seeds: &[Seed]) {
    record_own_panics();
    let first = environment("ZARRMOUNT_FUZZ_SEED").unwrap_or(1);
    // Four tests share the number.
    let inputs = environment("ZARRMOUNT_FUZZ_INPUTS").map_or(INPUTS, |all| all.div_ceil(4));
    let only = environment("ZARRMOUNT_FUZZ_ONLY");
    let before = memory("VmPeak");
    for seed in seeds {
        assert!(exercise::read_all(seed.bytes.clone()), "{} itself does not open", seed.name);
    }
    let (mut opened, mut panics) = (0_u64, 0);
    for input in 0..inputs {
        if only.is_some_and(|only| only != input) {
            continue;
        }
        let mut numbers = Numbers::new(first << 40 | kind << 36 | input);
        let seed = &seeds[numbers.below(seeds.len())];
        let other = &seeds[numbers.below(seeds.len())];
        let bytes = seed.mutated(other, &mut numbers);
        let outcome = panic::catch_unwind(|| exercise::read_all(bytes));
        opened += u64::from(outcome.as_ref().is_ok_and(|opened| *opened));
        let known = PANICS.lock().unwrap().len();
        if outcome.is_err() || known > panics {
            panics = known;
            eprintln!("input {input} of kind {kind} (from {}) panicked", seed.name);
        }
    }
    assert_eq!(*PANICS.lock().unwrap(), [] as [String; 0], "places of panics");
    let resident = memory("VmHWM");
    assert!(resident < RESIDENT_KIB_MAX, "{resident} KiB were resident");
    let asked = memory("VmPeak").saturating_sub(before);
    assert!(asked < ADDRESS_SPACE_KIB_MAX, "{asked} KiB of address space were asked for");
    eprintln!(
        "kind {kind}: {inputs} inputs, {opened} opened, {resident} KiB resident, {asked} KiB asked"
    );
    // Mutants that are all refused at once test nothing.
    assert!(only.is_some() || opened * 10 > inputs, "only {opened} of {inputs} opened");
}

#[test]
fn classic_headers() {
    let mut seeds = shipped(&["classic_"]);
    for version in [1, 2, 5] {
        seeds.push(Seed::new(format!("sample_classic({version})"), sample_classic(version)));
    }
    run(0, &seeds);
}

#[test]
fn hdf5_structures() {
    run(1, &shipped(&["hdf5_"]));
}

#[test]
fn netcdf4_mapping() {
    let mut seeds = shipped(&["netcdf4_"]);
    seeds.push(Seed::new("sample_netcdf4".to_owned(), sample_netcdf4()));
    seeds.push(Seed::new("levels".to_owned(), write_netcdf4(&ocean(0, 70, 2, 3))));
    run(2, &seeds);
}

#[test]
fn filters() {
    run(3, &shipped(&["filters_"]));
}
