//! The figures of a point: stripes of counters and histograms in memory that the target and this process
//! share.
//!
//! A point has several stripes; a thread chooses one by the address of its stack, so that threads seldom
//! write the same cache line. All additions are atomic, so none is lost when threads share a stripe.

use crate::error::Error;
use crate::histogram::{Histogram, Scale};
use crate::kept::{Keep, Ring};
use crate::types::{Form, Place};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Stripes of a point: a power of two, which is also written in the code of the trampolines.
pub(crate) const STRIPES: u64 = 8;
/// Bytes of a table of callers, which has 256 entries.
const CALLERS_BYTES: u64 = 256 * 16;
/// The offset in a stripe of the number of calls that found no room in the table of callers.
const CALLERS_LEFT_OUT_OFFSET: u64 = 96;
/// Bytes before the first histogram of a stripe.
const HEADER_BYTES: u64 = 128;
/// Bytes of a stripe with only the count.
const COUNT_BYTES: u64 = 64;

/// The offset of a channel's sum in a stripe. Channel 0 is times, 1 to 6 are arguments, 7 is results. The sum
/// of floating-point numbers is in their histogram instead.
pub(crate) fn sum_offset(channel: usize) -> u32 {
    16 + 8 * channel as u32
}

/// The channel of results.
pub(crate) const RESULTS: usize = 7;

/// An argument whose values are kept: the register that has it, and how its bits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The register.
    pub place: Place,
    /// How the register's bits are read.
    pub form: Form,
}

/// An integer register of unknown type, whose 64 bits are read as a number without a sign.
impl From<usize> for Argument {
    fn from(number: usize) -> Argument {
        Argument { place: Place::Integer(number), form: Form::UNKNOWN }
    }
}

impl Argument {
    /// The offset of the sum in a stripe, which is not used for floating-point numbers.
    pub(crate) fn sum_offset(self) -> u32 {
        match self.place {
            Place::Integer(number) | Place::Float(number) => sum_offset(1 + number.min(5)),
        }
    }
}

/// An argument that is changed on entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) argument: Argument,
    /// The bits that the register gets.
    pub(crate) value: u64,
    /// The number of the integer register that is restored on return, if it still has the new value.
    pub(crate) restored: Option<usize>,
}

/// What a trampoline does besides what the layout of the figures says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Details {
    pub(crate) change: Option<Change>,
    pub(crate) only: Only,
    /// Of the counted calls, one in this number is timed and has its values kept: a power of two.
    pub(crate) one_in: u32,
}

/// Which calls of a function are counted, timed and changed: all, if nothing is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Only {
    /// A condition on an argument.
    pub when: Option<Condition>,
    /// The first and the last return address of the calls.
    pub from: Option<(u64, u64)>,
}

/// The comparison of an argument with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The argument. Its form says whether numbers with or without a sign, or floating-point numbers, are
    /// compared.
    pub argument: Argument,
    /// The comparison that must hold.
    pub is: Comparison,
    /// The number to compare with: an integer of 64 bits, or the bits of a `double`.
    pub value: u64,
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Other,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Comparison {
    /// The second byte of the conditional jump that is taken if the comparison of two integers does not hold.
    pub(crate) fn opposite(self, scale: Scale) -> u8 {
        let has_sign = scale == Scale::Signed;
        match self {
            Comparison::Equal => 0x85,
            Comparison::Other => 0x84,
            Comparison::Less => {
                if has_sign {
                    0x8d
                } else {
                    0x83
                }
            }
            Comparison::AtMost => {
                if has_sign {
                    0x8f
                } else {
                    0x87
                }
            }
            Comparison::Greater => {
                if has_sign {
                    0x8e
                } else {
                    0x86
                }
            }
            Comparison::AtLeast => {
                if has_sign {
                    0x8c
                } else {
                    0x82
                }
            }
        }
    }

    /// The number of 32 bits with which a number of 32 bits compares as it does with `number`. NaN, which is
    /// equal to nothing, stands for numbers that no number of 32 bits is equal to.
    pub(crate) fn single(self, number: f64) -> f32 {
        let near = number as f32;
        let (below, above) = match f64::from(near).partial_cmp(&number) {
            Some(std::cmp::Ordering::Less) => (near, near.next_up()),
            Some(std::cmp::Ordering::Greater) => (near.next_down(), near),
            _ => (near, near),
        };
        match self {
            Comparison::Greater | Comparison::AtMost => below,
            Comparison::AtLeast | Comparison::Less => above,
            Comparison::Equal | Comparison::Other if below == above => near,
            Comparison::Equal | Comparison::Other => f32::NAN,
        }
    }
}

