//! Units: what a number measures, and how large its unit is.
//!
//! Times are computed in nanoseconds, sizes in bytes. All other quantities, such as messages or shares, are
//! plain numbers; a rate is a plain number per time.

use std::fmt;

/// What a number measures: powers of time and of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dimension {
    /// Power of time.
    pub time: i8,
    /// Power of bytes.
    pub bytes: i8,
}

impl Dimension {
    /// A plain number.
    pub const NONE: Dimension = Dimension { time: 0, bytes: 0 };
    const TIME: Dimension = Dimension { time: 1, bytes: 0 };
    const BYTES: Dimension = Dimension { time: 0, bytes: 1 };

    pub(crate) fn times(self, other: Dimension) -> Option<Dimension> {
        let (time, bytes) = (self.time.checked_add(other.time)?, self.bytes.checked_add(other.bytes)?);
        Some(Dimension { time, bytes })
    }

    pub(crate) fn inverse(self) -> Option<Dimension> {
        Some(Dimension { time: self.time.checked_neg()?, bytes: self.bytes.checked_neg()? })
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = match (self.time, self.bytes) {
            (0, 0) => "a plain number",
            (1, 0) => "a time",
            (0, 1) => "a size",
            (-1, 0) => "a rate",
            (-1, 1) => "a size per time",
            (1, -1) => "a time per size",
            (time, bytes) => return write!(f, "time^{time} size^{bytes}"),
        };
        f.write_str(known)
    }
}

/// A unit: what it measures, and how many nanoseconds or bytes it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// What it measures.
    pub dimension: Dimension,
    /// The unit's size in the units of computation (nanoseconds, bytes, 1).
    pub factor: f64,
}

const UNITS: &[(&str, Dimension, f64)] = &[
    ("ns", Dimension::TIME, 1.0),
    ("us", Dimension::TIME, 1e3),
    ("µs", Dimension::TIME, 1e3),
    ("ms", Dimension::TIME, 1e6),
    ("s", Dimension::TIME, 1e9),
    ("min", Dimension::TIME, 60e9),
    ("h", Dimension::TIME, 3600e9),
    ("B", Dimension::BYTES, 1.0),
    ("kB", Dimension::BYTES, 1e3),
    ("MB", Dimension::BYTES, 1e6),
    ("GB", Dimension::BYTES, 1e9),
    ("KiB", Dimension::BYTES, 1024.0),
    ("MiB", Dimension::BYTES, 1_048_576.0),
    ("GiB", Dimension::BYTES, 1_073_741_824.0),
    ("%", Dimension::NONE, 0.01),
];

/// Units of plain numbers: things that are counted, and shares.
const PLAIN: &[&str] = &[
    "",
    "1",
    "bool",
    "bytes/byte",
    "core",
    "cores",
    "dispatches",
    "event",
    "events",
    "message",
    "messages",
    "number",
    "paths",
    "processors",
    "record",
    "records",
    "replicas",
    "share",
    "streams",
    "task",
    "tasks",
    "times",
    "worker",
    "workers",
];

impl Unit {
    pub(crate) const PLAIN: Unit = Unit { dimension: Dimension::NONE, factor: 1.0 };

    /// A unit of time, of size, or `%`, which may follow a number in an expression.
    pub fn named(name: &str) -> Option<Unit> {
        let &(_, dimension, factor) = UNITS.iter().find(|(known, ..)| *known == name)?;
        Some(Unit { dimension, factor })
    }

    /// The unit that a description names: one of [`Unit::named`], a word for things that are counted, or a
    /// quotient of two of these.
    pub fn parse(text: &str) -> Option<Unit> {
        let simple = |text: &str| match Unit::named(text) {
            None if PLAIN.contains(&text) => Some(Unit::PLAIN),
            None if text == "bytes" => Unit::named("B"),
            found => found,
        };
        let text = text.trim();
        match text.split_once('/') {
            None => simple(text),
            Some((over, under)) => simple(over.trim())?.per(simple(under.trim())?),
        }
    }

    pub(crate) fn per(self, under: Unit) -> Option<Unit> {
        let dimension = self.dimension.times(under.dimension.inverse()?)?;
        Some(Unit { dimension, factor: self.factor / under.factor })
    }

    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        UNITS.iter().map(|&(name, ..)| name).chain(PLAIN.iter().copied().filter(|name| name.len() > 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        let check = |text: &str, time: i8, bytes: i8, factor: f64| {
            let unit = Unit::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((unit.dimension, unit.factor), (Dimension { time, bytes }, factor), "{text}");
        };
        check("ms", 1, 0, 1e6);
        check("messages", 0, 0, 1.0);
        check("messages/s", -1, 0, 1e-9);
        check("/s", -1, 0, 1e-9);
        check("MB/s", -1, 1, 1e-3);
        check("%", 0, 0, 0.01);
        check("bytes", 0, 1, 1.0);
        assert_eq!(Unit::parse("parsecs"), None);
    }
}
