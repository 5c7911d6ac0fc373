//! Distributions of numbers: the target counts each number in a bucket, and this module says which numbers a
//! bucket counts.
//!
//! The bits of a register are read as an unsigned, a signed or a floating-point number ([`Scale`]). Each power
//! of two has four buckets, and negative numbers have buckets of their own, so buckets are in the order of the
//! numbers. `blob.s` has the code that counts.

/// Buckets of unsigned numbers, and of each sign of signed numbers; the last four are not used as buckets.
const WHOLE: usize = 256;
/// The number of buckets of unsigned numbers, and of signed numbers that are not negative. The least signed
/// number needs one bucket more.
const WHOLE_USED: usize = 252;
const SIGNED_USED: usize = 248;
/// The index of the word after the buckets of whole numbers that has the greatest number; the next word has
/// the least.
const WHOLE_MOST: usize = WHOLE_USED;

/// Buckets of each sign of floating-point numbers.
const REAL: usize = 1028;
/// The bucket of zero, and that of numbers nearer to zero than 2⁻¹²⁸.
const REAL_ZERO: usize = 0;
const REAL_TINY: usize = 1;
/// The first of the 1,024 buckets of the numbers from 2⁻¹²⁸ on.
const REAL_FIRST: usize = 2;
/// The bucket of the numbers from 2¹²⁸ on, which are infinite perhaps.
const REAL_HUGE: usize = REAL_FIRST + 1024;
/// The bucket of what is not a number.
const REAL_NONE: usize = REAL_HUGE + 1;
/// The exponent and the two highest bits of the fraction of 2⁻¹²⁸.
const REAL_EXPONENT: u64 = (1023 - 128) * 4;
/// The indices of the words after the buckets: the sum, the greatest number, the least number.
const REAL_SUM: usize = 2 * REAL;
const REAL_MOST: usize = REAL_SUM + 1;
const REAL_WORDS: usize = 2064;

const _: () = assert!(REAL_EXPONENT == 3580 && REAL_HUGE == 1026 && REAL_SUM == 2056 && WHOLE_MOST == 252);

/// How the bits of a value are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// As a number that is not negative.
    #[default]
    Unsigned,
    /// As a number in two's complement.
    Signed,
    /// As a floating-point number.
    Float,
}

impl Scale {
    /// Bytes of the words that hold a distribution in the target.
    pub(crate) fn bytes(self) -> u64 {
        let words = match self {
            Scale::Unsigned => WHOLE,
            Scale::Signed => 2 * WHOLE,
            Scale::Float => REAL_WORDS,
        };
        8 * words as u64
    }

    /// The number that the target keeps as this word, whose order is that of the numbers.
    fn of_key(self, key: u64) -> Number {
        const SIGN: u64 = 1 << 63;
        match self {
            Scale::Unsigned => Number::Unsigned(key),
            Scale::Signed => Number::Signed((key ^ SIGN).cast_signed()),
            Scale::Float if key & SIGN != 0 => Number::Float(f64::from_bits(key ^ SIGN)),
            Scale::Float => Number::Float(f64::from_bits(!key)),
        }
    }
}

/// A number of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A number of an unsigned type.
    Unsigned(u64),
    /// A number of a signed type.
    Signed(i64),
    /// A number of a floating-point type.
    Float(f64),
}

impl Number {
    /// The number, rounded to the precision of an `f64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Unsigned(number) => number as f64,
            Number::Signed(number) => number as f64,
            Number::Float(number) => number,
        }
    }
}

/// A histogram of values, with four buckets for each power of two and each sign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// The sum of the values: modulo 2⁶⁴, or the bits of an `f64`, as the scale says.
    pub sum: u64,
    scale: Scale,
    /// The least and the greatest value, if they are known.
    extremes: Option<(Number, Number)>,
    buckets: Vec<u64>,
}