/// The layout of a stripe of a point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) is_timed: bool,
    /// The arguments that are kept, each with its histogram's offset.
    pub(crate) arguments: Vec<(Argument, u32)>,
    /// How results are read, if they are kept, and the offset of their histogram.
    pub(crate) result: Option<(Form, u32)>,
    /// The offset in a stripe of the table that counts calls by their return addresses, if there is one.
    pub(crate) callers: Option<u64>,
    /// Records of calls, at the end of each stripe.
    pub(crate) kept: Option<Ring>,
    pub(crate) stripe_bytes: u64,
}

impl Layout {
    pub(crate) fn new(
        is_timed: bool,
        arguments: &[Argument],
        result: Option<Form>,
        has_callers: bool,
        keep: Option<Keep>,
    ) -> Layout {
        let mut next = HEADER_BYTES;
        let mut histogram = |scale: Scale| {
            next += scale.bytes();
            (next - scale.bytes()) as u32
        };
        if is_timed {
            histogram(Scale::Unsigned);
        }
        let arguments = arguments.iter().map(|argument| (*argument, histogram(argument.form.scale())));
        let arguments: Vec<(Argument, u32)> = arguments.collect();
        let result = result.map(|form| (form, histogram(form.scale())));
        let callers = has_callers.then_some(next);
        next += callers.map_or(0, |_| CALLERS_BYTES);
        let kept = keep.map(|keep| Ring::at(next, keep));
        let is_counted = !is_timed && arguments.is_empty() && result.is_none();
        let is_plain = is_counted && callers.is_none() && kept.is_none();
        let bytes = kept.map_or(next, |ring| ring.offset + ring.bytes());
        Layout {
            is_timed,
            arguments,
            result,
            callers,
            kept,
            stripe_bytes: if is_plain { COUNT_BYTES } else { bytes },
        }
    }

    /// Whether calls are only counted.
    pub(crate) fn is_plain(&self) -> bool {
        self.stripe_bytes == COUNT_BYTES
    }

    /// Whether the times of calls, or of the records of calls, are measured.
    pub(crate) fn reads_clock(&self) -> bool {
        self.is_timed || self.kept.is_some()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.stripe_bytes * STRIPES
    }

    /// The bytes of a stripe without the records of calls.
    fn figures_bytes(&self) -> u64 {
        self.kept.map_or(self.stripe_bytes, |ring| ring.offset)
    }

