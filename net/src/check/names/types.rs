//! The names of types and signatures: this module looks the names up, replaces them by their definitions, and
//! reports missing and circular definitions.

use std::collections::HashSet;

use super::super::resolved::*;
use super::{Begun, Resolver, Scope, TYPES_MAX, label_set};
use crate::syntax::Diagnostic;
use crate::syntax::ast::{self, Ident, Map, MapOutput, Name, Variant};

impl Resolver<'_> {
    pub(super) fn find_type(&mut self, scope: usize, name: &Ident) -> Option<usize> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let Some(&found) = self.scopes[scope].types.get(&name.name) {
                self.refer(scope, name.span, self.types[found].definition);
                return Some(found);
            }
            at = self.scopes[scope].parent;
        }
        self.undefined("E0306", "type", name, scope, |s| s.types.keys().cloned().collect());
        None
    }

    pub(super) fn find_typesig(&mut self, scope: usize, name: &Ident) -> Option<usize> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let Some(&found) = self.scopes[scope].typesigs.get(&name.name) {
                self.refer(scope, name.span, self.typesigs[found].definition);
                return Some(found);
            }
            at = self.scopes[scope].parent;
        }
        let names = |s: &Scope| s.typesigs.keys().cloned().collect();
        self.undefined("E0306", "signature (`typesig`)", name, scope, names);
        None
    }

    pub(super) fn visible(&self, scope: usize, names: impl Fn(&Scope) -> Vec<Name>) -> Vec<Name> {
        let mut all = Vec::new();
        let mut at = Some(scope);
        while let Some(scope) = at {
            all.extend(names(&self.scopes[scope]));
            at = self.scopes[scope].parent;
        }
        all.sort();
        all.dedup();
        all
    }

    fn undefined(
        &mut self,
        code: &'static str,
        what: &str,
        name: &Ident,
        scope: usize,
        names: impl Fn(&Scope) -> Vec<Name>,
    ) {
        if self.enough() {
            return;
        }
        let all = self.visible(scope, names);
        let at = self.place(scope, name.span);
        let mut error =
            self.error(code, format!("there is no {what} named `{name}`"), at).label("not defined");
        if let Some(near) = thalweg_pack::nearest(&name.name, all.iter().map(|n| &**n)) {
            error = error.help(format!("did you mean `{near}`?"));
        }
        self.report_once(error);
    }

    /// Adds an error, unless the same error was added before, because a type may be expanded more than once.
    fn report_once(&mut self, error: Diagnostic) {
        if !self.diagnostics.contains(&error) {
            self.diagnostics.push(error);
        }
    }

    fn too_large(&mut self, noun: &str, what: &str, at: Place) {
        let error = self.error("E0309", format!("this {noun} {what}"), at);
        self.report_once(error.help(format!("write a simpler {noun}")));
    }

    /// Reports a definition that refers to itself. Such a definition has no meaning.
    fn circle<T>(&mut self, name: Ident, scope: usize) -> Option<T> {
        let at = self.place(scope, name.span);
        let error = self
            .error("E0308", format!("`{name}` is defined by itself"), at)
            .label("needs itself to be known")
            .help("write out one of the types in the circle");
        self.report_once(error);
        None
    }

    fn expand_type(&mut self, of: &ast::Type, scope: usize, depth: usize) -> Option<Vec<LabelSet>> {
        if of.variants.is_empty() && depth <= TYPES_MAX {
            // The definition could not be read; its syntax error was reported before.
            return None;
        }
        let mut sets = Vec::new();
        for variant in &of.variants {
            match variant {
                Variant::Labels(labels) => sets.push(label_set(&labels.labels)),
                Variant::Named(name) => {
                    let index = self.find_type(scope, name)?;
                    sets.extend(self.expand_named(index, depth + 1)?);
                }
            }
        }
        // The order of variants is kept, because of two variants that match a record equally well the first
        // one is chosen.
        let mut seen = HashSet::new();
        sets.retain(|set| seen.insert(set.clone()));
        if sets.len() > TYPES_MAX || depth > TYPES_MAX {
            let what = if depth > TYPES_MAX {
                format!("refers to other types more than {TYPES_MAX} levels deep")
            } else {
                format!("has more than {TYPES_MAX} variants")
            };
            self.too_large("type", &what, self.place(scope, of.span));
            return None;
        }
        Some(sets)
    }

    fn expand_named(&mut self, index: usize, depth: usize) -> Option<Vec<LabelSet>> {
        let (of, scope) = match self.types[index].begin() {
            Begun::Open(of, scope) => (of, scope),
            Begun::Done(sets) => return Some(sets),
            Begun::Circle(name, scope) => return self.circle(name, scope),
        };
        let deep = depth > TYPES_MAX;
        // A definition that is too deep is reported by `expand_type` and not expanded.
        let of = if deep { ast::Type { variants: Vec::new(), span: of.span } } else { of };
        let sets = self.expand_type(&of, scope, depth);
        self.types[index].finish(&sets);
        sets
    }

    pub(super) fn expand_signature(
        &mut self,
        of: &ast::Signature,
        scope: usize,
        depth: usize,
    ) -> Option<Vec<Arrow>> {
        if of.maps.is_empty() {
            // The definition could not be read; its syntax error was reported before.
            return None;
        }
        let mut arrows = Vec::new();
        let maps = if depth > TYPES_MAX { &of.maps[..0] } else { &of.maps };
        for map in maps {
            match map {
                Map::Arrow { input, output, .. } => {
                    let input = match input {
                        Some(input) => self.expand_type(input, scope, 0)?,
                        None => Vec::new(),
                    };
                    let output = match output {
                        MapOutput::Nothing => Some(Vec::new()),
                        MapOutput::Infer => None,
                        MapOutput::Type(output) => Some(self.expand_type(output, scope, 0)?),
                    };
                    arrows.push(Arrow { input, output });
                }
                Map::Named(name) => {
                    let index = self.find_typesig(scope, name)?;
                    arrows.extend(self.expand_named_signature(index, depth + 1)?);
                }
            }
        }
        if arrows.len() > TYPES_MAX || depth > TYPES_MAX {
            let what = format!("has more than {TYPES_MAX} maps or levels of names");
            self.too_large("signature", &what, self.place(scope, of.span));
            return None;
        }
        Some(arrows)
    }

    fn expand_named_signature(&mut self, index: usize, depth: usize) -> Option<Vec<Arrow>> {
        let (of, scope) = match self.typesigs[index].begin() {
            Begun::Open(of, scope) => (of, scope),
            Begun::Done(arrows) => return Some(arrows),
            Begun::Circle(name, scope) => return self.circle(name, scope),
        };
        let arrows = self.expand_signature(&of, scope, depth);
        self.typesigs[index].finish(&arrows);
        arrows
    }
}

/// The types that a type refers to by name.
pub(super) fn named_variants(of: &ast::Type) -> Vec<Ident> {
    let named = |v: &Variant| match v {
        Variant::Named(name) => Some(name.clone()),
        Variant::Labels(_) => None,
    };
    of.variants.iter().filter_map(named).collect()
}
