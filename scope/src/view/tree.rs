//! Views written in Rust.

use super::stage::{leaf_names, stage};
use crate::operators::{Aggregation, Names, Operator};
use crate::tuple::known_kinds;
use std::fmt;
use std::sync::Arc;
use thalweg_pack::{Problem, nearest};

use crate::operators::Every;

/// A description of which tuples of which elements a consumer receives.
///
/// ```
/// use thalweg_scope::{Leaf, Tree, View};
///
/// let tree = Tree::leaf(Leaf::of_kinds(["exec.dispatch", "exec.dispatch_long"]).component("**/round"))
///     .filter("duration > 50 us")
///     .reduce(["task.component"], [("dispatches", "count"), ("p99", "p99 duration")])
///     .top("p99", 10);
/// let view = View::new("slowest", "Which components' dispatches last longest?", tree)?;
/// # Ok::<(), thalweg_pack::Problem>(())
/// ```
#[derive(Clone, Debug)]
pub struct View {
    /// The view's name.
    pub name: String,
    /// The question that the view answers, in a sentence.
    pub about: String,
    /// How the view is pulled unless the consumer chooses another way.
    pub pull: Pull,
    /// The age in nanoseconds at which tuples are handed over, so that tuples that were committed late still
    /// come in order.
    pub hold_ns: u64,
    /// The tree of leaves and operators.
    pub tree: Tree,
}

/// Which tuples a pull returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pull {
    /// All tuples since the last pull, in order of time.
    #[default]
    Since,
    /// The latest tuple of each element.
    Latest,
}

/// The tree of a view: leaves read elements, inner nodes process their tuples.
#[derive(Clone, Debug)]
pub enum Tree {
    /// Reads elements.
    Leaf(Leaf),
    /// Gathers the tuples of several trees in order of time.
    Gather(Vec<Tree>),
    /// Applies a step to the tuples of a tree.
    Step(Box<Tree>, Step),
}

/// The operation of an inner node.
#[derive(Clone)]
pub enum Step {
    /// Keeps the tuples that fulfil this condition.
    Filter(String),
    /// Makes tuples of one kind.
    Convert {
        /// The kind's name.
        to: String,
        /// Fields: name, expression (the value of a single name is copied), unit.
        fields: Vec<(String, String, String)>,
    },
    /// Reduces groups of tuples to one each.
    Reduce {
        /// The fields that tuples of a group have in common.
        by: Vec<String>,
        /// Fields: name and aggregation, such as `count` or `p99 duration`.
        values: Vec<(String, String)>,
        /// The time that a group covers.
        every: Every,
    },
    /// The tuples with the largest values.
    Top {
        /// The field that is compared.
        by: String,
        /// The number of tuples kept.
        count: usize,
    },
    /// Limits tuples and bytes a second; infinite for no limit.
    Limit {
        /// Tuples per second.
        per_s: f64,
        /// Bytes per second.
        bytes_per_s: f64,
    },
    /// An operator that the user wrote; each scope makes its own.
    Own(Arc<dyn Fn() -> Box<dyn Operator> + Send + Sync>),
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Filter(when) => write!(f, "Filter({when:?})"),
            Step::Convert { to, fields } => write!(f, "Convert({to:?}, {fields:?})"),
            Step::Reduce { by, values, every } => write!(f, "Reduce({by:?}, {values:?}, {every:?})"),
            Step::Top { by, count } => write!(f, "Top({by:?}, {count})"),
            Step::Limit { per_s, bytes_per_s } => write!(f, "Limit({per_s}, {bytes_per_s})"),
            Step::Own(_) => f.write_str("Own"),
        }
    }
}

/// Which elements are read, and which of their tuples are selected. Fields that are not set exclude nothing.
/// In patterns `*` stands for any characters except `/`, `**` for any characters, `?` for one character.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leaf {
    /// Patterns of kinds of event.
    pub kinds: Vec<String>,
    /// Patterns of kinds of live row. Every pull reads the current state of all rows.
    pub rows: Vec<String>,
    /// A pattern of the machine's name.
    pub host: Option<String>,
    /// A pattern of the session's name.
    pub session: Option<String>,
    /// A pattern of the process's name, or its process id.
    pub process: Option<String>,
    /// A pattern of the element's name: a thread's, or that of the path that a collector is on.
    pub element: Option<String>,
    /// A pattern of the component of the task that a tuple is about, or the end of its path.
    pub component: Option<String>,
    /// The number of the task that a tuple is about.
    pub task: Option<u64>,
    /// A condition that tuples must fulfil.
    pub when: Option<String>,
}

