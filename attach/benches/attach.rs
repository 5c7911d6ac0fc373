//! The cost of attaching: `cargo bench -p thalweg-attach`. Each figure is the least or the median of several
//! measurements; the program calls a function of two instructions. `PARTS="costs times"` measures some of the parts.

#[path = "../tests/started/mod.rs"]
mod started;

mod rivals;

use started::{Target, compiled};
use std::time::{Duration, Instant};
use thalweg_attach::{Argument, Attachment, Form, Keep, Options, Place, Which, Wish, readable_names};

const CALLS: &str = "20000000";
const ROUNDS: usize = 7;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "calls.c", &["-O2"]);
    let parts = std::env::var("PARTS").unwrap_or_else(|_| "costs removal times listing rivals".to_owned());
    for part in parts.split(' ') {
        match part {
            "costs" => costs(&program),
            "removal" => removal(&program),
            "times" => {
                let stopping = compiled(folder.path(), "stopping.c", &["-O2"]);
                ["1", "64"].into_iter().for_each(|threads| times(&program, &stopping, threads));
            }
            "listing" => listing(folder.path()),
            "rivals" => rivals::all(folder.path(), &program),
            other => panic!("there is no part {other}"),
        }
    }
}

/// The time of two readings of the processor's clock, which every timed call contains.
fn clock_ns() -> f64 {
    const READINGS: u32 = 1_000_000;
    let once = || {
        let begin = Instant::now();
        for _ in 0..READINGS {
            std::hint::black_box(core::hint::black_box(Instant::now()));
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(READINGS)
    };
    2.0 * (0..ROUNDS).map(|_| once()).fold(f64::MAX, f64::min)
}

/// Measures reading, matching and demangling a hundred thousand functions with C++ names.
fn listing(folder: &std::path::Path) {
    let mut text = String::from(".text\n");
    for n in 0..100_000 {
        let name = format!("_ZN4shop10Cart{n:06}3addEiRKSsPKc");
        text += &format!(".globl {name}\n.type {name},@function\n{name}: ret\n.size {name},1\n");
    }
    text += ".section .note.GNU-stack,\"\",@progbits\n";
    let source = folder.join("many.s");
    std::fs::write(&source, text).expect("a file");
    let library = folder.join("libmany.so");
    let made = std::process::Command::new("cc").arg("-shared").arg(&source).arg("-o").arg(&library).status();
    assert!(made.expect("a compiler").success());
    let mut target = Target::start(&compiled(folder, "user.c", &["-O2", "-ldl"]), &[]);
    target.ask(&format!("load {}", library.display()));
    let (mut one_thread, mut all_processors, mut matched) = (vec![], vec![], vec![]);
    for n in 0..10 {
        let begin = Instant::now();
        let attachment = Attachment::open(target.pid(), Options::default()).expect("it can be attached to");
        let found = attachment.modules().functions("libmany.so:*");
        let names: usize = match n % 2 {
            0 => found.iter().map(|function| function.readable().len()).sum(),
            _ => readable_names(&found).iter().map(String::len).sum(),
        };
        if n % 2 == 0 { &mut one_thread } else { &mut all_processors }.push(begin.elapsed());
        assert!(found.len() >= 100_000 && names > 0, "{}", found.len());
        let begin = Instant::now();
        assert_eq!(attachment.modules().functions("shop::Cart012345::add").len(), 1);
        matched.push(begin.elapsed());
    }
    let ms = |times| median(times).as_secs_f64() * 1e3;
    line("100,000 functions read, matched, demangled: one thread", ms(one_thread), "ms");
    line("100,000 functions read, matched, demangled: all processors", ms(all_processors), "ms");
    line("one of 100,000 found by its readable name", ms(matched), "ms");
}

/// The least time of a call in several measurements, in ns.
fn least(target: &mut Target, question: &str) -> f64 {
    (0..ROUNDS).map(|_| target.ask(question).parse().expect("ns")).fold(f64::MAX, f64::min)
}

fn costs(program: &std::path::Path) {
    let mut target = Target::start(program, &["1"]);
    let before = least(&mut target, CALLS);
    line("a call, nothing attached", before, "ns");
    line("two readings of the clock, by clock_gettime", clock_ns(), "ns");
    line("two readings of the clock, by rdtsc", least(&mut target, &format!("clock {CALLS}")), "ns");
    let pid = target.pid();
    let double = Argument { place: Place::Float(0), form: Form::Float(8) };
    let signed = Argument { place: Place::Integer(0), form: Form::Signed(4) };
    let wishes = [
        ("counted", Wish::default()),
        ("argument changed, counted", Wish { set: Some((1.into(), 5)), ..Wish::default() }),
        ("one argument kept, of unknown type", Wish { arguments: vec![0.into()], ..Wish::default() }),
        ("one argument kept, a signed number", Wish { arguments: vec![signed], ..Wish::default() }),
        ("one argument kept, a double", Wish { arguments: vec![double], ..Wish::default() }),
        ("timed", Wish { times: true, ..Wish::default() }),
        (
            "timed, the last 100 kept",
            Wish { times: true, keep: Some(Keep { calls: 100, which: Which::Last }), ..Wish::default() },
        ),
        (
            "timed, argument and result kept",
            Wish { times: true, arguments: vec![0.into()], results: Some(Form::UNKNOWN), ..Wish::default() },
        ),
    ];
    let more =
        |target: &mut Target, function: &str, (name, wish): (&str, Wish), question: &str, before: f64| {
            let mut attachment = Attachment::open(pid, Options::default()).expect("it can be attached to");
            let function = attachment.modules().functions(function).remove(0);
            attachment.add(&[(function, wish)]).expect("attached");
            line(&format!("more: {name}"), least(target, question) - before, "ns");
            if attachment.points()[0].can_be_thinned() && name == "timed" {
                attachment.thin(0, 1 << 20).expect("thinned");
                line("more: timed, a call that is left out", least(target, question) - before, "ns");
            }
            attachment.detach().expect("detached");
        };
    for wish in wishes {
        more(&mut target, "work", wish, CALLS, before);
    }
    inserted(&mut target, before);
    let (relied, wish) = (format!("relied {CALLS}"), Wish { set: Some((1.into(), 5)), ..Wish::default() });
    let unchanged = least(&mut target, &relied);
    more(&mut target, "relied", ("argument changed and given back", wish), &relied, unchanged);
    line("a call after detaching", least(&mut target, CALLS), "ns");
}

/// The cost of a call that is inserted at the entry of a function, with the called function of two instructions.
fn inserted(target: &mut Target, before: f64) {
    let mut attachment = Attachment::open(target.pid(), Options::default()).expect("it can be attached to");
    let function = |name: &str| attachment.modules().functions(name).remove(0);
    let (labs, work) = (function("libc.so.6:labs"), function("work"));
    attachment.insert(&labs, None, &work).expect("inserted");
    line("more: a call inserted", least(target, "200000") - before, "ns");
    attachment.detach().expect("detached");
}

/// A program that was attached to and detached from, by turns with one that never was, before and after.
fn removal(program: &std::path::Path) {
    const PAIRS: usize = 400;
    const GROUPS: usize = 9;
    const CALLS_SHORT: &str = "2000000";
    // Both have the same addresses.
    let start = || {
        let mut command = std::process::Command::new("setarch");
        command.arg("-R").arg(program).arg("1");
        Target::tried(&mut command).unwrap_or_else(|| Target::start(program, &["1"]))
    };
    let (mut one, mut other) = (start(), start());
    let pid = one.pid();
    // Other programs only ever make a short loop longer, so a quantile near the least time is nearly free of
    // them, and the groups show what is left.
    let mut ratios = || -> Vec<f64> {
        let mut group = || {
            let ask = |target: &mut Target| target.ask(CALLS_SHORT).parse::<f64>().expect("ns");
            let (mut ones, mut others): (Vec<f64>, Vec<f64>) =
                (0..PAIRS).map(|_| (ask(&mut one), ask(&mut other))).unzip();
            let quiet = |times: &mut Vec<f64>| {
                times.sort_by(f64::total_cmp);
                times[PAIRS / 10]
            };
            quiet(&mut ones) / quiet(&mut others)
        };
        let mut ratios: Vec<f64> = (0..GROUPS).map(|_| group()).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    };
    let shown = |what: &str, ratios: &[f64]| {
        line(what, ratios[GROUPS / 2], "");
        line("  the least of the groups", ratios[0], "");
        line("  the greatest", ratios[GROUPS - 1], "");
    };
    let before = ratios();
    shown("calls of one of two programs over the other, before", &before);
    for wish in [Wish::default(), Wish { times: true, ..Wish::default() }] {
        let mut attachment = Attachment::open(pid, Options::default()).expect("it can be attached to");
        let work = attachment.modules().functions("work").remove(0);
        attachment.add(&[(work, wish)]).expect("attached");
        std::thread::sleep(Duration::from_millis(10));
        attachment.detach().expect("detached");
    }
    let after = ratios();
    shown("the same after attaching to one and detaching", &after);
    line("more after detaching", (after[GROUPS / 2] / before[GROUPS / 2] - 1.0) * 100.0, "%");
}

fn times(program: &std::path::Path, stopping: &std::path::Path, threads: &str) {
    let target = Target::start(program, &[threads]);
    let (mut opened, mut added, mut again, mut stopped, mut detached) =
        (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..31 {
        let begin = Instant::now();
        let mut attachment =
            Attachment::open(target.pid(), Options::default()).expect("it can be attached to");
        opened.push(begin.elapsed());
        let function = |name: &str| attachment.modules().functions(name).remove(0);
        let (work, other) = (function("work"), function("set_work"));
        let first = attachment.add(&[(work, Wish { times: true, ..Wish::default() })]).expect("attached");
        added.push(first.took);
        stopped.push(first.stopped);
        again.push(attachment.add(&[(other, Wish::default())]).expect("attached").took);
        let begin = Instant::now();
        attachment.detach().expect("detached");
        detached.push(begin.elapsed());
    }
    let all = [
        ("symbols read", opened),
        ("first point", added),
        ("all threads stopped", stopped),
        ("another point", again),
        ("detached", detached),
    ];
    for (name, times) in all {
        line(&format!("{threads} threads: {name}"), median(times).as_secs_f64() * 1e3, "ms");
    }
    let mut command = std::process::Command::new(stopping);
    command.args([&target.pid().to_string(), "31"]);
    let mut bare = Target::tried(&mut command).expect("it stops the threads");
    line(
        &format!("{threads} threads: stopped by a bare loop of ptrace"),
        bare.answer().parse().expect("ms"),
        "ms",
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn line(name: &str, value: f64, unit: &str) {
    let digits = if unit.is_empty() { 4 } else { 2 };
    let text = format!("{name:<58} {value:9.digits$} {unit}\n");
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).expect("standard output");
}
