//! What a check found.

/// Findings of one kind that are kept in words; the others are counted.
const KEPT: usize = 200;

/// What a check found, in words for the user.
#[derive(Debug, Default)]
pub struct Report {
    /// Version of the format of the documents; zero before it is known.
    pub format: u8,
    /// Whether the root document repeats the metadata of all nodes.
    pub consolidated: bool,
    /// Groups, the root among them.
    pub groups: usize,
    /// Arrays.
    pub arrays: usize,
    /// Chunk objects that are in the bucket where the grids ask for them.
    pub chunk_objects: u64,
    /// Their bytes.
    pub chunk_bytes: u64,
    /// Chunks that are not stored because they hold nothing but the fill value.
    pub omitted: u64,
    /// Chunk objects that were fetched and decoded.
    pub decoded: u64,
    /// Source files that were compared.
    pub sources: usize,
    /// Variables of source files all of whose values are equal.
    pub equal_variables: u64,
    /// Values that were compared.
    pub values: u64,
    /// What is wrong: for each of them the dataset cannot be relied on as it is.
    pub problems: Lines,
    /// What is worth knowing and does no harm.
    pub notes: Lines,
}

/// Sentences, of which only the first are kept.
#[derive(Debug, Default)]
pub struct Lines {
    kept: Vec<String>,
    count: u64,
}

impl Lines {
    /// Adds one.
    pub(super) fn add(&mut self, line: String) {
        self.count += 1;
        if self.kept.len() < KEPT {
            self.kept.push(line);
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first of them, in the order in which they were found.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.problems.count == 0
    }

    pub(super) fn problem(&mut self, line: impl Into<String>) {
        self.problems.add(line.into());
    }

    pub(super) fn note(&mut self, line: impl Into<String>) {
        self.notes.add(line.into());
    }
}