impl Leaf {
    /// Selects all events of kinds with these names or patterns.
    pub fn of_kinds<S: Into<String>>(kinds: impl IntoIterator<Item = S>) -> Leaf {
        Leaf { kinds: kinds.into_iter().map(Into::into).collect(), ..Leaf::default() }
    }

    /// Selects the live rows of these kinds.
    pub fn of_rows<S: Into<String>>(rows: impl IntoIterator<Item = S>) -> Leaf {
        Leaf { rows: rows.into_iter().map(Into::into).collect(), ..Leaf::default() }
    }

    /// Selects only processes with this process id or a name that matches this pattern.
    #[must_use]
    pub fn process(self, pattern: &str) -> Leaf {
        Leaf { process: Some(pattern.to_owned()), ..self }
    }

    /// Selects only elements with a name that matches this pattern.
    #[must_use]
    pub fn element(self, pattern: &str) -> Leaf {
        Leaf { element: Some(pattern.to_owned()), ..self }
    }

    /// Selects only tuples about tasks of components that match this pattern.
    #[must_use]
    pub fn component(self, pattern: &str) -> Leaf {
        Leaf { component: Some(pattern.to_owned()), ..self }
    }

    /// Selects only tuples that fulfil this condition.
    #[must_use]
    pub fn when(self, condition: &str) -> Leaf {
        Leaf { when: Some(condition.to_owned()), ..self }
    }
}

impl Tree {
    /// Reads elements.
    pub fn leaf(leaf: Leaf) -> Tree {
        Tree::Leaf(leaf)
    }

    /// Gathers several trees.
    pub fn gather(trees: impl IntoIterator<Item = Tree>) -> Tree {
        Tree::Gather(trees.into_iter().collect())
    }

    /// Applies a step to the tuples.
    #[must_use]
    pub fn step(self, step: Step) -> Tree {
        Tree::Step(Box::new(self), step)
    }

    /// Keeps the tuples that fulfil a condition.
    #[must_use]
    pub fn filter(self, when: &str) -> Tree {
        self.step(Step::Filter(when.to_owned()))
    }

    /// Reduces the tuples of each pull: `by` are fields, `values` names with aggregations.
    #[must_use]
    pub fn reduce<'a>(
        self,
        by: impl IntoIterator<Item = &'a str>,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Tree {
        self.reduce_every(Every::Pull, by, values)
    }

    /// Reduces tuples by windows of this length.
    #[must_use]
    pub fn reduce_every<'a>(
        self,
        every: Every,
        by: impl IntoIterator<Item = &'a str>,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Tree {
        let by = by.into_iter().map(str::to_owned).collect();
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.step(Step::Reduce { by, values, every })
    }

    /// Makes tuples of the kind `to`; each field has a name, an expression and the unit of its value.
    #[must_use]
    pub fn convert<'a>(
        self,
        to: &str,
        fields: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> Tree {
        let owned = |(name, is, unit): (&str, &str, &str)| (name.to_owned(), is.to_owned(), unit.to_owned());
        self.step(Step::Convert { to: to.to_owned(), fields: fields.into_iter().map(owned).collect() })
    }

    /// Keeps the tuples with the largest values of a field.
    #[must_use]
    pub fn top(self, by: &str, count: usize) -> Tree {
        self.step(Step::Top { by: by.to_owned(), count })
    }

    /// Keeps at most this many tuples a second.
    #[must_use]
    pub fn limit(self, per_s: f64) -> Tree {
        self.step(Step::Limit { per_s, bytes_per_s: f64::INFINITY })
    }

    /// Applies an operator that the user wrote.
    #[must_use]
    pub fn own<O: Operator + 'static>(self, make: impl Fn() -> O + Send + Sync + 'static) -> Tree {
        self.step(Step::Own(Arc::new(move || Box::new(make()))))
    }

    pub(crate) fn names(&self) -> Result<Names, Vec<Problem>> {
        match self {
            Tree::Leaf(leaf) => leaf_names(leaf),
            Tree::Gather(trees) => {
                let mut gathered = Names { has_context: true, ..Names::default() };
                for tree in trees {
                    let names = tree.names()?;
                    gathered.is_open |= names.is_open;
                    gathered.has_context &= names.has_context;
                    for kind in names.kinds {
                        if !gathered.kinds.contains(&kind) {
                            gathered.kinds.push(kind);
                        }
                    }
                }
                Ok(gathered)
            }
            Tree::Step(tree, step) => {
                let made = stage(step, tree.names()?);
                made.map(|(_, names)| names)
                    .map_err(|wrong| wrong.into_iter().map(|(_, problem)| problem).collect())
            }
        }
    }
}

