//! Filters: the component that renames, drops, copies and computes.
//!
//! The first alternative whose guard is not 0 determines the output records. All expressions of this
//! alternative are evaluated before anything is emitted, so nothing is emitted for a record that has a fault.
//! The last output record is made in the memory of the input record.

#![forbid(unsafe_code)]

use std::sync::Arc;

use thalweg_box::Value;

use crate::expression::{Bound, Expression};
use crate::label::{Label, labels_of};
use crate::plan::{CommonPlans, PlanCache, Rearrangement, RecordFault, Source};
use crate::record::{Ends, Record, put};
use crate::shape::ShapeId;
use crate::syntax::ast::{self, ItemValue};

/// A compiled filter. A clone shares the program and its plans, and has a cache of plans of its own.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The rule; `None` for the filter `[]`, which changes nothing.
    rule: Option<Arc<Rule>>,
    cache: PlanCache<Result<Arc<Plan>, RecordFault>>,
    /// The values of the expressions of the chosen alternative, output by output.
    computed: Vec<i64>,
}

#[derive(Debug)]
struct Rule {
    pattern: Vec<Label>,
    /// The alternatives; the last one has no guard.
    alternatives: Vec<(Option<Expression>, Vec<Output>)>,
    plans: CommonPlans<Result<Arc<Plan>, RecordFault>>,
}

#[derive(Debug)]
struct Output {
    items: Vec<(Label, Origin)>,
}

#[derive(Debug)]
enum Origin {
    /// The input's value of a label; a tag that the input does not have is 0.
    Copy(Label),
    Compute(Expression),
}

/// A rule for records of one shape.
#[derive(Clone, Debug)]
struct Plan {
    /// The short form, if the filter only writes a number into the record, or only changes its shape.
    direct: Option<Direct>,
    /// The alternatives; an alternative that copies a label which the shape does not have is a fault when it
    /// is chosen.
    alternatives: Box<[(Option<Bound>, Planned)]>,
}

type Planned = Result<Alternative, RecordFault>;

/// The form of most filters: there is one alternative with one output record, which is the input record with
/// at most one number changed.
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
    /// The index of the output's first computed value in [`Filter::computed`].
    computed_from: usize,
    rearrangement: Rearrangement,
}

impl Filter {
    /// Compiles a filter.
    pub fn compile(filter: &ast::Filter) -> Filter {
        let rule = filter.rule.as_ref().map(|rule| Arc::new(Rule::compile(rule)));
        Filter { rule, cache: PlanCache::new(), computed: Vec::new() }
    }

    /// Whether this is the filter `[]`, which changes nothing.
    pub fn is_identity(&self) -> bool {
        self.rule.is_none()
    }

    /// Whether every record gives exactly one record.
    pub fn is_one_to_one(&self) -> bool {
        self.rule.as_ref().is_none_or(|rule| rule.alternatives.iter().all(|(_, outputs)| outputs.len() == 1))
    }

    /// Applies the filter to records in place, up to the first record that does not give exactly one record,
    /// that has a fault, or that is a mark and not a record. Returns the number of processed records; the
    /// others are unchanged.
    #[inline]
    pub(crate) fn pass(&mut self, records: &mut [Record]) -> usize {
        let Some(rule) = &self.rule else {
            return records.iter().take_while(|record| !record.shape().is_reserved()).count();
        };
        let mut passed = 0;
        while let Some(first) = records.get(passed) {
            let shape = first.shape();
            if shape.is_reserved() {
                break;
            }
            let Ok(plan) = self.cache.get(shape, || rule.plan(shape)) else { break };
            let alike = plan.pass(&mut self.computed, shape, &mut records[passed..]);
            if alike == 0 {
                break;
            }
            passed += alike;
        }
        passed
    }

    /// Applies the filter to a record and emits its output records, in order.
    ///
    /// # Errors
    /// The unchanged record and the fault; in this case nothing was emitted.
    #[inline]
    pub fn apply(
        &mut self,
        record: Record,
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
        plan.apply(&mut self.computed, record, emit)
    }
}

