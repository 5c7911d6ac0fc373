//! Files and names: reads the main file and those of external nets, puts every definition in its scope and
//! resolves names to references.
//!
//! Scopes nest as nets do: a name in a net refers to a definition in the net, or else in the nets around it,
//! or else in its file. A name without such a definition refers to an external net, in `NAME.snet` beside the
//! file. Every net of every file read is checked, used or not, so that all wrong names are reported in one
//! run.

mod order;
mod types;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::types::named_variants;
use super::implementations::KnownBoxes;
use super::index::{Definition, DefinitionKind, Files, Index, Reference};
use super::resolved::*;
use crate::syntax::ast::{self, Def, Ident, Map, MapOutput, Name, NetBody, Topo, TopoKind, Variant};
use crate::syntax::{Diagnostic, Source, Span, is_keyword, parse};

/// The most errors that are reported for one program; of further unknown names, only the number is reported.
const ERRORS_MAX: usize = 100;

/// The greatest depth of type names that refer to type names, and the most variants of a type.
const TYPES_MAX: usize = 256;

/// The program with names resolved.
pub(super) struct Names {
    /// All nets, used or not; the main net and the nets that it uses come first: see [`Names::main`].
    pub(super) draft: Resolved,
    /// How many nets and boxes belong to the main net; `None` if there is no main net, or if the main net has
    /// no topology.
    pub(super) main: Option<(usize, usize)>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) index: Index,
}

/// Reads and resolves the net of a file.
pub(super) fn resolve_file(path: &Path, files: &Files, boxes: Option<&KnownBoxes>) -> Names {
    let mut names = Resolver::new(files, boxes);
    let dir = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    match files.read(path) {
        Ok(source) => {
            let key = files.key(path).unwrap_or(path.to_path_buf());
            names.unit(source, &stem, Some(dir), Some(key));
        }
        Err(error) => names.diagnostics.push(*error),
    }
    names.run()
}

/// Reads and resolves the net `name` of a text.
pub(super) fn resolve_text(name: &str, text: &str, boxes: Option<&KnownBoxes>) -> Names {
    let files = Files::default();
    let mut names = Resolver::new(&files, boxes);
    names.unit(Source::new(name, text), name, None, None);
    names.run()
}

/// A source of definitions: a file, or a text.
struct Unit {
    name: String,
    scope: usize,
    dir: Option<PathBuf>,
    /// The net that has the same name as the file.
    main: Option<usize>,
    /// The spans of the source's syntax errors.
    wrong: Vec<Span>,
}

#[derive(Default)]
struct Scope {
    parent: Option<usize>,
    unit: usize,
    components: HashMap<Name, (Component, Place)>,
    types: HashMap<Name, usize>,
    typesigs: HashMap<Name, usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum Component {
    Net(usize),
    Box(usize),
}

/// The definition of a net.
struct NetDecl {
    name: Ident,
    at: Place,
    /// The scope that contains the definition.
    outer: usize,
    /// The scope in which the names of the net's topology are looked up.
    inner: usize,
    signature: Option<ast::Signature>,
    body: Body,
    metas: Vec<ast::Meta>,
    definition: usize,
}

enum Body {
    /// The net is in another file, which is read when the net is first used.
    External,
    /// The net has only definitions and no topology.
    NoTopology,
    Topology(Topo),
    Done(Node),
    Hole,
}

/// The declaration of a `type` or a `typesig`.
struct TypeDecl<T, Expanded> {
    name: Ident,
    scope: usize,
    definition: usize,
    of: T,
    state: State<Expanded>,
}

enum State<Expanded> {
    New,
    /// The declaration is being expanded: if its name occurs in the expansion, the declaration refers to
    /// itself.
    Open,
    Done(Expanded),
}

/// What is known of a declaration when it is to be expanded.
enum Begun<T, Expanded> {
    /// A type definition with its text and scope.
    Open(T, usize),
    /// The definition was expanded before.
    Done(Expanded),
    /// The definition refers to itself; the name of the definition, and its scope.
    Circle(Ident, usize),
}

impl<T: Clone, Expanded: Clone> TypeDecl<T, Expanded> {
    fn begin(&mut self) -> Begun<T, Expanded> {
        match &self.state {
            State::Done(expanded) => Begun::Done(expanded.clone()),
            State::Open => Begun::Circle(self.name.clone(), self.scope),
            State::New => {
                self.state = State::Open;
                Begun::Open(self.of.clone(), self.scope)
            }
        }
    }

