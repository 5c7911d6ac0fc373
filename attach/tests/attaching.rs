//! Running programs are attached to, and are restored afterwards.

#![allow(clippy::print_stdout, reason = "prints the times that were compared")]

mod started;

use started::{Target, compiled};
use std::time::Duration;
use thalweg_attach::{
    Argument, Attachment, Call, Comparison, Condition, Follower, Form, Function, Keep, Only, Options, Place,
    Which, Wish,
};

fn one(attachment: &Attachment, name: &str) -> Function {
    let mut found = attachment.modules().functions(name);
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found.remove(0)
}

fn open(target: &Target) -> Attachment {
    Attachment::open(target.pid(), Options::default()).expect("it can be attached to")
}

fn counting() -> Wish {
    Wish::default()
}

fn timing() -> Wish {
    Wish { times: true, ..Wish::default() }
}

#[test]
fn calls_are_counted_and_nothing_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    for options in [&["-O0"][..], &["-O2"], &["-O3", "-no-pie"], &["-O2", "-static"]] {
        let mut target = Target::start(&compiled(folder.path(), "hot.c", options), &["4"]);
        let before = target.code();
        let mut attachment = open(&target);
        let work = one(&attachment, "work");
        attachment.add(&[(work, counting())]).expect("it is attached to");
        assert_eq!(target.ask("run 100000"), "done 400000", "{options:?}");
        assert_eq!(attachment.figures(0).expect("figures").calls, 400_000, "{options:?}");
        let restored = attachment.detach().expect("it is detached from");
        assert_eq!((restored.changes, restored.bytes_left), (1, 0), "{options:?}");
        assert_eq!(target.ask("run 10"), "done 40");
        assert!(target.code() == before, "code and maps are as before, {options:?}");
    }
}

#[test]
fn times_arguments_and_results_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O2"]), &["2"]);
    let before = target.code();
    let mut attachment = open(&target);
    let work = one(&attachment, "work");
    attachment
        .add(&[(
            work,
            Wish {
                times: true,
                arguments: vec![0.into(), 1.into()],
                results: Some(Form::UNKNOWN),
                ..Wish::default()
            },
        )])
        .expect("attached");
    assert_eq!(target.ask("run 1000"), "done 2000");
    let figures = attachment.figures(0).expect("figures");
    assert_eq!((figures.calls, figures.not_timed), (2000, 0));
    assert_eq!(figures.ticks.as_ref().map(|ticks| ticks.count()), Some(2000));
    let (number, first) = &figures.arguments[0];
    assert_eq!((*number, first.count(), first.sum), (0.into(), 2000, 999 * 1000));
    assert_eq!(figures.arguments[1].1.buckets().collect::<Vec<_>>(), [(0, 0, 2000)]);
    let results = figures.results.expect("results");
    assert_eq!((results.count(), results.sum), (2000, 3 * 999 * 1000));
    assert_eq!(attachment.detach().expect("detached").bytes_left, 0);
    assert!(target.code() == before);
}

#[test]
fn the_first_and_the_last_calls_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    for options in [&["-O0"][..], &["-O2"]] {
        let mut target = Target::start(&compiled(folder.path(), "hot.c", options), &["1"]);
        let before = target.code();
        let arguments = |calls: &[Call]| calls.iter().map(|call| call.arguments[0]).collect::<Vec<_>>();
        let results =
            |calls: &[Call]| calls.iter().filter_map(|call| Some(call.ended?.result?.0)).collect::<Vec<_>>();
        for which in [Which::First, Which::Last] {
            for wish in [timing(), counting()] {
                let mut attachment = open(&target);
                let work = one(&attachment, "work");
                let keep = Some(Keep { calls: 5, which });
                attachment.add(&[(work, Wish { keep, ..wish.clone() })]).expect("attached");
                assert_eq!(target.ask("run 1000"), "done 1000");
                let (calls, without) = attachment.kept(0).expect("calls");
                let expected: Vec<u64> =
                    if which == Which::First { (0..5).collect() } else { (995..1000).collect() };
                assert_eq!((arguments(&calls), without), (expected.clone(), 0), "{options:?} {which:?}");
                let expected = expected.iter().map(|n| 3 * n).filter(|_| wish.times).collect::<Vec<_>>();
                assert_eq!(results(&calls), expected, "{options:?} {which:?}");
                assert!(calls.windows(2).all(|two| two[0].begin < two[1].begin), "{calls:?}");
                assert_eq!(attachment.figures(0).expect("figures").calls, 1000);
                assert_eq!(attachment.detach().expect("detached").bytes_left, 0);
            }
        }
        assert!(target.code() == before);
    }
}

