//! `thalweg attach`: points that are measured less often, what is recorded of its actions, types from packs, and
//! children that begin other programs.

mod attached;

use std::io::{BufReader, Write};
use std::process::{Child, Command, Stdio};

use attached::{Target, built, compiled, ran, spawned, started, text, thalweg, until};

/// The objects that the command printed, each of a function.
fn objects(stdout: &[u8]) -> Vec<serde_json::Value> {
    text(stdout).lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// Starts `thalweg` with both outputs kept.
fn starts(folder: &std::path::Path, arguments: &[&str]) -> Child {
    let mut command = thalweg(folder, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("thalweg starts")
}

/// A point that costs too much is thinned: all calls are counted, and some are timed.
#[test]
fn the_costliest_points_are_thinned_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "2");
    let pid = target.pid();
    assert_eq!(target.ask("begin"), "begun");
    let attach = |more: &[&str]| {
        let arguments = [&["attach", &pid, "--time", "work", "--json"], more].concat();
        let output = ran(folder.path(), &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        (objects(&output.stdout).remove(0), text(&output.stderr))
    };
    // On a busy machine the program may get a greater or smaller part of the processors later, and its calls cost
    // more or less then.
    let mut tries = 0;
    let thinned = loop {
        let (free, _) = attach(&["--for", "500ms"]);
        assert_eq!(free["one_in"], 1);
        assert!(free["times"]["count"].as_u64() > Some(0), "{free}");
        // Half of the cost is allowed, which is more than counting costs.
        let percent = free["cost"].as_f64().expect("a cost") * 50.0;
        let (thinned, stderr) =
            attach(&["--for", "1s", "--every", "100ms", "--budget", &percent.to_string()]);
        let is_thinned =
            stderr.contains("work costs ") && stderr.contains("is measured, and all are counted");
        if is_thinned && !stderr.contains("is taken away") {
            break thinned;
        }
        tries += 1;
        assert!(tries < 8, "{stderr}");
    };
    // The objects are those of the first interval.
    assert_eq!(thinned["one_in"], 1);
    assert!(target.ask("end").ends_with(" 0"));
    assert!(!target.attached());
}

/// How many calls are measured is a setting.
#[test]
fn points_are_thinned_from_outside() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let arguments = ["attach", &target.pid(), "--time", "note", "--count", "work", "--json"];
    let attaching = starts(folder.path(), &arguments);
    let mut found = String::new();
    until("the settings are there", || {
        found = text(&ran(folder.path(), &["get", "attach-hot"]).stdout);
        found.contains("point/note.one_in") && found.contains("point/work.on")
    });
    assert!(!found.contains("point/work.one_in"), "{found}");
    let set = |value: &str| {
        let output = ran(folder.path(), &["set", "attach-hot", "point/note.one_in", value]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    set("4");
    until("it is thinned", || {
        let before = text(&ran(folder.path(), &["events", "attach-hot", "--json"]).stdout);
        before.contains("setting_adopted")
    });
    for number in 0..40 {
        assert_eq!(target.ask(&format!("note {number}")), "noted");
    }
    set("3");
    assert!(ran(folder.path(), &["detach", &target.pid()]).status.success());
    let output = attaching.wait_with_output().expect("it ends");
    let note = objects(&output.stdout).remove(0);
    assert_eq!((&note["calls"], &note["one_in"]), (&40.into(), &4.into()), "{note}");
    assert_eq!(note["times"]["count"], 10, "{note}");
}

/// The changes that options make are recorded as commands are, with the process and the user that made them.
#[test]
fn actions_of_options_are_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(folder.path(), "1");
    let what = ["--set-arg", "note:0=7", "--set-var", "level=5", "--call", "libc.so.6:abs(-12)"];
    let pid = target.pid();
    let arguments = [&["attach", &pid, "--for", "100ms", "--keep"], &what[..]].concat();
    let done = ran(folder.path(), &arguments);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let events = text(&ran(folder.path(), &["events", "attach-hot", "--json"]).stdout);
    let commands: Vec<serde_json::Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .filter(|event: &serde_json::Value| event.to_string().contains("space.command_"))
        .collect();
    let of = |part: &str| {
        let found = commands.iter().find(|event| event.to_string().contains(part));
        found.map(serde_json::Value::to_string).unwrap_or_else(|| panic!("no {part} in {events}"))
    };
    for (name, arguments, result) in [
        ("set-arg", "note:0=7", "from now on"),
        ("set-var", "level=5", "was 3"),
        ("call", "libc.so.6:abs(-12)", "returned 12"),
    ] {
        let command = of(arguments);
        assert!(command.contains(&format!("\"{name}\"")), "{command}");
        assert!(command.contains(&format!("process {}", target.pid())), "{command}");
        assert!(command.contains("thalweg attach") && of(result).contains("command_answered"), "{command}");
    }
}

/// Checks that a space has an event with all of these parts in its text; the error shows all events.
fn assert_event(folder: &std::path::Path, space: &str, parts: &[&str]) {
    let events = text(&ran(folder, &["events", space, "--json"]).stdout);
    let has = |line: &&str| parts.iter().all(|part| line.contains(part));
    assert!(events.lines().find(has).is_some(), "no {parts:?} in {events}");
}

/// What is undone is recorded with the reason: by the attaching process when it detaches, and by its guard when
/// it was killed.
#[test]
fn what_is_undone_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let pid = target.pid();
    let what = ["--set-arg", "note:0=7", "--set-var", "level=5"];
    let for_a_moment = [&["attach", &pid, "--for", "100ms", "--keep"], &what[..]].concat();
    let done = ran(folder.path(), &for_a_moment);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_event(folder.path(), "attach-hot", &["command_adopted", "\"undo\"", "set-arg note:0=7"]);
    assert_event(folder.path(), "attach-hot", &["command_adopted", "\"undo\"", "set-var level=5"]);
    assert_event(folder.path(), "attach-hot", &["answered", "level is 3 again: the time of --for is over"]);

    let mut attaching = starts(folder.path(), &[&["attach", &pid], &what[..]].concat());
    until("the variable is set", || target.ask("ask").starts_with("value 5 "));
    until("the guard has the note", || {
        text(&ran(folder.path(), &["ls"]).stdout).contains("attach-hot")
            && target.ask("note 1") == "noted"
            && target.ask("ask") == "value 5 0 7"
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    attaching.kill().expect("it is killed");
    attaching.wait().expect("it ends");
    until("the guard has undone the changes", || !target.attached());
    until("the guard has recorded them", || text(&ran(folder.path(), &["ls"]).stdout).contains("undone-hot"));
    let why = "level is 3 again: the process that attached was killed";
    until("the guard's record is there", || {
        text(&ran(folder.path(), &["events", "undone-hot", "--json"]).stdout).contains(why)
    });
    assert_event(folder.path(), "undone-hot", &["\"undo\"", "set-var level=5", "attach-guard"]);
}

/// What a killed process and its guard have left is recorded, too, when `thalweg detach` undoes it.
#[test]
fn what_detach_undoes_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(folder.path(), "1");
    let (pid, code) = (target.pid(), target.code());
    let mut attaching = starts(folder.path(), &["attach", &pid, "--count", "work"]);
    until("it attaches", || target.code() != code);
    let children = format!("/proc/{0}/task/{0}/children", attaching.id());
    let guard = std::fs::read_to_string(children).expect("children");
    assert!(Command::new("kill").args(["-9", guard.trim()]).status().expect("kill starts").success());
    attaching.kill().expect("it is killed");
    attaching.wait().expect("it ends");
    assert!(target.attached());
    let detached = ran(folder.path(), &["detach", &pid]);
    assert!(detached.status.success(), "{}", text(&detached.stderr));
    assert!(target.code() == code);
    assert_event(folder.path(), "undone-hot", &["command_adopted", "\"undo\"", "\"work\"", "thalweg detach"]);
    let why = "put back: the process that attached before was killed";
    assert_event(folder.path(), "undone-hot", &["command_answered", why]);

    // What the attaching process itself undoes is recorded in its own space.
    let attaching = starts(folder.path(), &["attach", &pid, "--count", "work"]);
    until("it attaches", || target.code() != code);
    assert!(ran(folder.path(), &["detach", &pid]).status.success());
    assert!(attaching.wait_with_output().expect("it ends").status.success());
    let undone = text(&ran(folder.path(), &["events", "undone-hot", "--json"]).stdout);
    assert_eq!(undone.matches("command_adopted").count(), 1, "{undone}");
}

/// A function is replaced, and a call is inserted at another; both are settings, with leases, and are undone.
#[test]
fn functions_are_replaced_and_calls_inserted() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = built(folder.path(), "storm_kept", &["-O2", "-shared", "-fPIC"]);
    let mut target = started(built(folder.path(), "user", &["-O2", "-ldl"]));
    assert_eq!(target.ask(&format!("load {}", library.display())), "loaded");
    let (pid, code) = (target.pid(), target.code());
    let what = ["--replace", "kept=instead", "--insert", "libc.so.6:puts=called(3)", "--keep"];
    let attaching = starts(folder.path(), &[&["attach", &pid], &what[..]].concat());
    until("it is replaced", || target.ask("kept 10") == "kept 72");
    let get = |name: &str| {
        let all = text(&ran(folder.path(), &["get", "attach-user", "--json"]).stdout);
        all.lines().find(|line| line.contains(name)).map(str::to_owned).unwrap_or_default()
    };
    until("the call is inserted", || !get("insert/libc.so.6:puts.on").is_empty());
    assert_eq!((target.ask("calls 1"), target.ask("calls 1")), ("called".to_owned(), "called".to_owned()));
    let set = |name: &str, more: &[&str]| {
        ran(folder.path(), &[&["set", "attach-user", name, "0"], more].concat()).status.success()
    };
    // The command takes leases from its first look at the settings on.
    until("it takes a lease", || set("replace/kept.on", &["--for", "300ms"]));
    until("it is replaced no more", || target.ask("kept 10") == "kept 52");
    until("the lease is over", || target.ask("kept 10") == "kept 72");
    assert!(set("insert/libc.so.6:puts.on", &[]));
    until("the change was adopted", || {
        let events = text(&ran(folder.path(), &["events", "attach-user", "--json"]).stdout);
        events.lines().any(|line| line.contains("setting_adopted") && line.contains("puts.on"))
    });
    assert_eq!(target.ask("calls 1"), "called");
    assert!(ran(folder.path(), &["detach", &pid]).status.success());
    let output = attaching.wait_with_output().expect("it ends");
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(output.stdout.is_empty(), "no table, since nothing is counted: {}", text(&output.stdout));
    assert!(stderr.contains("calls of kept go to instead"), "{stderr}");
    assert!(stderr.contains("called was called 2 times before libc.so.6:puts"), "{stderr}");
    assert_eq!(target.ask("kept 10"), "kept 52");
    assert!(!target.attached() && target.code() == code);
    for parts in [
        ["command_adopted", "\"insert\"", "libc.so.6:puts=called(3)"],
        ["command_adopted", "\"undo\"", "replace kept=instead"],
        ["command_answered", "calls of kept go to kept again: the attachment was ended", ""],
        ["command_answered", "nothing to put back, since it was not so any more", ""],
    ] {
        assert_event(folder.path(), "attach-user", &parts);
    }
}

