//! Packs tune libraries in running programs, which are unchanged afterwards.

mod machine;
mod tuner;

use machine::{Machine, READABLE, skipped};
use std::time::{Duration, Instant};
use thalweg_tune::What;
use thalweg_tune::library::ours;
use tuner::{Seen, tune, tune_for};

#[test]
fn a_ping_pong_of_pvm_is_tuned_and_put_back() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let mut run = machine.run(&["40", "0", "0", "0", "0", "100000"]);
    let begin = Instant::now();
    // On a busy machine a trial may be unclear; an action that was taken back is tried again after ten
    // seconds.
    let kept = |seen: &Seen| {
        let ended = |point: &&str| seen.has(What::Kept, point) || seen.has(What::TakenBack, point);
        seen.has(What::Kept, "pvm.fragment") && ["pvm.encoding", "pvm.route"].iter().all(ended)
    };
    let (seen, result) = tune(ours("pvm").expect("ours"), run.processes(), kept);
    eprintln!("{:?}", begin.elapsed());
    assert!(result.is_ok(), "{result:?}");
    assert!(seen.has(What::Kept, "pvm.fragment"), "{:?}", seen.decisions);
    assert!(
        seen.has(What::Tried, "pvm.encoding") && seen.has(What::Tried, "pvm.route"),
        "{:?}",
        seen.decisions
    );
    assert!(!run.is_attached(), "nothing is left in the tasks");
    assert!(run.ended_well(), "the tasks go on, and what they receive is right");
}

#[test]
fn without_descriptors_no_direct_route_is_tried() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let mut run = machine.run(&["40", "0", "0", "0", "16", "100000"]);
    let (seen, _) = tune(ours("pvm").expect("ours"), vec![run.processes()[0]], |seen| {
        seen.has(What::Advised, "pvm.route")
    });
    assert!(
        seen.has(What::Advised, "pvm.route") && !seen.has(What::Tried, "pvm.route"),
        "{:?}",
        seen.decisions
    );
    assert!(seen.decisions.iter().any(|(.., why)| why.contains("descriptor")), "{:?}", seen.decisions);
    assert!(run.ended_well());
}

#[test]
fn what_the_application_chose_is_left_alone() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let mut run = machine.run(&["40", "0", "0", "8192", "0", "100000"]);
    let (seen, _) =
        tune(ours("pvm").expect("ours"), run.processes(), |seen| seen.has(What::Tried, "pvm.encoding"));
    assert!(!seen.has(What::Tried, "pvm.fragment"), "{:?}", seen.decisions);
    let is_pinned = |(_, what, _, why): &(f64, What, String, String)| {
        *what == What::Pinned && why.contains("pvm.fragment")
    };
    assert!(seen.decisions.iter().any(is_pinned), "{:?}", seen.decisions);
    assert!(run.ended_well());
}

#[test]
fn what_makes_it_slower_is_taken_back() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    // Large raw fragments are chosen by hand, and the test's pack claims that the smallest are better.
    let mut run = machine.run(&["40", "0", "1", "0", "0", "400000"]);
    let pack = ours("pvm").expect("ours").replace("on = \"fragments_do_not_fit\"", "on = \"always\"");
    let pack = pack.replace("to = \"wanted / 1 B\"", "to = \"64\"").replace("min = 4080", "min = 64");
    let pack = pack + "[[condition]]\nname = \"always\"\nwhen = \"initsend.calls > 0\"\nsays = \"Wrong.\"\n";
    let (seen, result) = tune(&pack, run.processes(), |seen| seen.has(What::TakenBack, "pvm.fragment"));
    assert!(result.is_ok(), "{result:?}");
    assert!(!seen.has(What::Kept, "pvm.fragment"), "{:?}", seen.decisions);
    // With the smallest fragments each message consists of thousands of them, so a few windows are enough to
    // see the loss.
    let tried = seen.decisions.iter().position(|(_, what, ..)| *what == What::Tried).expect("it was tried");
    let first = run.processes()[0];
    let windows = seen.windows.iter().filter(|(pid, after)| *pid == first && *after == tried + 1).count();
    assert!(windows <= 10, "{windows} windows were slower: {:?}", seen.decisions);
    assert!(!run.is_attached() && run.ended_well());
}

#[test]
fn a_task_that_is_killed_stops_neither_the_tuner_nor_the_others() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let mut run = machine.run(&["60", "0", "0", "0", "0", "100000"]);
    let other = machine.run(&["60", "0", "0", "0", "0", "100000"]);
    let killed = other.processes()[0];
    let all = [run.processes(), other.processes()].concat();
    let is_killed = std::cell::Cell::new(false);
    let (seen, result) = tune(ours("pvm").expect("ours"), all, |seen| {
        if !is_killed.get() && seen.has(What::Tried, "pvm.") {
            let status = std::process::Command::new("kill").args(["-9", &killed.to_string()]).status();
            is_killed.set(status.is_ok_and(|status| status.success()));
        }
        // The tuner goes on with the remaining processes: they have windows after the last window of the
        // killed process.
        let last = seen.windows.iter().rposition(|(pid, _)| *pid == killed).unwrap_or(0);
        is_killed.get() && seen.windows.len() > last + 30
    });
    // The partner of the killed task waits for ever, so the tuner can make no call in it. The error names the
    // partner of the killed task and no other process.
    let waits = format!("process {}:", other.processes()[1]);
    let is_right = result.as_ref().map_or_else(|why| why.contains(&waits) && !why.contains(';'), |_| true);
    assert!(is_right && is_killed.get(), "{result:?}");
    assert!(!run.is_attached() && run.ended_well(), "{:?}", seen.decisions);
}

