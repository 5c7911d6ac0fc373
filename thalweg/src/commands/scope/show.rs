//! Pulled tuples as tables or JSON.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use thalweg_scope::{Field, Of, Price, Pulled, Tuple, TupleKind, Value, View};

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Column, ShapeArguments, Table, number, text};
use crate::units::{bytes, count, duration, rate, share};

/// Prints pulled tuples.
pub(crate) struct Shown {
    output: Output,
    json: bool,
    /// Whether the view itself makes the kinds of the tuples; such tuples are printed as tables.
    is_made: bool,
    /// Whether the tuples are sums over windows of time; then the end of each window is shown.
    has_windows: bool,
    count: u64,
    begin_ns: Option<u64>,
    has_reported_rate: bool,
}

impl Shown {
    pub(crate) fn new(json: bool, view: &View, shape: &ShapeArguments, terminal: Terminal) -> Shown {
        let output = Output::shaped(terminal, shape);
        let (is_made, has_windows) = (view.is_made(), view.has_windows());
        Shown { output, json, is_made, has_windows, count: 0, begin_ns: None, has_reported_rate: false }
    }

    pub(crate) fn show(&mut self, pulled: &Pulled, terminal: Terminal) -> Result<(), Failure> {
        super::print_problems(pulled, terminal);
        self.count += pulled.batch.len() as u64;
        if self.json {
            for tuple in pulled.batch.tuples() {
                self.output.line(&object(&tuple).to_string())?;
            }
            return self.output.flush();
        }
        self.tables(pulled)?;
        if pulled.left_out > 0 {
            self.output.line(&format!("{} tuples have no place in this view", count(pulled.left_out)))?;
        }
        self.output.flush()
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        if self.count == 0 && !self.json {
            print_stderr!("no tuple fits this view");
        }
        self.output.flush()
    }

    /// Reports once that the budget allows fewer pulls than were asked for.
    pub(crate) fn report_rate(&mut self, asked: Duration, wait: Duration, price: Option<&Price>) {
        let Some(price) = price else { return };
        if wait > asked.mul_f64(1.05) && !self.has_reported_rate {
            self.has_reported_rate = true;
            let allowed = rate(price.rate_allowed());
            print_stderr!(
                "pulled less often than asked: {} of the processor time allows {allowed}",
                share(price.share())
            );
        }
    }

    /// Prints a table for each sequence of tuples of one kind.
    fn tables(&mut self, pulled: &Pulled) -> Result<(), Failure> {
        let tuples: Vec<Tuple<'_>> = pulled.batch.tuples().collect();
        let (made, raw): (Vec<_>, Vec<_>) =
            tuples.into_iter().partition(|tuple| self.is_made && tuple.lost().is_none());
        for tuples in made.chunk_by(|a, b| a.head().kind == b.head().kind) {
            let Some(first) = tuples.first() else { continue };
            let mut columns = columns(first.kind());
            if self.has_windows {
                columns.insert(0, number("UNTIL", 0));
            }
            let mut table = Table::new(&columns);
            for tuple in tuples {
                let time = self.has_windows.then(|| format!("{:.3} s", self.seconds(tuple)));
                let cells = (0..first.kind().fields.len()).map(|n| cell(first.kind(), n, tuple));
                table.row(time.into_iter().chain(cells).collect(), false);
            }
            self.output.table(&table)?;
        }
        for tuple in &raw {
            let line = self.line(tuple);
            self.output.line(&line)?;
        }
        Ok(())
    }

    /// The tuple's time, counted from the first tuple that was shown.
    fn seconds(&mut self, tuple: &Tuple<'_>) -> f64 {
        let time_ns = tuple.head().time_ns;
        let begin_ns = *self.begin_ns.get_or_insert(time_ns);
        time_ns.wrapping_sub(begin_ns).cast_signed() as f64 / 1e9
    }

