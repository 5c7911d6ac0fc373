//! A case in the runtime, compared with the interpreter.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use thalweg_chance::Chance;
use thalweg_exec::{Context, In, Mode, Options, Out, Ports, Runtime, Stop, Task, TaskSpec};
use thalweg_net::check::{Resolved, check_text};
use thalweg_net::label::LabelKind;
use thalweg_net::record::Record;
use thalweg_net::run::{StartOptions, Ties};
use thalweg_net::syntax::ast::Label;
use thalweg_net::{Boxes, Network, Value, json};
use thalweg_space::{ElementOptions, Setting, SettingSpec, Space, SpaceOptions};

use crate::boxes::boxes;
use crate::generator::Case;
use crate::nodes::{Others, Town};
use crate::oracle::{Fault, Labels, Outcome, has_cells, outcomes};
use crate::routes::Routes;

/// The interval of the watch, and the number of times that it may see the same case before the case counts as
/// hanging. The watch counts how often it looks, and does not measure time, because the process may be
/// stopped meanwhile.
const LOOK: Duration = Duration::from_millis(500);
const LOOKS_MAX: u32 = 240;

#[derive(Debug)]
pub(crate) enum Verdict {
    Right,
    /// The case has more outcomes than the interpreter follows, or does not end.
    TooMuch,
    /// The check refuses the network.
    Refused,
    Wrong(String),
}

impl Verdict {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Verdict::Right => "right",
            Verdict::TooMuch => "too much",
            Verdict::Refused => "refused",
            Verdict::Wrong(_) => "wrong",
        }
    }

    pub(crate) fn is_wrong(&self) -> bool {
        matches!(self, Verdict::Wrong(_))
    }
}

/// How a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Over several nodes.
    OverNodes,
    /// `net.fuse` changes while it runs.
    Switched,
}

/// Runs a case on one or two workers, with wide or narrow streams, and ties according to `options`.
pub(crate) fn try_case(case: &Case, options: u64) -> Verdict {
    try_with(boxes(), case, options)
}

/// Runs a case over several nodes.
pub(crate) fn try_over_nodes(case: &Case, options: u64) -> Verdict {
    try_on(boxes(), case, options, Kind::OverNodes)
}

/// Runs a case while `net.fuse` is switched on and off again and again; the run records everything or
/// nothing.
pub(crate) fn try_switched(case: &Case, options: u64) -> Verdict {
    try_on(boxes(), case, options, Kind::Switched)
}

/// Runs a case with other boxes.
pub(crate) fn try_with(boxes: &Boxes, case: &Case, options: u64) -> Verdict {
    try_on(boxes, case, options, Kind::Plain)
}

fn try_on(boxes: &Boxes, case: &Case, seed: u64, kind: Kind) -> Verdict {
    let _begun = begin(case);
    let Some(resolved) = check_text("main", &case.net, Some(&boxes.known())).resolved else {
        return Verdict::Refused;
    };
    let records: Vec<Record> =
        case.records.iter().map(|r| json::read_record(r.as_bytes()).unwrap()).collect();
    let input: Vec<Labels> = records.iter().map(labels_of).collect();
    let options = options_of(seed);
    let Some((ordered, allowed)) = allowed(&resolved, &input, options.1.ties) else {
        return Verdict::TooMuch;
    };
    let Ok(network) = Network::parse("main", &case.net, boxes) else { return Verdict::Refused };
    let (workers, capacity) = (options.0.workers, options.0.capacity);
    let mut outcome = match kind {
        Kind::Plain => run(&network, records, options, None),
        Kind::OverNodes => run(&network, records, options, Some(Town::new(seed))),
        Kind::Switched => run_switched(&network, records, options, seed),
    };
    if !ordered {
        outcome.out.sort();
    }
    if allowed.contains(&outcome) {
        return Verdict::Right;
    }
    Verdict::Wrong(format!(
        "{workers} workers, streams of {capacity}: the runtime gave\n{}\nwhich is none of {} outcomes{}, such as\n{}",
        shown(&outcome),
        allowed.len(),
        if ordered { " in order" } else { "" },
        allowed.first().map_or_else(String::new, shown),
    ))
}

fn shown(outcome: &Outcome) -> String {
    let record = |labels: &Labels| {
        let items: Vec<String> = labels.iter().map(|(label, value)| format!("{label}: {value}")).collect();
        format!("  {{{}}}\n", items.join(", "))
    };
    format!("{}  failed: {:?}", outcome.out.iter().map(record).collect::<String>(), outcome.failed)
}

