//! Assembled arrays against an element-by-element model.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::netcdf::{ChunkLocation, VariableId};
use crate::plan::{ArrayPlan, ArrayTarget, Conversion, Decoding, Part, Segment};
use crate::zarr::{
    ArrayMetadata, ArrayReader, ChunkKeyEncoding, CodecSpec, DataType, NodePath, ZarrFormat,
};

/// Reproducible numbers (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A variable with `u16` elements: its chunks by origin, whole, and what they mean element by
/// element.
struct Source {
    plan: ArrayPlan,
    chunks: BTreeMap<Vec<u64>, Vec<u8>>,
    /// Deliver chunks cut at the end of the array.
    cut: bool,
    model: Vec<u8>,
}

/// A new array that takes all values of one variable of the only file.
fn whole(plan: &ArrayPlan) -> ArrayTarget {
    let length = plan.metadata.shape.first().copied().unwrap_or(1);
    ArrayTarget {
        path: plan.path.clone(),
        metadata: plan.metadata.clone(),
        axis: 0,
        published_length: 0,
        has_objects: false,
        parts: vec![part(plan, 0)],
        segments: vec![Segment { target: 0, source: 0, length, part: 0 }],
    }
}

fn part(plan: &ArrayPlan, member: usize) -> Part {
    let metadata = &plan.metadata;
    let decoding = Decoding::of(metadata.data_type, &metadata.attributes, None, ZarrFormat::V3);
    Part {
        member,
        variable: plan.variable,
        shape: metadata.shape.clone(),
        source_chunk_shape: plan.source_chunk_shape.clone(),
        source_fill: plan.source_fill.clone(),
        conversion: Conversion::between(&decoding, &decoding).unwrap(),
    }
}

fn plan(shape: &[u64], source: &[u64], target: &[u64], fills: (Option<u16>, u16)) -> ArrayPlan {
    ArrayPlan {
        path: NodePath::parse("g/v").unwrap(),
        variable: VariableId(3),
        metadata: ArrayMetadata {
            format: if fills.0.is_none() { ZarrFormat::V2 } else { ZarrFormat::V3 },
            shape: shape.into(),
            chunk_shape: target.into(),
            data_type: DataType::UInt16,
            fill_value: fills.0.map(|fill| fill.to_le_bytes().into()),
            codecs: CodecSpec::Zstd(1).codecs(DataType::UInt16),
            chunk_key_encoding: ChunkKeyEncoding::Default { separator: '/' },
            dimension_names: None,
            attributes: serde_json::Map::new(),
            extra_fields: serde_json::Map::new(),
        },
        growing: vec![false; shape.len()],
        source_fill: fills.1.to_le_bytes().into(),
        source_chunk_shape: source.into(),
        is_chunked: true,
        scopes: vec![NodePath::root(); shape.len()],
    }
}

/// Every index below `shape`, in C order.
fn indices(shape: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for length in shape {
        all = all
            .iter()
            .flat_map(|outer: &Vec<u64>| {
                (0..*length).map(move |i| [outer.as_slice(), &[i]].concat())
            })
            .collect();
    }
    all
}

