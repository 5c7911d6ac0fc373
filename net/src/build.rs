//! Networks composed in Rust: a value that is composed of components becomes the same [`Network`] as a text
//! would.
//!
//! A *component* that a program has composed is written as S-Net text, so that networks
//! in Rust and in text have the same checker and runtime. Invariant: a piece of text that a caller gives is
//! exactly one pattern, filter, tag or signature, so that nothing in it can change the text around it.
//! Composing never fails; [`Network::build`] reports all errors, each with its place in the Rust program.
//!
//! ```
//! use thalweg_box::Out;
//! use thalweg_exec::{Options, Runtime, TaskSpec};
//! use thalweg_net::build::{boxed, filter};
//! use thalweg_net::{Network, json};
//!
//! let limit = 10; // boxes are closures: they can hold what the program knows
//! let double = boxed("box double ((x) -> (x))", |x: i64, out: &mut Out| out.emit((x * 2,)));
//! let clamp = boxed("box clamp ((x) -> (x))", move |x: i64, out: &mut Out| out.emit((x.min(limit),)));
//! let count = filter("[{<n>} -> {<n = n + 1>}]");
//! let network = Network::build("main", double.then(count).star("{<n>} if <n >= 3>").then(clamp))?;
//!
//! let runtime = Runtime::new(Options::default()).unwrap();
//! let running = network.start(&runtime).unwrap();
//! let (mut input, mut output) = (running.input, running.output);
//! let record = json::read_record(br#"{"x": 1, "<n>": 0}"#).unwrap();
//! runtime.spawn_blocking(TaskSpec::default(), move |blocking| blocking.push(&mut input, record).unwrap());
//! let (send, results) = std::sync::mpsc::channel();
//! runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
//!     while let Some(record) = blocking.pop(&mut output) {
//!         let mut line = Vec::new();
//!         json::write_record(&record, &mut line);
//!         send.send(String::from_utf8(line).unwrap()).unwrap();
//!     }
//! });
//! drop(running.errors);
//! runtime.join().unwrap();
//! assert_eq!(results.iter().collect::<Vec<_>>(), [r#"{"x": 8, "<n>": 3}"#]);
//! # Ok::<(), Vec<thalweg_net::syntax::Diagnostic>>(())
//! ```

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;

use thalweg_box::{BoxEntry, BoxFunction};

use crate::boxes::{Boxes, EntryOf};
use crate::error::Error;
use crate::network::Network;
use crate::syntax::{Diagnostic, Fragment, NESTING_MAX, Source, Span, parse_box, parse_fragment};

/// A place in a Rust program.
type Origin = &'static Location<'static>;

/// A component: a box, a filter, or a combination of components. Clones are cheap and stand for the same box
/// or net.
#[derive(Clone, Debug)]
pub struct Component {
    form: Arc<Form>,
    at: Origin,
    /// The depth to which components nest in this one, this one included: at most `NESTING_MAX`, so that a
    /// recursive walk is safe.
    height: usize,
}

#[derive(Clone, Debug)]
enum Form {
    Box {
        name: String,
        declaration: String,
        entry: EntryOf,
        from: String,
    },
    /// A filter or synchrocell.
    Text(String),
    Net {
        name: String,
        signature: String,
        body: Component,
    },
    /// `..`, `|` or `||`: at least two parts.
    Chain {
        sign: &'static str,
        parts: Vec<Component>,
    },
    /// A star, feedback, split or placement, with the text that follows the body.
    Postfix {
        body: Component,
        behind: String,
    },
    Wrong(Vec<Diagnostic>),
}

/// The box `function` with its declaration in S-Net text, such as `box inc ((x) -> (x))`. The function stays
/// for the rest of the process.
#[track_caller]
pub fn boxed<F: BoxFunction<A>, A: 'static>(declaration: &str, function: F) -> Component {
    let at = Location::caller();
    entry(EntryOf::Program(Arc::new(BoxEntry::new(declaration, function))), "this program", at)
}

/// The identity: `[]`.
#[track_caller]
pub fn identity() -> Component {
    filter("[]")
}

/// A synchrocell, such as `[|{a}, {b}|]`.
#[track_caller]
pub fn synchrocell(text: &str) -> Component {
    verbatim(text, Fragment::Synchrocell, Location::caller())
}

/// A filter, such as `[{<n>} -> {<n = n + 1>}]`.
#[track_caller]
pub fn filter(text: &str) -> Component {
    verbatim(text, Fragment::Filter, Location::caller())
}

