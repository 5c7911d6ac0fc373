//! The arguments of options of `thalweg attach`: functions with arguments and values.

use thalweg_attach::{Comparison, Condition};

/// Constants of glibc's `mallopt`, by their names.
const CONSTANTS: [(&str, i64); 8] = [
    ("M_TRIM_THRESHOLD", -1),
    ("M_TOP_PAD", -2),
    ("M_MMAP_THRESHOLD", -3),
    ("M_MMAP_MAX", -4),
    ("M_PERTURB", -6),
    ("M_ARENA_TEST", -7),
    ("M_ARENA_MAX", -8),
    ("M_MXFAST", 1),
];

/// `FUNCTION(VALUE, …)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallText {
    pub(super) function: String,
    pub(super) arguments: Vec<i128>,
}

/// `FUNCTION:ARGUMENT=VALUE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetText {
    pub(super) function: String,
    pub(super) argument: usize,
    pub(super) value: i128,
}

/// `NAME=VALUE` or `FUNCTION=FUNCTION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) left: String,
    pub(super) right: String,
}

/// A number: decimal, hexadecimal (`0x10`), negative, with `k`, `M` or `G` for powers of 1,024, or a constant
/// of `mallopt`.
pub(super) fn value(text: &str) -> Result<i128, String> {
    let text = text.trim();
    if let Some((_, value)) = CONSTANTS.iter().find(|(name, _)| *name == text) {
        return Ok(i128::from(*value));
    }
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (digits, shift) = match digits.chars().last() {
        Some('k') => (&digits[..digits.len() - 1], 10),
        Some('M') => (&digits[..digits.len() - 1], 20),
        Some('G') => (&digits[..digits.len() - 1], 30),
        _ => (digits, 0),
    };
    let number = match digits.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    let number =
        number.map_err(|_| format!("`{text}` is no number, such as 4096, -1, 0x1000 or 64k"))? << shift;
    let fits = -(1 << 63)..1 << 64;
    let number = sign * number;
    if fits.contains(&number) { Ok(number) } else { Err(format!("{text} does not fit into 64 bits")) }
}

/// The bits of a value as a register holds them.
pub(super) fn register(value: i128) -> u64 {
    value as u64
}

pub(super) fn call(text: &str) -> Result<CallText, String> {
    let parts = text.trim().strip_suffix(')').and_then(|text| text.split_once('('));
    let Some((function, arguments)) = parts else {
        return Err(format!("`{text}` is no call, such as 'mallopt(M_ARENA_MAX, 1)'"));
    };
    let arguments = arguments.split(',').filter(|argument| !argument.trim().is_empty());
    Ok(CallText {
        function: function.trim().to_owned(),
        arguments: arguments.map(value).collect::<Result<_, _>>()?,
    })
}

pub(super) fn set(text: &str) -> Result<SetText, String> {
    let wrong = || format!("`{text}` does not say FUNCTION:ARGUMENT=VALUE, such as write:2=4096");
    let (place, number) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (function, argument) = place.rsplit_once(':').ok_or_else(wrong)?;
    let argument = argument.trim().parse().map_err(|_| wrong())?;
    Ok(SetText { function: function.trim().to_owned(), argument, value: value(number)? })
}

pub(super) fn pair(text: &str) -> Result<Pair, String> {
    let (left, right) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`"))?;
    Ok(Pair { left: left.trim().to_owned(), right: right.trim().to_owned() })
}

/// `arg2 > 4096`
pub(super) fn condition(text: &str) -> Result<Condition, String> {
    const COMPARISONS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::Other),
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let wrong = || format!("`{text}` is no condition, such as 'arg2 > 4096'");
    let (sign, is) = COMPARISONS.into_iter().find(|(sign, _)| text.contains(sign)).ok_or_else(wrong)?;
    let (left, right) = text.split_once(sign).ok_or_else(wrong)?;
    let argument = left.trim().strip_prefix("arg").and_then(|number| number.parse().ok());
    let argument = argument
        .filter(|argument| *argument < 6)
        .ok_or_else(|| format!("`{}` is no argument: those in registers are arg0 to arg5", left.trim()))?;
    Ok(Condition { argument, is, value: register(value(right)?).cast_signed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (text, expected) in
            [("12", 12), ("-3", -3), ("0x1F", 31), ("64k", 65536), ("M_ARENA_MAX", -8), (" 7 ", 7)]
        {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        assert!(value("twelve").is_err() && value("99999999999999999999").is_err());
        assert_eq!(register(-1), u64::MAX);
    }

    #[test]
    fn conditions() {
        let expected = Condition { argument: 2, is: Comparison::Greater, value: 4096 };
        assert_eq!(condition("arg2 > 4k"), Ok(expected));
        let expected = Condition { argument: 0, is: Comparison::AtMost, value: -1 };
        assert_eq!(condition("arg0<=-1"), Ok(expected));
        for wrong in ["arg6 > 1", "arg2", "size > 4", "arg1 > many"] {
            assert!(condition(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn calls_sets_and_pairs() {
        let expected = CallText { function: "mallopt".to_owned(), arguments: vec![-8, 1] };
        assert_eq!(call("mallopt(M_ARENA_MAX, 1)"), Ok(expected));
        assert_eq!(call("f()").map(|call| call.arguments), Ok(Vec::new()));
        assert!(call("f(").is_err() && call("f(x)").is_err());
        let expected = SetText { function: "libc.so.6:write".to_owned(), argument: 2, value: 4096 };
        assert_eq!(set("libc.so.6:write:2=4k"), Ok(expected));
        assert!(set("write=2").is_err() && set("write:x=2").is_err());
        assert_eq!(pair("a = b").map(|pair| (pair.left, pair.right)), Ok(("a".to_owned(), "b".to_owned())));
    }
}
