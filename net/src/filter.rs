//! Filters: the component that renames, drops, copies and computes.
//!
//! The first alternative whose guard is not 0 says which records come out. All its expressions are evaluated
//! before anything is emitted, so a record that faults has had no effect. The last output is made in the
//! memory of the input.

#![forbid(unsafe_code)]

use std::sync::Arc;

use thalweg_box::Value;

use crate::expression::{Bound, Expression};
use crate::label::{Label, labels_of};
use crate::plan::{PlanCache, Rearrangement, RecordFault, Source};
use crate::record::{Ends, Record, put};
use crate::shape::ShapeId;
use crate::syntax::ast::{self, ItemValue};

/// A compiled filter. A clone shares the program and has its own cache of plans.
#[derive(Clone, Debug)]
pub struct Filter {
    /// `None` for the identity `[]`.
    rule: Option<Arc<Rule>>,
    cache: PlanCache<Result<Plan, RecordFault>>,
    /// What the expressions of the chosen alternative gave, output by output.
    computed: Vec<i64>,
}

#[derive(Debug)]
struct Rule {
    pattern: Vec<Label>,
    /// The last one has no guard.
    alternatives: Vec<(Option<Expression>, Vec<Output>)>,
}

#[derive(Debug)]
struct Output {
    items: Vec<(Label, Origin)>,
}

#[derive(Debug)]
enum Origin {
    /// The input's value of a label; a tag that the input has not is 0.
    Copy(Label),
    Compute(Expression),
}

/// A rule for records of one shape.
#[derive(Clone, Debug)]
struct Plan {
    /// If the record only gets a number, or nothing but its shape.
    direct: Option<Direct>,
    /// An alternative that copies what the shape has not faults when it is taken.
    alternatives: Box<[(Option<Bound>, Planned)]>,
}

type Planned = Result<Alternative, RecordFault>;

/// What most filters come to: without a choice, one record, which is the input with at most one number written
/// into it.
#[derive(Clone, Debug)]
struct Direct {
    number: Option<(Bound, usize)>,
    shape: ShapeId,
    length: usize,
}

#[derive(Clone, Debug)]
struct Alternative {
    /// The expressions of all outputs, in order.
    computed: Box<[Bound]>,
    outputs: Box<[OutputPlan]>,
}

#[derive(Clone, Debug)]
struct OutputPlan {
    /// Where its values begin among the computed ones.
    computed_from: usize,
    rearrangement: Rearrangement,
}

impl Filter {
    /// Compiles a filter.
    pub fn compile(filter: &ast::Filter) -> Filter {
        let rule = filter.rule.as_ref().map(|rule| Arc::new(Rule::compile(rule)));
        Filter { rule, cache: PlanCache::new(), computed: Vec::new() }
    }

    /// Whether this is `[]`.
    pub fn is_identity(&self) -> bool {
        self.rule.is_none()
    }

    /// Whether every record gives exactly one record.
    pub fn is_one_to_one(&self) -> bool {
        self.rule.as_ref().is_none_or(|rule| rule.alternatives.iter().all(|(_, outputs)| outputs.len() == 1))
    }

    /// Applies the filter to a record and emits what comes out, in order.
    ///
    /// # Errors
    /// The record as it was and the fault; then nothing was emitted.
    #[inline]
    pub fn apply(
        &mut self,
        mut record: Record,
        emit: &mut impl FnMut(Record),
    ) -> Result<(), (Record, RecordFault)> {
        let Some(rule) = &self.rule else {
            emit(record);
            return Ok(());
        };
        let shape = record.shape();
        let plan = match self.cache.get(shape, || rule.plan(shape)) {
            Ok(plan) => plan,
            Err(fault) => return Err((record, fault.clone())),
        };
        let Some(direct) = &plan.direct else {
            return plan.apply(&mut self.computed, record, emit);
        };
        if let Some((expression, slot)) = &direct.number {
            match expression.value(record.slots()) {
                Ok(value) => put(&mut record.slots_mut()[*slot], Value::Int(value)),
                Err(fault) => return Err((record, expression.explain(fault))),
            }
        }
        record.relabel(direct.shape, direct.length);
        emit(record);
        Ok(())
    }
}

