//! Targets: small programs that are compiled once and answer commands.

mod code;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

#[allow(unused_imports, reason = "only some tests read the code of other processes")]
pub(crate) use code::code_of;

/// Compiles one of `tests/programs` with these options; `None` where there is no compiler.
#[allow(dead_code, reason = "a test may compile its programs itself")]
pub(crate) fn compiled(folder: &Path, source: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let name = format!("{}{}", source.file_stem().expect("a name").to_string_lossy(), options.join(""));
    let program = folder.join(name.replace(['/', '='], "-"));
    let compiler = if source.extension().is_some_and(|extension| extension == "cpp") { "c++" } else { "cc" };
    let status =
        Command::new(compiler).args(options).arg(&source).arg("-o").arg(&program).arg("-pthread").status();
    assert!(status.expect("a C compiler").success(), "{} {options:?}", source.display());
    program
}

/// A running target, which is killed when the value is dropped.
pub(crate) struct Target {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Target {
    #[allow(dead_code, reason = "a test may start its programs by commands of its own")]
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Target {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the target starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut target = Target { child, input, output };
        assert_eq!(target.answer(), "ready");
        target
    }

    /// Starts a program that may not run on this machine; `None` if it does not print that it is ready.
    #[allow(dead_code, reason = "other tests have no such programs")]
    pub(crate) fn tried(command: &mut Command) -> Option<Target> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let input = child.stdin.take()?;
        let output = BufReader::new(child.stdout.take()?);
        let mut target = Target { child, input, output };
        let mut line = String::new();
        target.output.read_line(&mut line).ok()?;
        (line == "ready\n").then_some(target)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the target reads");
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the target answers");
        assert!(!line.is_empty(), "the target has died: {:?}", self.child.wait());
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.answer()
    }

    /// The code of the target and its libraries, by [`code_of`].
    #[allow(dead_code, reason = "the benchmark has its own questions")]
    pub(crate) fn code(&self) -> Vec<(String, Vec<u8>)> {
        code_of(self.pid())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
