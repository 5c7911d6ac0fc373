//! PVM on this computer: a daemon that lives as long as a measurement, and the ways in which tasks send.

use crate::process;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The directory in which Debian installs PVM.
const ROOT: &str = "/usr/lib/pvm3";
/// Sizes of fragments in bytes; the first is PVM's default.
pub(super) const FRAGMENTS: [u32; 6] = [4080, 16_384, 65_536, 131_072, 262_144, 524_288];

/// How messages are sent: PVM's route, encoding and fragment size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Way {
    pub(super) route: u32,
    pub(super) encoding: u32,
    pub(super) fragment: u32,
}

impl Way {
    /// The defaults of PVM.
    pub(super) const START: Way = Way { route: 2, encoding: 0, fragment: 4080 };

    /// The settings, as command-line arguments of the test programs.
    pub(super) fn arguments(self) -> [String; 3] {
        [self.route, self.encoding, self.fragment].map(|value| value.to_string())
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let route = if self.route == 3 { "direct" } else { "daemon" };
        let encoding = if self.encoding == 1 { "raw" } else { "XDR" };
        write!(out, "{route}, {encoding}, fragments of {} B", self.fragment)
    }
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A daemon of PVM with a folder of its own, which ends when the value is dropped.
pub(super) struct Machine {
    folder: tempfile::TempDir,
    daemon: Child,
}

impl Machine {
    /// Starts the daemon. If the daemon cannot be started, the inner error names the software that is missing
    /// on this computer.
    pub(super) fn start() -> Result<Result<Machine, String>> {
        let program = Path::new(ROOT).join("lib/pvmd");
        for (file, package) in [(program.as_path(), "pvm"), (Path::new("/usr/include/pvm3.h"), "pvm-dev")] {
            if !file.exists() {
                return Ok(Err(format!("{} is missing (Debian's package {package})", file.display())));
            }
        }
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(program);
        environment(command.arg("-n127.0.0.1"), folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let machine = Machine { folder, daemon: command.spawn().context("cannot start PVM's daemon")? };
        let begin = Instant::now();
        while !machine.is_ready()? {
            if begin.elapsed() > Duration::from_secs(20) {
                bail!("PVM's daemon did not come up within 20 s");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Ok(machine))
    }

    fn is_ready(&self) -> Result<bool> {
        let files = std::fs::read_dir(self.folder.path())?.flatten();
        // The daemon makes the file before it writes its address there.
        let mut written = files.filter(|entry| entry.metadata().is_ok_and(|known| known.len() > 0));
        Ok(written.any(|entry| entry.file_name().to_string_lossy().starts_with("pvmd.")))
    }

    /// Compiles one of the tuner's test programs.
    pub(super) fn compile(&self, source: &str) -> Result<PathBuf> {
        compile("cc", source, self.folder.path(), &["-lpvm3"])
    }

    /// The command that starts a program which uses the daemon.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        environment(&mut command, self.folder.path());
        command
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn environment(command: &mut Command, folder: &Path) {
    command.env("PVM_ROOT", ROOT).env("PVM_TMP", folder).env("PVM_ALLOW_ROOT", "1");
    command.env("PVM_ARCH", "LINUX64").env_remove("PVMSOCK").env("HOME", folder);
}

/// Compiles one of the tuner's test programs into a folder.
pub(super) fn compile(compiler: &str, source: &str, folder: &Path, with: &[&str]) -> Result<PathBuf> {
    let program = folder.join(Path::new(source).with_extension("").as_os_str());
    let path = process::root().join("tune/tests/programs").join(source);
    process::run(Command::new(compiler).arg("-O2").arg(path).arg("-o").arg(&program).args(with))?;
    Ok(program)
}
