//! The common part of tasks that route records by their shape or labels.

use thalweg_exec::{Context, Out, Stop};

use super::input::Input;
use crate::pattern::Pattern;
use crate::record::Record;

/// Runs a dispatch of a task that routes records in place, as many at once as go the same way. `dispatch`
/// sends some of the waiting records, at most as many as its last argument states, and returns how many;
/// `Err`: why none was sent. With 0 as its last argument `dispatch` sends no record, and says whether the input
/// is empty: a task that has read all that it may, and all that is there, waits or ends at once, so its end is
/// not one dispatch behind the last record.
#[inline]
pub(crate) fn dispatch_all<D>(
    dispatcher: &mut D,
    cx: &mut Context<'_>,
    dispatch: impl Fn(&mut D, &mut Context<'_>, usize) -> Result<usize, Stop>,
) -> Stop {
    let mut left = cx.quantum();
    while left > 0 {
        match dispatch(dispatcher, cx, left) {
            Ok(dispatched) => left -= dispatched,
            Err(stop) => return stop,
        }
    }
    match dispatch(dispatcher, cx, 0) {
        Err(stop) => stop,
        Ok(_) => Stop::QuantumSpent,
    }
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
