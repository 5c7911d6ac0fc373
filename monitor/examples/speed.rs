//! How fast the analysis is: `cargo run --release -p thalweg-monitor --example speed [SPACE]`.
//!
//! Without a space, a chain of four one-to-one tasks and a filter is made up in memory, 64 messages a dispatch. With
//! one, the whole way from its files to the report is measured.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use thalweg_monitor::*;

const TASKS: u64 = 6;
const QUANTUM: u64 = 64;

fn main() {
    if let Some(path) = std::env::args().nth(1) {
        let begun = Instant::now();
        match report_space(&path, 10) {
            Ok(report) => say("from its files", report.window.events, begun),
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
    say("observations", events, begun);
    let report = analysis.finish(&Names::default(), Ending::default());
    let latency = &report.latency;
    assert_eq!((latency.entered, latency.unattributed), (rounds * QUANTUM, 0));
}

fn say(what: &str, events: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{what}: {events} events in {seconds:.3} s, {:.1} million a second, {:.0} ns each",
        events as f64 / seconds / 1e6,
        seconds * 1e9 / events as f64
    );
}

struct Script {
    begin: Vec<Observation>,
    /// One dispatch of each task.
    round: Vec<Observation>,
}

fn script() -> Script {
    let mut begin = Vec::new();
    let mut round = Vec::new();
    for task in 1..=TASKS {
        let one_to_one = task != 1 && task != TASKS - 1;
        begin.push(Observation::TaskCreated {
            task,
            component: 100 + task,
            parent: 0,
            replica: 0,
            one_to_one,
            blocking: false,
        });
        if task < TASKS {
            begin.push(Observation::StreamOpened {
                stream: task,
                name: 0,
                reader: task + 1,
                writer: task,
                capacity: 64,
            });
        }
    }
    begin.push(Observation::Entry { stream: 1 });
    begin.push(Observation::Exit { stream: TASKS - 1 });
    for task in 1..=TASKS {
        round.push(Observation::TaskDispatched { task, worker: 0, duration: 400 });
        if task > 1 {
            round.push(Observation::StreamRead(Run { stream: task - 1, first: 0, count: QUANTUM }));
        }
        if task < TASKS {
            let child = Run { stream: task, first: 0, count: QUANTUM };
            round.push(Observation::StreamWrote(child));
            if task == TASKS - 1 {
                round.push(Observation::Derived(Derived {
                    child,
                    parent_stream: task - 1,
                    parent_first: 0,
                    step: 1,
                }));
            }
            round.push(Observation::TaskReady { task: task + 1, by_stream: 0 });
        }
        round.push(Observation::BlockedInput { task, stream: task.saturating_sub(1) });
    }
    Script { begin, round }
}

/// The observation with the indices of a later round.
fn shifted(observation: &Observation, round: u64) -> Observation {
    let by = round * QUANTUM;
    let shift = |run: Run| Run { first: run.first + by, ..run };
    match *observation {
        Observation::StreamRead(run) => Observation::StreamRead(shift(run)),
        Observation::StreamWrote(run) => Observation::StreamWrote(shift(run)),
        Observation::Derived(derived) => Observation::Derived(Derived {
            child: shift(derived.child),
            parent_first: derived.parent_first + by,
            ..derived
        }),
        other => other,
    }
}