    /// Reads the figures of a point at this offset.
    pub(crate) fn figures(&self, memory: &File, begin: u64) -> Result<Figures, Error> {
        let stripe = self.figures_bytes();
        let mut bytes = vec![0; (stripe * STRIPES) as usize];
        // Stripes without records of calls lie next to each other, so that they are read at once.
        let at_once = if stripe == self.stripe_bytes { STRIPES } else { 1 };
        for (number, part) in bytes.chunks_exact_mut((stripe * at_once) as usize).enumerate() {
            memory
                .read_exact_at(part, begin + number as u64 * self.stripe_bytes)
                .map_err(|error| Error::of("cannot read the figures", error))?;
        }
        let word =
            |at: u64| u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().expect("8 bytes"));
        let sum =
            |offset: u64| (0..STRIPES).fold(0_u64, |sum, n| sum.wrapping_add(word(n * stripe + offset)));
        let histogram = |scale: Scale, sum_offset: u32, offset: u32| {
            let word_of = |stripe_number: u64, index: usize| {
                word(stripe_number * stripe + u64::from(offset) + 8 * index as u64)
            };
            let sum_of = |stripe_number: u64| word(stripe_number * stripe + u64::from(sum_offset));
            Histogram::read(scale, STRIPES, word_of, sum_of)
        };
        let is_plain = self.is_plain();
        Ok(Figures {
            calls: sum(0),
            not_timed: if is_plain { 0 } else { sum(8) },
            ticks: self.is_timed.then(|| histogram(Scale::Unsigned, sum_offset(0), HEADER_BYTES as u32)),
            arguments: self
                .arguments
                .iter()
                .map(|(argument, offset)| {
                    (*argument, histogram(argument.form.scale(), argument.sum_offset(), *offset))
                })
                .collect(),
            results: self.result.map(|(form, offset)| histogram(form.scale(), sum_offset(RESULTS), offset)),
            callers: self.callers.map(|offset| {
                let mut callers: HashMap<u64, u64> = HashMap::new();
                for stripe in 0..STRIPES {
                    for at in
                        (0..CALLERS_BYTES).step_by(16).map(|at| stripe * self.figures_bytes() + offset + at)
                    {
                        *callers.entry(word(at)).or_default() += word(at + 8);
                    }
                }
                let left_out = sum(CALLERS_LEFT_OUT_OFFSET);
                callers.remove(&0);
                let mut counts: Vec<(u64, u64)> = callers.into_iter().collect();
                counts.sort_by_key(|(address, calls)| (std::cmp::Reverse(*calls), *address));
                Callers { counts, left_out }
            }),
        })
    }
}

/// The figures of a point since it was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Calls that began.
    pub calls: u64,
    /// Calls that found no room in the table of calls under way, so that they have neither time nor result.
    pub not_timed: u64,
    /// Ticks of the processor's clock from entry to return, of calls that returned.
    pub ticks: Option<Histogram>,
    /// The arguments that are kept.
    pub arguments: Vec<(Argument, Histogram)>,
    /// The results of calls.
    pub results: Option<Histogram>,
    /// The numbers of calls by their return addresses, if they were counted.
    pub callers: Option<Callers>,
}

/// The number of a function's calls from each return address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    /// Each return address with its number of calls, the most frequent first.
    pub counts: Vec<(u64, u64)>,
    /// Calls from places for which there was no room in the table.
    pub left_out: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_32_bits_compare_as_those_of_64_bits() {
        let holds = |is: Comparison, one: f64, other: f64| match is {
            Comparison::Equal => one == other,
            Comparison::Other => one != other,
            Comparison::Less => one < other,
            Comparison::AtMost => one <= other,
            Comparison::Greater => one > other,
            Comparison::AtLeast => one >= other,
        };
        let all = [Comparison::Equal, Comparison::Other, Comparison::Less, Comparison::AtMost];
        for is in all.into_iter().chain([Comparison::Greater, Comparison::AtLeast]) {
            for number in [0.1, -0.1, 0.0, 1.5, 1e300, -1e300, 1e-60, f64::INFINITY, f64::NAN] {
                let near = number as f32;
                for value in [near, near.next_up(), near.next_down(), -0.0, f32::INFINITY, f32::NAN] {
                    let single = f64::from(is.single(number));
                    let expected = holds(is, f64::from(value), number);
                    assert_eq!(holds(is, f64::from(value), single), expected, "{value} {is:?} {number}");
                }
            }
        }
    }

    #[test]
    fn a_point_that_only_counts_has_a_line_a_stripe() {
        assert_eq!(Layout::new(false, &[], None, false, None).bytes(), 512);
        let (register, double) =
            (Argument::from(2), Argument { place: Place::Float(1), form: Form::Float(8) });
        let layout = Layout::new(true, &[double, register], Some(Form::Signed(4)), false, None);
        assert_eq!(layout.arguments, [(double, 128 + 2048), (register, 128 + 2048 + 16512)]);
        let result = 128 + 2 * 2048 + 16512;
        assert_eq!(layout.result, Some((Form::Signed(4), result)));
        assert_eq!(layout.stripe_bytes, u64::from(result) + 2 * 2048);
    }
}
