//! Random operations against a model of what must be there, with the daemon killed at random.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const INLINE: usize = 1000;

/// What recovery would find.
#[derive(Debug, Clone, PartialEq)]
enum Recorded {
    Open,
    Inline(Vec<u8>, bool),
    SpoolSealed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Memory,
    Journal,
    Spool,
}

#[derive(Debug, Clone)]
struct File {
    path: String,
    bytes: Vec<u8>,
    place: Place,
    recorded: Recorded,
    /// Path and mode as recorded.
    mode: u32,
}

#[derive(Debug, Default)]
struct Model {
    files: BTreeMap<u64, File>,
    deletes: BTreeSet<String>,
    notes: BTreeMap<String, u64>,
    next: u64,
}

impl File {
    fn change(&mut self, length: usize) {
        if self.place != Place::Spool {
            self.place = if length > INLINE { Place::Spool } else { Place::Memory };
        } else if self.recorded == Recorded::SpoolSealed {
            self.recorded = Recorded::Open;
        }
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        let end = self.bytes.len().max(offset + data.len());
        self.change(end);
        self.bytes.resize(end, 0);
        self.bytes[offset..offset + data.len()].copy_from_slice(data);
    }

    fn set_len(&mut self, length: usize) {
        if length != self.bytes.len() {
            self.change(length);
            self.bytes.resize(length, 0);
        }
    }

    fn seal(&mut self) {
        match self.place {
            Place::Spool => self.recorded = Recorded::SpoolSealed,
            Place::Memory | Place::Journal => {
                self.recorded = Recorded::Inline(self.bytes.clone(), true);
                self.place = Place::Journal;
            }
        }
    }

    fn sync(&mut self) {
        match (self.place, &self.recorded) {
            (Place::Memory, _) => self.recorded = Recorded::Inline(self.bytes.clone(), false),
            (Place::Spool, Recorded::Inline(..)) => self.recorded = Recorded::Open,
            _ => {}
        }
    }

    /// The daemon dies. Answers whether the file counts as closed.
    fn crash(&mut self) -> bool {
        match self.recorded.clone() {
            Recorded::Inline(bytes, closed) => {
                (self.bytes, self.place) = (bytes, Place::Journal);
                closed
            }
            Recorded::SpoolSealed => true,
            Recorded::Open => {
                if self.place != Place::Spool {
                    self.bytes.clear();
                }
                false
            }
        }
    }

    fn is_sealed(&self) -> bool {
        match self.recorded {
            Recorded::Inline(_, closed) => closed && self.place == Place::Journal,
            Recorded::SpoolSealed => true,
            Recorded::Open => false,
        }
    }
}

/// A linear congruential generator: the same sequence for the same seed, everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn size(&mut self, bound: u64) -> usize {
        usize::try_from(self.below(bound)).unwrap()
    }

    fn path(&mut self) -> String {
        const NAMES: [&str; 4] = ["a", "b", "a/b", "ab"];
        format!("{}/{}", NAMES[self.size(4)], self.below(3))
    }
}

