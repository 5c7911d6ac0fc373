//! Runs the program `thalweg` as a child process.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a temporary folder takes files");
    path.display().to_string()
}

#[allow(dead_code, reason = "not every test runs one to its end")]
pub(crate) fn run(arguments: &[&str], input: &str) -> Output {
    fed(Command::new(env!("CARGO_BIN_EXE_thalweg")).arg("run").args(arguments), input)
}

/// A name of a megabyte; a space accepts paths of up to 1 MiB, including the text around the name.
#[allow(dead_code, reason = "as above")]
pub(crate) fn long_name() -> String {
    "long".repeat(250_000)
}

/// A run, kept, of a network in `long.snet` whose nets and labels have names of a megabyte, two of which
/// differ only in the middle.
#[allow(dead_code, reason = "as above")]
pub(crate) fn with_long_names(folder: &Path) -> std::path::PathBuf {
    let name = long_name();
    let (begin, end) = name.split_at(name.len() / 2);
    let text = format!(
        "net long {{ net {begin}a{end} connect [{{<n>}} -> {{<n = n + 1>, <{name} = 1>}}]; net {begin}b{end} connect [{{<n>}} -> {{<n = n * 2>}}]; }}\n\
         connect {begin}a{end} .. {begin}b{end};\n"
    );
    let (net, space) = (write(folder, "long.snet", &text), folder.join("long"));
    let input: String = (0..300).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let path = space.to_str().expect("UTF-8");
    let output =
        run(&[&net, "--monitor", "full", "--output", "/dev/null", "--keep", "--space", path], &input);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr[..output.stderr.len().min(500)])
    );
    space
}

/// Runs `command` on `input`.
#[allow(dead_code, reason = "as above")]
pub(crate) fn fed(command: &mut Command, input: &str) -> Output {
    let mut child = started(command);
    let mut fed = child.stdin.take().expect("piped");
    let input = input.to_owned();
    // A run that rejects its arguments does not read its input.
    let feeding = std::thread::spawn(move || _ = fed.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    feeding.join().expect("it only writes");
    output
}

/// A run that is killed when dropped. The run's space is in a folder of the test, because a killed run leaves
/// its space behind.
#[allow(dead_code, reason = "as above")]
pub(crate) struct Killed {
    pub(crate) child: Child,
}

#[allow(dead_code, reason = "as above")]
impl Killed {
    pub(crate) fn start(command: &mut Command, spaces: &Path) -> Killed {
        command.env("THALWEG_SPACES", spaces).stdin(Stdio::piped()).stdout(Stdio::piped());
        Killed { child: command.spawn().expect("thalweg starts") }
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn started(command: &mut Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("thalweg starts")
}