#[test]
fn calls_are_counted_by_their_callers() {
    let folder = tempfile::tempdir().expect("a folder");
    for (options, wish) in [(&["-O0"][..], counting()), (&["-O0"], timing()), (&["-O2"], counting())] {
        let mut target = Target::start(&compiled(folder.path(), "hot.c", options), &["2"]);
        let before = target.code();
        let mut attachment = open(&target);
        let work = one(&attachment, "work");
        attachment.add(&[(work, Wish { callers: true, ..wish })]).expect("attached");
        assert_eq!(target.ask("run 1000"), "done 2000");
        assert_eq!(target.ask("fork"), "forked 0");
        let callers = attachment.figures(0).expect("figures").callers.expect("callers");
        let name = |address: u64| attachment.modules().at(address - 1).expect("a function").0.name;
        let named: Vec<(String, u64)> =
            callers.counts.iter().map(|(address, calls)| (name(*address), *calls)).collect();
        assert_eq!((named[0].clone(), callers.left_out), (("running".to_owned(), 2000), 0), "{named:?}");
        // `deep` calls `work` in two places, so it appears with two return addresses.
        let of = |function: &str| {
            named.iter().filter(|(name, _)| name == function).map(|(_, calls)| calls).sum::<u64>()
        };
        assert_eq!((of("deep"), of("main")), (6, 1), "{named:?}");
        assert_eq!(attachment.detach().expect("detached").bytes_left, 0);
        assert!(target.code() == before);
    }
}

/// Every call is followed, with its depth; those that `longjmp` leaves are counted.
#[test]
fn every_call_is_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O0"]), &["3"]);
    let mut attachment = open(&target);
    let wish = || Wish { keep: Some(Keep { calls: 4096, which: Which::Every }), ..timing() };
    let names = ["work", "deep", "jumping"];
    let wishes: Vec<_> = names.iter().map(|name| (one(&attachment, name), wish())).collect();
    attachment.add(&wishes).expect("attached");
    let mut follower = Follower::default();
    assert_eq!(target.ask("run 100"), "done 300");
    assert_eq!(target.ask("fork"), "forked 0");
    let calls = attachment.follow(&mut follower, u64::MAX / 2).expect("calls");
    let of = |point: usize, depth: usize| {
        calls.iter().filter(|call| call.point == point && call.depth == depth).count()
    };
    // The child calls `work` once by itself, and `deep` once, which calls itself five times and `work` in each.
    assert_eq!((of(0, 0), of(1, 0), of(1, 5)), (301, 1, 1), "{calls:?}");
    assert_eq!((1..7).map(|depth| of(0, depth)).sum::<usize>(), 6, "{calls:?}");
    assert!(calls.windows(2).all(|two| two[0].end <= two[1].end));
    let threads: std::collections::HashSet<u64> = calls.iter().map(|call| call.thread).collect();
    assert_eq!(threads.len(), 4);
    assert!(attachment.follow(&mut follower, u64::MAX / 2).expect("calls").is_empty());
    assert_eq!(follower.unrecorded(0), Default::default());

    // The target makes more calls than there is room for: each call is either returned or counted as
    // overwritten.
    assert_eq!(target.ask("run 100000"), "done 300000");
    let rest = attachment.follow(&mut follower, u64::MAX / 2).expect("calls").len() as u64;
    let lost = follower.unrecorded(0).overwritten;
    assert!(rest > 0 && lost > 0 && rest + lost == 300_000, "{rest} {lost}");

    assert_eq!(target.ask("begin"), "begun");
    while attachment.figures(2).expect("figures").calls < 100 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(target.ask("end").ends_with(" 0"));
    attachment.follow(&mut follower, u64::MAX / 2).expect("calls");
    assert!(follower.unrecorded(2).without_end > 0, "{:?}", follower.unrecorded(2));
    attachment.detach().expect("detached");
}

