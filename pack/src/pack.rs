//! The format of packs, and the evaluation of a pack for given values.

use std::ops::Range;
use thalweg_glob::Glob;

use crate::expression::{Expression, Values};
use crate::fit::{Fit, TERMS_MAX, Term};
use crate::library::{By, Call, FIGURES, Get, Given, Keep, Kept, Lever, Reading};
use crate::problem::Problem;
use crate::schema::{Field, Schema, Type};
use crate::suggest::nearest;
use crate::table::{File, Table, Text};
use crate::unit::Unit;

/// The version of the format.
const FORMAT: f64 = 1.0;

/// A checked pack: knowledge about an area.
#[derive(Clone, Debug)]
pub struct Pack {
    /// The pack's name.
    pub name: String,
    /// The pack's subject, in one sentence.
    pub about: String,
    /// The area that the pack is about, such as `network`, `link` or a library's name.
    pub area: String,
    /// The properties by which a foreign library is recognised; none for other areas.
    pub identity: Option<Identity>,
    /// What counts as progress of a program that uses the library.
    pub progress: Option<Expression>,
    /// Declarations of the library's functions in C, for programs without debugging information.
    pub declares: Vec<Text>,
    /// The functions at which something is measured.
    pub probes: Vec<Probe>,
    /// The values that are read by calling the library's functions.
    pub readings: Vec<Reading>,
    /// The coefficients of models that are fitted to measurements.
    pub fits: Vec<Fit>,
    /// Measures that are computed from fields. A measure may use earlier ones.
    pub measures: Vec<Measure>,
    /// The conditions that are checked.
    pub conditions: Vec<Condition>,
    /// The models that predict the effects of changes.
    pub models: Vec<Model>,
    /// The settings that may be changed.
    pub points: Vec<Point>,
    /// What to do about a condition.
    pub actions: Vec<Action>,
    /// The names of all fields before the measures, by their numbers.
    pub names: Vec<String>,
    /// The number of the first measure. Lower numbers belong to the fields of the schema, of probes, of
    /// readings, of points and of fitted coefficients.
    first: usize,
}

/// The properties by which a foreign library is recognised.
#[derive(Clone, Debug)]
pub struct Identity {
    /// A pattern of the name of the library's file.
    pub library: Glob,
    /// A pattern of the versions that the pack covers, as in the file's name after `.so.`; none: all.
    pub version: Option<Glob>,
    /// Functions that the library must have.
    pub symbols: Vec<String>,
}

/// A function of the library at which something is measured.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The probe's name; the probe's fields are called `NAME.FIELD` in expressions.
    pub name: String,
    /// The function.
    pub function: String,
    /// When the probe measures.
    pub at: When,
    /// The probe's fields, with their numbers in [`Values`].
    pub fields: Vec<(String, usize)>,
    /// The quantities that are kept of each call.
    pub keeps: Vec<Keep>,
    /// Whether the values that are kept change with the points, so that they do not show what the program
    /// does.
    pub is_effect: bool,
    /// The number of the field with the count of calls in a window. The field with the rate of calls has the
    /// next number.
    pub calls: usize,
}

/// When a probe measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When the function is entered.
    Entry,
    /// When the function returns.
    Exit,
    /// At entry and exit, with one event for the call.
    Call,
}

/// A number or truth value that is computed from others.
#[derive(Clone, Debug)]
pub struct Measure {
    /// The measure's name in other expressions.
    pub name: String,
    /// The expression that computes the measure.
    pub is: Expression,
}

/// A condition that is checked.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The condition's name.
    pub name: String,
    /// The expression that is true if the condition holds.
    pub when: Expression,
    /// The meaning of the condition, in one sentence.
    pub says: String,
}

/// A model that predicts the effect of a change.
#[derive(Clone, Debug)]
pub struct Model {
    /// The model's name.
    pub name: String,
    /// The expression that computes the prediction.
    pub is: Expression,
}

/// A setting that may be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The setting's name.
    pub setting: String,
    /// The least value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// How the value is set in a library; `None` for a setting in a space.
    pub lever: Option<Lever>,
}

