//! How a box processes the records of one shape, computed once: which slots are its arguments, and how each
//! emitted variant becomes a record with the inherited values.

use std::sync::Arc;

use thalweg_box::{Desk, Emitted, Place, Value};

use super::seat::Seats;
use crate::label::Label;
use crate::plan::{CommonPlans, OutPlan, Rearrangement, RecordFault, TakePlan};
use crate::record::{Record, take_just_written};
use crate::shape::ShapeId;

/// The predecessor of an initialiser, which decides when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// The initialiser is the first component of the network.
    Network,
    /// The initialiser is the first component of a branch of `|`, which gets no records.
    Branch,
    /// A component that emits records precedes the initialiser.
    Component,
}

/// A box: its implementation and its declared labels.
#[derive(Debug)]
pub(crate) struct BoxPart {
    pub(crate) implementation: Arc<Seats>,
    pub(crate) is_blocking: bool,
    /// The box's predecessor, which decides when an initialiser is called.
    pub(crate) before: Before,
    /// The labels that the box consumes, in the order of its arguments; `None` for an initialiser.
    pub(crate) input: Option<Vec<Label>>,
    /// The labels that the box emits, by variant.
    pub(crate) outputs: Arc<[Vec<Label>]>,
    pub(crate) plans: CommonPlans<Result<Arc<BoxPlan>, RecordFault>>,
}

impl BoxPart {
    /// The number of labels of the box's longest output variant.
    pub(crate) fn output_length_max(&self) -> usize {
        self.outputs.iter().map(Vec::len).max().unwrap_or(0)
    }
}

/// The plan of a box for one shape.
#[derive(Debug)]
pub(crate) struct BoxPlan {
    take: TakePlan,
    variants: Box<[VariantPlan]>,
    /// The plan of calls in place, if the box's arguments are in adjacent slots and its only output fits into
    /// these slots.
    in_place: Option<InPlace>,
    outputs: Arc<[Vec<Label>]>,
}

/// How the records of one variant are made.
#[derive(Debug)]
struct VariantPlan {
    out: OutPlan,
    count: usize,
    /// The values that must be integers, because their labels are tags.
    tags: Box<[usize]>,
}

/// The slots of a box's arguments in the record, which its output overwrites.
#[derive(Debug)]
pub(crate) struct InPlace {
    pub(crate) calls: Place,
    finish: Finish,
}

/// The step that turns the record into the output, once the box has written its values.
#[derive(Debug)]
enum Finish {
    /// The record gets a new shape, with this number of labels.
    Relabel(ShapeId, usize),
    Rearrange(Rearrangement),
}

impl InPlace {
    fn new(take: &TakePlan, variants: &[VariantPlan]) -> Option<InPlace> {
        let [variant] = variants else { return None };
        let first = *take.arguments().first()?;
        let side_by_side = take.arguments().iter().enumerate().all(|(k, &slot)| slot == first + k);
        if !side_by_side || variant.count > take.arguments().len() || variant.count > u64::BITS as usize {
            return None;
        }
        // Tags must be integers.
        let integers = variant.tags.iter().fold(0, |bits, &k| bits | 1 << k);
        let calls =
            Place { first_argument: first, first_output: first, output_count: variant.count, integers };
        let rearrangement = variant.out.written_at(first);
        let finish = match rearrangement.written() {
            Some(_) => Finish::Relabel(rearrangement.output().0, rearrangement.output().1),
            None => Finish::Rearrange(rearrangement),
        };
        Some(InPlace { calls, finish })
    }
}

impl InPlace {
    /// Turns records into which the box wrote its output in place into output records.
    #[inline(always)]
    pub(crate) fn finish(&self, records: &mut [Record]) {
        match (&self.finish, &mut *records) {
            (Finish::Relabel(shape, length), [record]) => record.relabel(*shape, *length),
            (Finish::Relabel(shape, length), _) => {
                records.iter_mut().for_each(|record| record.relabel(*shape, *length));
            }
            (Finish::Rearrange(rearrangement), _) => {
                records.iter_mut().for_each(|record| rearrangement.apply(record, |_| Value::default()));
            }
        }
    }

    /// Whether the output that a box wrote into a record has the variant, the number of values and the
    /// integers that the plan requires.
    fn takes(&self, (variant, count): (u32, usize), record: &Record) -> bool {
        let Place { first_output, output_count, integers, .. } = self.calls;
        let is_right = |(k, value)| integers & (1_u64 << k) == 0 || matches!(value, &Value::Int(_));
        (variant, count) == (1, output_count)
            && record.slots()[first_output..][..count].iter().enumerate().all(is_right)
    }
}

impl BoxPlan {
    pub(crate) fn new(part: &Arc<BoxPart>, shape: ShapeId) -> Result<Arc<BoxPlan>, RecordFault> {
        let takes = part.input.as_deref().unwrap_or(&[]);
        part.plans.get(shape, || BoxPlan::of(takes, &part.outputs, shape))
    }