/// A call that ends by a jump to another timed function ends at the jump; the other function has the result.
#[test]
fn calls_that_are_kept_may_end_by_a_jump() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O2"]), &["1"]);
    let mut attachment = open(&target);
    let wish = || Wish { keep: Some(Keep { calls: 3, which: Which::Last }), ..timing() };
    let (work, tail, real) = (one(&attachment, "work"), one(&attachment, "tail"), one(&attachment, "real"));
    attachment.add(&[(work, wish()), (tail, wish()), (real, wish())]).expect("attached");
    assert_eq!(target.ask("begin"), "begun");
    let is_there = |attachment: &Attachment| attachment.figures(2).is_ok_and(|figures| figures.calls > 3);
    while !is_there(&attachment) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(target.ask("end").ends_with(" 0"));
    let (tails, _) = attachment.kept(1).expect("calls");
    assert_eq!(tails.len(), 3);
    assert!(tails.iter().all(|call| call.ended.is_some_and(|ended| ended.result.is_none())), "{tails:?}");
    let (reals, _) = attachment.kept(2).expect("calls");
    assert_eq!(reals.len(), 3);
    for call in reals {
        let result = f64::from_bits(call.ended.and_then(|ended| ended.result).expect("a result").1);
        assert_eq!(
            (f64::from_bits(call.floats[1]), result),
            (2.0, f64::from_bits(call.floats[0]) * 2.0 + 0.5)
        );
    }
    attachment.detach().expect("detached");
}

#[test]
fn threads_that_call_all_the_time_do_not_notice() {
    let folder = tempfile::tempdir().expect("a folder");
    for (options, cycles) in [(&["-O2"][..], 60), (&["-O0"], 20), (&["-O3", "-fno-plt"], 20)] {
        let mut target = Target::start(&compiled(folder.path(), "hot.c", options), &["6", "signals"]);
        let before = target.code();
        assert_eq!(target.ask("begin"), "begun");
        let mut left = 0;
        for cycle in 0..cycles {
            let mut attachment = open(&target);
            let names = ["work", "deep", "jumping", "tail", "wide", "real", "safe_point"];
            let wish = |number: usize| match (cycle + number) % 3 {
                0 => counting(),
                1 => Wish { keep: Some(Keep { calls: 4, which: Which::Last }), ..timing() },
                _ => Wish {
                    times: true,
                    arguments: vec![0.into(), 1.into(), 2.into()],
                    results: Some(Form::UNKNOWN),
                    ..Wish::default()
                },
            };
            let wishes: Vec<_> = names
                .iter()
                .enumerate()
                .map(|(number, name)| (one(&attachment, name), wish(number)))
                .collect();
            attachment.add(&wishes).expect("attached");
            if cycle % 5 == 0 {
                attachment.remove(0).expect("removed");
            }
            std::thread::sleep(Duration::from_millis(3));
            assert!(attachment.figures(1).is_ok());
            left += attachment.detach().expect("detached").bytes_left;
        }
        let ended = target.ask("end");
        assert!(ended.starts_with("ended ") && ended.ends_with(" 0"), "{options:?}: {ended}");
        assert_eq!(left, 0, "{options:?}");
        assert!(target.code() == before, "{options:?}");
    }
}

#[test]
fn exceptions_pass_timed_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    for options in [&["-O0"][..], &["-O2"], &["-O2", "-static-libgcc"]] {
        let mut target = Target::start(&compiled(folder.path(), "throwing.cpp", options), &[]);
        let expected = target.ask("1000");
        let mut attachment = open(&target);
        let names = ["thrower", "middle", "again", "caught"];
        let wishes: Vec<_> = names.iter().map(|name| (one(&attachment, name), timing())).collect();
        attachment.add(&wishes).expect("attached");
        assert_eq!(target.ask("1000"), expected, "{options:?}");
        let figures = attachment.figures(0).expect("figures");
        // Half of the calls of `thrower` throw, so half have no time.
        assert_eq!((figures.calls, figures.ticks.expect("times").count()), (1000, 500));
        // A call that catches has no time either, because all return addresses are restored when an exception
        // is thrown.
        assert_eq!(attachment.figures(3).expect("figures").ticks.expect("times").count(), 500);
        attachment.detach().expect("detached");
        assert_eq!(target.ask("1000"), expected);
    }
}

#[test]
fn arguments_are_changed_unseen_by_callers() {
    let folder = tempfile::tempdir().expect("a folder");
    for options in [&["-O0"][..], &["-O2"], &["-O3"]] {
        let mut target = Target::start(&compiled(folder.path(), "hot.c", options), &["2"]);
        let mut attachment = open(&target);
        let note = one(&attachment, "note");
        attachment.add(&[(note, Wish { set: Some((0.into(), 77)), ..Wish::default() })]).expect("attached");
        assert_eq!(target.ask("note 5"), "noted");
        assert_eq!(target.ask("ask"), "value 3 0 77", "{options:?}");
        attachment.detach().expect("detached");
        assert_eq!(target.ask("note 5"), "noted");
        assert_eq!(target.ask("ask"), "value 3 0 5");
    }
}