/// What to do about a condition.
#[derive(Clone, Debug)]
pub struct Action {
    /// The index of the condition in [`Pack::conditions`].
    pub on: usize,
    /// What is changed.
    pub change: Change,
    /// A condition under which the action is not carried out.
    pub unless: Option<Expression>,
    /// The index in [`Pack::models`] of the model that predicts the action's gain.
    pub gain: Option<usize>,
    /// The indices in [`Pack::conditions`] of conditions that forbid the action; their sentences state the
    /// reason.
    pub forbidden: Vec<usize>,
    /// Whether the change is kept unless it is worse; otherwise it is kept only if it is significantly
    /// better.
    pub is_trusted: bool,
    /// Whether the value follows the expression without further trials once the change was kept.
    pub follows: bool,
    /// The name of the helper that has to run as long as the change is in force, because the helper has the
    /// change taken back before something happens that does not go together with it.
    pub gatekeeper: Option<Text>,
}

/// What an action changes.
#[derive(Clone, Debug)]
pub enum Change {
    /// A setting gets another value; setting the former value undoes the change.
    Setting {
        /// The index of the setting in [`Pack::points`].
        point: usize,
        /// The value, before it is clamped to the point's limits.
        to: Expression,
    },
    /// A command is sent to the process.
    Command {
        /// The words of the command.
        words: Vec<String>,
        /// The words of the command that undoes the first one.
        inverse: Vec<String>,
    },
}

impl Pack {
    /// Reads a pack whose expressions may use these fields.
    ///
    /// # Errors
    /// All mistakes, in the order of the text.
    pub fn read(text: &str, fields: &Schema) -> Result<Pack, Vec<Problem>> {
        let (file, table) = File::parse(text);
        let reader = Reader { file: &file, schema: fields.clone(), broken: Vec::new() };
        let pack = reader.pack(Table::new(&file, table.get_ref(), 0..0, "a pack"));
        match pack {
            Some(pack) if file.is_right() => Ok(pack),
            _ => Err(file.problems()),
        }
    }

    /// The values with the measures of this pack, each computed once.
    pub fn measured<'v, V: Values>(&self, values: &'v V) -> Measured<'v, V> {
        let first = self.first;
        let mut measured = Measured { values, first, measures: Vec::with_capacity(self.measures.len()) };
        for measure in &self.measures {
            let value = measure.is.number(&measured);
            measured.measures.push(value);
        }
        measured
    }

    /// The actions to be carried out for these values, each with the value that its setting gets.
    pub fn due<V: Values>(&self, values: &Measured<'_, V>) -> Vec<(&Action, Option<f64>)> {
        let is_due = |action: &&Action| {
            self.conditions[action.on].when.holds(values)
                && !action.unless.as_ref().is_some_and(|unless| unless.holds(values))
        };
        let with_value = |action| Some((action, self.value(action, values)?));
        self.actions.iter().filter(is_due).filter_map(with_value).collect()
    }

    /// The value that the action's setting gets, `Some(None)` for a command; `None`: the value cannot be
    /// computed, so the action is not carried out.
    fn value<V: Values>(&self, action: &Action, values: &Measured<'_, V>) -> Option<Option<f64>> {
        let Change::Setting { point, to } = &action.change else { return Some(None) };
        let Point { min, max, .. } = self.points[*point];
        let value = to.number(values);
        (!value.is_nan()).then(|| Some(value.clamp(min, max)))
    }
}

/// Values of fields, and the computed measures of a pack.
#[derive(Clone, Debug)]
pub struct Measured<'v, V> {
    values: &'v V,
    /// The number of the first measure.
    first: usize,
    measures: Vec<f64>,
}

impl<V: Values> Values for Measured<'_, V> {
    fn number(&self, field: usize) -> f64 {
        match field.checked_sub(self.first) {
            None => self.values.number(field),
            Some(measure) => self.measures.get(measure).copied().unwrap_or(f64::NAN),
        }
    }

    fn text(&self, field: usize) -> Option<&str> {
        if field < self.first { self.values.text(field) } else { None }
    }
}