/// What a call has done is undone by another one: before detaching, or by the guard after a kill.
#[test]
fn calls_are_undone_by_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = built(folder.path(), "inserted", &["-O2", "-shared", "-fPIC"]);
    let program = built(folder.path(), "inserting", &["-O2", "-ldl", "-pthread"]);
    let mut target = spawned(Command::new(program).arg(library));
    let pid = target.pid();
    let what = ["--call", "seen(5, 0, 0, 0, 0, 0)", "--undo", "seen(-5, 0, 0, 0, 0, 0)"];
    let attach = |target: &mut Target, keep: &[&str], called: &str| {
        let attaching = starts(folder.path(), &[&["attach", &pid], &what[..], keep].concat());
        // The call is made when the program reads the next line.
        until("it is called", || target.ask("state") == called);
        attaching
    };
    let mut attaching = attach(&mut target, &["--keep"], "state 1 5 0.0");
    let mut detaching = starts(folder.path(), &["detach", &pid]);
    until("it is undone", || target.ask("state") == "state 2 0 0.0");
    until("it has ended", || attaching.try_wait().expect("a status").is_some());
    assert!(detaching.wait().expect("it ends").success() && !target.attached());
    let stderr = text(&attaching.wait_with_output().expect("it ends").stderr);
    assert!(stderr.matches("seen returned ").count() == 2, "{stderr}");
    assert_event(
        folder.path(),
        "attach-inserting",
        &["command_adopted", "\"undo\"", "seen(-5, 0, 0, 0, 0, 0)"],
    );
    assert_event(folder.path(), "attach-inserting", &["command_answered", "the attachment was ended"]);

    let mut attaching = attach(&mut target, &[], "state 3 5 0.0");
    std::thread::sleep(std::time::Duration::from_millis(300));
    attaching.kill().expect("it is killed");
    attaching.wait().expect("it ends");
    until("the guard undoes it", || target.ask("state") == "state 4 0 0.0");
    until("the guard has detached", || target.ask("state") == "state 4 0 0.0" && !target.attached());
    until("the guard has recorded it", || {
        text(&ran(folder.path(), &["ls"]).stdout).contains("undone-inserting")
    });
    until("the record is there", || {
        let events = text(&ran(folder.path(), &["events", "undone-inserting", "--json"]).stdout);
        events.contains("called: the process that attached was killed")
    });
    assert_event(folder.path(), "undone-inserting", &["\"undo\"", "seen(-5, 0, 0, 0, 0, 0)", "attach-guard"]);
}

