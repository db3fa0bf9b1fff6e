//! From the schema of one file to the groups and arrays of one dataset.

use std::collections::BTreeSet;

use super::attributes;
use super::encoding::Encoding;
use super::fill;
use super::grid;
use super::refusal::Refusal;
use super::text;
use crate::netcdf::{self, Dimension, Group, Schema, Variable, VariableId};
use crate::zarr::{
    ArrayMetadata, CHUNK_BYTES_MAX, ChunkKeyEncoding, CodecSpec, DataType, GroupMetadata,
    Hierarchy, Node, NodePath, ZarrFormat, check_new_node_name,
};

/// What a dataset will consist of.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetPlan {
    /// Version of the documents.
    pub format: ZarrFormat,
    /// Whether the root document repeats the metadata of all nodes.
    pub consolidated: bool,
    /// All groups, the root first, parents before children.
    pub groups: Vec<GroupPlan>,
    /// All arrays, in the order of the file.
    pub arrays: Vec<ArrayPlan>,
    /// What is left out because it cannot be stored.
    pub left_out: Vec<Refusal>,
    /// What was asked for and does not apply to this file.
    pub warnings: Vec<Refusal>,
}

/// A group to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupPlan {
    /// Where it stands; the root's is empty.
    pub path: NodePath,
    /// Its documents' content.
    pub metadata: GroupMetadata,
}

/// An array to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayPlan {
    /// Where it stands.
    pub path: NodePath,
    /// The variable whose values it takes.
    pub variable: VariableId,
    /// Its documents' content.
    pub metadata: ArrayMetadata,
    /// Whether each dimension can grow.
    pub growing: Vec<bool>,
    /// What an element that was never written reads as in the source: one little-endian element,
    /// or UTF-8.
    pub source_fill: Vec<u8>,
    /// Shape of the source's chunks in elements; never zero.
    pub source_chunk_shape: Vec<u64>,
    /// Whether the file itself stores the variable in such chunks.
    pub is_chunked: bool,
    /// The group that declares each dimension.
    pub scopes: Vec<NodePath>,
}

impl ArrayPlan {
    /// The names of its dimensions.
    pub fn dimension_names(&self) -> Vec<&str> {
        let names = self.metadata.dimension_names.iter().flatten();
        names.map(|name| name.as_deref().unwrap_or_default()).collect()
    }

    /// The chunk shape that the array has with this shape, where some dimensions can grow.
    pub fn chunk_shape(&self, shape: &[u64], growing: &[bool], encoding: &Encoding) -> Vec<u64> {
        let names: Vec<String> = self.dimension_names().into_iter().map(str::to_owned).collect();
        let data_type = self.metadata.data_type;
        let grid = grid::Variable {
            dimensions: &names,
            shape,
            growing,
            source_chunk: self.is_chunked.then_some(self.source_chunk_shape.as_slice()),
            element_bytes: text::element_bytes(data_type),
            coordinate: names == [self.path.name()],
        };
        let mut chunk_shape = grid::chunk_shape(&grid, &encoding.chunks);
        text::keep_whole(shape, data_type, &mut chunk_shape);
        chunk_shape
    }
}

impl DatasetPlan {
    /// The nodes, for their documents.
    pub fn hierarchy(&self) -> Hierarchy {
        let mut hierarchy = Hierarchy::new(self.format, GroupMetadata::default());
        for group in &self.groups {
            hierarchy.insert(group.path.clone(), Node::Group(group.metadata.clone()));
        }
        for array in &self.arrays {
            hierarchy.insert(array.path.clone(), Node::Array(array.metadata.clone()));
        }
        hierarchy
    }

    /// The array that takes a variable's values; `None` when it is left out.
    pub fn array(&self, variable: VariableId) -> Option<&ArrayPlan> {
        self.arrays.iter().find(|array| array.variable == variable)
    }
}

/// Plans the dataset that one file becomes.
///
/// With [`Encoding::skip_unsupported`] what cannot be stored is listed in
/// [`DatasetPlan::left_out`]; without it the error names all of it.
pub fn plan_dataset(schema: &Schema, encoding: &Encoding) -> Result<DatasetPlan, Refusal> {
    if encoding.codec == CodecSpec::Source {
        return Err(Refusal::SourceCodec);
    }
    let mut planner = Planner {
        encoding,
        plan: DatasetPlan {
            format: encoding.format,
            consolidated: encoding.consolidated,
            groups: Vec::new(),
            arrays: Vec::new(),
            left_out: Vec::new(),
            warnings: unused_chunk_names(schema, encoding),
        },
        paths: BTreeSet::new(),
    };
    planner.group(&schema.root, &NodePath::root(), &[])?;
    let mut plan = planner.plan;
    if encoding.skip_unsupported || plan.left_out.is_empty() {
        return Ok(plan);
    }
    Err(Refusal::of_all(std::mem::take(&mut plan.left_out)))
}

