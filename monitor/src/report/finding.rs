//! A verdict, as data and in words.
//!
//! A [`Finding`] holds no sentence: it says which rule found what, of which component, task, worker or stream, by which figures, and
//! what can be done in a form that can be applied as it is. [`Words`] are the same for a reader.

use serde::{Deserialize, Serialize};

use super::{Alternative, Hanging, Stream, Task, WaitNow, Worker};
use crate::ids::{TaskId, WorkerId};

/// What limits the flow: the finding, and the same in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// The same in words.
    #[serde(flatten)]
    pub words: Words,
    /// The share of a bootstrap's samples of parts of the run in which the same was found; null where the parts are not known.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// What was found in the other samples, most often first.
    #[serde(default)]
    pub alternatives: Vec<Alternative>,
}

impl Verdict {
    /// A finding in words, with unknown confidence.
    pub fn of(finding: Finding, words: Words) -> Verdict {
        Verdict { finding, words, confidence: None, alternatives: Vec::new() }
    }
}

/// What a rule found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind of limit.
    pub kind: VerdictKind,
    /// The rule that found it: its file in `monitor/src/verdict/rules`. More rules may come.
    #[serde(default)]
    pub rule: String,
    /// The component, if the finding is about one.
    pub component: Option<String>,
    /// The worker, if the finding is about one.
    pub worker: Option<WorkerId>,
    /// The task, if the finding is about one.
    #[serde(default)]
    pub task: Option<TaskRef>,
    /// The streams, if the finding is about those between two components.
    #[serde(default)]
    pub stream: Option<StreamRef>,
    /// The figures that it rests on.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// What can be done, in a form that can be applied; what only a person can do is in the suggestion alone.
    #[serde(default)]
    pub actions: Vec<Action>,
}

/// A finding in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// The sentence.
    pub text: String,
    /// The figures that it rests on, in words.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// What to do.
    #[serde(default)]
    pub suggestion: Option<String>,
}

/// A task, by its id and its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRef {
    /// Its id.
    pub id: TaskId,
    /// Its component's path, and its replica in brackets where there are several.
    pub name: String,
}

/// The streams of one name between two components.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRef {
    /// Their name, else `writer → reader`.
    pub name: String,
    /// Path of the component that writes.
    pub writer: Option<String>,
    /// Path of the component that reads.
    pub reader: Option<String>,
}

/// A number that a finding rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured, such as `busy`. Of several waits each has the name `wait`, of several threads that do not go on `hangs`; other names occur once in a finding.
    pub name: String,
    /// The value.
    pub value: f64,
    /// `share` (of 1), `ns`, `times` or what is counted, such as `messages`.
    pub unit: String,
    /// What the figure is of, if not of the whole run.
    #[serde(default)]
    pub of: Option<Subject>,
}

/// What a figure is of.
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
    /// A task's waiting for another.
    Wait(WaitNow),
    /// A task whose thread does not go on.
    Hanging(Hanging),
}

/// Something that can be done about the finding, in a form that can be applied.
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
    /// The setting's name, or `task/N.worker`, which `thalweg set` takes, too. In a report on several spaces it is of the space that
    /// the task or worker of the finding is of.
    pub setting: String,
    /// The value, as it is written.
    pub value: String,
    /// By which part the flow is predicted to grow, if that is known.
    pub gain: Option<f64>,
}

/// A command of `thalweg` with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandLine {
    /// The command. For `run` the arguments are options that are added to those the run was started with.
    pub command: String,
    /// The arguments after the command.
    pub arguments: Vec<String>,
    /// By which part the flow is predicted to grow, if that is known.
    pub gain: Option<f64>,
}

