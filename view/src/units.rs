//! Numbers formatted for people: three digits and a unit.

/// A number with three significant digits and the largest of the units that leaves at least 1 before it.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    // The number 999.6 is rounded up to 1 of the next unit, and not written as 1000.
    let fits = |&&(factor, _): &&(f64, &str)| value / factor >= 0.9995;
    let (factor, unit) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    let number = value / factor;
    let decimals = if number >= 99.95 || number == 0.0 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.decimals$} {unit}")
}

/// Formats a duration, such as `12.3 µs`.
pub fn duration(ns: f64) -> String {
    const UNITS: &[(f64, &str)] = &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
    if ns >= 600e9 {
        return age(ns / 1e9);
    }
    scaled(ns.max(0.0), UNITS)
}

/// Formats a long duration, such as `3 h 12 min`.
pub fn age(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Formats a rate, such as `48.2 k/s`.
pub fn rate(per_s: f64) -> String {
    const UNITS: &[(f64, &str)] = &[(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")];
    scaled(per_s, UNITS)
}

/// Formats a size, such as `48.1 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: &[(f64, &str)] = &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")];
    scaled(count as f64, UNITS)
}

/// Formats a share, such as `94.2 %`; a share above zero is never written as `0.0 %`.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.05 { "<0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

/// A ratio: `1.25`.
pub fn ratio(value: f64) -> String {
    if value >= 1000.0 { grouped(value.round() as u64) } else { format!("{value:.2}") }
}

/// A natural number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let check = |ns: f64, want: &str| assert_eq!(duration(ns), want);
        check(0.0, "0 ns");
        check(1.534, "1.53 ns");
        check(12_345.0, "12.3 µs");
        check(999.6, "1.00 µs");
        check(99.96, "100 ns");
        check(1_320_000_000.0, "1.32 s");
        check(4_000_000_000_000.0, "1 h 6 min");
        assert_eq!(bytes(48_100_000), "48.1 MB");
        assert_eq!(rate(48_213.0), "48.2 k/s");
        assert_eq!(rate(0.25), "0.25 /s");
        assert_eq!(share(0.9421), "94.2 %");
        assert_eq!(share(0.0001), "<0.1 %");
        assert_eq!(age(90_000.0), "1 d 1 h");
        assert_eq!([grouped(7), grouped(1_000), grouped(12_345_678)], ["7", "1,000", "12,345,678"]);
    }
}
