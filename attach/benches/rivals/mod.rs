//! Rivals that count calls of a running program, or of a program that is started for the measurement,
//! measured in the same run if they are installed.

use crate::started::{Target, compiled};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The number of calls under rivals that take microseconds for each call.
const FEW: &str = "20000";

pub(crate) fn all(folder: &Path, program: &Path) {
    preloaded(folder);
    gdb(program);
    frida(program);
    uprobes();
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
    let python = Command::new("python3").args(["-c", "import frida"]).stderr(Stdio::null()).status();
    if !python.is_ok_and(|status| status.success()) {
        return missing("Frida", "Python has no module of this name");
    }
    let mut target = Target::start(program, &["1"]);
    let before: f64 = target.ask(FEW).parse().expect("ns");
    let script = "import frida,sys\ns=frida.attach(int(sys.argv[1]))\n\
                  t=s.create_script(\"Interceptor.attach(DebugSymbol.fromName('work').address,{onEnter(a){}})\")\n\
                  t.load()\nprint('ready',flush=True)\nsys.stdin.read()\n";
    let begin = Instant::now();
    let mut command = Command::new("python3");
    command.args(["-c", script, &target.pid().to_string()]);
    let Some(python) = Target::tried(&mut command) else { return missing("Frida", "it does not attach") };
    crate::line("rival, Frida: attached", begin.elapsed().as_secs_f64() * 1e3, "ms");
    let with: f64 = target.ask(FEW).parse().expect("ns");
    crate::line("rival, Frida: a call, JavaScript on entry", with - before, "ns");
    drop(python);
}

fn uprobes() {
    const EVENTS: &str = "/sys/kernel/tracing/uprobe_events";
    let why = match Path::new(EVENTS).exists() {
        true => "this program does not measure them yet",
        false => "the kernel has none, or its tracing is not mounted",
    };
    missing("uprobes", why);
}

fn missing(name: &str, why: &str) {
    let text = format!("rival, {name}: skipped, {why}\n");
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).expect("standard output");
}