/// The net `name` with this topology; `signature` is its declared signature, such as `{x} -> {y}`, if it has
/// one.
#[track_caller]
pub fn net(name: &str, signature: Option<&str>, body: Component) -> Component {
    let at = Location::caller();
    let name = read(name, Fragment::Name, at);
    let signature = signature.map_or(Ok(String::new()), |text| {
        read(text, Fragment::Signature, at).map(|text| format!(" ({text})"))
    });
    match (name, signature) {
        (Ok(name), Ok(signature)) => {
            let height = body.height + 1;
            Component::new(Form::Net { name, signature, body }, at, height)
        }
        (name, signature) => {
            let wrong = [name.err(), signature.err()].into_iter().flatten().flatten().collect();
            body.with_wrong(wrong, at)
        }
    }
}

impl Component {
    /// Serial composition, `self .. next`: records that leave `self` enter `next`.
    #[track_caller]
    pub fn then(self, next: Component) -> Component {
        self.chain("..", next, Location::caller())
    }

    /// Parallel composition, `self | other`: a record goes to the branch that matches it best.
    #[track_caller]
    pub fn or(self, other: Component) -> Component {
        self.chain("|", other, Location::caller())
    }

    /// The deterministic variant of [`Component::or`], `self || other`.
    #[track_caller]
    pub fn or_in_order(self, other: Component) -> Component {
        self.chain("||", other, Location::caller())
    }

    /// Serial replication, `self * exits`: a record that matches one of the patterns, such as `{<n>} if <n >=
    /// 10>` or `{a}, {b}`, leaves; any other record goes through one more replica.
    #[track_caller]
    pub fn star(self, exits: &str) -> Component {
        self.postfix("*", exits, Fragment::Patterns, Location::caller())
    }

    /// The deterministic variant of [`Component::star`], `self ** exits`.
    #[track_caller]
    pub fn star_in_order(self, exits: &str) -> Component {
        self.postfix("**", exits, Fragment::Patterns, Location::caller())
    }

    /// Feedback, `self \ backs`: outputs that match one of the patterns return to the input.
    #[track_caller]
    pub fn feedback(self, backs: &str) -> Component {
        self.postfix("\\", backs, Fragment::Patterns, Location::caller())
    }

    /// Parallel replication, `self ! tag`: a replica per value of the tag, such as `<k>`, or per value of a range,
    /// `<from>:<to>`.
    #[track_caller]
    pub fn split(self, tag: &str) -> Component {
        self.postfix("!", tag, Fragment::Tags, Location::caller())
    }

    /// The deterministic variant of [`Component::split`], `self !! tag`.
    #[track_caller]
    pub fn split_in_order(self, tag: &str) -> Component {
        self.postfix("!!", tag, Fragment::Tags, Location::caller())
    }

    fn new(form: impl Into<Arc<Form>>, at: Origin, height: usize) -> Component {
        if height <= NESTING_MAX {
            return Component { form: form.into(), at, height };
        }
        let message = format!("this is nested more than {NESTING_MAX} levels deep");
        let error = Diagnostic::error_without_place("E0205", message)
            .remark(given_at(at))
            .help("compose long chains by `then` one after the other, without nesting");
        Component { form: Arc::new(Form::Wrong(vec![error])), at, height: 1 }
    }

    /// A component that only contains errors: these errors, because a component could not be made from
    /// `self`, and the errors of `self`.
    fn with_wrong(self, mut wrong: Vec<Diagnostic>, at: Origin) -> Component {
        let mut writing = Writing::default();
        writing.survey(&self);
        wrong.extend(writing.wrong);
        Component::new(Form::Wrong(wrong), at, 1)
    }

    fn chain(self, sign: &'static str, next: Component, at: Origin) -> Component {
        let mut form = self.form;
        if matches!(&*form, Form::Chain { sign: before, .. } if *before == sign)
            && let Form::Chain { parts, .. } = Arc::make_mut(&mut form)
        {
            let height = self.height.max(next.height + 1);
            parts.push(next);
            return Component::new(form, at, height);
        }
        let height = self.height.max(next.height) + 1;
        let first = Component { form, ..self };
        Component::new(Form::Chain { sign, parts: vec![first, next] }, at, height)
    }

    fn postfix(self, sign: &str, text: &str, kind: Fragment, at: Origin) -> Component {
        match read(text, kind, at) {
            Ok(text) => {
                let height = self.height + 1;
                Component::new(Form::Postfix { body: self, behind: format!(" {sign} {text}") }, at, height)
            }
            Err(wrong) => self.with_wrong(wrong, at),
        }
    }
}

impl Boxes {
    /// The box of this name as a component, so that a network composed in Rust can use boxes of libraries.
    ///
    /// # Errors
    /// There is no box of this name.
    #[track_caller]
    pub fn component(&self, name: &str) -> Result<Component, Error> {
        let at = Location::caller();
        match self.get(name) {
            Some(found) => Ok(entry(found.entry.clone(), found.from(), at)),
            None => Err(Error::new(format!("there is no box named `{name}`"))),
        }
    }
}

