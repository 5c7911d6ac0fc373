//! `thalweg attach`, `detach` and `functions`: running programs are counted, timed and changed, and are
//! restored, also when the attaching process is killed.
#![allow(clippy::print_stdout, reason = "says what is skipped, and how many were killed where")]

mod attached;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use attached::{Target, built, compiled, ran, started, text, thalweg, until};

#[test]
fn calls_are_counted_until_detached() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "2");
    let code = target.code();
    let arguments = ["attach", &target.pid(), "--time", "work", "--args", "1", "--json"];
    let mut command = thalweg(folder.path(), &arguments);
    let attaching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("thalweg starts");
    until("it attaches", || target.code() != code);
    assert_eq!(target.ask("run 1000"), "done 2000");

    let listed = text(&ran(folder.path(), &["attach", "--list", "--json"]).stdout);
    assert!(listed.contains(&format!("\"pid\":{}", target.pid())), "{listed}");
    let second = ran(folder.path(), &["attach", &target.pid(), "--count", "deep"]);
    let stderr = text(&second.stderr);
    assert!(second.status.code() == Some(2) && stderr.contains("is attached to by process"), "{stderr}");

    let detached = ran(folder.path(), &["detach", &target.pid()]);
    assert!(detached.status.success(), "{}", text(&detached.stderr));
    let output = attaching.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!((&object["calls"], &object["times"]["count"]), (&2000.into(), &2000.into()));
    assert_eq!(object["arguments"]["1"]["buckets"], serde_json::json!([[0, 0, 2000]]));
    assert!(!target.attached() && target.code() == code);
    assert_eq!(target.ask("run 10"), "done 20");
    let again = ran(folder.path(), &["detach", &target.pid()]);
    assert!(text(&again.stderr).contains("is not attached to"));
}

#[test]
fn other_commands_read_the_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let code = target.code();
    let arguments = ["attach", &target.pid(), "--count", "work", "--every", "50ms", "--keep"];
    let mut command = thalweg(folder.path(), &arguments);
    let attaching = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("thalweg starts");
    until("it attaches", || target.code() != code);
    assert_eq!(target.ask("run 500"), "done 500");
    assert!(ran(folder.path(), &["detach", &target.pid()]).status.success());
    let attaching = attaching.wait_with_output().expect("it ends");
    assert!(attaching.status.success());
    let counters = ran(folder.path(), &["calls", "attach-hot"]);
    let stdout = text(&counters.stdout);
    assert!(stdout.contains("work") && stdout.contains("500"), "{stdout}{}", text(&counters.stderr));
}

#[test]
fn actions_are_done_and_undone() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let arguments = ["attach", &target.pid(), "--set-arg", "note:0=7", "--set-var", "level=5"];
    let mut command = thalweg(folder.path(), &arguments);
    let mut attaching = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("thalweg starts");
    let mut stderr = BufReader::new(attaching.stderr.take().expect("a pipe")).lines();
    while !stderr.next().expect("a line").expect("text").contains("(was 3)") {}
    assert_eq!(target.ask("note 1"), "noted");
    assert_eq!(target.ask("ask"), "value 5 0 7");
    assert!(ran(folder.path(), &["detach", &target.pid()]).status.success());
    attaching.wait().expect("it ends");
    assert_eq!(target.ask("note 1"), "noted");
    assert_eq!(target.ask("ask"), "value 3 0 1");

    // The threads of the program rest in `usleep`, which they enter from outside of the C library.
    let called = ran(folder.path(), &["attach", &target.pid(), "--call", "libc.so.6:abs(-12)"]);
    let stderr = text(&called.stderr);
    assert!(called.status.success() && stderr.contains("returned 12"), "{stderr}");
    assert!(!target.attached());
}