#[test]
fn a_pack_for_another_version_refuses() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let mut run = machine.run(&["40", "0", "0", "0", "0", "1000"]);
    let pack = ours("pvm").expect("ours").replace("version = \"3.4*\"", "version = \"4*\"");
    let (_, result) = tune(&pack, run.processes(), |_| false);
    assert!(result.as_ref().is_err_and(|why| why.contains("other versions")), "{result:?}");
    assert!(!run.is_attached() && run.ended_well());
}

#[test]
fn the_fragment_size_follows_the_phases() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    // On a busy machine the first trials may be unclear, so that there is nothing that could follow, and windows
    // may have too few calls.
    let followed = (0..3).any(|_| follows_phases(&machine));
    assert!(followed, "the fragment size did not follow within a second, three times");
}

/// Sends messages, and changes their size every two seconds. Returns whether the tuner kept a fragment size before
/// messages grew for the last time, and the size followed each time within a second.
fn follows_phases(machine: &Machine) -> bool {
    let sizes = ["100000", "4", "400000", "4", "4000000", "1000"];
    let mut run = machine.run(&[&["2", "0", "0", "0", "0"][..], &sizes].concat());
    let (seen, result) = tune(ours("pvm").expect("ours"), run.processes(), |_| false);
    assert!(result.is_ok(), "{result:?}");
    let set = |(_, what, change, _): &&(f64, What, String, String)| {
        *what == What::Kept && change.contains("pvm.fragment")
    };
    let count = seen.decisions.iter().filter(set).count();
    // For each change of the message size and each task, the tuner sets the fragments at most once, unless the machine
    // is so busy that a window has messages of both sizes.
    if count > 2 * sizes.len() {
        eprintln!("the fragment size was set {count} times: {:?}", seen.decisions);
        return false;
    }
    // Once fragments were kept, they grow within a second after messages have grown.
    let first = seen.decisions.iter().find(set).map_or(f64::INFINITY, |(at, ..)| *at);
    let mut followed = false;
    for bytes in [400_000.0, 4_000_000.0] {
        let has_begun = |(at, most): &&(f64, f64)| *at > first && *most >= bytes / 4.0;
        let Some((begin, _)) = seen.ints.iter().find(has_begun) else { continue };
        let next = seen.decisions.iter().filter(set).find(|(at, ..)| at >= begin);
        let after = next.map_or(f64::INFINITY, |(at, ..)| at - begin);
        eprintln!("{bytes} B: followed after {after:.2} s");
        if after > 1.0 {
            return false;
        }
        followed = true;
    }
    assert!(run.ended_well());
    followed
}

/// Compiles a C program of the folder `programs`; `None` if there is no compiler, or a library that it needs
/// is missing.
fn compiled(compiler: &str, name: &str, folder: &std::path::Path) -> Option<std::path::PathBuf> {
    let source = std::path::Path::new(machine::PROGRAMS).join(name);
    let program = folder.join("program");
    let status = std::process::Command::new(compiler).arg("-O2").arg(source).arg("-o").arg(&program).status();
    status.is_ok_and(|status| status.success()).then_some(program)
}

#[test]
fn the_allocator_keeps_what_it_would_give_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled("cc", "blocks.c", folder.path()) else { return skipped("no C compiler") };
    let mut run = machine::Run::of(std::process::Command::new(program).args(["40", "1000000"]));
    let done = |seen: &Seen| {
        seen.has(What::Kept, "malloc.trim_threshold") || seen.has(What::TakenBack, "malloc.trim_threshold")
    };
    let (seen, result) = tune(ours("malloc").expect("ours"), run.processes(), done);
    assert!(result.is_ok(), "{result:?}");
    assert!(done(&seen), "{:?}", seen.decisions);
    assert!(!run.is_attached() && run.ended_well());
}

#[test]
fn integer_sort_is_right_while_it_is_tuned() {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let mut run = machine.sort(&["W", "4000", "2", "0", "0", "0"]);
    let (seen, result) =
        tune(ours("pvm").expect("ours"), run.processes(), |seen| seen.has(What::Tried, "pvm."));
    assert!(result.is_ok() && seen.has(What::Tried, "pvm."), "{result:?}: {:?}", seen.decisions);
    // The program itself checks that in each iteration five keys have the ranks that the specification
    // states, and that the keys are in order.
    assert!(!run.is_attached() && run.ended_well());
}

