//! Unfolding: turns components into tasks and streams, at the start and whenever a replica is needed.

use std::sync::Arc;

use thalweg_exec::{
    Blocking, Context, In, Out, Placement, Runtime, Spread, StreamSpec, Task, TaskId, TaskSpec,
};

use super::around::Around;
use super::boxed::plan::BoxPart;
use super::boxed::{BoxTask, InitialiserTask};
use super::cell::{CellStar, CellTask};
use super::collector::Collector;
use super::command;
use super::command::part::{CommandPart, OUTSTANDING_MAX};
use super::component::{ComponentId, Instance, Kind, SplitChoice, placed_at};
use super::feedback::FeedbackTask;
use super::filter_task::FilterTask;
use super::nodes::{self, Away, Elsewhere, FromNode, Last, Opening, ToNode};
use super::ordered::{OrderedCollector, Turn};
use super::parallel::{OrderedParallel, ParallelDispatcher};
use super::position::{NewReplica, Position, Shared};
use super::shield_task::{End, ShieldTask};
use super::split::{OrderedSplit, SplitDispatcher};
use super::star::{Exit, ExitCollector, Exits, OrderedExit, StarExit};
use crate::pattern::Pattern;
use crate::record::Record;
use crate::router::Router;
use crate::syntax::ast::CommandMode;

/// The weight of a box for the mapper when it cuts a network into contiguous pieces. Other components only
/// pass records on and weigh less.
const BOX_WEIGHT: u32 = 8;
const GLUE_WEIGHT: u32 = 1;
/// The weight of the collector after a star or split: future replicas count as two boxes. So the components
/// that lead to the replicas fall into the piece before the cut, and those that follow into the piece after
/// it.
const REPLICAS_WEIGHT: u32 = 2 * BOX_WEIGHT;

/// Makes the tasks of a replica: see [`super::position::UnfoldReplica`].
pub(crate) fn unfold_replica(
    shared: &Arc<Shared>,
    cx: &mut Context<'_>,
    replica: &NewReplica,
    input: In<Record>,
) -> In<Record> {
    let NewReplica { body, instance, number, around, node } = replica;
    let parent = cx.task_id();
    let mut unfolding = Unfolding::running(shared, cx, parent, *number, *around);
    match node {
        Some(node) => unfolding.unfold_away(*node, &[*body], instance, input),
        None => unfolding.unfold(*body, instance, input),
    }
}

/// Makes tasks and streams, before the network runs or from one of its tasks.
pub(crate) struct Unfolding<'a, 'b> {
    shared: &'a Arc<Shared>,
    place: Place<'a, 'b>,
    parent: TaskId,
    /// The replica that the new tasks belong to.
    replica: u64,
    around: Around,
    /// The streams that a single synchrocell writes: when the cell is spent, its input takes the stream's
    /// place.
    handed_over: Vec<u64>,
}

enum Place<'a, 'b> {
    Starting(&'a Runtime),
    Running(&'a mut Context<'b>),
}

impl<'a, 'b> Unfolding<'a, 'b> {
    pub(crate) fn starting(shared: &'a Arc<Shared>, runtime: &'a Runtime) -> Self {
        let (parent, around) = (TaskId(0), Around::default());
        let place = Place::Starting(runtime);
        Unfolding { shared, place, parent, replica: 0, around, handed_over: Vec::new() }
    }

    pub(crate) fn running(
        shared: &'a Arc<Shared>,
        cx: &'a mut Context<'b>,
        parent: TaskId,
        replica: u64,
        around: Around,
    ) -> Unfolding<'a, 'b> {
        Unfolding { shared, place: Place::Running(cx), parent, replica, around, handed_over: Vec::new() }
    }

    /// Unfolds the whole network, whose reader outside expects only records in its output.
    pub(crate) fn unfold_main(&mut self, id: ComponentId, input: In<Record>) -> In<Record> {
        let output = self.unfold(id, &None, input);
        if self.handed_over.contains(&output.id()) {
            self.collect(GLUE_WEIGHT, id, vec![output])
        } else {
            output
        }
    }

    /// Adds a task that ends when all records have left the network; from then on other nodes cannot open
    /// parts here.
    pub(crate) fn close_behind(
        &mut self,
        id: ComponentId,
        input: In<Record>,
        elsewhere: Arc<dyn Elsewhere>,
    ) -> In<Record> {
        let (out, output) = self.stream();
        self.spawn(id, Last { input, out, elsewhere });
        output
    }