impl Source {
    /// A source with some chunks unallocated and some consisting of the fill value.
    fn random(random: &mut Random, plan: ArrayPlan) -> Self {
        let shape = plan.metadata.shape.clone();
        let chunk = plan.source_chunk_shape.clone();
        let allocated = [0, 50, 90, 100][usize::try_from(random.below(4)).unwrap()];
        let zarr_fill = plan.metadata.fill_value.clone().unwrap_or_else(|| vec![0, 0]);
        let grid: Vec<u64> = shape.iter().zip(&chunk).map(|(n, c)| n.div_ceil(*c)).collect();
        let elements: u64 = chunk.iter().product();
        let mut chunks = BTreeMap::new();
        for index in indices(&grid) {
            let origin: Vec<u64> = index.iter().zip(&chunk).map(|(i, c)| i * c).collect();
            if random.chance(allocated) {
                let constant = random.chance(30);
                let mut bytes = Vec::new();
                for _ in 0..elements {
                    let value = u16::try_from(random.below(65536)).unwrap().to_le_bytes();
                    bytes.extend(if constant { zarr_fill.as_slice() } else { &value });
                }
                chunks.insert(origin, bytes);
            }
        }
        let mut model = Vec::new();
        for index in indices(&shape) {
            let origin: Vec<u64> = index.iter().zip(&chunk).map(|(i, c)| i - i % c).collect();
            let inside = index.iter().zip(&chunk).fold(0, |at, (i, c)| at * c + i % c);
            let at = usize::try_from(2 * inside).unwrap();
            let fill = plan.source_fill.as_slice();
            model.extend(chunks.get(&origin).map_or(fill, |bytes| &bytes[at..at + 2]));
        }
        Self { plan, chunks, cut: random.chance(50), model }
    }

    fn location(&self, origin: &[u64]) -> ChunkLocation {
        let offset = self.chunks.keys().position(|o| o == origin).unwrap() as u64;
        let variable = self.plan.variable;
        ChunkLocation {
            variable,
            origin: origin.into(),
            offset,
            size: 1,
            filter_mask: 0,
            text_bytes: 0,
        }
    }

    fn read(&self, location: &ChunkLocation, buffer: &mut Vec<u8>) {
        let bytes = &self.chunks[&location.origin];
        let chunk = &self.plan.source_chunk_shape;
        for (element, index) in bytes.chunks(2).zip(indices(chunk)) {
            let mut position = index.iter().zip(&location.origin).zip(&self.plan.metadata.shape);
            if !self.cut || position.all(|((i, origin), length)| i + origin < *length) {
                buffer.extend(element);
            }
        }
    }

    fn locations(&self, random: &mut Random) -> Vec<ChunkLocation> {
        let mut locations: Vec<_> =
            self.chunks.keys().map(|origin| self.location(origin)).collect();
        if random.chance(50) {
            for last in (1..locations.len()).rev() {
                locations.swap(last, usize::try_from(random.below(last as u64 + 1)).unwrap());
            }
        }
        locations
    }
}

#[derive(Default)]
struct Output {
    objects: BTreeMap<String, Bytes>,
    keys: BTreeSet<String>,
    decoded: u64,
}

impl Output {
    fn add(&mut self, source: &Source, block: &Block) {
        let built = block
            .build(&Retained::new(), |Piece { location, .. }, buffer| {
                source.read(location, buffer);
                Ok::<_, Infallible>(())
            })
            .unwrap();
        assert_eq!(built.chunks.len() as u64, block.chunk_count());
        self.decoded += built.decoded;
        for chunk in built.chunks {
            assert!(self.keys.insert(chunk.key.clone()), "{} has two owners", chunk.key);
            if let Some(bytes) = chunk.bytes {
                self.objects.insert(chunk.key, bytes);
            }
        }
    }
}

fn assemble(random: &mut Random, source: &Source, block_bytes_max: u64) -> Output {
    let mut assembler = Assembler::new(&whole(&source.plan), block_bytes_max).unwrap();
    let mut output = Output::default();
    for location in source.locations(random) {
        for block in assembler.push(0, &location).unwrap() {
            output.add(source, &block);
        }
    }
    for block in assembler.finish() {
        output.add(source, &block);
    }
    output
}

fn random_lengths(random: &mut Random, rank: u64, from: u64, to: u64) -> Vec<u64> {
    (0..rank).map(|_| from + random.below(to - from)).collect()
}

