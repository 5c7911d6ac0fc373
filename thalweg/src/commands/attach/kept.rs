//! The calls that were kept one by one, as a table and as JSON.

use serde_json::json;
use thalweg_attach::{Call, Ended};

use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, number, text as column};
use crate::units::duration;

/// How many arguments are shown of a function whose types are not known, if nobody said which.
const ARGUMENTS: usize = 3;

/// The calls of a function that were kept.
#[derive(Default)]
pub(super) struct Kept {
    calls: Vec<Call>,
    /// Calls that could not be kept, since another thread was writing their record.
    pub(super) without: u64,
}

/// What of kept calls is shown.
pub(super) struct Columns<'a> {
    /// Ticks of the clock when the figures began.
    pub(super) begin: u64,
    /// Nanoseconds of so many ticks.
    pub(super) ns: &'a dyn Fn(u64) -> u64,
    /// Arguments that were asked for, by their numbers; none: the first.
    pub(super) arguments: &'a [usize],
}

impl Kept {
    pub(super) fn new((calls, without): (Vec<Call>, u64)) -> Kept {
        Kept { calls, without }
    }

    pub(super) fn print(&self, name: &str, shown: &Columns<'_>, output: &mut Output) -> Result<(), Failure> {
        if self.calls.is_empty() {
            return Ok(());
        }
        let numbers = shown.numbers();
        output.line(&format!("\ncalls of {name}"))?;
        let mut columns = vec![number("AT", 0), number("LASTED", 0)];
        let names: Vec<String> = numbers.iter().map(|number| format!("ARG {number}")).collect();
        columns.extend(names.iter().map(|name| column(name)));
        columns.push(column("RESULT"));
        let mut table = Table::new(&columns);
        for call in &self.calls {
            let ended = call.ended.map(|ended| duration((shown.ns)(ended.ticks) as f64));
            let mut cells = vec![shown.at(call), ended.unwrap_or_default()];
            cells.extend(numbers.iter().map(|number| value(call.arguments[*number])));
            cells.push(result(call.ended).map(value).unwrap_or_default());
            table.row(cells, false);
        }
        output.table(&table)
    }

    pub(super) fn object(&self, shown: &Columns<'_>) -> serde_json::Value {
        let calls = self.calls.iter().map(|call| {
            json!({
                "at_ns": (shown.ns)(call.begin.saturating_sub(shown.begin)), "thread": call.thread,
                "lasted_ns": call.ended.map(|ended| (shown.ns)(ended.ticks)), "arguments": call.arguments, "result": result(call.ended),
            })
        });
        calls.collect()
    }
}

impl Columns<'_> {
    fn numbers(&self) -> Vec<usize> {
        match self.arguments {
            [] => (0..ARGUMENTS).collect(),
            numbers => numbers.to_vec(),
        }
    }

    fn at(&self, call: &Call) -> String {
        duration((self.ns)(call.begin.saturating_sub(self.begin)) as f64)
    }
}

fn result(ended: Option<Ended>) -> Option<u64> {
    ended.and_then(|ended| ended.result).map(|(integer, _)| integer)
}

/// A register as people read it: small numbers as such, also below zero; others, which may be addresses, in hexadecimal.
fn value(bits: u64) -> String {
    const SMALL: i64 = 1 << 32;
    match bits.cast_signed() {
        small if (-SMALL..SMALL).contains(&small) => small.to_string(),
        _ => format!("{bits:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_numbers_or_addresses() {
        for (bits, expected) in [(12, "12"), (u64::MAX, "-1"), (0x7fff_0000_1000, "0x7fff00001000")] {
            assert_eq!(value(bits), expected);
        }
    }
}
