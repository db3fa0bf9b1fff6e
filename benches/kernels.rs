//! What one core needs for the bytes of a chunk at each stage: decode, assemble, encode, journal.
//!
//! `cargo bench --bench kernels`, and `-- encode` for one of them. The field is smooth with some noise,
//! rounded as packed data are; with `ZARRMOUNT_BENCH_FILE=FILE.nc` decode and encode take the variable
//! with the largest chunks of that file.
//!
//! It tells CPU time, as the kernel counts it for the thread: other programs hardly change that. A crate
//! for statistics would bring more dependencies than this has lines.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for measuring")]

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use zarrmount::assemble::{Assembler, Block, Retained};
use zarrmount::base::clock::Clock;
use zarrmount::netcdf::fixtures::{SampleFile, SampleVariable, write_netcdf4};
use zarrmount::netcdf::{ChunkLocation, DataType, Dimension, LocalFile, NetcdfFile};
use zarrmount::plan::{
    ArrayPlan, ArrayTarget, Conversion, Decoding, Encoding, Part, Segment, plan_dataset,
};
use zarrmount::staging::{FileAttributes, FileId, SpoolIdentity, SpoolOptions, Staging};
use zarrmount::store::Location;
use zarrmount::zarr::{CodecChain, ZarrFormat};

const STEPS: u64 = 8;
const ROWS: u64 = 540;
const COLUMNS: u64 = 1080;

/// Rounds of one measurement; the median counts.
const ROUNDS: usize = 7;
/// CPU time of one round at least: a hundred times what the clock can tell.
const ROUND_NS: u64 = 100_000_000;

/// CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Prints what one call of `work` costs, and per byte if it has `bytes`. `prepare` is not counted.
fn measure<T>(
    name: &str,
    bytes: Option<u64>,
    mut prepare: impl FnMut() -> T,
    mut work: impl FnMut(T),
) {
    let chosen = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    if chosen.is_some_and(|chosen| !name.contains(&chosen)) {
        return;
    }
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        let (mut spent, mut calls) = (0, 0);
        while spent < ROUND_NS {
            let prepared = prepare();
            let before = cpu_ns();
            work(prepared);
            spent += cpu_ns() - before;
            calls += 1;
        }
        costs.push(spent / calls);
    }
    costs.sort_unstable();
    let (low, cost, high) = (costs[0], costs[ROUNDS / 2], costs[ROUNDS - 1]);
    let micros = |ns: u64| format!("{}.{}", ns / 1000, ns % 1000 / 100);
    let rate = bytes.map_or(String::new(), |bytes| format!(", {} MB/s", bytes * 1000 / cost));
    println!("{name:40} {} us ({} to {}){rate}", micros(cost), micros(low), micros(high));
}

/// Eight steps of a field in chunks of one step, 2.3 MB each.
fn field() -> SampleFile {
    let mut noise = 0_u64;
    let mut values = Vec::new();
    for cell in 0..STEPS * ROWS * COLUMNS {
        noise =
            noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = f32::from(u16::try_from(cell % COLUMNS).unwrap());
        let y = f32::from(u16::try_from(cell / COLUMNS % ROWS).unwrap());
        let smooth = 15.0 + 10.0 * (x / 200.0).sin() * (y / 150.0).cos();
        let rough = f32::from(u16::try_from(noise >> 48).unwrap()) / 65_536.0;
        values.extend((((smooth + 0.4 * rough) * 512.0).round() / 512.0).to_le_bytes());
    }
    let dimensions = [("time", STEPS), ("lat", ROWS), ("lon", COLUMNS)];
    SampleFile {
        dimensions: dimensions
            .map(|(name, length)| Dimension { name: name.to_owned(), length, unlimited: false })
            .to_vec(),
        attributes: Vec::new(),
        variables: vec![SampleVariable {
            name: "v".to_owned(),
            dimensions: dimensions.map(|(name, _)| name.to_owned()).to_vec(),
            data_type: DataType::F32,
            attributes: Vec::new(),
            values,
            chunk_shape: vec![1, ROWS, COLUMNS],
        }],
    }
}

/// The file that is read, and its variable with the largest chunks.
fn source(chunks: &str, codec: &str) -> (NetcdfFile, ArrayPlan) {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        let given = std::env::var_os("ZARRMOUNT_BENCH_FILE").map(PathBuf::from);
        given.unwrap_or_else(|| {
            let path = std::env::temp_dir().join("zarrmount-bench-kernels.nc");
            std::fs::write(&path, write_netcdf4(&field())).unwrap();
            path
        })
    });
    let file = NetcdfFile::open(Arc::new(LocalFile(PATH.clone()))).unwrap();
    let (chunks, codec) = (chunks.parse().unwrap(), codec.parse().unwrap());
    let encoding = Encoding { chunks, codec, ..Encoding::default() };
    let plan = plan_dataset(file.schema(), &encoding).unwrap();
    let largest = |array: &&ArrayPlan| array.source_chunk_shape.iter().product::<u64>();
    let array = plan.arrays.iter().max_by_key(largest).unwrap().clone();
    (file, array)
}

