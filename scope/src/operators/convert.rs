//! *Convert*: makes tuples of one kind, with computed fields, from tuples of any kinds.

use super::During;
use super::naming::{Bound, Names, PerKind, Place, Wrong, is_name, number_at, text_at, word_at};
use crate::tuple::{Batch, Field, Head, KIND_GAP, Legend, Of, TupleKind};
use thalweg_pack::{Problem, Type, Unit};

/// A computed field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Made {
    pub(crate) name: String,
    /// The name of a field to copy, or an expression.
    pub(crate) is: String,
    /// The unit of the expression's value.
    pub(crate) unit: String,
}

/// The operator *convert*, which keeps gaps unchanged.
#[derive(Clone, Debug)]
pub(crate) struct Convert {
    made: Vec<Made>,
    names: Names,
    to: TupleKind,
    number: Option<u16>,
    sources: PerKind<Option<Vec<Source>>>,
}

#[derive(Clone, Debug)]
enum Source {
    Place(Place, Of),
    Number(Bound, f64),
}

impl Convert {
    /// # Errors
    /// Problems in the computed fields, each with the index of its field.
    pub(crate) fn new(to: &str, made: &[Made], names: &Names) -> Result<Convert, Vec<(usize, Problem)>> {
        let (mut fields, mut wrong) = (Vec::new(), Vec::new());
        for (n, made) in made.iter().enumerate() {
            match field_of(made, names) {
                Ok(field) => fields.push(field),
                Err(problems) => wrong.extend(problems.into_iter().map(|problem| (n, problem))),
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let to = TupleKind { name: to.to_owned(), doc: String::new(), fields };
        let (made, names) = (made.to_vec(), names.clone());
        Ok(Convert { made, names, to, number: None, sources: PerKind::default() })
    }

    pub(crate) fn kind(&self) -> &TupleKind {
        &self.to
    }

    pub(crate) fn apply(&mut self, batch: &mut Batch, during: &mut During<'_>) {
        let legend = during.legend.clone();
        // Gaps are kept unchanged.
        let Some(first) = batch.heads.iter().find(|head| head.kind != KIND_GAP) else { return };
        if self.number.is_none() {
            self.settle(&legend.kinds[usize::from(first.kind)]);
        }
        let (to, tables) = (&self.to, during.tables);
        let number = *self.number.get_or_insert_with(|| tables.kind(to.clone()));
        let mut out = Batch::default();
        for head in &batch.heads {
            if head.kind == KIND_GAP {
                out.push_from(batch, head, &legend.kinds[usize::from(KIND_GAP)]);
                continue;
            }
            let Convert { made, names, to, sources, .. } = self;
            let sources = sources.get(head.kind, || {
                let kind = &legend.kinds[usize::from(head.kind)];
                match bind(made, names, kind, to) {
                    Ok(sources) => Some(sources),
                    Err(wrong) => {
                        let wrong = wrong.first().map_or(String::new(), ToString::to_string);
                        during.problems.push(format!("`{}` cannot become `{}`: {wrong}", kind.name, to.name));
                        None
                    }
                }
            });
            let Some(sources) = sources else {
                during.left_out += 1;
                continue;
            };
            out.begin((head.time_ns, head.sequence), head.element, number, head.flags);
            for source in sources.iter() {
                let word = source.word(batch, head, &legend, &mut out);
                out.words.push(word);
            }
        }
        *batch = out;
        during.legend = tables.now();
    }
}

impl Convert {
    /// If no kind was known before, the first kind that comes determines which names are texts.
    fn settle(&mut self, kind: &TupleKind) {
        if self.names.is_known() {
            return;
        }
        for (made, field) in self.made.iter().zip(&mut self.to.fields).filter(|(made, _)| is_name(&made.is)) {
            let is_text = self.names.find(&made.is, Some(kind)).is_ok_and(|(found, _)| found.of == Of::Text);
            if is_text {
                field.of = Of::Text;
            }
        }
    }
}

impl Source {
    fn word(&self, batch: &Batch, head: &Head, legend: &Legend, out: &mut Batch) -> u64 {
        match self {
            Source::Number(bound, factor) => (bound.number(batch, head, legend) / factor).to_bits(),
            Source::Place(place, Of::Text) => {
                out.text_word(text_at(*place, batch, head, legend).unwrap_or_default())
            }
            Source::Place(place, Of::Real) => number_at(*place, batch, head, legend).to_bits(),
            Source::Place(Place::Word(n, _), _) => batch.word(head, *n),
            Source::Place(place, _) => word_at(*place, head, legend).unwrap_or(0),
        }
    }
}

fn bind(made: &[Made], names: &Names, kind: &TupleKind, to: &TupleKind) -> Result<Vec<Source>, Wrong> {
    let source = |(made, field): (&Made, &Field)| -> Result<Source, Wrong> {
        if is_name(&made.is) {
            let (found, place) = names.find(&made.is, Some(kind)).map_err(|problem| vec![problem])?;
            // The tuple is left out: its kind lacks the field, and 0 would be a wrong value.
            if place == Place::Absent && !matches!(field.of, Of::Text | Of::Real)
                || found.of != field.of && field.of != Of::Real
            {
                let message = format!("`{}` has no {} `{}`", kind.name, field.of.name(), made.is);
                return Err(vec![Problem { message, span: 0..made.is.len(), help: None }]);
            }
            return Ok(Source::Place(place, field.of));
        }
        let factor = Unit::parse(&made.unit).map_or(1.0, |unit| unit.factor);
        Ok(Source::Number(names.bind(&made.is, Some(kind), false)?, factor))
    };
    made.iter().zip(&to.fields).map(source).collect()
}

/// The type and unit of the computed field.
fn field_of(made: &Made, names: &Names) -> Result<Field, Wrong> {
    let Made { name, is, unit } = made;
    let field = |of, unit: &str| Field { name: name.clone(), of, unit: unit.to_owned(), doc: String::new() };
    if is_name(is) {
        if !names.is_known() {
            return Ok(field(Of::Real, ""));
        }
        let (found, _) = names.find(is, None).map_err(|problem| vec![problem])?;
        return Ok(field(found.of, &found.unit));
    }
    if !names.is_known() {
        return Ok(field(Of::Real, unit));
    }
    let bound = names.bind(is, None, false)?;
    let wrong = |message: String| vec![Problem { message, span: 0..is.len(), help: None }];
    match (bound.expression.of(), Unit::parse(unit)) {
        (_, None) => Err(wrong(format!("there is no unit `{unit}`"))),
        (Type::Number(dimension), Some(known)) if dimension != known.dimension && unit.is_empty() => {
            Err(wrong(format!("this is {dimension}: name the unit of the result")))
        }
        (Type::Number(dimension), Some(known)) if dimension != known.dimension => {
            Err(wrong(format!("this is {dimension}, and `{unit}` is {}", known.dimension)))
        }
        _ => Ok(field(Of::Real, unit)),
    }
}