/// Functions with names in any script are listed, found by patterns, and counted.
#[test]
fn names_may_be_in_any_script() {
    const NAMES: [&str; 5] = ["größe", "число", "数える", "عدد", "गिनती"];
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = started(built(folder.path(), "scripts", &["-O2"]));
    let (pid, code) = (target.pid(), target.code());
    let functions = |pattern: &str| {
        let listed = ran(folder.path(), &["functions", &pid, pattern, "--json"]);
        let names = objects(&listed.stdout).into_iter().map(|object| object["readable"].clone());
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    for (name, pattern) in NAMES.iter().zip(["gr?ße", "чи*", "数*る", "*دد", "गि*ती"]) {
        assert_eq!(functions(pattern), [*name], "{pattern}");
        assert_eq!(functions(name), [*name]);
    }
    let table = text(&ran(folder.path(), &["functions", &pid, "scripts:*"]).stdout);
    assert!(NAMES.iter().all(|name| table.contains(name)), "{table}");
    let counts: Vec<&str> = NAMES.iter().flat_map(|name| ["--count", *name]).collect();
    let attaching = starts(folder.path(), &[&["attach", &pid, "--json"], &counts[..]].concat());
    until("it attaches", || target.code() != code);
    assert_eq!((target.ask("x"), target.ask("x")), ("15".to_owned(), "15".to_owned()));
    assert!(ran(folder.path(), &["detach", &pid]).status.success());
    let counted = objects(&attaching.wait_with_output().expect("it ends").stdout);
    assert_eq!(counted.len(), NAMES.len());
    for (object, name) in counted.iter().zip(NAMES) {
        assert_eq!((object["function"].as_str(), object["calls"].as_u64()), (Some(name), Some(2)));
    }
    assert!(target.code() == code);
}

/// Where there is no debugging information, the types are those that a pack declares.
#[test]
fn packs_declare_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "1");
    let pack = folder.path().join("hot.toml");
    let begin = "format = 1\nname = \"hot\"\nabout = \"A test.\"\narea = \"library\"\n";
    let text_of = |declared: &str| format!("{begin}declares = [{declared}]\n[identity]\nlibrary = \"hot\"\n");
    std::fs::write(&pack, text_of("\"void note(int number)\"")).expect("a file");
    let named = pack.to_string_lossy().into_owned();
    let arguments = [
        "attach",
        &target.pid(),
        "--count",
        "note",
        "--args",
        "0",
        "--count",
        "libc.so.6:write",
        "--pack",
        &named,
        "--json",
    ];
    let attaching = starts(folder.path(), &arguments);
    until("it is attached to", || {
        text(&ran(folder.path(), &["get", "attach-hot"]).stdout).contains("point/note.on")
    });
    assert_eq!(target.ask("note -3"), "noted");
    assert!(ran(folder.path(), &["detach", &target.pid()]).status.success());
    let output = attaching.wait_with_output().expect("it ends");
    let functions = objects(&output.stdout);
    let argument = &functions.iter().find(|of| of["function"] == "note").expect("note")["arguments"]["0"];
    assert_eq!((&argument["type"], &argument["least"]), (&"int".into(), &(-3).into()), "{argument}");
    // Functions of the C library are declared by the program's own pack.
    let write = functions.iter().find(|of| of["function"] == "write").expect("write");
    assert_eq!(write["arguments"]["0"]["type"], "int", "{write}");

    std::fs::write(&pack, text_of("\"void note(mystery number)\"")).expect("a file");
    let wrong = ran(folder.path(), &["pack", "check", &named]);
    let stderr = text(&wrong.stderr);
    assert!(
        !wrong.status.success() && stderr.contains("the type of `mystery number` is not known"),
        "{stderr}"
    );
}