#[test]
fn a_control_variable_of_mpi_is_tried_while_ranks_play() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled("mpicc.mpich", "ranks.c", folder.path()) else { return skipped("no MPICH") };
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    if processors > 6 {
        return skipped("more ranks than processors would be too many");
    }
    let ranks = (2 * (processors / 2) + 2).to_string();
    let mut command = std::process::Command::new("mpirun.mpich");
    command.args(["-n", &ranks]).arg(program).args(["40", "1000"]);
    let mut run = machine::Run::of(&mut command);
    let done = |seen: &Seen| seen.has(What::Kept, "mpich.") || seen.has(What::TakenBack, "mpich.");
    let (seen, result) = tune(ours("mpich").expect("ours"), run.processes(), done);
    assert!(result.is_ok(), "{result:?}");
    assert!(seen.has(What::Tried, "mpich.polls_before_yield"), "{:?}", seen.decisions);
    assert!(run.ended_well());
}

/// Starts as many ranks that exchange 64 KiB with each other.
fn exchanging(ranks: usize, folder: &std::path::Path) -> Option<machine::Run> {
    let program = compiled("mpicc.mpich", "exchange.c", folder)?;
    let mut command = std::process::Command::new("mpirun.mpich");
    command.args(["-n", &ranks.to_string()]).arg(program).args(["120", "65536"]);
    Some(machine::Run::of(&mut command))
}

#[test]
fn ranks_that_wait_for_processors_exchange_data_with_all_others_at_once() {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    if processors > 6 {
        return skipped("fewer than 8 ranks have a processor each");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let ranks = (2 * processors).clamp(4, 7);
    let Some(mut run) = exchanging(ranks, folder.path()) else { return skipped("no MPICH") };
    let of = "mpich.alltoall_algorithm 0 → 5";
    let done = |seen: &Seen| seen.has(What::Kept, of) || seen.has(What::TakenBack, of);
    let (seen, result) = tune(ours("mpich").expect("ours"), run.processes(), done);
    assert!(result.is_ok(), "{result:?}");
    assert!(seen.has(What::Tried, of) && done(&seen), "{:?}", seen.decisions);
    // The tuner's own calls for one variable are not taken for the application's calls for another.
    let pinned = |(_, what, ..): &(f64, What, String, String)| *what == What::Pinned;
    assert!(!seen.decisions.iter().any(pinned), "{:?}", seen.decisions);
    // The ranks check what they get, also while the algorithm is set in some of them only.
    assert!(run.ended_well());
}

#[test]
fn from_eight_ranks_on_the_algorithm_is_left_alone() {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    if processors > 6 {
        return skipped("8 ranks have a processor each");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut run) = exchanging(8, folder.path()) else { return skipped("no MPICH") };
    let of = "mpich.alltoall_algorithm";
    // Eight ranks that look for messages all the time leave little of two processors for attaching to them.
    let is_advised = |seen: &Seen| seen.has(What::Advised, of);
    let time = Duration::from_secs(120);
    let (seen, result) = tune_for(time, ours("mpich").expect("ours"), run.processes(), is_advised);
    assert!(result.is_ok(), "{result:?}");
    assert!(!seen.has(What::Tried, of), "{:?}", seen.decisions);
    let is_said = |(_, what, change, why): &(f64, What, String, String)| {
        *what == What::Advised && change.contains(of) && why.contains("do not go together")
    };
    assert!(seen.decisions.iter().any(is_said), "{:?}", seen.decisions);
    assert!(run.ended_well());
}

#[test]
fn raw_encoding_is_off_before_the_first_message_to_a_foreign_host() {
    foreign_hosts_join(3);
}

#[test]
#[ignore = "takes minutes"]
fn raw_encoding_is_off_before_the_first_message_to_each_of_a_hundred_foreign_hosts() {
    foreign_hosts_join(100);
}

/// Hosts of another architecture join so often, each when messages are raw; no message to them is.
fn foreign_hosts_join(rounds: usize) {
    let Some(machine) = Machine::start() else { return skipped("no PVM, or no C compiler") };
    let mut run = machine.joining(rounds, &[]);
    let tasks = run.processes();
    // The lines of the program are read while the tuner works.
    let reader = std::thread::spawn(move || {
        let lines: Vec<String> =
            std::iter::repeat_with(|| run.line()).take_while(|line| !line.is_empty()).collect();
        (run, lines)
    });
    let (seen, result) =
        tune_for(Duration::from_secs(1800), ours("pvm").expect("ours"), tasks, |_| reader.is_finished());
    let (run, lines) = reader.join().expect("a reader");
    assert!(result.is_ok(), "{result:?}");
    let joined: Vec<&String> =
        lines.iter().filter(|line| line.contains(' ') && !line.ends_with(" 0")).collect();
    assert_eq!((joined.len(), lines.last().map(String::as_str)), (rounds, Some("done")), "{lines:?}");
    for line in joined {
        assert!(line.ends_with(&format!(" {READABLE}")), "a message came in another encoding: {line}");
    }
    // The program itself waits in each round until messages are raw.
    let joins = |(_, what, _, why): &&(f64, What, String, String)| {
        matches!(what, What::Undone | What::TakenBack) && why.contains(machine::OTHER)
    };
    assert!(seen.decisions.iter().filter(joins).count() >= rounds, "{:?}", seen.decisions);
    assert!(!run.is_attached());
}
