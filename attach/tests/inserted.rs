//! Calls that are inserted at the entry of functions: they are made as often as the functions are called, and not
//! where that would not be safe; they are switched off and on, and are gone after detaching.

mod started;

use started::{Target, compiled};
use std::process::Command;
use std::time::Duration;
use thalweg_attach::{Attachment, Function, Options, Wish};

/// A program with this number of threads, and the library with the functions that are inserted.
fn start(options: &str, threads: &str) -> Target {
    let folder = tempfile::tempdir().expect("a folder");
    let library = compiled(folder.path(), "inserted.c", &["-O2", "-shared", "-fPIC"]);
    let program = compiled(folder.path(), "inserting.c", &[options, "-ldl"]);
    Target::tried(Command::new(program).arg(library).arg(threads)).expect("it starts")
}

fn open(target: &Target) -> Attachment {
    Attachment::open(target.pid(), Options::default()).expect("it can be attached to")
}

fn one(attachment: &Attachment, name: &str) -> Function {
    let mut found = attachment.modules().functions(name);
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found.remove(0)
}

/// Inserts a call of a function of the library at a function of the program.
fn insert(attachment: &mut Attachment, name: &str, arguments: Option<&[u64]>, at: &str) -> Function {
    let (function, at) = (one(attachment, name), one(attachment, &format!("inserting*:{at}")));
    attachment.insert(&function, arguments, &at).expect("inserted");
    at
}

#[test]
fn inserted_calls_get_arguments() {
    for options in ["-O0", "-O2"] {
        let mut target = start(options, "4");
        let before = target.code();
        let mut attachment = open(&target);
        let step = insert(&mut attachment, "seen", None, "step");
        // The third to sixth arguments of `step` are whatever is in their registers, so the sum is not known.
        assert_eq!(target.ask("run 1000"), "ran 4000 1998000 0");
        assert!(target.ask("state").starts_with("state 4000 "));
        assert_eq!(attachment.inserted(&step), (4000, 0));
        insert(&mut attachment, "seen_real", None, "real");
        assert_eq!(target.ask("real 100"), "ran 100 0 0");
        assert!(target.ask("state").ends_with(" 6950.0"), "{options}");
        assert_eq!(attachment.detach().expect("detached").bytes_left, 0);
        assert_eq!(target.ask("run 10"), "ran 40 180 0");
        assert!(target.ask("state").starts_with("state 4100 ") && target.code() == before);

        let mut target = start(options, "1");
        let mut attachment = open(&target);
        insert(&mut attachment, "seen", None, "wide");
        assert_eq!(target.ask("wide 100"), "ran 100 0 0");
        assert_eq!(target.ask("state"), "state 100 54325950 0.0", "{options}");
        insert(&mut attachment, "seen", Some(&[5, 1, 0, 0, 0, 0]), "step");
        assert_eq!(target.ask("run 10"), "ran 10 45 0");
        assert_eq!(target.ask("state"), "state 110 54326100 0.0", "{options}");
    }
}

/// The call is not made from inside its own library, from a handler, which may have interrupted that library, or
/// within itself; each would take a lock that its own thread has.
#[test]
fn inserted_calls_are_made_where_it_is_safe() {
    let mut target = start("-O2", "2");
    let before = target.code();
    let mut attachment = open(&target);
    let step = insert(&mut attachment, "seen", Some(&[1, 0, 0, 0, 0, 0]), "step");
    assert_eq!(target.ask("nested 100"), "ran 100 0 0");
    assert_eq!(attachment.inserted(&step), (0, 0));
    let answer = target.ask("signals 300000");
    assert!(answer.starts_with("ran 600000 ") && answer.ends_with(" 0"), "{answer}");
    assert_eq!(attachment.inserted(&step), (600_000, 0));
    assert_eq!(target.ask("state"), "state 600000 600000 0.0");
    attachment.detach().expect("detached");

    let mut attachment = open(&target);
    let step = insert(&mut attachment, "seen_again", None, "step");
    assert_eq!(target.ask("run 1000"), "ran 2000 999000 0");
    assert_eq!(attachment.inserted(&step), (2000, 0));
    assert_eq!(target.ask("state"), "state 602000 1599000 0.0");
    assert_eq!(attachment.detach().expect("detached").bytes_left, 0);
    assert!(target.code() == before);
}

#[test]
fn inserted_calls_are_switched_off_and_on() {
    let mut target = start("-O2", "2");
    let mut attachment = open(&target);
    let step = insert(&mut attachment, "seen", Some(&[1, 0, 0, 0, 0, 0]), "step");
    for round in 1..4 {
        assert_eq!(target.ask("run 100"), "ran 200 9900 0");
        attachment.switch(&step, false).expect("off");
        assert_eq!(target.ask("run 100"), "ran 200 9900 0");
        assert_eq!(attachment.inserted(&step), (200 * round, 0));
        attachment.switch(&step, true).expect("on");
    }
    let refused = |error: thalweg_attach::Error| error.to_string();
    let error = attachment.add(&[(step.clone(), Wish::default())]).map_err(refused);
    assert_eq!(error.expect_err("a call is inserted"), "`step` is attached to already");
    let error = attachment.switch(&one(&attachment, "inserting*:wide"), false).map_err(refused);
    assert_eq!(error.expect_err("no call is inserted"), "nothing replaces `wide`");
    let error =
        attachment.insert(&step, Some(&[0; 7]), &one(&attachment, "inserting*:real")).map_err(refused);
    assert_eq!(error.expect_err("seven arguments"), "a call has six arguments at most");
    attachment.detach().expect("detached");
    assert_eq!(target.ask("state"), "state 600 600 0.0");
}

/// While the inserted call is under way, the code to which it returns is not freed.
#[test]
fn inserted_calls_under_way_are_waited_for() {
    let mut target = start("-O2", "1");
    let before = target.code();
    let mut attachment = open(&target);
    insert(&mut attachment, "seen", Some(&[4, 0, 0, 0, 0, 0]), "step");
    assert_eq!(target.ask("slow"), "set");
    assert_eq!(target.ask("begin"), "begun");
    let detaching = std::thread::spawn(move || attachment.detach().expect("detached").bytes_left);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!detaching.is_finished());
    assert_eq!(target.ask("fast"), "set");
    assert_eq!(detaching.join().expect("no panic"), 0);
    assert_eq!(target.ask("run 10"), "ran 10 45 0");
    assert_eq!(target.ask("state"), "state 1 4 0.0");
    assert!(target.code() == before);
}