fn locations(file: &NetcdfFile, array: &ArrayPlan) -> Vec<ChunkLocation> {
    file.chunks(&[array.variable]).map(Result::unwrap).take(8).collect()
}

fn chunk_bytes(array: &ArrayPlan) -> u64 {
    let elements = array.source_chunk_shape.iter().product::<u64>();
    elements * array.metadata.data_type.size() as u64
}

fn decode() {
    let (file, array) = source("", "none");
    let locations = locations(&file, &array);
    let bytes = chunk_bytes(&array) * locations.len() as u64;
    let mut out = Vec::new();
    let read = |()| {
        for location in &locations {
            file.read_chunk(location, &mut out).unwrap();
            black_box(&out);
        }
    };
    measure("decode: inflate and unshuffle", Some(bytes), || (), read);
}

fn encode() {
    for codec in ["blosc:zstd:5:shuffle", "blosc:zstd:1:shuffle", "zstd:1", "none"] {
        let (file, mut array) = source("", codec);
        array.metadata.chunk_shape.clone_from(&array.source_chunk_shape);
        let chain = CodecChain::new(&array.metadata).unwrap();
        let mut raw = Vec::new();
        file.read_chunk(&locations(&file, &array)[0], &mut raw).unwrap();
        let encode = |raw: Vec<u8>| {
            black_box(chain.encode(raw).unwrap());
        };
        measure(&format!("encode: {codec}"), Some(raw.len() as u64), || raw.clone(), encode);
    }
}

/// The one block that the located chunks make.
fn block(file: &NetcdfFile, array: &ArrayPlan) -> Block {
    let metadata = &array.metadata;
    let decoding = Decoding::of(metadata.data_type, &metadata.attributes, None, ZarrFormat::V3);
    let target = ArrayTarget {
        path: array.path.clone(),
        metadata: metadata.clone(),
        axis: 0,
        published_length: 0,
        has_objects: false,
        parts: vec![Part {
            member: 0,
            variable: array.variable,
            shape: metadata.shape.clone(),
            source_chunk_shape: array.source_chunk_shape.clone(),
            source_fill: array.source_fill.clone(),
            conversion: Conversion::between(&decoding, &decoding).unwrap(),
        }],
        segments: vec![Segment { target: 0, source: 0, length: metadata.shape[0], part: 0 }],
    };
    let mut assembler = Assembler::new(&target, 1 << 30).unwrap();
    let mut ready = Vec::new();
    for location in file.chunks(&[array.variable]) {
        ready.extend(assembler.push(0, &location.unwrap()).unwrap());
    }
    ready.pop().unwrap()
}

/// Copies decoded chunks of one step into chunks of other shapes; nothing is compressed.
fn assemble() {
    for chunks in ["time=8,lat=540,lon=1080", "time=8,lat=135,lon=270", "time=8,lat=27,lon=27"] {
        let (file, array) = source(chunks, "none");
        let block = block(&file, &array);
        let mut decoded = Vec::new();
        file.read_chunk(&locations(&file, &array)[0], &mut decoded).unwrap();
        let build = || {
            let built = block.build(&Retained::new(), |_, out| {
                out.extend_from_slice(&decoded);
                Ok::<_, std::io::Error>(())
            });
            built.unwrap().chunks
        };
        let bytes: usize = build().iter().filter_map(|c| c.bytes.as_ref()).map(Bytes::len).sum();
        let work = |()| {
            black_box(build());
        };
        measure(&format!("assemble: {chunks}"), Some(bytes as u64), || (), work);
    }
}

/// A small file from its creation to its upload: content and records in the journal.
fn journal() {
    let folder = std::env::temp_dir().join(format!("zarrmount-bench-{}", std::process::id()));
    let options =
        SpoolOptions { folder: folder.clone(), size_max: 1 << 30, inline_bytes_max: 1 << 20 };
    let identity = SpoolIdentity {
        store: "s3://bench".into(),
        mount_point: "/mnt/bench".into(),
        settings: serde_json::Value::Null,
    };
    let (staging, _) = Staging::open(options, &identity, Clock::system()).unwrap();
    let attributes = FileAttributes { mode: 0o644, uid: 0, gid: 0, mtime_ns: 0 };
    let path = Location::parse("x.zarr/v/c/0").unwrap();
    let mut next = 1;
    for (name, size) in [("journal: 1 KiB", 1 << 10), ("journal: 64 KiB", 1 << 16)] {
        let content = vec![7; size];
        let stage = |()| {
            let id = FileId(next);
            next += 1;
            let file = staging.create(id, &path, &attributes).unwrap();
            file.write_at(0, &content).unwrap();
            let generation = staging.seal(&file, &path, &attributes).unwrap();
            staging.uploaded(id, generation).unwrap();
        };
        measure(name, None, || (), stage);
    }
    drop(staging);
    std::fs::remove_dir_all(&folder).unwrap();
}

fn main() {
    decode();
    encode();
    assemble();
    journal();
}