/// Reads a pack, in the order in which its parts use one another.
struct Reader<'f, 't> {
    file: &'f File<'t>,
    schema: Schema,
    /// The parts that are named and have mistakes, each by its kind and name; a mistake is reported once, so a
    /// reference to such a part is no further mistake.
    broken: Vec<(&'static str, String)>,
}

impl Reader<'_, '_> {
    fn pack(mut self, table: Table<'_, '_>) -> Option<Pack> {
        match table.number("format") {
            Some(FORMAT) => {}
            Some(other) => self.wrong(0..0, format!("this is format {other}; format 1 is known")),
            None => self.wrong(0..0, "a pack begins with `format = 1`".to_owned()),
        }
        let (name, about, area) = (table.required("name"), table.required("about"), table.required("area"));
        let identity = table.table("identity", "an identity").and_then(|table| self.identity(table));
        let declares = table.texts("declares");
        let probes: Vec<Probe> =
            table.tables("probe", "a probe").into_iter().filter_map(|table| self.probe(table)).collect();
        let readings: Vec<Reading> = table
            .tables("reading", "a reading")
            .into_iter()
            .filter_map(|table| self.reading(table))
            .collect();
        let points: Vec<Point> =
            table.tables("point", "a point").into_iter().filter_map(|table| self.point(table)).collect();
        // Measures may use coefficients, and the quantities by which these are fitted may use measures.
        let fits = table.tables("fit", "a fit");
        let coefficients: Vec<Vec<Coefficient>> = fits.iter().map(|table| self.coefficients(table)).collect();
        let first = self.schema.fields.len();
        let names = self.schema.names().map(str::to_owned).collect();
        let measures: Vec<Measure> = table
            .tables("measure", "a measure")
            .into_iter()
            .filter_map(|table| self.measure(table))
            .collect();
        let fits: Vec<Fit> = fits
            .into_iter()
            .zip(coefficients)
            .filter_map(|(table, coefficients)| self.fit(table, coefficients, &points))
            .collect();
        let conditions: Vec<Condition> = table
            .tables("condition", "a condition")
            .into_iter()
            .filter_map(|table| self.condition(table))
            .collect();
        let models: Vec<Model> =
            table.tables("model", "a model").into_iter().filter_map(|table| self.model(table)).collect();
        let progress = table.text("progress");
        let progress =
            progress.and_then(|text| self.checked(Expression::read(&text.text, &self.schema), &text));
        self.unique("condition", conditions.iter().map(|condition| &condition.name));
        self.unique("model", models.iter().map(|model| &model.name));
        self.unique("point", points.iter().map(|point| &point.setting));
        let known = Known { conditions: &conditions, models: &models, points: &points };
        let actions = table
            .tables("action", "an action")
            .into_iter()
            .filter_map(|table| self.action(table, &known))
            .collect();
        table.finish();
        Some(Pack {
            name: name?.text,
            about: about?.text,
            area: area?.text,
            identity,
            progress,
            declares,
            probes,
            readings,
            fits,
            measures,
            conditions,
            models,
            points,
            actions,
            names,
            first,
        })
    }

    fn wrong(&self, span: Range<usize>, message: String) {
        self.file.wrong(Problem::new(span, message));
    }

    fn unique<'n>(&self, what: &str, names: impl Iterator<Item = &'n String>) {
        let mut seen = Vec::new();
        for name in names {
            if seen.contains(&name) {
                self.wrong(0..0, format!("the {what} `{name}` is declared twice"));
            }
            seen.push(name);
        }
    }

    fn identity(&self, table: Table<'_, '_>) -> Option<Identity> {
        let library = table.required("library").map(|text| Glob::new(&text.text));
        let version = table.text("version").map(|text| Glob::new(&text.text));
        let symbols = table.texts("symbols").into_iter().map(|text| text.text).collect();
        table.finish();
        Some(Identity { library: library?, version, symbols })
    }

