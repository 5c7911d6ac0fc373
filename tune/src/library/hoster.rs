//! The hoster: a process that is the task of PVM by which hosts join a virtual machine, and which holds a host
//! of another architecture back until nobody sends raw messages any more.
//!
//! PVM's daemon asks the hoster to start the daemons of hosts that join, and admits a host when the hoster
//! answers. A daemon that was started prints a line with the signature of its data (`dsig<…>`). If that is
//! not the signature of this host, the hoster asks the tuner, which made this process, to admit the host, and
//! answers the daemon only after the tuner has done so.

mod pvm;

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::found;
use super::lines::{Lines, Next};
use pvm::{Host, Request, Task};

/// The lines of a hoster: it is registered; hosts of other architectures wait; what it was asked for last is
/// done; it cannot be the hoster, for the reason that follows; something that users should know follows.
pub(super) const READY: &str = "ready";
pub(super) const WAITS: &str = "waits";
pub(super) const DONE: &str = "done";
pub(super) const REFUSED: &str = "refused";
pub(super) const NOTE: &str = "note";
/// The line that stands for the end of a hoster's lines.
pub(super) const ENDED: &str = "ended";
/// The line that admits the hosts that wait.
pub(super) const ADMIT: &str = "admit";
/// The line of a tuner that ends, after it has put everything back.
pub(super) const LEAVE: &str = "leave";

/// How often the hoster looks whether the tuner has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long to wait until another hoster, such as that of a tuner that has just ended, has gone.
const OTHER_HOSTER: Duration = Duration::from_secs(3);
/// How long a daemon may take to start, a host may wait for the tuner, and a host may take until it is a part
/// of the virtual machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait after hosts have joined without this hoster, so that all of the machine knows them.
const SETTLE: Duration = Duration::from_secs(2);
/// The variables by which a hoster knows the process number of PVM's daemon, and PVM's library.
const DAEMON_NUMBER: &str = "THALWEG_HOSTER_OF";
const LIBRARY: &str = "THALWEG_HOSTER_LIBRARY";
/// The result for a host on which no daemon could be started.
const NOT_STARTED: &str = "PvmCantStart";
/// The name of the file of PVM's daemon, and the folder in which a daemon notes its address by default.
const DAEMON: &str = "pvmd";
const FOLDER: &str = "/tmp";

/// The daemon of PVM, on this machine, of a task's virtual machine.
pub(super) fn daemon_of(task: i32) -> Result<i32, String> {
    let user = user_of(task).ok_or("the task has ended")?;
    let machine = machine_of(task);
    let is_it = |pid: &i32| {
        is_daemon(*pid)
            && user_of(*pid) == Some(user)
            && machine_of(*pid) == machine
            && !found::parent(*pid).is_some_and(is_daemon)
    };
    found::processes().into_iter().find(is_it).ok_or_else(|| {
        "no daemon of its virtual machine runs on this machine, so it is not known when hosts join".to_owned()
    })
}

/// Completes the command of a hoster for the virtual machine of a task and its daemon.
pub(super) fn command(mut command: Command, task: i32, daemon: i32, library: &Path) -> Command {
    // The daemon's environment decides how remote hosts are reached.
    command.env_clear().envs(environment(daemon));
    command.env(DAEMON_NUMBER, daemon.to_string()).env(LIBRARY, library);
    let own = std::fs::metadata("/proc/self").map(|known| known.uid());
    if let Some((user, group)) = user_of(task).filter(|(user, _)| own.is_ok_and(|own| own != *user)) {
        std::os::unix::process::CommandExt::gid(&mut command, group);
        std::os::unix::process::CommandExt::uid(&mut command, user);
    }
    command
}

fn is_daemon(pid: i32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe"));
    program.is_ok_and(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(DAEMON)))
}

fn user_of(pid: i32) -> Option<(u32, u32)> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|known| (known.uid(), known.gid()))
}

fn environment(pid: i32) -> Vec<(String, String)> {
    let text = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.split('\0').filter_map(|line| line.split_once('=')).map(|(a, b)| (a.into(), b.into())).collect()
}

/// By what a virtual machine is known among those of a user: the folder of its daemon's files, and its number.
fn machine_of(pid: i32) -> (String, String) {
    let of = environment(pid);
    let value = |name: &str| of.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    (value("PVM_TMP").unwrap_or_else(|| FOLDER.to_owned()), value("PVM_VMID").unwrap_or_default())
}

