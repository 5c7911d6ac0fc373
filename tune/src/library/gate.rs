//! The process of a gatekeeper on this machine.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use super::hoster;
use super::lines::{Lines, Next};
use super::target::Target;

/// How long to wait for a gatekeeper's end.
const END: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A gatekeeper; it ends with this value.
pub(super) struct GateProcess {
    /// The process that has this gatekeeper and no other, such as PVM's daemon.
    pub(super) of: i32,
    child: Child,
    orders: Option<ChildStdin>,
    lines: Lines,
    has_ended: bool,
}

impl GateProcess {
    /// Starts a gatekeeper of the process `of`, which a target belongs to; `helper` is the command.
    pub(super) fn start(target: &Target, of: i32, helper: Option<Command>) -> Result<GateProcess, String> {
        let command = helper.ok_or("this tuner has no helper that starts hosts")?;
        let mut command = hoster::command(command, target.pid, of, target.library());
        // Ctrl-C must not reach the gatekeeper, which ends after the tuner.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("the helper cannot be started: {error}"))?;
        let (orders, output) = (child.stdin.take(), child.stdout.take());
        let lines = Lines::of(Box::new(output.ok_or("the helper has no output")?));
        Ok(GateProcess { of, child, orders, lines, has_ended: false })
    }

    /// The next line of the gatekeeper; at its end, a line that says so, once.
    pub(super) fn next(&mut self) -> Option<String> {
        match self.lines.next(Duration::ZERO) {
            Next::Line(line) => Some(line),
            Next::End if !std::mem::replace(&mut self.has_ended, true) => Some(hoster::ENDED.to_owned()),
            Next::Nothing | Next::End => None,
        }
    }

    pub(super) fn order(&mut self, order: &str) {
        if let Some(orders) = &mut self.orders {
            // A gatekeeper that has gone is noticed by the end of its lines.
            let _ = writeln!(orders, "{order}");
        }
    }
}

impl Drop for GateProcess {
    fn drop(&mut self) {
        // The gatekeeper ends now. A killed tuner leaves out this line, and the gatekeeper waits for the guards.
        self.order(hoster::LEAVE);
        self.orders = None;
        let begin = Instant::now();
        while begin.elapsed() < END && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