    /// The line that shows a tuple of an element.
    fn line(&mut self, tuple: &Tuple<'_>) -> String {
        let seconds = self.seconds(tuple);
        let process = tuple.process().map_or("", |process| process.name.as_str());
        let element = tuple.element().map_or("", |element| &element.name);
        if let Some(lost) = tuple.lost() {
            let text = format!("--- {} events of {process} {element} lost", count(lost));
            return self.output.styled("1;33", &text);
        }
        let kind = self.output.styled("34", &tuple.kind().name);
        let mut line = format!("{seconds:14.9}  {process}  {element}  {kind}");
        for (n, field) in tuple.kind().fields.iter().enumerate() {
            let value = cell(tuple.kind(), n, tuple);
            line.push_str(&format!(" {}={value}", field.name));
        }
        line
    }
}

/// The columns of a kind's table.
fn columns(kind: &TupleKind) -> Vec<Column> {
    let column = |(n, field): (usize, &Field)| match field.of {
        Of::Text if n == 0 => text(title(&field.name)),
        Of::Text => text(title(&field.name)).droppable(n as u8),
        _ => number(title(&field.name), n as u8),
    };
    kind.fields.iter().enumerate().map(column).collect()
}

/// The title of a column; titles are never freed, but there are at most as many as fields in views.
fn title(name: &str) -> &'static str {
    static TITLES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let upper = name.to_uppercase();
    let mut titles = TITLES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = titles.get(upper.as_str()) {
        return known;
    }
    let kept: &'static str = Box::leak(upper.into_boxed_str());
    titles.insert(kept);
    kept
}

/// A value formatted for people.
fn cell(kind: &TupleKind, n: usize, tuple: &Tuple<'_>) -> String {
    let Some(field) = kind.fields.get(n) else { return String::new() };
    let Some(value) = tuple.value(n) else { return "–".to_owned() };
    match (value, field.unit.as_str()) {
        (Value::Text("") | Value::Time(0), _) => "–".to_owned(),
        (Value::Text(text), _) => text.to_owned(),
        (Value::Truth(truth), _) => truth.to_string(),
        (Value::Time(time), _) => format!("{:.6}", time as f64 / 1e9),
        (Value::Unsigned(u64::MAX), _) => "–".to_owned(),
        (value, "ns") => value.number().map_or("–".to_owned(), duration),
        (value, "share") => value.number().map_or("–".to_owned(), share),
        (Value::Unsigned(number), "B") => bytes(number),
        // Ids of processes and tasks identify, so they are printed without the separators of large numbers.
        (Value::Unsigned(number), _) if matches!(field.name.as_str(), "process.pid" | "task.id") => {
            number.to_string()
        }
        (Value::Unsigned(number), _) => count(number),
        (Value::Signed(number), _) => number.to_string(),
        (Value::Real(number), unit) if unit.ends_with("/s") && !number.is_nan() => rate(number),
        (Value::Real(number), _) if number.is_nan() => "–".to_owned(),
        (Value::Real(number), _) if number.fract() == 0.0 && number.abs() < 1e15 => {
            if number < 0.0 {
                format!("-{}", count(-number as u64))
            } else {
                count(number as u64)
            }
        }
        (Value::Real(number), _) => format!("{number:.3}"),
    }
}

/// A tuple as a JSON object.
fn object(tuple: &Tuple<'_>) -> Json {
    let mut fields = Map::new();
    for (n, field) in tuple.kind().fields.iter().enumerate() {
        let value = match tuple.value(n) {
            Some(Value::Unsigned(number) | Value::Time(number)) => json!(number),
            Some(Value::Signed(number)) => json!(number),
            Some(Value::Real(number)) if number.is_finite() => json!(number),
            Some(Value::Truth(truth)) => json!(truth),
            Some(Value::Text(text)) => json!(text),
            Some(Value::Real(_)) | None => Json::Null,
        };
        fields.insert(field.name.clone(), value);
    }
    let head = tuple.head();
    let mut object = json!({ "kind": tuple.kind().name, "time_ns": head.time_ns, "fields": fields });
    if let (Some(element), Some(process)) = (tuple.element(), tuple.process()) {
        object["process"] = json!(process.name);
        object["pid"] = json!(process.pid);
        object["element"] = json!(&*element.name);
        object["writer"] = json!(element.writer);
        object["sequence"] = json!(head.sequence);
    }
    object
}
