//! Compiles the steps of a view to operators for the kinds of tuple that they receive.

use super::tree::{Leaf, Step, aggregations};
use crate::operators::{Convert, Filter, Limit, Made, Names, Operator, Reduce};
use crate::tuple::{Field, Of, TupleKind, known_kinds};
use thalweg_glob::Glob;
use thalweg_pack::Problem;

/// A compiled step.
pub(crate) enum Stage {
    Filter(Filter),
    Convert(Convert),
    Reduce(Box<Reduce>),
    Top { by: String, count: usize, names: Names },
    Limit(Limit),
    Own { operator: Box<dyn Operator>, kinds: Vec<TupleKind> },
}

impl Stage {
    /// A copy of the operator for another part of the elements, if its result for a tuple does not depend on
    /// other tuples.
    pub(crate) fn of_each(&self) -> Option<Stage> {
        match self {
            Stage::Filter(filter) => Some(Stage::Filter(filter.clone())),
            Stage::Convert(convert) => Some(Stage::Convert(convert.clone())),
            _ => None,
        }
    }
}

/// The operator of a step, and the names of its output.
///
/// # Errors
/// All mistakes, each with the number of the step's part: a computed field, a field to group by, or a value
/// (numbered after those).
pub(crate) fn stage(step: &Step, names: Names) -> Result<(Stage, Names), Vec<(usize, Problem)>> {
    Ok(match step {
        Step::Filter(when) => {
            if names.is_known() {
                names.bind(when, None, true).map_err(numbered)?;
            }
            (Stage::Filter(Filter::new(when, names.clone())), names)
        }
        Step::Convert { to, fields } => {
            let made = |(name, is, unit): &(String, String, String)| Made {
                name: name.clone(),
                is: is.clone(),
                unit: unit.clone(),
            };
            let made: Vec<Made> = fields.iter().map(made).collect();
            let convert = Convert::new(to, &made, &names)?;
            let made = made_of(convert.kind(), &names);
            (Stage::Convert(convert), Names { has_context: names.has_context, ..made })
        }
        Step::Reduce { by, values, every } => {
            let values = aggregations(values).map_err(|wrong| {
                wrong.into_iter().map(|(n, problem)| (by.len() + n, problem)).collect::<Vec<_>>()
            })?;
            let reduce = Reduce::new("scope.reduced", by, &values, *every, &names)?;
            let made = made_of(reduce.kind(), &names);
            (Stage::Reduce(Box::new(reduce)), made)
        }
        Step::Top { by, count } => {
            if names.is_known() {
                names.find(by, None).map_err(|problem| vec![(0, problem)])?;
            }
            (Stage::Top { by: by.clone(), count: *count, names: names.clone() }, names)
        }
        Step::Limit { per_s, bytes_per_s } => (Stage::Limit(Limit::new(*per_s, *bytes_per_s)), names),
        Step::Own(make) => {
            let operator = make();
            let made = operator.makes(&names.kinds);
            let is_open = operator.hands_on() && names.is_open;
            // If an operator passes on tuples of unknown kinds, its own kinds are not all kinds of its
            // output.
            let is_known = names.is_known() || !operator.hands_on();
            let handed_on = if operator.hands_on() { names.kinds } else { Vec::new() };
            let kinds = if is_known { made.iter().cloned().chain(handed_on).collect() } else { Vec::new() };
            (Stage::Own { operator, kinds: made }, Names { kinds, is_open, has_context: true })
        }
    })
}

/// The names of a kind made of tuples with `names`. If `names` are not known, the fields may be numbers or
/// texts.
fn made_of(kind: &TupleKind, names: &Names) -> Names {
    let is_open = !names.is_known();
    let kinds = if is_open { Vec::new() } else { vec![kind.clone()] };
    Names { kinds, is_open, has_context: false }
}

fn numbered(problems: Vec<Problem>) -> Vec<(usize, Problem)> {
    problems.into_iter().map(|problem| (0, problem)).collect()
}

/// The names in a leaf's tuples that are known before it is read.
pub(crate) fn leaf_names(leaf: &Leaf) -> Result<Names, Vec<Problem>> {
    let all = leaf.kinds.is_empty() && leaf.rows.is_empty();
    let mut names = Names { is_open: all, has_context: true, ..Names::default() };
    for (patterns, rows) in [(&leaf.kinds, false), (&leaf.rows, true)] {
        for pattern in patterns {
            let glob = Glob::new(pattern);
            let known =
                known_kinds().iter().filter(|(kind, is_row)| *is_row == rows && glob.matches(&kind.name));
            let before = names.kinds.len();
            names.kinds.extend(known.map(|(kind, _)| with_task(kind.clone())));
            names.is_open |= pattern.contains(['*', '?']) || names.kinds.len() == before;
        }
    }
    if all {
        names.kinds = known_kinds()
            .iter()
            .filter(|(_, is_row)| !is_row)
            .map(|(kind, _)| with_task(kind.clone()))
            .collect();
    }
    if let Some(when) = &leaf.when
        && names.is_known()
    {
        names.bind(when, None, true)?;
    }
    Ok(names)
}

/// Whether tuples of this kind are about a task.
pub(crate) fn is_of_task(kind: &TupleKind) -> bool {
    matches!(kind.name.as_str(), "exec.dispatch" | "exec.dispatch_long" | "exec.task")
        || kind.name.starts_with("exec.") && kind.position("task").is_some()
}

/// Adds the fields that name a tuple's task to the kind.
pub(crate) fn with_task(mut kind: TupleKind) -> TupleKind {
    if is_of_task(&kind) {
        let field = |name: &str, of, doc: &str| Field {
            name: name.to_owned(),
            of,
            unit: String::new(),
            doc: doc.to_owned(),
        };
        kind.fields.push(field("task.id", Of::Unsigned, "The task that this is about; 0: not known."));
        kind.fields.push(field("task.component", Of::Text, "The path of its component; empty: not known."));
    }
    kind
}