impl View {
    /// A view of this tree. A pull returns all tuples since the last pull.
    ///
    /// # Errors
    /// The first mistake in the tree's names, expressions or aggregations. The problem's span is relative to
    /// the text of that name, expression or aggregation.
    pub fn new(name: &str, about: &str, tree: Tree) -> Result<View, Problem> {
        tree.names().map_err(|mut problems| problems.remove(0))?;
        let (name, about) = (name.to_owned(), about.to_owned());
        Ok(View { name, about, pull: Pull::Since, hold_ns: 0, tree })
    }

    /// Probable mistakes in the view, which was read from this text: kinds that no crate of Thalweg records,
    /// with names close to those of known kinds. A program with probes may record any kind.
    pub fn doubts(&self, text: &str) -> Vec<Problem> {
        fn leaves<'t>(tree: &'t Tree, found: &mut Vec<&'t Leaf>) {
            match tree {
                Tree::Leaf(leaf) => found.push(leaf),
                Tree::Gather(trees) => trees.iter().for_each(|tree| leaves(tree, found)),
                Tree::Step(below, _) => leaves(below, found),
            }
        }
        let mut found = Vec::new();
        leaves(&self.tree, &mut found);
        let wanted = found.iter().flat_map(|leaf| {
            let of = |names: &'_ Vec<String>, are_rows| {
                names.iter().map(|name| (name.clone(), are_rows)).collect::<Vec<_>>()
            };
            [of(&leaf.kinds, false), of(&leaf.rows, true)].concat()
        });
        let mut doubts = Vec::new();
        for (name, are_rows) in wanted {
            let known = || {
                known_kinds()
                    .iter()
                    .filter(|(_, is_row)| *is_row == are_rows)
                    .map(|(kind, _)| kind.name.as_str())
            };
            if name.contains(['*', '?']) || known().any(|known| known == name) {
                continue;
            }
            if let Some(near) = nearest(&name, known()) {
                let at = text.find(&format!("\"{name}\"")).map_or(0, |at| at + 1);
                let what =
                    format!("no kind `{name}` is known: only a program with probes of its own may record it");
                doubts.push(Problem::new(at..at + name.len(), what).help(format!("did you mean `{near}`?")));
            }
        }
        doubts
    }

    /// Whether all tuples of the view are made by its steps, and none is an unchanged event or row.
    pub fn is_made(&self) -> bool {
        fn makes(tree: &Tree) -> bool {
            match tree {
                Tree::Leaf(_) => false,
                Tree::Gather(trees) => trees.iter().all(makes),
                Tree::Step(_, Step::Convert { .. } | Step::Reduce { .. }) => true,
                Tree::Step(below, _) => makes(below),
            }
        }
        makes(&self.tree)
    }

    /// Whether the view's tuples stand for windows of time, of which a pull may return several.
    pub fn has_windows(&self) -> bool {
        fn has(tree: &Tree) -> bool {
            match tree {
                Tree::Leaf(_) => false,
                Tree::Gather(trees) => trees.iter().any(has),
                Tree::Step(_, Step::Reduce { every, .. }) => matches!(every, Every::Window(_)),
                Tree::Step(below, _) => has(below),
            }
        }
        has(&self.tree)
    }

    /// Whether some of the view's values are known only from the second pull on, because the growth of
    /// counters needs two readings.
    pub fn needs_two(&self) -> bool {
        fn grows(tree: &Tree) -> bool {
            match tree {
                Tree::Leaf(_) => false,
                Tree::Gather(trees) => trees.iter().any(grows),
                Tree::Step(below, Step::Reduce { values, .. }) => {
                    grows(below) || values.iter().any(|(_, value)| value.trim_start().starts_with("increase"))
                }
                Tree::Step(below, _) => grows(below),
            }
        }
        grows(&self.tree)
    }

    /// The same view, with pulls that return the latest tuple of each element.
    #[must_use]
    pub fn latest(self) -> View {
        View { pull: Pull::Latest, ..self }
    }

    /// The same view, which hands over tuples at this age.
    #[must_use]
    pub fn holding(self, hold: std::time::Duration) -> View {
        View { hold_ns: hold.as_nanos().try_into().unwrap_or(u64::MAX), ..self }
    }
}

/// Aggregations with the names of the fields they make.
type Named = Vec<(String, Aggregation)>;

pub(crate) fn aggregations(values: &[(String, String)]) -> Result<Named, Vec<(usize, Problem)>> {
    let (mut read, mut wrong) = (Vec::new(), Vec::new());
    for (n, (name, value)) in values.iter().enumerate() {
        match Aggregation::read(value) {
            Ok(aggregation) => read.push((name.clone(), aggregation)),
            Err(problem) => wrong.push((n, problem)),
        }
    }
    if wrong.is_empty() { Ok(read) } else { Err(wrong) }
}
