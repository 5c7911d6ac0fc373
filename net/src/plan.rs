//! Plans: how a component rearranges the slots of a record, computed once per shape.
//!
//! A box `(a) -> (b)` that receives a record `{a, p, q}` reads slot *a* and turns the record into `{b, p,
//! q}`: *p* and *q* are inherited. Which slots move depends on the shape alone, so a component computes a
//! plan for each shape once, keeps the plans in a [`PlanCache`], and only follows the plan for each record.
//! The last record that a box emits reuses the memory of its input.
//!
//! ```
//! use thalweg_net::{Value, label::Label, plan::{OutPlan, TakePlan}, record::Record};
//! let [a, b, p] = ["a", "b", "p"].map(Label::field);
//! let mut input = Record::from_pairs([(a, Value::Int(1)), (p, Value::Int(7))]);
//! let take = TakePlan::new(input.shape(), &[a]).unwrap();
//! let argument = input.take(take.arguments()[0]);
//! let out = OutPlan::new(input.shape(), &[a], &[b]);
//! let output = out.build_last(input, |_| argument.clone());
//! assert_eq!(output, Record::from_pairs([(b, Value::Int(1)), (p, Value::Int(7))]));
//! ```

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use thalweg_box::Value;

use crate::label::Label;
use crate::numbers::NumberMap;
use crate::record::{Record, move_slot, put};
use crate::shape::{self, ShapeId};

