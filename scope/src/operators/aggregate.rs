//! Aggregations of a group of tuples: counts, sums, extremes, quantiles, latest values, rates. The state of
//! each aggregation can be merged from parts.

use super::naming::{Bound, Names, Place, Wrong, is_name, number_at, text_at, word_at};
use super::sketch::Sketch;
use crate::tuple::{Batch, Field, Head, Legend, Of, TupleKind};
use std::collections::HashMap;
use thalweg_pack::{Dimension, Problem, Type};

/// The words with which an aggregation other than a quantile begins.
const WORDS: [&str; 10] =
    ["count", "rate", "sum", "min", "max", "mean", "latest", "increase", "median", "p99"];

/// The number of counters whose former values are kept even if they no longer occur; if there are more
/// counters, values are kept only for `LOOKS_KEPT` looks. In a *look*, all groups of a period are finished.
const COUNTERS_KEPT: usize = 4096;
const LOOKS_KEPT: u64 = 16;

/// An aggregation: the function that makes one value of a group's tuples.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregation {
    how: How,
    /// A name or an expression; empty for the number of tuples.
    of: String,
    /// The offset of the name in the text.
    at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Count,
    /// The number of tuples, or the sum of a value, per second.
    Rate,
    Sum,
    Min,
    Max,
    Mean,
    Quantile(f64),
    Latest,
    /// The growth of a counter per second.
    Increase,
}