/// Kills the attaching process at any moment: each time its changes are undone, and the target's results are
/// right at any time. In some rounds the process that guards the attachment is killed as well; then the next
/// attachment undoes everything.
fn killed(rounds: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "4");
    let code = target.code();
    assert_eq!(target.ask("begin"), "begun");
    let mut chance = thalweg_chance::Chance::new(12345);
    let (mut attached, mut made_up_for) = (0, 0);
    for _ in 0..rounds {
        let pid = target.pid();
        let mut arguments = vec!["attach", &pid, "--time", "work", "--time", "deep", "--count", "wide"];
        arguments.extend(["--set-var", "level=4"]);
        for some in [
            // The process may be killed while it detaches, or while a thread of the target makes a call for
            // the attaching process.
            &["--for", "5ms"][..],
            &["--set-arg", "note:0=7"],
            &["--call", "libc.so.6:labs(-12)", "--at", "safe_point"],
        ] {
            if chance.one_in(3) {
                arguments.extend(some);
            }
        }
        let mut command = thalweg(folder.path(), &arguments);
        let mut attaching =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("thalweg starts");
        // The kill comes after the first system call made in the target, or at any moment.
        if chance.one_in(2) {
            until("it begins to attach", || {
                target.attached() || attaching.try_wait().expect("a status").is_some()
            });
        }
        std::thread::sleep(Duration::from_micros(chance.below(20_000)));
        attached += u64::from(target.attached());
        let children = format!("/proc/{0}/task/{0}/children", attaching.id());
        let guard = std::fs::read_to_string(children).unwrap_or_default();
        let has_guard = !guard.trim().is_empty();
        if has_guard && chance.one_in(3) {
            // The process that guards the attachment may have ended by now.
            let _ = Command::new("kill").args(["-9", guard.trim()]).stderr(Stdio::null()).status();
            attaching.kill().expect("it is killed");
            attaching.wait().expect("it ends");
            made_up_for += u64::from(target.attached());
            let next = ran(folder.path(), &["attach", &pid, "--count", "work", "--for", "5ms"]);
            assert!(next.status.success(), "{}", text(&next.stderr));
            assert!(!target.attached());
        } else {
            attaching.kill().expect("it is killed");
            attaching.wait().expect("it ends");
            until("the guard takes everything back", || !target.attached());
        }
        assert!(target.code() == code);
    }
    assert!(attached > 0, "no round got as far as to attach");
    let ended = target.ask("end");
    assert!(ended.ends_with(" 0"), "{ended}");
    // Only the argument that the target recorded last may still be a changed one.
    assert!(target.ask("ask").starts_with("value 3 0 "));
    println!("{attached} of {rounds} were killed while attached, {made_up_for} together with their guards");
}

#[test]
fn what_a_killed_one_has_left_is_taken_back() {
    killed(12);
}

#[test]
#[ignore = "takes minutes"]
fn what_a_hundred_killed_ones_have_left_is_taken_back() {
    killed(100);
}

