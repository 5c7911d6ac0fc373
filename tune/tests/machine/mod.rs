//! A virtual machine of PVM with a folder of its own, in which two tasks play ping-pong.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The folder in which Debian installs PVM.
const ROOT: &str = "/usr/lib/pvm3";
/// The folder with the sources of the test programs, for this crate and for other crates that include this
/// file.
pub(crate) const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tune/tests/programs");
const WAIT: Duration = Duration::from_secs(20);
/// What the tests use as remote shell: it starts the daemon of another host on this machine, with a folder of
/// its own, and makes its line that of a host of another architecture.
const FOREIGN: &str = "#!/bin/sh
shift
mkdir -p \"$FOREIGN\"
export PVM_TMP=\"$FOREIGN\"
sh -c \"$*\" 2>>\"$FOREIGN/errors\" | sed -u 's/arch<[^>]*>/arch<FOREIGN>/; s/dsig<[^>]*>/dsig<7>/'
";
/// The addresses of the virtual machine and of the other host: PVM lets no host join one at 127.0.0.1.
const OWN: &str = "127.0.0.2";
pub(crate) const OTHER: &str = "127.0.0.3";

/// Prints why a test is skipped.
pub(crate) fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// The encoding of messages that every architecture can read (XDR), as PVM has it.
#[allow(dead_code, reason = "not every test that has this module lets hosts join")]
pub(crate) const READABLE: &str = "268435456 268435456";

/// A PVM daemon that lives as long as this value.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
    daemon: Child,
    program: PathBuf,
}

fn environment(command: &mut Command, folder: &Path) {
    command
        .env("PVM_ROOT", ROOT)
        .env("PVM_TMP", folder)
        .env("PVM_ALLOW_ROOT", "1")
        .env("PVM_ARCH", "LINUX64");
    command.env("PVM_RSH", folder.join("foreign-host")).env("FOREIGN", folder.join("foreign"));
    // Debian installs PVM's examples among all programs.
    command.env("PVM_PATH", "/usr/bin").env_remove("PVMSOCK").env("HOME", folder);
}

impl Machine {
    /// Starts the daemon; `None` if PVM is not installed.
    pub(crate) fn start() -> Option<Machine> {
        let daemon = Path::new(ROOT).join("lib/pvmd");
        if !daemon.exists() || !Path::new("/usr/include/pvm3.h").exists() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let source = Path::new(PROGRAMS).join("pingpong.c");
        let program = folder.path().join("thalweg-pingpong");
        if !compiled(&source, &program) {
            return None;
        }
        let shell = folder.path().join("foreign-host");
        std::fs::write(&shell, FOREIGN).expect("a file");
        std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).expect("a program");
        let mut command = Command::new(daemon);
        command.arg(format!("-n{OWN}")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        environment(&mut command, folder.path());
        let daemon = command.process_group(0).spawn().ok()?;
        let machine = Machine { folder, daemon, program };
        let begin = Instant::now();
        let is_ready = || {
            let list = std::fs::read_dir(machine.folder.path()).expect("a folder");
            // The daemon makes the file before it writes its address there.
            let is_written = |entry: &std::fs::DirEntry| entry.metadata().is_ok_and(|known| known.len() > 0);
            list.flatten()
                .filter(is_written)
                .any(|entry| entry.file_name().to_string_lossy().starts_with("pvmd."))
        };
        while !is_ready() {
            if begin.elapsed() > WAIT {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(machine)
    }

    /// Starts a ping-pong with these arguments, and waits until it has begun.
    #[allow(dead_code, reason = "not every test that has this module plays ping-pong")]
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.started(&self.program, arguments)
    }

    /// A command that runs in this virtual machine.
    #[allow(dead_code, reason = "not every test that has this module runs other programs")]
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        environment(&mut command, self.folder.path());
        command
    }

    /// The process of the daemon.
    #[allow(dead_code, reason = "not every test that has this module follows the daemon's children")]
    pub(crate) fn daemon(&self) -> i32 {
        self.daemon.id().cast_signed()
    }

    /// Whether the daemon of the other host was started.
    #[allow(dead_code, reason = "not every test that has this module lets hosts join")]
    pub(crate) fn has_other_host(&self) -> bool {
        !self.other_daemons().is_empty()
    }

    fn other_daemons(&self) -> Vec<i32> {
        let folder = self.folder.path().join("foreign").into_os_string().into_encoded_bytes();
        let is_ours = |pid: &i32| {
            let known = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            known.split(|byte| *byte == 0).any(|of| of.strip_prefix(b"PVM_TMP=") == Some(&folder[..]))
        };
        let program = Path::new(ROOT).join("lib/pvmd");
        let program = program.canonicalize().unwrap_or(program);
        processes_of(&program).into_iter().filter(is_ours).collect()
    }

