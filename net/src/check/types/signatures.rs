//! Infers the signatures of nets and of their components, for editors and for `thalweg check --types`.

use super::super::resolved::*;
use super::super::shape::{Shape, Stream};
use super::super::signatures::{ComponentSignature, Inferred, NetSignature, Signatures};
use super::{SIGNATURE_WORK, Types, key};

impl Types<'_> {
    pub(super) fn signatures(&mut self) -> Signatures {
        self.muted = true;
        self.work = 0;
        self.work_max *= SIGNATURE_WORK;
        let (mut nets, mut components) = (Vec::new(), Vec::new());
        for net in 0..self.resolved.nets.len() {
            let body = self.take_body(net);
            let mut complete = self.component_signatures(&body, &nets, &mut components);
            self.resolved.nets[net].body = body;
            let inferred = self.net_signature(NetId(net as u32));
            let Net { name, at, signature, .. } = &self.resolved.nets[net];
            complete |= signature.is_some();
            let (name, at, declared) = (name.clone(), *at, signature.clone());
            nets.push(NetSignature { name, at, declared, inferred, complete });
        }
        Signatures::new(nets, components)
    }

    fn net_signature(&mut self, net: NetId) -> Vec<Inferred> {
        let Some(border) = self.border(net) else {
            let body = self.take_body(net.0 as usize);
            let inferred = self.component_signature(&body);
            self.resolved.nets[net.0 as usize].body = body;
            return inferred;
        };
        let mut inferred = Vec::new();
        for &start in &border.starts {
            let out = self.shielded(net, &self.arrow(net, start), None);
            inferred.push(Inferred { input: None, output: self.known(&out) });
        }
        for (i, accepts) in border.accepts.iter().enumerate() {
            let out = self.made(net, &border, i);
            inferred.push(Inferred { input: Some(self.label_set(&accepts[0])), output: self.known(&out) });
        }
        inferred
    }

    /// Infers the signatures of a component and its parts, given those of the preceding `nets`; returns
    /// whether all variants of the component are known.
    fn component_signatures(
        &mut self,
        node: &Node,
        nets: &[NetSignature],
        found: &mut Vec<ComponentSignature>,
    ) -> bool {
        let inferred = self.component_signature(node);
        let (name, word) = (node.name.clone(), node.kind.word());
        let at = found.len();
        found.push(ComponentSignature { at: node.at, word, name, inferred, complete: true });
        let mut complete = match node.kind {
            NodeKind::Net(net) => nets.get(net.0 as usize).is_none_or(|net| net.complete),
            _ => !self.unfinished.contains(&key(node)),
        };
        for part in node.parts() {
            complete &= self.component_signatures(part, nets, found);
        }
        found[at].complete = complete;
        complete
    }

    fn component_signature(&mut self, node: &Node) -> Vec<Inferred> {
        let accepts = self.accepts_of(node);
        if accepts.is_empty() {
            let out = self.push(node, Stream::new());
            return vec![Inferred { input: None, output: self.known(&out) }];
        }
        let mut inferred = Vec::new();
        for variant in accepts.iter() {
            let exactly = Shape { open: false, ..Shape::anything().with(variant) };
            let out = self.push(node, Stream::from([exactly]));
            inferred.push(Inferred { input: Some(self.label_set(variant)), output: self.known(&out) });
        }
        inferred
    }

    /// The labels that all records of a stream surely have; `None` if some records are not known.
    fn known(&self, out: &Stream) -> Option<Vec<LabelSet>> {
        let unknown = |shape: &Shape| shape.open && shape.has.is_empty() && shape.lacks.is_empty();
        if out.iter().any(unknown) {
            return None;
        }
        let mut sets: Vec<LabelSet> = out.iter().map(|shape| self.label_set(&shape.has)).collect();
        sets.sort();
        sets.dedup();
        Some(sets)
    }
}
