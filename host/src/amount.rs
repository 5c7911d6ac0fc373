//! Reads and writes numbers in the form that people use: with units and separated thousands.

use std::time::Duration;

use thalweg_pack::{Dimension, Unit};

/// A count with separated thousands: `63,640`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with a noun, in singular or plural: `1 record`, `63,640 records`.
pub fn counted(value: u64, what: &str) -> String {
    format!("{} {what}{}", count(value), if value == 1 { "" } else { "s" })
}

/// The units of times and sizes, as they are written after a number.
const TIMES: &str = "ns, us, ms, s, min, h";
const SIZES: &str = "B, kB, MB, GB, KiB, MiB, GiB";

/// A size in bytes: `300MB`, `64 KiB`; a bare number is bytes.
///
/// # Errors
/// If the text is no number with a unit of size, or no whole number of bytes.
pub fn size(text: &str) -> Result<u64, String> {
    whole(text, known("B"))
}

/// A time: `5ms`, `1.5 s`, `2min`; a bare number is seconds.
///
/// # Errors
/// If the text is no number with a unit of time, or the time is zero.
pub fn time(text: &str) -> Result<Duration, String> {
    let ns = amount(text, known("s"))? * known("s").factor;
    let time = Duration::try_from_secs_f64(ns / 1e9).map_err(|error| format!("{text}: {error}"))?;
    if time.is_zero() { Err("it has to last some time".to_owned()) } else { Ok(time) }
}

/// A part of a run: the last part of the run (`10s`), or the part from one time to another, both counted from
/// the run's start (`1.5s..2min`, `1min..`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The last part of the run, of this length.
    Last(Duration),
    /// The part between two times, which are counted from the run's start.
    Between(Duration, Duration),
}

impl Span {
    /// The length, if the part is the last part of the run.
    pub fn last(self) -> Option<Duration> {
        match self {
            Span::Last(time) => Some(time),
            Span::Between(..) => None,
        }
    }
}

/// Parses a part of a run: `10s`, or `1.5s..2min`; `..2s` begins at the start and `2s..` ends at the end.
///
/// # Errors
/// If the text is no time, or the second time comes before the first.
pub fn span(text: &str) -> Result<Span, String> {
    let Some((from, to)) = text.split_once("..") else { return time(text).map(Span::Last) };
    let bound = |text: &str, none: Duration| match text.trim() {
        "" => Ok(none),
        "0" => Ok(Duration::ZERO),
        text => time(text),
    };
    // If the end is left out, a time beyond the range of clocks stands for it.
    let (from, to) = (bound(from, Duration::ZERO)?, bound(to, Duration::from_nanos(i64::MAX as u64))?);
    if from < to {
        return Ok(Span::Between(from, to));
    }
    Err(format!("{text}: the second time has to come after the first"))
}

/// A time in microseconds: `100us`, `1ms`; a bare number is microseconds.
///
/// # Errors
/// If the text is no number with a unit of time, or no whole number of microseconds.
pub fn microseconds(text: &str) -> Result<u64, String> {
    whole(text, known("us"))
}

/// A rate per second: `1000`, `1000/s`, `60/min`.
///
/// # Errors
/// If the text is no rate, or the rate is not more than 0.
pub fn per_second(text: &str) -> Result<f64, String> {
    let (number, unit) = parted(text);
    let wrong = || format!("{text:?} is no rate: expected records a second, more than 0");
    let per = match unit.strip_prefix('/') {
        _ if unit.is_empty() => known("s"),
        Some(unit) => {
            Unit::named(unit).filter(|unit| unit.dimension == known("s").dimension).ok_or_else(wrong)?
        }
        None => return Err(wrong()),
    };
    match number.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate * (known("s").factor / per.factor)),
        _ => Err(wrong()),
    }
}

/// A whole number of `unit`, given without a unit or with any unit of the same dimension.
pub(crate) fn whole(text: &str, unit: Unit) -> Result<u64, String> {
    let plain = text.trim().replace('_', "");
    if let Ok(number) = plain.parse() {
        return Ok(number);
    }
    let number = amount(&plain, unit)?;
    // The number is rounded because a value in another unit, such as 0.1 ms, has no exact binary fraction.
    let rounded = number.round();
    if rounded < 0.0 || rounded > (1u64 << 53) as f64 || (number - rounded).abs() > 1e-6 * rounded.max(1.0) {
        return Err(format!("{text} is no whole number here, or too large"));
    }
    Ok(rounded as u64)
}