/// A caller that relies on the register of an argument finds it unchanged; where none does, the register is not
/// restored, so that return addresses and the functions that unwind stay as they are.
#[test]
fn registers_are_restored_only_for_callers_that_rely_on_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target =
        Target::start(&compiled(folder.path(), "calls.c", &["-O2", "-Wl,--no-as-needed", "-lgcc_s"]), &["1"]);
    for (name, question, is_relied) in [("work", "1000", false), ("relied", "relied 1000", true)] {
        let before = target.code();
        let mut attachment = open(&target);
        let function = one(&attachment, name);
        let argument = 1.into();
        let wish = Wish { set: Some((1.into(), 99)), arguments: vec![argument], ..Wish::default() };
        attachment.add(&[(function, wish)]).expect("attached");
        // The program ends if the register is not what its caller has put there.
        target.ask(question);
        assert_eq!(attachment.figures(0).expect("figures").calls, 1000);
        let now = target.code();
        let has_changed = |(line, bytes): &(String, Vec<u8>)| {
            line.contains("libgcc_s") && before.iter().any(|(same, old)| same == line && old != bytes)
        };
        let is_changed = now.iter().any(has_changed);
        assert_eq!(is_changed, is_relied, "{name}");
        attachment.detach().expect("detached");
        target.ask(question);
    }
}

/// A caller that relies on all registers finds them unchanged, whichever argument is changed, at each depth of
/// the stack, and under a condition that holds or does not.
#[test]
fn changed_arguments_are_restored_in_each_register() {
    const CALLS: u64 = 20;
    const DEPTH: u64 = 1000;
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "relying.c", &["-O2"]), &[]);
    for name in ["given", "tested"] {
        for number in [0, 1, 3, 4, 5] {
            for (value, is_met) in [(None, true), (Some(12), true), (Some(7), false)] {
                let mut attachment = open(&target);
                let condition = |value| Condition { argument: 2.into(), is: Comparison::Equal, value };
                let only = Only { when: value.map(condition), from: None };
                let wish = Wish { set: Some((number.into(), 99)), only, ..Wish::default() };
                let function = one(&attachment, &format!("{name}{number}"));
                attachment.add(&[(function, wish)]).expect("attached");
                let sum = target.ask(&format!("{name} {number} {CALLS} {DEPTH}"));
                let result = if is_met { 99 } else { 10 + number as u64 };
                assert_eq!(sum.parse(), Ok(CALLS * DEPTH * result), "{name} {number} {value:?}");
                let calls = attachment.figures(0).expect("figures").calls;
                assert_eq!(calls, if is_met { CALLS * DEPTH } else { 0 }, "{name} {number} {value:?}");
                assert_eq!(attachment.detach().expect("detached").bytes_left, 0);
            }
        }
    }
}

/// All calls are counted and changed, and one in eight is timed and has its values kept.
#[test]
fn points_are_thinned() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "calls.c", &["-O2"]), &["1"]);
    let mut attachment = open(&target);
    let measured = Wish {
        times: true,
        arguments: vec![1.into()],
        results: Some(Form::UNKNOWN),
        set: Some((1.into(), 5)),
        keep: Some(Keep { calls: 1000, which: Which::Last }),
        ..Wish::default()
    };
    let relied = Wish { set: Some((1.into(), 9)), times: true, ..Wish::default() };
    let wishes = [
        (one(&attachment, "work"), measured),
        (one(&attachment, "relied"), relied),
        (one(&attachment, "set_work"), Wish::default()),
    ];
    attachment.add(&wishes).expect("attached");
    target.ask("1000");
    let counts = |attachment: &Attachment| {
        let figures = attachment.figures(0).expect("figures");
        let results = figures.results.expect("results");
        let kept = attachment.kept(0).expect("calls").0.len() as u64;
        (figures.calls, figures.ticks.expect("times").count(), figures.arguments[0].1.count(), results, kept)
    };
    let before = counts(&attachment);
    let each = (before.0, before.1, before.2, before.3.count(), before.4);
    assert_eq!(each, (1000, 1000, 1000, 1000, 1000));
    attachment.thin(0, 8).expect("thinned");
    assert_eq!(attachment.points()[0].one_in(), 8);
    target.ask("8000");
    let after = counts(&attachment);
    assert_eq!((after.0, after.1, after.2, after.3.count()), (9000, 2000, 2000, 2000));
    target.ask("10");
    attachment.thin(0, 1 << 20).expect("thinned");
    target.ask("500");
    assert_eq!(counts(&attachment).1, 2000 + 1);
    for (point, one_in, why) in [
        (0, 3, "is a power of two"),
        (0, 0, "is a power of two"),
        (0, 1 << 21, "is a power of two"),
        (1, 2, "none can be left out"),
        (2, 2, "none can be left out"),
    ] {
        let error = attachment.thin(point, one_in).expect_err("refused").to_string();
        assert!(error.contains(why) && !error.contains('\n'), "{error}");
    }
    attachment.thin(0, 1).expect("thinned no more");
    target.ask("100");
    assert_eq!(counts(&attachment).1, 2000 + 1 + 100);
    assert_eq!(attachment.detach().expect("detached").bytes_left, 0);

    // Calls that are not measured are changed all the same.
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O2"]), &["1"]);
    let mut attachment = open(&target);
    let wish = Wish { set: Some((0.into(), 41)), arguments: vec![0.into()], times: true, ..Wish::default() };
    attachment.add(&[(one(&attachment, "note"), wish)]).expect("attached");
    attachment.thin(0, 1 << 20).expect("thinned");
    assert_eq!(target.ask("note 7"), "noted");
    assert_eq!(target.ask("ask"), "value 3 0 41");
    assert_eq!(attachment.figures(0).expect("figures").arguments[0].1.count(), 0);
}