/// A running `thalweg attach`, and its output so far.
struct Attaching {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Attaching {
    fn start(folder: &Path, arguments: &[&str]) -> Attaching {
        let mut command = thalweg(folder, arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("thalweg starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Attaching { child, stderr }
    }

    /// Waits for a line that contains this text.
    fn wait_for_line(&mut self, part: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let bytes = self.stderr.read_line(&mut line).expect("text");
            assert!(bytes > 0, "it ended without saying `{part}`: {all}");
            if line.contains(part) {
                return line;
            }
            all += &line;
        }
    }

    fn ends(mut self) {
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Attaching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_costliest_points_are_taken_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "2");
    let code = target.code();
    assert_eq!(target.ask("begin"), "begun");
    let (pid, limits) = (target.pid(), ["--budget", "0.0001", "--every", "50ms"]);
    let points = ["--time", "work", "--count", "get_state"];
    let mut attaching = Attaching::start(folder.path(), &[&["attach", &pid], &points[..], &limits].concat());
    let line = attaching.wait_for_line("is taken away");
    assert!(line.contains("work costs ") && line.contains("are allowed"), "{line}");
    // The point that costs nothing was not removed.
    assert!(target.attached() && target.code() != code);
    assert!(ran(folder.path(), &["detach", &pid]).status.success());
    attaching.ends();
    assert!(target.ask("end").ends_with(" 0"));
    assert!(!target.attached() && target.code() == code);
}

#[test]
fn points_and_values_are_set_from_outside() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let code = target.code();
    let pid = target.pid();
    let what = ["--count", "work", "--set-arg", "note:0=7", "--set-var", "level=5"];
    let mut attaching = Attaching::start(folder.path(), &[&["attach", &pid], &what[..]].concat());
    attaching.wait_for_line("(was 3)");
    let mut found = String::new();
    until("the settings are there", || {
        found = text(&ran(folder.path(), &["get", "attach-hot"]).stdout);
        found.contains("variable/level")
    });
    assert!(found.contains("point/work.on") && found.contains("point/note.arg0"), "{found}");
    let set = |name: &str, value: &str| {
        let output = ran(folder.path(), &["set", "attach-hot", name, value]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    set("point/note.arg0", "8");
    set("variable/level", "6");
    let mut asked = String::new();
    until("the values are adopted", || {
        assert_eq!(target.ask("note 1"), "noted");
        asked = target.ask("ask");
        asked == "value 6 0 8"
    });
    set("point/note.on", "0");
    until("the point is taken away", || {
        assert_eq!(target.ask("note 1"), "noted");
        target.ask("ask") == "value 6 0 1"
    });
    set("point/note.on", "1");
    until("the point is back", || {
        assert_eq!(target.ask("note 1"), "noted");
        target.ask("ask") == "value 6 0 8"
    });
    // A change with a lease is undone by the attaching process when the lease ends.
    let lent = ran(folder.path(), &["set", "attach-hot", "point/note.arg0", "9", "--for", "100ms"]);
    assert!(lent.status.success(), "{}", text(&lent.stderr));
    until("the lease ends", || {
        assert_eq!(target.ask("note 1"), "noted");
        target.ask("ask") == "value 6 0 8"
    });
    assert!(ran(folder.path(), &["detach", &pid]).status.success());
    attaching.ends();
    assert_eq!(target.ask("note 1"), "noted");
    assert_eq!(target.ask("ask"), "value 3 0 1");
    assert!(target.code() == code);
}

#[test]
fn only_calls_of_a_condition_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let pid = target.pid();
    let arguments = ["attach", &pid, "--count", "work", "--when", "arg0 >= 990", "--json"];
    let mut command = thalweg(folder.path(), &arguments);
    let attaching = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("thalweg starts");
    until("it attaches", || target.attached());
    until("it is ready", || text(&ran(folder.path(), &["get", "attach-hot"]).stdout).contains("point/work"));
    assert_eq!(target.ask("run 1000"), "done 1000");
    assert!(ran(folder.path(), &["detach", &pid]).status.success());
    let output = attaching.wait_with_output().expect("it ends");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(object["calls"], 10);
}

#[test]
fn only_calls_of_one_caller_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let pid = target.pid();
    for (from, expected) in [("running", 1000), ("deep", 6)] {
        let code = target.code();
        let arguments = ["attach", &pid, "--count", "work", "--from", from, "--json"];
        let mut command = thalweg(folder.path(), &arguments);
        let attaching = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("thalweg starts");
        until("it attaches", || target.code() != code);
        assert_eq!(target.ask("run 1000"), "done 1000");
        assert_eq!(target.ask("fork"), "forked 0");
        assert!(ran(folder.path(), &["detach", &pid]).status.success());
        let output = attaching.wait_with_output().expect("it ends");
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
        assert_eq!(object["calls"], expected, "{from}");
    }
    let output = ran(folder.path(), &["attach", &pid, "--count", "work", "--from", "running+0xffff"]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("no call in it returns to its byte 0xffff"), "{stderr}");
}

/// A process that begins another program, or its own anew, is attached to again.
#[test]
fn a_program_that_begins_anew_is_attached_to_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let pid = target.pid();
    let mut command = thalweg(folder.path(), &["attach", &pid, "--count", "work", "--json"]);
    let attaching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("thalweg starts");
    let is_counting = || text(&ran(folder.path(), &["get", "attach-hot"]).stdout).contains("point/work.on");
    for calls in [10, 20] {
        until("it attaches", || target.attached() && is_counting());
        assert_eq!(target.ask(&format!("run {calls}")), format!("done {calls}"));
        if calls == 10 {
            assert_eq!(target.ask("exec"), "ready");
        }
    }
    assert!(ran(folder.path(), &["detach", &pid]).status.success());
    let output = attaching.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let calls = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an object")["calls"].as_u64())
        .collect::<Vec<_>>();
    assert_eq!(calls, [Some(10), Some(20)], "{}", text(&output.stderr));
    assert_eq!(target.ask("run 10"), "done 10");
    assert!(!target.attached());
}

