//! The inferred signatures of nets and components.

use std::collections::HashMap;
use std::fmt;

use super::resolved::{Arrow, LabelSet, Place, SourceId};
use crate::syntax::ast::Name;

/// All signatures of a program.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    /// The signature of every net that has a topology; a net comes after those it uses.
    pub nets: Vec<NetSignature>,
    /// The signature of every component in the nets.
    pub components: Vec<ComponentSignature>,
    /// The index into `nets` of the net that is defined at each place.
    by_place: HashMap<Place, usize>,
}

/// The signature of a net. The `Display` of a signature has the form of a declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct NetSignature {
    /// The net's name.
    pub name: Name,
    /// The place of the net's name in its definition.
    pub at: Place,
    /// The declared signature, with all type names replaced.
    pub declared: Option<Vec<Arrow>>,
    /// The inferred signature: one entry for each input variant.
    pub inferred: Vec<Inferred>,
    /// Whether `inferred` is complete. If false, the check ended early: there may be more variants, and
    /// records of some listed variants may not get through.
    pub complete: bool,
}

/// The signature of a component.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentSignature {
    /// The place.
    pub at: Place,
    /// `box`, `net`, `filter`, …: see [`NodeKind::word`](super::NodeKind::word).
    pub word: &'static str,
    /// The component's name: see [`Node::name`](super::Node::name).
    pub name: Name,
    /// The signature, one entry for each input variant.
    pub inferred: Vec<Inferred>,
    /// Whether `inferred` contains all input variants.
    pub complete: bool,
}

/// The output of a component for one input variant: the labels that the component makes, and those that are
/// inherited from the variant. A record's labels outside the variant are inherited as well but not listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inferred {
    /// The variant; `None` for output that needs no input.
    pub input: Option<LabelSet>,
    /// The output variants; `None` if they are not known.
    pub output: Option<Vec<LabelSet>>,
}

impl Signatures {
    pub(super) fn new(nets: Vec<NetSignature>, components: Vec<ComponentSignature>) -> Signatures {
        let by_place = nets.iter().enumerate().map(|(index, net)| (net.at, index)).collect();
        Signatures { nets, components, by_place }
    }

    /// The signature of the net that is defined at this place.
    pub fn of_definition(&self, at: Place) -> Option<&NetSignature> {
        self.by_place.get(&at).map(|&index| &self.nets[index])
    }

    /// The innermost component at a byte of a source.
    pub fn component_at(&self, source: SourceId, byte: u32) -> Option<&ComponentSignature> {
        let there = |c: &&ComponentSignature| {
            c.at.source == source && c.at.span.start <= byte && byte < c.at.span.end.max(c.at.span.start + 1)
        };
        self.components.iter().filter(there).min_by_key(|c| c.at.span.end - c.at.span.start)
    }
}

impl fmt::Display for NetSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_all(&self.inferred, f)
    }
}

impl fmt::Display for ComponentSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_all(&self.inferred, f)
    }
}

impl fmt::Display for Inferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(input) = &self.input {
            write!(f, "{} ", shown(input))?;
        }
        f.write_str("->")?;
        let Some(output) = &self.output else { return f.write_str(" ...") };
        for (i, variant) in output.iter().enumerate() {
            write!(f, "{} {}", if i == 0 { "" } else { " |" }, shown(variant))?;
        }
        Ok(())
    }
}

fn write_all(all: &[Inferred], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (i, one) in all.iter().enumerate() {
        write!(f, "{}{one}", if i == 0 { "" } else { ", " })?;
    }
    Ok(())
}

fn shown(set: &LabelSet) -> String {
    let labels: Vec<String> = set.iter().map(ToString::to_string).collect();
    format!("{{{}}}", labels.join(", "))
}