/// The dimensions that `--chunks` names and no variable has. One mount takes files of many kinds, such
/// as fields in time and a mask without it, so that this is no reason to refuse one.
fn unused_chunk_names(schema: &Schema, encoding: &Encoding) -> Vec<Refusal> {
    let mut known = Vec::new();
    let mut groups = vec![&schema.root];
    while let Some(group) = groups.pop() {
        groups.extend(group.groups.iter().rev());
        for name in group.variables.iter().flat_map(|variable| &variable.dimensions) {
            if !known.contains(&name.as_str()) {
                known.push(name);
            }
        }
    }
    let unused = encoding.chunks.names().filter(|name| !known.contains(name));
    unused
        .map(|name| Refusal::UnknownDimension {
            name: name.to_owned(),
            known: if known.is_empty() { "no dimensions".into() } else { known.join(", ") },
        })
        .collect()
}

struct Planner<'a> {
    encoding: &'a Encoding,
    plan: DatasetPlan,
    /// Every path that is taken.
    paths: BTreeSet<NodePath>,
}

impl Planner<'_> {
    /// Plans a group with all below it. `outer` are the dimensions of the enclosing groups,
    /// outermost first.
    fn group(
        &mut self,
        group: &Group,
        path: &NodePath,
        outer: &[(NodePath, &Dimension)],
    ) -> Result<(), Refusal> {
        let attributes =
            attributes::convert(&path.to_string(), &group.attributes, None, |refusal| {
                leave_out(&mut self.plan.left_out, refusal)
            })?;
        let metadata = GroupMetadata { attributes, ..GroupMetadata::default() };
        self.plan.groups.push(GroupPlan { path: path.clone(), metadata });

        let declared = group.dimensions.iter().map(|dimension| (path.clone(), dimension));
        let dimensions: Vec<_> = outer.iter().cloned().chain(declared).collect();
        for variable in &group.variables {
            let Some(child) = self.claim(path, &variable.name)? else { continue };
            match self.array(variable, child, &dimensions) {
                Ok(array) => self.plan.arrays.push(array),
                Err(refusal) => self.leave_out(refusal)?,
            }
        }
        for inner in &group.groups {
            if let Some(child) = self.claim(path, &inner.name)? {
                self.group(inner, &child, &dimensions)?;
            }
        }
        Ok(())
    }

    /// The path of a child; `None` when its name cannot be used and it is left out.
    fn claim(&mut self, parent: &NodePath, name: &str) -> Result<Option<NodePath>, Refusal> {
        let checked = check_new_node_name(name, self.encoding.format);
        match checked.and_then(|()| parent.child(name)) {
            Err(reason) => {
                let (name, group) = (name.to_owned(), parent.to_string());
                self.leave_out(Refusal::Name { name, group, reason })?;
                Ok(None)
            }
            Ok(path) if self.paths.insert(path.clone()) => Ok(Some(path)),
            Ok(path) => Err(Refusal::DuplicateName { path: path.to_string() }),
        }
    }

    fn array(
        &mut self,
        variable: &Variable,
        path: NodePath,
        dimensions: &[(NodePath, &Dimension)],
    ) -> Result<ArrayPlan, Refusal> {
        let name = path.to_string();
        let data_type = data_type(&name, variable)?;
        check_consistency(&name, variable, data_type)?;
        let declared = declared(variable, dimensions);
        let fill = fill::fill(&name, variable, data_type, self.encoding.format)?;
        let attributes = text::attributes(&name, variable, data_type, self.encoding.format)?;
        let attributes =
            attributes::convert(&name, &attributes, fill.attribute.as_ref(), |refusal| {
                leave_out(&mut self.plan.left_out, refusal)
            })?;
        let mut metadata = ArrayMetadata {
            format: self.encoding.format,
            shape: variable.shape.clone(),
            chunk_shape: Vec::new(),
            data_type,
            fill_value: fill.fill_value,
            codecs: self.encoding.codec.codecs(data_type),
            chunk_key_encoding: ChunkKeyEncoding::of(self.encoding.format),
            dimension_names: Some(variable.dimensions.iter().cloned().map(Some).collect()),
            attributes,
            extra_fields: serde_json::Map::new(),
        };
        if self.encoding.format == ZarrFormat::V2 {
            // `fill_value` says it there.
            metadata.attributes.shift_remove("_FillValue");
        }
        let mut plan = ArrayPlan {
            path,
            variable: variable.id,
            metadata,
            growing: declared.iter().map(|(_, unlimited)| *unlimited).collect(),
            source_fill: variable.fill.clone(),
            source_chunk_shape: variable.chunk_shape.clone(),
            is_chunked: variable.chunked,
            scopes: declared.into_iter().map(|(scope, _)| scope).collect(),
        };
        plan.metadata.chunk_shape = plan.chunk_shape(&variable.shape, &plan.growing, self.encoding);
        check_chunk_bytes(&plan.path, &plan.metadata)?;
        Ok(plan)
    }

    fn leave_out(&mut self, refusal: Refusal) -> Result<(), Refusal> {
        leave_out(&mut self.plan.left_out, refusal)
    }
}

