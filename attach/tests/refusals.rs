//! Programs that cannot be attached to safely are refused in one sentence; unusual programs that are safe are
//! attached to.

#![allow(clippy::print_stdout, reason = "says what is skipped")]

mod started;

use started::{Target, compiled};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use thalweg_attach::{Attachment, Options, Wish};

/// Compiles a program, if the compiler can do so with these options.
fn tried(folder: &Path, source: &str, options: &[&str]) -> Option<PathBuf> {
    tried_by("cc", folder, source, options)
}

fn tried_by(compiler: &str, folder: &Path, source: &str, options: &[&str]) -> Option<PathBuf> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let program = folder.join(format!("{compiler}{source}{}", options.join("").replace('=', "-")));
    let mut command = Command::new(compiler);
    command.args(options).arg(from).arg("-o").arg(&program).stderr(Stdio::null());
    let is_made = command.status().is_ok_and(|status| status.success());
    if !is_made {
        println!("skipped: {compiler} does not compile with {}", options.join(" "));
    }
    is_made.then_some(program)
}

/// Starts a program that prints `ready`; `None` if it cannot be started or does not print that.
fn tried_to_start(command: &mut Command) -> Option<Target> {
    let name = command.get_program().to_string_lossy().into_owned();
    let target = Target::tried(command);
    if target.is_none() {
        println!("skipped: {name} does not run here");
    }
    target
}

fn refusal(pid: i32) -> String {
    let error = Attachment::open(pid, Options::default()).expect_err("it is refused").to_string();
    assert!(!error.contains('\n') && error.contains(&pid.to_string()), "{error}");
    error
}

#[test]
fn processes_that_are_no_targets() {
    assert_eq!(refusal(i32::MAX - 1), "there is no process 2147483646");
    let own = Attachment::open(std::process::id() as i32, Options::default()).expect_err("oneself");
    assert_eq!(own.to_string(), "a process cannot attach to itself");
    // The kernel's own threads have no program.
    let is_kernel = std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.starts_with("kthreadd"));
    if is_kernel && let Err(error) = Attachment::open(2, Options::default()) {
        let error = error.to_string();
        assert!(error.contains("kernel") || error.contains("belongs to the user"), "{error}");
    }
}

#[test]
fn programs_of_other_kinds() {
    let folder = tempfile::tempdir().expect("a folder");
    let bare = ["-nostdlib", "-static", "-fno-stack-protector", "-fno-pic", "-no-pie"];
    if let Some(program) = tried(folder.path(), "bare.c", &bare) {
        let target = Target::start(&program, &[]);
        let error = Attachment::open(target.pid(), Options::default()).expect_err("no C library").to_string();
        assert!(error.contains("neither the C library of GNU nor musl"), "{error}");
    }
    if let Some(program) = tried(folder.path(), "bare.c", &[&["-m32"], &bare[..]].concat())
        && let Some(target) = tried_to_start(&mut Command::new(program))
    {
        assert!(refusal(target.pid()).contains("32-bit"));
    }
    let target = Target::start(&compiled(folder.path(), "gopher.c", &[]), &[]);
    assert!(refusal(target.pid()).contains("is a program in Go"));
}

#[test]
fn programs_that_watch_or_translate_their_code() {
    let folder = tempfile::tempdir().expect("a folder");
    for sanitizer in ["address", "thread"] {
        for options in [vec![], vec!["-static-libasan"], vec!["-static-libtsan"]] {
            let option = format!("-fsanitize={sanitizer}");
            if options
                .iter()
                .any(|name| !name.ends_with(if sanitizer == "address" { "asan" } else { "tsan" }))
            {
                continue;
            }
            let options = [&[option.as_str()], &options[..]].concat();
            if let Some(program) = tried(folder.path(), "calls.c", &options)
                && let Some(target) = tried_to_start(&mut Command::new(program))
            {
                assert!(refusal(target.pid()).contains("was built with a sanitizer"), "{options:?}");
            }
        }
    }
    for sanitizer in ["address", "thread", "memory", "hwaddress"] {
        let option = format!("-fsanitize={sanitizer}");
        if let Some(program) = tried_by("clang", folder.path(), "calls.c", &[&option, "-fPIE", "-pie"])
            && let Some(target) = tried_to_start(&mut Command::new(program))
        {
            assert!(refusal(target.pid()).contains("was built with a sanitizer"), "{option}");
        }
    }
    let program = compiled(folder.path(), "calls.c", &["-O2"]);
    if let Some(target) = tried_to_start(Command::new("valgrind").args(["-q", "--vgdb=no"]).arg(&program)) {
        assert!(refusal(target.pid()).contains("runs under valgrind"));
    }
}

#[test]
fn filtered_system_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "filtered.c", &["-O2"]);
    let Some(mut target) = tried_to_start(&mut Command::new(program)) else { return };
    assert!(refusal(target.pid()).contains("are filtered (seccomp)"));
    let options = Options { is_filtered: true, ..Options::default() };
    let mut attachment = Attachment::open(target.pid(), options).expect("the filter is said to allow it");
    let work = attachment.modules().functions("work").remove(0);
    attachment.add(&[(work, Wish::default())]).expect("attached");
    assert_eq!(target.ask("x"), "worked 1000004");
    assert_eq!(attachment.figures(0).expect("figures").calls, 1);
    attachment.detach().expect("detached");
    assert_eq!(target.ask("x"), "worked 1000004");
}

#[test]
fn another_tracer() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&compiled(folder.path(), "hot.c", &["-O2"]), &["1"]);
    let tracing = compiled(folder.path(), "tracing.c", &["-O2"]);
    let Some(tracer) = tried_to_start(Command::new(tracing).arg(target.pid().to_string())) else { return };
    let error = refusal(target.pid());
    assert!(error.contains(&format!("is traced by process {}", tracer.pid())), "{error}");
    drop(tracer);
    let mut attachment = Attachment::open(target.pid(), Options::default()).expect("the tracer is gone");
    let work = attachment.modules().functions("work").remove(0);
    attachment.add(&[(work, Wish::default())]).expect("attached");
    assert_eq!(target.ask("run 10"), "done 10");
    attachment.detach().expect("detached");
}

/// A program in namespaces of its own, with another root, is attached to from outside.
#[test]
fn containers() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "hot.c", &["-O2", "-static"]);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--fork", "--kill-child", "--root"]).arg(folder.path());
    command.arg(Path::new("/").join(program.file_name().expect("a name"))).arg("2");
    let Some(mut outer) = tried_to_start(&mut command) else { return };
    let children = format!("/proc/{0}/task/{0}/children", outer.pid());
    let children = std::fs::read_to_string(children).expect("children");
    let pid = children.trim().parse().expect("one child");
    let mut attachment = Attachment::open(pid, Options::default()).expect("it can be attached to");
    let work = attachment.modules().functions("work").remove(0);
    attachment.add(&[(work, Wish { times: true, ..Wish::default() })]).expect("attached");
    assert_eq!(outer.ask("run 1000"), "done 2000");
    let figures = attachment.figures(0).expect("figures");
    assert_eq!((figures.calls, figures.ticks.map(|ticks| ticks.count())), (2000, Some(2000)));
    let restored = attachment.detach().expect("detached");
    assert_eq!((restored.changes, restored.bytes_left), (1, 0));
    assert_eq!(outer.ask("run 10"), "done 20");
}
