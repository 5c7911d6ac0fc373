//! The tasks, streams and components of a run that were recorded and are still needed.

use crate::composing::timeline::Timeline;
use crate::decoding::observation::{Mode, StreamTotals};
use crate::ids::IdMap;

/// A task with this number, or a greater one, as its worker has a thread of its own.
pub(crate) const OWN_THREAD: u64 = u32::MAX as u64;

/// The tasks, streams and components that exist in a run, kept by the analysis for all monitors.
#[derive(Default)]
pub struct Structure {
    pub(crate) tasks: IdMap<Task>,
    pub(crate) streams: IdMap<Stream>,
    pub(crate) components: IdMap<Component>,
    /// The start of the measurement: the first event, or the last restart.
    pub(crate) begin: Option<u64>,
    /// Whether the measurement was restarted.
    pub(crate) restarted: bool,
    /// Changes of mode since the start of the measurement.
    pub(crate) modes: Vec<(u64, Mode)>,
    /// The number of gaps in the events, and of dispatches, since the start of the measurement.
    pub(crate) gaps: u64,
    pub(crate) dispatches: u64,
    /// The time since which the sources have been paused, if they are.
    pub(crate) paused: Option<u64>,
}

/// A task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    /// The site of the task's component, 0 if the task has none.
    pub component: u64,
    /// The number of the task's replica in the component.
    pub replica: u64,
    /// The task's worker, if it has no thread of its own.
    pub worker: Option<u64>,
    /// Whether the task has a thread of its own.
    pub blocking: bool,
    /// The number of streams that the task was recorded to read.
    pub inputs: u32,
    /// The number of streams that the task was recorded to write.
    pub outputs: u32,
    /// When the task was created, if its creation was recorded.
    pub(crate) created: Option<u64>,
    pub(crate) timeline: Timeline,
}

/// A stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    /// The stream's name in the catalog, 0 if it has none.
    pub name: u64,
    /// The task that reads the stream, 0 if not known.
    pub reader: u64,
    /// The task that writes the stream, 0 if not known.
    pub writer: u64,
    /// The component of the reader.
    pub reader_component: u64,
    /// The component of the writer.
    pub writer_component: u64,
    /// The number of messages that the stream can hold.
    pub capacity: u64,
    /// The time at which the stream was opened; `None` if before the first event read.
    pub opened: Option<u64>,
    /// When the stream was closed.
    pub closed: Option<u64>,
    /// The position of the stream: inside the network or at its border.
    pub role: Role,
    pub(crate) role_settled: bool,
    /// Whether all events of this stream have been read.
    pub(crate) gone: bool,
    /// Whether the stream was closed before the start of the measurement; events of its last dispatches may
    /// still come.
    pub(crate) past: bool,
    /// The stream's positions, recorded when the stream was closed.
    pub(crate) totals: Option<StreamTotals>,
    /// The numbers of messages that dispatches recorded for the stream.
    pub(crate) seen: StreamTotals,
}

/// The position of a stream: inside the network or at its border.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Input messages enter the network through the stream.
    Entry,
    /// The stream is inside the network.
    #[default]
    Inner,
    /// Output messages leave the network through the stream.
    Exit,
}

impl Role {
    /// The word for the role in reports.
    pub fn word(self) -> &'static str {
        match self {
            Role::Entry => "entry",
            Role::Inner => "inner",
            Role::Exit => "exit",
        }
    }
}

/// The known properties of a component.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Component {
    pub(crate) has_inputs: bool,
    pub(crate) has_outputs: bool,
    pub(crate) tasks: u64,
}

impl Structure {
    /// A task that exists, or whose end is in the present batch.
    pub fn task(&self, id: u64) -> Option<&Task> {
        self.tasks.get(&id)
    }

    /// A stream that exists, or whose last event is in the present batch.
    pub fn stream(&self, id: u64) -> Option<&Stream> {
        self.streams.get(&id)
    }

    /// All tasks, in no order.
    pub fn tasks(&self) -> impl Iterator<Item = (u64, &Task)> {
        self.tasks.iter().map(|(&id, task)| (id, task))
    }

    /// All streams that existed during the measured time, and of which events may still come, in no order.
    pub fn streams(&self) -> impl Iterator<Item = (u64, &Stream)> {
        self.streams
            .iter()
            .filter(|(_, stream)| !stream.gone && !stream.past)
            .map(|(&id, stream)| (id, stream))
    }

    /// Whether every event so far was read and the mode was full.
    pub fn whole(&self) -> bool {
        let dispatched = self.dispatches > 0 || self.restarted && !self.modes.is_empty();
        self.gaps == 0 && dispatched && self.modes.iter().all(|&(_, mode)| mode == Mode::Full)
    }

    pub(crate) fn is_complete(&self, id: u64) -> bool {
        self.streams.get(&id).is_some_and(|stream| {
            stream.totals.is_some_and(|totals| {
                stream.closed.is_some()
                    && stream.seen.written >= totals.written
                    && stream.seen.read >= totals.read
            })
        })
    }

    /// The components of a stream's reader and writer, also if they became known after the stream was opened.
    pub(crate) fn components_of(&self, stream: &Stream) -> (u64, u64) {
        let of = |task: u64, component: u64| match self.tasks.get(&task) {
            Some(task) if component == 0 => task.component,
            _ => component,
        };
        (of(stream.writer, stream.writer_component), of(stream.reader, stream.reader_component))
    }
}
