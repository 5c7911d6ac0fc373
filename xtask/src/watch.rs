//! Watches the programs of a test command, so that a program that hangs is stopped and named instead of
//! delaying all later programs.
//!
//! A process belongs to a command if its environment contains the command's folder, so a process that left
//! its parent is found, too.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(500);

/// The longest time that a process may outlive the command that started it.
const LINGERS_MAX: Duration = Duration::from_secs(5);

/// Those processes of a command that had to be killed.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Test programs that exceeded their time, and were killed.
    pub(crate) stopped: Vec<Stopped>,
    /// Processes that went on after the command had ended, and were killed.
    pub(crate) left: Vec<String>,
}

/// A test program that exceeded its time.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) program: PathBuf,
    /// What ran when the program was killed: see [`tree`].
    pub(crate) running: String,
}

pub(crate) struct Watch {
    end: Sender<()>,
    thread: JoinHandle<Watched>,
}

impl Watch {
    /// Watches the processes with `place` in their environment. The command is process `pid`, which must not
    /// be waited for before its output has ended, because a process left behind would hold the output open
    /// for ever.
    pub(crate) fn start(place: &Path, pid: u32, program_max: Option<Duration>) -> Watch {
        let (end, ended) = mpsc::channel();
        let place = place.as_os_str().as_encoded_bytes().to_vec();
        let thread = std::thread::spawn(move || {
            let mut watched = Watched::default();
            let mut since: HashMap<u32, Instant> = HashMap::new();
            let mut ended_at = None;
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(EVERY) {
                if is_ended(pid) {
                    let at = *ended_at.get_or_insert_with(Instant::now);
                    if at.elapsed() > LINGERS_MAX {
                        stop_left(&place, pid, &mut watched);
                    }
                    continue;
                }
                let Some(max) = program_max else { continue };
                let programs: Vec<u32> = of_place(&place).into_iter().filter(|pid| is_test(*pid)).collect();
                since.retain(|pid, _| programs.contains(pid));
                for program in programs {
                    if since.entry(program).or_insert_with(Instant::now).elapsed() > max {
                        let path = fs::read_link(format!("/proc/{program}/exe")).unwrap_or_default();
                        println!(
                            "   {} has run longer than {} s and is stopped",
                            path.display(),
                            max.as_secs()
                        );
                        let running = tree(&place);
                        println!("{running}");
                        kill(program);
                        watched.stopped.push(Stopped { program: path, running });
                    }
                }
            }
            let ended = Instant::now();
            while ended.elapsed() < LINGERS_MAX && !of_place(&place).is_empty() {
                std::thread::sleep(EVERY / 5);
            }
            stop_left(&place, pid, &mut watched);
            watched
        });
        Watch { end, thread }
    }

    /// Ends the watch when the command has ended.
    pub(crate) fn end(self) -> Watched {
        let _ = self.end.send(());
        self.thread.join().unwrap_or_default()
    }
}

/// Kills the processes that a command left running, and notes them.
fn stop_left(place: &[u8], command: u32, watched: &mut Watched) {
    for pid in of_place(place).into_iter().filter(|pid| *pid != command) {
        watched.left.push(format!("{pid} {}", command_line(pid)));
        kill(pid);
    }
}

/// The processes whose environment contains `place`; a process that has ended has no environment.
fn of_place(place: &[u8]) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let holds = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable.strip_prefix(b"TMPDIR=").is_some_and(|folder| folder == place))
    };
    pids.filter(holds).collect()
}

/// Whether cargo built this program to run tests.
fn is_test(pid: u32) -> bool {
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "deps")
}

/// Whether a process has ended; a process that has ended but was not waited for has state `Z`.
fn is_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, may have any characters.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> =
        bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    words.join(" ").trim_end().to_owned()
}

/// The running processes, each with the places in the kernel where its threads wait.
fn tree(place: &[u8]) -> String {
    let mut lines = Vec::new();
    for pid in of_place(place) {
        lines.push(format!("   {pid} {}", command_line(pid)));
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            lines.push(format!("      {:<16} {}", read("comm").trim_end(), read("wchan")));
        }
    }
    lines.join("\n")
}

fn kill(pid: u32) {
    // A process may end while its files are read, which is no failure.
    let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
}

#[cfg(test)]
mod tests {
    use super::{Watch, Watched};
    use crate::leftovers::Places;
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    /// Runs `script` as a test command whose output is read to its end, and waits for the command's end.
    fn watched(script: &str, max: Option<Duration>) -> Watched {
        let places = Places::make().unwrap();
        let mut command = Command::new("sh");
        places.give(&mut command);
        let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let watch = Watch::start(places.temporary(), child.id(), max);
        child.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
        child.wait().unwrap();
        watch.end()
    }

    #[test]
    fn a_process_that_goes_on_after_its_command_is_killed_and_named() {
        // Without the watch the output would stay open for an hour.
        let watched = watched("setsid sleep 3600 & echo started", None);
        assert_eq!(watched.left.len(), 1, "{watched:?}");
        assert!(watched.left[0].ends_with("sleep 3600"), "{watched:?}");
    }

    #[test]
    fn a_test_program_that_runs_too_long_is_killed_and_named_and_another_program_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let deps = folder.path().join("deps");
        std::fs::create_dir(&deps).unwrap();
        let program = deps.join("hangs-0123");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let script = format!("sleep 2; {} 3600; sleep 2; exit 0", program.display());
        let watched = watched(&script, Some(Duration::from_secs(1)));
        let [stopped] = &watched.stopped[..] else { panic!("{watched:?}") };
        assert_eq!(stopped.program, program.canonicalize().unwrap());
        assert!(stopped.running.contains("hangs-0123 3600"), "{stopped:?}");
        assert!(watched.left.is_empty(), "{watched:?}");
    }

    #[test]
    fn a_command_that_ends_by_itself_leaves_nothing_to_report() {
        let watched = watched("true", Some(Duration::from_secs(60)));
        assert!(watched.stopped.is_empty() && watched.left.is_empty(), "{watched:?}");
    }
}