#[test]
fn random_grids_give_the_same_elements_as_a_naive_copy() {
    for seed in 0..600 {
        let mut random = Random(seed);
        let rank = random.below(4);
        let shortest = u64::from(!random.chance(5));
        let shape = random_lengths(&mut random, rank, shortest, 14);
        let source = random_lengths(&mut random, rank, 1, 9);
        let target = if random.chance(25) {
            source.clone()
        } else {
            random_lengths(&mut random, rank, 1, 17)
        };
        let zarr_fill = if random.chance(20) { None } else { Some(7) };
        let source_fill = if random.chance(50) { 7 } else { 9 };
        let plan = plan(&shape, &source, &target, (zarr_fill, source_fill));
        let source = Source::random(&mut random, plan);
        let budget = [0, 200, 1 << 30][usize::try_from(random.below(3)).unwrap()];

        let output = assemble(&mut random, &source, budget);

        let chunks: u64 = shape
            .iter()
            .zip(&source.plan.source_chunk_shape)
            .map(|(n, c)| n.div_ceil(*c))
            .product();
        if source.chunks.len() as u64 == chunks && chunks > 0 {
            let promised =
                Layout::new(&whole(&source.plan), budget).unwrap().reads() * count(chunks);
            assert!((promised - count(output.decoded)).abs() < 0.5, "seed {seed}: {promised}");
        }
        let metadata = source.plan.metadata.clone();
        let reader = ArrayReader::new(source.plan.path.clone(), metadata.clone()).unwrap();
        let get = |key: &str| Ok::<_, Infallible>(output.objects.get(key).cloned());
        assert_eq!(reader.whole(get).unwrap(), source.model, "seed {seed}: {:?}", source.plan);
        for index in indices(&metadata.grid_shape()) {
            let chunk = reader.chunk(&index, get).unwrap();
            assert_padding(&metadata, &index, &chunk);
            let constant = metadata
                .fill_value
                .as_ref()
                .is_some_and(|fill| chunk.chunks(2).all(|element| element == fill.as_slice()));
            let key = source.plan.path.key(&metadata.chunk_key(&index));
            assert_eq!(output.objects.contains_key(&key), !constant, "seed {seed}: {key}");
        }
    }
}

/// Few enough for a float to hold.
fn count(chunks: u64) -> f64 {
    f64::from(u32::try_from(chunks).unwrap())
}

/// Outside of the array a chunk holds the fill value.
fn assert_padding(metadata: &ArrayMetadata, index: &[u64], chunk: &[u8]) {
    for (element, inside) in chunk.chunks(2).zip(indices(&metadata.chunk_shape)) {
        let outside = (0..index.len())
            .any(|d| index[d] * metadata.chunk_shape[d] + inside[d] >= metadata.shape[d]);
        if outside {
            assert_eq!(element, metadata.padding());
        }
    }
}

#[test]
fn nested_grids_decode_each_source_chunk_once() {
    for (source, target) in [([2, 3], [4, 6]), ([4, 6], [2, 3]), ([2, 6], [4, 3]), ([3, 5], [3, 5])]
    {
        let mut random = Random(1);
        let mut source =
            Source::random(&mut random, plan(&[17, 19], &source, &target, (Some(7), 9)));
        source.cut = false;
        let output = assemble(&mut random, &source, 150);
        assert_eq!(output.decoded, source.chunks.len() as u64);
    }
}

#[test]
fn grids_that_are_not_nested_decode_once_when_memory_allows() {
    let plan = plan(&[100, 100], &[6, 100], &[4, 100], (Some(7), 9));
    let wide = Layout::new(&whole(&plan), 12 * 100 * 2).unwrap();
    assert_eq!(wide.block_shape(), [12, 100]);
    let narrow = Layout::new(&whole(&plan), 12 * 100 * 2 - 1).unwrap();
    assert_eq!(narrow.block_shape(), [8, 100]);
    let least = Layout::new(&whole(&plan), 0).unwrap();
    assert_eq!(least.block_shape(), [4, 100]);
}

/// Maps, one for each step, become time series.
fn transposed() -> ArrayPlan {
    plan(&[64, 40, 48], &[1, 40, 48], &[64, 8, 8], (Some(7), 9))
}