/// The possible outcomes, and whether they include the order of records.
fn allowed(resolved: &Resolved, input: &[Labels], ties: Ties) -> Option<(bool, BTreeSet<Outcome>)> {
    let routes = Routes::of(resolved);
    if let Ok(outcomes) = outcomes(resolved, &routes, input, true, ties) {
        return Some((true, outcomes));
    }
    if has_cells(resolved) {
        return None;
    }
    Some((false, outcomes(resolved, &routes, input, false, ties).ok()?))
}

fn labels_of(record: &Record) -> Labels {
    let slots = record.shape().labels().iter().zip(record.slots());
    let pair = |(label, value): (&thalweg_net::label::Label, &Value)| {
        let name = label.name();
        let label = match label.kind() {
            LabelKind::Field => Label::field(name),
            LabelKind::Tag => Label::tag(name),
            LabelKind::BindingTag => Label::binding(name),
        };
        let Value::Int(value) = value else { panic!("{label} is no integer: {value:?}") };
        (label, *value)
    };
    slots.map(pair).collect()
}

fn fault(reason: &str) -> Fault {
    let starts = [
        ("no branch takes", Fault::NoBranch),
        ("the range", Fault::EmptyRange),
        ("the record matches no declared input", Fault::Undeclared),
        ("the synchrocell still waits for", Fault::HeldBack),
    ];
    if reason.ends_with("which chooses the replica") {
        return Fault::NoReplica;
    }
    starts.iter().find(|(start, _)| reason.starts_with(start)).map_or(Fault::Other, |(_, fault)| *fault)
}

struct Feed {
    records: std::vec::IntoIter<Record>,
    next: Option<Record>,
    out: Out<Record>,
    switch: Option<Switch>,
}

impl Task for Feed {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.out);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        while let Some(record) = self.next.take().or_else(|| self.records.next()) {
            turn(&mut self.switch);
            if let Err(record) = self.out.push(cx, record) {
                self.next = Some(record);
                return Stop::OutputFull;
            }
        }
        Stop::Ended
    }
}

struct Drain {
    input: In<Record>,
    records: mpsc::Sender<Labels>,
    switch: Option<Switch>,
}

impl Task for Drain {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        while let Some(record) = self.input.pop(cx) {
            turn(&mut self.switch);
            self.records.send(labels_of(&record)).unwrap();
        }
        if self.input.ended() { Stop::Ended } else { Stop::InputEmpty }
    }
}

/// The setting `net.fuse` of a run.
#[derive(Clone)]
struct Switch {
    setting: Setting,
    chance: Chance,
}

/// The number of times that a case's `net.fuse` is set at random by a task of its own, besides the times at
/// each record.
const TURNS: u32 = 64;

impl Switch {
    fn of(space: &Space, seed: u64) -> Switch {
        let declared = SettingSpec { name: "net.fuse", ..SettingSpec::PLAIN };
        Switch { setting: space.setting(declared).unwrap(), chance: Chance::new(seed) }
    }
}

fn turn(switch: &mut Option<Switch>) {
    if let Some(Switch { setting, chance }) = switch {
        setting.cell().store(chance.below(2).to_le(), Ordering::Relaxed);
    }
}

/// A task that sets `net.fuse` at random in each of its dispatches, between those of the network's tasks.
struct Switching {
    switch: Option<Switch>,
    left: u32,
}

impl Task for Switching {
    fn run(&mut self, _: &mut Context<'_>) -> Stop {
        turn(&mut self.switch);
        self.left -= 1;
        if self.left == 0 { Stop::Ended } else { Stop::QuantumSpent }
    }
}

/// Runs a case in a space of its own, in mode `off` or `full`, while `net.fuse` changes.
fn run_switched(
    network: &Network,
    records: Vec<Record>,
    (options, limits): (Options, StartOptions),
    seed: u64,
) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let element = ElementOptions { block_bytes: 4096, block_count: 2, ..ElementOptions::default() };
    let space = SpaceOptions { path: Some(folder.path().join("space")), element, ..SpaceOptions::default() };
    let space = Space::create(space).unwrap();
    let mode = if (seed / 16).is_multiple_of(2) { Mode::Off } else { Mode::Full };
    run(network, records, (Options { space: Some(space), mode, ..options }, limits), None)
}

fn run(
    network: &Network,
    records: Vec<Record>,
    options: (Options, StartOptions),
    town: Option<Arc<Town>>,
) -> Outcome {
    let (out, errors) = run_records(network, records, options, town);
    let mut failed: Vec<Fault> = errors.iter().map(|reason| fault(reason)).collect();
    failed.sort_unstable();
    Outcome { out, failed }
}

