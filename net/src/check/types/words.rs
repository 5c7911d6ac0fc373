//! The messages about types that do not fit.

use std::rc::Rc;
use std::sync::Arc;

use super::super::resolved::*;
use super::super::shape::{Id, Presence, Set, Shape, tie};
use super::{Types, key};
use crate::syntax::ast::Pattern;
use crate::syntax::{Diagnostic, Source};

impl Types<'_> {
    fn source(&self, at: Place) -> Arc<Source> {
        self.resolved.source(at).clone()
    }

    pub(super) fn error(&self, code: &'static str, message: String, at: Place) -> Diagnostic {
        Diagnostic::error(code, message, &self.source(at), at.span)
    }

    fn warning(&self, code: &'static str, message: String, at: Place) -> Diagnostic {
        Diagnostic::warning(code, message, &self.source(at), at.span)
    }

    /// Adds a diagnostic, unless there is one with the same code and place.
    pub(super) fn tell(&mut self, at: Place, diagnostic: Diagnostic) {
        if !self.muted && self.told.insert((diagnostic.code, at)) {
            self.diagnostics.push(diagnostic);
        }
    }

    fn silent(&self, shape: &Shape) -> bool {
        self.muted || !shape.sure
    }

    /// The labels of `needs` that are surely missing, in words.
    fn missing(&self, needs: &[Id], shape: &Shape) -> String {
        let missing: Set = needs.iter().copied().filter(|&l| shape.presence(l) == Presence::Lacks).collect();
        let labels: Vec<String> = self.label_set(&missing).iter().map(|l| format!("`{l}`")).collect();
        labels.join(" and ")
    }

    fn why(&self, error: Diagnostic, needs: &[Id], shape: &Shape) -> Diagnostic {
        let error =
            error.label(format!("needs {}; records here have {}", self.show(needs), self.show_shape(shape)));
        match shape.open {
            true => error.remark("it was consumed before, or records that have it went another way"),
            false => error,
        }
    }

    pub(super) fn box_lacks(&mut self, node: &Node, index: BoxId, needs: &[Id], shape: &Shape) {
        if self.silent(shape) {
            return;
        }
        let used = self.resolved.box_use(index);
        let (name, at) = (used.name.clone(), used.at);
        let message = format!(
            "box `{name}` needs {}, which records that come here do not have",
            self.missing(needs, shape)
        );
        let error = self.error("E0501", message, node.at);
        let error = self.why(error, needs, shape);
        let error = error.also(&self.source(at), at.span, "declared here");
        self.tell(node.at, error);
    }

    pub(super) fn net_lacks(&mut self, node: &Node, net: NetId, accepts: &[Rc<Vec<Set>>], shape: &Shape) {
        if self.silent(shape) {
            return;
        }
        let (name, at) = (self.resolved.net(net).name.clone(), self.resolved.net(net).at);
        let sets: Vec<Set> = accepts.iter().map(|variants| variants[0].clone()).collect();
        let message = format!("net `{name}` does not take records {}", self.show_shape(shape));
        let error = self
            .error("E0501", message, node.at)
            .label(format!("takes {}", self.show_variants(&sets)))
            .also(&self.source(at), at.span, "its signature is declared here");
        self.tell(node.at, error);
    }

    pub(super) fn filter_lacks(&mut self, node: &Node, needs: &[Id], shape: &Shape) {
        if self.silent(shape) {
            return;
        }
        let message = format!(
            "this filter needs {}, which records that come here do not have",
            self.missing(needs, shape)
        );
        let error = self.error("E0502", message, node.at);
        let error = self.why(error, needs, shape);
        self.tell(node.at, error);
    }

    pub(super) fn split_lacks(&mut self, node: &Node, tags: &[Id], shape: &Shape) {
        if self.silent(shape) {
            return;
        }
        let missing = self.missing(tags, shape);
        let message = format!("this split needs {missing}, which records that come here do not have");
        let error = self.error("E0506", message, node.at);
        let error = self.why(error, tags, shape);
        let absent = tags.iter().copied().filter(|&l| shape.presence(l) == Presence::Lacks).collect::<Set>();
        let made: Vec<String> = self.label_set(&absent).iter().map(|l| format!("<{} = 0>", l.name)).collect();
        let help = format!("make it before the split, for example by `[{{}} -> {{{}}}]`", made.join(", "));
        self.tell(node.at, error.help(help));
    }

    pub(super) fn no_branch(
        &mut self,
        node: &Node,
        branches: &[Node],
        accepts: &[Rc<Vec<Set>>],
        shape: &Shape,
    ) {
        if self.silent(shape) {
            return;
        }
        let message = format!("no branch takes records {}", self.show_shape(shape));
        let mut error = self.error("E0504", message, node.at).label("they come here");
        for (branch, accepts) in branches.iter().zip(accepts).take(8) {
            if !accepts.is_empty() {
                let takes = format!("takes {}", self.show_variants(accepts));
                error = error.also(&self.source(branch.at), branch.at.span, takes);
            }
        }
        self.tell(node.at, error.help("add a branch for them; `[]` takes any record and passes it on"));
    }

    /// Adds the warnings about parts that no record reaches, which are known only after all records were
    /// followed.
    pub(super) fn doubts(&mut self) {
        let nets = std::mem::take(&mut self.resolved.nets);
        nets.iter().for_each(|net| self.doubts_of(&net.body));
        self.resolved.nets = nets;
    }

    fn doubts_of(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Parallel { branches, .. }
                if self.reached.contains(&key(node))
                    && !self.told.contains(&("E0504", node.at))
                    && !branches.iter().any(|branch| self.has_hole(branch)) =>
            {
                branches.iter().for_each(|branch| self.unreachable(branch));
            }
            NodeKind::Star { .. } | NodeKind::Feedback { .. }
                if self.rounds.contains(&node.at) && !self.exits.contains(&node.at) =>
            {
                self.no_exit(node);
            }
            NodeKind::Star { exits, .. } if self.rounds.contains(&node.at) => {
                for (i, pattern) in exits.iter().enumerate() {
                    if !self.matched.contains(&(node.at, i)) {
                        self.unused_exit(node, pattern);
                    }
                }
            }
            NodeKind::Synchrocell(patterns) if self.cells.contains(&node.at) => {
                for (i, pattern) in patterns.iter().enumerate() {
                    if !self.matched.contains(&(node.at, i)) {
                        self.no_match(node, pattern);
                    }
                }
            }
            _ => {}
        }
        node.parts().for_each(|part| self.doubts_of(part));
    }

    fn unreachable(&mut self, branch: &Node) {
        let accepts = self.accepts_of(branch);
        if accepts.is_empty() || self.reached.contains(&key(branch)) {
            return;
        }
        let takes = self.show_variants(&accepts);
        let warning = self
            .warning("W0601", "no record ever takes this branch".into(), branch.at)
            .label(format!("takes {takes}"))
            .remark("a record goes to the branch that matches most of its labels")
            .help("remove the branch, or let it ask for labels that the other branches do not match");
        self.tell(branch.at, warning);
    }

    pub(super) fn tie(&mut self, node: &Node, branches: &[Node], accepts: &[Rc<Vec<Set>>], shape: &Shape) {
        if self.silent(shape) || self.told.contains(&("W0603", node.at)) {
            return;
        }
        let Some((first, second, labels)) = tie(shape, accepts) else { return };
        let fits = shape.with(labels);
        let at = branches[second].at;
        let message = format!("records {} fit two branches equally well", self.show_shape(&fits));
        let source = self.source(at);
        let warning = self
            .warning("W0603", message, at)
            .label("this one")
            .also(&source, branches[first].at.span, "and this one")
            .remark("the leftmost of them takes such a record, unless the setting `net.ties` is `demand`")
            .help("let one of them ask for a label that the other does not ask for");
        self.tell(node.at, warning);
    }

    fn no_exit(&mut self, node: &Node) {
        let (message, help) = match &node.kind {
            NodeKind::Star { .. } => (
                "records that enter this star never leave it",
                "let the body make a record that matches the star's pattern",
            ),
            _ => (
                "records that enter this feedback never leave it",
                "let the body make a record that does not match the feedback's pattern",
            ),
        };
        let warning = self.warning("W0602", message.into(), node.at);
        let what = match &node.kind {
            NodeKind::Star { .. } => "nothing that its body gives matches the exit",
            _ => "all that its body gives goes back",
        };
        self.tell(node.at, warning.label(what).help(help));
    }

    fn unused_exit(&mut self, node: &Node, pattern: &Pattern) {
        let at = Place { source: node.at.source, span: pattern.span };
        let message = "no record ever leaves the star by this exit".to_string();
        let warning = self.warning("W0602", message, at).label("never matched");
        self.tell(at, warning.help("remove it, or let the body make a record that matches it"));
    }

    fn no_match(&mut self, node: &Node, pattern: &Pattern) {
        let at = Place { source: node.at.source, span: pattern.span };
        let message =
            "this synchrocell never completes: no record that comes here matches this pattern".to_string();
        let error = self.error("E0503", message, at).label("never matched");
        self.tell(at, error.help("a synchrocell waits until each of its patterns has got a record"));
    }
}