/// Alters records of one shape, up to the first record that has another shape or cannot be altered; returns
/// the number of altered records.
#[inline(always)]
fn altered(records: &mut [Record], shape: ShapeId, mut alter: impl FnMut(&mut Record) -> bool) -> usize {
    let not_altered = |record: &mut Record| record.shape() != shape || !alter(record);
    let count = records.len();
    records.iter_mut().position(not_altered).unwrap_or(count)
}

impl Direct {
    /// Changes the record; returns false if the expression has a fault.
    #[inline(always)]
    fn alter(&self, record: &mut Record) -> bool {
        if let Some((expression, slot)) = &self.number {
            let Ok(value) = expression.value(record.slots()) else { return false };
            put(&mut record.slots_mut()[*slot], Value::Int(value));
        }
        record.relabel(self.shape, self.length);
        true
    }
}

impl Plan {
    /// Applies the filter as [`Filter::pass`] does, up to the first record of another shape.
    #[inline]
    fn pass(&self, computed: &mut Vec<i64>, shape: ShapeId, records: &mut [Record]) -> usize {
        match &self.direct {
            Some(direct) => altered(records, shape, |record| direct.alter(record)),
            None => altered(records, shape, |record| self.alter(computed, record)),
        }
    }

    /// Turns a record of the plan's shape into its one output record; returns false if the record gives none
    /// or several records, or has a fault.
    fn alter(&self, computed: &mut Vec<i64>, record: &mut Record) -> bool {
        let Ok(alternative) = self.choose(record.slots()) else { return false };
        let [output] = &*alternative.outputs else { return false };
        if alternative.compute(record.slots(), computed).is_err() {
            return false;
        }
        output.rearrangement.apply(record, |n| Value::Int(computed[n]));
        true
    }

    /// The alternative that applies to a record with these slots.
    #[inline]
    fn choose(&self, slots: &[Value]) -> Result<&Alternative, RecordFault> {
        for (guard, alternative) in &self.alternatives {
            match guard.as_ref().map_or(Ok(1), |guard| guard.evaluate(slots)) {
                Ok(0) => {}
                Ok(_) => return alternative.as_ref().map_err(RecordFault::clone),
                Err(fault) => return Err(fault),
            }
        }
        unreachable!("the last alternative has no guard")
    }

    /// Applies the filter as [`Filter::apply`] does, to a record of the plan's shape.
    #[inline(never)]
    fn apply(
        &self,
        computed: &mut Vec<i64>,
        record: Record,
        emit: &mut impl FnMut(Record),
    ) -> Result<(), (Record, RecordFault)> {
        let chosen = self.choose(record.slots());
        let computed_all =
            chosen.and_then(|chosen| chosen.compute(record.slots(), computed).map(|()| chosen));
        match computed_all {
            Ok(alternative) => {
                alternative.emit(record, computed, emit);
                Ok(())
            }
            Err(fault) => Err((record, fault)),
        }
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
        Rule { pattern: labels_of(&rule.pattern.labels), alternatives, plans: CommonPlans::new() }
    }

    fn plan(&self, shape: ShapeId) -> Result<Arc<Plan>, RecordFault> {
        self.plans.get(shape, || self.work_out(shape).map(Arc::new))
    }

    fn work_out(&self, shape: ShapeId) -> Result<Plan, RecordFault> {
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

    /// Evaluates the expressions of all outputs.
    #[inline]
    fn compute(&self, slots: &[Value], computed: &mut Vec<i64>) -> Result<(), RecordFault> {
        computed.clear();
        for expression in &self.computed {
            computed.push(expression.evaluate(slots)?);
        }
        Ok(())
    }

    #[inline]
    fn emit(&self, record: Record, computed: &[i64], emit: &mut impl FnMut(Record)) {
        let Some((last, before)) = self.outputs.split_last() else {
            // If the removed record was the last of a group, a mark is emitted in its place, because the
            // group still has to end.
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