/// What kind of limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// A task is busy nearly all the time.
    Task,
    /// One replica of a component is slower than the others, or gets more to do.
    Replica,
    /// A component writes many messages for each it reads, and the component that reads them is busy nearly all the time.
    Burst,
    /// A component unfolds into very many tasks, each of which does next to nothing.
    Grain,
    /// All workers are busy nearly all the time, about evenly; or one is, on which tasks that others wait for are ready behind a long one.
    Worker,
    /// A worker is busy nearly all the time while others are not, and moving a task would help.
    Mapping,
    /// A stream holds too few messages, so that both its ends wait in turn; or too few messages may be under way.
    Capacity,
    /// Dispatches are so short that the workers spend much of their time changing tasks.
    Quantum,
    /// What several branches, rounds or replicas give is kept in order, and waits for one of them.
    Order,
    /// A worker could run, but had a processor only part of that time, because other processes had them or the run may not use more.
    Contention,
    /// The network waits for its input.
    Source,
    /// The network waits for its output to be taken.
    Sink,
    /// The sources rest because of a command.
    Paused,
    /// Tasks wait for one another in a circle, by their streams or by locks in their boxes.
    Deadlock,
    /// Nothing goes on, because a box waits for something that does not come.
    Hang,
    /// The disk that keeps the run's events was full, and the run waited for it.
    Disk,
    /// The network keeps up with its source, which takes its time.
    Nothing,
    /// Nothing is busy nearly all the time.
    Unclear,
    /// The mode does not record enough.
    Unknown,
}

impl Finding {
    /// A finding of this kind, with nothing else set.
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

    /// It is about this task, and so about its component.
    pub fn about_task(self, task: &Task) -> Finding {
        let task = TaskRef::from(task);
        Finding { component: Some(task.component().to_owned()), task: Some(task), ..self }
    }

    /// It is about the component with this path.
    pub fn about_component(self, path: &str) -> Finding {
        Finding { component: Some(path.to_owned()), ..self }
    }

    /// It is about this worker.
    pub fn on_worker(self, worker: WorkerId) -> Finding {
        Finding { worker: Some(worker), ..self }
    }

    /// It rests on this figure, too.
    pub fn with(mut self, figure: impl Into<Option<Figure>>) -> Finding {
        self.figures.extend(figure.into());
        self
    }

    /// Adds an action.
    pub fn so(mut self, action: Action) -> Finding {
        self.actions.push(action);
        self
    }

    /// The figure of this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// The value of the figure of this name; without one no number.
    pub fn value(&self, name: &str) -> f64 {
        self.figure(name).map_or(f64::NAN, |figure| figure.value)
    }
}

impl Figure {
    /// A figure of the whole run.
    pub fn new(name: &str, value: f64, unit: &str) -> Figure {
        Figure { name: name.to_owned(), value, unit: unit.to_owned(), of: None }
    }

    /// A part of a whole, from 0 to 1.
    pub fn share(name: &str, value: f64) -> Figure {
        Figure::new(name, value, "share")
    }

    /// What the figure is of.
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

    /// The same action, with the part by which the flow is predicted to grow.
    pub fn gaining(mut self, part: f64) -> Action {
        match &mut self {
            Action::Set(NewValue { gain, .. }) | Action::Run(CommandLine { gain, .. }) => *gain = Some(part),
        }
        self
    }

    /// By which part the flow is predicted to grow, if that is known.
    pub fn gain(&self) -> Option<f64> {
        match self {
            Action::Set(NewValue { gain, .. }) | Action::Run(CommandLine { gain, .. }) => *gain,
        }
    }
}

/// The command line that applies it to the newest run.
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
    /// Path of its component: its name without the replica.
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

/// The name of a figure's subject, in words.
impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Component(path) => f.write_str(path),
            Subject::Task(task) => f.write_str(&task.name),
            Subject::Worker(worker) => write!(f, "worker {worker}"),
            Subject::Stream(stream) => f.write_str(&stream.name),
            Subject::Wait(wait) => f.write_str(&wait.name),
            Subject::Hanging(hanging) => f.write_str(&hanging.name),
        }
    }
}