/// A process can be named by the session in which it has a space.
#[test]
fn processes_are_found_by_their_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = folder.path().join("shop");
    let target = Target::start(folder.path(), "1");
    // The attached program's figures are in a space of the process that attaches, which is in the session.
    let mut command = thalweg(folder.path(), &["attach", &target.pid(), "--count", "work"]);
    command.env("THALWEG_SESSION", &session).stdout(Stdio::null()).stderr(Stdio::null());
    let mut attaching = command.spawn().expect("thalweg starts");
    // The process of the session is found; whether its functions can be listed depends on how it is linked.
    let mut found = ran(folder.path(), &["functions", "shop", "main", "--json"]);
    until("the session has a process", || {
        found = ran(folder.path(), &["functions", "shop", "main", "--json"]);
        !text(&found.stderr).contains("no session with one")
    });
    let (stdout, stderr) = (text(&found.stdout), text(&found.stderr));
    let is_listed = stdout.contains("\"module\":\"thalweg\"");
    assert!(is_listed || stderr.contains("the program has neither the C library"), "{stdout}{stderr}");
    assert!(ran(folder.path(), &["detach", &target.pid()]).status.success());
    assert!(attaching.wait().expect("it ends").success());
}

/// Another user may not attach, and the error says why.
#[test]
fn other_users_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(folder.path(), "1");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_thalweg")]);
    let output = command.args(["attach", &target.pid(), "--count", "work"]).output();
    let Ok(output) = output else { return println!("skipped: there is no setpriv") };
    let stderr = text(&output.stderr);
    if stderr.contains("setpriv: ") {
        return println!(
            "skipped: only root can be another user, or that user cannot reach the program: {stderr}"
        );
    }
    let own = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).expect("a status");
    let id =
        own.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()).expect("an id");
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains(&format!("belongs to the user with id {id}: attach as that user or as root")),
        "{stderr}"
    );
    assert!(!target.attached());
}

#[test]
fn a_killed_guard_is_made_up_for_by_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "2");
    let code = target.code();
    let mut command = thalweg(folder.path(), &["attach", &target.pid(), "--time", "work"]);
    let mut attaching = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("thalweg starts");
    until("it attaches", || target.code() != code);
    let children = format!("/proc/{0}/task/{0}/children", attaching.id());
    let guard = std::fs::read_to_string(children).expect("children");
    let status = Command::new("kill").args(["-9", guard.trim()]).status().expect("kill starts");
    assert!(status.success(), "{guard}");
    attaching.kill().expect("it is killed");
    attaching.wait().expect("it ends");
    assert!(target.attached(), "nothing is left that would take it back");
    assert_eq!(target.ask("run 10"), "done 20");
    let detached = ran(folder.path(), &["detach", &target.pid()]);
    assert!(detached.status.success(), "{}", text(&detached.stderr));
    assert!(!target.attached() && target.code() == code);
}