/// A child that begins another program is attached to, with figures of its own.
#[test]
fn programs_of_children_are_attached_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path());
    let mut child = Command::new("sh")
        .args(["-c", "echo ready; read line; \"$0\" 1; echo over; read line", &program.to_string_lossy()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut target = Target { child, input, output: BufReader::new(output) };
    assert_eq!(target.answer(), "ready");
    let what = ["--follow", "--count", "hot:work", "--json"];
    let pid = target.pid();
    let attaching = starts(folder.path(), &[&["attach", &pid], &what[..]].concat());
    until("it attaches", || text(&ran(folder.path(), &["ls"]).stdout).contains("attach-sh"));
    assert_eq!(target.ask("go"), "ready");
    until("it follows", || {
        text(&ran(folder.path(), &["get", "attach-hot"]).stdout).contains("point/work.on")
    });
    assert_eq!(target.ask("run 30"), "done 30");
    writeln!(target.input, "quit").expect("the target reads");
    assert_eq!(target.answer(), "over");
    writeln!(target.input, "end").expect("the shell reads");
    let output = attaching.wait_with_output().expect("it ends");
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let functions = objects(&output.stdout);
    assert_eq!(functions.len(), 1, "{functions:?} {stderr}");
    assert_eq!((&functions[0]["function"], &functions[0]["calls"]), (&"work".into(), &30.into()));
    assert_ne!(functions[0]["pid"].to_string(), target.pid());
}