    fn probe(&mut self, table: Table<'_, '_>) -> Option<Probe> {
        let (name, function) = (table.required("name"), table.required("function"));
        let at = match table.text("at") {
            None => Some(When::Call),
            Some(at) => match at.text.as_str() {
                "entry" => Some(When::Entry),
                "exit" => Some(When::Exit),
                "call" => Some(When::Call),
                other => {
                    self.wrong(at.span, format!("a probe is at `entry`, `exit` or `call`, not at `{other}`"));
                    None
                }
            },
        };
        let mut fields = Vec::new();
        for (field, unit) in table.named("fields") {
            let full = format!("{}.{}", name.as_ref().map_or("?", |name| name.text.as_str()), field.text);
            let declared = match unit.text.as_str() {
                "text" => self.schema.text(&full),
                "truth" => self.schema.truth(&full),
                unit => self.schema.number(&full, unit),
            };
            match declared {
                Ok(number) => fields.push((field.text, number)),
                Err(why) => self.wrong(unit.span, why.to_string()),
            }
        }
        let name_text = name.as_ref().map_or("?", |name| name.text.as_str()).to_owned();
        let (keeps, is_effect) = (self.keeps(&table, &name_text), table.truth("effect"));
        let span = name.as_ref().map_or(0..0, |name| name.span.clone());
        let calls = self.declared(&format!("{name_text}.calls"), "", &span);
        self.declared(&format!("{name_text}.rate"), "/s", &span);
        table.finish();
        Some(Probe { name: name?.text, function: function?.text, at: at?, fields, keeps, is_effect, calls })
    }

    /// Declares a number; returns its index among the fields.
    fn declared(&mut self, name: &str, unit: &str, span: &Range<usize>) -> usize {
        match self.schema.number(name, unit) {
            Ok(number) => number,
            Err(why) => {
                self.wrong(span.clone(), why.to_string());
                0
            }
        }
    }

    fn keeps(&mut self, table: &Table<'_, '_>, probe: &str) -> Vec<Keep> {
        let mut keeps = Vec::new();
        for (name, text) in table.named("keeps") {
            match Kept::read(&text.text) {
                Ok((what, unit)) => {
                    let mut first = None;
                    for figure in FIGURES {
                        let unit = if figure == "sum" && what == Kept::Time { "ns" } else { unit };
                        let field =
                            self.declared(&format!("{probe}.{}.{figure}", name.text), unit, &text.span);
                        first.get_or_insert(field);
                    }
                    keeps.push(Keep { name: name.text, what, field: first.unwrap_or(0) });
                }
                Err(why) => self.wrong(text.span, why),
            }
        }
        keeps
    }

    /// The valid calls under a key; invalid ones are reported.
    fn calls(&self, table: &Table<'_, '_>, key: &'static str) -> Vec<Call> {
        let call = |text: Text| match Call::read(&text.text) {
            Ok(call) => Some(call),
            Err(problem) => {
                self.file.wrong(text.place(problem));
                None
            }
        };
        table.texts(key).into_iter().filter_map(call).collect()
    }