/// A number of `unit`, given without a unit or with any unit of the same dimension.
fn amount(text: &str, unit: Unit) -> Result<f64, String> {
    let units = if unit.dimension == known("B").dimension {
        SIZES.to_owned()
    } else if unit.dimension == known("B/s").dimension {
        SIZES.replace(", ", "/s, ") + "/s"
    } else {
        TIMES.to_owned()
    };
    let (number, name) = parted(text);
    let written = if name.is_empty() { Some(unit) } else { named(name) };
    let written = written
        .filter(|written| written.dimension == unit.dimension)
        .ok_or_else(|| format!("`{name}` is no unit here: write one of {units}"))?;
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no number with a unit: write one of {units} behind it"))?;
    Ok(number * (written.factor / unit.factor))
}

/// The number and its unit, as separate texts.
fn parted(text: &str) -> (&str, &str) {
    let text = text.trim();
    let digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_');
    let split = text.find(|c: char| !digit(c)).unwrap_or(text.len());
    (text[..split].trim(), text[split..].trim())
}

/// The unit with the given name. Names of sizes may be written in small or capital letters, because bits are
/// not used here.
fn named(name: &str) -> Option<Unit> {
    let (name, per) = name.split_once('/').map_or((name, ""), |(name, per)| (name, per));
    let size = SIZES.split(", ").find(|size| size.eq_ignore_ascii_case(name)).unwrap_or(name);
    if per.is_empty() { Unit::named(size) } else { Unit::parse(&format!("{size}/{per}")) }
}

/// The unit named `name`, if a person may write a setting's value with another unit of the same dimension.
pub(crate) fn convertible(name: &str) -> Option<Unit> {
    Unit::parse(name).filter(|unit| unit.dimension != Dimension::NONE)
}

fn known(name: &str) -> Unit {
    Unit::parse(name).expect("a unit of the table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        let sizes = [("300MB", 300_000_000), ("300mb", 300_000_000), ("64KiB", 65_536), ("64 kib", 65_536)];
        for (text, bytes) in sizes.into_iter().chain([("16384", 16_384), ("1.5kB", 1500), ("65_536", 65_536)])
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        let rate = convertible("B/s").expect("a unit");
        assert_eq!(whole("8MB/s", rate), Ok(8_000_000));
        assert_eq!(whole("8 mib/s", rate), Ok(8 << 20));
        assert_eq!(whole("60kB/min", rate), Ok(1000));
        assert!(
            whole("8MB", rate)
                .is_err_and(|why| why.contains("`MB` is no unit here") && why.contains("KiB/s"))
        );
        let times = [("500ms", 500_000), ("10s", 10_000_000), ("1.5", 1_500_000), ("2min", 120_000_000)];
        for (text, us) in times.into_iter().chain([("5us", 5), ("5µs", 5), ("1h", 3_600_000_000)]) {
            assert_eq!(time(text), Ok(Duration::from_micros(us)), "{text}");
        }
        assert_eq!(microseconds("100"), Ok(100));
        assert_eq!(microseconds("0.1ms"), Ok(100));
        assert_eq!(per_second("60/min"), Ok(1.0));
        assert_eq!(per_second("2.5"), Ok(2.5));
        for wrong in ["", "s", "10MB", "0s", "1e99999", "-1s", "10parsecs"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "MB", "10s", "-1MB", "0.5", "1e30GB", "300 M"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0", "-1", "5/parsec", "5s", "inf"] {
            assert!(per_second(wrong).is_err(), "{wrong}");
        }
        assert!(size("3parsecs").unwrap_err().contains("MiB"));
        assert!(microseconds("1.5us").is_err());
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(count(1_063_640), "1,063,640");
        assert_eq!(count(63), "63");
        assert_eq!([0, 1, 2000].map(|n| counted(n, "record")), ["0 records", "1 record", "2,000 records"]);
    }
}
