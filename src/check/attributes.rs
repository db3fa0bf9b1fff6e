//! Whether the attributes of the files are in the dataset.
//!
//! A dataset of many files has one value for each attribute, that of the file that stands first. An
//! attribute is as it should be if at least one of the files has it as the dataset does; where others
//! differ that is worth a note, because with them their values would be gone.

use std::collections::BTreeMap;

use serde_json::Value;

use super::nodes::Content;
use super::report::Report;
use crate::plan::join::Member;
use crate::zarr::{Attributes, Node, NodePath};

/// Attributes that say how values are encoded. The values themselves are compared, and they may be
/// encoded otherwise than in the file.
const OF_ENCODING: [&str; 7] =
    ["_FillValue", "missing_value", "scale_factor", "add_offset", "units", "calendar", "_Unsigned"];

/// Longest text of a value in a finding, in characters.
const VALUE_SHOWN: usize = 60;

/// The attributes of all files that were compared so far.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Groups of files that the dataset lacks, each with the first such file.
    lacking: BTreeMap<NodePath, String>,
    found: BTreeMap<(NodePath, String), Found>,
}

#[derive(Debug, Default)]
struct Found {
    /// Files that have it as the dataset does.
    equal: u64,
    /// Files that do not.
    different: u64,
    /// The first of them, with its value.
    example: Option<(String, Option<Value>)>,
}

impl Comparison {
    /// Takes the attributes of one file.
    pub(super) fn add(&mut self, file: &str, member: &Member, content: &Content) {
        for group in member.groups.iter() {
            let Some(Node::Group(there)) = content.nodes.get(&group.path) else {
                self.lacking.entry(group.path.clone()).or_insert_with(|| file.to_owned());
                continue;
            };
            self.add_node(file, &group.path, &group.metadata.attributes, &there.attributes, &[]);
        }
        for array in &member.arrays {
            let Some(there) = content.array(&array.path) else { continue };
            let here = &array.metadata.attributes;
            self.add_node(file, &array.path, here, &there.attributes, &OF_ENCODING);
        }
    }

    fn add_node(
        &mut self,
        file: &str,
        path: &NodePath,
        here: &Attributes,
        there: &Attributes,
        skipped: &[&str],
    ) {
        let names = here.keys().chain(there.keys().filter(|name| !here.contains_key(*name)));
        for name in names.filter(|name| !skipped.contains(&name.as_str())) {
            let found = self.found.entry((path.clone(), name.clone())).or_default();
            if here.get(name) == there.get(name) {
                found.equal += 1;
            } else {
                found.different += 1;
                found.example.get_or_insert_with(|| (file.to_owned(), here.get(name).cloned()));
            }
        }
    }

    /// Says of every attribute that is not the same everywhere what it is.
    pub(super) fn finish(self, content: &Content, report: &mut Report) {
        for (path, file) in self.lacking {
            report.problem(format!("{file}: group `{path}`: it is not in the dataset"));
        }
        for ((path, name), found) in self.found {
            let Some((file, value)) = found.example else { continue };
            let there = match content.nodes.get(&path) {
                Some(Node::Array(array)) => array.attributes.get(&name),
                Some(Node::Group(group)) => group.attributes.get(&name),
                None => None,
            };
            let place = if path.is_root() { String::new() } else { format!(" of `{path}`") };
            let (there, here) = (text(there), text(value.as_ref()));
            if found.equal == 0 {
                report.problem(format!(
                    "attribute `{name}`{place}: {file} has {here}, the dataset {there}"
                ));
            } else {
                let (different, all) = (found.different, found.different + found.equal);
                report.note(format!(
                    "attribute `{name}`{place} is another in {different} of {all} files: {file} has \
                     {here}, the dataset {there}"
                ));
            }
        }
    }
}

fn text(value: Option<&Value>) -> String {
    let Some(value) = value else { return "none".to_owned() };
    let text = value.to_string();
    if text.chars().count() <= VALUE_SHOWN {
        return text;
    }
    text.chars().take(VALUE_SHOWN).chain(['…']).collect()
}
