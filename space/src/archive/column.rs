//! A column: the values that one field has in the events of a chunk, one after the other.
//!
//! Each value of a column is predicted: by the least value, the value before, the step before, another
//! column, or the value before with the same key. The remainders of the prediction are split into planes: all
//! lowest bytes, then all bytes above them, as many planes as the largest remainder needs. Each plane is
//! compressed by itself, because the bytes of one plane resemble each other and those of different planes do
//! not. Planes of a few bytes share one frame.

use super::coding::{Damaged, Input, Output};
use std::collections::HashMap;

/// The number of a column's values from which its prediction is chosen.
const SAMPLE_VALUES: usize = 1024;
/// For how many chunks a column keeps its prediction before another one is tried.
const CHUNKS_ALIKE: u8 = 16;
/// The least number of values for which a prediction by keys is tried.
const KEYED_VALUES_MIN: usize = 64;
/// If values need fewer bits than this, no further prediction is tried.
const BITS_FEW: u64 = 2;

/// How a value is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prediction {
    /// Predicts the least value of the column.
    Least,
    /// Predicts the previous value.
    Before,
    /// Predicts the previous value plus the step that led to it.
    Step,
    /// Predicts the value that the same event has in another column; columns are numbered from 0, which is
    /// the times.
    Other(usize),
    /// Predicts the value of the last event that had the same value in the other column with this number.
    Keyed(usize),
    /// Predicts as `Keyed`, and adds the step that led to the value.
    KeyedStep(usize),
}

impl Prediction {
    fn code(self) -> (u8, usize) {
        match self {
            Prediction::Least => (0, 0),
            Prediction::Before => (1, 0),
            Prediction::Step => (2, 0),
            Prediction::Other(column) => (3, column),
            Prediction::Keyed(column) => (4, column),
            Prediction::KeyedStep(column) => (5, column),
        }
    }

    fn from_code(code: u8, column: usize) -> Option<Prediction> {
        Some(match code {
            0 => Prediction::Least,
            1 => Prediction::Before,
            2 => Prediction::Step,
            3 => Prediction::Other(column),
            4 => Prediction::Keyed(column),
            5 => Prediction::KeyedStep(column),
            _ => return None,
        })
    }

    fn has_column(self) -> bool {
        self.source().is_some()
    }

    /// The column from which this prediction is computed.
    fn source(self) -> Option<usize> {
        match self {
            Prediction::Other(n) | Prediction::Keyed(n) | Prediction::KeyedStep(n) => Some(n),
            _ => None,
        }
    }
}

/// A column while it is coded or decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Column {
    /// Bytes of a value: 1, 2, 4 or 8.
    pub(super) width: usize,
    /// The values; empty if all are the same and no other column is predicted from this one.
    pub(super) values: Vec<u64>,
    /// The common value, if all values are equal.
    pub(super) constant: u64,
}

impl Column {
    /// A column with these values.
    pub(super) fn of(width: usize, values: Vec<u64>) -> Column {
        Column { width, values, constant: 0 }
    }

    /// A column of equal values.
    pub(super) fn constant(width: usize, value: u64) -> Column {
        Column { width, values: Vec::new(), constant: value }
    }
}

/// Memory that is allocated once for many columns.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    rest: Vec<u64>,
    plane: Vec<u8>,
    keys: Vec<(u64, u64)>,
    /// The last prediction of each column, and for how many more chunks it is kept.
    habits: HashMap<u64, (Prediction, u8)>,
    /// Columns that are not in use.
    pub(super) spare: Vec<Column>,
    /// The bytes after the fields of a group's events.
    pub(super) tail: Vec<u8>,
}

/// The mask of a value of this many bytes.
pub(super) fn mask(width: usize) -> u64 {
    u64::MAX >> (64 - 8 * width)
}

/// A difference of this many bytes, folded so that small numbers of either sign become small numbers.
#[inline(always)]
fn folded(difference: u64, width: usize) -> u64 {
    let shift = 64 - 8 * width as u32;
    let signed = (difference << shift) as i64 >> shift;
    ((signed << 1) ^ (signed >> 63)) as u64
}