/// Why a component could not process a record. Cheap to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordFault {
    /// The record does not have this label.
    MissingLabel(Label),
    /// A tag has a value that is no integer.
    NotInteger(Label),
    /// The result of an operation does not fit into 64 bits.
    Overflow(&'static str),
    /// A division, or a remainder, by zero.
    DivisionByZero,
    /// A reason that none of the other variants describes, in words.
    Other(Box<str>),
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordFault::MissingLabel(label) => write!(f, "the record has no {}", described(*label)),
            RecordFault::NotInteger(label) => {
                write!(f, "the value of the {} is not an integer", described(*label))
            }
            RecordFault::Overflow(operation) => {
                write!(f, "the result of `{operation}` does not fit into 64 bits")
            }
            RecordFault::DivisionByZero => f.write_str("division by zero"),
            RecordFault::Other(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for RecordFault {}

fn described(label: Label) -> String {
    let kind = match label.kind() {
        crate::label::LabelKind::Field => "field",
        crate::label::LabelKind::Tag => "tag",
        crate::label::LabelKind::BindingTag => "binding tag",
    };
    format!("{kind} {label}")
}

/// The plans that a component has made, by shape. The plan for the shape of the previous record is found
/// without a search.
#[derive(Clone, Debug)]
pub struct PlanCache<P> {
    latest: (ShapeId, usize),
    /// The plan that was made first. Most replicas need no other one, so they allocate no memory for plans.
    first: Option<(ShapeId, P)>,
    others: Option<Box<Others<P>>>,
}

/// The plans of a component with plans for several shapes, without the first of them.
#[derive(Clone, Debug)]
struct Others<P> {
    /// The plan with index 1 is the first of these.
    plans: Vec<(ShapeId, P)>,
    /// The index of the plan of each shape, used when there are more than [`SCANNED_MAX`] of these plans.
    index: NumberMap<ShapeId, usize>,
}

/// If a cache has more plans than this, a plan is found by the index and not by a search through all plans.
const SCANNED_MAX: usize = 8;

impl<P> Default for PlanCache<P> {
    fn default() -> PlanCache<P> {
        PlanCache::new()
    }
}

impl<P> PlanCache<P> {
    /// An empty cache. The cache allocates no memory until it is used.
    pub fn new() -> PlanCache<P> {
        PlanCache { latest: (ShapeId::UNSET, 0), first: None, others: None }
    }

    /// The plan for a shape; computed if no record had this shape before.
    #[inline]
    pub fn get(&mut self, shape: ShapeId, compute: impl FnOnce() -> P) -> &P {
        if self.latest.0 != shape {
            self.look_up(shape, compute);
        }
        match (self.latest.1, &self.first, &self.others) {
            (1.., _, Some(others)) => &others.plans[self.latest.1 - 1].1,
            (_, Some((_, plan)), _) => plan,
            _ => unreachable!("a plan was just found or made"),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, shape: ShapeId, compute: impl FnOnce() -> P) {
        let at = match &self.first {
            None => {
                self.first = Some((shape, compute()));
                0
            }
            Some((known, _)) if *known == shape => 0,
            Some(_) => {
                let none = || Box::new(Others { plans: Vec::new(), index: NumberMap::default() });
                self.others.get_or_insert_with(none).look_up(shape, compute)
            }
        };
        self.latest = (shape, at);
    }
}

impl<P> Others<P> {
    fn look_up(&mut self, shape: ShapeId, compute: impl FnOnce() -> P) -> usize {
        let found = match self.plans.len() {
            0..=SCANNED_MAX => self.plans.iter().position(|(known, _)| *known == shape).map(|at| at + 1),
            _ => self.index.get(&shape).copied(),
        };
        found.unwrap_or_else(|| {
            self.plans.push((shape, compute()));
            if self.plans.len() > SCANNED_MAX {
                let from = self.index.len();
                self.index.extend(self.plans.iter().enumerate().skip(from).map(|(i, e)| (e.0, i + 1)));
            }
            self.plans.len()
        })
    }
}

/// The plans that all replicas of a component share: a replica that is made for a single record reuses the
/// plans of earlier replicas. Each replica also has a [`PlanCache`].
#[derive(Debug)]
pub(crate) struct CommonPlans<P> {
    /// The plan that was made first, which needs no lock: most components see records of one shape.
    first: OnceLock<(ShapeId, P)>,
    all: Mutex<NumberMap<ShapeId, P>>,
}

impl<P: Clone> CommonPlans<P> {
    pub(crate) fn new() -> CommonPlans<P> {
        CommonPlans { first: OnceLock::new(), all: Mutex::default() }
    }

    /// The plan for a shape; computed if no replica has met this shape before.
    #[inline]
    pub(crate) fn get(&self, shape: ShapeId, compute: impl FnOnce() -> P) -> P {
        match self.first.get() {
            Some((known, plan)) if *known == shape => plan.clone(),
            _ => self.look_up(shape, compute),
        }
    }

    #[cold]
    fn look_up(&self, shape: ShapeId, compute: impl FnOnce() -> P) -> P {
        // A panic while the lock is held can only prevent a plan from being added, so the plans behind a
        // poisoned lock are valid.
        let mut plans = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = plans.entry(shape).or_insert_with(compute).clone();
        if self.first.get().is_none() {
            // Only a thread that has the lock sets the first plan.
            _ = self.first.set((shape, plan.clone()));
        }
        plan
    }
}

/// The slots of a box's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakePlan {
    slots: Box<[usize]>,
}

impl TakePlan {
    /// The plan for records of a shape, given the labels of a box's arguments in their order.
    ///
    /// # Errors
    /// [`RecordFault::MissingLabel`] with the first label that the shape does not have.
    pub fn new(shape: ShapeId, labels: &[Label]) -> Result<TakePlan, RecordFault> {
        let slot = |&label| shape.slot(label).ok_or(RecordFault::MissingLabel(label));
        Ok(TakePlan { slots: labels.iter().map(slot).collect::<Result<_, _>>()? })
    }

    /// The slot of each argument.
    #[inline]
    pub fn arguments(&self) -> &[usize] {
        &self.slots
    }
}

/// How the outputs of one variant are made from the values that the box gives and the values that are
/// inherited.
#[derive(Clone, Debug)]
pub struct OutPlan {
    rearrangement: Rearrangement,
}

impl OutPlan {
    /// The plan for inputs of a shape, given the consumed labels, and the labels of the output in the order
    /// in which the output's values are given. Labels that are neither consumed nor in the output are
    /// inherited, except binding tags. If a label is twice in the output, the later value counts.
    ///
    /// # Panics
    /// If the outputs have more than [`shape::LABELS_MAX`] labels.
    pub fn new(input: ShapeId, consumed: &[Label], output: &[Label]) -> OutPlan {
        let given = output.iter().enumerate().map(|(i, &label)| (label, Source::Given(i)));
        OutPlan { rearrangement: Rearrangement::new(input, consumed, given) }
    }

    /// The shape of the outputs.
    pub fn shape(&self) -> ShapeId {
        self.rearrangement.output
    }

    /// Builds an output: `value(i)` gives the value of the `i`-th label (each at most once, in any order);
    /// inherited values are shared with the input, which has the shape of the plan.
    pub fn build(&self, input: &Record, value: impl FnMut(usize) -> Value) -> Record {
        self.rearrangement.copy(input, value)
    }

    /// Builds an output as [`build`](Self::build) does, from the slots of a record of the plan's input shape.
    pub(crate) fn build_from(&self, input: &[Value], value: impl FnMut(usize) -> Value) -> Record {
        self.rearrangement.copy_slots(input, value)
    }

    /// The rearrangement that turns an input into the output if the given values are, in order, in the
    /// input's slots from `first` on.
    pub(crate) fn written_at(&self, first: usize) -> Rearrangement {
        self.rearrangement.with_given_at(first)
    }

    /// Builds an output as [`build`](Self::build) does, if the input is not used again: inherited values are
    /// moved instead of shared, usually within the memory of the input.
    #[inline]
    pub fn build_last(&self, input: Record, value: impl FnMut(usize) -> Value) -> Record {
        self.rearrangement.reuse(input, value)
    }
}

/// The source of the value of an output's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The value in this slot of the input.
    Input(usize),
    /// The `n`-th value given for this output.
    Given(usize),
    /// The integer 0.
    Zero,
}

/// A step of a rearrangement in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Moves a value from a slot to another one. The fields are the source and the target slot; the former
    /// value of the target is not needed any more.
    Move(u16, u16),
    Swap(u16, u16),
}