    /// The table's description of how a value is read.
    fn get(&self, table: &Table<'_, '_>) -> Get {
        let at = table.texts("at").into_iter().map(|text| text.text).collect();
        let (calls, word) = (self.calls(table, "get"), table.text("value"));
        let words = || calls.iter().flat_map(|call| &call.arguments).filter_map(word_of);
        if let Some(word) = word.as_ref().filter(|word| !words().any(|known| *known == word.text)) {
            let problem = Problem::new(word.span.clone(), format!("no call has the word `&{}`", word.text));
            self.file.wrong(match nearest(&word.text, words().map(String::as_str)) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help("the value must be in a word that a call fills, as in `f(&word)`"),
            });
        }
        Get { word: word.map(|word| word.text), at, calls }
    }

    fn reading(&mut self, table: Table<'_, '_>) -> Option<Reading> {
        let (name, unit) = (table.required("name"), table.text("unit"));
        let get = self.get(&table);
        if get.calls.is_empty() {
            self.wrong(table.span(), "a reading needs `get`, the calls that read it".to_owned());
        }
        self.needs_places(&table, &get);
        let unit = unit.map_or(String::new(), |unit| unit.text);
        table.finish();
        let name = name?;
        let field = self.declared(&name.text, &unit, &name.span);
        Some(Reading { name: name.text, get, field })
    }

    fn needs_places(&self, table: &Table<'_, '_>, get: &Get) {
        if get.at.is_empty() {
            let message = "calls need `at`, the functions at whose entry they may be made";
            self.wrong(table.span(), message.to_owned());
        }
    }

    /// Reads how the value of a point is set in a library.
    fn lever(&mut self, table: &Table<'_, '_>, setting: &Text, unit: &str) -> Option<Lever> {
        let (set, back, get) = (self.calls(table, "set"), self.calls(table, "back"), self.get(table));
        let (argument, variable) = (table.text("argument"), table.text("variable"));
        let (default, is_lasting) = (table.number("default"), table.truth("lasting"));
        let by = match (set.is_empty(), argument, variable) {
            (true, None, None) => return None,
            (false, None, None) => {
                if !set.iter().any(Call::takes_value) {
                    self.wrong(table.span(), "no call of `set` has `$`, the value".to_owned());
                }
                if get.calls.is_empty() && default.is_none() {
                    let message =
                        "a point that calls set needs `get`, or `default`: the former value undoes a change";
                    self.wrong(table.span(), message.to_owned());
                }
                self.needs_places(table, &get);
                By::Calls { set, back, get }
            }
            (true, Some(argument), None) => {
                let parts = argument.text.rsplit_once(':');
                let number = parts.and_then(|(_, number)| number.trim().parse().ok());
                let Some((number, (function, _))) = number.filter(|number| *number < 6).zip(parts) else {
                    let message = "an argument is written FUNCTION:NUMBER, with a number from 0 to 5";
                    self.wrong(argument.span, message.to_owned());
                    return None;
                };
                By::Argument { function: function.trim().to_owned(), number }
            }
            (true, None, Some(variable)) => By::Variable(variable.text),
            _ => {
                let message = "a point is set by `set`, by `argument` or by `variable`, not by several";
                self.wrong(table.span(), message.to_owned());
                return None;
            }
        };
        let field = self.declared(&setting.text, unit, &setting.span);
        Some(Lever { by, field, default, is_lasting })
    }

    /// Reads the expression under a required key.
    fn expression(&self, table: &Table<'_, '_>, key: &'static str) -> Option<(Expression, Text)> {
        let text = table.required(key)?;
        self.checked(Expression::read(&text.text, &self.schema), &text).map(|expression| (expression, text))
    }

    fn checked(&self, read: Result<Expression, Vec<Problem>>, text: &Text) -> Option<Expression> {
        match read {
            Ok(expression) => Some(expression),
            Err(problems) => {
                problems.into_iter().for_each(|problem| self.file.wrong(text.place(problem)));
                None
            }
        }
    }

    /// Reports an expression if the table gives a `unit` of another dimension.
    fn fits(&self, table: &Table<'_, '_>, expression: Option<&Expression>) {
        let Some(unit) = table.text("unit") else { return };
        let Some(known) = Unit::parse(&unit.text) else {
            let problem = Problem::new(unit.span.clone(), format!("there is no unit `{}`", unit.text));
            return self.file.wrong(match nearest(&unit.text, Unit::names()) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem,
            });
        };
        match expression.map(Expression::of) {
            Some(Type::Number(found)) if found != known.dimension => {
                self.wrong(
                    unit.span,
                    format!("the expression is {found}, and `{}` is {}", unit.text, known.dimension),
                );
            }
            Some(Type::Truth) => self.wrong(unit.span, "a truth value has no unit".to_owned()),
            _ => {}
        }
    }

    /// Declares the coefficients of a fit's terms.
    fn coefficients(&mut self, table: &Table<'_, '_>) -> Vec<Coefficient> {
        let fit = table.text("name").map_or("?".to_owned(), |name| name.text);
        let mut coefficients = Vec::new();
        for term in table.tables("term", "a term") {
            let (name, times) = (term.required("name"), term.required("times"));
            let unit_name = term.text("unit").map_or(String::new(), |unit| unit.text);
            let (min, max) = (term.number("min").unwrap_or(0.0), term.number("max").unwrap_or(f64::INFINITY));
            let start = term.number("start");
            if !start.is_some_and(|start| min <= start && start <= max && min >= 0.0) {
                let message =
                    "a term needs `start`, the coefficient before it is known, between `min` and `max`";
                self.wrong(term.span(), format!("{message}, which are not negative"));
            }
            term.finish();
            let (Some(name), Some(times)) = (name, times) else { continue };
            let full = format!("{fit}.{}", name.text);
            let field = self.declared(&full, &unit_name, &name.span);
            let unit = Unit::parse(&unit_name).unwrap_or(Unit::PLAIN);
            let numbers = [min, start.unwrap_or(min), max];
            coefficients.push(Coefficient { times, name: full, unit_name, unit, field, numbers });
        }
        coefficients
    }

    fn fit(&self, table: Table<'_, '_>, coefficients: Vec<Coefficient>, points: &[Point]) -> Option<Fit> {
        let (name, is) = (table.required("name"), self.expression(&table, "is"));
        let when = table.text("when");
        let when = when.and_then(|text| self.checked(Expression::condition(&text.text, &self.schema), &text));
        let settings = || points.iter().map(|point| point.setting.as_str());
        let apart =
            table.texts("apart").into_iter().filter_map(|name| self.named("point", &name, settings()));
        let apart = apart.filter_map(|point| Some(points[point].lever.as_ref()?.field)).collect();
        if coefficients.is_empty() || coefficients.len() > TERMS_MAX {
            let message = format!("a fit has 1 to {TERMS_MAX} terms, each begun by `[[fit.term]]`");
            self.wrong(table.span(), message);
        }
        table.finish();
        let (is, _) = is?;
        let mut terms = Vec::new();
        for Coefficient { times: text, name, unit_name, unit, field, numbers } in coefficients {
            let times = self.checked(Expression::read(&text.text, &self.schema), &text)?;
            let fits = match (is.of(), times.of()) {
                (Type::Number(is), Type::Number(times)) => times.times(unit.dimension) == Some(is),
                _ => false,
            };
            if !fits {
                self.file.wrong(misfit(
                    &text,
                    &unit_name,
                    [Type::Number(unit.dimension), times.of(), is.of()],
                ));
            }
            let [min, start, max] = numbers.map(|number| number * unit.factor);
            let (factor, bounds) = (unit.factor, min..max);
            terms.push(Term { name, unit: unit_name, times, field, start, bounds, factor });
        }
        Some(Fit { name: name?.text, is, when, apart, terms })
    }

    fn measure(&mut self, table: Table<'_, '_>) -> Option<Measure> {
        let name = table.required("name");
        let is = self.expression(&table, "is").map(|(expression, _)| expression);
        self.fits(&table, is.as_ref());
        table.finish();
        let (name, of) = (name?, is.as_ref().map_or(Type::Number(Unit::PLAIN.dimension), Expression::of));
        if let Err(why) = self.schema.declare(Field { name: name.text.clone(), of, factor: 1.0 }) {
            self.wrong(name.span, why.to_string());
        }
        Some(Measure { name: name.text, is: is? })
    }

    fn condition(&mut self, table: Table<'_, '_>) -> Option<Condition> {
        let (name, says) = (table.required("name"), table.required("says"));
        let when = table.required("when");
        let when = when.and_then(|text| self.checked(Expression::condition(&text.text, &self.schema), &text));
        table.finish();
        let name = name?.text;
        let read = when.zip(says);
        if read.is_none() {
            self.broken.push(("condition", name.clone()));
        }
        read.map(|(when, says)| Condition { name, when, says: says.text })
    }

    fn model(&mut self, table: Table<'_, '_>) -> Option<Model> {
        let name = table.required("name");
        let is = self.expression(&table, "is").map(|(expression, _)| expression);
        self.fits(&table, is.as_ref());
        table.finish();
        let name = name?.text;
        if is.is_none() {
            self.broken.push(("model", name.clone()));
        }
        is.map(|is| Model { name, is })
    }

    fn point(&mut self, table: Table<'_, '_>) -> Option<Point> {
        let setting = table.required("setting");
        let unit = table.text("unit").map_or(String::new(), |unit| unit.text);
        let lever = setting.as_ref().and_then(|setting| self.lever(&table, setting, &unit));
        let (min, max) = (table.number("min").unwrap_or(f64::MIN), table.number("max").unwrap_or(f64::MAX));
        if min > max {
            self.wrong(table.span(), format!("no value lies between {min} and {max}"));
        }
        table.finish();
        Some(Point { setting: setting?.text, min: min.min(max), max, lever })
    }

    fn action(&self, table: Table<'_, '_>, known: &Known<'_>) -> Option<Action> {
        let on = table.required("on");
        let on = on
            .and_then(|on| self.named("condition", &on, known.conditions.iter().map(|of| of.name.as_str())));
        let change = self.change(&table, known);
        let unless = table.text("unless");
        let unless =
            unless.and_then(|text| self.checked(Expression::condition(&text.text, &self.schema), &text));
        let gain = table.text("gain");
        let gain =
            gain.and_then(|gain| self.named("model", &gain, known.models.iter().map(|of| of.name.as_str())));
        let conditions = || known.conditions.iter().map(|of| of.name.as_str());
        let forbidden = table.texts("forbidden_by").into_iter();
        let forbidden = forbidden.filter_map(|name| self.named("condition", &name, conditions())).collect();
        let is_trusted = match table.text("keep") {
            None => false,
            Some(text) if text.text == "surely better" => false,
            Some(text) if text.text == "unless worse" => true,
            Some(text) => {
                self.wrong(text.span, "`keep` is `surely better` or `unless worse`".to_owned());
                false
            }
        };
        let follows = table.truth("follows");
        let gatekeeper = table.text("gatekeeper");
        table.finish();
        Some(Action { on: on?, change: change?, unless, gain, forbidden, is_trusted, follows, gatekeeper })
    }

    fn change(&self, table: &Table<'_, '_>, known: &Known<'_>) -> Option<Change> {
        let words = |key| table.texts(key).into_iter().map(|text| text.text).collect::<Vec<_>>();
        let (command, inverse) = (words("command"), words("inverse"));
        let set = table.text("set");
        match (set, command.is_empty()) {
            (Some(set), true) => {
                let point = self.named("point", &set, known.points.iter().map(|of| of.setting.as_str()));
                let to = self.expression(table, "to").map(|(expression, _)| expression);
                Some(Change::Setting { point: point?, to: to? })
            }
            (None, false) if !inverse.is_empty() => Some(Change::Command { words: command, inverse }),
            (None, false) => {
                self.wrong(
                    table.span(),
                    "an action by `command` needs `inverse`, the command that undoes it".to_owned(),
                );
                None
            }
            _ => {
                let message = "an action has either `set`, a point's setting, with `to`, or `command`";
                self.wrong(table.span(), message.to_owned());
                None
            }
        }
    }

    /// The index of a name among `names`; an unknown name is reported.
    fn named<'n>(&self, what: &str, name: &Text, names: impl Iterator<Item = &'n str>) -> Option<usize> {
        let names: Vec<&str> = names.collect();
        let found = names.iter().position(|known| *known == name.text);
        let is_broken = || self.broken.iter().any(|(kind, broken)| *kind == what && *broken == name.text);
        if found.is_none() && !is_broken() {
            let problem = Problem::new(name.span.clone(), format!("there is no {what} `{}`", name.text));
            self.file.wrong(match nearest(&name.text, names.iter().copied()) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help(format!("begin one by `[[{what}]]`")),
            });
        }
        found
    }
}

