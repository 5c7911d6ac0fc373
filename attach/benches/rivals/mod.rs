//! Rivals that count calls of a running program, or of a program that is started for the measurement,
//! measured in the same run if they are installed.

use crate::started::{Target, compiled};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use thalweg_attach::{Attachment, Options};

/// The number of calls under rivals that take microseconds for each call.
const FEW: &str = "20000";

pub(crate) fn all(folder: &Path, program: &Path) {
    preloaded(folder);
    gdb(program);
    frida(program);
    uprobes(program);
}

/// The limit: a preloaded library that counts calls, with which the program has to be started.
fn preloaded(folder: &Path) {
    let library = compiled(folder, "storm_kept.c", &["-O2", "-shared", "-fPIC"]);
    let counting = compiled(folder, "counting.c", &["-O2", "-shared", "-fPIC", "-ldl"]);
    let caller = folder.join("caller");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/caller.c");
    let mut command = Command::new("cc");
    command.arg("-O2").arg(source).arg(&library).arg("-o").arg(&caller);
    assert!(command.status().expect("a compiler").success());
    let least = |preload: Option<&Path>| {
        let mut command = Command::new(&caller);
        command.env("LD_LIBRARY_PATH", folder);
        if let Some(preload) = preload {
            command.env("LD_PRELOAD", preload);
        }
        let mut target = Target::tried(&mut command).expect("the program starts");
        (0..crate::ROUNDS).map(|_| target.ask(crate::CALLS).parse().expect("ns")).fold(f64::MAX, f64::min)
    };
    crate::line("limit, LD_PRELOAD: counted", least(Some(&counting)) - least(None), "ns");
}

/// A breakpoint of GDB with commands that let the program continue.
fn gdb(program: &Path) {
    let mut target = Target::start(program, &["1"]);
    let before: f64 = target.ask(FEW).parse().expect("ns");
    let begin = Instant::now();
    // GDB's option `-ex` cannot give the commands of a breakpoint, so they are in a script.
    let script = std::env::temp_dir().join(format!("thalweg-attach-{}.gdb", std::process::id()));
    let text = "set pagination off\nbreak work\ncommands\nsilent\ncontinue\nend\ncontinue\n";
    std::fs::write(&script, text).expect("a file");
    let mut command = Command::new("gdb");
    command.args(["-nx", "-q", "-batch", "-p", &target.pid().to_string(), "-x"]).arg(&script);
    let gdb = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut gdb) = gdb else { return missing("GDB", "it is not installed") };
    let traced = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    };
    while !traced() && begin.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // GDB stops the program until the breakpoint is set, and then lets it continue.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let with: f64 = target.ask(FEW).parse().expect("ns");
    let _ = gdb.kill();
    let _ = gdb.wait();
    let _ = std::fs::remove_file(script);
    crate::line("rival, GDB: a breakpoint that goes on", with - before, "ns");
}

fn frida(program: &Path) {
    const SOURCE: &str = r"#include <gum/guminterceptor.h>\nvoid f(GumInvocationContext *c) {}";
    let python = Command::new("python3").args(["-c", "import frida"]).stderr(Stdio::null()).status();
    if !python.is_ok_and(|status| status.success()) {
        return missing("Frida", "Python has no module of this name");
    }
    let attached = |what: &str, callbacks: &str| {
        let mut target = Target::start(program, &["1"]);
        let before: f64 = target.ask(FEW).parse().expect("ns");
        let script = format!(
            "import frida,sys\ns=frida.attach(int(sys.argv[1]))\n\
             t=s.create_script(r\"\"\"globalThis.c=new CModule('{SOURCE}');Interceptor.attach(DebugSymbol.fromName('work').address,{callbacks})\"\"\")\n\
             t.load()\nprint('ready',flush=True)\nsys.stdin.read()\n"
        );
        let begin = Instant::now();
        let mut command = Command::new("python3");
        command.args(["-c", &script, &target.pid().to_string()]);
        let Some(python) = Target::tried(&mut command) else { return missing("Frida", "it does not attach") };
        crate::line(&format!("rival, Frida, {what}: attached"), begin.elapsed().as_secs_f64() * 1e3, "ms");
        let with: f64 = target.ask(FEW).parse().expect("ns");
        crate::line(&format!("rival, Frida, {what}: a call"), with - before, "ns");
        drop(python);
    };
    attached("JavaScript on entry", "{onEnter(a){}}");
    attached("C on entry", "{onEnter:c.f}");
    attached("C on entry and return", "{onEnter:c.f,onLeave:c.f}");
}

/// A probe of the kernel at the function's entry, and at its entry and return, with an event for each call.
fn uprobes(program: &Path) {
    const TRACING: &str = "/sys/kernel/tracing";
    let mut target = Target::start(program, &["1"]);
    let pid = target.pid();
    let attachment = Attachment::open(pid, Options::default()).expect("it can be attached to");
    let address = attachment.modules().functions("work").remove(0).address;
    drop(attachment);
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let place = maps.lines().find_map(|line| {
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut fields = line.split_ascii_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        let (begin, end, offset) = (number(begin)?, number(end)?, number(fields.nth(1)?)?);
        (begin..end).contains(&address).then_some(address - begin + offset)
    });
    let place = format!("{}:{:#x}", program.display(), place.expect("its code is mapped"));
    let write = |file: &str, text: &str| {
        let file = std::fs::OpenOptions::new().append(true).open(format!("{TRACING}/{file}"));
        file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
    };
    let before: f64 = target.ask(FEW).parse().expect("ns");
    for (what, kinds) in [("on entry", &["p"][..]), ("on entry and return", &["p", "r"])] {
        let made = kinds
            .iter()
            .try_for_each(|kind| write("uprobe_events", &format!("{kind}:thalweg_bench/{kind} {place}\n")));
        if let Err(error) = made.and_then(|()| write("events/thalweg_bench/enable", "1")) {
            return missing("uprobes", &error.to_string());
        }
        let with: f64 = target.ask(FEW).parse().expect("ns");
        let removed = write("events/thalweg_bench/enable", "0").and_then(|()| {
            kinds.iter().try_for_each(|kind| write("uprobe_events", &format!("-:thalweg_bench/{kind}\n")))
        });
        removed.expect("the probes are removed");
        crate::line(&format!("rival, uprobes: a call, {what}"), with - before, "ns");
    }
}

fn missing(name: &str, why: &str) {
    let text = format!("rival, {name}: skipped, {why}\n");
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).expect("standard output");
}