    fn finish(&mut self, expanded: &Option<Expanded>) {
        self.state = expanded.clone().map_or(State::New, State::Done);
    }
}

struct Resolver<'a> {
    files: &'a Files,
    boxes_known: Option<&'a KnownBoxes>,
    sources: Vec<Arc<Source>>,
    units: Vec<Unit>,
    by_path: HashMap<PathBuf, Option<usize>>,
    scopes: Vec<Scope>,
    nets: Vec<NetDecl>,
    boxes: Vec<BoxUse>,
    types: Vec<TypeDecl<ast::Type, Vec<LabelSet>>>,
    typesigs: Vec<TypeDecl<ast::Signature, Vec<Arrow>>>,
    /// The index into `definitions` of each box in `boxes`.
    box_definitions: Vec<usize>,
    definitions: Vec<Definition>,
    references: Vec<Reference>,
    diagnostics: Vec<Diagnostic>,
    left_out: usize,
    /// The next net whose topology has not been resolved yet.
    next: usize,
}

impl<'a> Resolver<'a> {
    fn new(files: &'a Files, boxes_known: Option<&'a KnownBoxes>) -> Resolver<'a> {
        Resolver {
            files,
            boxes_known,
            sources: Vec::new(),
            units: Vec::new(),
            by_path: HashMap::new(),
            scopes: Vec::new(),
            nets: Vec::new(),
            boxes: Vec::new(),
            types: Vec::new(),
            typesigs: Vec::new(),
            box_definitions: Vec::new(),
            definitions: Vec::new(),
            references: Vec::new(),
            diagnostics: Vec::new(),
            left_out: 0,
            next: 0,
        }
    }

    fn run(mut self) -> Names {
        while self.next < self.nets.len() {
            let net = self.next;
            self.next += 1;
            self.topology(net);
        }
        for index in 0..self.types.len() {
            let names = named_variants(&self.types[index].of);
            let scope = self.types[index].scope;
            for name in &names {
                self.find_type(scope, name);
            }
        }
        for index in 0..self.typesigs.len() {
            let scope = self.typesigs[index].scope;
            for map in self.typesigs[index].of.maps.clone() {
                match map {
                    Map::Named(name) => drop(self.find_typesig(scope, &name)),
                    Map::Arrow { input, output, .. } => {
                        let output = if let MapOutput::Type(output) = output { Some(output) } else { None };
                        for name in input.iter().chain(&output).flat_map(named_variants) {
                            self.find_type(scope, &name);
                        }
                    }
                }
            }
        }
        if self.left_out > 0
            && let Some(last) = self.diagnostics.last_mut()
        {
            last.remarks.push(format!("{} more unknown names are not shown", self.left_out));
        }
        let main = self.units.first().and_then(|u| u.main).filter(|&main| self.has_topology(main));
        let (draft, main) = self.order(main);
        let index = self.index(&draft);
        Names { draft, main, diagnostics: self.diagnostics, index }
    }

    fn index(&mut self, draft: &Resolved) -> Index {
        self.references.sort_by_key(|r| (r.at.source, r.at.span, r.definition));
        self.references.dedup();
        let mains = self.units.iter().filter_map(|unit| Some(self.nets[unit.main?].definition)).collect();
        Index {
            sources: draft.sources.clone(),
            definitions: std::mem::take(&mut self.definitions),
            references: std::mem::take(&mut self.references),
            mains,
        }
    }

    fn source(&self, at: Place) -> Arc<Source> {
        self.sources[at.source.0 as usize].clone()
    }

    fn error(&self, code: &'static str, message: impl Into<String>, at: Place) -> Diagnostic {
        Diagnostic::error(code, message, &self.source(at), at.span)
    }

    fn place(&self, scope: usize, span: Span) -> Place {
        Place { source: SourceId(self.scopes[scope].unit as u32), span }
    }

    // ---- collecting ----

    /// Parses a text and puts its definitions in scopes.
    fn unit(&mut self, source: Arc<Source>, name: &str, dir: Option<PathBuf>, key: Option<PathBuf>) -> usize {
        let unit = self.units.len();
        let scope = self.scopes.len();
        self.scopes.push(Scope { unit, ..Scope::default() });
        self.sources.push(source.clone());
        self.units.push(Unit { name: name.to_string(), scope, dir, main: None, wrong: Vec::new() });
        if let Some(key) = key {
            self.by_path.insert(key, Some(unit));
        }
        let (file, errors) = parse(&source);
        let broken = !errors.is_empty();
        let places = errors.iter().flat_map(|e| e.primary.iter().chain(&e.others)).map(|note| note.span);
        self.units[unit].wrong = places.collect();
        self.diagnostics.extend(errors);
        self.collect(file.defs, scope, file.span);
        self.find_main(unit, broken);
        unit
    }

    fn find_main(&mut self, unit: usize, broken: bool) {
        let Unit { name, scope, .. } = &self.units[unit];
        let components = &self.scopes[*scope].components;
        if let Some((Component::Net(main), _)) = components.get(name.as_str()) {
            self.units[unit].main = Some(*main);
            return;
        }
        if broken {
            // The part that could not be read may define the name, so no error is reported.
            return;
        }
        let at = Place { source: SourceId(unit as u32), span: Span::new(0, 0) };
        let mut error = self.error("E0303", format!("there is no net `{name}` in this file"), at);
        error = error.remark("the main net is the net named like the file");
        let nets = components.iter().filter(|(_, (c, _))| matches!(c, Component::Net(_)));
        let mut nets: Vec<(&Name, &Place)> = nets.map(|(name, (_, at))| (name, at)).collect();
        nets.sort_by_key(|(_, at)| at.span);
        let near = thalweg_pack::nearest(name, nets.iter().map(|(n, _)| &***n));
        let meant = nets.iter().find(|(n, _)| Some(&***n) == near).or(nets.last());
        match meant {
            Some((net, place)) => {
                error.primary.as_mut().unwrap().span = place.span;
                error = error.label(format!("this net is called `{net}`"));
                let fits = ast_name(name);
                error = error.help(if fits {
                    format!("rename the net to `{name}`, or the file to `{net}.snet`")
                } else {
                    format!("rename the file to `{net}.snet`")
                });
            }
            None if ast_name(name) => error = error.help(format!("define it: `net {name} connect …;`")),
            None => error = error.help("define a net, and give the file the name of the net"),
        }
        self.diagnostics.push(error);
    }

    /// Whether a syntax error lies in the span of a definition. If so, only a part of the definition may be
    /// known.
    fn is_wrong(&self, scope: usize, span: Span) -> bool {
        let wrong = &self.units[self.scopes[scope].unit].wrong;
        wrong.iter().any(|w| w.start < span.end && w.end.max(w.start + 1) > span.start)
    }

    /// Adds a definition to its scope; `seen` is the part of the text in which it can be used.
    fn defined(
        &mut self,
        kind: DefinitionKind,
        name: &Ident,
        whole: Span,
        seen: Span,
        scope: usize,
    ) -> usize {
        let at = self.place(scope, name.span);
        self.definitions.push(Definition { kind, name: name.name.clone(), at, whole, seen });
        let definition = self.definitions.len() - 1;
        self.references.push(Reference { at, definition });
        definition
    }

    fn refer(&mut self, scope: usize, span: Span, definition: usize) {
        let at = self.place(scope, span);
        self.references.push(Reference { at, definition });
    }

    /// Collects definitions; `seen` is the part of the text in which they can be used.
    fn collect(&mut self, defs: Vec<Def>, scope: usize, seen: Span) -> Vec<ast::Meta> {
        let mut metas = Vec::new();
        for def in defs {
            match def {
                Def::Meta(meta) => metas.push(meta),
                Def::Net(net) => self.collect_net(net, scope, seen),
                Def::Box(def) => self.collect_box(def, scope, seen),
                Def::Type(def) => {
                    let index = self.types.len();
                    let ast::TypeDef { name, of, span } = def;
                    self.labels_of_type(&of, scope);
                    let definition = self.defined(DefinitionKind::Type, &name, span, seen, scope);
                    self.types.push(TypeDecl {
                        name: name.clone(),
                        scope,
                        definition,
                        of,
                        state: State::New,
                    });
                    if let Some(first) = self.scopes[scope].types.insert(name.name.clone(), index) {
                        let first = self.place(scope, self.types[first].name.span);
                        self.duplicate("type", &name, scope, first);
                    }
                }
                Def::Typesig(def) => {
                    let index = self.typesigs.len();
                    let ast::TypesigDef { name, of, span } = def;
                    self.labels_of_signature(&of, scope);
                    let definition = self.defined(DefinitionKind::Typesig, &name, span, seen, scope);
                    self.typesigs.push(TypeDecl {
                        name: name.clone(),
                        scope,
                        definition,
                        of,
                        state: State::New,
                    });
                    if let Some(first) = self.scopes[scope].typesigs.insert(name.name.clone(), index) {
                        let first = self.place(scope, self.typesigs[first].name.span);
                        self.duplicate("signature", &name, scope, first);
                    }
                }
            }
        }
        metas
    }

    fn define(&mut self, name: &Ident, component: Component, scope: usize) {
        let at = self.place(scope, name.span);
        match self.scopes[scope].components.get(&name.name).copied() {
            None => drop(self.scopes[scope].components.insert(name.name.clone(), (component, at))),
            Some((_, first)) => self.duplicate("net or box", name, scope, first),
        }
    }

    fn duplicate(&mut self, what: &str, name: &Ident, scope: usize, first: Place) {
        let at = self.place(scope, name.span);
        let error = self
            .error("E0302", format!("a {what} named `{name}` is already defined here"), at)
            .label("defined again")
            .also(&self.source(first), first.span, "first defined here")
            .help("give one of them another name");
        self.diagnostics.push(error);
    }

    fn collect_net(&mut self, net: ast::NetDef, outer: usize, seen: Span) {
        let index = self.nets.len();
        let at = self.place(outer, net.name.span);
        let inner = self.scopes.len();
        self.define(&net.name, Component::Net(index), outer);
        let definition = self.defined(DefinitionKind::Net, &net.name, net.span, seen, outer);
        let unit = self.scopes[outer].unit;
        self.scopes.push(Scope { parent: Some(outer), unit, ..Scope::default() });
        if let Some(signature) = &net.signature {
            self.labels_of_signature(signature, outer);
        }
        let whole = net.span;
        let (body, defs) = match net.body {
            NetBody::External => (Body::External, Vec::new()),
            NetBody::Defined { defs, connect: None } => (Body::NoTopology, defs),
            NetBody::Defined { defs, connect: Some(topo) } => (Body::Topology(topo), defs),
        };
        let metas = Vec::new();
        let (name, signature) = (net.name, net.signature);
        self.nets.push(NetDecl { name, at, outer, inner, signature, body, metas, definition });
        self.nets[index].metas = self.collect(defs, inner, whole);
    }

    fn collect_box(&mut self, def: ast::BoxDef, scope: usize, seen: Span) {
        self.define(&def.name, Component::Box(self.boxes.len()), scope);
        for tuple in def.signature.input.iter().chain(&def.signature.outputs) {
            self.labels_once(&tuple.labels, scope, true);
        }
        let at = self.place(scope, def.name.span);
        let ast::BoxDef { name, signature, codes, metas, span } = def;
        let definition = self.defined(DefinitionKind::Box, &name, span, seen, scope);
        self.box_definitions.push(definition);
        self.boxes.push(BoxUse { name: name.name, at, signature, codes, metas });
    }

    // ---- labels ----

    /// Reports a label that is listed twice: an error if the order of the labels counts (a box's arguments),
    /// else a warning.
    fn labels_once(&mut self, labels: &[ast::LabelAt], scope: usize, ordered: bool) {
        let mut seen: HashMap<&ast::Label, Span> = HashMap::new();
        for at in labels {
            if let Some(first) = seen.get(&at.label) {
                let message = format!("`{}` stands here twice", at.label);
                let place = self.place(scope, at.span);
                let source = self.source(place);
                let error = match ordered {
                    true => Diagnostic::error("E0310", message, &source, at.span),
                    false => Diagnostic::warning("W0604", message, &source, at.span),
                };
                let error = error.label("again").also(&source, *first, "first here");
                self.diagnostics.push(error.help("remove one of them"));
            } else {
                seen.insert(&at.label, at.span);
            }
        }
    }

    fn labels_of_type(&mut self, of: &ast::Type, scope: usize) {
        for variant in &of.variants {
            if let Variant::Labels(labels) = variant {
                self.labels_once(&labels.labels, scope, false);
            }
        }
    }

    fn labels_of_signature(&mut self, signature: &ast::Signature, scope: usize) {
        for map in &signature.maps {
            if let Map::Arrow { input, output, .. } = map {
                input.iter().for_each(|t| self.labels_of_type(t, scope));
                if let MapOutput::Type(output) = output {
                    self.labels_of_type(output, scope);
                }
            }
        }
    }

    // ---- topologies ----

    /// Resolves the names in the topology of a net, and stores the topology as a node.
    fn topology(&mut self, net: usize) {
        if !matches!(self.nets[net].body, Body::Topology(_)) {
            return;
        }
        let Body::Topology(topo) = std::mem::replace(&mut self.nets[net].body, Body::Hole) else { return };
        let inner = self.nets[net].inner;
        let mut labeller = Labeller::default();
        let node = self.node(topo, inner, &mut labeller);
        self.nets[net].body = Body::Done(node);
    }

    fn node(&mut self, topo: Topo, scope: usize, names: &mut Labeller) -> Node {
        let at = self.place(scope, topo.span);
        let mut own = None;
        let kind = match topo.kind {
            TopoKind::Name(name) => {
                own = Some(name.name.clone());
                match self.lookup(&name, scope) {
                    Some(Component::Net(net)) => NodeKind::Net(NetId(net as u32)),
                    Some(Component::Box(index)) => NodeKind::Box(BoxId(index as u32)),
                    None => NodeKind::Net(HOLE),
                }
            }
            TopoKind::Missing => NodeKind::Net(HOLE),
            TopoKind::Filter(_) | TopoKind::Synchrocell(_) if self.is_wrong(scope, topo.span) => {
                NodeKind::Net(HOLE)
            }
            TopoKind::Filter(filter) => {
                self.labels_of_filter(&filter, scope);
                NodeKind::Filter(filter)
            }
            TopoKind::Synchrocell(patterns) => {
                self.labels_of_patterns(&patterns, scope);
                NodeKind::Synchrocell(patterns)
            }
            TopoKind::Serial(parts) => NodeKind::Serial(self.nodes(parts, scope, names)),
            TopoKind::Parallel { branches, deterministic } => {
                NodeKind::Parallel { branches: self.nodes(branches, scope, names), deterministic }
            }
            TopoKind::Star { body, exits: patterns, .. } | TopoKind::Feedback { body, backs: patterns }
                if patterns.iter().any(|p| self.is_wrong(scope, p.span)) =>
            {
                // The component that the definition repeats is checked as well, so that its errors are
                // reported.
                self.node(*body, scope, names);
                NodeKind::Net(HOLE)
            }
            TopoKind::Star { body, exits, deterministic } => {
                self.labels_of_patterns(&exits, scope);
                NodeKind::Star { body: Box::new(self.node(*body, scope, names)), exits, deterministic }
            }
            TopoKind::Feedback { body, backs } => {
                self.labels_of_patterns(&backs, scope);
                NodeKind::Feedback { body: Box::new(self.node(*body, scope, names)), backs }
            }
            TopoKind::Split { body, from, to, deterministic, placed } => {
                let body = Box::new(self.node(*body, scope, names));
                NodeKind::Split { body, from, to, deterministic, placed }
            }
            TopoKind::Place { body, place } => {
                NodeKind::Place { body: Box::new(self.node(*body, scope, names)), place }
            }
        };
        let name = names.name(own.unwrap_or_else(|| kind.word().into()));
        Node { kind, name, at, accepts: Vec::new() }
    }

    fn nodes(&mut self, topos: Vec<Topo>, scope: usize, names: &mut Labeller) -> Vec<Node> {
        topos.into_iter().map(|topo| self.node(topo, scope, names)).collect()
    }

    fn labels_of_patterns(&mut self, patterns: &[ast::Pattern], scope: usize) {
        for pattern in patterns {
            self.labels_once(&pattern.labels.labels, scope, false);
        }
    }

    fn labels_of_filter(&mut self, filter: &ast::Filter, scope: usize) {
        let Some(rule) = &filter.rule else { return };
        self.labels_once(&rule.pattern.labels, scope, false);
        for record in rule.action.records() {
            let items = record.items.iter();
            let labels: Vec<_> =
                items.map(|i| ast::LabelAt { label: i.label.clone(), span: i.span }).collect();
            self.labels_once(&labels, scope, true);
        }
    }

    fn lookup(&mut self, name: &Ident, scope: usize) -> Option<Component> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let Some(&(component, _)) = self.scopes[scope].components.get(&name.name) {
                self.refer_component(scope, name.span, component);
                return self.use_component(component, name, scope);
            }
            at = self.scopes[scope].parent;
        }
        match self.external(&name.name, scope) {
            External::Net(found) => {
                let found = found.map(Component::Net);
                found.iter().for_each(|&component| self.refer_component(scope, name.span, component));
                found
            }
            External::NoFile(note) => {
                self.no_component(name, scope, note);
                None
            }
        }
    }

    fn refer_component(&mut self, scope: usize, span: Span, component: Component) {
        let definition = match component {
            Component::Net(net) => self.nets[net].definition,
            Component::Box(index) => self.box_definitions[index],
        };
        self.refer(scope, span, definition);
    }

    fn use_component(&mut self, component: Component, name: &Ident, scope: usize) -> Option<Component> {
        let Component::Net(net) = component else { return Some(component) };
        match self.nets[net].body {
            Body::External => self.use_external(net),
            Body::NoTopology => {
                let at = self.nets[net].at;
                let here = self.place(scope, name.span);
                let error = self
                    .error("E0307", format!("net `{name}` can't be used: it has no topology"), here)
                    .also(&self.source(at), at.span, "defined here, without `connect`")
                    .help(format!("say what it does: `net {name} {{ … }} connect …;`"));
                self.diagnostics.push(error);
                return None;
            }
            _ => {}
        }
        Some(component)
    }

    /// Resolves a net that is declared as external, at its first use.
    fn use_external(&mut self, net: usize) {
        let NetDecl { name, at, outer, .. } = &self.nets[net];
        let (name, at, outer) = (name.clone(), *at, *outer);
        self.nets[net].body = Body::Hole;
        match self.external(&name.name, outer) {
            External::Net(Some(found)) => {
                self.refer(outer, name.span, self.nets[found].definition);
                let kind = NodeKind::Net(NetId(found as u32));
                self.nets[net].body =
                    Body::Done(Node { kind, name: name.name.clone(), at, accepts: Vec::new() });
            }
            External::Net(None) => {}
            External::NoFile(note) => {
                let message = format!("the external net `{name}` is not found");
                let error = self
                    .error("E0301", message, at)
                    .label(note)
                    .help(format!("put its definition in `{name}.snet` beside this file"));
                self.diagnostics.push(error);
            }
        }
    }

    /// The net of `NAME.snet` beside the file of a scope. The file is read at the first call for its name.
    fn external(&mut self, name: &str, scope: usize) -> External {
        let unit = self.scopes[scope].unit;
        let Some(dir) = &self.units[unit].dir else {
            return External::NoFile("not defined in this text".into());
        };
        let path = dir.join(format!("{name}.snet"));
        let Some(key) = self.files.key(&path) else {
            return External::NoFile(format!("not defined, and there is no file `{name}.snet`"));
        };
        if let Some(&known) = self.by_path.get(&key) {
            return External::Net(known.and_then(|unit| self.units[unit].main));
        }
        let found = match self.files.read(&path) {
            Ok(source) => {
                let unit = self.unit(source, name, path.parent().map(Path::to_path_buf), Some(key));
                self.units[unit].main
            }
            Err(error) => {
                self.by_path.insert(key, None);
                self.diagnostics.push(*error);
                None
            }
        };
        // The net of another file may itself be declared as external. The external net is resolved now,
        // because its file may be the one that contains the declaration.
        if let Some(net) = found
            && matches!(self.nets[net].body, Body::External)
        {
            self.use_external(net);
        }
        External::Net(found)
    }

    /// Whether there are so many errors that a further error is only counted and not reported.
    fn enough(&mut self) -> bool {
        let mut errors = self.diagnostics.iter().filter(|d| d.is_error());
        let enough = errors.nth(ERRORS_MAX - 1).is_some();
        self.left_out += usize::from(enough);
        enough
    }

    fn no_component(&mut self, name: &Ident, scope: usize, note: String) {
        if self.enough() {
            return;
        }
        let at = self.place(scope, name.span);
        let mut error = self.error("E0301", format!("there is no net or box named `{name}`"), at).label(note);
        let mut all = self.visible(scope, |s| s.components.keys().cloned().collect());
        if let Some(dir) = &self.units[self.scopes[scope].unit].dir {
            all.extend(self.files.networks(dir).iter().map(|f| Name::from(f.trim_end_matches(".snet"))));
        }
        if let Some(near) = thalweg_pack::nearest(&name.name, all.iter().map(|n| &**n)) {
            error = error.help(format!("did you mean `{near}`?"));
        }
        if let Some(signature) = self.boxes_known.and_then(|k| k.boxes.get(&*name.name)) {
            error = error.help(format!(
                "the library has this box; to use it, declare it: `box {name} ({signature});`"
            ));
        }
        if !self
            .visible(scope, |s| s.types.get(&name.name).map(|_| name.name.clone()).into_iter().collect())
            .is_empty()
        {
            error = error.remark(format!("`{name}` is a type; a component is a net or a box"));
        }
        self.diagnostics.push(error);
    }
}

enum External {
    /// The file was found, and has the net of this number; `None` if the file lacks the net, which was
    /// reported.
    Net(Option<usize>),
    /// There is no file; the text says why.
    NoFile(String),
}

/// Gives components names that are unique in a net.
#[derive(Default)]
struct Labeller {
    used: HashMap<Name, u32>,
}

impl Labeller {
    fn name(&mut self, base: Name) -> Name {
        let count = self.used.entry(base.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { base } else { format!("{base}#{count}").into() }
    }
}

/// The labels as a set.
fn label_set(labels: &[ast::LabelAt]) -> LabelSet {
    let mut set: LabelSet = labels.iter().map(|l| l.label.clone()).collect();
    set.sort();
    set.dedup();
    set
}

/// Whether a net can have this name.
fn ast_name(text: &str) -> bool {
    !is_keyword(text)
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