fn run_records(
    network: &Network,
    records: Vec<Record>,
    (options, limits): (Options, StartOptions),
    town: Option<Arc<Town>>,
) -> (Vec<Labels>, Vec<String>) {
    let others = town.as_ref().map(|town| Others::serve(town, network, &options, limits));
    let runtime = Runtime::new(options).unwrap();
    let running = network.start_on(&runtime, limits, town.map(|town| town.node(0))).unwrap();
    let (sender, received) = mpsc::channel();
    let seed = records.len() as u64;
    let mut switches = (0..3).map(|which| runtime.space().map(|space| Switch::of(space, seed * 3 + which)));
    let mut switch = || switches.next().flatten();
    let feed = Feed { records: records.into_iter(), next: None, out: running.input, switch: switch() };
    runtime.spawn(TaskSpec::default(), feed);
    runtime.spawn(TaskSpec::default(), Drain { input: running.output, records: sender, switch: switch() });
    let switching = Switching { switch: switch(), left: TURNS };
    if switching.switch.is_some() {
        runtime.spawn(TaskSpec::default(), switching);
    }
    let summary = runtime.join().unwrap();
    assert_eq!(summary.failures, []);
    let mut failed: Vec<String> = running.errors.iter().map(|error| error.reason).collect();
    failed.extend(others.map(Others::end).unwrap_or_default());
    (received.iter().collect(), failed)
}

/// The output of a case, in order, and the reasons of failures.
pub(crate) fn shown_run(case: &Case, options: u64) -> (Vec<String>, Vec<String>) {
    let network = Network::parse("main", &case.net, boxes()).unwrap_or_else(|errors| {
        panic!("{}", errors.iter().map(|error| error.render(false)).collect::<String>());
    });
    let records = case.records.iter().map(|record| json::read_record(record.as_bytes()).unwrap()).collect();
    let _begun = begin(case);
    let (out, errors) = run_records(&network, records, options_of(options), None);
    (out.iter().map(|labels| format!("{labels:?}")).collect(), errors)
}

/// A record in JSON as [`shown_run`] shows it.
pub(crate) fn normal(record: &str) -> String {
    format!("{:?}", labels_of(&json::read_record(record.as_bytes()).unwrap()))
}

/// The bit of an option's number with which records are not handed on.
pub(crate) const NOT_FUSED: u64 = 8;

/// The options with this number: with two workers replicas are folded back as soon as possible; for numbers
/// from 4 on, free space decides ties; for numbers from 8 on, records are not handed on.
fn options_of(options: u64) -> (Options, StartOptions) {
    let (workers, capacity) = [(1, 64), (2, 1), (1, 1), (2, 3)][(options % 4) as usize];
    let mut limits = StartOptions::default();
    if workers == 2 {
        (limits.replicas, limits.fold_after) = (1, 1);
    }
    if options % 8 >= 4 {
        limits.ties = Ties::Demand;
    }
    limits.fuse = options & NOT_FUSED == 0;
    // With two workers each takes tasks from behind the other's call as soon as the call lasts a microsecond.
    (Options { workers, capacity, steal_after_us: 1, ..Options::default() }, limits)
}

impl Case {
    /// A smaller case that still fails.
    pub(crate) fn reduced(self, fails: impl Fn(&Case) -> bool) -> Case {
        let mut least = self;
        'smaller: loop {
            for at in 0..least.records.len() {
                let mut smaller = least.clone();
                smaller.records.remove(at);
                if fails(&smaller) {
                    least = smaller;
                    continue 'smaller;
                }
            }
            return least;
        }
    }
}

/// The running cases, and how often the watch saw each.
static RUNNING: Mutex<Vec<(thread::ThreadId, u32, String)>> = Mutex::new(Vec::new());

/// A case of this thread that runs until the value is dropped.
struct Begun;

fn begin(case: &Case) -> Begun {
    let running = (thread::current().id(), 0, case.to_string());
    RUNNING.lock().unwrap_or_else(|e| e.into_inner()).push(running);
    Begun
}

impl Drop for Begun {
    fn drop(&mut self) {
        let me = thread::current().id();
        RUNNING.lock().unwrap_or_else(|e| e.into_inner()).retain(|(thread, ..)| *thread != me);
    }
}

/// Ends the process with the text of a case that hangs.
pub(crate) fn watch() -> impl Drop {
    struct Watch(Arc<AtomicBool>);
    impl Drop for Watch {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let ended = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&ended);
    thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            let mut running = RUNNING.lock().unwrap_or_else(|e| e.into_inner());
            running.iter_mut().for_each(|(_, looks, _)| *looks += 1);
            if let Some((_, _, case)) = running.iter().find(|(_, looks, _)| *looks > LOOKS_MAX) {
                // `eprintln!` is not used, because the test harness captures its output.
                let _ = writeln!(std::io::stderr(), "This hangs:\n{case}");
                std::process::abort();
            }
        }
    });
    Watch(ended)
}