#[test]
fn maps_become_time_series_at_one_go_if_memory_allows_and_else_at_as_few_as_it_allows() {
    let mut random = Random(5);
    let plan = transposed();
    let mut source = Source::random(&mut random, plan.clone());
    while source.chunks.len() < 64 {
        source = Source::random(&mut random, plan.clone());
    }
    let raw: u64 = plan.metadata.raw_bytes().unwrap();
    for (memory, times) in [(raw, 1), (raw / 2, 2), (raw / 4, 5), (raw / 30, 30), (0, 30)] {
        let output = assemble(&mut random, &source, memory);
        assert_eq!(output.decoded, 64 * times, "with {memory} of {raw} bytes");
        let reader = ArrayReader::new(plan.path.clone(), plan.metadata.clone()).unwrap();
        let get = |key: &str| Ok::<_, Infallible>(output.objects.get(key).cloned());
        assert_eq!(reader.whole(get).unwrap(), source.model);
    }
}

#[test]
fn what_does_not_fit_is_said_with_the_memory_and_with_the_chunk_that_do() {
    let target = whole(&transposed());
    let raw = target.metadata.raw_bytes().unwrap();
    let found = rereading(&target, raw / 4, 1, 2.0).unwrap();
    assert!(found.times > 4.0, "{found:?}");
    assert!(found.bytes_for_once > raw && found.bytes_for_once < 2 * raw, "{found:?}");
    assert_eq!(rereading(&target, found.bytes_for_once, 1, 1.0), None);
    assert!(rereading(&target, found.bytes_for_once / 2, 1, 1.0).is_some());

    let chunk = fitting_chunk(&target, raw / 4, 1, 2.0).unwrap();
    assert_eq!(chunk, [16, 8, 8]);
    let mut fitting = target.clone();
    fitting.metadata.chunk_shape = chunk;
    assert_eq!(rereading(&fitting, raw / 4, 1, 2.0), None);
}

#[test]
fn source_chunks_may_be_decoded_by_several_threads_in_any_order() {
    let mut random = Random(9);
    let source =
        Source::random(&mut random, plan(&[64, 40, 48], &[3, 20, 11], &[10, 8, 48], (Some(7), 9)));
    let mut assembler = Assembler::new(&whole(&source.plan), 1 << 30).unwrap();
    let mut blocks = Vec::new();
    for location in source.locations(&mut random) {
        blocks.extend(assembler.push(0, &location).unwrap());
    }
    blocks.extend(assembler.finish());
    for block in blocks {
        let read = |piece: &Piece, buffer: &mut Vec<u8>| {
            source.read(&piece.location, buffer);
            Ok::<_, Infallible>(())
        };
        let alone = block.build(&Retained::new(), read).unwrap();
        let open = OpenBlock::new(Arc::new(block.clone()), Retained::new());
        let (open, pieces) = (&open, block.pieces().len());
        std::thread::scope(|threads| {
            for thread in 0..4 {
                threads.spawn(move || {
                    for piece in (0..pieces).rev().filter(|piece| piece % 4 == thread) {
                        open.add(piece..piece + 1, read).unwrap();
                    }
                });
            }
        });
        let together: Vec<BuiltChunk> = (0..open.len())
            .map(|slot| block.encode(open.take::<Infallible>(slot).unwrap()).unwrap())
            .collect();
        assert_eq!(together, alone.chunks);
    }
}

#[test]
fn only_locations_of_incomplete_blocks_are_remembered() {
    let plan = plan(&[1000, 6], &[1, 2], &[4, 6], (Some(7), 9));
    let mut assembler = Assembler::new(&whole(&plan), 1 << 20).unwrap();
    let mut complete = 0;
    for origin in indices(&[1000, 3]) {
        let origin = vec![origin[0], origin[1] * 2];
        let variable = plan.variable;
        let location =
            ChunkLocation { variable, origin, offset: 0, size: 1, filter_mask: 0, text_bytes: 0 };
        complete += assembler.push(0, &location).unwrap().len();
        assert!(assembler.waiting() < 12);
    }
    assert_eq!(complete, 250);
    assert_eq!(assembler.finish().count(), 0);
}

