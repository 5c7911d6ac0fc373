//! The events that a network writes into the space.

use thalweg_box::Value;
use thalweg_exec::{Context, Progress, SiteRef};
use thalweg_space::{ElementOptions, Kind, KindId, Policy, Space};

use super::message::Message;
use crate::error::Error;
use crate::label::LabelKind;
use crate::record::Record;
use crate::shape::ShapeId;

/// The stream by which records enter a network.
#[derive(Kind)]
#[kind(name = "net.entry")]
struct Entry {
    /// The stream.
    stream: u64,
}

/// The stream by which records leave a network.
#[derive(Kind)]
#[kind(name = "net.exit")]
struct Exit {
    /// The stream.
    stream: u64,
}

/// A record failed and left the network.
#[derive(Kind)]
#[kind(name = "net.record_failed")]
struct RecordFailed<'a> {
    /// The task that worked on the record.
    task: u64,
    /// The task's component.
    #[field(absent = 0)]
    component: SiteRef,
    /// The stream of the record, as a message.
    stream: u64,
    /// The number of the record in this stream, from 0.
    index: u64,
    /// The reason of the failure.
    #[field(absent = 0)]
    reason: &'a str,
}

/// A component keeps a record beyond the dispatch in which it read it, and sends it on later.
#[derive(Kind)]
#[kind(name = "net.record_held")]
struct RecordHeld {
    /// The task that keeps the record.
    task: u64,
    /// The stream of the record, as a message.
    stream: u64,
    /// The number of the record in this stream, from 0.
    index: u64,
}

/// A type of records that the task reads: recorded before the task describes the first record of the type.
#[derive(Kind)]
#[kind(name = "net.record_type")]
struct RecordType<'a> {
    /// The task.
    task: u64,
    /// The type's number in this run.
    record_type: u32,
    /// The labels of the type as files show them, tags first; only the first 200 bytes of a longer text.
    labels: &'a str,
}

/// Describes the record on which a box begins to work. Recorded only where the box takes much longer for a
/// record than recording this event takes: see `exec.clock_budget`.
#[derive(Kind)]
#[kind(name = "net.record_described")]
struct RecordDescribed {
    /// The task.
    task: u64,
    /// The record's index in the stream that the task reads.
    index: u64,
    /// The number of the record's type.
    record_type: u32,
    /// The bytes of the record's values, without values that only a library understands.
    #[field(unit = "bytes")]
    size_bytes: u64,
    /// The value of the record's first tag, in the order of the type's labels; 0 without a tag.
    tag_0: i64,
    /// The value of the record's second tag; 0 without a second tag.
    tag_1: i64,
    /// The value of the record's third tag; 0 without a third tag.
    tag_2: i64,
}

/// The size of the element for the events that name the network's input and output.
const ELEMENT: ElementOptions =
    ElementOptions { block_bytes: 4096, block_count: 2, policy: Policy::Overwrite };

/// Records which streams are the network's input and output.
pub(crate) fn announce_ends(space: &Space, entry: u64, exit: u64) -> Result<(), Error> {
    let announce = || {
        let mut writer = space.writer_with("net", ELEMENT)?;
        let (entry_kind, exit_kind) = (writer.declare::<Entry>()?, writer.declare::<Exit>()?);
        writer.emit(entry_kind, &Entry { stream: entry });
        writer.emit(exit_kind, &Exit { stream: exit });
        Ok(())
    };
    announce().map_err(|error: thalweg_space::Error| error.into())
}

pub(crate) fn record_failed(cx: &mut Context<'_>, component: SiteRef, message: Message, reason: &str) {
    let task = cx.task_id().0;
    let Some(writer) = cx.writer() else { return };
    // If the catalog cannot be written any more, the space has reported so; the record's error is reported in
    // any case.
    if let Ok(kind) = writer.declare::<RecordFailed<'_>>() {
        let Message { stream, index } = message;
        writer.emit(kind, &RecordFailed { task, component, stream, index, reason: cut(reason) });
    }
}

/// Records which messages the task keeps beyond the dispatch in which it read them.
pub(crate) fn records_held(cx: &mut Context<'_>, messages: impl Iterator<Item = (u64, u64)>) {
    let task = cx.task_id().0;
    let Some(writer) = cx.writer() else { return };
    // If the catalog cannot be written any more, the space has reported so.
    let Ok(kind) = writer.declare::<RecordHeld>() else { return };
    for (stream, index) in messages {
        writer.emit(kind, &RecordHeld { task, stream, index });
    }
}

/// The types of records that a task has described.
#[derive(Debug, Default)]
pub(crate) struct Described {
    shapes: Vec<ShapeId>,
    /// The kind as the last writer declared it, because declaring it again takes longer than writing an
    /// event.
    kind: Option<KindId<RecordDescribed>>,
}

impl Described {
    /// Describes the record on which the task begins to work, if its time is recorded.
    #[inline]
    pub(crate) fn record(&mut self, progress: Progress<'_>, record: &Record) {
        if progress.times_each() {
            self.write(progress, record);
        }
    }

    #[cold]
    fn write(&mut self, progress: Progress<'_>, record: &Record) {
        progress.describe(|writer, since, task, index| {
            let (shape, task) = (record.shape(), task.0);
            if !self.shapes.contains(&shape) {
                let labels = labels(shape);
                let named = RecordType { task, record_type: shape.number(), labels: cut(&labels) };
                // If the catalog cannot be written any more, the space has reported so.
                let Ok(kind) = writer.declare::<RecordType<'_>>() else { return };
                writer.emit_at(since, kind, &named);
                self.shapes.push(shape);
            }
            let known = self.kind.filter(|&kind| writer.knows(kind));
            self.kind = known.or_else(|| writer.declare().ok());
            if let Some(kind) = self.kind {
                writer.emit_at(since, kind, &described(task, index, record));
            }
        });
    }
}

/// The slots of tags, in the order of files.
fn tags(shape: ShapeId) -> impl Iterator<Item = usize> {
    let shown = shape.shown().iter().map(|&slot| usize::from(slot));
    shown.filter(move |&slot| shape.labels()[slot].kind() != LabelKind::Field)
}

/// The labels of a shape, tags first, so that tags stay if the text is cut.
fn labels(shape: ShapeId) -> String {
    let fields = shape.shown().iter().map(|&slot| shape.labels()[usize::from(slot)]);
    let fields = fields.filter(|label| label.kind() == LabelKind::Field);
    let all = tags(shape).map(|slot| shape.labels()[slot]).chain(fields);
    all.map(|label| label.to_string()).collect::<Vec<_>>().join(", ")
}

fn described(task: u64, index: u64, record: &Record) -> RecordDescribed {
    let (shape, slots) = (record.shape(), record.slots());
    let mut values = [0; 3];
    for (tag, slot) in values.iter_mut().zip(tags(shape)) {
        *tag = match slots.get(slot) {
            Some(&Value::Int(value)) => value,
            _ => 0,
        };
    }
    let known = |value: &&Value| !matches!(value, Value::Opaque(_));
    let heap: u64 = slots.iter().filter(known).map(Value::heap_bytes).sum();
    let size_bytes = heap + size_of_val(slots) as u64;
    let [tag_0, tag_1, tag_2] = values;
    RecordDescribed { task, index, record_type: shape.number(), size_bytes, tag_0, tag_1, tag_2 }
}

/// At most 200 bytes of a text.
fn cut(text: &str) -> &str {
    &text[..(0..=200.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0)]
}
