//! Notes on what a report does not cover or cannot know.

use crate::composing::structure::Structure;
use crate::decoding::observation::{LiveRow, LiveState, Mode};
use crate::monitor::Moment;
use crate::report::{self, Note, Report, State};
use crate::wording::counted;

/// The notes that were added while the events were analysed, and the notes that follow from the report's
/// content.
pub(crate) fn notes(report: &Report, given: &[Note], structure: &Structure) -> Vec<Note> {
    let mut notes = given.to_vec();
    let mut note = |code: &str, text: String| notes.push(Note { code: code.to_owned(), text });
    if report.window.events == 0 {
        note(
            "no_events",
            if report.window.lost > 0 {
                "The events of this window were overwritten. Keep a run whole with --keep.".to_owned()
            } else if report.window.partial {
                "Nothing was recorded in this window: nothing ran, or the run is not observed.".to_owned()
            } else {
                "The space holds no events: the run has not begun, or was not observed.".to_owned()
            },
        );
        return notes;
    }
    if let Some((code, text)) = about_modes(structure) {
        note(code, text.to_owned());
    }
    let window = &report.window;
    if window.gaps > 0 {
        note(
            "lost",
            format!(
                "{} lost in {}: latencies speak of what is left, occupancies are left out; counts and \
                 shares are the totals the tasks, streams and workers keep. Keep a run whole with --keep.",
                counted(window.lost, "event"),
                counted(window.gaps, "place")
            ),
        );
    }
    if let Some(full_ns) = window.disk_full_ns.filter(|&full_ns| full_ns > 0.0) {
        let full = full_ns / 1e9;
        note(
            "disk_full",
            format!(
                "The disk that keeps the events was full for {full:.1} s: times are those of a run that waited for it, or \
                 lack the events that were lost."
            ),
        );
    }
    if window.malformed > 0 {
        let malformed = window.malformed;
        note("malformed", format!("Left out for contradicting themselves: {}.", counted(malformed, "event")));
    }
    let latency = &report.latency;
    if latency.unattributed > 0 {
        note(
            "unattributed",
            format!(
                "The latencies leave out {} without a known input message (a component's own, or what was in lost \
                 events).",
                counted(latency.unattributed, "message")
            ),
        );
    }
    if latency.in_flight > 0 {
        note(
            "in_flight",
            format!(
                "The latencies leave out {} that had not left at the end.",
                counted(latency.in_flight, "input message")
            ),
        );
    }
    if report.throughput.messages_in.is_none() {
        note("no_entry", "No entry stream is known, so there is no throughput.".to_owned());
    }
    if report.broken_count > 0 {
        let broken = report.broken_count;
        note(
            "not_conserved",
            format!("Messages are not conserved in {} (listed under broken).", counted(broken, "stream")),
        );
    }
    notes.extend(by_shares(report));
    notes
}

/// The code of the note on a verdict that follows from shares of time although changes of the run can be
/// predicted.
pub(crate) const BY_SHARES: &str = "by_shares";

/// The note on the verdict of a run that has ended, if the report has the time that tasks took, from which
/// effects of changes are predicted.
fn by_shares(report: &Report) -> Option<Note> {
    let measures_time = report.tasks.iter().any(|task| task.work.busy_ns.is_some());
    let has_ended = report.window.state != State::Running && !report.window.partial;
    let text = "This verdict follows from shares of time alone; `thalweg diagnose` also predicts what changes of this \
                run gain, and names another limit where its relief gains clearly more.";
    (has_ended && measures_time).then(|| Note { code: BY_SHARES.to_owned(), text: text.to_owned() })
}

/// A note that names an account of the report that does not add up, if there is one.
pub(crate) fn not_adding_up(wrong: &[String]) -> Option<Note> {
    let first = wrong.first()?;
    let text = format!(
        "This report's accounts do not add up in {}, which is a mistake of Thalweg's: {first}.",
        counted(wrong.len() as u64, "place")
    );
    Some(Note { code: "sums".to_owned(), text })
}

fn about_modes(structure: &Structure) -> Option<(&'static str, &'static str)> {
    let modes: Vec<Mode> = structure.modes.iter().map(|&(_, mode)| mode).collect();
    if structure.dispatches > 0 {
        return modes.iter().any(|&mode| mode != Mode::Full).then_some((
            "mode_changed",
            "The mode changed during the run: latencies speak of the time in mode full only, occupancies are left out.",
        ));
    }
    match modes.last() {
        _ if modes.contains(&Mode::Full) => None,
        Some(Mode::Off) => Some((
            "mode",
            "Mode off tells counts only: no shares of time, latencies or occupancies. Use mode metrics or full.",
        )),
        _ => Some((
            "mode",
            "Mode metrics tells counts and shares of time: no latencies or occupancies. Use mode full.",
        )),
    }
}

/// Notes that name the boxes in which workers were when the process died, or in which they hang in a live
/// process.
pub(crate) fn places(report: &Report, moment: &Moment<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut note = |code: &str, text: String| notes.push(Note { code: code.to_owned(), text });
    let on = |worker: &report::Worker| {
        Some((worker.id, worker.on_task.as_ref()?.clone(), worker.on_message?, worker.stuck_ns))
    };
    for (worker, task, message, stuck_ns) in report.workers.iter().filter_map(on) {
        match stuck_ns {
            None => note(
                "died_on",
                format!("The process died while worker {worker} was in {task}, on its message {message}."),
            ),
            Some(stuck_ns) => note(
                "stuck",
                format!(
                    "Worker {worker} hangs: it has been in {task}, on its message {message}, for at least {:.1} s, and its \
                     other tasks wait.",
                    stuck_ns / 1e9
                ),
            ),
        }
    }
    if report.window.state == State::Killed {
        for (task, message) in killed_alone(moment) {
            note(
                "died_on",
                format!("The process died while {task} was on its message {message}, on its own thread."),
            );
        }
    }
    notes
}

/// The boxes with a thread of their own that ran when the process died, and for each the index of the message
/// that it processed.
fn killed_alone(moment: &Moment<'_>) -> Vec<(String, u64)> {
    let alone = |row: &LiveRow| {
        let LiveRow::Task { task, state: LiveState::Running, totals, .. } = *row else { return None };
        let of = moment.structure.task(task).filter(|of| of.blocking)?;
        moment.names.sites.get(&of.component).filter(|site| site.kind == "box")?;
        Some((moment.task_name(task)?, totals.counts?.reads.checked_sub(1)?))
    };
    let mut alone: Vec<(String, u64)> = moment.ending.rows.iter().filter_map(alone).collect();
    alone.sort();
    alone
}