#[test]
fn an_unallocated_array_costs_nothing_when_its_fill_is_the_fill_value() {
    let huge = plan(&[1 << 40, 1 << 20], &[1, 1], &[1, 1], (Some(7), 7));
    assert_eq!(Assembler::new(&whole(&huge), 100).unwrap().finish().count(), 0);
    let other = plan(&[1 << 40, 1 << 20], &[1, 1], &[1, 1], (Some(7), 9));
    let block = Assembler::new(&whole(&other), 100).unwrap().finish().nth(5).unwrap();
    let built = block.build(&Retained::new(), |_, _| Ok::<_, Infallible>(())).unwrap();
    assert_eq!(built.chunks[0].key, "g/v/c/0/5");
    assert!(built.chunks[0].bytes.is_some());
}

#[test]
fn locations_that_cannot_be_are_errors() {
    let plan = plan(&[10, 10], &[3, 5], &[4, 5], (Some(7), 7));
    let at = |variable, origin: &[u64]| ChunkLocation {
        variable: VariableId(variable),
        origin: origin.into(),
        offset: 0,
        size: 1,
        filter_mask: 0,
        text_bytes: 0,
    };
    for budget in [0, 1 << 20] {
        let mut assembler = Assembler::new(&whole(&plan), budget).unwrap();
        for (location, expected) in [
            (at(1, &[0, 0]), "variable 1"),
            (at(3, &[0]), "outside"),
            (at(3, &[12, 0]), "outside"),
            (at(3, &[u64::MAX - 2, 0]), "outside"),
            (at(3, &[1, 0]), "not one of the grid"),
        ] {
            let error = assembler.push(0, &location).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        for row in 0..4 {
            assembler.push(0, &at(3, &[3 * row, 0])).unwrap();
        }
        for row in 0..4 {
            let twice = assembler.push(0, &at(3, &[3 * row, 0]));
            assert!(matches!(twice, Err(LocationError::Twice { .. })));
        }
    }
}

#[test]
fn a_source_chunk_of_another_size_is_an_error() {
    let plan = plan(&[10], &[5], &[5], (Some(7), 7));
    let mut assembler = Assembler::new(&whole(&plan), 0).unwrap();
    let variable = plan.variable;
    let location = ChunkLocation {
        variable,
        origin: vec![0],
        offset: 0,
        size: 1,
        filter_mask: 0,
        text_bytes: 0,
    };
    let block = assembler.push(0, &location).unwrap().remove(0);
    let error = block.build(&Retained::new(), |_, buffer| {
        buffer.extend([0; 9]);
        Ok::<_, Infallible>(())
    });
    assert!(matches!(error, Err(BuildError::SourceSize { expected: 10, actual: 9, .. })));
    let failed = block.build(&Retained::new(), |_, _| Err("disk"));
    assert!(matches!(failed, Err(BuildError::Read("disk"))));
}

/// A string variable like [`Source`].
struct TextSource {
    plan: ArrayPlan,
    chunks: BTreeMap<Vec<u64>, Vec<String>>,
    model: Vec<String>,
}

fn random_text(random: &mut Random) -> String {
    let length = random.below(6) * random.below(6);
    (0..length).map(|_| ['a', 'é', '日', ' '][usize::try_from(random.below(4)).unwrap()]).collect()
}

impl TextSource {
    fn random(random: &mut Random, mut plan: ArrayPlan) -> Self {
        plan.metadata.data_type = DataType::String;
        plan.metadata.codecs = CodecSpec::Zstd(1).codecs(DataType::String);
        plan.metadata.fill_value = plan.metadata.fill_value.map(|_| "né".into());
        plan.source_fill = if random.chance(50) { "né".into() } else { "other".into() };
        let (shape, chunk) = (&plan.metadata.shape, &plan.source_chunk_shape);
        let allocated = [0, 50, 100][usize::try_from(random.below(3)).unwrap()];
        let grid: Vec<u64> = shape.iter().zip(chunk).map(|(n, c)| n.div_ceil(*c)).collect();
        let elements: u64 = chunk.iter().product();
        let mut chunks = BTreeMap::new();
        for index in indices(&grid) {
            let origin: Vec<u64> = index.iter().zip(chunk).map(|(i, c)| i * c).collect();
            if random.chance(allocated) {
                let constant = random.chance(30);
                let text = |_| if constant { "né".into() } else { random_text(random) };
                chunks.insert(origin, (0..elements).map(text).collect::<Vec<_>>());
            }
        }
        let fill = String::from_utf8(plan.source_fill.clone()).unwrap();
        let texts = indices(shape).into_iter().map(|index| {
            let origin: Vec<u64> = index.iter().zip(chunk).map(|(i, c)| i - i % c).collect();
            let inside = index.iter().zip(chunk).fold(0, |at, (i, c)| at * c + i % c);
            let chunk = chunks.get(&origin);
            chunk.map_or(&fill, |texts| &texts[usize::try_from(inside).unwrap()]).clone()
        });
        let model = texts.collect();
        Self { plan, chunks, model }
    }

    fn locations(&self) -> impl Iterator<Item = ChunkLocation> {
        self.chunks.iter().map(|(origin, texts)| ChunkLocation {
            variable: self.plan.variable,
            origin: origin.clone(),
            offset: 0,
            size: 1,
            filter_mask: 0,
            text_bytes: texts.iter().map(|text| text.len() as u64).sum(),
        })
    }

    fn build(&self, block: &Block, objects: &mut BTreeMap<String, Bytes>) {
        let mut delivered = 0;
        let built = block.build(&Retained::new(), |Piece { location, .. }, buffer| {
            for text in &self.chunks[&location.origin] {
                buffer.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
                buffer.extend(text.as_bytes());
            }
            delivered += buffer.len() as u64;
            Ok::<_, Infallible>(())
        });
        let built = built.unwrap().chunks;
        let encoded: usize = built.iter().flat_map(|chunk| &chunk.bytes).map(Bytes::len).sum();
        assert!(delivered + encoded as u64 <= block.memory_bytes(1));
        objects.extend(built.into_iter().filter_map(|chunk| Some((chunk.key, chunk.bytes?))));
    }
}

#[test]
fn random_grids_give_the_same_texts_as_a_naive_copy() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let rank = random.below(4);
        let shape = random_lengths(&mut random, rank, 1, 10);
        let source = random_lengths(&mut random, rank, 1, 7);
        let target = random_lengths(&mut random, rank, 1, 12);
        let zarr_fill = if random.chance(20) { None } else { Some(7) };
        let source =
            TextSource::random(&mut random, plan(&shape, &source, &target, (zarr_fill, 7)));
        let budget = [0, 200, 1 << 30][usize::try_from(random.below(3)).unwrap()];

        let mut objects = BTreeMap::new();
        let mut assembler = Assembler::new(&whole(&source.plan), budget).unwrap();
        for location in source.locations() {
            for block in assembler.push(0, &location).unwrap() {
                source.build(&block, &mut objects);
            }
        }
        assembler.finish().for_each(|block| source.build(&block, &mut objects));

        let metadata = &source.plan.metadata;
        let reader = ArrayReader::new(source.plan.path.clone(), metadata.clone()).unwrap();
        let padding = String::from_utf8(metadata.padding()).unwrap();
        for index in indices(&metadata.grid_shape()) {
            let get = |key: &str| Ok::<_, Infallible>(objects.get(key).cloned());
            let texts = reader.texts(&index, get).unwrap();
            for (text, inside) in texts.iter().zip(indices(&metadata.chunk_shape)) {
                let at: Vec<u64> = (0..index.len())
                    .map(|d| index[d] * metadata.chunk_shape[d] + inside[d])
                    .collect();
                let outside = at.iter().zip(&shape).any(|(at, length)| at >= length);
                let linear = at.iter().zip(&shape).fold(0, |linear, (i, n)| linear * n + i);
                let expected = if outside {
                    &padding
                } else {
                    &source.model[usize::try_from(linear).unwrap()]
                };
                assert_eq!(text, expected, "seed {seed}: {at:?} {:?}", source.plan);
            }
            let constant = metadata.fill_value.is_some() && texts.iter().all(|text| text == "né");
            let key = source.plan.path.key(&metadata.chunk_key(&index));
            assert_eq!(objects.contains_key(&key), !constant, "seed {seed}: {key}");
        }
    }
}