#[test]
fn functions_are_listed_and_unknown_ones_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(folder.path(), "1");
    let listed = ran(folder.path(), &["functions", &target.pid(), "w*", "--json"]);
    let printed = text(&listed.stdout);
    assert!(printed.contains("\"name\":\"work\"") && printed.contains("\"name\":\"write\""), "{printed}");
    for (arguments, expected) in [
        (&["--count", "no_such"][..], "no function is called `no_such`"),
        (&["--count", "looping"], "jumps into its own first 6 bytes"),
        (&["--count", "tiny"], "too short"),
        (&[], "say what to do"),
    ] {
        let output = ran(folder.path(), &[&["attach", &target.pid()], arguments].concat());
        let printed = text(&output.stderr);
        assert!(output.status.code() == Some(2) && printed.contains(expected), "{arguments:?}: {printed}");
    }
    let nobody = ran(folder.path(), &["attach", "no-such-program", "--count", "f"]);
    assert!(text(&nobody.stderr).contains("no process is called"), "{}", text(&nobody.stderr));
    assert!(!target.attached());
}

/// One of several processes `thalweg attach` that are started at once; it waits for a library that is never
/// loaded, so nothing of it is in the target yet.
fn waits_for_library(folder: &Path, target: &Target) -> Attaching {
    Attaching::start(folder, &["attach", &target.pid(), "--count", "libnever.so:work"])
}

#[test]
fn of_several_at_once_one_has_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "2");
    let code = target.code();
    let mut several: Vec<Attaching> = (0..4).map(|_| waits_for_library(folder.path(), &target)).collect();
    let has_ended = |one: &mut Attaching| one.child.try_wait().expect("a status").is_some();
    until("all but one end", || several.iter_mut().map(has_ended).filter(|ended| *ended).count() == 3);
    let first = several.iter_mut().position(|one| !has_ended(one)).expect("one is left");
    let mut first = several.swap_remove(first);
    first.wait_for_line("waiting for it to load one");
    let expected = format!("process {} is attached to by process {}: ", target.pid(), first.child.id());
    for mut other in several {
        assert_eq!(other.child.wait().expect("it has ended").code(), Some(2));
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut other.stderr, &mut stderr).expect("text");
        assert!(stderr.contains(&expected) && stderr.trim_end().lines().count() == 1, "{stderr}");
    }
    // The claim of a killed attaching process on the target ends at once, and the next attachment counts
    // calls.
    first.child.kill().expect("it is killed");
    first.child.wait().expect("it ends");
    let mut next = Attaching::start(folder.path(), &["attach", &target.pid(), "--count", "work"]);
    next.wait_for_line("attached to 1 function");
    assert_eq!(target.ask("run 10"), "done 20");
    let detached = ran(folder.path(), &["detach", &target.pid()]);
    assert!(detached.status.success(), "{}", text(&detached.stderr));
    next.ends();
    assert!(!target.attached() && target.code() == code);
}

#[test]
fn one_that_waits_for_a_library_is_detached() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(folder.path(), "1");
    let none = ran(folder.path(), &["detach", &target.pid()]);
    assert!(text(&none.stderr).contains("is not attached to"), "{}", text(&none.stderr));
    let mut waiting = waits_for_library(folder.path(), &target);
    waiting.wait_for_line("waiting for it to load one");
    let detached = ran(folder.path(), &["detach", &target.pid()]);
    assert!(detached.status.success(), "{}", text(&detached.stderr));
    waiting.ends();
}