impl Histogram {
    /// The distribution in the words that the target keeps. `word` returns a word of a stripe at an index, and
    /// `sums` the sum of each stripe that is not among these words.
    pub(crate) fn read(
        scale: Scale,
        stripes: u64,
        word: impl Fn(u64, usize) -> u64,
        sums: impl Fn(u64) -> u64,
    ) -> Histogram {
        let all =
            |index: usize| (0..stripes).fold(0_u64, |sum, stripe| sum.wrapping_add(word(stripe, index)));
        let (buckets, most) = match scale {
            Scale::Unsigned => (WHOLE, WHOLE_MOST),
            Scale::Signed => (2 * WHOLE, WHOLE_MOST),
            Scale::Float => (REAL_SUM, REAL_MOST),
        };
        let sum = match scale {
            Scale::Float => {
                (0..stripes).map(|stripe| f64::from_bits(word(stripe, REAL_SUM))).sum::<f64>().to_bits()
            }
            _ => (0..stripes).fold(0_u64, |sum, stripe| sum.wrapping_add(sums(stripe))),
        };
        let mut buckets: Vec<u64> = (0..buckets).map(all).collect();
        if scale != Scale::Float {
            buckets[WHOLE_USED..WHOLE].fill(0);
        }
        // The target keeps the greatest key, and the greatest complement of a key; both words begin with 0.
        let extreme = |index: usize| (0..stripes).map(|stripe| word(stripe, index)).max().unwrap_or(0);
        let (most, least) = (extreme(most), !extreme(most + 1));
        // Where the target keeps no extremes, both words are 0.
        let extremes = (least <= most).then(|| (scale.of_key(least), scale.of_key(most)));
        Histogram { sum, scale, extremes, buckets }
    }

