//! A verdict, as data and in words.
//!
//! A [`Finding`] contains no sentences: it names the rule, the component, task, worker or stream concerned,
//! the figures, and actions in a form that a program can apply. [`Words`] express the same finding in
//! sentences.

use serde::{Deserialize, Serialize};

use super::{Alternative, Hanging, Stream, Task, WaitNow, Worker};
use crate::ids::{TaskId, WorkerId};

/// What limits the flow: the finding as data and in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// The finding in words.
    #[serde(flatten)]
    pub words: Words,
    /// The share of a bootstrap's samples that gave the same finding, each sample drawn from parts of the
    /// run; null if the parts could not be analysed.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// The findings of the bootstrap's other samples, most frequent first.
    #[serde(default)]
    pub alternatives: Vec<Alternative>,
}

impl Verdict {
    /// A verdict from a finding and its words. The confidence is not known yet.
    pub fn of(finding: Finding, words: Words) -> Verdict {
        Verdict { finding, words, confidence: None, alternatives: Vec::new() }
    }
}

/// What a rule found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind of limit.
    pub kind: VerdictKind,
    /// The rule that made the finding: the name of its file in `monitor/src/verdict/rules`. Later versions
    /// may add rules.
    #[serde(default)]
    pub rule: String,
    /// The component, if the finding is about a component.
    pub component: Option<String>,
    /// The worker, if the finding is about a worker.
    pub worker: Option<WorkerId>,
    /// The task, if the finding is about a task.
    #[serde(default)]
    pub task: Option<TaskRef>,
    /// The streams, if the finding is about the streams between two components.
    #[serde(default)]
    pub stream: Option<StreamRef>,
    /// The figures that the finding is based on.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Actions that a program can apply; an action that only a person can take is stated in the suggestion
    /// alone.
    #[serde(default)]
    pub actions: Vec<Action>,
}

/// A finding in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// The finding as a sentence.
    pub text: String,
    /// The figures that the finding is based on, in words.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// The suggestion.
    #[serde(default)]
    pub suggestion: Option<String>,
}

/// A task, by its id and its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRef {
    /// The task's id.
    pub id: TaskId,
    /// The path of the task's component, and the number of the replica in brackets if the component has
    /// several tasks.
    pub name: String,
}

/// The streams of one name between two components.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRef {
    /// The name of the streams; if they have none, `writer → reader`.
    pub name: String,
    /// Path of the component that writes.
    pub writer: Option<String>,
    /// Path of the component that reads.
    pub reader: Option<String>,
}

/// A number that a finding is based on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The name of the measured quantity, such as `busy`. The names `wait` and `hangs` may occur several
    /// times in a finding, once for each wait and each hanging thread; other names occur once.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit: `share` (a fraction of 1), `ns`, `times`, or the things counted, such as `messages`.
    pub unit: String,
    /// What the figure is about; null if it is about the whole run.
    #[serde(default)]
    pub of: Option<Subject>,
}

/// The subject of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A component, by its path.
    Component(String),
    /// A task.
    Task(TaskRef),
    /// A worker.
    Worker(WorkerId),
    /// The streams between two components.
    Stream(StreamRef),
    /// The wait of a task for another task.
    Wait(WaitNow),
    /// A task whose thread hangs.
    Hanging(Hanging),
    /// A node, by its name.
    Node(String),
}

/// An action against the limit, in a form that a program can apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A setting gets another value.
    Set(NewValue),
    /// The program is called with other arguments.
    Run(CommandLine),
}

/// A setting and its new value: the arguments of `thalweg set`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewValue {
    /// The setting's name, or `task/N.worker`, which `thalweg set` accepts as well. In a report on several
    /// spaces, the setting is one of the space to which the finding's task or worker belongs.
    pub setting: String,
    /// The value, as it is written.
    pub value: String,
    /// The predicted growth of the flow as a share of 1, if known.
    pub gain: Option<f64>,
}

/// A command of `thalweg` with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandLine {
    /// The command. If the command is `run`, the arguments are options that are added to those with which the
    /// run was started.
    pub command: String,
    /// The arguments after the command.
    pub arguments: Vec<String>,
    /// The predicted growth of the flow as a share of 1, if known.
    pub gain: Option<f64>,
}

/// The kind of limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// A task is busy nearly all the time.
    Task,
    /// One replica of a component is slower than the others, or receives more messages.
    Replica,
    /// A component writes many messages for each it reads, and the component that reads them is busy nearly
    /// all the time.
    Burst,
    /// A component unfolds into very many tasks, each of which does hardly any work.
    Grain,
    /// All workers are busy nearly all the time, about evenly; or one worker is busy nearly all the time, and
    /// tasks that others wait for are ready on it behind a long task.
    Worker,
    /// A worker is busy nearly all the time while others are not, and moving a task would help.
    Mapping,
    /// A stream can hold too few messages, so that its writer and its reader wait in turn; or too few
    /// messages may be in flight.
    Capacity,
    /// Dispatches are so short that the workers spend much of their time changing tasks.
    Quantum,
    /// The output of several branches, rounds or replicas is kept in order, and the output waits for one of
    /// these.
    Order,
    /// A worker was runnable but had a processor only part of the time, because other processes ran there or
    /// the run's quota was used up.
    Contention,
    /// The network waits for its input.
    Source,
    /// The network waits for its output to be taken.
    Sink,
    /// The sources rest because of a command.
    Paused,
    /// Tasks wait for one another in a circle, by their streams or by locks in their boxes.
    Deadlock,
    /// The run makes no progress, because a box waits for an event that does not happen.
    Hang,
    /// The disk that keeps the run's events was full, and the run waited for it.
    Disk,
    /// Records wait for the bandwidth of the links to another node.
    Link,
    /// Records wait for a port of the links to other nodes.
    Port,
    /// Another node takes records more slowly than they come.
    Node,
    /// The network keeps up with its source, because the source is slower than the network.
    Nothing,
    /// No task or worker is busy nearly all the time.
    Unclear,
    /// The mode of recording records too little for a verdict.
    Unknown,
}

