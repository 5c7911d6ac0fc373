//! Running programs to which the tests attach, and the command `thalweg` that attaches to them.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A running program, which is killed when the value is dropped.
pub(crate) struct Target {
    pub(crate) child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: BufReader<ChildStdout>,
}

impl Target {
    pub(crate) fn start(folder: &Path, threads: &str) -> Target {
        let program = compiled(folder);
        let mut command = Command::new(program);
        let mut child = command
            .arg(threads)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the target starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut target = Target { child, input, output };
        assert_eq!(target.answer(), "ready");
        target
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the target answers");
        assert!(!line.is_empty(), "the target has died: {:?}", self.child.wait());
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").expect("the target reads");
        self.answer()
    }

    /// Whether the program has mappings of an attachment.
    pub(crate) fn attached(&self) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("maps");
        maps.contains("thalweg-attach")
    }

    /// The bytes of the program's own code.
    pub(crate) fn code(&self) -> Vec<u8> {
        let program = std::fs::read_link(format!("/proc/{}/exe", self.pid())).expect("a program");
        let program = program.to_string_lossy();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("maps");
        let line = maps.lines().find(|line| line.contains("r-xp") && line.contains(&*program)).expect("code");
        let (begin, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let [begin, end] = [begin, end].map(|text| u64::from_str_radix(text, 16).expect("a number"));
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).expect("memory");
        let mut bytes = vec![0; (end - begin) as usize];
        std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, begin).expect("code");
        bytes
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn compiled(folder: &Path) -> PathBuf {
    built(folder, "hot", &["-O2", "-pthread"])
}

/// One of the programs of the crate `attach`, compiled with the given options.
pub(crate) fn built(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    built_by("cc", folder, name, options).expect("a C compiler")
}

/// As [`built`], by this compiler; `None` if there is no such compiler.
pub(crate) fn built_by(compiler: &str, folder: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../attach/tests/programs");
    let program = folder.join(name);
    let source = sources.join(format!("{name}.c"));
    let status = Command::new(compiler).arg(source).args(options).arg("-o").arg(&program).status().ok()?;
    assert!(status.success());
    Some(program)
}

pub(crate) fn thalweg(spaces: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).env("THALWEG_SPACES", spaces);
    command
}

pub(crate) fn ran(spaces: &Path, arguments: &[&str]) -> Output {
    thalweg(spaces, arguments).output().expect("thalweg starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until the condition `holds` is true, for a minute at most.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Starts a program of the crate `attach` that takes no arguments.
pub(crate) fn started(program: PathBuf) -> Target {
    spawned(&mut Command::new(program))
}

/// Starts a command that prints `ready`.
pub(crate) fn spawned(command: &mut Command) -> Target {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let input = child.stdin.take().expect("a pipe");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut target = Target { child, input, output };
    assert_eq!(target.answer(), "ready");
    target
}