    /// How the values are read.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How many of the values are not a number (NaN).
    pub fn not_numbers(&self) -> u64 {
        match self.scale {
            Scale::Float => self.buckets.get(REAL_NONE).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// The least and the greatest value since the point was made, if they are known.
    pub fn extremes(&self) -> Option<(Number, Number)> {
        self.extremes
    }

    /// The mean of the values that are numbers. Where the sum may have exceeded 64 bits, it is computed from
    /// the middles of the buckets.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count() - self.not_numbers();
        if count == 0 {
            return None;
        }
        let sum = match self.scale {
            Scale::Float => f64::from_bits(self.sum),
            _ if self.may_overflow() => {
                let middle = |(first, last, calls): (Number, Number, u64)| {
                    (first.as_f64() / 2.0 + last.as_f64() / 2.0) * calls as f64
                };
                self.numbers().map(middle).sum()
            }
            Scale::Signed => self.sum.cast_signed() as f64,
            Scale::Unsigned => self.sum as f64,
        };
        Some(sum / count as f64)
    }

    /// Whether the sum of the values may have exceeded 64 bits, so that [`Histogram::sum`] is not the sum.
    pub fn may_overflow(&self) -> bool {
        let limit = match self.scale {
            Scale::Unsigned => 2_f64.powi(64),
            Scale::Signed => 2_f64.powi(63),
            Scale::Float => return false,
        };
        let greatest = |(first, last, calls): (Number, Number, u64)| {
            first.as_f64().abs().max(last.as_f64().abs()) * calls as f64
        };
        // A bound of the sum of the buckets that may be too large by a quarter is good enough.
        self.numbers().map(greatest).sum::<f64>() >= limit
    }

    /// The buckets of unsigned values that are not empty: the least value, the greatest value, and the count
    /// of each.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.numbers().filter_map(|bucket| match bucket {
            (Number::Unsigned(first), Number::Unsigned(last), count) => Some((first, last, count)),
            _ => None,
        })
    }

    /// The buckets that are not empty, in the order of the numbers: the least number, the greatest number, and
    /// the count of each.
    pub fn numbers(&self) -> impl Iterator<Item = (Number, Number, u64)> + '_ {
        // Where the buckets of negative numbers begin, and how many buckets each sign has.
        let (half, negative, positive) = match self.scale {
            Scale::Unsigned => (0, 0, WHOLE_USED),
            Scale::Signed => (WHOLE, SIGNED_USED + 1, SIGNED_USED),
            Scale::Float => (REAL, REAL_NONE, REAL_NONE),
        };
        let count = |number: usize| self.buckets.get(number).copied().unwrap_or(0);
        let negative = (1..negative).rev().map(move |number| (self.negative(number), count(half + number)));
        let positive = (0..positive).map(move |number| {
            // Zero has a sign, too, if it is a floating-point number.
            let other = if number == REAL_ZERO && half == REAL { count(half + REAL_ZERO) } else { 0 };
            (self.positive(number), count(number) + other)
        });
        let is_used = |(_, count): &((Number, Number), u64)| *count > 0;
        negative.chain(positive).filter(is_used).map(|((first, last), count)| (first, last, count))
    }

    /// The least and the greatest number of a bucket of numbers that are not negative.
    fn positive(&self, number: usize) -> (Number, Number) {
        match self.scale {
            Scale::Unsigned => {
                let (first, last) = bounds(number);
                (Number::Unsigned(first), Number::Unsigned(last))
            }
            Scale::Signed => {
                let (first, last) = bounds(number);
                (Number::Signed(first.cast_signed()), Number::Signed(last.cast_signed()))
            }
            Scale::Float => {
                let (first, last) = real_bounds(number);
                (Number::Float(first), Number::Float(last))
            }
        }
    }

    /// The least and the greatest number of a bucket of negative numbers.
    fn negative(&self, number: usize) -> (Number, Number) {
        if self.scale == Scale::Float {
            let (first, last) = real_bounds(number);
            return (Number::Float(-last), Number::Float(-first));
        }
        let (first, last) = bounds(number);
        // The negative number that is farthest from zero has no positive counterpart.
        let negated = |number: u64| 0_i64.checked_sub_unsigned(number).unwrap_or(i64::MIN);
        (Number::Signed(negated(last)), Number::Signed(negated(first)))
    }

    /// The quantile `part` (from 0 to 1) of unsigned values. The error is at most a quarter of the largest
    /// power of two that does not exceed the quantile.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut sum = 0;
        self.buckets().find_map(|(first, last, count)| {
            sum += count;
            (sum >= wanted).then_some(first + (last - first) / 2)
        })
    }

    /// The difference to the earlier figures `before`; its extremes are not known.
    #[must_use]
    pub fn since(&self, before: &Histogram) -> Histogram {
        let old = |number: usize| before.buckets.get(number).copied().unwrap_or(0);
        let buckets =
            self.buckets.iter().enumerate().map(|(number, count)| count.saturating_sub(old(number)));
        let sum = match self.scale {
            Scale::Float => (f64::from_bits(self.sum) - f64::from_bits(before.sum)).to_bits(),
            _ => self.sum.wrapping_sub(before.sum),
        };
        Histogram { sum, scale: self.scale, extremes: None, buckets: buckets.collect() }
    }
}

/// The least and the largest whole number that a bucket counts.
fn bounds(number: usize) -> (u64, u64) {
    if number < 4 {
        return (number as u64, number as u64);
    }
    let shift = number / 4 - 1;
    let first = (4 + number as u64 % 4) << shift.min(61);
    (first, first.saturating_add((1_u64 << shift.min(61)) - 1))
}

