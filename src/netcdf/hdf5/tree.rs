//! The objects of a file as a tree of groups, in the order in which netCDF-C visits them: the
//! datasets of a group, then its child groups.

use super::attribute::{self, RawAttribute};
use super::dataset::Dataset;
use super::links;
use super::object::ObjectHeader;
use super::store::Store;
use super::types::Type;
use crate::netcdf::error::NetcdfError;

/// Depth of nested groups. Each level costs stack.
const DEPTH_MAX: usize = 100;

/// Objects of a file. Hard links make it possible to reach few objects on very many paths.
const OBJECTS_MAX: usize = 1 << 20;

/// A group with everything below it.
#[derive(Debug)]
pub(super) struct GroupNode {
    pub(super) name: String,
    pub(super) attributes: Vec<RawAttribute>,
    pub(super) members: Vec<Member>,
    pub(super) groups: Vec<GroupNode>,
}

/// A member of a group that is not a group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) content: Content,
}

/// What a member is.
#[derive(Debug)]
pub(super) enum Content {
    Dataset(Box<Dataset>),
    /// A named datatype.
    Datatype(Type),
    /// A link to nowhere or out of the file, in words.
    Lost(String),
}

pub(super) fn read(store: &Store, root: u64) -> Result<GroupNode, NetcdfError> {
    let mut reader = Reader { store, root, ancestors: Vec::new(), objects: 0 };
    let header = ObjectHeader::read(store, root)?;
    reader.group(String::new(), &header)
}

struct Reader<'a> {
    store: &'a Store,
    root: u64,
    /// Addresses of the groups that are being read.
    ancestors: Vec<u64>,
    objects: usize,
}

impl Reader<'_> {
    fn group(&mut self, name: String, header: &ObjectHeader) -> Result<GroupNode, NetcdfError> {
        if self.ancestors.contains(&header.address) {
            return Err(self.corrupt(header, "it contains itself"));
        }
        if self.ancestors.len() >= DEPTH_MAX {
            return Err(self.corrupt(header, "it is nested too deeply"));
        }
        self.ancestors.push(header.address);
        let attributes = attribute::read_all(self.store, header)?;
        let mut node = GroupNode { name, attributes, members: Vec::new(), groups: Vec::new() };
        let mut groups = Vec::new();
        for link in links::read(self.store, header)? {
            self.objects = self.objects.saturating_add(1);
            if self.objects > OBJECTS_MAX {
                return Err(self.corrupt(header, "the file has too many objects"));
            }
            match links::follow(self.store, self.root, header.address, &link.target)? {
                Err(reason) => {
                    node.members.push(Member { name: link.name, content: Content::Lost(reason) });
                }
                Ok(address) => self.object(link.name, address, &mut node, &mut groups)?,
            }
        }
        for (name, header) in groups {
            node.groups.push(self.group(name, &header)?);
        }
        self.ancestors.pop();
        Ok(node)
    }

    fn object(
        &self,
        name: String,
        address: u64,
        node: &mut GroupNode,
        groups: &mut Vec<(String, ObjectHeader)>,
    ) -> Result<(), NetcdfError> {
        let header = ObjectHeader::read(self.store, address)?;
        if links::is_group(&header) {
            groups.push((name, header));
            return Ok(());
        }
        let content = if let Some(dataset) = Dataset::read(self.store, &header)? {
            Content::Dataset(Box::new(dataset))
        } else if let Some((datatype, _)) =
            header.resolved(self.store, super::object::kind::DATATYPE)?
        {
            Content::Datatype(Type::parse(self.store, datatype.address, &datatype.data)?)
        } else {
            // A new-style group always has link info; this is a group with nothing in it, or
            // something that netCDF has no word for.
            return Err(self.corrupt(&header, "it is neither a group, a dataset nor a datatype"));
        };
        node.members.push(Member { name, content });
        Ok(())
    }

    fn corrupt(&self, header: &ObjectHeader, reason: &str) -> NetcdfError {
        NetcdfError::corrupt("an object", self.store.offset(header.address), reason)
    }
}