/// A declared coefficient.
struct Coefficient {
    /// The quantity that it is multiplied by.
    times: Text,
    name: String,
    unit_name: String,
    unit: Unit,
    field: usize,
    /// The least value, the start value and the greatest value in that unit.
    numbers: [f64; 3],
}

/// The message for a term of a fit with a wrong unit: the coefficient times the term's quantity must have the
/// dimension of the fit's quantity. The three types are those of coefficient, term and fit.
fn misfit(text: &Text, unit: &str, [coefficient, times, is]: [Type; 3]) -> Problem {
    let message = format!(
        "the coefficient ({coefficient}) times this ({times}) is not of the kind of the fit's `is` ({is})"
    );
    let help = match unit {
        "" => "give the term's `unit`".to_owned(),
        unit => format!(
            "the term's `unit` is `{unit}`; a quantity that a probe keeps has a unit only if one is written, as in \
             `argument 2 in B`"
        ),
    };
    Problem::new(text.span.clone(), message).help(help)
}

/// The word that an argument names.
fn word_of(given: &Given) -> Option<&String> {
    match given {
        Given::Address(word) | Given::Word(word) => Some(word),
        _ => None,
    }
}

/// The names of settings and commands that an action may use.
struct Known<'k> {
    conditions: &'k [Condition],
    models: &'k [Model],
    points: &'k [Point],
}