/// The least and the greatest floating-point number of a bucket of numbers that are not negative.
fn real_bounds(number: usize) -> (f64, f64) {
    let at = |number: usize| f64::from_bits(((number - REAL_FIRST) as u64 + REAL_EXPONENT) << 50);
    match number {
        REAL_ZERO => (0.0, 0.0),
        REAL_TINY => (f64::from_bits(1), at(REAL_FIRST).next_down()),
        REAL_HUGE => (at(REAL_HUGE), f64::INFINITY),
        number => (at(number), at(number + 1).next_down()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        assert_eq!((bounds(3), bounds(4), bounds(7), bounds(8)), ((3, 3), (4, 4), (7, 7), (8, 9)));
        for number in 1..252 {
            assert_eq!(bounds(number).0, bounds(number - 1).1 + 1, "{number}");
        }
        assert_eq!(bounds(251).1, u64::MAX);
        for number in 1..=REAL_HUGE {
            assert_eq!(real_bounds(number).0, real_bounds(number - 1).1.next_up(), "{number}");
        }
        assert_eq!(
            (real_bounds(REAL_FIRST).0, real_bounds(REAL_HUGE).0),
            (2_f64.powi(-128), 2_f64.powi(128))
        );
    }

    #[test]
    fn quantiles_lie_in_their_buckets() {
        let mut buckets = vec![0; 256];
        (buckets[1], buckets[20]) = (9, 1);
        let histogram = Histogram { buckets, ..Histogram::default() };
        assert_eq!(histogram.quantile(0.5), Some(1));
        assert!((64..80).contains(&histogram.quantile(1.0).expect("a value")));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    /// A distribution in which every bucket has one value.
    fn full(scale: Scale) -> Histogram {
        Histogram::read(scale, 1, |_, index| u64::from(index < 2056), |_| 0)
    }

    #[test]
    fn numbers_are_in_order() {
        for scale in [Scale::Unsigned, Scale::Signed, Scale::Float] {
            let numbers: Vec<_> = full(scale).numbers().collect();
            for two in numbers.windows(2) {
                let ordered = match (two[0].1, two[1].0) {
                    (Number::Unsigned(last), Number::Unsigned(next)) => last + 1 == next,
                    (Number::Signed(last), Number::Signed(next)) => last + 1 == next,
                    (Number::Float(last), Number::Float(next)) => last.next_up() == next,
                    _ => false,
                };
                assert!(ordered, "{two:?}");
            }
            let (first, last) = (numbers[0].0, numbers[numbers.len() - 1].1);
            let expected = match scale {
                Scale::Unsigned => (Number::Unsigned(0), Number::Unsigned(u64::MAX)),
                Scale::Signed => (Number::Signed(i64::MIN), Number::Signed(i64::MAX)),
                Scale::Float => (Number::Float(f64::NEG_INFINITY), Number::Float(f64::INFINITY)),
            };
            assert_eq!((first, last), expected);
        }
    }

    #[test]
    fn extremes_are_decoded() {
        let read = |scale, least: u64, most: u64| {
            let at = if scale == Scale::Float { REAL_MOST } else { WHOLE_MOST };
            let word = move |_, index: usize| match index {
                index if index == at => most,
                index if index == at + 1 => !least,
                _ => 0,
            };
            Histogram::read(scale, 1, word, |_| 0).extremes()
        };
        let sign = 1_u64 << 63;
        let expected = Some((Number::Signed(-3), Number::Signed(7)));
        assert_eq!(read(Scale::Signed, (-3_i64).cast_unsigned() ^ sign, 7 ^ sign), expected);
        let key = |number: f64| if number < 0.0 { !number.to_bits() } else { number.to_bits() ^ sign };
        let expected = Some((Number::Float(-2.5), Number::Float(1e300)));
        assert_eq!(read(Scale::Float, key(-2.5), key(1e300)), expected);
        assert_eq!(read(Scale::Unsigned, 4, 9), Some((Number::Unsigned(4), Number::Unsigned(9))));
        assert_eq!(Histogram::read(Scale::Unsigned, 8, |_, _| 0, |_| 0).extremes(), None);
    }

    #[test]
    fn a_sum_that_does_not_fit_is_not_used() {
        let mut buckets = vec![0; 512];
        buckets[247] = 4;
        let histogram = Histogram { scale: Scale::Signed, buckets, ..Histogram::default() };
        assert!(histogram.may_overflow());
        assert!(histogram.mean().expect("values") > 8e18);
        let mut buckets = vec![0; 512];
        buckets[WHOLE + 3] = 2;
        let sum = (-6_i64).cast_unsigned();
        let histogram = Histogram { scale: Scale::Signed, sum, buckets, ..Histogram::default() };
        assert_eq!((histogram.mean(), histogram.may_overflow()), (Some(-3.0), false));
        assert_eq!(histogram.numbers().collect::<Vec<_>>(), [(Number::Signed(-3), Number::Signed(-3), 2)]);
    }
}