#[test]
fn functions_are_called_and_variables_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O2"]), &["2"]);
    let before = target.code();
    let mut attachment = open(&target);
    // `safe_point` and the called function are in the same module, so no thread enters `safe_point` from
    // outside that module.
    let (set_state, safe_point) = (one(&attachment, "set_state"), one(&attachment, "safe_point"));
    assert_eq!(target.ask("begin"), "begun");
    let error =
        attachment.call(&set_state, &[41], std::slice::from_ref(&safe_point), Duration::from_millis(50));
    assert!(error.expect_err("nobody comes").to_string().contains("was not called"));
    // The program's threads call the C library's function when they enter the program's function
    // `safe_point`.
    let function = one(&attachment, "libc.so.6:labs");
    let result =
        attachment.call(&function, &[(-12_i64).cast_unsigned()], &[safe_point], Duration::from_secs(10));
    assert_eq!(result, Ok(12));
    assert_eq!(attachment.set_variable("level", 9), Ok(3));
    assert!(target.ask("end").ends_with(" 0"));
    assert_eq!(target.ask("ask"), "value 9 0 0");
    let error = attachment.set_variable("level", 1 << 40).expect_err("too large");
    assert_eq!(error.to_string(), "1099511627776 does not fit into the 4 bytes of `level`");
    assert_eq!(attachment.detach().expect("detached").bytes_left, 0);
    assert_eq!(target.ask("ask"), "value 3 0 0");
    assert!(target.code() == before);
}

#[test]
fn children_of_fork_are_detached_from_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O2"]), &["1"]);
    let mut attachment = open(&target);
    let wishes = [(one(&attachment, "work"), counting()), (one(&attachment, "deep"), timing())];
    attachment.add(&wishes).expect("attached");
    assert_eq!(target.ask("fork"), "forked 0");
    // Calls in the child are counted, too.
    assert_eq!(attachment.figures(0).expect("figures").calls, 7);
    attachment.detach().expect("detached");
    assert_eq!(target.ask("fork"), "forked 0");
}

#[test]
fn what_cannot_be_done_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O2"]), &["1"]);
    let mut attachment = open(&target);
    let mut refused = |name: &str, wish: Wish| {
        let function = attachment.modules().functions(name).remove(0);
        attachment.add(&[(function, wish)]).expect_err("it is refused").to_string()
    };
    assert_eq!(
        refused("tiny", counting()),
        "`tiny` has 3 bytes: it is too short for a jump of 5 bytes at its beginning"
    );
    assert!(refused("looping", counting()).contains("jumps into its own first 6 bytes"));
    assert!(refused("libc.so.6:memcpy", counting()).contains("IFUNC"));
    assert!(refused("libc.so.6:_setjmp", timing()).contains("can be counted, but not timed"));
    let work = one(&attachment, "work");
    attachment.add(&[(work.clone(), counting())]).expect("attached");
    assert_eq!(
        attachment.add(&[(work, timing())]).expect_err("twice").to_string(),
        "`work` is attached to already"
    );
    let second = Attachment::open(target.pid(), Options::default()).expect_err("a second tool").to_string();
    assert!(second.contains("is attached to by process"), "{second}");
    assert_eq!(target.ask("run 10"), "done 10");
}

/// The library `storm_kept.c`, and a program that loads it when it is asked to.
fn user(folder: &std::path::Path) -> (Target, String) {
    let library = compiled(folder, "storm_kept.c", &["-O2", "-shared", "-fPIC"]);
    let target = Target::start(&compiled(folder, "user.c", &["-O2", "-ldl"]), &[]);
    (target, library.to_string_lossy().into_owned())
}