/// Is the hoster of a virtual machine of PVM, until `orders` end and no process is attached to any more. The
/// other end of `orders` and `lines` is a tuner, which has set the variables that name the daemon and its
/// library.
///
/// # Errors
/// Fails when PVM's library cannot be loaded, or its daemon takes no hoster or has ended; a line has the
/// reason.
pub fn hoster(orders: Box<dyn Read + Send>, lines: Box<dyn Write>) -> Result<(), String> {
    let daemon = std::env::var(DAEMON_NUMBER).ok().and_then(|number| number.parse().ok());
    let (Some(daemon), Some(library)) = (daemon, std::env::var_os(LIBRARY)) else {
        return Err(format!("only a tuner can start a hoster: it sets {DAEMON_NUMBER} and {LIBRARY}"));
    };
    let tuner = std::os::unix::process::parent_id();
    let mut hoster = Hoster {
        orders: Lines::of(orders),
        lines,
        tuner,
        shells: Vec::new(),
        is_alone: false,
        is_released: false,
    };
    let result = hoster.run(Path::new(&library), daemon);
    if let Err(why) = &result {
        hoster.say(&format!("{REFUSED} {why}"));
    }
    result
}

struct Hoster {
    orders: Lines,
    lines: Box<dyn Write>,
    /// The number of the tuner's process.
    tuner: u32,
    /// Remote shells that may still run, because the daemons that they started have their output open.
    shells: Vec<Child>,
    /// Whether the tuner has ended, perhaps because it was killed.
    is_alone: bool,
    /// Whether the tuner has put everything back, and ends.
    is_released: bool,
}