    /// The plan of a box that consumes and emits these labels.
    pub(crate) fn of(
        takes: &[Label],
        outputs: &Arc<[Vec<Label>]>,
        shape: ShapeId,
    ) -> Result<Arc<BoxPlan>, RecordFault> {
        let take = TakePlan::new(shape, takes)?;
        let variant = |gives: &Vec<Label>| VariantPlan {
            out: OutPlan::new(shape, takes, gives),
            count: gives.len(),
            tags: (0..gives.len()).filter(|&k| gives[k].is_integer()).collect(),
        };
        let variants: Box<[VariantPlan]> = outputs.iter().map(variant).collect();
        let in_place = InPlace::new(&take, &variants);
        Ok(Arc::new(BoxPlan { take, variants, in_place, outputs: outputs.clone() }))
    }

    #[inline]
    pub(crate) fn in_place(&self) -> Option<&InPlace> {
        self.in_place.as_ref()
    }

    /// Turns a record into which the box wrote its output in place into the output record. `Err`: why the
    /// output is refused.
    #[cold]
    pub(crate) fn finish_in_place(
        &self,
        place: &InPlace,
        emitted: (u32, usize),
        record: &mut Record,
    ) -> Result<(), String> {
        if !place.takes(emitted, record) {
            return Err(self.refuse_in_place(emitted, record));
        }
        place.finish(std::slice::from_mut(record));
        Ok(())
    }

    /// The reason why output that a box wrote into a record is refused.
    fn refuse_in_place(&self, (variant, count): (u32, usize), record: &mut Record) -> String {
        let calls = self.in_place.as_ref().map(|place| place.calls);
        let first = calls.map_or(0, |calls| calls.first_output);
        let written = calls.filter(|calls| count <= calls.output_count).map_or(0, |_| count);
        let values = &mut record.slots_mut()[first..][..written];
        self.refuse(&Emitted { variant, count, values, record: None })
    }

    /// Takes the box's arguments from the record.
    #[inline]
    pub(crate) fn take_arguments(&self, record: &mut Record, arguments: &mut [Value]) {
        let slots = record.slots_mut();
        for (argument, &slot) in arguments.iter_mut().zip(self.take.arguments()) {
            std::mem::swap(argument, &mut slots[slot]);
        }
    }

    /// Restores the arguments of a call in the record: the call failed, or continues and may fail later.
    #[cold]
    pub(crate) fn give_arguments_back(&self, record: &mut Record, desk: &mut Desk) {
        let mut arguments = vec![Value::default(); self.take.arguments().len()];
        desk.give_back(&mut arguments);
        self.take_arguments(record, &mut arguments);
    }

    /// A record of the emitted values and the values inherited from these slots, which keep their values.
    pub(crate) fn build(&self, emitted: Emitted<'_>, source: &[Value]) -> Result<Record, String> {
        match self.variant(&emitted) {
            Some(plan) => Ok(plan.build_from(source, |k| take_just_written(&mut emitted.values[k]))),
            None => Err(self.refuse(&emitted)),
        }
    }

    /// Builds a record as `build` does, from a `source` that is not needed any more (unless it fails).
    #[inline]
    pub(crate) fn build_last(
        &self,
        emitted: Emitted<'_>,
        source: Record,
    ) -> Result<Record, (String, Record)> {
        match self.variant(&emitted) {
            Some(plan) => Ok(plan.build_last(source, |k| take_just_written(&mut emitted.values[k]))),
            None => Err((self.refuse(&emitted), source)),
        }
    }

    #[inline]
    fn variant(&self, emitted: &Emitted<'_>) -> Option<&OutPlan> {
        let plan = self.variants.get((emitted.variant as usize).wrapping_sub(1))?;
        let integer = |&k: &usize| matches!(emitted.values[k], Value::Int(_));
        (emitted.count == plan.count && plan.tags.iter().all(integer)).then_some(&plan.out)
    }

    #[cold]
    fn refuse(&self, emitted: &Emitted<'_>) -> String {
        let Emitted { variant, count, ref values, .. } = *emitted;
        let Some(gives) = self.outputs.get((variant as usize).wrapping_sub(1)) else {
            let variants = self.outputs.len();
            return format!("the box emitted variant {variant}, but its signature has {variants}");
        };
        let wanted = gives.len();
        if count != wanted {
            return format!("the box emitted {count} values as variant {variant}, which has {wanted} labels");
        }
        let bad = |k: &usize| gives[*k].is_integer() && !matches!(values[*k], Value::Int(_));
        let k = (0..wanted).find(bad).expect("all else was accepted");
        format!("the box emitted {} for the tag {}", values[k].kind(), gives[k])
    }
}