#[test]
fn functions_of_libraries_are_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut target, library) = user(folder.path());
    assert_eq!(target.ask(&format!("load {library}")), "loaded");
    let before = target.code();
    for _ in 0..3 {
        let mut attachment = open(&target);
        let (kept, instead) = (one(&attachment, "kept"), one(&attachment, "instead"));
        attachment.replace(&kept, &instead).expect("replaced");
        assert_eq!(target.ask("kept 10"), "kept 72");
        let again = attachment.replace(&kept, &instead).expect_err("it is replaced already").to_string();
        assert!(again.contains("is attached to already"), "{again}");
        // The replacing function can be counted, and the replaced function cannot.
        attachment.add(&[(instead, counting())]).expect("attached");
        assert_eq!(target.ask("calls 7"), "called");
        assert_eq!(attachment.figures(0).expect("figures").calls, 7);
        attachment.detach().expect("detached");
        assert_eq!(target.ask("kept 10"), "kept 52");
    }
    assert!(target.code() == before);
    let mut attachment = open(&target);
    let (main, kept) = (one(&attachment, "user*:main"), one(&attachment, "kept"));
    let error = attachment.replace(&main, &kept).expect_err("not of a library").to_string();
    assert!(error.contains("is not exported by a library"), "{error}");
}

#[test]
fn libraries_that_come_and_go_are_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut target, library) = user(folder.path());
    let before = target.code();
    let mut attachment = open(&target);
    assert!(attachment.modules().functions("kept").is_empty());
    assert!(
        attachment.modules().has_none_of("*kept*:kept")
            && !attachment.modules().has_none_of("libc.so.6:kept")
    );
    assert_eq!(attachment.look(), Ok(false));
    for round in 0..3 {
        assert_eq!(target.ask(&format!("load {library}")), "loaded");
        assert_eq!(attachment.look(), Ok(true));
        let kept = one(&attachment, "kept");
        attachment.add(&[(kept, timing())]).expect("attached");
        assert_eq!(target.ask("calls 5"), "called");
        assert_eq!(attachment.figures(round).expect("figures").calls, 5);
        assert_eq!(target.ask("unload"), "unloaded");
        assert_eq!(attachment.look(), Ok(false));
        assert!(!attachment.points()[round].is_on() && attachment.modules().functions("kept").is_empty());
        let error = attachment.renew(round).expect_err("it is gone").to_string();
        assert_eq!(error, "`kept` is gone: its library was unloaded");
    }
    assert_eq!(attachment.detach().expect("detached").bytes_left, 0);
    assert!(target.code() == before);
}

#[test]
fn points_are_taken_away_and_renewed_and_their_values_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    for options in [&["-O0"][..], &["-O2"]] {
        let mut target = Target::start(&compiled(folder.path(), "hot.c", options), &["2"]);
        let before = target.code();
        let mut attachment = open(&target);
        let (work, note) = (one(&attachment, "work"), one(&attachment, "note"));
        let set = Wish { set: Some((0.into(), 77)), ..Wish::default() };
        attachment.add(&[(work, timing()), (note, set)]).expect("attached");
        for round in 1..4 {
            assert_eq!(target.ask("run 100"), "done 200");
            assert_eq!(attachment.figures(0).expect("figures").calls, 200 * round);
            attachment.remove(0).expect("removed");
            assert_eq!(target.ask("run 100"), "done 200");
            assert_eq!(attachment.figures(0).expect("figures").calls, 200 * round);
            attachment.renew(0).expect("renewed");
            attachment.set_argument(1, 1000 + round).expect("changed");
            assert_eq!(target.ask("note 5"), "noted");
            assert_eq!(target.ask("ask"), format!("value 3 0 {}", 1000 + round));
        }
        // A value can be changed while the point is off.
        attachment.remove(1).expect("removed");
        attachment.set_argument(1, 9).expect("changed");
        assert_eq!((target.ask("note 5"), target.ask("ask")), ("noted".to_owned(), "value 3 0 5".to_owned()));
        attachment.renew(1).expect("renewed");
        assert_eq!((target.ask("note 5"), target.ask("ask")), ("noted".to_owned(), "value 3 0 9".to_owned()));
        assert!(
            attachment.set_argument(0, 1).expect_err("no argument").to_string().contains("no argument of")
        );
        attachment.detach().expect("detached");
        assert_eq!((target.ask("note 5"), target.ask("ask")), ("noted".to_owned(), "value 3 0 5".to_owned()));
        assert!(target.code() == before);
    }
}