/// Also a process in another container is refused an attachment, if the kernel's process descriptors are
/// files of their own, as from Linux 6.9 on.
#[test]
fn a_second_one_in_another_container_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(folder.path(), "1");
    let mut first = waits_for_library(folder.path(), &target);
    first.wait_for_line("waiting for it to load one");
    let mut second = Command::new("unshare");
    // The second process sees all processes with the same numbers, but through another `/proc`.
    second.args(["--mount", "--mount-proc", env!("CARGO_BIN_EXE_thalweg")]);
    second
        .args(["attach", &target.pid(), "--count", "work", "--for", "5ms"])
        .env("THALWEG_SPACES", folder.path());
    let Ok(output) = second.output() else { return println!("skipped: there is no unshare") };
    let stderr = text(&output.stderr);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let kernel = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if stderr.contains("unshare: ") || kernel < (6, 9) {
        return println!("skipped: no namespaces, or Linux before 6.9 ({release}): {stderr}");
    }
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(&format!("is attached to by process {}", first.child.id())), "{stderr}");
    drop(first);
}

/// A program in a container, whose files and process ids are others than outside, is attached to from outside.
#[test]
fn a_program_in_a_container_is_attached_to_from_outside() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path());
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).expect("a folder");
    // The program's file is in a file system that only the container has.
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {0}/contained && echo mounted && exec {0}/contained 1",
        inner.display(),
        program.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return println!("skipped: there is no unshare") };
    let input = child.stdin.take().expect("a pipe");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut target = Target { child, input, output };
    let mut line = String::new();
    target.output.read_line(&mut line).expect("text");
    if line != "mounted\n" {
        return println!("skipped: no namespaces here");
    }
    assert_eq!(target.answer(), "ready");
    let children = format!("/proc/{0}/task/{0}/children", target.pid());
    let pid = std::fs::read_to_string(children).expect("children").trim().to_owned();
    assert!(!inner.join("contained").exists());
    let mut attaching =
        Attaching::start(folder.path(), &["attach", &pid, "--count", "work", "--every", "10ms"]);
    attaching.wait_for_line("attached to 1 function");
    assert_eq!(target.ask("run 100"), "done 100");
    until("the calls are counted", || {
        text(&ran(folder.path(), &["calls", "attach-contained"]).stdout).contains("100")
    });
    let detached = ran(folder.path(), &["detach", &pid]);
    assert!(detached.status.success(), "{}", text(&detached.stderr));
    attaching.ends();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    assert!(!maps.contains("thalweg-attach"), "{maps}");
    assert_eq!(target.ask("run 10"), "done 10");
}

#[test]
fn programs_that_changed_their_user_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path());
    let allow = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    allow(folder.path(), 0o755).expect("its owner may");
    allow(&program, 0o4755).expect("its owner may");
    let mut command = Command::new("setpriv");
    command.args(NOBODY).arg(&program).arg("1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return println!("skipped: there is no setpriv") };
    let input = child.stdin.take().expect("a pipe");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut target = Target { child, input, output };
    let mut line = String::new();
    target.output.read_line(&mut line).expect("text");
    let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap_or_default();
    if line != "ready\n" || !status.contains("Uid:\t65534\t0\t") {
        return println!("skipped: only root can be another user, or this file system has no set-user-ID");
    }
    let mut command = Command::new("setpriv");
    command.args(NOBODY).arg(env!("CARGO_BIN_EXE_thalweg")).args([
        "attach",
        &target.pid(),
        "--count",
        "work",
    ]);
    let output = command.output().expect("setpriv starts");
    let stderr = text(&output.stderr);
    if stderr.contains("setpriv: ") {
        return println!("skipped: that user cannot reach the program: {stderr}");
    }
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("has changed its user (set-user-ID): only root may attach to it"), "{stderr}");
    assert!(!target.attached());
    let by_root = ran(folder.path(), &["attach", &target.pid(), "--count", "work", "--for", "5ms"]);
    assert!(by_root.status.success(), "{}", text(&by_root.stderr));
    assert_eq!(target.ask("run 10"), "done 10");
    assert!(!target.attached());
}