/// The steps that move values from slots to other slots (from, to). Each slot is a source at most once, and a
/// target at most once. A step reads no slot that an earlier step has emptied or dropped.
fn steps(mut moves: Vec<(usize, usize)>) -> Box<[Step]> {
    let mut steps = Vec::with_capacity(moves.len());
    moves.retain(|(from, to)| from != to);
    while let Some(&(first, _)) = moves.last() {
        match moves.iter().position(|(_, to)| moves.iter().all(|(from, _)| from != to)) {
            Some(free) => {
                let (from, to) = moves.swap_remove(free);
                steps.push(Step::Move(from as u16, to as u16));
            }
            // All remaining moves are in cycles: a swap moves one value to its target and makes the cycle one
            // move shorter.
            None => {
                let (_, to) = moves.pop().expect("not empty");
                steps.push(Step::Swap(first as u16, to as u16));
                moves.iter_mut().filter(|(from, _)| *from == to).for_each(|(from, _)| *from = first);
                moves.retain(|(from, to)| from != to);
            }
        }
    }
    steps.into()
}

/// How a record of one shape becomes a record of another shape.
#[derive(Clone, Debug)]
pub(crate) struct Rearrangement {
    input: ShapeId,
    output: ShapeId,
    input_length: usize,
    output_length: usize,
    /// The source of each output slot.
    sources: Box<[Source]>,
    /// The first step in place: each input value moves to the first output slot that needs it.
    steps: Box<[Step]>,
    /// The second step in place: output slots that copy another output slot (from, to).
    copies: Box<[(u16, u16)]>,
    copies_or_zeros: bool,
    /// The third step in place: output slots that receive a given value (index of the value, to).
    given: Box<[(u16, u16)]>,
    /// The last step in place: output slots that are set to 0.
    zeros: Box<[u16]>,
}

impl Rearrangement {
    /// A rearrangement, given the output labels that are not inherited, each with its source; if a label
    /// occurs twice, the later entry counts.
    pub(crate) fn new(
        input: ShapeId,
        consumed: &[Label],
        explicit: impl IntoIterator<Item = (Label, Source)>,
    ) -> Rearrangement {
        let mut by_label: HashMap<Label, Source> = HashMap::new();
        for (slot, &label) in input.labels().iter().enumerate() {
            if !label.is_binding() && !consumed.contains(&label) {
                by_label.insert(label, Source::Input(slot));
            }
        }
        by_label.extend(explicit);
        let output = shape::of(&by_label.keys().copied().collect::<Vec<_>>());
        let sources: Box<[Source]> = output.labels().iter().map(|label| by_label[label]).collect();
        Rearrangement::in_place(input, output, sources)
    }