/// Calls with a first argument, a `long`, that compares with this number.
fn first(is: Comparison, value: u64) -> Only {
    let argument = Argument { place: Place::Integer(0), form: Form::Signed(8) };
    Only { when: Some(Condition { argument, is, value }), from: None }
}

#[test]
fn conditions_choose_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O2"]), &["1"]);
    for (is, expected) in [
        (Comparison::Equal, 1),
        (Comparison::Other, 99),
        (Comparison::Less, 40),
        (Comparison::AtMost, 41),
        (Comparison::Greater, 59),
        (Comparison::AtLeast, 60),
    ] {
        let mut attachment = open(&target);
        let work = one(&attachment, "work");
        for wish in [counting(), Wish { arguments: vec![0.into()], ..timing() }] {
            attachment.add(&[(work.clone(), Wish { only: first(is, 40), ..wish })]).expect("attached");
            assert_eq!(target.ask("run 100"), "done 100");
            let point = attachment.points().len() - 1;
            assert_eq!(attachment.figures(point).expect("figures").calls, expected, "{is:?}");
            attachment.remove(point).expect("removed");
        }
        let times = attachment.figures(1).expect("figures").ticks.expect("times");
        assert_eq!(times.count(), expected, "{is:?}");
        attachment.detach().expect("detached");
    }
}

#[test]
fn conditions_choose_what_is_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut target, library) = user(folder.path());
    assert_eq!(target.ask(&format!("load {library}")), "loaded");
    for argument in 0..2 {
        // The condition is on the kept argument or on another one, with and without further measurements.
        for more in [vec![], vec![0.into()]] {
            let mut attachment = open(&target);
            let kept = one(&attachment, "kept");
            let only = first(Comparison::Less, 10);
            let wish = Wish { set: Some((argument.into(), 100)), arguments: more, only, ..Wish::default() };
            attachment.add(&[(kept, wish)]).expect("attached");
            let expected = ["kept 502", "kept 125"][argument];
            assert_eq!(target.ask("kept 5"), expected);
            assert_eq!(target.ask("kept -1"), ["kept 502", "kept 95"][argument]);
            assert_eq!(target.ask("kept 10"), "kept 52");
            assert_eq!(attachment.figures(0).expect("figures").calls, 2);
            attachment.detach().expect("detached");
        }
    }
}

/// Threads of a C program that end in the middle of calls that are timed: the library that unwinds stacks is
/// loaded only then.
#[test]
fn threads_end_within_timed_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    for options in [&["-O0"][..], &["-O2"]] {
        let mut target = Target::start(&compiled(folder.path(), "ending.c", options), &[]);
        let mut attachment = open(&target);
        let wishes = [(one(&attachment, "ending"), timing()), (one(&attachment, "cleaned"), timing())];
        attachment.add(&wishes).expect("attached");
        assert_eq!(target.ask("50"), "ended 100 100");
        assert_eq!(attachment.figures(0).expect("figures").calls, 100);
        attachment.detach().expect("detached");
        assert_eq!(target.ask("50"), "ended 200 200");
    }
}

/// A thread stands at the end of a signal handler: the kernel has not restored yet the registers with which it
/// goes on in inserted code. The memory of that code is not freed before.
#[test]
fn threads_that_return_from_handlers_are_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    for (options, arguments) in
        [(&["-O2"][..], &[][..]), (&["-O2", "-static"], &[]), (&["-O2"], &["together"])]
    {
        let mut target = Target::start(&compiled(folder.path(), "returning.c", options), arguments);
        assert_eq!(target.ask("hold"), "called 21");
        let before = target.code();
        let mut attachment = open(&target);
        let work = one(&attachment, "work");
        attachment.add(&[(work, counting())]).expect("attached");
        assert_eq!(target.ask("hold"), "held", "{options:?} {arguments:?}");
        let detaching = std::thread::spawn(move || attachment.detach().expect("detached").bytes_left);
        std::thread::sleep(Duration::from_millis(300));
        assert!(!detaching.is_finished(), "{options:?} {arguments:?}");
        assert_eq!(target.ask("go"), "called 21", "{options:?} {arguments:?}");
        assert_eq!(detaching.join().expect("no panic"), 0);
        assert!(target.code() == before);
        assert_eq!(target.ask("hold"), "called 21");
    }
}

