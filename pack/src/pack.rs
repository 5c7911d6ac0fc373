//! The format of packs, and what a pack says of given values.

use std::ops::Range;
use thalweg_glob::Glob;

use crate::expression::{Expression, Values};
use crate::problem::Problem;
use crate::schema::{Field, Schema, Type};
use crate::suggest::nearest;
use crate::table::{File, Table, Text};
use crate::unit::Unit;

/// The version of the format.
const FORMAT: f64 = 1.0;

/// Knowledge about an area, checked.
#[derive(Clone, Debug)]
pub struct Pack {
    /// Its name.
    pub name: String,
    /// What it is about, in one sentence.
    pub about: String,
    /// What it speaks of, such as `network`, `link` or a library's name.
    pub area: String,
    /// What a foreign library is recognised by.
    pub identity: Option<Identity>,
    /// What is measured there.
    pub probes: Vec<Probe>,
    /// What is computed from fields, in the order in which they may use one another.
    pub measures: Vec<Measure>,
    /// What to look for.
    pub conditions: Vec<Condition>,
    /// What predicts the effect of a change.
    pub models: Vec<Model>,
    /// What may be changed.
    pub points: Vec<Point>,
    /// What to do about a condition.
    pub actions: Vec<Action>,
    /// How many fields were given; those that follow are the probes' and the measures.
    given: usize,
}

/// What a foreign library is recognised by.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name of its file.
    pub library: Glob,
    /// Functions that it must have.
    pub symbols: Vec<String>,
}

/// A function of the library at which something is measured.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Its name; its fields are called `NAME.FIELD` in expressions.
    pub name: String,
    /// The function.
    pub function: String,
    /// When.
    pub at: When,
    /// Its fields, with the numbers that [`Values`] has them under.
    pub fields: Vec<(String, usize)>,
}

/// When a probe measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When the function is entered.
    Entry,
    /// When it is left.
    Exit,
    /// At both; one event for the whole call.
    Call,
}

/// A number or truth value that is computed from others.
#[derive(Clone, Debug)]
pub struct Measure {
    /// Its name in other expressions.
    pub name: String,
    /// How it is computed.
    pub is: Expression,
}

/// Something to look for.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Its name.
    pub name: String,
    /// When it holds.
    pub when: Expression,
    /// What that means, in one sentence.
    pub says: String,
}

/// A prediction.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// What it predicts.
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
}

/// What to do about a condition.
#[derive(Clone, Debug)]
pub struct Action {
    /// The condition: its place among [`Pack::conditions`].
    pub on: usize,
    /// What is changed.
    pub change: Change,
    /// Where this holds it is not done.
    pub unless: Option<Expression>,
    /// The model that predicts what it gains: its place among [`Pack::models`].
    pub gain: Option<usize>,
}

/// What an action changes.
#[derive(Clone, Debug)]
pub enum Change {
    /// A setting gets another value; the former value undoes it.
    Setting {
        /// Its place among [`Pack::points`].
        point: usize,
        /// The value, before it is brought between the point's limits.
        to: Expression,
    },
    /// A command is sent.
    Command {
        /// Its words.
        words: Vec<String>,
        /// The command that undoes it.
        inverse: Vec<String>,
    },
}

impl Pack {
    /// Reads a pack whose expressions may use these fields.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the text.
    pub fn read(text: &str, fields: &Schema) -> Result<Pack, Vec<Problem>> {
        let (file, table) = File::parse(text);
        let reader = Reader { file: &file, schema: fields.clone(), given: fields.fields.len() };
        let pack = reader.pack(Table::new(&file, table.get_ref(), 0..0, "a pack"));
        match pack {
            Some(pack) if file.is_right() => Ok(pack),
            _ => Err(file.problems()),
        }
    }

