//! The names that an operator may use, and where their values lie: in a tuple's words, in its head, or in the
//! legend.

use crate::tuple::{Batch, ELEMENT_NONE, Field, Head, Legend, Of, TupleKind};
use thalweg_pack::{Expression, Problem, Schema, Values};

/// The mistakes in an expression or a name.
pub(crate) type Wrong = Vec<Problem>;

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    Word(usize, Of),
    Context(Context),
    /// This kind lacks the name, but other kinds have it.
    Absent,
}

/// The most names in an expression that may belong to kinds which are not known yet.
const OTHERS_MAX: usize = 64;

/// The types that are tried for an unknown name: a number in this unit, or a text (`None`).
const GUESSES: [Option<&str>; 6] = [Some(""), None, Some("ns"), Some("B"), Some("/s"), Some("B/s")];

/// Values that an expression can name besides a tuple's fields: those of the tuple's head and of the legend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Context {
    Time,
    Sequence,
    Kind,
    Element,
    Writer,
    Process,
    Pid,
    Host,
    Session,
}

/// The names of the values in a tuple's head and in the legend; all have dots, and names of fields have none.
const CONTEXT: [(&str, Of, &str, Context); 9] = [
    ("event.time", Of::Time, "ns", Context::Time),
    ("event.sequence", Of::Unsigned, "", Context::Sequence),
    ("event.kind", Of::Text, "", Context::Kind),
    ("element.name", Of::Text, "", Context::Element),
    ("element.writer", Of::Unsigned, "", Context::Writer),
    ("process.name", Of::Text, "", Context::Process),
    ("process.pid", Of::Unsigned, "", Context::Pid),
    ("process.host", Of::Text, "", Context::Host),
    ("process.session", Of::Text, "", Context::Session),
];

/// The kinds of tuple that come to an operator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) kinds: Vec<TupleKind>,
    /// Whether tuples of kinds that are not known yet may come.
    pub(crate) is_open: bool,
    /// Whether the tuples come from elements, and not from an operator.
    pub(crate) has_context: bool,
}

impl Names {
    /// All names, with their places in tuples of one kind; names of other kinds are absent.
    fn of(&self, kind: Option<&TupleKind>) -> Vec<(Field, Place)> {
        let mut found: Vec<(Field, Place)> = Vec::new();
        for (n, field) in kind.into_iter().flat_map(|kind| kind.fields.iter().enumerate()) {
            found.push((field.clone(), Place::Word(n, field.of)));
        }
        for (name, of, unit, context) in CONTEXT.iter().filter(|_| self.has_context) {
            let field = Field { name: (*name).into(), of: *of, unit: (*unit).into(), doc: String::new() };
            found.push((field, Place::Context(*context)));
        }
        for (n, field) in self.kinds.iter().flat_map(|kind| kind.fields.iter().enumerate()) {
            if !found.iter().any(|(known, _)| known.name == field.name) {
                let place = if kind.is_none() { Place::Word(n, field.of) } else { Place::Absent };
                found.push((field.clone(), place));
            }
        }
        found
    }

    /// Whether names can be checked against the known kinds; otherwise a name may belong to a kind that comes
    /// later.
    pub(crate) fn is_known(&self) -> bool {
        !self.kinds.is_empty() || !self.is_open
    }

    /// The field of this name in `kind`, or, if that is `None`, in any kind.
    pub(crate) fn find(&self, name: &str, kind: Option<&TupleKind>) -> Result<(Field, Place), Problem> {
        let names = self.of(kind);
        if let Some(found) = names.iter().find(|(field, _)| field.name == name) {
            return Ok(found.clone());
        }
        let message = format!("there is no field `{name}`");
        let near = thalweg_pack::nearest(name, names.iter().map(|(field, _)| field.name.as_str()));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", list(&names)),
        };
        Err(Problem { message, span: 0..name.len(), help: Some(help) })
    }

    /// Compiles an expression for tuples of this kind, or of any kind if `None`. Where tuples of kinds that
    /// are not known yet may come, a name that this kind lacks may belong to those: in tuples of this kind
    /// its value is unknown.
    pub(crate) fn bind(
        &self,
        text: &str,
        kind: Option<&TupleKind>,
        is_condition: bool,
    ) -> Result<Bound, Wrong> {
        // Names that kinds not known yet may have, each with the index of the type that is tried for it.
        let mut others: Vec<(String, usize)> = Vec::new();
        let mut wrong = match self.bind_with(text, kind, is_condition, &others) {
            Err(wrong) if self.is_open && kind.is_some() => wrong,
            bound => return bound,
        };
        let names = self.of(kind);
        while others.len() < OTHERS_MAX {
            let before = others.len();
            for name in
                wrong.iter().filter_map(|problem| text.get(problem.span.clone())).filter(|name| is_name(name))
            {
                let is_known = names.iter().any(|(field, _)| field.name == name);
                if !is_known && !others.iter().any(|(known, _)| known == name) {
                    others.push((name.to_owned(), 0));
                }
            }
            if others.len() == before {
                break;
            }
            match self.bind_with(text, kind, is_condition, &others) {
                Ok(bound) => return Ok(bound),
                Err(less) => wrong = less,
            }
        }
        for n in 0..others.len() {
            for guess in 1..GUESSES.len() {
                let before = std::mem::replace(&mut others[n].1, guess);
                match self.bind_with(text, kind, is_condition, &others) {
                    Ok(bound) => return Ok(bound),
                    Err(less) if is_less(&less, &wrong) => wrong = less,
                    Err(_) => others[n].1 = before,
                }
            }
        }
        Err(wrong)
    }

    fn bind_with(
        &self,
        text: &str,
        kind: Option<&TupleKind>,
        is_condition: bool,
        others: &[(String, usize)],
    ) -> Result<Bound, Wrong> {
        let (mut schema, mut places) = (Schema::default(), Vec::new());
        for (field, place) in self.of(kind) {
            let declared = match field.of {
                Of::Text => schema.text(&field.name),
                Of::Truth => schema.truth(&field.name),
                _ => schema.number(&field.name, &field.unit).or_else(|_| schema.number(&field.name, "")),
            };
            if declared.is_ok() {
                places.push(place);
            }
        }
        for (name, guess) in others {
            let declared = match GUESSES[*guess] {
                Some(unit) => schema.number(name, unit),
                None => schema.text(name),
            };
            if declared.is_ok() {
                places.push(Place::Absent);
            }
        }
        let read = if is_condition { Expression::condition } else { Expression::read };
        Ok(Bound { expression: read(text, &schema)?, places })
    }
}