fn step(random: &mut Random, staging: &Staging, model: &mut Model) {
    let id = if model.files.is_empty() || random.below(6) == 0 {
        let (id, path) = (model.next, random.path());
        model.next += 1;
        staging.create(FileId(id), &at(&path), &attributes(0)).unwrap();
        let (bytes, place, recorded) = (Vec::new(), Place::Memory, Recorded::Open);
        model.files.insert(id, File { path, bytes, place, recorded, mode: 0 });
        id
    } else {
        *model.files.keys().nth(random.size(model.files.len() as u64)).unwrap()
    };
    let staged = staging.file(FileId(id)).unwrap();
    let file = model.files.get_mut(&id).unwrap();
    match random.below(15) {
        0..4 => {
            let reach = if random.below(4) == 0 { 150_000 } else { 900 };
            let (offset, data) = (random.size(reach), pattern(random.below(256), random.size(600)));
            staged.write_at(offset as u64, &data).unwrap();
            if !data.is_empty() {
                file.write(offset, &data);
            }
        }
        4 => {
            let reach = if random.below(4) == 0 { 150_000 } else { 900 };
            let length = random.size(reach);
            staged.set_len(length as u64).unwrap();
            file.set_len(length);
        }
        5..8 => {
            (file.path, file.mode) = (random.path(), u32::try_from(random.below(512)).unwrap());
            staging.seal(&staged, &at(&file.path), &attributes(file.mode)).unwrap();
            file.seal();
        }
        8 => {
            staged.sync().unwrap();
            file.sync();
        }
        9 => {
            (file.path, file.mode) = (random.path(), u32::try_from(random.below(512)).unwrap());
            staging.update(FileId(id), &at(&file.path), &attributes(file.mode)).unwrap();
        }
        10 => {
            staging.discard(FileId(id)).unwrap();
            model.files.remove(&id);
        }
        11 => {
            let sealed = file.is_sealed();
            let freed = staging.uploaded(FileId(id), staged.generation()).unwrap();
            assert_eq!(freed, sealed);
            if freed {
                model.files.remove(&id);
            }
        }
        12 => {
            let (from, to) = ("a", ["b", "c", "a/b"][random.size(3)]);
            staging.rename_folder(&at(from), &at(to)).unwrap();
            for file in model.files.values_mut() {
                if let Some(rest) = file.path.strip_prefix("a/") {
                    file.path = format!("{to}/{rest}");
                }
            }
        }
        13 => {
            let path = random.path();
            if random.below(2) == 0 {
                staging.record_delete(&at(&path)).unwrap();
                model.deletes.insert(path);
            } else {
                staging.deleted(&at(&path)).unwrap();
                model.deletes.remove(&path);
            }
        }
        _ => {
            let (key, value) = (random.path(), random.below(1000));
            if value < 300 {
                staging.note(&key, None).unwrap();
                model.notes.remove(&key);
            } else {
                staging.note(&key, Some(&serde_json::json!(value))).unwrap();
                model.notes.insert(key, value);
            }
        }
    }
}

fn check(staging: &Staging, model: &Model) {
    for (id, file) in &model.files {
        assert_eq!(content(staging, *id), file.bytes, "{id}: {file:?}");
    }
    assert_eq!(staging.usage().files, model.files.len() as u64);
}

fn check_recovered(recovered: &Recovered, model: &mut Model) {
    assert_eq!(recovered.files.len(), model.files.len());
    for (found, (id, file)) in recovered.files.iter().zip(&mut model.files) {
        let closed = file.crash();
        assert_eq!((found.id.0, found.path.as_str()), (*id, file.path.as_str()));
        assert_eq!(found.attributes.mode, file.mode);
        assert_eq!((found.closed, found.size), (closed, file.bytes.len() as u64), "{id}: {file:?}");
    }
    let deletes = recovered.deletes.iter().map(|path| path.as_str().to_owned());
    assert!(deletes.eq(model.deletes.iter().cloned()));
    let notes = recovered.notes.iter().map(|(key, value)| (key.clone(), value.as_u64().unwrap()));
    assert!(notes.eq(model.notes.iter().map(|(key, value)| (key.clone(), *value))));
    assert_eq!(recovered.next_id, model.next);
}

#[test]
fn random_operations_and_crashes_leave_what_the_model_says() {
    for seed in 0..20 {
        let mut spool = Spool::new();
        spool.inline_bytes_max = INLINE;
        spool.surroundings.segment_bytes_max = [2_000, 30_000][usize::from(seed % 2 == 0)];
        let mut random = Random(seed);
        let mut model = Model::default();
        let (mut staging, _) = spool.open();
        for _ in 0..300 {
            step(&mut random, &staging, &mut model);
            if random.below(40) == 0 {
                check(&staging, &model);
                drop(staging);
                let recovered;
                (staging, recovered) = spool.open();
                check_recovered(&recovered, &mut model);
                check(&staging, &model);
            }
        }
        for id in model.files.keys() {
            staging.discard(FileId(*id)).unwrap();
        }
        assert_eq!(staging.usage().bytes, 0, "seed {seed}");
        assert_eq!(fs::read_dir(spool.path().join("files")).unwrap().count(), 0);
    }
}
