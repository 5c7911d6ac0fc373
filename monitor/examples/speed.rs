//! Measures the speed of the analysis: `cargo run --release -p thalweg-monitor --example speed [SPACE]`.
//!
//! Without a space, the events of a chain of four one-to-one tasks and a filter are generated in memory, with
//! 64 messages a dispatch. With a space, the complete analysis from its files to the report is measured.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use thalweg_monitor::events::*;
use thalweg_monitor::*;

const TASKS: u64 = 6;
const QUANTUM: u64 = 64;

fn main() {
    if let Some(path) = std::env::args().nth(1) {
        let begun = Instant::now();
        match report_space(&path, 10) {
            Ok(report) => print_speed("from its files", report.window.events, begun),
            Err(error) => eprintln!("{error}"),
        }
        return;
    }
    let rounds: u64 = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(300_000);
    let script = script();
    let mut analysis = Analysis::new(Options { ns_per_tick: 0.4, top: 10 });
    for observation in &script.begin {
        analysis.observe(1, 0, observation);
    }
    let begun = Instant::now();
    let mut events = 0;
    for round in 0..rounds {
        for (n, observation) in script.round.iter().enumerate() {
            let time = 1000 + round * 10_000 + (n as u64 / 4) * 500;
            analysis.observe(time, 0, &shifted(observation, round));
        }
        events += script.round.len() as u64;
    }
    print_speed("observations", events, begun);
    let report = analysis.finish(&Names::default(), Ending::default());
    let latency = &report.latency;
    assert_eq!((latency.entered, latency.unattributed), (rounds * QUANTUM, 0));
}

fn print_speed(what: &str, events: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{what}: {events} events in {seconds:.3} s, {:.1} million a second, {:.0} ns each",
        events as f64 / seconds / 1e6,
        seconds * 1e9 / events as f64
    );
}

struct Script {
    begin: Vec<Observation>,
    /// The events of one dispatch of each task.
    round: Vec<Observation>,
}

fn script() -> Script {
    let (mut begin, mut round) = (Vec::new(), Vec::new());
    let mut push = |event: Observation| begin.push(event);
    for task in 1..=TASKS {
        let one_to_one = task != 1 && task != TASKS - 1;
        push(TaskCreated { task, component: 100 + task, one_to_one, ..TaskCreated::default() }.into());
        if task < TASKS {
            push(StreamOpened { stream: task, name: 0, reader: task + 1, writer: task, capacity: 64 }.into());
        }
    }
    push(Entry { stream: 1 }.into());
    push(Exit { stream: TASKS - 1 }.into());
    let mut push = |event: Observation| round.push(event);
    for task in 1..=TASKS {
        push(TaskDispatched { task, duration_ticks: 400, ..TaskDispatched::default() }.into());
        if task > 1 {
            push(StreamRead { stream: task - 1, first: 0, count: QUANTUM }.into());
        }
        if task < TASKS {
            let (stream, parent_stream) = (task, task - 1);
            push(StreamWrote { stream, first: 0, count: QUANTUM, ..StreamWrote::default() }.into());
            if task == TASKS - 1 {
                push(
                    Derived { stream, first: 0, count: QUANTUM, parent_stream, parent_first: 0, step: 1 }
                        .into(),
                );
            }
            push(TaskReady { task: task + 1, ..TaskReady::default() }.into());
        }
        push(TaskBlockedInput { task, stream: task.saturating_sub(1) }.into());
    }
    Script { begin, round }
}

/// The same observation for a later round: the indices of its messages are larger.
fn shifted(observation: &Observation, round: u64) -> Observation {
    let by = round * QUANTUM;
    match *observation {
        Observation::StreamRead(read) => StreamRead { first: read.first + by, ..read }.into(),
        Observation::StreamWrote(wrote) => StreamWrote { first: wrote.first + by, ..wrote }.into(),
        Observation::Derived(derived) => {
            let (first, parent_first) = (derived.first + by, derived.parent_first + by);
            Derived { first, parent_first, ..derived }.into()
        }
        other => other,
    }
}