/// Any process can hold the lock that an attaching process holds: the error names such a process, and it is
/// not ended.
#[test]
fn a_holder_of_the_lock_that_did_not_attach_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(folder.path(), "1");
    let program = built(folder.path(), "claiming", &[]);
    let mut command = Command::new(program);
    command.arg(target.pid()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = command.spawn().expect("it starts");
    let input = holder.stdin.take().expect("a pipe");
    let mut line = String::new();
    BufReader::new(holder.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
    assert_eq!(line, "ready\n");

    let expected = format!("process {} (claiming) holds the lock", holder.id());
    for arguments in [&["detach", &target.pid()][..], &["attach", &target.pid(), "--count", "work"]] {
        let output = ran(folder.path(), arguments);
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(&expected), "{arguments:?}: {stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    }
    assert!(holder.try_wait().expect("a status").is_none(), "it was ended");
    drop(input);
    assert!(holder.wait().expect("it ends").success());
    let attached = ran(folder.path(), &["attach", &target.pid(), "--count", "work", "--for", "5ms"]);
    assert!(attached.status.success(), "{}", text(&attached.stderr));
}

/// The output of `thalweg attach` with these arguments, while the target calls `work` a thousand times.
fn of_a_thousand_calls(folder: &Path, target: &mut Target, arguments: &[&str]) -> String {
    let code = target.code();
    let mut command = thalweg(folder, arguments);
    let attaching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("thalweg starts");
    until("it attaches", || target.code() != code);
    assert_eq!(target.ask("run 1000"), "done 1000");
    assert!(ran(folder, &["detach", &target.pid()]).status.success());
    let output = attaching.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let left = text(&ran(folder, &["ls"]).stdout);
    assert!(!left.contains("attach-"), "the space is removed: {left}");
    text(&output.stdout)
}

#[test]
fn the_last_calls_are_shown_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let code = target.code();
    for json in [false, true] {
        let pid = target.pid();
        let mut arguments = vec!["attach", &pid, "--time", "work", "--args", "0", "--last", "3"];
        arguments.extend(json.then_some("--json"));
        let printed = of_a_thousand_calls(folder.path(), &mut target, &arguments);
        if json {
            let object: serde_json::Value = serde_json::from_str(&printed).expect("an object");
            let kept = object["kept"].as_array().expect("calls");
            let argument = |call: &serde_json::Value| call["arguments"][0][1].as_u64();
            assert_eq!(
                kept.iter().map(argument).collect::<Vec<_>>(),
                [Some(997), Some(998), Some(999)],
                "{printed}"
            );
            assert_eq!((&kept[2]["result"], &object["not_kept"]), (&2997.into(), &0.into()));
        } else {
            let calls = printed.split("calls of work\n").nth(1).expect("the calls").lines().skip(1);
            let ends: Vec<(String, String)> = calls
                .filter_map(|line| {
                    let mut cells = line.split_whitespace().rev();
                    Some((cells.nth(1)?.to_owned(), line.split_whitespace().last()?.to_owned()))
                })
                .collect();
            let expected = [("997", "2991"), ("998", "2994"), ("999", "2997")];
            assert_eq!(ends, expected.map(|(one, two)| (one.to_owned(), two.to_owned())), "{printed}");
        }
        assert!(!target.attached() && target.code() == code);
    }
}

#[test]
fn calls_are_counted_by_their_callers() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let code = target.code();
    for json in [false, true] {
        let pid = target.pid();
        let mut arguments = vec!["attach", &pid, "--callers", "work"];
        arguments.extend(json.then_some("--json"));
        let printed = of_a_thousand_calls(folder.path(), &mut target, &arguments);
        if json {
            let object: serde_json::Value = serde_json::from_str(&printed).expect("an object");
            let callers = object["callers"].as_array().expect("callers");
            let calls: u64 = callers.iter().filter_map(|caller| caller["calls"].as_u64()).sum();
            assert_eq!((&object["calls"], calls), (&1000.into(), 1000), "{printed}");
        } else {
            assert!(printed.contains("running+"), "{printed}");
        }
        assert!(!target.attached() && target.code() == code);
    }
}

