//! Views in TOML.

use super::stage::{leaf_names, stage};
use super::tree::{Leaf, Pull, Step, Tree, View};
use crate::operators::{Every, Names};
use std::ops::Range;
use thalweg_pack::{Problem, TomlFile, TomlTable, TomlText, Unit, nearest};

/// The version of the format.
const FORMAT: f64 = 1.0;
/// The keys that name a step's operator.
const STEPS: [&str; 6] = ["filter", "convert", "reduce", "top", "limit", "sort"];

impl View {
    /// Reads a view in TOML.
    ///
    /// # Errors
    /// All mistakes, in the order of the text.
    pub fn read(text: &str) -> Result<View, Vec<Problem>> {
        let (file, table) = TomlFile::parse(text);
        let reader = Reader { file: &file };
        let view = reader.view(TomlTable::new(&file, table.get_ref(), 0..0, "a view"));
        match view {
            Some(view) if file.is_right() => Ok(view),
            _ => Err(file.problems()),
        }
    }
}

struct Reader<'f, 't> {
    file: &'f TomlFile<'t>,
}

impl Reader<'_, '_> {
    fn wrong(&self, span: Range<usize>, message: impl Into<String>) {
        self.file.wrong(Problem::new(span, message));
    }

    fn view(&self, table: TomlTable<'_, '_>) -> Option<View> {
        match table.number("format") {
            Some(FORMAT) => {}
            Some(other) => self.wrong(0..0, format!("this is format {other}; format 1 is known")),
            None => self.wrong(0..0, "a view begins with `format = 1`"),
        }
        let (name, about) = (table.required("name"), table.required("about"));
        let pull = match table.text("pull") {
            None => Pull::Since,
            Some(text) => {
                self.one_of(&text, "a pull", &[("since", Pull::Since), ("latest", Pull::Latest)])?
            }
        };
        let leaves = table.tables("leaf", "a leaf");
        if leaves.is_empty() {
            self.wrong(0..0, "a view needs at least one `[[leaf]]`: what it reads");
        }
        let mut trees = Vec::new();
        let mut names = Names { has_context: true, ..Names::default() };
        for leaf in leaves {
            if let Some((leaf, read)) = self.leaf(leaf) {
                names.is_open |= read.is_open;
                names.kinds.extend(read.kinds);
                trees.push(Tree::Leaf(leaf));
            }
        }
        let mut tree = if trees.len() == 1 { trees.remove(0) } else { Tree::Gather(trees) };
        let mut hold_ns = 0;
        for step in table.tables("step", "a step") {
            let Some(read) = self.step(&step, &mut hold_ns) else {
                // Steps after an invalid one are not checked, because the names of their tuples are unknown.
                table.finish();
                return None;
            };
            if let Some((read, spots)) = read {
                match stage(&read, names.clone()) {
                    Ok((_, next)) => names = next,
                    Err(problems) => {
                        for (n, problem) in problems {
                            self.place(&spots, n, problem);
                        }
                        table.finish();
                        return None;
                    }
                }
                tree = tree.step(read);
            }
            step.finish();
        }
        table.finish();
        Some(View { name: name?.text, about: about?.text, pull, hold_ns, tree })
    }

    fn place(&self, spots: &[TomlText], n: usize, problem: Problem) {
        match spots.get(n) {
            Some(text) => self.file.wrong(text.place(problem)),
            None => self.file.wrong(problem),
        }
    }

