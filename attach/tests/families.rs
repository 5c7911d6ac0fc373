//! Attaches to and detaches from programs in which the first thread ends before the others, and programs with
//! children that share their memory or end at a bad moment.

mod started;

use started::{Target, compiled};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_attach::{Attachment, Function, Options, Restored, Wish, attached, detach};

fn start() -> Target {
    let folder = tempfile::tempdir().expect("a folder");
    Target::start(&compiled(folder.path(), "family.c", &["-O2"]), &[])
}

fn one(attachment: &Attachment, name: &str) -> Function {
    let mut found = attachment.modules().functions(name);
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found.remove(0)
}

fn timing() -> Wish {
    Wish { times: true, ..Wish::default() }
}

/// Attaches to `work`.
fn attach(target: &Target) -> Attachment {
    let mut attachment = Attachment::open(target.pid(), Options::default()).expect("it can be attached to");
    attachment.add(&[(one(&attachment, "work"), timing())]).expect("attached");
    attachment
}

/// The id of the child that the target makes when it is asked to.
fn child(target: &mut Target, question: &str) -> i32 {
    let answer = target.ask(question);
    answer.strip_prefix("child ").and_then(|id| id.parse().ok()).expect("a child")
}

fn kill(pid: i32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill starts").success());
}

/// Detaches beside the test, which looks a third of a second later: detaching is still waiting then.
fn detaching(attachment: Attachment) -> JoinHandle<Result<Restored, thalweg_attach::Error>> {
    let detaching = std::thread::spawn(move || attachment.detach());
    std::thread::sleep(Duration::from_millis(300));
    assert!(!detaching.is_finished());
    detaching
}

fn has_memory(pid: i32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.contains("thalweg-attach")
}

/// A living thread of the target, below which the kernel shows its memory.
fn thread_of(target: &Target) -> i32 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid())).expect("threads").flatten();
    let ids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    ids.filter(|id| *id != target.pid()).max().expect("another thread")
}

/// The first thread has ended before the program is attached to.
#[test]
fn a_program_without_its_first_thread() {
    let mut target = start();
    assert_eq!(target.ask("leave"), "left");
    let thread = thread_of(&target);
    let before = started::code_of(thread);
    for is_hot in [false, true] {
        if is_hot {
            assert_eq!(target.ask("begin"), "begun");
        }
        let mut attachment = attach(&target);
        assert!(attachment.is_alive() && has_memory(thread));
        assert_eq!(attached().iter().filter(|attached| attached.pid == target.pid()).count(), 1);
        let calls = attachment.figures(0).expect("figures").calls;
        assert_eq!(target.ask("run 1000"), "ran 1498500");
        assert!(attachment.figures(0).expect("figures").calls >= calls + 1000);
        attachment.add(&[(one(&attachment, "other"), timing())]).expect("attached");
        attachment.remove(0).expect("removed");
        attachment.renew(0).expect("renewed");
        let restored = attachment.detach().expect("detached");
        assert_eq!((restored.changes, restored.bytes_left), (2, 0));
        assert_eq!(target.ask("run 10"), "ran 135");
        assert!(!has_memory(thread) && started::code_of(thread) == before);
    }
}

/// The first thread ends while the program is attached to.
#[test]
fn a_first_thread_that_ends_meanwhile() {
    let mut target = start();
    let thread = thread_of(&target);
    let before = started::code_of(thread);
    let attachment = attach(&target);
    assert_eq!(target.ask("leave"), "left");
    assert!(attachment.is_alive() && !attachment.runs_another_program());
    let another = Attachment::open(target.pid(), Options::default()).expect_err("it is attached to");
    assert!(another.to_string().contains("is attached to by process"), "{another}");
    assert_eq!(target.ask("run 1000"), "ran 1498500");
    assert_eq!(attachment.figures(0).expect("figures").calls, 1000);
    assert_eq!(attachment.detach().expect("detached").bytes_left, 0);
    assert_eq!(target.ask("run 10"), "ran 135");
    // The C library loads another library when a thread ends in this way.
    let after = started::code_of(thread);
    assert!(!has_memory(thread) && before.iter().all(|part| after.contains(part)));
    let error = detach(target.pid()).expect_err("nothing is left").to_string();
    assert_eq!(error, format!("process {} is not attached to", target.pid()));
}

/// The memory is not freed as long as another process has it too: a thread of that process, which is not stopped,
/// may execute inserted code.
#[test]
fn children_with_the_same_memory_are_waited_for() {
    for question in ["share", "vfork"] {
        let mut target = start();
        let before = target.code();
        let attachment = attach(&target);
        let child = child(&mut target, question);
        assert!(has_memory(child), "{question}");
        let detaching = detaching(attachment);
        assert!(has_memory(child), "{question}");
        assert_eq!(target.ask("go"), "gone");
        let restored = detaching.join().expect("no panic").expect("detached");
        assert_eq!((restored.changes, restored.bytes_left), (1, 0), "{question}");
        assert_eq!(target.ask("run 10"), "ran 135");
        assert!(target.code() == before && !has_memory(target.pid()), "{question}");
    }
}

/// A child that is killed while it is detached from is no error.
#[test]
fn children_that_end_meanwhile() {
    let mut target = start();
    let before = target.code();
    let attachment = attach(&target);
    let (waiting, stuck) = (child(&mut target, "fork"), child(&mut target, "stuck"));
    assert!(has_memory(waiting) && has_memory(stuck));
    let detaching = detaching(attachment);
    kill(stuck);
    let restored = detaching.join().expect("no panic").expect("detached");
    assert_eq!(restored.bytes_left, 0, "{restored:?}");
    assert!(!has_memory(waiting), "the other child is restored");
    kill(waiting);
    assert_eq!(target.ask("run 10"), "ran 135");
    assert!(target.code() == before && !has_memory(target.pid()));
}