impl Hoster {
    fn run(&mut self, library: &Path, daemon: i32) -> Result<(), String> {
        let task = Task::of(library)?;
        let begin = Instant::now();
        while !task.register()? {
            if begin.elapsed() > OTHER_HOSTER {
                return Err("another program already starts the hosts that join".to_owned());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        // Before a hoster is registered, a child of the daemon starts hosts.
        let is_joining = || found::children(daemon).into_iter().any(is_daemon);
        if is_joining() {
            while is_joining() && begin.elapsed() < PATIENCE {
                std::thread::sleep(LOOK_EVERY);
            }
            std::thread::sleep(SETTLE);
        }
        self.say(READY);
        while !self.is_alone && !self.is_released {
            if let Some(request) = task.request(LOOK_EVERY)? {
                self.start(&task, &request)?;
            }
            self.order(Duration::ZERO);
            self.shells.retain_mut(|shell| matches!(shell.try_wait(), Ok(None)));
        }
        self.is_clear();
        // Requests that have come meanwhile are answered, and those that come later are not for this process.
        while let Some(request) = task.request(Duration::ZERO)? {
            self.start(&task, &request)?;
        }
        task.leave();
        Ok(())
    }

    /// Starts the daemons of hosts, has those of other architectures admitted, and answers.
    fn start(&mut self, task: &Task, request: &Request) -> Result<(), String> {
        let shell = task.shell();
        let started: Vec<_> = request.hosts.iter().map(|host| Started::of(&shell, host)).collect();
        let mut results: Vec<(i32, String)> = Vec::new();
        let begin = Instant::now();
        for (host, started) in request.hosts.iter().zip(started) {
            let line = match started.and_then(|started| started.line(begin)) {
                Ok((line, shell)) => {
                    self.shells.push(shell);
                    line
                }
                Err(why) => {
                    self.say(&format!("{NOTE} host {} did not start: {why}", host.address));
                    NOT_STARTED.to_owned()
                }
            };
            results.push((host.id, line));
        }
        let known = task.hosts()?;
        let is_foreign = |line: &str| is_of_another_architecture(line, &known);
        let foreign: Vec<&str> = (request.hosts.iter().zip(&results))
            .filter(|(_, (_, line))| is_foreign(line))
            .map(|(host, _)| host.address.as_str())
            .collect();
        if foreign.is_empty() {
            return task.answer(request, &results);
        }
        self.say(&format!("{WAITS} {}", foreign.join(", ")));
        if !self.is_admitted() {
            for (_, line) in results.iter_mut().filter(|(_, line)| is_foreign(line)) {
                NOT_STARTED.clone_into(line);
            }
        }
        task.answer(request, &results)?;
        let joins = |(_, line): &&(i32, String)| line.starts_with("ddpro");
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let known = task.hosts()?;
            let is_known = |id: i32| known.iter().any(|(other, _)| *other == id);
            if results.iter().filter(joins).all(|(id, _)| is_known(*id)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.say(DONE);
        Ok(())
    }

    /// Waits until the tuner admits the hosts that wait, or has ended and left nothing behind.
    fn is_admitted(&mut self) -> bool {
        let begin = Instant::now();
        while !self.is_alone && !self.is_released && begin.elapsed() < PATIENCE {
            if self.order(LOOK_EVERY).is_some_and(|order| order == ADMIT) {
                return true;
            }
        }
        self.is_clear()
    }

    /// Whether the tuner has ended, and it or its guards have put everything back, for which this waits.
    fn is_clear(&self) -> bool {
        self.is_released || self.is_alone && wait_for_guards(self.tuner)
    }

    /// The next order of the tuner, if one comes within this time.
    fn order(&mut self, wait: Duration) -> Option<String> {
        match self.orders.next(wait) {
            Next::Line(order) => {
                self.is_released |= order == LEAVE;
                Some(order)
            }
            Next::Nothing => None,
            Next::End => {
                self.is_alone = true;
                None
            }
        }
    }

    fn say(&mut self, line: &str) {
        // A tuner that has ended reads nothing; `is_alone` is about that.
        let _ = writeln!(self.lines, "{line}").and_then(|()| self.lines.flush());
    }
}

/// Waits until the guards of a tuner that has ended have put everything back. Returns whether that is so.
fn wait_for_guards(tuner: u32) -> bool {
    let is_left = |attached: thalweg_attach::Attached| {
        attached.maker.is_none_or(|maker| maker.pid.cast_unsigned() == tuner)
    };
    let begin = Instant::now();
    while thalweg_attach::attached().into_iter().any(is_left) {
        if begin.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Whether a daemon that was started has another architecture than the hosts of the virtual machine, by the
/// line that it has printed. A line without a signature is that of an older PVM, so nothing is known.
fn is_of_another_architecture(line: &str, hosts: &[(i32, i32)]) -> bool {
    let signature = || line.split_once("dsig<")?.1.split('>').next()?.parse::<i32>().ok();
    line.starts_with("ddpro") && {
        let signature = signature();
        hosts.is_empty() || hosts.iter().any(|(_, known)| Some(*known) != signature)
    }
}

/// The remote shell that starts the daemon of a host.
struct Started {
    shell: Child,
    lines: Lines,
    errors: Lines,
}

impl Started {
    fn of(shell: &str, host: &Host) -> Result<Started, String> {
        if !host.options.is_empty() {
            let options = &host.options;
            return Err(format!(
                "`so={options}` needs a terminal, which a tuner has not: add the host before"
            ));
        }
        let mut command = Command::new(shell);
        match host.address.split_once('@') {
            Some((user, name)) => command.args([name, "-l", user]),
            None => command.arg(&host.address),
        };
        command.arg(&host.command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start {shell}: {error}"))?;
        if let Some(input) = child.stdin.as_mut().filter(|_| !host.machine.is_empty()) {
            let _ = writeln!(input, "PVM_VMID={}", host.machine);
        }
        match (child.stdout.take(), child.stderr.take()) {
            (Some(lines), Some(errors)) => Ok(Started {
                lines: Lines::of(Box::new(lines)),
                errors: Lines::of(Box::new(errors)),
                shell: child,
            }),
            _ => Err(format!("{shell} has no output")),
        }
    }

    /// The line of the daemon, or the name of an error that it prints, and the shell; waits until `PATIENCE`
    /// after `begin`.
    fn line(mut self, begin: Instant) -> Result<(String, Child), String> {
        let mut last = "it printed nothing".to_owned();
        loop {
            match self.lines.next(PATIENCE.saturating_sub(begin.elapsed())) {
                Next::Line(line) if line.starts_with("ddpro") || line.starts_with("Pvm") => {
                    // The daemon reads its input to the end before it goes on.
                    self.shell.stdin = None;
                    return Ok((line, self.shell));
                }
                Next::Line(line) => last = line,
                Next::Nothing => return Err("it did not answer".to_owned()),
                Next::End => break,
            }
        }
        while let Next::Line(line) = self.errors.next(LOOK_EVERY) {
            last = line;
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_says_which_architecture_it_has() {
        let line = |signature: &str| format!("ddpro<2316> arch<X> ip<7f000003:a1b2> mtu<4096>{signature}");
        let hosts = [(0x40000, 4_230_209)];
        assert!(!is_of_another_architecture(&line(" dsig<4230209>"), &hosts));
        assert!(is_of_another_architecture(&line(" dsig<7>"), &hosts));
        assert!(is_of_another_architecture(&line(""), &hosts), "nothing is known of it");
        assert!(!is_of_another_architecture("PvmDupHost", &hosts), "it does not join");
        assert!(is_of_another_architecture(&line(" dsig<7>"), &[(1, 7), (2, 8)]), "one of two differs");
    }

    #[test]
    fn a_task_without_a_daemon_has_no_hoster() {
        let own = std::process::id().cast_signed();
        assert!(daemon_of(own).is_err_and(|why| why.contains("no daemon")));
    }
}