impl Aggregation {
    /// Reads `count`, `max duration`, `p99.9 duration`, `rate reads + writes`, `latest state`, `increase busy`, …
    pub(crate) fn read(text: &str) -> Result<Aggregation, Problem> {
        let (word, of) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let quantile = word.strip_prefix('p').and_then(|percent| percent.parse::<f64>().ok());
        let how = match word {
            "count" => How::Count,
            "rate" => How::Rate,
            "sum" => How::Sum,
            "min" => How::Min,
            "max" => How::Max,
            "mean" => How::Mean,
            "median" => How::Quantile(0.5),
            "latest" => How::Latest,
            "increase" => How::Increase,
            _ => match quantile.filter(|percent| (0.0..=100.0).contains(percent)) {
                Some(percent) => How::Quantile(percent / 100.0),
                None => {
                    let help = match thalweg_pack::nearest(word, WORDS) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("there are {}", WORDS.join(", ")),
                    };
                    let message = format!("there is no aggregation `{word}`");
                    return Err(Problem { message, span: 0..word.len(), help: Some(help) });
                }
            },
        };
        let of = of.trim().to_owned();
        let needs = !matches!(how, How::Count | How::Rate);
        let wrong = |message: String| Problem { message, span: 0..text.len(), help: None };
        if needs && of.is_empty() {
            return Err(wrong(format!("`{word}` needs the field that it is of")));
        }
        if how == How::Count && !of.is_empty() {
            return Err(wrong("`count` counts tuples: it is of no field".to_owned()));
        }
        if how == How::Latest && !is_name(&of) {
            return Err(wrong("`latest` takes a field as it is".to_owned()));
        }
        let at = text.len() - text.trim_end().len();
        let at = text.len() - at - of.len();
        Ok(Aggregation { how, of, at })
    }

    /// The field that the aggregation makes.
    pub(crate) fn field(&self, name: &str, names: &Names) -> Result<Field, Wrong> {
        let moved = |problem: Problem| problem.moved(self.at);
        self.made(name, names).map_err(|wrong| wrong.into_iter().map(moved).collect())
    }

    fn made(&self, name: &str, names: &Names) -> Result<Field, Wrong> {
        let field =
            |of, unit: &str| Field { name: name.to_owned(), of, unit: unit.to_owned(), doc: String::new() };
        if self.how == How::Count {
            return Ok(field(Of::Unsigned, ""));
        }
        if self.of.is_empty() {
            return Ok(field(Of::Real, "/s"));
        }
        if !names.is_known() {
            return Ok(field(Of::Real, ""));
        }
        let known = is_name(&self.of)
            .then(|| names.find(&self.of, None).map_err(|problem| vec![problem]))
            .transpose()?;
        if self.how == How::Latest
            && let Some((known, _)) = known
        {
            return Ok(field(known.of, &known.unit));
        }
        let bound = names.bind(&self.of, None, false)?;
        let dimension = match bound.expression.of() {
            Type::Number(dimension) => dimension,
            Type::Truth => Dimension::NONE,
            Type::Text => {
                let message = "this is a text: only `latest` takes texts".to_owned();
                return Err(vec![Problem { message, span: 0..self.of.len(), help: None }]);
            }
        };
        let (plain, _) = unit_of(dimension);
        let known = known.filter(|_| dimension == Dimension::NONE);
        let named = known.as_ref().map_or("", |(known, _)| known.unit.as_str());
        let unit = if plain.is_empty() { named } else { plain };
        Ok(match self.how {
            How::Rate | How::Increase if unit == "ns" => field(Of::Real, "share"),
            How::Rate | How::Increase => field(Of::Real, &format!("{unit}/s")),
            _ => field(Of::Real, unit),
        })
    }

    /// Compiles the access of the aggregation to its value in tuples of a kind.
    pub(crate) fn bind(&self, names: &Names, kind: &TupleKind) -> Result<Taken, Wrong> {
        if self.how == How::Latest {
            let (field, place) = names.find(&self.of, Some(kind)).map_err(|problem| vec![problem])?;
            return Ok(if place == Place::Absent { Taken::Nothing } else { Taken::Place(place, field.of) });
        }
        if self.of.is_empty() {
            return Ok(Taken::One);
        }
        let bound = names.bind(&self.of, Some(kind), false)?;
        let factor = match bound.expression.of() {
            Type::Number(dimension) => unit_of(dimension).1,
            _ => 1.0,
        };
        Ok(Taken::Number(Box::new(bound), factor))
    }

    /// The state before the first tuple.
    pub(crate) fn start(&self) -> State {
        match self.how {
            How::Count => State::Count(0),
            How::Sum | How::Rate => State::Sum(0.0),
            How::Min => State::Min(f64::NAN),
            How::Max => State::Max(f64::NAN),
            How::Mean => State::Mean { sum: 0.0, count: 0 },
            How::Quantile(_) => State::Sketch(Sketch::default()),
            How::Latest => State::Latest(None),
            How::Increase => State::Counters(HashMap::new()),
        }
    }

    /// The word of the result; `past` holds the time that the group covers and the former values of counters.
    pub(crate) fn finish(&self, state: &State, field: &Field, past: &mut Past, out: &mut Batch) -> u64 {
        let per_second = |value: f64| {
            // Nanoseconds per second are converted to a share.
            let scale = if field.unit == "share" { 1e-9 } else { 1.0 };
            if past.seconds > 0.0 { scale * value / past.seconds } else { f64::NAN }
        };
        let value = match (state, self.how) {
            (State::Count(count), _) => return *count,
            (State::Latest(None), _) if field.of == Of::Text => return out.text_word(""),
            (State::Latest(None), _) => return if field.of == Of::Real { f64::NAN.to_bits() } else { 0 },
            (State::Latest(Some((_, Seen::Text(text)))), _) => return out.text_word(text),
            (State::Latest(Some((_, Seen::Word(word)))), _) => return *word,
            (State::Sum(sum), How::Rate) => per_second(*sum),
            (State::Sum(sum), _) => *sum,
            (State::Min(value) | State::Max(value), _) => *value,
            (State::Mean { sum, count }, _) => sum / *count as f64,
            (State::Sketch(sketch), How::Quantile(quantile)) => sketch.quantile(quantile),
            (State::Sketch(_), _) => f64::NAN,
            (State::Counters(counters), _) => past.growth(counters, field.unit == "share"),
        };
        value.to_bits()
    }
}

/// The unit for values of this dimension, and the factor that converts them to it.
fn unit_of(dimension: Dimension) -> (&'static str, f64) {
    match (dimension.time, dimension.bytes) {
        (1, 0) => ("ns", 1.0),
        (0, 1) => ("B", 1.0),
        (-1, 0) => ("/s", 1e9),
        (-1, 1) => ("B/s", 1e9),
        _ => ("", 1.0),
    }
}

/// How an aggregation reads its value from a tuple.
#[derive(Clone, Debug)]
pub(crate) enum Taken {
    One,
    Nothing,
    Number(Box<Bound>, f64),
    Place(Place, Of),
}

/// The key of a counter: element, and id of a row.
type Counter = (u32, u64);

/// The state of an aggregation.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Count(u64),
    Sum(f64),
    Min(f64),
    Max(f64),
    Mean { sum: f64, count: u64 },
    Sketch(Sketch),
    Latest(Option<((u64, u64), Seen)>),
    Counters(HashMap<Counter, (u64, f64)>),
}