impl Finding {
    /// A finding of this kind, without a rule, a subject, figures and actions.
    pub fn new(kind: VerdictKind) -> Finding {
        Finding {
            kind,
            rule: String::new(),
            component: None,
            worker: None,
            task: None,
            stream: None,
            figures: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// The finding with this task and the task's component as its subject.
    pub fn about_task(self, task: &Task) -> Finding {
        let task = TaskRef::from(task);
        Finding { component: Some(task.component().to_owned()), task: Some(task), ..self }
    }

    /// The finding with the component of this path as its subject.
    pub fn about_component(self, path: &str) -> Finding {
        Finding { component: Some(path.to_owned()), ..self }
    }

    /// The finding with this worker as its subject.
    pub fn on_worker(self, worker: WorkerId) -> Finding {
        Finding { worker: Some(worker), ..self }
    }

    /// Adds a figure that the finding is based on.
    pub fn with(mut self, figure: impl Into<Option<Figure>>) -> Finding {
        self.figures.extend(figure.into());
        self
    }

    /// Adds an action.
    pub fn so(mut self, action: Action) -> Finding {
        self.actions.push(action);
        self
    }

    /// The figure with this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// The value of the figure of this name; NaN if there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.figure(name).map_or(f64::NAN, |figure| figure.value)
    }
}

impl Figure {
    /// A figure whose subject is the whole run.
    pub fn new(name: &str, value: f64, unit: &str) -> Figure {
        Figure { name: name.to_owned(), value, unit: unit.to_owned(), of: None }
    }

    /// A figure that is a share from 0 to 1.
    pub fn share(name: &str, value: f64) -> Figure {
        Figure::new(name, value, "share")
    }

    /// The figure with this subject.
    pub fn of(self, subject: impl Into<Subject>) -> Figure {
        Figure { of: Some(subject.into()), ..self }
    }
}

impl Action {
    /// The action that gives a setting this value.
    pub fn set(setting: &str, value: impl ToString) -> Action {
        Action::Set(NewValue { setting: setting.to_owned(), value: value.to_string(), gain: None })
    }

    /// The action that calls the program with these arguments.
    pub fn run(command: &str, arguments: &[&str]) -> Action {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Action::Run(CommandLine { command: command.to_owned(), arguments, gain: None })
    }

    /// The action with the predicted growth of the flow.
    pub fn gaining(mut self, part: f64) -> Action {
        match &mut self {
            Action::Set(NewValue { gain, .. }) | Action::Run(CommandLine { gain, .. }) => *gain = Some(part),
        }
        self
    }

    /// The predicted growth of the flow as a share of 1, if known.
    pub fn gain(&self) -> Option<f64> {
        match self {
            Action::Set(NewValue { gain, .. }) | Action::Run(CommandLine { gain, .. }) => *gain,
        }
    }
}

/// Displays the command line that applies the action to the newest run.
impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::Set(NewValue { setting, value, .. }) => write!(f, "thalweg set {setting} {value}"),
            Action::Run(CommandLine { command, arguments, .. }) => {
                write!(f, "thalweg {command}")?;
                arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
            }
        }
    }
}

impl TaskRef {
    /// The path of the task's component: the task's name without the replica.
    pub fn component(&self) -> &str {
        component_of(&self.name)
    }
}

/// The path of a task's component, from the task's name.
pub(crate) fn component_of(task: &str) -> &str {
    task.split('[').next().unwrap_or(task)
}

impl From<&Task> for TaskRef {
    fn from(task: &Task) -> TaskRef {
        TaskRef { id: task.id, name: task.name.clone() }
    }
}

impl From<&Stream> for StreamRef {
    fn from(stream: &Stream) -> StreamRef {
        let Stream { name, writer, reader, .. } = stream;
        StreamRef { name: name.clone(), writer: writer.clone(), reader: reader.clone() }
    }
}

impl From<&Task> for Subject {
    fn from(task: &Task) -> Subject {
        Subject::Task(task.into())
    }
}

impl From<&Stream> for Subject {
    fn from(stream: &Stream) -> Subject {
        Subject::Stream(stream.into())
    }
}

impl From<&Worker> for Subject {
    fn from(worker: &Worker) -> Subject {
        Subject::Worker(worker.id)
    }
}

/// Displays the name of a figure's subject.
impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Component(path) => f.write_str(path),
            Subject::Task(task) => f.write_str(&task.name),
            Subject::Worker(worker) => write!(f, "worker {worker}"),
            Subject::Stream(stream) => f.write_str(&stream.name),
            Subject::Wait(wait) => f.write_str(&wait.name),
            Subject::Hanging(hanging) => f.write_str(&hanging.name),
            Subject::Node(name) => write!(f, "node {name}"),
        }
    }
}