#[test]
fn exceptions_after_coroutines_that_were_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "given_up.cpp", &["-O2"]), &[]);
    let expected = target.ask("x");
    let mut attachment = open(&target);
    let names = ["given_up", "thrower", "caught"];
    let wishes: Vec<_> = names.iter().map(|name| (one(&attachment, name), timing())).collect();
    attachment.add(&wishes).expect("attached");
    for _ in 0..3 {
        assert_eq!(target.ask("x"), expected);
    }
    assert_eq!(attachment.figures(0).expect("figures").calls, 3 * 32);
    attachment.detach().expect("detached");
    assert_eq!(target.ask("x"), expected);
}

/// Only calls that one function makes are counted, or the calls that return to one place.
#[test]
fn calls_from_one_function_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    for options in [&["-O0"][..], &["-O2"]] {
        let mut target = Target::start(&compiled(folder.path(), "hot.c", options), &["1"]);
        let before = target.code();
        let mut attachment = open(&target);
        let (work, deep) = (one(&attachment, "work"), one(&attachment, "deep"));
        let all = (deep.address + 1, deep.address + deep.size);
        attachment.add(&[(work.clone(), Wish { callers: true, ..counting() })]).expect("attached");
        assert_eq!(target.ask("fork"), "forked 0");
        // The child calls `work` once by itself, and six times in `deep`.
        let figures = attachment.figures(0).expect("figures");
        let callers = figures.callers.expect("callers").counts;
        let in_deep = |address: u64| (all.0..=all.1).contains(&address);
        let (place, often) =
            callers.iter().copied().find(|(address, _)| in_deep(*address)).expect("a place in `deep`");
        assert_eq!(figures.calls, 7, "{callers:?}");
        attachment.remove(0).expect("removed");
        for (from, wish, expected) in
            [(all, counting(), 6), (all, timing(), 6), ((place, place), counting(), often)]
        {
            let only = Only { from: Some(from), ..Only::default() };
            attachment.add(&[(work.clone(), Wish { only, ..wish })]).expect("attached");
            assert_eq!(target.ask("fork"), "forked 0");
            let point = attachment.points().len() - 1;
            let figures = attachment.figures(point).expect("figures");
            assert_eq!(figures.calls, expected, "{options:?}");
            attachment.remove(point).expect("removed");
        }
        attachment.detach().expect("detached");
        assert!(target.code() == before);
    }
}

/// Times are at least those that the called function measures itself, and at most those that its caller does.
fn times_are_between(calls: u64, threads: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O2"]), &[threads]);
    let mut attachment = open(&target);
    let spun = one(&attachment, "spun");
    attachment.add(&[(spun, timing())]).expect("attached");
    let answer = target.ask(&format!("clocked {calls}"));
    let truth: Vec<u64> = answer.split(' ').skip(1).map(|number| number.parse().expect("a number")).collect();
    let figures = attachment.figures(0).expect("figures");
    let ticks = figures.ticks.expect("times");
    assert_eq!((figures.calls, ticks.count() + figures.not_timed), (truth[0], truth[0]));
    assert_eq!(figures.not_timed, 0);
    println!("{} calls: {} ticks inside, {} measured, {} outside", truth[0], truth[1], ticks.sum, truth[2]);
    assert!((truth[1]..=truth[2]).contains(&ticks.sum), "{answer}, {} measured", ticks.sum);
    attachment.detach().expect("detached");
}

#[test]
fn times_are_between_those_inside_and_outside() {
    times_are_between(20_000, "4");
}

#[test]
#[ignore = "takes minutes"]
fn times_of_many_calls_are_between_those_inside_and_outside() {
    times_are_between(1_562_500, "64");
}

/// A thousand million calls in 64 threads: none is lost, none is counted twice.
#[test]
#[ignore = "takes minutes"]
fn a_thousand_million_calls_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O2"]), &["64"]);
    let mut attachment = open(&target);
    let work = one(&attachment, "work");
    attachment.add(&[(work.clone(), counting())]).expect("attached");
    assert_eq!(target.ask("run 15625000"), "done 1000000000");
    assert_eq!(attachment.figures(0).expect("figures").calls, 1_000_000_000);
    attachment.remove(0).expect("removed");
    attachment.add(&[(work, Wish { arguments: vec![1.into()], ..timing() })]).expect("attached");
    assert_eq!(target.ask("run 1562500"), "done 100000000");
    let figures = attachment.figures(1).expect("figures");
    let timed = figures.ticks.expect("times").count();
    assert_eq!((figures.calls, timed + figures.not_timed), (100_000_000, 100_000_000));
    assert_eq!(figures.arguments[0].1.count(), 100_000_000);
    attachment.detach().expect("detached");
}