    /// A stream of records.
    pub(crate) fn stream(&mut self) -> (Out<Record>, In<Record>) {
        let spec = StreamSpec::default();
        match &mut self.place {
            Place::Starting(runtime) => runtime.sized_stream(spec),
            Place::Running(cx) => cx.sized_stream(spec),
        }
    }

    /// Makes a stream for the control messages between the tasks of a component.
    pub(crate) fn side_stream<T: Send + 'static>(&mut self, capacity: Option<usize>) -> (Out<T>, In<T>) {
        let spec = StreamSpec { capacity, ..StreamSpec::default() };
        match &mut self.place {
            Place::Starting(runtime) => runtime.stream(spec),
            Place::Running(cx) => cx.stream(spec),
        }
    }

    /// Starts a task that may wait for something other than records.
    fn spawn_blocking(&mut self, id: ComponentId, work: impl FnOnce(&mut Blocking) + Send + 'static) {
        let spec = self.spec(id);
        match &mut self.place {
            Place::Starting(runtime) => runtime.spawn_blocking(spec, work),
            Place::Running(cx) => cx.spawn_blocking(spec, work),
        };
    }

    pub(crate) fn spawn(&mut self, component: ComponentId, task: impl Task) {
        self.spawn_weighing(GLUE_WEIGHT, component, task);
    }

    fn spawn_weighing(&mut self, weight: u32, component: ComponentId, task: impl Task) {
        self.spawn_as(TaskSpec { weight, ..self.spec(component) }, task);
    }

    /// Starts the task that joins the output of the parts of a component; the collector of a split has a site
    /// of its own.
    fn spawn_collector(&mut self, weight: u32, of: ComponentId, task: impl Task) {
        let component = self.shared.program.get(of).collector();
        self.spawn_as(TaskSpec { weight, component, ..self.spec(of) }, task);
    }

    fn spawn_as(&mut self, spec: TaskSpec, task: impl Task) {
        match &mut self.place {
            Place::Starting(runtime) => runtime.spawn(spec, task),
            Place::Running(cx) => cx.spawn(spec, task),
        };
    }

    fn spec(&self, component: ComponentId) -> TaskSpec {
        let component = self.shared.program.get(component).site;
        self.around.task(component, self.parent, self.replica)
    }

    /// Unfolds a component that reads `input`, on this node or on the node where it is placed; returns its
    /// output.
    pub(crate) fn unfold(
        &mut self,
        id: ComponentId,
        instance: &Option<Arc<Instance>>,
        input: In<Record>,
    ) -> In<Record> {
        match self.away(id) {
            Some(node) => self.unfold_away(node, &[id], instance, input),
            None => self.unfold_here(id, instance, input),
        }
    }

    /// The node that a component is placed on, if it is another node than this one.
    fn away(&self, id: ComponentId) -> Option<usize> {
        self.shared.nodes.as_ref()?.away(id)
    }

    /// Unfolds components in series. Adjacent components on the same other node become one part there.
    pub(crate) fn unfold_series(
        &mut self,
        parts: &[ComponentId],
        instance: &Option<Arc<Instance>>,
        mut input: In<Record>,
    ) -> In<Record> {
        let mut rest = parts;
        while let Some(first) = rest.first() {
            let node = self.away(*first);
            let count = match node {
                Some(_) => rest.iter().take_while(|part| self.away(**part) == node).count(),
                None => 1,
            };
            let (part, behind) = rest.split_at(count);
            input = match node {
                Some(node) => self.unfold_away(node, part, instance, input),
                None => self.unfold_here(*first, instance, input),
            };
            rest = behind;
        }
        input
    }

    /// Opens components in series on another node.
    pub(crate) fn unfold_away(
        &mut self,
        node: usize,
        parts: &[ComponentId],
        instance: &Option<Arc<Instance>>,
        input: In<Record>,
    ) -> In<Record> {
        let shared = self.shared;
        let (Some(nodes), Some(&id)) = (&shared.nodes, parts.first()) else { return input };
        let position = Position { shared: shared.clone(), component: id, instance: instance.clone() };
        let tracked = self.around.ordered || nodes.elsewhere.gives_back();
        let (instance, replica) = (instance.clone(), self.replica);
        let opening = Opening { parts: parts.to_vec(), instance, replica, ordered: tracked };
        let path = position.path();
        let away = Away { position, elsewhere: nodes.elsewhere.clone(), node, opening, tracked };
        let (out, output) = self.stream();
        let (sender, receiver, under_way) = nodes::tasks(away, input, out);
        nodes.note_open(node, path, &under_way);
        self.spawn_blocking(id, |blocking| receiver.run(blocking));
        self.spawn_blocking(id, |blocking| sender.run(blocking));
        output
    }