impl Network {
    /// The network `name` with this topology, checked as [`Network::parse`] checks a text.
    ///
    /// # Errors
    /// All errors of the network: those in the pieces of text that components were given (placed in these),
    /// or else those of the whole network (placed in its S-Net text). Each error names its place in
    /// the Rust program.
    #[track_caller]
    pub fn build(name: &str, topology: Component) -> Result<Network, Vec<Diagnostic>> {
        let at = Location::caller();
        let name = read(name, Fragment::Name, at)?;
        let mut writing = Writing::default();
        writing.main(&name, &topology);
        if !writing.wrong.is_empty() {
            return Err(writing.wrong);
        }
        let told = |mut diagnostics: Vec<Diagnostic>| {
            diagnostics.iter_mut().for_each(|d| writing.tell_origin(d, at));
            diagnostics
        };
        let mut network = Network::parse(&name, &writing.text, &writing.boxes).map_err(told)?;
        network.warnings = told(std::mem::take(&mut network.warnings));
        Ok(network)
    }
}

fn entry(entry: EntryOf, from: &str, at: Origin) -> Component {
    let source = Source::new("declaration", entry.signature().unwrap_or(""));
    let read = parse_box(&source).map_err(|wrong| placed(wrong, at)).and_then(|declared| {
        let wanted = declared.signature.input.as_ref().map_or(0, |input| input.labels.len());
        let found = entry.argument_count();
        if wanted == found {
            return Ok(declared);
        }
        let message = format!(
            "the box `{}` takes {wanted} labels, but its function takes {found} arguments",
            declared.name
        );
        Err(placed(vec![Diagnostic::error("E0402", message, &source, declared.signature.span)], at))
    });
    match read {
        Ok(declared) => {
            let name = declared.name.name.to_string();
            let declaration = format!("box {name} ({})", declared.signature);
            Component::new(Form::Box { name, declaration, entry, from: from.to_owned() }, at, 1)
        }
        Err(wrong) => Component::new(Form::Wrong(wrong), at, 1),
    }
}

fn verbatim(text: &str, kind: Fragment, at: Origin) -> Component {
    let form = read(text, kind, at).map_or_else(Form::Wrong, Form::Text);
    Component::new(form, at, 1)
}

/// The piece of text without comments around it, if it is exactly one fragment of this kind.
fn read(text: &str, kind: Fragment, at: Origin) -> Result<String, Vec<Diagnostic>> {
    let source = Source::new(kind.word(), text);
    parse_fragment(&source, kind).map(|span| source.slice(span).to_owned()).map_err(|wrong| placed(wrong, at))
}

fn placed(wrong: Vec<Diagnostic>, at: Origin) -> Vec<Diagnostic> {
    wrong.into_iter().map(|error| error.remark(given_at(at))).collect()
}

fn given_at(at: Origin) -> String {
    format!("given at {at}")
}

/// A network being written as text, with its boxes.
#[derive(Default)]
struct Writing {
    text: String,
    boxes: Boxes,
    /// For the name of each box: its declaration, its implementation, and the place in the Rust program where
    /// it was first given.
    declared: BTreeMap<String, (String, *const BoxEntry, Origin)>,
    /// The nets that are used, by name, with the place in the Rust program where each was first given.
    nets: BTreeMap<String, Origin>,
    /// The origin in the Rust program of each piece of the text.
    origins: Vec<(Span, Origin)>,
    wrong: Vec<Diagnostic>,
    /// The number of components visited; a component that is used twice counts twice.
    seen: usize,
}

/// The most components of a network in Rust, The bound is needed because a component may contain the same
/// part twice, this part the same smaller part twice, and so on.
const COMPONENTS_MAX: usize = 1 << 20;

impl Writing {
    /// Collects the errors and the boxes of a component and of all components in it.
    fn survey(&mut self, component: &Component) {
        self.seen += 1;
        if self.seen > COMPONENTS_MAX {
            if self.seen == COMPONENTS_MAX + 1 {
                let message = format!("the network has more than {COMPONENTS_MAX} components");
                self.report(
                    Diagnostic::error_without_place("E0309", message)
                        .remark(given_at(component.at))
                        .help("name parts by `net` and use these"),
                );
            }
            return;
        }
        match &*component.form {
            Form::Box { name, declaration, entry, from } => {
                self.declare(component.at, name, declaration, entry, from);
            }
            Form::Text(_) => {}
            Form::Net { name, body, .. } => {
                self.nets.entry(name.clone()).or_insert(component.at);
                self.survey(body);
            }
            Form::Chain { parts, .. } => parts.iter().for_each(|part| self.survey(part)),
            Form::Postfix { body, .. } => self.survey(body),
            Form::Wrong(wrong) => wrong.iter().for_each(|error| self.report(error.clone())),
        }
    }