    fn one_of<T: Copy>(&self, text: &TomlText, what: &str, choices: &[(&str, T)]) -> Option<T> {
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text.text) {
            return Some(*value);
        }
        let names = || choices.iter().map(|(name, _)| *name);
        let problem = Problem::new(text.span.clone(), format!("{what} is not `{}`", text.text));
        self.file.wrong(match nearest(&text.text, names()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("there are {}", names().collect::<Vec<_>>().join(", "))),
        });
        None
    }

    fn leaf(&self, table: TomlTable<'_, '_>) -> Option<(Leaf, Names)> {
        let texts = |key| table.texts(key).into_iter().map(|text| text.text).collect();
        let text = |key| table.text(key).map(|text| text.text);
        let when = table.text("when");
        let leaf = Leaf {
            kinds: texts("kinds"),
            rows: texts("rows"),
            host: text("host"),
            session: text("session"),
            process: text("process"),
            element: text("element"),
            component: text("component"),
            task: table.number("task").map(|number| number as u64),
            when: when.as_ref().map(|when| when.text.clone()),
        };
        table.finish();
        match leaf_names(&leaf) {
            Ok(names) => Some((leaf, names)),
            Err(problems) => {
                problems.into_iter().for_each(|problem| match &when {
                    Some(when) => self.file.wrong(when.place(problem)),
                    None => self.file.wrong(problem),
                });
                None
            }
        }
    }

    /// A step, with the places of its parts in the text. A step that only sets the hold time makes no
    /// operator.
    fn step(&self, table: &TomlTable<'_, '_>, hold_ns: &mut u64) -> Option<Option<(Step, Vec<TomlText>)>> {
        let what = table.required("do")?;
        let known: Vec<(&str, usize)> = STEPS.iter().enumerate().map(|(n, name)| (*name, n)).collect();
        let read = match self.one_of(&what, "a step", &known)? {
            0 => {
                let when = table.required("when")?;
                (Step::Filter(when.text.clone()), vec![when])
            }
            1 => self.convert(table)?,
            2 => self.reduce(table)?,
            3 => {
                let (by, count) = (table.required("by")?, table.number("count").unwrap_or(10.0));
                (Step::Top { by: by.text.clone(), count: count.clamp(0.0, 1e9) as usize }, vec![by])
            }
            4 => {
                let (per_s, bytes_per_s) = (table.number("per_s"), table.number("bytes_per_s"));
                if per_s.is_none() && bytes_per_s.is_none() {
                    self.wrong(table.span(), "a limit needs `per_s` or `bytes_per_s`");
                }
                let limit = |value: Option<f64>| value.map_or(f64::INFINITY, |value| value.max(0.0));
                (Step::Limit { per_s: limit(per_s), bytes_per_s: limit(bytes_per_s) }, Vec::new())
            }
            _ => {
                let hold = table.required("hold")?;
                *hold_ns = (*hold_ns).max(self.duration(&hold)?);
                return Some(None);
            }
        };
        Some(Some(read))
    }

    fn convert(&self, table: &TomlTable<'_, '_>) -> Option<(Step, Vec<TomlText>)> {
        let to = table.required("to")?;
        let units = table.named("units");
        let mut fields = table.named("fields");
        if fields.is_empty() {
            self.wrong(table.span(), "`convert` needs `[step.fields]`: each with a name or an expression");
        }
        fields.sort_by_key(|(name, _)| name.span.start);
        for (name, _) in &units {
            if !fields.iter().any(|(field, _)| field.text == name.text) {
                self.wrong(name.span.clone(), format!("there is no field `{}` to have a unit", name.text));
            }
        }
        let unit = |name: &str| {
            units.iter().find(|(field, _)| field.text == name).map(|(_, unit)| unit.text.clone())
        };
        let made = |(name, is): &(TomlText, TomlText)| {
            (name.text.clone(), is.text.clone(), unit(&name.text).unwrap_or_default())
        };
        let step = Step::Convert { to: to.text, fields: fields.iter().map(made).collect() };
        Some((step, fields.into_iter().map(|(_, is)| is).collect()))
    }

    fn reduce(&self, table: &TomlTable<'_, '_>) -> Option<(Step, Vec<TomlText>)> {
        let by = table.texts("by");
        let every = match table.text("every") {
            None => Every::Pull,
            Some(text) if text.text == "all" => Every::All,
            Some(text) if text.text == "pull" => Every::Pull,
            Some(text) => Every::Window(self.duration(&text)?),
        };
        let mut values = table.named("values");
        values.sort_by_key(|(name, _)| name.span.start);
        let pair = |(name, value): &(TomlText, TomlText)| (name.text.clone(), value.text.clone());
        let step = Step::Reduce {
            by: by.iter().map(|by| by.text.clone()).collect(),
            values: values.iter().map(pair).collect(),
            every,
        };
        Some((step, by.into_iter().chain(values.into_iter().map(|(_, value)| value)).collect()))
    }

    /// A time such as `10 ms`, in nanoseconds.
    fn duration(&self, text: &TomlText) -> Option<u64> {
        let number_end = text.text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.text.len());
        let (number, unit) = text.text.split_at(number_end);
        let time = Unit::named("ns").map(|ns| ns.dimension);
        let unit = Unit::named(unit.trim()).filter(|unit| Some(unit.dimension) == time);
        match (number.parse::<f64>(), unit) {
            (Ok(number), Some(unit)) if number * unit.factor >= 1.0 => Some((number * unit.factor) as u64),
            _ => {
                self.wrong(text.span.clone(), format!("`{}` is no time; write it as in `10 ms`", text.text));
                None
            }
        }
    }
}