/// A value without conversion.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Word(u64),
    Text(String),
}

impl State {
    pub(crate) fn take(&mut self, taken: &Taken, batch: &Batch, head: &Head, legend: &Legend) {
        let value = match taken {
            Taken::Nothing => return,
            Taken::One => 1.0,
            Taken::Number(bound, factor) => bound.number(batch, head, legend) * factor,
            Taken::Place(place, of) => {
                let at = (head.time_ns, head.sequence);
                if let State::Latest(latest) = self
                    && latest.as_ref().is_none_or(|(before, _)| *before <= at)
                {
                    *latest = Some((at, seen(*place, *of, batch, head, legend)));
                }
                return;
            }
        };
        if value.is_nan() {
            return;
        }
        match self {
            State::Count(count) => *count += 1,
            State::Sum(sum) => *sum += value,
            State::Min(min) => *min = min.min(value),
            State::Max(max) => *max = max.max(value),
            State::Mean { sum, count } => (*sum, *count) = (*sum + value, *count + 1),
            State::Sketch(sketch) => sketch.add(value),
            State::Counters(counters) => {
                let id = if head.is_row() { head.sequence } else { 0 };
                let last = counters.entry((head.element, id)).or_insert((0, 0.0));
                if head.time_ns >= last.0 {
                    *last = (head.time_ns, value);
                }
            }
            State::Latest(_) => {}
        }
    }

    /// Merges the state of another part of the same aggregation.
    pub(crate) fn merge(&mut self, other: State) {
        match (self, other) {
            (State::Count(count), State::Count(more)) => *count += more,
            (State::Sum(sum), State::Sum(more)) => *sum += more,
            (State::Min(min), State::Min(more)) => *min = min.min(more),
            (State::Max(max), State::Max(more)) => *max = max.max(more),
            (State::Mean { sum, count }, State::Mean { sum: more, count: others }) => {
                (*sum, *count) = (*sum + more, *count + others);
            }
            (State::Sketch(sketch), State::Sketch(more)) => sketch.merge(&more),
            (State::Latest(latest), State::Latest(Some(more)))
                if latest.as_ref().is_none_or(|(before, _)| *before <= more.0) =>
            {
                *latest = Some(more);
            }
            (State::Counters(counters), State::Counters(more)) => {
                for (counter, (time, value)) in more {
                    let last = counters.entry(counter).or_insert((time, value));
                    if time >= last.0 {
                        *last = (time, value);
                    }
                }
            }
            _ => {}
        }
    }
}

fn seen(place: Place, of: Of, batch: &Batch, head: &Head, legend: &Legend) -> Seen {
    match (place, of) {
        (_, Of::Text) => Seen::Text(text_at(place, batch, head, legend).unwrap_or_default().to_owned()),
        (Place::Word(n, _), _) => Seen::Word(batch.word(head, n)),
        (_, Of::Real) => Seen::Word(number_at(place, batch, head, legend).to_bits()),
        _ => Seen::Word(word_at(place, head, legend).unwrap_or(0)),
    }
}

/// The former values of counters, and the time since then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    /// The time that a group covers.
    pub(crate) seconds: f64,
    /// The former values of the counters of one field, each with the number of the look in which the counter
    /// occurred last.
    counters: HashMap<Counter, (f64, u64)>,
    /// The number of looks so far: of times that all groups were finished.
    looks: u64,
    /// Whether groups were finished before: otherwise the growth of counters is unknown.
    is_known: bool,
}

impl Past {
    /// Ends a look, after all groups of a period were finished. Forgets counters that did not occur in many
    /// looks.
    pub(crate) fn looked(&mut self) {
        let (looks, is_many) = (self.looks, self.counters.len() > COUNTERS_KEPT);
        self.counters.retain(|_, (_, seen)| !is_many || *seen + LOOKS_KEPT > looks);
        self.looks += 1;
        self.is_known = true;
    }

    fn growth(&mut self, counters: &HashMap<Counter, (u64, f64)>, is_share: bool) -> f64 {
        let mut sum = 0.0;
        for (counter, (_, value)) in counters {
            let before =
                self.counters.insert(*counter, (*value, self.looks)).map_or(0.0, |(before, _)| before);
            // A counter that decreased was restarted at 0.
            sum += if *value >= before { value - before } else { *value };
        }
        let scale = if is_share { 1e-9 } else { 1.0 };
        if self.is_known && self.seconds > 0.0 { scale * sum / self.seconds } else { f64::NAN }
    }
}