#[test]
fn texts_beyond_what_a_chunk_holds_are_refused_before_any_is_read() {
    let mut random = Random(1);
    let source = TextSource::random(&mut random, plan(&[4], &[2], &[4], (Some(7), 7)));
    let mut assembler = Assembler::new(&whole(&source.plan), 0).unwrap();
    let at = |origin| ChunkLocation {
        variable: source.plan.variable,
        origin: vec![origin],
        offset: 0,
        size: 1,
        filter_mask: 0,
        text_bytes: 1 << 30,
    };
    assert!(assembler.push(0, &at(0)).unwrap().is_empty());
    let block = assembler.push(0, &at(2)).unwrap().remove(0);
    assert!(block.memory_bytes(1) > 1 << 31);
    let error = block.build(&Retained::new(), |_, _| Err("read")).unwrap_err();
    assert!(matches!(error, BuildError::TextsTooLarge { bytes, .. } if bytes > 1 << 31));
}

/// Files that stand anywhere along one dimension, over an array that is published in part.
#[test]
#[allow(clippy::too_many_lines, reason = "one model of one thing, from the top to the bottom")]
fn parts_of_several_files_and_published_values_make_whole_chunks() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let rank = 1 + random.below(3);
        let axis = usize::try_from(random.below(rank)).unwrap();
        let mut shape = random_lengths(&mut random, rank, 1, 7);
        let published = random.below(2) * random.below(9);
        let files = 1 + random.below(4);
        let mut plans = Vec::new();
        for file in 0..files {
            let mut own = shape.clone();
            own[axis] = 1 + random.below(6);
            let chunk = random_lengths(&mut random, rank, 1, 5);
            plans.push((file, plan(&own, &chunk, &chunk, (Some(7), 9))));
        }
        // Which file and step each index of the axis takes: new ones in any mixture, gaps among them,
        // and some of the published ones.
        let mut steps: Vec<(usize, u64)> = Vec::new();
        for (file, plan) in &plans {
            let file = usize::try_from(*file).unwrap();
            steps.extend((0..plan.metadata.shape[axis]).map(|step| (file, step)));
        }
        let mut next = vec![0; plans.len()];
        let mut owners: Vec<Option<(usize, u64)>> = vec![None; usize::try_from(published).unwrap()];
        for owner in &mut owners {
            let file = usize::try_from(random.below(files)).unwrap();
            if random.chance(20) && next[file] < plans[file].1.metadata.shape[axis] {
                *owner = Some((file, next[file]));
                next[file] += 1;
            }
        }
        for _ in 0..random.below(12) {
            let file = usize::try_from(random.below(files)).unwrap();
            let has_more = next[file] < plans[file].1.metadata.shape[axis];
            owners.push(has_more.then(|| (file, next[file])));
            next[file] += 1;
        }
        shape[axis] = owners.len() as u64;
        if shape[axis] == 0 {
            continue;
        }
        let target_chunk = random_lengths(&mut random, rank, 1, 7);
        let sources: Vec<Source> =
            plans.into_iter().map(|(_, plan)| Source::random(&mut random, plan)).collect();
        let array = plan(&shape, &target_chunk, &target_chunk, (Some(7), 7));
        let segments = (0..).zip(&owners).filter_map(|(target, owner)| {
            let (part, source) = (*owner)?;
            Some(Segment { target, source, length: 1, part })
        });
        let target = ArrayTarget {
            axis,
            published_length: published,
            has_objects: true,
            parts: sources.iter().enumerate().map(|(at, s)| part(&s.plan, at)).collect(),
            segments: segments.collect(),
            ..whole(&array)
        };

        // What is published: chunks with anything behind the published end.
        let mut objects = BTreeMap::new();
        let mut before = BTreeMap::new();
        let chain = crate::zarr::CodecChain::new(&array.metadata).unwrap();
        let elements: u64 = target_chunk.iter().product();
        for index in indices(&array.metadata.grid_shape()) {
            if index[axis] * target_chunk[axis] < published && random.chance(80) {
                let raw: Vec<u8> =
                    (0..2 * elements).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
                before.insert(index.clone(), raw.clone());
                let key = array.path.key(&array.metadata.chunk_key(&index));
                objects.insert(key, chain.encode(raw).unwrap());
            }
        }

        let mut assembler =
            Assembler::new(&target, [0, 300, 1 << 30][usize::try_from(seed % 3).unwrap()]).unwrap();
        let mut blocks = Vec::new();
        for (part, source) in sources.iter().enumerate() {
            for location in source.locations(&mut random) {
                blocks.extend(assembler.push(part, &location).unwrap());
            }
        }
        blocks.extend(assembler.finish());
        let mut keys = BTreeSet::new();
        for block in blocks {
            let retained = block.retained().into_iter();
            let published =
                retained.map(|chunk| (chunk.index, objects.get(&chunk.key).cloned())).collect();
            let built = block
                .build(&published, |Piece { part, location }, buffer| {
                    sources[*part].read(location, buffer);
                    Ok::<_, Infallible>(())
                })
                .unwrap();
            for chunk in built.chunks {
                assert!(keys.insert(chunk.key.clone()), "{} has two owners", chunk.key);
                match chunk.bytes {
                    Some(bytes) => drop(objects.insert(chunk.key, bytes)),
                    None => drop(objects.remove(&chunk.key)),
                }
            }
        }

        let reader = ArrayReader::new(array.path.clone(), array.metadata.clone()).unwrap();
        let get = |key: &str| Ok::<_, Infallible>(objects.get(key).cloned());
        let found = reader.whole(get).unwrap();
        for (element, at) in found.chunks(2).zip(indices(&shape)) {
            let expected: Vec<u8> = match owners[usize::try_from(at[axis]).unwrap()] {
                Some((file, step)) => {
                    let source = &sources[file];
                    let mut inside = at.clone();
                    inside[axis] = step;
                    let lengths = &source.plan.metadata.shape;
                    let linear =
                        inside.iter().zip(lengths).fold(0, |n, (i, length)| n * length + i);
                    let linear = usize::try_from(2 * linear).unwrap();
                    source.model[linear..linear + 2].into()
                }
                None if at[axis] < published => {
                    let index: Vec<u64> =
                        at.iter().zip(&target_chunk).map(|(i, c)| i / c).collect();
                    let linear =
                        at.iter().zip(&target_chunk).fold(0, |n, (i, chunk)| n * chunk + i % chunk);
                    let linear = usize::try_from(2 * linear).unwrap();
                    before.get(&index).map_or(vec![7, 0], |raw| raw[linear..linear + 2].into())
                }
                None => vec![7, 0],
            };
            assert_eq!(element, expected, "seed {seed}: {at:?} of {target:?}");
        }
    }
}