    fn declare(&mut self, at: Origin, name: &str, declaration: &str, entry: &EntryOf, from: &str) {
        let pointer: *const BoxEntry = &raw const **entry;
        match self.declared.get(name) {
            Some(&(_, known, _)) if std::ptr::eq(known, pointer) => {}
            Some(&(_, _, first)) => self.twice("box", name, at, first),
            None => {
                self.declared.insert(name.to_owned(), (declaration.to_owned(), pointer, at));
                if let Err(error) = self.boxes.insert(entry.clone(), from) {
                    self.report(
                        Diagnostic::error_without_place("E0402", error.to_string()).remark(given_at(at)),
                    );
                }
            }
        }
    }

    fn twice(&mut self, what: &str, name: &str, at: Origin, first: Origin) {
        let message = format!("another {what} named `{name}` is in this network already");
        self.report(
            Diagnostic::error_without_place("E0302", message)
                .remark(given_at(at))
                .remark(format!("the other one is given at {first}"))
                .help(
                    "to use one several times, make it once and clone it; else give one of them another name",
                ),
        );
    }

    fn report(&mut self, error: Diagnostic) {
        if !self.wrong.contains(&error) {
            self.wrong.push(error);
        }
    }

    /// Writes the main net, with the declarations of all boxes.
    fn main(&mut self, name: &str, topology: &Component) {
        self.survey(topology);
        let both =
            self.nets.iter().filter_map(|(net, at)| Some((net.clone(), *at, self.declared.get(net)?.2)));
        for (net, at, first) in both.collect::<Vec<_>>() {
            self.twice("box", &net, at, first);
        }
        if !self.wrong.is_empty() {
            return;
        }
        let boxes: String = self.declared.values().map(|(text, ..)| format!("    {text};\n")).collect();
        self.net(name, &boxes, topology, 0);
        self.text.push_str(";\n");
    }

    /// Writes `net NAME { boxes nets } connect topology`, without the final `;`.
    fn net(&mut self, head: &str, boxes: &str, body: &Component, level: usize) {
        let indent = "    ".repeat(level);
        self.text.push_str(&format!("{indent}net {head} {{\n{boxes}"));
        let mut inner = BTreeMap::new();
        self.nets_of(body, &mut inner, level + 1);
        self.text.push_str(&format!("{indent}}} connect "));
        self.topology(body, true);
    }

    /// Defines the nets that a topology names, each once.
    fn nets_of(&mut self, component: &Component, known: &mut BTreeMap<String, Component>, level: usize) {
        match &*component.form {
            Form::Net { name, signature, body } => match known.get(name) {
                Some(first) if Arc::ptr_eq(&first.form, &component.form) => {}
                Some(first) => self.twice("net", name, component.at, first.at),
                None => {
                    known.insert(name.clone(), component.clone());
                    let start = self.text.len();
                    self.net(&format!("{name}{signature}"), "", body, level);
                    self.origins.push((Span::new(start, self.text.len()), component.at));
                    self.text.push_str(";\n");
                }
            },
            Form::Chain { parts, .. } => parts.iter().for_each(|part| self.nets_of(part, known, level)),
            Form::Postfix { body, .. } => self.nets_of(body, known, level),
            Form::Box { .. } | Form::Text(_) | Form::Wrong(_) => {}
        }
    }

    /// Writes a component as a part of a topology: in brackets, unless the component is the whole topology.
    fn topology(&mut self, component: &Component, alone: bool) {
        let start = self.text.len();
        match &*component.form {
            Form::Box { name, .. } | Form::Net { name, .. } => self.text.push_str(name),
            Form::Text(text) => self.text.push_str(text),
            Form::Wrong(_) => {}
            _ if !alone => {
                self.text.push('(');
                self.topology(component, true);
                self.text.push(')');
                return;
            }
            Form::Chain { sign, parts } => {
                for (i, part) in parts.iter().enumerate() {
                    if i > 0 {
                        self.text.push_str(&format!(" {sign} "));
                    }
                    self.topology(part, false);
                }
            }
            Form::Postfix { body, behind } => {
                self.topology(body, false);
                self.text.push_str(behind);
            }
        }
        self.origins.push((Span::new(start, self.text.len()), component.at));
    }

    /// Adds to a diagnostic the place in the Rust program of the component that it concerns.
    fn tell_origin(&self, diagnostic: &mut Diagnostic, whole: Origin) {
        let Some(place) = diagnostic.primary.as_ref().map(|primary| primary.span) else { return };
        let holds = |span: &Span| span.start <= place.start && place.end <= span.end;
        let around = self.origins.iter().filter(|(span, _)| holds(span));
        let closest = around.min_by_key(|(span, _)| span.end - span.start);
        diagnostic.remarks.push(given_at(closest.map_or(whole, |&(_, at)| at)));
    }
}

#[cfg(test)]
mod tests;