impl Plan {
    /// As [`Filter::apply`], for a record of the plan's shape.
    #[inline(never)]
    fn apply(
        &self,
        computed: &mut Vec<i64>,
        record: Record,
        emit: &mut impl FnMut(Record),
    ) -> Result<(), (Record, RecordFault)> {
        for (guard, alternative) in &self.alternatives {
            if let Some(guard) = guard {
                match guard.value(record.slots()) {
                    Ok(0) => continue,
                    Ok(_) => {}
                    Err(fault) => return Err((record, guard.explain(fault))),
                }
            }
            let alternative = match alternative {
                Ok(alternative) => alternative,
                Err(fault) => return Err((record, fault.clone())),
            };
            computed.clear();
            for expression in &alternative.computed {
                match expression.value(record.slots()) {
                    Ok(value) => computed.push(value),
                    Err(fault) => return Err((record, expression.explain(fault))),
                }
            }
            alternative.emit(record, computed, emit);
            return Ok(());
        }
        unreachable!("the last alternative has no guard")
    }
}

impl Rule {
    fn compile(rule: &ast::FilterRule) -> Rule {
        let outputs = |records: &[ast::OutRecord]| records.iter().map(Output::compile).collect();
        let mut alternatives: Vec<(Option<Expression>, Vec<Output>)> = rule
            .action
            .guarded
            .iter()
            .map(|(guard, records)| (Some(Expression::compile(guard)), outputs(records)))
            .collect();
        alternatives.push((None, outputs(&rule.action.otherwise)));
        Rule { pattern: labels_of(&rule.pattern.labels), alternatives }
    }

    fn plan(&self, shape: ShapeId) -> Result<Plan, RecordFault> {
        if let Some(&missing) = self.pattern.iter().find(|&&label| !shape.has(label)) {
            return Err(RecordFault::MissingLabel(missing));
        }
        let plan_one = |(guard, outputs): &(Option<Expression>, Vec<Output>)| {
            let mut computed = Vec::new();
            let plans = outputs.iter().map(|output| output.plan(shape, &self.pattern, &mut computed));
            let outputs: Result<_, _> = plans.collect();
            let guard = guard.as_ref().map(|guard| guard.bind(shape));
            (guard, outputs.map(|outputs| Alternative { computed: computed.into(), outputs }))
        };
        let alternatives: Box<[_]> = self.alternatives.iter().map(plan_one).collect();
        let direct = match &*alternatives {
            [(None, Ok(alternative))] => alternative.direct(),
            _ => None,
        };
        Ok(Plan { direct, alternatives })
    }
}

impl Output {
    fn compile(record: &ast::OutRecord) -> Output {
        let compile = |item: &ast::Item| {
            let label = Label::from(&item.label);
            let origin = match &item.value {
                ItemValue::Copy => Origin::Copy(label),
                ItemValue::Rename(from) => Origin::Copy(Label::field(&from.name)),
                ItemValue::Expr(expression) => Origin::Compute(Expression::compile(expression)),
            };
            (label, origin)
        };
        Output { items: record.items.iter().map(compile).collect() }
    }

    fn plan(
        &self,
        shape: ShapeId,
        pattern: &[Label],
        computed: &mut Vec<Bound>,
    ) -> Result<OutputPlan, RecordFault> {
        let computed_from = computed.len();
        let mut sources = Vec::with_capacity(self.items.len());
        for (label, origin) in &self.items {
            let source = match origin {
                Origin::Compute(expression) => {
                    computed.push(expression.bind(shape));
                    Source::Given(computed.len() - 1 - computed_from)
                }
                Origin::Copy(from) => match shape.slot(*from) {
                    Some(slot) => Source::Input(slot),
                    None if from.is_integer() => Source::Zero,
                    None => return Err(RecordFault::MissingLabel(*from)),
                },
            };
            sources.push((*label, source));
        }
        Ok(OutputPlan { computed_from, rearrangement: Rearrangement::new(shape, pattern, sources) })
    }
}

impl Alternative {
    fn direct(&self) -> Option<Direct> {
        let [output] = &*self.outputs else { return None };
        let number = match (&*self.computed, output.rearrangement.written()?) {
            ([], []) => None,
            ([expression], &[(0, slot)]) => Some((expression.clone(), slot as usize)),
            _ => return None,
        };
        let (shape, length) = output.rearrangement.output();
        Some(Direct { number, shape, length })
    }

    #[inline]
    fn emit(&self, record: Record, computed: &[i64], emit: &mut impl FnMut(Record)) {
        let Some((last, before)) = self.outputs.split_last() else {
            // What ended with the record ends without it.
            if record.ends() != Ends::NOTHING {
                emit(Record::mark(record.ends()));
            }
            return;
        };
        for output in before {
            emit(output.rearrangement.copy(&record, |n| Value::Int(computed[output.computed_from + n])));
        }
        emit(last.rearrangement.reuse(record, |n| Value::Int(computed[last.computed_from + n])));
    }
}
