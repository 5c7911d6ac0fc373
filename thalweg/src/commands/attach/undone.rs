//! The audit of what is undone: each change that an option or a setting made, when it ended and why, as a
//! command `undo` in a space.
//!
//! The attaching process records what it undoes itself. If it was killed, its guard undoes the changes, and
//! records them in a space of its own, `undone-PROGRAM`; the changes' names come from the note that the
//! attaching process gave the guard. What both have left is recorded by the attachment or the `thalweg detach` that
//! undoes it.

use thalweg_attach::{Attachment, Guarded, Options, Restored};
use thalweg_space::{Command, Space, SpaceOptions};

use super::shown::TOOL;

/// The first line of a note to the guard.
const HEAD: &str = "changes by thalweg attach";
/// The name of the guard in the audit of a space.
const GUARD: &str = "thalweg attach-guard";
const DETACH: &str = "thalweg detach";

/// A change that ends with the attachment.
struct Change {
    /// The address of the changed function or variable.
    address: u64,
    /// What was done, as the option names it.
    done: String,
    /// What is so again afterwards.
    back: String,
}

/// The changes of an attachment.
#[derive(Default)]
pub(super) struct Changes {
    list: Vec<Change>,
    /// Calls that undo what others have done, as `thalweg_tune::library::put_back` reads them: the module, 0, the
    /// functions at which the call may be made, and the call.
    pub(super) calls: Vec<String>,
}

impl Changes {
    pub(super) fn add(&mut self, address: u64, done: String, back: String) {
        self.list.push(Change { address, done, back });
    }

    /// The text for the guard.
    pub(super) fn note(&self) -> String {
        let line = |change: &Change| {
            [format!("{:x}", change.address), change.done.clone(), change.back.clone()].join("\t")
        };
        let lines = self.list.iter().map(line).chain(self.calls.iter().cloned());
        [HEAD.to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }

    fn noted(note: &str) -> Option<Changes> {
        let change = |line: &str| {
            let mut parts = line.split('\t');
            let address = u64::from_str_radix(parts.next()?, 16).ok()?;
            Some(Change { address, done: parts.next()?.to_owned(), back: parts.next()?.to_owned() })
        };
        let mut lines = note.lines();
        let is_ours = lines.next() == Some(HEAD);
        let (calls, list): (Vec<&str>, _) = lines.partition(|line| line.matches('\t').count() == 3);
        let calls = calls.into_iter().map(str::to_owned).collect();
        is_ours.then(|| Changes { list: list.into_iter().filter_map(change).collect(), calls })
    }

    /// Records which changes were undone, and why.
    pub(super) fn undone(&self, space: &Space, pid: i32, restored: &Restored, why: &str) {
        for change in &self.list {
            let result = match restored.put_back.contains(&change.address) {
                true => format!("{}: {why}", change.back),
                false => format!("nothing to put back, since it was not so any more: {why}"),
            };
            record(space, pid, &change.done, TOOL, &result);
        }
    }
}

fn record(space: &Space, pid: i32, done: &str, tool: &str, result: &str) {
    let command = Command::new(format!("process {pid}"), "undo").with(done);
    // The audit is a record and no condition: what was undone stays undone if it cannot be recorded.
    let _ = space.record_own(&command, tool, result);
}

/// A space for what was undone after the attaching process was killed. It is kept.
fn space_of(pid: i32) -> Option<Space> {
    let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = format!("undone-{}", program.trim_end().replace('/', "-"));
    Space::create(SpaceOptions { name, keep: true, ..SpaceOptions::default() }).ok()
}

/// Records what the guard has undone after the attaching process was killed, also by calls if it could make them.
pub(super) fn by_guard(pid: i32, guarded: &Guarded, has_called: bool) {
    let Some(Changes { mut list, calls }) = Changes::noted(&guarded.note) else { return };
    list.retain(|change| guarded.restored.put_back.contains(&change.address));
    let has_any = !list.is_empty() || !calls.is_empty();
    let Some(space) = has_any.then(|| space_of(pid)).flatten() else { return };
    let why = if guarded.lease_ran_out {
        "the process that attached did not answer, and was killed"
    } else {
        "the process that attached was killed"
    };
    for change in &list {
        record(&space, pid, &change.done, GUARD, &format!("{}: {why}", change.back));
    }
    let result = if has_called { "called" } else { "could not be called" };
    for call in calls.iter().filter_map(|line| line.rsplit('\t').next()) {
        record(&space, pid, call, GUARD, &format!("{result}: {why}"));
    }
}

/// Records what a killed process and its guard had left, and the next attachment has undone.
pub(super) fn left(space: &Space, attachment: &Attachment) {
    restored(space, attachment.target().pid, Some(attachment), &attachment.left().put_back, TOOL);
}

/// Records what a killed process and its guard had left, and `thalweg detach` has undone.
pub(super) fn by_detach(pid: i32, put_back: &[u64]) {
    let Some(space) = (!put_back.is_empty()).then(|| space_of(pid)).flatten() else { return };
    // The process is opened anew, so that its functions have their names.
    let attachment = Attachment::open(pid, Options { is_filtered: true, ..Options::default() }).ok();
    restored(&space, pid, attachment.as_ref(), put_back, DETACH);
}

/// Records changes of which only the addresses are known.
fn restored(space: &Space, pid: i32, attachment: Option<&Attachment>, put_back: &[u64], tool: &str) {
    for address in put_back {
        let name = match attachment.and_then(|attachment| attachment.modules().at(*address)) {
            Some((function, 0)) => function.readable(),
            _ => format!("{address:#x}"),
        };
        record(space, pid, &name, tool, "put back: the process that attached before was killed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_again() {
        let mut changes = Changes::default();
        changes.add(0x40_1000, "set-var level=5".to_owned(), "level is 3 again".to_owned());
        changes.calls.push("libx.so\t0\tpoll,read\tf(1, 2)".to_owned());
        let Some(Changes { list, calls }) = Changes::noted(&changes.note()) else { panic!("no changes") };
        assert_eq!((list.len(), list[0].address, &*list[0].back), (1, 0x40_1000, "level is 3 again"));
        assert_eq!(calls, changes.calls);
        assert!(Changes::noted("libx.so\t3\ta\tf()").is_none() && Changes::noted("").is_none());
    }
}
