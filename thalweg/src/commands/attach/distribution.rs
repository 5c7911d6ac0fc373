//! The distributions of arguments and results, as tables and as JSON, with their numbers as the type has them.

use serde_json::{Value, json};
use thalweg_attach::{Form, Histogram, Number};

use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, number, text as column};
use crate::units::count;

/// Prints a distribution. `what` names the argument or the result, and `form` is its form, if its type is
/// known.
pub(super) fn print(
    what: &str,
    form: Option<Form>,
    values: &Histogram,
    output: &mut Output,
) -> Result<(), Failure> {
    output.line(&format!(
        "\n{what}{}: {}",
        if form.is_some() { "" } else { UNKNOWN },
        summary(form, values)
    ))?;
    let form = form.unwrap_or(Form::UNKNOWN);
    let rows = joined(form, values);
    let most = rows.iter().map(|(_, _, calls)| *calls).max().unwrap_or(0).max(values.not_numbers()).max(1);
    let mut table = Table::new(&[number("FROM", 0), number("TO", 0), number("CALLS", 0), column("")]);
    let mut row = |first: String, last: String, calls: u64| {
        let bar = "#".repeat((calls * 40).div_ceil(most) as usize);
        table.row(vec![first, last, count(calls), bar], false);
    };
    for (first, last, calls) in rows {
        let (first, last) = bounds(form, first, last);
        row(first, last, calls);
    }
    if values.not_numbers() > 0 {
        row("NaN".to_owned(), "NaN".to_owned(), values.not_numbers());
    }
    output.table(&table)
}

/// What is said of a value of unknown type.
const UNKNOWN: &str = ", of unknown type, read without a sign";

/// A distribution as JSON.
pub(super) fn object(of: Option<(&str, Form)>, values: &Histogram) -> Value {
    let form = of.map_or(Form::UNKNOWN, |(_, form)| form);
    let one = |number| value(form, number);
    let bucket = |(first, last, calls)| json!([one(within(form, first)), one(within(form, last)), calls]);
    let buckets: Vec<Value> = values.numbers().map(bucket).collect();
    let extremes = values.extremes();
    json!({
        "type": of.map(|(name, _)| name), "count": values.count(),
        "mean": values.mean().filter(|_| has_mean(form)).map(|mean| value(form, Number::Float(mean))),
        "least": extremes.map(|(least, _)| one(least)), "greatest": extremes.map(|(_, greatest)| one(greatest)),
        "not_numbers": values.not_numbers(), "buckets": buckets,
    })
}

fn has_mean(form: Form) -> bool {
    !matches!(form, Form::Pointer | Form::Text | Form::ByAddress)
}

/// The mean and the extremes.
fn summary(form: Option<Form>, values: &Histogram) -> String {
    let shown = form.unwrap_or(Form::UNKNOWN);
    let mut parts = Vec::new();
    if let Some(mean) = values.mean().filter(|_| has_mean(shown)) {
        let about = if values.may_overflow() { "about " } else { "" };
        let is_plain = mean == 0.0 || (0.01..1e15).contains(&mean.abs());
        parts.push(match (shown, is_plain) {
            (Form::Float(_), true) => format!("mean {mean:.4}"),
            (_, true) => format!("mean {about}{mean:.1}"),
            (_, false) => format!("mean {about}{mean:.3e}"),
        });
    }
    if let Some((least, greatest)) = values.extremes() {
        parts.push(format!("least {}", text(shown, least)));
        parts.push(format!("greatest {}", text(shown, greatest)));
    }
    parts.join(", ")
}

fn value(form: Form, number: Number) -> Value {
    match (form, number) {
        (Form::Bool, Number::Unsigned(number)) => json!(number != 0),
        (Form::Pointer | Form::Text | Form::ByAddress, Number::Unsigned(number)) => {
            json!(format!("{number:#x}"))
        }
        (_, Number::Unsigned(number)) => json!(number),
        (_, Number::Signed(number)) => json!(number),
        (_, Number::Float(number)) if number.is_finite() => json!(number),
        // JSON has no such numbers.
        (_, Number::Float(number)) => json!(number.to_string()),
    }
}

/// A value as text for people.
pub(super) fn text(form: Form, number: Number) -> String {
    match (form, number) {
        (Form::Bool, Number::Unsigned(number @ 0..2)) => (number == 1).to_string(),
        (Form::Character, Number::Signed(number)) => match u8::try_from(number) {
            Ok(character @ b' '..=b'~') => format!("'{}'", char::from(character).escape_default()),
            _ => number.to_string(),
        },
        (Form::Pointer | Form::Text | Form::ByAddress, Number::Unsigned(number)) => format!("{number:#x}"),
        (_, Number::Unsigned(number)) => number.to_string(),
        (_, Number::Signed(number)) => number.to_string(),
        (Form::Float(4), Number::Float(number)) => format!("{:?}", number as f32),
        (_, Number::Float(number)) => format!("{number:?}"),
    }
}