    /// Unfolds a part that another node has opened, between the links from and to that node.
    pub(crate) fn unfold_opened(&mut self, opening: &Opening, from: Box<dyn FromNode>, to: Box<dyn ToNode>) {
        let Some(&id) = opening.parts.first() else { return };
        let position =
            Position { shared: self.shared.clone(), component: id, instance: opening.instance.clone() };
        let (out, entered) = self.stream();
        let left = self.unfold_series(&opening.parts, &opening.instance, entered);
        self.spawn_blocking(id, move |blocking| nodes::leave(blocking, &position, left, to));
        self.spawn_blocking(id, move |blocking| nodes::enter(blocking, from, out));
    }

    fn unfold_here(
        &mut self,
        id: ComponentId,
        instance: &Option<Arc<Instance>>,
        input: In<Record>,
    ) -> In<Record> {
        let shared = self.shared;
        let position = Position { shared: shared.clone(), component: id, instance: instance.clone() };
        match &shared.program.get(id).kind {
            Kind::Serial(parts) => self.unfold_series(parts, instance, input),
            Kind::Shielded(shield, parts) => {
                let (out, entered) = self.stream();
                self.spawn(id, ShieldTask::new(position.clone(), shield.clone(), End::Entry, input, out));
                let left = self.unfold_series(parts, instance, entered);
                let (out, output) = self.stream();
                self.spawn(id, ShieldTask::new(position, shield.clone(), End::Exit, left, out));
                output
            }
            Kind::Box(part) => self.unfold_box(position, part, input),
            Kind::Command(part) => self.unfold_command(position, part, input),
            Kind::Filter(filter) => {
                let (out, output) = self.stream();
                self.spawn(id, FilterTask::new(position, filter.clone(), input, out));
                output
            }
            Kind::Synchrocell(patterns, joins) => {
                let (out, output) = self.stream();
                let cell = CellTask::new(position, patterns.clone(), joins.clone(), input, out);
                self.spawn(id, cell);
                self.handed_over.push(output.id());
                output
            }
            Kind::Parallel { branches, router, deterministic } => {
                self.unfold_parallel(position, (branches, router), *deterministic, input)
            }
            Kind::Star { body, exits, deterministic, folds } => {
                self.unfold_star(position, (*body, exits), (*deterministic, *folds), input)
            }
            Kind::Feedback { body, backs } => {
                let (body_in, entered) = self.stream();
                let body_out = self.in_order(|unfolding| unfolding.unfold(*body, instance, entered));
                let (out, output) = self.stream();
                let body = (body_in, body_out);
                self.spawn(id, FeedbackTask::new(position, backs.clone(), input, out, body));
                output
            }
            Kind::Split { body, choice, deterministic, folds } => {
                self.unfold_split(position, (*body, *choice), (*deterministic, *folds), input)
            }
            // In a session of several nodes, the placement chose the node earlier, and it chose this node.
            Kind::Placed { body, .. } if shared.nodes.is_some() => self.unfold(*body, instance, input),
            Kind::Placed { body, number } => {
                let before = std::mem::replace(&mut self.around.place, placed_at(*number));
                let output = self.unfold(*body, instance, input);
                self.around.place = before;
                output
            }
        }
    }

    fn unfold_box(&mut self, position: Position, part: &Arc<BoxPart>, input: In<Record>) -> In<Record> {
        let (id, blocking, starts) = (position.component, part.is_blocking, part.input.is_none());
        let (out, output) = self.stream();
        let task = BoxTask::new(position, part.clone(), input, out);
        match () {
            () if starts => self.spawn(id, InitialiserTask::new(task)),
            () if blocking => self.spawn_blocking(id, |blocking| task.run_blocking(blocking)),
            () => self.spawn_weighing(BOX_WEIGHT, id, task),
        }
        output
    }

    fn unfold_command(
        &mut self,
        position: Position,
        part: &Arc<CommandPart>,
        input: In<Record>,
    ) -> In<Record> {
        let id = position.component;
        let (out, output) = self.stream();
        if part.mode == CommandMode::Each {
            let each = command::task(position, part.clone(), input, out);
            self.spawn_blocking(id, |blocking| each.run(blocking));
            return output;
        }
        let (sent, outstanding) = self.side_stream(Some(OUTSTANDING_MAX));
        let (feeder, answerer) = command::tasks(position, part.clone(), (input, sent), (outstanding, out));
        self.spawn_blocking(id, |blocking| answerer.run(blocking));
        self.spawn_blocking(id, |blocking| feeder.run(blocking));
        output
    }

