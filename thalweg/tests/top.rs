//! `thalweg top` on a terminal (tmux) of three sizes: its screen with the decisions of tuners, and that it
//! restores the terminal, also when it is ended by a signal.

mod controlled;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use controlled::Run;

/// A terminal for one test, run by tmux.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn open(folder: &Path, width: u16, height: u16) -> Option<Terminal> {
        Command::new("tmux").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        let terminal = Terminal { socket: folder.join("tmux").to_str().expect("UTF-8").to_owned() };
        let (width, height) = (width.to_string(), height.to_string());
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            "env PS1='ready> ' sh",
        ]);
        terminal.wait("ready>");
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output().expect("tmux");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn type_in(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    fn enter(&self) {
        self.tmux(&["send-keys", "Enter"]);
    }

    fn shown(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn wait(&self, text: &str) {
        self.wait_for(text, |shown| shown.contains(text));
    }

    fn wait_for(&self, what: &str, is_right: impl Fn(&str) -> bool) {
        let until = Instant::now() + Duration::from_secs(30);
        while !is_right(&self.shown()) {
            assert!(Instant::now() < until, "never shown: {what}\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The settings of the terminal, as `stty` prints them.
    fn state(&self, folder: &Path) -> String {
        let file = folder.join("state");
        let _ = std::fs::remove_file(&file);
        self.type_in(&format!("stty -a > {0}.part && mv {0}.part {0}", file.display()));
        self.enter();
        let until = Instant::now() + Duration::from_secs(30);
        while !file.is_file() {
            assert!(Instant::now() < until, "no answer from the shell:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(20));
        }
        std::fs::read_to_string(&file).expect("it is there")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
#[ignore = "needs tmux: cargo xtask test --only pictures"]
fn the_screen_fits_and_the_terminal_is_as_it_was() {
    let net = "net first connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n + 1>}];";
    let mut run =
        Run::start_in(tempfile::tempdir().expect("a temporary folder"), net, &["--monitor", "full"]);
    let mut output = run.child.stdout.take().expect("piped");
    let reading = std::thread::spawn(move || {
        let _ = std::io::copy(&mut output, &mut std::io::sink());
    });
    for n in 0..500 {
        writeln!(run.child.stdin.as_mut().expect("piped"), "{{\"<n>\": {n}}}").expect("it reads");
    }
    // A tuner that only advises records its decisions, which the larger screens show.
    let mut tune = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let tuned = tune.arg("tune").arg(run.space()).args(["--for", "1s"]).output().expect("thalweg starts");
    assert!(tuned.status.success(), "{}", String::from_utf8_lossy(&tuned.stderr));
    let top = format!("{} top {} --window 300ms", env!("CARGO_BIN_EXE_thalweg"), run.space().display());
    for (width, height) in [(80, 24), (132, 43), (40, 12)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Some(terminal) = Terminal::open(folder.path(), width, height) else {
            let line = "skipped: the_screen_fits_and_the_terminal_is_as_it_was: no `tmux`: on Debian `apt-get install tmux` brings it";
            let _ = writeln!(std::io::stdout(), "{line}");
            break;
        };
        let before = terminal.state(folder.path());
        for ending in ["q", "TERM", "INT"] {
            terminal.type_in(&top);
            terminal.enter();
            terminal.wait("COMPONENT");
            terminal.wait("WORKERS");
            let shown = terminal.shown();
            assert!(shown.contains("first") && !shown.contains("ready>"), "{width} × {height}:\n{shown}");
            assert_eq!(shown.contains("TUNING") && shown.contains("began"), height >= 20, "{shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= usize::from(width)), "{shown}");
            match ending {
                "q" => {
                    // The user types the name and the value of a setting, which is then set.
                    terminal.type_in(":");
                    terminal.type_in("exec.quantum 33");
                    terminal.enter();
                    terminal.wait_for("the answer", |shown| shown.contains("exec.quantum = 33"));
                    terminal.type_in("q");
                }
                signal => {
                    let pane = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
                    let kill = format!("kill -{signal} $(ps -o pid= --ppid {})", pane.trim());
                    assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh").success(), "{kill}");
                }
            }
            terminal.wait("ready>");
            assert!(
                !terminal.shown().contains("WORKERS"),
                "the screen is left behind:\n{}",
                terminal.shown()
            );
            assert_eq!(terminal.state(folder.path()), before, "after {ending}");
        }
        // The terminal is closed while the command runs.
        terminal.type_in(&top);
        terminal.enter();
        terminal.wait("WORKERS");
        let pane = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let child = Command::new("ps").args(["-o", "pid=", "--ppid", pane.trim()]).output().expect("ps");
        let process = format!("/proc/{}", String::from_utf8_lossy(&child.stdout).trim());
        assert!(Path::new(&process).is_dir(), "{process}");
        drop(terminal);
        let until = Instant::now() + Duration::from_secs(30);
        while Path::new(&process).is_dir() {
            assert!(Instant::now() < until, "it goes on without a terminal: {process}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    drop(run.child.stdin.take());
    run.end(0);
    reading.join().expect("all was read");
}

#[test]
fn without_a_terminal_the_error_names_other_commands() {
    let net = "net first connect [{<n>} -> {<n = n + 1>}];";
    let mut run = Run::start(net);
    let mut top = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let output = top.arg("top").arg(run.space()).stdin(Stdio::null()).output().expect("thalweg starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("report --watch"));
    drop(run.child.stdin.take());
    run.end(0);
}
