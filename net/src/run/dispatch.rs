//! The common part of tasks that route records by their shape or labels.

use thalweg_exec::{Context, Out, Stop};

use super::input::Input;
use crate::pattern::Pattern;
use crate::record::Record;

/// Runs a dispatch of a task that routes records in place, as many at once as go the same way. `dispatch`
/// sends some of the waiting records, at most as many as its last argument states, and returns how many;
/// `Err`: why none was sent. With 0 as its last argument `dispatch` sends no record, and says whether the input
/// is empty: see [`why_spent`].
#[inline]
pub(crate) fn dispatch_all<D>(
    dispatcher: &mut D,
    cx: &mut Context<'_>,
    dispatch: impl Fn(&mut D, &mut Context<'_>, usize) -> Result<usize, Stop>,
) -> Stop {
    let mut left = cx.quantum();
    loop {
        match dispatch(dispatcher, cx, left) {
            Ok(_) if left == 0 => return Stop::QuantumSpent,
            Ok(dispatched) => left -= dispatched,
            Err(stop) if left == 0 => return why_spent(cx, stop),
            Err(stop) => return stop,
        }
    }
}

/// Why a dispatch ends that has read as many records as it may, and then found that it would end for the reason
/// `stop` anyway. A task ends at once when its input has ended, so its end is not one dispatch behind its last record.
/// A task that may read a single record, as a new task may, waits at once if there is no other. All other tasks stay
/// ready, so that the tasks before them may give more records before they are dispatched again.
#[inline]
pub(crate) fn why_spent(cx: &Context<'_>, stop: Stop) -> Stop {
    if stop == Stop::InputEmpty && cx.quantum() > 1 { Stop::QuantumSpent } else { stop }
}

/// Sends the next `count` records to one output. If no other record waits and the records `may` be handed on,
/// the component that waits for them on the same worker works on them at once; otherwise as many records are
/// moved to the output as it has room for. `Ok`: how many were moved; `Err`: why the dispatch ends, and
/// whether the records were sent.
#[inline]
pub(crate) fn send_run(
    cx: &mut Context<'_>,
    input: &mut Input,
    (count, may): (usize, bool),
    out: &mut Out<Record>,
) -> Result<usize, (Stop, bool)> {
    if may
        && input.has_only(count)
        && count <= input.hands_on(cx, out)
        && let Some(stop) = input.hand_on(cx, count, out)
    {
        return Err((stop, true));
    }
    match input.transfer(cx, count, out) {
        0 => Err((Stop::OutputFull, false)),
        moved => Ok(moved),
    }
}

/// The number of leading records with the shape of the first.
#[inline]
pub(crate) fn alike(records: &[Record]) -> usize {
    let Some(shape) = records.first().map(Record::shape) else { return 0 };
    records.iter().position(|record| record.shape() != shape).unwrap_or(records.len())
}

/// Whether a record matches one of some patterns, tested in their order.
#[inline]
pub(crate) fn matches_one(patterns: &mut [Pattern], record: &Record) -> Result<bool, String> {
    for pattern in patterns {
        if pattern.matches(record).map_err(|fault| fault.to_string())? {
            return Ok(true);
        }
    }
    Ok(false)
}