#[inline(always)]
fn unfolded(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

/// The last value and step for each key, in a table of limited size. Keys that share a slot are predicted
/// badly, but decoded correctly. The number of slots follows from the number of values.
struct Last<'k> {
    slots: &'k mut [(u64, u64)],
    shift: u32,
}

impl<'k> Last<'k> {
    fn new(keys: &'k mut Vec<(u64, u64)>, count: usize) -> Last<'k> {
        let slots = count.next_power_of_two().clamp(64, 1 << 12);
        if keys.len() < slots {
            keys.resize(slots, (0, 0));
        }
        keys[..slots].fill((0, 0));
        Last { slots: &mut keys[..slots], shift: 64 - slots.trailing_zeros() }
    }

    #[inline(always)]
    fn of(&mut self, key: u64) -> &mut (u64, u64) {
        &mut self.slots[(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize]
    }
}

/// The bits that the values of a sample need with this prediction.
fn cost(prediction: Prediction, column: &Column, before: &[Column], keys: &mut Vec<(u64, u64)>) -> u64 {
    let count = column.values.len();
    let sample = count.min(SAMPLE_VALUES);
    // The sample is taken from the middle of the chunk, which is typical of it.
    let from = (count - sample) / 2;
    let mut rest = Vec::new();
    let part = |column: &Column| Column::of(column.width, column.values[from..from + sample].to_vec());
    let (column, sources): (Column, Vec<Column>) = match prediction {
        Prediction::Other(n) | Prediction::Keyed(n) | Prediction::KeyedStep(n) => {
            let mut sources = vec![Column::default(); n];
            sources.push(part(&before[n]));
            (part(column), sources)
        }
        _ => (part(column), Vec::new()),
    };
    predict(prediction, &column, &sources, &mut rest, keys);
    rest.iter().map(|rest| u64::from(64 - rest.leading_zeros())).sum()
}

/// Computes the remainder of each value; returns the two values with which the prediction begins.
fn predict(
    prediction: Prediction,
    column: &Column,
    before: &[Column],
    rest: &mut Vec<u64>,
    keys: &mut Vec<(u64, u64)>,
) -> (u64, u64) {
    let (values, width) = (&column.values, column.width);
    rest.clear();
    match prediction {
        Prediction::Least => {
            let least = values.iter().copied().min().unwrap_or(0);
            rest.extend(values.iter().map(|value| value - least));
            (least, 0)
        }
        Prediction::Before => {
            let first = values.first().copied().unwrap_or(0);
            rest.push(0);
            rest.extend(values.windows(2).map(|two| folded(two[1].wrapping_sub(two[0]), width)));
            rest.truncate(values.len());
            (first, 0)
        }
        Prediction::Step => {
            let first = values.first().copied().unwrap_or(0);
            let step = values.get(1).map_or(0, |second| second.wrapping_sub(first));
            rest.extend([0, 0]);
            rest.extend(values.windows(3).map(|three| {
                let step = three[1].wrapping_sub(three[0]);
                folded(three[2].wrapping_sub(three[1]).wrapping_sub(step), width)
            }));
            rest.truncate(values.len());
            (first, step)
        }
        Prediction::Other(n) => {
            let pairs = values.iter().zip(&before[n].values);
            rest.extend(pairs.map(|(value, other)| folded(other.wrapping_sub(*value), width)));
            (0, 0)
        }
        Prediction::Keyed(n) | Prediction::KeyedStep(n) => {
            let steps = matches!(prediction, Prediction::KeyedStep(_));
            let mut last_of = Last::new(keys, values.len());
            rest.extend(values.iter().zip(&before[n].values).map(|(value, key)| {
                let (last, step) = last_of.of(*key);
                let guess = if steps { last.wrapping_add(*step) } else { *last };
                (*last, *step) = (*value, value.wrapping_sub(*last));
                folded(value.wrapping_sub(guess), width)
            }));
            (0, 0)
        }
    }
}

/// Chooses the prediction that leaves remainders of the fewest bits. `before` are the columns that are known
/// when this one is decoded.
fn chosen(column: &Column, before: &[Column], keys: &mut Vec<(u64, u64)>) -> Prediction {
    let values = &column.values;
    let is_constant = values.first().is_none_or(|first| values.iter().all(|value| value == first));
    if is_constant {
        return Prediction::Least;
    }
    let mut best = (cost(Prediction::Least, column, before, keys), Prediction::Least);
    // The compressor finds patterns by itself, so another prediction has to be better by a margin.
    let few = BITS_FEW * values.len().min(SAMPLE_VALUES) as u64;
    let mut consider = |prediction: Prediction, share: u64, keys: &mut Vec<(u64, u64)>| {
        if best.0 <= few {
            return;
        }
        let bits = cost(prediction, column, before, keys);
        if bits < best.0 * share / 16 {
            best = (bits, prediction);
        }
    };
    if column.width > 1 {
        consider(Prediction::Before, 14, keys);
        consider(Prediction::Step, 14, keys);
        for (n, other) in before.iter().enumerate().filter(|(_, other)| other.width >= column.width) {
            if !other.values.is_empty() {
                consider(Prediction::Other(n), 15, keys);
            }
        }
    }
    if column.width >= 4 && values.len() >= KEYED_VALUES_MIN {
        // Columns of ids may be keys, such as those of a task, a stream or a base.
        for n in (1..before.len()).filter(|n| before[*n].width >= 4 && !before[*n].values.is_empty()).take(4)
        {
            consider(Prediction::Keyed(n), 12, keys);
            consider(Prediction::KeyedStep(n), 12, keys);
        }
    }
    best.1
}

impl Scratch {
    /// An empty column.
    pub(super) fn column(&mut self, width: usize) -> Column {
        let mut column = self.spare.pop().unwrap_or_default();
        column.values.clear();
        Column { width, constant: 0, ..column }
    }

    /// The prediction of a column: that of the last column with the same name, unless it is too old.
    fn prediction(&mut self, column: &Column, before: &[Column], name: Option<u64>) -> Prediction {
        let Some(name) = name else { return Prediction::Least };
        if let Some((habit, left)) = self.habits.get_mut(&name)
            && *left > 0
            && habit.source().is_none_or(|n| {
                before.get(n).is_some_and(|other| {
                    other.width >= column.width.min(4) && other.values.len() == column.values.len()
                })
            })
        {
            *left -= 1;
            return *habit;
        }
        let prediction = chosen(column, before, &mut self.keys);
        // A prediction that was chosen from few values is not kept.
        if column.values.len() >= SAMPLE_VALUES / 4 {
            self.habits.insert(name, (prediction, CHUNKS_ALIKE));
        }
        prediction
    }
}

/// Writes a column: its description into `output.meta`, its planes into `output`. Columns with the same name
/// hold similar values. A column without a name holds differences.
pub(super) fn encode(
    column: &Column,
    before: &[Column],
    name: Option<u64>,
    output: &mut Output<'_>,
    scratch: &mut Scratch,
) {
    let prediction = scratch.prediction(column, before, name);
    let (first, step) = predict(prediction, column, before, &mut scratch.rest, &mut scratch.keys);
    let (code, source) = prediction.code();
    let largest = scratch.rest.iter().fold(0, |all, rest| all | rest);
    let planes = (64 - largest.leading_zeros()).div_ceil(8) as usize;
    output.meta.push(code | (planes as u8) << 4);
    if prediction.has_column() {
        output.varint(source as u64);
    } else {
        output.varint(first & mask(column.width));
    }
    if prediction == Prediction::Step {
        output.varint(step & mask(column.width));
    }
    for plane in 0..planes {
        scratch.plane.clear();
        scratch.plane.extend(scratch.rest.iter().map(|rest| (rest >> (8 * plane)) as u8));
        output.bytes(&scratch.plane);
    }
}

/// Writes a column of equal values.
pub(super) fn encode_constant(value: u64, output: &mut Output<'_>) {
    let (code, _) = Prediction::Least.code();
    output.meta.push(code);
    output.varint(value);
}

/// Reads the `count` values of a column into `column`, whose width is set. `before` are the columns that it may be predicted by.
pub(super) fn decode(
    column: &mut Column,
    count: usize,
    before: &mut [Column],
    input: &mut Input<'_>,
    scratch: &mut Scratch,
) -> Result<(), Damaged> {
    if !decode_varying(column, count, before, input, scratch)? {
        column.values.try_reserve(count).map_err(|_| Damaged)?;
        column.values.resize(count, column.constant);
    }
    Ok(())
}

/// Reads the column's values, or only one if all are equal; returns whether they differ.
pub(super) fn decode_varying(
    column: &mut Column,
    count: usize,
    before: &mut [Column],
    input: &mut Input<'_>,
    scratch: &mut Scratch,
) -> Result<bool, Damaged> {
    let head = input.byte()?;
    let planes = usize::from(head >> 4);
    let has_column = matches!(head & 15, 3..=5);
    let source = if has_column { input.varint()? } else { 0 };
    let prediction =
        Prediction::from_code(head & 15, usize::try_from(source).map_err(|_| Damaged)?).ok_or(Damaged)?;
    let first = if has_column { 0 } else { input.varint()? };
    let step = if prediction == Prediction::Step { input.varint()? } else { 0 };
    if planes > column.width {
        return Err(Damaged);
    }
    let values = &mut column.values;
    values.clear();
    if planes == 0 && prediction == Prediction::Least {
        column.constant = first & mask(column.width);
        return Ok(false);
    }
    let mut other = None;
    if has_column {
        let source = before.get_mut(source as usize).ok_or(Damaged)?;
        if source.values.is_empty() {
            source.values.try_reserve(count).map_err(|_| Damaged)?;
            source.values.resize(count, source.constant);
        }
        other = Some(&*source).filter(|source| source.values.len() >= count);
        other.ok_or(Damaged)?;
    }
    values.try_reserve(count).map_err(|_| Damaged)?;
    if planes == 0 {
        values.resize(count, 0);
    } else {
        input.bytes(count, &mut scratch.plane)?;
        values.extend(scratch.plane.iter().map(|byte| u64::from(*byte)));
    }
    for plane in 1..planes {
        input.bytes(count, &mut scratch.plane)?;
        let shift = 8 * plane as u32;
        for (value, byte) in values.iter_mut().zip(&scratch.plane) {
            *value |= u64::from(*byte) << shift;
        }
    }
    restore(prediction, (first, step), values, mask(column.width), other, &mut scratch.keys);
    Ok(true)
}

/// Computes the values from the remainders of a prediction.
fn restore(
    prediction: Prediction,
    (first, step): (u64, u64),
    values: &mut [u64],
    mask: u64,
    source: Option<&Column>,
    keys: &mut Vec<(u64, u64)>,
) {
    let other = source.map_or(&[][..], |source| &source.values[..]);
    match prediction {
        Prediction::Least if first == 0 => {}
        Prediction::Least => values.iter_mut().for_each(|value| *value = value.wrapping_add(first) & mask),
        Prediction::Before => {
            let mut last = first;
            for value in values {
                last = last.wrapping_add(unfolded(*value)) & mask;
                *value = last;
            }
        }
        Prediction::Step => {
            // The first two values have no remainder, because the first step is known only after them.
            let (mut last, mut step) = (first.wrapping_sub(step), step);
            for value in values {
                step = step.wrapping_add(unfolded(*value));
                last = last.wrapping_add(step);
                *value = last & mask;
            }
        }
        Prediction::Other(_) => {
            for (value, other) in values.iter_mut().zip(other) {
                *value = other.wrapping_sub(unfolded(*value)) & mask;
            }
        }
        Prediction::Keyed(_) | Prediction::KeyedStep(_) => {
            let steps = matches!(prediction, Prediction::KeyedStep(_));
            let mut last_of = Last::new(keys, values.len());
            for (value, key) in values.iter_mut().zip(other) {
                let (last, step) = last_of.of(*key);
                let guess = if steps { last.wrapping_add(*step) } else { *last };
                *value = guess.wrapping_add(unfolded(*value)) & mask;
                (*last, *step) = (*value, value.wrapping_sub(*last));
            }
        }
    }
}