/// Whether to go on without what `refusal` names is decided when all of it is known.
fn leave_out(left_out: &mut Vec<Refusal>, refusal: Refusal) -> Result<(), Refusal> {
    if refusal.can_be_left_out() {
        left_out.push(refusal);
        Ok(())
    } else {
        Err(refusal)
    }
}

fn data_type(path: &str, variable: &Variable) -> Result<DataType, Refusal> {
    let refusal = |reason: &str| {
        Err(Refusal::UnsupportedVariable { variable: path.to_owned(), reason: reason.to_owned() })
    };
    if let Some(reason) = &variable.unsupported {
        return refusal(reason);
    }
    Ok(match variable.data_type {
        netcdf::DataType::I8 => DataType::Int8,
        netcdf::DataType::U8 => DataType::UInt8,
        netcdf::DataType::I16 => DataType::Int16,
        netcdf::DataType::U16 => DataType::UInt16,
        netcdf::DataType::I32 => DataType::Int32,
        netcdf::DataType::U32 => DataType::UInt32,
        netcdf::DataType::I64 => DataType::Int64,
        netcdf::DataType::U64 => DataType::UInt64,
        netcdf::DataType::F16 => DataType::Float16,
        netcdf::DataType::F32 => DataType::Float32,
        netcdf::DataType::F64 => DataType::Float64,
        netcdf::DataType::Char => DataType::Char,
        netcdf::DataType::String => DataType::String,
        netcdf::DataType::Other => return refusal("a type that has no counterpart in Zarr"),
    })
}

fn check_consistency(path: &str, variable: &Variable, data_type: DataType) -> Result<(), Refusal> {
    let rank = variable.shape.len();
    let what = if variable.dimensions.len() != rank || variable.chunk_shape.len() != rank {
        "its dimensions do not fit its shape"
    } else if variable.chunk_shape.contains(&0) {
        "a chunk has no elements"
    } else if data_type == DataType::String && std::str::from_utf8(&variable.fill).is_err() {
        "the fill value is not UTF-8"
    } else if data_type != DataType::String && variable.fill.len() != data_type.size() {
        "the fill value does not fit the type"
    } else {
        return Ok(());
    };
    Err(Refusal::Inconsistent { variable: path.to_owned(), what })
}

/// The group that declares each dimension and whether it can grow, looked up from the innermost
/// group outwards.
fn declared(variable: &Variable, dimensions: &[(NodePath, &Dimension)]) -> Vec<(NodePath, bool)> {
    let find = |name: &String| {
        let found = dimensions.iter().rev().find(|(_, dimension)| dimension.name == *name);
        found.map_or_else(
            || (NodePath::root(), false),
            |(scope, dimension)| (scope.clone(), dimension.unlimited),
        )
    };
    variable.dimensions.iter().map(find).collect()
}

/// Refuses chunks that compressors and readers cannot take.
pub(super) fn check_chunk_bytes(path: &NodePath, metadata: &ArrayMetadata) -> Result<(), Refusal> {
    let bytes = metadata.chunk_bytes();
    if bytes.is_some_and(|bytes| bytes <= CHUNK_BYTES_MAX) {
        return Ok(());
    }
    let names = metadata.dimension_names.iter().flatten();
    let names = names.map(|name| name.as_deref().unwrap_or_default());
    let dimensions = names.zip(&metadata.chunk_shape);
    let chunk: Vec<_> =
        dimensions.clone().map(|(name, length)| format!("{name}={length}")).collect();
    let longest = dimensions.max_by_key(|(_, length)| **length);
    Err(Refusal::ChunkTooLarge {
        variable: path.to_string(),
        chunk: chunk.join(", "),
        bytes,
        suggestion: longest.map_or_else(String::new, |(name, length)| {
            let factor = bytes.map_or(u64::MAX, |bytes| bytes.div_ceil(16 << 20));
            format!("{name}={}", (length / factor).max(1))
        }),
    })
}