    fn in_place(input: ShapeId, output: ShapeId, sources: Box<[Source]>) -> Rearrangement {
        let (input_length, output_length) = (input.labels().len(), output.labels().len());
        let (mut moves, mut copies, mut given, mut zeros) = (vec![], vec![], vec![], vec![]);
        let mut home: HashMap<usize, usize> = HashMap::new();
        for (to, source) in sources.iter().enumerate() {
            match *source {
                Source::Given(n) => given.push((n as u16, to as u16)),
                Source::Zero => zeros.push(to as u16),
                Source::Input(slot) => match home.get(&slot) {
                    Some(&from) => copies.push((from as u16, to as u16)),
                    None => {
                        home.insert(slot, to);
                        moves.push((slot, to));
                    }
                },
            }
        }
        let copies_or_zeros = !copies.is_empty() || !zeros.is_empty();
        Rearrangement {
            input,
            output,
            input_length,
            output_length,
            sources,
            steps: steps(moves),
            copies: copies.into(),
            copies_or_zeros,
            given: given.into(),
            zeros: zeros.into(),
        }
    }

    /// The given values to write (index of the value, to), if writing them and changing the shape turns an
    /// input into the output.
    pub(crate) fn written(&self) -> Option<&[(u16, u16)]> {
        let same_length = self.input_length == self.output_length;
        (same_length && self.steps.is_empty() && !self.copies_or_zeros).then_some(&*self.given)
    }

    /// The shape of the output, and its number of labels.
    pub(crate) fn output(&self) -> (ShapeId, usize) {
        (self.output, self.output_length)
    }

    /// Makes the output as a new record; the input keeps its values.
    pub(crate) fn copy(&self, input: &Record, value: impl FnMut(usize) -> Value) -> Record {
        assert_eq!(input.shape(), self.input, "a plan is for one shape");
        self.copy_slots(input.slots(), value)
    }

    fn copy_slots(&self, slots: &[Value], mut value: impl FnMut(usize) -> Value) -> Record {
        Record::build(self.output, self.output_length, |to| match self.sources[to] {
            Source::Input(slot) => slots[slot].clone(),
            Source::Given(n) => value(n),
            Source::Zero => Value::Int(0),
        })
    }

    /// Rearranges the input itself and returns it.
    #[inline]
    pub(crate) fn reuse(&self, mut record: Record, value: impl FnMut(usize) -> Value) -> Record {
        self.apply(&mut record, value);
        record
    }

    /// Turns an input into the output.
    #[inline]
    pub(crate) fn apply(&self, record: &mut Record, value: impl FnMut(usize) -> Value) {
        assert!(record.shape() == self.input, "a plan is for one shape");
        if self.input_length < self.output_length {
            record.resize(self.output, self.output_length);
        }
        let slots = record.slots_mut();
        for &step in &self.steps {
            match step {
                Step::Move(from, to) => move_slot(slots, from as usize, to as usize),
                Step::Swap(a, b) => slots.swap(a as usize, b as usize),
            }
        }
        match self.input_length > self.output_length {
            true => record.resize(self.output, self.output_length),
            false => record.relabel(self.output, self.output_length),
        }
        self.fill(record.slots_mut(), value);
    }

    /// The same rearrangement for given values that are in adjacent slots of the input, from slot `first` on.
    pub(crate) fn with_given_at(&self, first: usize) -> Rearrangement {
        let at = |source: &Source| match *source {
            Source::Given(n) => Source::Input(first + n),
            source => source,
        };
        Rearrangement::in_place(self.input, self.output, self.sources.iter().map(at).collect())
    }

    /// Fills the slots of an output that are not moved from the input.
    #[inline]
    fn fill(&self, slots: &mut [Value], mut value: impl FnMut(usize) -> Value) {
        for &(n, to) in &self.given {
            put(&mut slots[to as usize], value(n as usize));
        }
        if self.copies_or_zeros {
            for &(from, to) in &self.copies {
                let value = slots[from as usize].clone();
                put(&mut slots[to as usize], value);
            }
            for &to in &self.zeros {
                put(&mut slots[to as usize], Value::Int(0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_work_out_one_plan_a_shape() {
        let plans = CommonPlans::new();
        let shapes = ["a", "b", "a"].map(|name| shape::of(&[Label::field(name)]));
        let mut computed = 0;
        let mut get = |shape| {
            plans.get(shape, || {
                computed += 1;
                computed
            })
        };
        assert_eq!(shapes.map(&mut get), [1, 2, 1]);
    }
}
