//! Names of the tasks and streams to which events refer.
//!
//! Events refer to tasks and streams by numbers. The component of a task, and the ends of a stream, were
//! recorded when the task or stream was created. For tasks and streams that still exist, the live table
//! contains them as well.

use std::collections::{HashMap, VecDeque};

use thalweg_space::Error;
use thalweg_space::reader::{Event, KindInfo, SpaceReader};

use crate::decoding::names::Names;
use crate::decoding::observation::{LiveRow, live_rows};

/// The number of ended tasks and streams whose names are still known.
const ENDED_MAX: usize = 1 << 16;

/// The tasks and streams of a run.
///
/// ```no_run
/// use thalweg_monitor::{Called, Refers, names};
/// use thalweg_space::reader::{Item, SpaceReader};
///
/// let space = SpaceReader::open("/dev/shm/thalweg-run")?;
/// let (names, mut called) = (names(&space)?, Called::default());
/// called.look(&space)?;
/// space.events().poll(usize::MAX, &mut |item| {
///     let Item::Event(event) = item else { return };
///     called.note(&event);
///     if let Some(task) = event.kind.field("task") {
///         println!("{} {:?}", event.kind.name, called.name(Refers::Task, event.u64(task), &names));
///     }
/// })?;
/// # Ok::<(), thalweg_space::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Called {
    tasks: HashMap<u64, Task>,
    streams: HashMap<u64, Stream>,
    /// The greatest replica number of each component with more than one task.
    replicas: HashMap<u64, u64>,
    /// Tasks and streams that have ended, oldest first.
    ended: VecDeque<(Refers, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    component: u64,
    replica: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    name: u64,
    reader: u64,
    writer: u64,
}

/// What an id in an event refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refers {
    /// A task's id.
    Task,
    /// A stream's id.
    Stream,
}

impl Refers {
    /// Whether a field in an event of this kind contains the id of a task or stream.
    pub fn of(kind: &KindInfo, field: &str) -> Option<Refers> {
        if !kind.name.starts_with("exec.") && !kind.name.starts_with("net.") {
            return None;
        }
        Some(match field {
            "task" | "parent" | "peer" | "reader" | "writer" => Refers::Task,
            "stream" | "by_stream" | "parent_stream" => Refers::Stream,
            _ => return None,
        })
    }
}

impl Called {
    /// Reads the tasks and streams that exist from the space's live table.
    ///
    /// # Errors
    /// When a file is damaged.
    pub fn look(&mut self, space: &SpaceReader) -> Result<(), Error> {
        for row in live_rows(&space.live_rows()?) {
            match row {
                LiveRow::Task { task, component, replica, .. } => self.task(task, component, replica),
                LiveRow::Stream { stream, name, reader, writer, .. } => {
                    self.stream(stream, name, reader, writer)
                }
                LiveRow::Sizes { .. } | LiveRow::Worker { .. } => {}
            }
        }
        Ok(())
    }

    /// Learns the names that an event gives to tasks and streams. Each event must be passed to this method
    /// before [`Called::name`] is called for ids in the event.
    pub fn note(&mut self, event: &Event<'_>) {
        let field = |name: &str| event.kind.field(name).map_or(0, |field| event.u64(field));
        match event.kind.name.as_str() {
            "exec.task_created" => self.task(field("task"), field("component"), field("replica")),
            "exec.stream_opened" => {
                self.stream(field("stream"), field("name"), field("reader"), field("writer"));
            }
            "exec.task_ended" => self.end(Refers::Task, field("task")),
            "exec.stream_closed" => self.end(Refers::Stream, field("stream")),
            _ => {}
        }
    }

    fn task(&mut self, id: u64, component: u64, replica: u64) {
        self.tasks.insert(id, Task { component, replica });
        let most = self.replicas.entry(component).or_default();
        *most = replica.max(*most);
    }

    /// Adds the known ends of a stream, whose reader and writer may be recorded at different times.
    fn stream(&mut self, id: u64, name: u64, reader: u64, writer: u64) {
        let stream = self.streams.entry(id).or_default();
        for (known, recorded) in
            [(&mut stream.name, name), (&mut stream.reader, reader), (&mut stream.writer, writer)]
        {
            if recorded != 0 {
                *known = recorded;
            }
        }
    }

    /// Schedules a task or stream that has ended to be forgotten later, because further events may still
    /// refer to it.
    fn end(&mut self, what: Refers, id: u64) {
        self.ended.push_back((what, id));
        if self.ended.len() <= ENDED_MAX {
            return;
        }
        match self.ended.pop_front() {
            Some((Refers::Task, id)) => drop(self.tasks.remove(&id)),
            Some((Refers::Stream, id)) => drop(self.streams.remove(&id)),
            None => {}
        }
    }

    /// The site of a task's component, if it is known.
    pub fn component(&self, task: u64) -> Option<u64> {
        self.tasks.get(&task).map(|task| task.component)
    }

    /// The name of a task or stream. The name of a task is the path of its component, with the replica in
    /// brackets if the component has several tasks; a stream without a name is named by the tasks at its
    /// ends.
    pub fn name(&self, what: Refers, id: u64, names: &Names) -> Option<String> {
        match what {
            Refers::Task => {
                let Task { component, replica } = *self.tasks.get(&id)?;
                Some(names.task(
                    component,
                    replica,
                    self.replicas.get(&component).is_some_and(|&most| most > 0),
                ))
            }
            Refers::Stream => {
                let stream = self.streams.get(&id)?;
                let end = |task: u64| self.name(Refers::Task, task, names).unwrap_or_else(|| "?".to_owned());
                names.text(stream.name).filter(|name| !name.is_empty()).or_else(|| {
                    let known = stream.writer != 0 || stream.reader != 0;
                    known.then(|| format!("{} → {}", end(stream.writer), end(stream.reader)))
                })
            }
        }
    }
}