/// Whether the first list has fewer problems, or its first problem has a later place.
fn is_less(less: &Wrong, wrong: &Wrong) -> bool {
    let first = |wrong: &Wrong| wrong.first().map_or(usize::MAX, |problem| problem.span.start);
    (less.len(), std::cmp::Reverse(first(less))) < (wrong.len(), std::cmp::Reverse(first(wrong)))
}

/// Whether this is a single name.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
        && !matches!(text, "true" | "false")
}

fn list(names: &[(Field, Place)]) -> String {
    let shown: Vec<&str> = names.iter().map(|(field, _)| field.name.as_str()).take(24).collect();
    if names.len() > shown.len() { format!("{}, …", shown.join(", ")) } else { shown.join(", ") }
}

/// An expression that is bound to the tuples of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) expression: Expression,
    places: Vec<Place>,
}

impl Bound {
    #[inline]
    pub(crate) fn holds(&self, batch: &Batch, head: &Head, legend: &Legend) -> bool {
        self.expression.holds(&Row { batch, head, legend, places: &self.places })
    }

    #[inline]
    pub(crate) fn number(&self, batch: &Batch, head: &Head, legend: &Legend) -> f64 {
        self.expression.number(&Row { batch, head, legend, places: &self.places })
    }
}

struct Row<'a> {
    batch: &'a Batch,
    head: &'a Head,
    legend: &'a Legend,
    places: &'a [Place],
}

impl Values for Row<'_> {
    #[inline]
    fn number(&self, field: usize) -> f64 {
        number_at(self.places[field], self.batch, self.head, self.legend)
    }

    fn text(&self, field: usize) -> Option<&str> {
        text_at(self.places[field], self.batch, self.head, self.legend)
    }
}

#[inline]
pub(crate) fn number_at(place: Place, batch: &Batch, head: &Head, legend: &Legend) -> f64 {
    match place {
        Place::Word(n, of) => of.number(batch.word(head, n)),
        Place::Context(_) => word_at(place, head, legend).map_or(f64::NAN, |word| word as f64),
        Place::Absent => f64::NAN,
    }
}

/// The natural number of a value that lies in the head or the legend.
pub(crate) fn word_at(place: Place, head: &Head, legend: &Legend) -> Option<u64> {
    let element = legend.elements.get(head.element as usize).filter(|_| head.element != ELEMENT_NONE);
    match place {
        Place::Context(Context::Time) => Some(head.time_ns),
        Place::Context(Context::Sequence) => Some(head.sequence),
        Place::Context(Context::Writer) => Some(element?.writer.into()),
        Place::Context(Context::Pid) => Some(legend.process(head.element)?.pid.into()),
        _ => None,
    }
}

pub(crate) fn text_at<'a>(
    place: Place,
    batch: &'a Batch,
    head: &Head,
    legend: &'a Legend,
) -> Option<&'a str> {
    match place {
        Place::Word(n, Of::Text) => Some(batch.text(batch.word(head, n))),
        Place::Context(Context::Kind) => Some(&legend.kinds.get(usize::from(head.kind))?.name),
        Place::Context(_) if head.element == ELEMENT_NONE => None,
        Place::Context(Context::Element) => Some(&legend.elements.get(head.element as usize)?.name),
        Place::Context(Context::Process) => Some(&legend.process(head.element)?.name),
        Place::Context(Context::Host) => Some(&legend.process(head.element)?.host),
        Place::Context(Context::Session) => Some(&legend.process(head.element)?.session),
        _ => None,
    }
}

/// Values that are made for each kind when its first tuple comes, and kept.
#[derive(Clone, Debug)]
pub(crate) struct PerKind<T> {
    made: Vec<Option<T>>,
}

impl<T> Default for PerKind<T> {
    fn default() -> PerKind<T> {
        PerKind { made: Vec::new() }
    }
}

impl<T> PerKind<T> {
    #[inline]
    pub(crate) fn get(&mut self, kind: u16, make: impl FnOnce() -> T) -> &mut T {
        let at = usize::from(kind);
        if at >= self.made.len() {
            self.made.resize_with(at + 1, || None);
        }
        self.made[at].get_or_insert_with(make)
    }
}
