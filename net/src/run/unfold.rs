//! Unfolding: from components to tasks and streams, at the start and whenever a replica is needed.

use std::sync::Arc;

use thalweg_exec::{Context, In, Out, Runtime, StreamSpec, Task, TaskId, TaskSpec};

use super::box_task::{BoxTask, InitialiserTask};
use super::collector::Collector;
use super::component::{ComponentId, Instance, Kind};
use super::dispatcher::{ParallelDispatcher, SplitDispatcher};
use super::failure::{Position, Shared};
use super::filter_task::FilterTask;
use super::shield_task::{End, ShieldTask};
use super::star::StarExit;
use crate::record::Record;

/// What the mapper should expect of a task when it cuts a network into contiguous pieces: a box works, all else hands
/// records on.
const BOX_WEIGHT: u32 = 8;
const GLUE_WEIGHT: u32 = 1;
/// Of the collector behind a star or split: the replicas that will stand before it weigh as two boxes. So what leads
/// to them falls into the piece before, and what follows them into the piece after.
const REPLICAS_WEIGHT: u32 = 2 * BOX_WEIGHT;

/// How many replicas a star or a split makes at most.
pub(crate) const REPLICAS_MAX: usize = 1 << 20;

/// Makes tasks and streams: before the network runs, or from one of its tasks.
pub(crate) struct Unfolding<'a, 'b> {
    shared: Arc<Shared>,
    place: Place<'a, 'b>,
    parent: TaskId,
    /// The replica that the tasks made belong to.
    pub(crate) replica: u64,
}

enum Place<'a, 'b> {
    Starting(&'a Runtime),
    Running(&'a mut Context<'b>),
}

impl<'a, 'b> Unfolding<'a, 'b> {
    pub(crate) fn starting(shared: Arc<Shared>, runtime: &'a Runtime) -> Self {
        Unfolding { shared, place: Place::Starting(runtime), parent: TaskId(0), replica: 0 }
    }

    pub(crate) fn running(
        shared: Arc<Shared>,
        cx: &'a mut Context<'b>,
        parent: TaskId,
        replica: u64,
    ) -> Unfolding<'a, 'b> {
        Unfolding { shared, place: Place::Running(cx), parent, replica }
    }

    pub(crate) fn stream(&mut self) -> (Out<Record>, In<Record>) {
        match &mut self.place {
            Place::Starting(runtime) => runtime.stream(StreamSpec::default()),
            Place::Running(cx) => cx.stream(StreamSpec::default()),
        }
    }

    pub(crate) fn spawn(&mut self, component: ComponentId, task: impl Task) {
        self.spawn_weighing(GLUE_WEIGHT, component, task);
    }

    fn spawn_weighing(&mut self, weight: u32, component: ComponentId, task: impl Task) {
        let spec = TaskSpec { weight, ..self.spec(component) };
        match &mut self.place {
            Place::Starting(runtime) => runtime.spawn(spec, task),
            Place::Running(cx) => cx.spawn(spec, task),
        };
    }

    fn spec(&self, component: ComponentId) -> TaskSpec {
        let component = self.shared.program.get(component).site;
        TaskSpec { component, parent: self.parent, replica: self.replica, ..TaskSpec::default() }
    }

    /// Unfolds a component that reads `input`; returns its output.
    pub(crate) fn unfold(
        &mut self,
        id: ComponentId,
        instance: &Option<Arc<Instance>>,
        input: In<Record>,
    ) -> In<Record> {
        let shared = self.shared.clone();
        let position = Position { shared: shared.clone(), component: id, instance: instance.clone() };
        match &shared.program.get(id).kind {
            Kind::Serial(parts) => {
                parts.iter().fold(input, |input, part| self.unfold(*part, instance, input))
            }
            Kind::Shielded(shield, parts) => {
                let (out, entered) = self.stream();
                self.spawn(id, ShieldTask::new(position.clone(), shield.clone(), End::Entry, input, out));
                let left = parts.iter().fold(entered, |input, part| self.unfold(*part, instance, input));
                let (out, output) = self.stream();
                self.spawn(id, ShieldTask::new(position, shield.clone(), End::Exit, left, out));
                output
            }
            Kind::Box(part) => {
                let (out, output) = self.stream();
                let blocking = part.entry().is_blocking();
                let starts = part.input.is_none();
                let task = BoxTask::new(position, part.clone(), input, out);
                match &self.place {
                    _ if starts => self.spawn(id, InitialiserTask::new(task)),
                    Place::Starting(runtime) if blocking => {
                        runtime.spawn_blocking(self.spec(id), |blocking| task.run_blocking(blocking));
                    }
                    _ => self.spawn_weighing(BOX_WEIGHT, id, task),
                }
                output
            }
            Kind::Filter(filter) => {
                let (out, output) = self.stream();
                self.spawn(id, FilterTask::new(position, filter.clone(), input, out));
                output
            }
            Kind::Parallel { branches, router } => {
                let (outs, ins): (Vec<_>, Vec<_>) = branches.iter().map(|_| self.stream()).unzip();
                self.spawn(id, ParallelDispatcher::new(position, router.clone(), input, outs));
                let pairs = branches.iter().zip(ins);
                let outputs: Vec<_> =
                    pairs.map(|(branch, input)| self.unfold(*branch, instance, input)).collect();
                self.collect(GLUE_WEIGHT, id, outputs)
            }
            Kind::Star { body, exits } => {
                let (exit, exit_input) = self.stream();
                let star = StarExit::new(position, *body, exits.clone(), 0, input, exit);
                self.spawn(id, star);
                self.collect(REPLICAS_WEIGHT, id, vec![exit_input])
            }
            Kind::Split { body, from, to } => {
                let (announcements, announced) = self.stream();
                let split = SplitDispatcher::new(position, *body, (*from, *to), input, announcements);
                self.spawn(id, split);
                self.collect(REPLICAS_WEIGHT, id, vec![announced])
            }
        }
    }

    fn collect(&mut self, weight: u32, id: ComponentId, inputs: Vec<In<Record>>) -> In<Record> {
        let (out, output) = self.stream();
        self.spawn_weighing(weight, id, Collector::new(inputs, out));
        output
    }
}
