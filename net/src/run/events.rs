//! What a network says about itself in the space.

use thalweg_exec::{Context, SiteRef};
use thalweg_space::{ElementOptions, Kind, Policy, Space};

use super::failure::Message;
use crate::error::Error;

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
    /// The task that worked on it.
    task: u64,
    /// The task's component.
    #[field(absent = 0)]
    component: SiteRef,
    /// The message: its stream …
    stream: u64,
    /// … and its number in that stream, from 0.
    index: u64,
    /// Why.
    #[field(absent = 0)]
    reason: &'a str,
}

/// A component keeps a record beyond the dispatch in which it read it, and sends it on later.
#[derive(Kind)]
#[kind(name = "net.record_held")]
struct RecordHeld {
    /// The task that keeps it.
    task: u64,
    /// The message: its stream …
    stream: u64,
    /// … and its number in that stream, from 0.
    index: u64,
}

/// Room for the two events of the network itself.
const ELEMENT: ElementOptions =
    ElementOptions { block_bytes: 4096, block_count: 2, policy: Policy::Overwrite };

/// Says which streams are the network's ends.
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
    // A catalog that cannot be written any more was reported by the space; the record's error is told anyway.
    if let Ok(kind) = writer.declare::<RecordFailed<'_>>() {
        let Message { stream, index } = message;
        writer.emit(kind, &RecordFailed { task, component, stream, index, reason: cut(reason) });
    }
}

/// Says which messages that the task read in this dispatch it keeps beyond it.
pub(crate) fn records_held(cx: &mut Context<'_>, messages: impl Iterator<Item = (u64, u64)>) {
    let task = cx.task_id().0;
    let Some(writer) = cx.writer() else { return };
    // As above.
    let Ok(kind) = writer.declare::<RecordHeld>() else { return };
    for (stream, index) in messages {
        writer.emit(kind, &RecordHeld { task, stream, index });
    }
}

/// At most 200 bytes of a text.
fn cut(text: &str) -> &str {
    &text[..(0..=200.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0)]
}