/// The bounds of a bucket as text. A bound of a bucket of floating-point numbers is a power of two, which
/// belongs to the bucket or, with `<` or `>`, does not.
fn bounds(form: Form, first: Number, last: Number) -> (String, String) {
    let (Number::Float(low), Number::Float(high)) = (first, last) else {
        return (text(form, first), text(form, last));
    };
    let outside = |sign: &str, number: f64| format!("{sign}{}", power(number));
    match (low, high) {
        (0.0, _) => ("0".to_owned(), "0".to_owned()),
        _ if low > 0.0 => {
            let first = if low < f64::MIN_POSITIVE { ">0".to_owned() } else { power(low) };
            (first, if high.is_infinite() { "inf".to_owned() } else { outside("<", high.next_up()) })
        }
        _ => {
            let last = if high > -f64::MIN_POSITIVE { "<0".to_owned() } else { power(high) };
            (if low.is_infinite() { "-inf".to_owned() } else { outside(">", low.next_down()) }, last)
        }
    }
}

/// A power of two, exactly.
fn power(number: f64) -> String {
    let exponent = number.abs().log2().round();
    if (-10.0..20.0).contains(&exponent) {
        return number.to_string();
    }
    format!("{}2^{exponent}", if number < 0.0 { "-" } else { "" })
}

/// The buckets of a histogram, joined so that each covers a range between powers of two. Characters have
/// finer buckets.
fn joined(form: Form, values: &Histogram) -> Vec<(Number, Number, u64)> {
    let mut joined: Vec<(Number, Number, u64)> = Vec::new();
    for (first, last, calls) in values.numbers() {
        match joined.last_mut() {
            Some(before) if form != Form::Character && is_same_power(before.0, last) => {
                before.1 = last;
                before.2 += calls;
            }
            _ => joined.push((first, last, calls)),
        }
    }
    let widened = joined.into_iter().map(|(first, last, calls)| widened(first, last, calls));
    widened.map(|(first, last, calls)| (within(form, first), within(form, last), calls)).collect()
}

/// A bound of a bucket, or the nearest number that the type has.
fn within(form: Form, bound: Number) -> Number {
    let bits = match form {
        Form::Signed(bytes @ 1..8) | Form::Unsigned(bytes @ 1..8) => 8 * bytes as u32,
        Form::Character => 8,
        Form::Bool => 1,
        _ => return bound,
    };
    match bound {
        Number::Unsigned(number) => Number::Unsigned(number.min((1 << bits) - 1)),
        Number::Signed(number) => {
            let half = 1_i64 << (bits - 1);
            Number::Signed(number.clamp(-half, half - 1))
        }
        Number::Float(_) => bound,
    }
}

/// Whether two numbers have the same sign, and lie between the same powers of two.
fn is_same_power(one: Number, other: Number) -> bool {
    let log = |number: u64| number.checked_ilog2();
    match (one, other) {
        (Number::Unsigned(one), Number::Unsigned(other)) => one > 0 && log(one) == log(other),
        (Number::Signed(one), Number::Signed(other)) => {
            one != 0 && one.signum() == other.signum() && log(one.unsigned_abs()) == log(other.unsigned_abs())
        }
        (Number::Float(one), Number::Float(other)) => exponent(one) == exponent(other),
        _ => false,
    }
}

/// The sign and the exponent of a floating-point number.
fn exponent(number: f64) -> u64 {
    number.to_bits() >> 52
}

/// A joined bucket of floating-point numbers, widened to the whole range between the powers of two.
fn widened(first: Number, last: Number, calls: u64) -> (Number, Number, u64) {
    const REST: u64 = (1 << 52) - 1;
    let (Number::Float(low), Number::Float(high)) = (first, last) else { return (first, last, calls) };
    let whole =
        |number: f64| (f64::from_bits(number.to_bits() & !REST), f64::from_bits(number.to_bits() | REST));
    let is_narrow = low != 0.0 && low.is_finite() && high.is_finite() && exponent(low) == exponent(high);
    if !is_narrow {
        return (first, last, calls);
    }
    let (near, far) = whole(low);
    let (low, high) = if low > 0.0 { (near, far) } else { (far, near) };
    (Number::Float(low), Number::Float(high), calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_form_of_their_types() {
        for (form, number, expected) in [
            (Form::Signed(4), Number::Signed(-3), "-3"),
            (Form::Bool, Number::Unsigned(1), "true"),
            (Form::Character, Number::Signed(97), "'a'"),
            (Form::Character, Number::Signed(-1), "-1"),
            (Form::Pointer, Number::Unsigned(4096), "0x1000"),
            (Form::Float(8), Number::Float(1e300), "1e300"),
            (Form::Float(4), Number::Float(f64::from(0.1_f32)), "0.1"),
        ] {
            assert_eq!(text(form, number), expected);
        }
        assert_eq!(value(Form::Float(8), Number::Float(f64::NEG_INFINITY)), json!("-inf"));
    }

    #[test]
    fn bounds_of_floating_point_numbers_are_powers_of_two() {
        let form = Form::Float(8);
        for (low, high, expected) in [
            (1.0, 1.25_f64.next_down(), ("1", "<2")),
            ((-1.5_f64).next_up(), -1.25, (">-2", "-1")),
            (0.0, 0.0, ("0", "0")),
            (f64::from_bits(1), 2_f64.powi(-128).next_down(), (">0", "<2^-128")),
            (-(2_f64.powi(-128).next_down()), -f64::from_bits(1), (">-2^-128", "<0")),
            (2_f64.powi(128), f64::INFINITY, ("2^128", "inf")),
            (2_f64.powi(40), (1.25 * 2_f64.powi(40)).next_down(), ("2^40", "<2^41")),
        ] {
            let (first, last, _) = widened(Number::Float(low), Number::Float(high), 1);
            assert_eq!(bounds(form, first, last), (expected.0.to_owned(), expected.1.to_owned()));
        }
    }
}
