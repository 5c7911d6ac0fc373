//! What a box does to the records of one shape, worked out once: which slots are its arguments, and how each
//! variant it emits becomes a record with what is inherited.

use std::sync::Arc;

use thalweg_box::{Emitted, Value};

use super::component::BoxPart;
use crate::plan::{OutPlan, RecordFault, TakePlan};
use crate::record::{Record, take_just_written};
use crate::shape::ShapeId;

/// What a box does to one shape.
#[derive(Debug)]
pub(crate) struct BoxPlan {
    take: TakePlan,
    variants: Vec<OutPlan>,
    part: Arc<BoxPart>,
}

impl BoxPlan {
    pub(crate) fn new(part: &Arc<BoxPart>, shape: ShapeId) -> Result<Arc<BoxPlan>, RecordFault> {
        let takes = part.input.as_deref().unwrap_or(&[]);
        let take = TakePlan::new(shape, takes)?;
        let variants = part.outputs.iter().map(|gives| OutPlan::new(shape, takes, &gives.labels)).collect();
        Ok(Arc::new(BoxPlan { take, variants, part: part.clone() }))
    }

    /// Moves the box's arguments off the record.
    #[inline]
    pub(crate) fn take_arguments(&self, record: &mut Record, arguments: &mut [Value]) {
        let slots = record.slots_mut();
        for (argument, &slot) in arguments.iter_mut().zip(self.take.arguments()) {
            *argument = slots[slot].take();
        }
    }

    /// A record of what the box emitted and what `source` hands down; `source` keeps its values.
    pub(crate) fn build(&self, emitted: Emitted<'_>, source: &Record) -> Result<Record, String> {
        let plan = self.variant(&emitted)?;
        Ok(plan.build(source, |k| take_just_written(&mut emitted.values[k])))
    }

    /// The same, of a `source` that is not needed any more.
    #[inline]
    pub(crate) fn build_last(&self, emitted: Emitted<'_>, source: Record) -> Result<Record, String> {
        let plan = self.variant(&emitted)?;
        Ok(plan.build_last(source, |k| take_just_written(&mut emitted.values[k])))
    }

    #[inline]
    fn variant(&self, emitted: &Emitted<'_>) -> Result<&OutPlan, String> {
        let index = (emitted.variant as usize).wrapping_sub(1);
        match (self.variants.get(index), self.part.outputs.get(index)) {
            (Some(plan), Some(gives)) if gives.accepts(emitted) => Ok(plan),
            _ => Err(self.refuse(emitted)),
        }
    }

    #[cold]
    fn refuse(&self, emitted: &Emitted<'_>) -> String {
        let Emitted { variant, count, ref values, .. } = *emitted;
        let Some(gives) = self.part.outputs.get((variant as usize).wrapping_sub(1)) else {
            let variants = self.part.outputs.len();
            return format!("the box emitted variant {variant}, but its signature has {variants}");
        };
        let wanted = gives.labels.len();
        if count != wanted {
            return format!("the box emitted {count} values as variant {variant}, which has {wanted} labels");
        }
        let bad = gives.tags.iter().find(|&&k| !matches!(values[k], Value::Int(_)));
        let k = *bad.expect("all else was accepted");
        format!("the box emitted {} for the tag {}", values[k].kind(), gives.labels[k])
    }
}