    /// The values with the measures of this pack, each computed once.
    pub fn measured<'v, V: Values>(&self, values: &'v V) -> Measured<'v, V> {
        let probes: usize = self.probes.iter().map(|probe| probe.fields.len()).sum();
        let first = self.given + probes;
        let mut measured = Measured { values, first, measures: Vec::with_capacity(self.measures.len()) };
        for measure in &self.measures {
            let value = measure.is.number(&measured);
            measured.measures.push(value);
        }
        measured
    }

    /// The actions that are to be done with these values, and the value that a setting gets.
    pub fn due<V: Values>(&self, values: &Measured<'_, V>) -> Vec<(&Action, Option<f64>)> {
        let is_due = |action: &&Action| {
            self.conditions[action.on].when.holds(values)
                && !action.unless.as_ref().is_some_and(|unless| unless.holds(values))
        };
        let with_value = |action| Some((action, self.value(action, values)?));
        self.actions.iter().filter(is_due).filter_map(with_value).collect()
    }

    /// What a setting gets; `None`: that cannot be known, so nothing is done.
    fn value<V: Values>(&self, action: &Action, values: &Measured<'_, V>) -> Option<Option<f64>> {
        let Change::Setting { point, to } = &action.change else { return Some(None) };
        let Point { min, max, .. } = self.points[*point];
        let value = to.number(values);
        (!value.is_nan()).then(|| Some(value.clamp(min, max)))
    }
}

/// Values, and the measures of a pack.
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
    given: usize,
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
        let probes: Vec<Probe> =
            table.tables("probe", "a probe").into_iter().filter_map(|table| self.probe(table)).collect();
        let measures: Vec<Measure> = table
            .tables("measure", "a measure")
            .into_iter()
            .filter_map(|table| self.measure(table))
            .collect();
        let conditions: Vec<Condition> = table
            .tables("condition", "a condition")
            .into_iter()
            .filter_map(|table| self.condition(table))
            .collect();
        let models: Vec<Model> =
            table.tables("model", "a model").into_iter().filter_map(|table| self.model(table)).collect();
        let points: Vec<Point> =
            table.tables("point", "a point").into_iter().filter_map(|table| self.point(table)).collect();
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
            probes,
            measures,
            conditions,
            models,
            points,
            actions,
            given: self.given,
        })
    }

    fn wrong(&self, span: Range<usize>, message: String) {
        self.file.wrong(Problem::new(span, message));
    }

    fn unique<'n>(&self, what: &str, names: impl Iterator<Item = &'n String>) {
        let mut seen = Vec::new();
        for name in names {
            if seen.contains(&name) {
                self.wrong(0..0, format!("there are two of the {what} `{name}`"));
            }
            seen.push(name);
        }
    }

    fn identity(&self, table: Table<'_, '_>) -> Option<Identity> {
        let library = table.required("library").map(|text| Glob::new(&text.text));
        let symbols = table.texts("symbols").into_iter().map(|text| text.text).collect();
        table.finish();
        Some(Identity { library: library?, symbols })
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
        table.finish();
        Some(Probe { name: name?.text, function: function?.text, at: at?, fields })
    }

    /// An expression under a key that has to be there.
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

    /// Whether an expression measures what `unit` does, if one is given.
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
            Some(Type::Truth) => self.wrong(unit.span, "what is true or false has no unit".to_owned()),
            _ => {}
        }
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
        Some(Condition { name: name?.text, when: when?, says: says?.text })
    }

    fn model(&mut self, table: Table<'_, '_>) -> Option<Model> {
        let name = table.required("name");
        let is = self.expression(&table, "is").map(|(expression, _)| expression);
        self.fits(&table, is.as_ref());
        table.finish();
        Some(Model { name: name?.text, is: is? })
    }

    fn point(&mut self, table: Table<'_, '_>) -> Option<Point> {
        let setting = table.required("setting");
        let (min, max) = (table.number("min").unwrap_or(f64::MIN), table.number("max").unwrap_or(f64::MAX));
        if min > max {
            self.wrong(table.span(), format!("no value lies between {min} and {max}"));
        }
        table.finish();
        Some(Point { setting: setting?.text, min: min.min(max), max })
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
        table.finish();
        Some(Action { on: on?, change: change?, unless, gain })
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

    /// The place of a name among those there are.
    fn named<'n>(&self, what: &str, name: &Text, names: impl Iterator<Item = &'n str>) -> Option<usize> {
        let names: Vec<&str> = names.collect();
        let found = names.iter().position(|known| *known == name.text);
        if found.is_none() {
            let problem = Problem::new(name.span.clone(), format!("there is no {what} `{}`", name.text));
            self.file.wrong(match nearest(&name.text, names.iter().copied()) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help(format!("begin one by `[[{what}]]`")),
            });
        }
        found
    }
}

/// What an action may speak of.
struct Known<'k> {
    conditions: &'k [Condition],
    models: &'k [Model],
    points: &'k [Point],
}