    /// Starts an integer sort of two tasks with these arguments, and waits until it has begun.
    #[allow(dead_code, reason = "not every test that has this module sorts")]
    pub(crate) fn sort(&self, arguments: &[&str]) -> Run {
        let program = self.folder.path().join("thalweg-pingsort");
        assert!(compiled(&Path::new(PROGRAMS).join("sort_pvm.c"), &program), "the sort is compiled");
        self.started(&program, arguments)
    }

    /// Starts a master that hands out work to its workers, with these arguments, and waits until it has begun.
    #[allow(dead_code, reason = "not every test that has this module hands out work")]
    pub(crate) fn farm(&self, arguments: &[&str]) -> Run {
        let program = self.folder.path().join("thalweg-pingfarm");
        let is_there = program.exists() || compiled(&Path::new(PROGRAMS).join("farm.c"), &program);
        assert!(is_there, "the program is compiled");
        self.started(&program, arguments)
    }

    /// Starts a program in which hosts of another architecture join as often as `rounds` says.
    #[allow(dead_code, reason = "not every test that has this module lets hosts join")]
    pub(crate) fn joining(&self, rounds: usize, more: &[&str]) -> Run {
        let program = self.folder.path().join("thalweg-pingjoin");
        assert!(compiled(&Path::new(PROGRAMS).join("joining.c"), &program), "the program is compiled");
        self.started(&program, &[&[OTHER, &rounds.to_string()][..], more].concat())
    }

    fn started(&self, program: &Path, arguments: &[&str]) -> Run {
        let before = processes_of(program);
        let mut command = Command::new(program);
        environment(&mut command, self.folder.path());
        let mut run = Run::of(command.args(arguments));
        let first = run.processes[0];
        let is_new = |pid: &i32| *pid != first && !before.contains(pid);
        run.processes.extend(processes_of(program).into_iter().filter(is_new));
        assert!(run.processes.len() > 1, "a second task");
        run
    }
}

/// Compiles a program of PVM; returns whether that succeeded.
fn compiled(source: &Path, program: &Path) -> bool {
    let mut compile = Command::new("cc");
    compile.arg("-O2").arg(source).arg("-o").arg(program).arg("-lpvm3");
    compile.status().is_ok_and(|status| status.success())
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        // Tasks, daemons of other hosts and gatekeepers are no children of this process. Until they are gone,
        // they may write files in the folder, which then could not be removed.
        let begin = Instant::now();
        loop {
            let users = processes_with(self.folder.path());
            if users.is_empty() || begin.elapsed() > WAIT {
                return;
            }
            for pid in users {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The processes that have this folder in their environment.
fn processes_with(folder: &Path) -> Vec<i32> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let has = |pid: &i32| {
        let known = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        known.windows(folder.len()).any(|part| part == folder)
    };
    all_processes().filter(has).collect()
}

fn all_processes() -> impl Iterator<Item = i32> {
    let list = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    list.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn processes_of(program: &Path) -> Vec<i32> {
    let runs = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
    all_processes().filter(runs).collect()
}

/// A running program of two tasks.
pub(crate) struct Run {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    processes: Vec<i32>,
    /// The folder in which the program looks for a file that tells it to end.
    stop: tempfile::TempDir,
}

impl Run {
    /// Starts a program, and waits until it has printed its first line.
    pub(crate) fn of(command: &mut Command) -> Run {
        let stop = tempfile::tempdir().expect("a folder");
        command.env("STOP", stop.path().join("stop"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the program says something");
        assert!(line.split(' ').count() == 3, "{line}");
        let first = child.id().cast_signed();
        Run { child, output, processes: vec![first], stop }
    }

    pub(crate) fn processes(&self) -> Vec<i32> {
        self.processes.clone()
    }

    /// Whether a task still has memory that an attachment mapped.
    pub(crate) fn is_attached(&self) -> bool {
        let has = |pid: &i32| {
            let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            String::from_utf8_lossy(&maps).contains("thalweg-attach")
        };
        self.processes.iter().any(has)
    }

    /// The next line of the program's output; empty at its end.
    #[allow(dead_code, reason = "not every test that has this module reads lines")]
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Lets the program end, or go on if it waits.
    pub(crate) fn stop(&self) {
        std::fs::write(self.stop.path().join("stop"), "").expect("a file");
    }

    /// Ends the program, if possible, and waits for its end; returns whether all data that it received were
    /// right.
    pub(crate) fn ended_well(&mut self) -> bool {
        self.stop();
        let lines: Vec<String> = self.output.by_ref().lines().map_while(Result::ok).collect();
        self.child.wait().is_ok_and(|status| status.success())
            && lines.last().is_some_and(|line| line == "done")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Tasks that the daemon has started are no children of this process.
        for pid in &self.processes[1..] {
            let is_ours = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            if is_ours.is_ok_and(|name| name.starts_with("thalweg-ping")) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
