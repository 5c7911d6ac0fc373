//! Group `accounts`: the processor time of a run whose busy time is accounted for (threads are sampled in `/proc`,
//! and thread clocks are read at the end of long dispatches), and of a run whose records are timed and described,
//! each against the same run without.

use crate::cores::on_cores;
use crate::farm::{turned, turns};
use crate::measure::{Case, Contestant, Goal};
use crate::observed::{self, Observed};
use std::hint::black_box;
use thalweg_box::{Out, Value};
use thalweg_exec::{Mode, Options, TaskSpec};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::{Boxes, Network};
use thalweg_space::reader::SpaceReader;

/// The number of boxes in a row.
const ROW: u64 = 4;
/// The time that all boxes of a run compute, in nanoseconds.
const RUN_NS: u64 = 400_000_000;
/// The accounts of busy time may add 0.3 % to the processor time of a run.
const ACCOUNTS: Goal = Goal::RatioAtMost(1.003);
/// Timing and describing records may take one percent (`exec.clock_budget`).
const RECORDS: Goal = Goal::RatioAtMost(1.01);

pub(crate) fn cases() -> Vec<Case<'static>> {
    let of = |mode, record_ns: u64, name: &str, parts, goal| Case {
        group: "accounts",
        name: format!("four boxes in a row, {name}"),
        params: vec![
            ("a record takes", format!("{} µs", record_ns / 1000)),
            ("workers", "1".into()),
            ("mode", observed::name(mode).into()),
        ],
        unit: "ms",
        ours: contestant("with", (mode, record_ns), parts),
        rivals: Vec::new(),
        limit: Some(contestant("without", (mode, record_ns), Parts { threads: false, records: false })),
        goal,
    };
    let both = |mode, record_ns| {
        let threads = Parts { threads: true, records: false };
        let records = Parts { threads: false, records: true };
        [
            of(mode, record_ns, "accounts of busy time", threads, ACCOUNTS),
            of(mode, record_ns, "records timed and described", records, RECORDS),
        ]
    };
    let of_mode =
        |mode| [5_000, 50_000, 2_000_000].into_iter().flat_map(move |record_ns| both(mode, record_ns));
    [Mode::Full, Mode::Metrics].into_iter().flat_map(of_mode).collect()
}

/// The parts of the accounts that a run measures.
#[derive(Clone, Copy)]
struct Parts {
    /// Whether threads are sampled and the processor time of long dispatches is measured.
    threads: bool,
    /// Whether records are timed and described, and the sizes of some are measured (`exec.clock_budget`).
    records: bool,
}

fn contestant(name: &'static str, (mode, record_ns): (Mode, u64), parts: Parts) -> Contestant<'static> {
    let turns = turns(record_ns);
    let compute =
        move |x: i64, k: i64, out: &mut Out| out.emit((black_box(turned(x as u64, turns)) as i64, k));
    let boxes = Boxes::new().with("box work ((x, <k>) -> (x, <k>))", compute);
    let row = ["work"; ROW as usize].join(" .. ");
    let text = format!("net course {{ box work ((x, <k>) -> (x, <k>)); }} connect {row};");
    match Network::parse("course", &text, &boxes) {
        Ok(network) => Contestant::new(name, "", move || {
            on_cores(1, || processor_ms(&network, mode, RUN_NS / (ROW * record_ns), parts))
        }),
        Err(wrong) => {
            let told: String = wrong.iter().map(|diagnostic| diagnostic.render(false)).collect();
            Contestant::missing(name, "", told)
        }
    }
}

/// The processor time of all threads in a run of this number of records, in milliseconds.
fn processor_ms(network: &Network, mode: Mode, records: u64, parts: Parts) -> Result<f64, String> {
    let observed =
        Observed::with(Options { workers: 1, mode, accounts: parts.threads, ..Options::default() })?;
    if !parts.records {
        let reader = SpaceReader::open(observed.path()).map_err(|error| error.to_string())?;
        reader.set("exec.clock_budget", 0).map_err(|error| error.to_string())?;
    }
    let before = used_ms();
    let ends = network.start(&observed.runtime).map_err(|error| error.to_string())?;
    let (mut input, mut output) = (ends.input, ends.output);
    observed.runtime.spawn_blocking(TaskSpec::default(), move |task| {
        for k in 0..records as i64 {
            let pairs = [(Label::field("x"), Value::Int(k)), (Label::tag("k"), Value::Int(k % 10))];
            if task.feed(&mut input, Record::from_pairs(pairs)).is_err() {
                return;
            }
        }
    });
    observed.runtime.spawn_blocking(
        TaskSpec::default(),
        move |task| {
            while task.pop(&mut output).is_some() {}
        },
    );
    observed.runtime.start();
    observed.join()?;
    Ok(used_ms() - before)
}

/// The processor time that this process has used, in milliseconds.
fn used_ms() -> f64 {
    // SAFETY: zeroes are a valid `rusage`, and the call only writes it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ms = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
    ms(usage.ru_utime) + ms(usage.ru_stime)
}