    fn unfold_parallel(
        &mut self,
        position: Position,
        (branches, router): (&[ComponentId], &Router),
        deterministic: bool,
        input: In<Record>,
    ) -> In<Record> {
        let (id, instance) = (position.component, position.instance.clone());
        let (outs, ins): (Vec<_>, Vec<_>) = branches.iter().map(|_| self.stream()).unzip();
        let pairs = branches.iter().zip(ins);
        if deterministic || self.around.ordered {
            let (turns, turns_in) = self.side_stream(None);
            self.spawn(id, OrderedParallel::new(position, router.clone(), input, outs, turns));
            let outputs = self.in_order(|unfolding| {
                pairs.map(|(branch, input)| unfolding.unfold(*branch, &instance, input)).collect()
            });
            return self.collect_in_order(GLUE_WEIGHT, id, turns_in, outputs);
        }
        self.spawn(id, ParallelDispatcher::new(position, router.clone(), input, outs));
        let outputs: Vec<_> = pairs.map(|(branch, input)| self.unfold(*branch, &instance, input)).collect();
        self.collect(GLUE_WEIGHT, id, outputs)
    }

    fn unfold_star(
        &mut self,
        position: Position,
        (body, exits): (ComponentId, &[Pattern]),
        (deterministic, folds): (bool, bool),
        input: In<Record>,
    ) -> In<Record> {
        let id = position.component;
        if let Kind::Synchrocell(patterns, _) = &self.shared.program.get(body).kind {
            let (out, output) = self.stream();
            self.spawn(id, CellStar::new(position, patterns.clone(), exits.to_vec(), input, out));
            return output;
        }
        let exits = Exits::new(exits);
        let (exit, exit_input) = self.stream();
        if deterministic || self.around.ordered {
            let body = (body, Around { ordered: true, ..self.around.later() }, folds);
            self.spawn(id, OrderedExit::new(Exit::new(position, body, exits, input, exit)));
            let (out, output) = self.stream();
            self.spawn_collector(REPLICAS_WEIGHT, id, ExitCollector::new(exit_input, out));
            return output;
        }
        let body = (body, self.around.later(), folds);
        self.spawn(id, StarExit::new(Exit::new(position, body, exits, input, exit)));
        self.collect(REPLICAS_WEIGHT, id, vec![exit_input])
    }

    fn unfold_split(
        &mut self,
        position: Position,
        (body, choice): (ComponentId, SplitChoice),
        (deterministic, folds): (bool, bool),
        input: In<Record>,
    ) -> In<Record> {
        let id = position.component;
        let spread = self.spread(choice.placed);
        if deterministic || self.around.ordered {
            let around = Around { ordered: true, ..self.around.later() };
            let body = (body, around, spread.clone());
            let (turns, turns_in) = self.side_stream(None);
            self.spawn(id, OrderedSplit::new(position, body, choice, folds, input, turns));
            let (out, output) = self.stream();
            let collector = OrderedCollector::new(turns_in, Vec::new(), out);
            self.spawn_collector(REPLICAS_WEIGHT, id, collector.of(spread));
            return output;
        }
        let (announcements, announced) = self.stream();
        let body = (body, self.around.later(), spread.clone());
        self.spawn(id, SplitDispatcher::new(position, body, choice, folds, input, announcements));
        let (out, output) = self.stream();
        self.spawn_collector(REPLICAS_WEIGHT, id, Collector::new([announced], out).of(spread));
        output
    }

    /// How a split distributes its replicas over workers, unless the network's text gives their places.
    fn spread(&mut self, is_placed: bool) -> Spread {
        if is_placed || self.around.place != Placement::ANYWHERE {
            return Spread::default();
        }
        match &mut self.place {
            Place::Starting(runtime) => runtime.spread(),
            Place::Running(cx) => cx.spread(),
        }
    }

    /// Unfolds the inside of a deterministic combinator or a loop.
    fn in_order<R>(&mut self, unfold: impl FnOnce(&mut Self) -> R) -> R {
        let before = std::mem::replace(&mut self.around.ordered, true);
        let unfolded = unfold(self);
        self.around.ordered = before;
        unfolded
    }

    fn collect_in_order(
        &mut self,
        weight: u32,
        id: ComponentId,
        turns: In<Turn>,
        inputs: Vec<In<Record>>,
    ) -> In<Record> {
        let (out, output) = self.stream();
        self.spawn_collector(weight, id, OrderedCollector::new(turns, inputs, out));
        output
    }

    fn collect(&mut self, weight: u32, id: ComponentId, inputs: Vec<In<Record>>) -> In<Record> {
        let (out, output) = self.stream();
        self.spawn_collector(weight, id, Collector::new(inputs, out));
        output
    }
}