/// The arguments and the result of each call in the member `kept`.
fn values(object: &serde_json::Value) -> Vec<(Vec<String>, serde_json::Value)> {
    let value =
        |argument: &serde_json::Value| format!("{} = {}", argument[0].as_str().expect("a name"), argument[1]);
    let calls = object["kept"].as_array().expect("calls").iter();
    let of_call = |call: &serde_json::Value| {
        (call["arguments"].as_array().expect("values").iter().map(value).collect(), call["result"].clone())
    };
    calls.map(of_call).collect()
}

#[test]
fn arguments_have_their_types_where_debugging_information_is() {
    let folder = tempfile::tempdir().expect("a folder");
    for (options, is_typed) in [(&["-O0", "-g"][..], true), (&["-O2", "-g"], true), (&["-O2"], false)] {
        let mut target = started(built(folder.path(), "typed", options));
        let pid = target.pid();
        let code = target.code();
        let attach = ["attach", &pid, "--time", "scaled", "--time", "area", "--last", "1", "--json"];
        let mut command = thalweg(folder.path(), &attach);
        let attaching =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("thalweg starts");
        until("it attaches", || target.code() != code);
        target.ask("go");
        assert!(ran(folder.path(), &["detach", &pid]).status.success());
        let output = attaching.wait_with_output().expect("it ends");
        let stdout = text(&output.stdout);
        let objects: Vec<serde_json::Value> =
            stdout.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        let (scaled, area) = (values(&objects[0]), values(&objects[1]));
        if !is_typed {
            assert!(scaled[0].0[0].starts_with("ARG 0 = ") && scaled[0].0.len() == 3, "{stdout}");
            continue;
        }
        let expected = [
            "const char *name = \"\\\"a name\\\"\"",
            "double by = 2.5",
            "int times = -4",
            "float more = 0.5",
        ];
        assert_eq!(scaled, [(expected.map(str::to_owned).to_vec(), serde_json::json!(-9.5))], "{stdout}");
        // A parameter after a structure that is passed by value has no certain place, so it is not shown.
        assert_eq!(area, [(vec!["unsigned char unit = 200".to_owned()], serde_json::json!(12))], "{stdout}");
    }
}

/// With `--events` each call is an event, like a call of a program with probes.
#[test]
fn every_call_is_an_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "2");
    let code = target.code();
    let pid = target.pid();
    let arguments = ["attach", &pid, "--time", "work", "--time", "tail", "--events", "--keep", "--json"];
    let mut command = thalweg(folder.path(), &arguments);
    let attaching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("thalweg starts");
    until("it attaches", || target.code() != code);
    assert_eq!(target.ask("run 100"), "done 200");
    assert!(ran(folder.path(), &["detach", &pid]).status.success());
    let output = attaching.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let first = text(&output.stdout).lines().next().expect("an object").to_owned();
    let object: serde_json::Value = serde_json::from_str(&first).expect("an object");
    assert_eq!((&object["calls"], &object["without_event"]), (&200.into(), &0.into()), "{first}");

    let calls = ran(folder.path(), &["calls", "attach-hot", "--json"]);
    let stdout = text(&calls.stdout);
    let object: serde_json::Value = serde_json::from_str(&stdout).expect("an object");
    let operations = object["operations"].as_array().expect("operations");
    let work = operations.iter().find(|operation| operation["name"] == "work").expect("it was called");
    assert_eq!(work["count"], 200, "{stdout}");
    let events = ran(folder.path(), &["events", "attach-hot"]);
    let stdout = text(&events.stdout);
    assert_eq!(stdout.lines().filter(|line| line.contains("probe.called")).count(), 200, "{stdout}");
}
