//! The emitter turns answers into records of the box's outputs.

use std::sync::Arc;

use thalweg_box::{Emitted, Value};
use thalweg_exec::Blocking;

use super::part::CommandPart;
use crate::label::Label;
use crate::plan::{PlanCache, RecordFault};
use crate::record::{Ends, Record};
use crate::run::boxed::plan::BoxPlan;
use crate::run::message::Message;
use crate::run::pipe::Pipe;
use crate::run::position::Position;
use crate::shape::ShapeId;

pub(super) struct Emitter {
    pub(super) position: Position,
    pub(super) pipe: Pipe,
    part: Arc<CommandPart>,
    plans: PlanCache<Result<Arc<BoxPlan>, RecordFault>>,
    /// The shape of the last answer, the variant that answers of this shape belong to, and the slots of the
    /// variant's values.
    variant: Option<(ShapeId, usize, Vec<usize>)>,
    /// The records that were made of the answers to one record.
    built: Vec<Record>,
}

/// A record that the program is asked about, with the inputs for building its outputs.
pub(super) struct Asked {
    message: Message,
    pub(super) record: Record,
    plan: Arc<BoxPlan>,
}

impl Emitter {
    pub(super) fn new(position: Position, part: Arc<CommandPart>, pipe: Pipe) -> Emitter {
        Emitter { position, pipe, part, plans: PlanCache::new(), variant: None, built: Vec::new() }
    }

    /// The record with the values that its answers need; marks are passed on, and records that lack a label
    /// fail.
    pub(super) fn asked(&mut self, blocking: &mut Blocking, record: Record) -> Option<Asked> {
        let cx = blocking.context();
        let shape = record.shape();
        if shape == ShapeId::MARK {
            self.pipe.output.send(cx, record);
            return None;
        }
        let part = &self.part;
        match self.plans.get(shape, || BoxPlan::of(&part.input, &part.outputs, shape)) {
            Ok(plan) => Some(Asked { message: self.pipe.message(), plan: plan.clone(), record }),
            Err(fault) => {
                let reason = fault.to_string();
                self.position.fail_in(cx, &mut self.pipe, record, reason);
                None
            }
        }
    }

    /// Sends the records of all answers, or, if one is invalid, none of them and a failure.
    pub(super) fn settle(
        &mut self,
        blocking: &mut Blocking,
        asked: Asked,
        answers: Result<Vec<Record>, String>,
    ) {
        let Asked { message, mut record, plan } = asked;
        let cx = blocking.context();
        let ends = record.ends();
        if let Err(reason) = answers.and_then(|answers| self.build(answers, &record, &plan)) {
            self.built.clear();
            self.position.fail(cx, message, record, reason);
            return self.pipe.output.end(cx, ends);
        }
        record.set_ends(Ends::NOTHING);
        match self.built.last_mut() {
            // Groups that end with the input record end with the last record that is made of it.
            Some(last) => last.set_ends(ends),
            None => self.pipe.output.end(cx, ends),
        }
        for built in self.built.drain(..) {
            self.pipe.output.send(cx, built);
        }
    }

    fn build(&mut self, answers: Vec<Record>, record: &Record, plan: &BoxPlan) -> Result<(), String> {
        for answer in answers {
            let (variant, mut values) = self.values_of(answer)?;
            let emitted = Emitted { variant, count: values.len(), values: &mut values, record: None };
            self.built.push(plan.build(emitted, record.slots())?);
        }
        Ok(())
    }

    /// Writes records that wait for space in the output. False if the output's reader has ended.
    pub(super) fn drain(&mut self, blocking: &mut Blocking) -> bool {
        while let Some(record) = self.pipe.output.take_waiting() {
            if blocking.push(&mut self.pipe.output.out, record).is_err() {
                return false;
            }
            blocking.context().derived(&self.pipe.output.out);
        }
        true
    }

    /// The values of an answer, and its variant of the signature, counted from 1.
    fn values_of(&mut self, mut answer: Record) -> Result<(u32, Vec<Value>), String> {
        let (variant, slots) = self.variant_of(&answer)?;
        Ok((variant, slots.iter().map(|&slot| answer.take(slot)).collect()))
    }

    /// The variant of the signature that an answer belongs to, counted from 1, and the slots of its labels.
    fn variant_of(&mut self, answer: &Record) -> Result<(u32, &[usize]), String> {
        let shape = answer.shape();
        if !matches!(&self.variant, Some((known, ..)) if *known == shape) {
            let fits = |labels: &Vec<Label>| labels.len() == shape.labels().len() && shape.has_all(labels);
            let outputs = &self.part.outputs;
            let Some(variant) = outputs.iter().position(fits) else {
                return Err(format!(
                    "the command answered {answer}, which is none of its outputs; it may give {}",
                    signature(outputs)
                ));
            };
            let slot = |&label| shape.slot(label).expect("the shape has all labels");
            self.variant = Some((shape, variant, outputs[variant].iter().map(slot).collect()));
        }
        let (_, variant, slots) = self.variant.as_ref().expect("it was looked up");
        Ok((*variant as u32 + 1, slots))
    }
}

/// The outputs in the form of a signature.
fn signature(outputs: &[Vec<Label>]) -> String {
    let tuple = |labels: &Vec<Label>| {
        format!("({})", labels.iter().map(Label::to_string).collect::<Vec<_>>().join(", "))
    };
    outputs.iter().map(tuple).collect::<Vec<_>>().join(" | ")
}
