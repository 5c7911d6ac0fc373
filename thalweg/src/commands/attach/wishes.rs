//! The arguments of options of `thalweg attach`: functions with arguments and values.

use thalweg_attach::{Comparison, Form, Scale};

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

impl std::fmt::Display for CallText {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let arguments: Vec<String> = self.arguments.iter().map(i128::to_string).collect();
        write!(to, "{}({})", self.function, arguments.join(", "))
    }
}

/// `FUNCTION=OTHER` or `FUNCTION=OTHER(VALUE, …)`: the call of a function at each entry of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InsertText {
    pub(super) at: String,
    pub(super) function: String,
    /// The arguments; those of the function that is entered if there are none.
    pub(super) arguments: Option<Vec<i128>>,
}

impl std::fmt::Display for InsertText {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let InsertText { at, function, arguments } = self;
        match arguments.clone() {
            None => write!(to, "{at}={function}"),
            Some(arguments) => write!(to, "{at}={}", CallText { function: function.clone(), arguments }),
        }
    }
}

/// `FUNCTION:ARGUMENT=VALUE`
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SetText {
    pub(super) function: String,
    pub(super) argument: usize,
    pub(super) value: Value,
}

/// `argN > VALUE`
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WhenText {
    pub(super) argument: usize,
    pub(super) is: Comparison,
    pub(super) value: Value,
}

/// `FUNCTION`, or `FUNCTION+OFFSET`: the address to which a call returns, as tables of callers show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FromText {
    pub(super) function: String,
    pub(super) offset: Option<u64>,
}

/// The value of an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Whole(i128),
    Real(f64),
}

impl std::fmt::Display for Value {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Whole(number) => number.fmt(to),
            Value::Real(number) => write!(to, "{number:?}"),
        }
    }
}

impl Value {
    /// The bits that the register of an argument of this form gets. The error says why the argument cannot
    /// have the value.
    pub(super) fn bits(self, form: Form) -> Result<u64, String> {
        let number = match (form, self) {
            (Form::Float(4), value) => return Ok(u64::from((value.real() as f32).to_bits())),
            (Form::Float(_), value) => return Ok(value.real().to_bits()),
            (_, Value::Real(_)) => return Err("it is an integer".to_owned()),
            (_, Value::Whole(number)) => number,
        };
        let bytes = form.bytes();
        let range = match form {
            Form::Bool => 0..2,
            _ => -(1 << (8 * bytes - 1))..1 << (8 * bytes),
        };
        if range.contains(&number) {
            return Ok(number as u64);
        }
        Err(format!("it has {}", if form == Form::Bool { "0 or 1".to_owned() } else { bytes_text(bytes) }))
    }

    /// The number with which an argument of this form is compared, as a condition has it.
    pub(super) fn compared(self, form: Form) -> Result<u64, String> {
        let number = match (form.scale(), self) {
            (Scale::Float, value) => return Ok(value.real().to_bits()),
            (_, Value::Real(_)) => return Err("it is an integer".to_owned()),
            (_, Value::Whole(number)) => number,
        };
        let bits = 8 * form.bytes();
        let range = match form.scale() {
            Scale::Signed => -(1 << (bits - 1))..1 << (bits - 1),
            _ => 0..1 << bits,
        };
        if range.contains(&number) {
            return Ok(number as u64);
        }
        Err(format!("it is always from {} to {}", range.start, range.end - 1))
    }

    fn real(self) -> f64 {
        match self {
            Value::Whole(number) => number as f64,
            Value::Real(number) => number,
        }
    }
}

fn bytes_text(bytes: u64) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
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

/// The value of an argument: a number as of [`value`], or one with a fraction or an exponent.
fn value_of(text: &str) -> Result<Value, String> {
    value(text).map(Value::Whole).or_else(|wrong| match text.trim().parse::<f64>() {
        Ok(real) if text.contains('.') || real.is_finite() && text.contains('e') => Ok(Value::Real(real)),
        _ => Err(wrong),
    })
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
    Ok(SetText { function: function.trim().to_owned(), argument, value: value_of(number)? })
}

pub(super) fn pair(text: &str) -> Result<Pair, String> {
    let (left, right) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`"))?;
    Ok(Pair { left: left.trim().to_owned(), right: right.trim().to_owned() })
}

/// `flush=checkpoint(1)` or `write=note_write`
pub(super) fn insert(text: &str) -> Result<InsertText, String> {
    let Pair { left: at, right } = pair(text)?;
    let called = if right.contains('(') { Some(call(&right)?) } else { None };
    Ok(match called {
        Some(CallText { function, arguments }) => InsertText { at, function, arguments: Some(arguments) },
        None => InsertText { at, function: right, arguments: None },
    })
}

/// `arg2 > 4096`
pub(super) fn condition(text: &str) -> Result<WhenText, String> {
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
    let argument = argument.ok_or_else(|| format!("`{}` is no argument, such as arg0", left.trim()))?;
    Ok(WhenText { argument, is, value: value_of(right)? })
}

/// `parse_line` or `parse_line+0x1f`
pub(super) fn from(text: &str) -> Result<FromText, String> {
    let Some((function, offset)) = text.rsplit_once("+0x") else {
        return Ok(FromText { function: text.trim().to_owned(), offset: None });
    };
    let offset = u64::from_str_radix(offset.trim(), 16);
    let offset = offset.map_err(|_| format!("`{text}` is no FUNCTION+OFFSET, such as parse_line+0x1f"))?;
    Ok(FromText { function: function.trim().to_owned(), offset: Some(offset) })
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
        let when = |argument, is, value| Ok(WhenText { argument, is, value });
        assert_eq!(condition("arg2 > 4k"), when(2, Comparison::Greater, Value::Whole(4096)));
        assert_eq!(condition("arg0<=-1"), when(0, Comparison::AtMost, Value::Whole(-1)));
        assert_eq!(condition("arg7 == -2.5"), when(7, Comparison::Equal, Value::Real(-2.5)));
        for wrong in ["arg > 1", "arg2", "size > 4", "arg1 > many", "arg1 > 1.2.3"] {
            assert!(condition(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_of_types() {
        let whole = Value::Whole;
        assert_eq!(whole(-3).bits(Form::Signed(4)), Ok(0xffff_ffff_ffff_fffd));
        assert_eq!(whole(200).bits(Form::Unsigned(1)), Ok(200));
        assert_eq!(whole(300).bits(Form::Unsigned(1)), Err("it has 1 byte".to_owned()));
        assert_eq!(whole(2).bits(Form::Bool), Err("it has 0 or 1".to_owned()));
        assert_eq!(whole(2).bits(Form::Float(8)), Ok(2_f64.to_bits()));
        assert_eq!(Value::Real(0.5).bits(Form::Float(4)), Ok(u64::from(0.5_f32.to_bits())));
        assert_eq!(Value::Real(0.5).bits(Form::Pointer), Err("it is an integer".to_owned()));
        assert_eq!(whole(u64::MAX.into()).bits(Form::UNKNOWN), Ok(u64::MAX));
        assert_eq!(whole(-3).compared(Form::Signed(4)), Ok(0xffff_ffff_ffff_fffd));
        let never = "it is always from 0 to 255".to_owned();
        assert_eq!(whole(-1).compared(Form::Unsigned(1)), Err(never));
        assert_eq!(Value::Real(0.5).compared(Form::Float(4)), Ok(0.5_f64.to_bits()));
    }

    #[test]
    fn calls_sets_and_pairs() {
        let expected = CallText { function: "mallopt".to_owned(), arguments: vec![-8, 1] };
        assert_eq!(call("mallopt(M_ARENA_MAX, 1)"), Ok(expected));
        assert_eq!(call("f()").map(|call| call.arguments), Ok(Vec::new()));
        assert!(call("f(").is_err() && call("f(x)").is_err());
        let expected =
            SetText { function: "libc.so.6:write".to_owned(), argument: 2, value: Value::Whole(4096) };
        assert_eq!(set("libc.so.6:write:2=4k"), Ok(expected));
        let expected = FromText { function: "lib:a::b".to_owned(), offset: Some(0x1f) };
        assert_eq!(from("lib:a::b+0x1f"), Ok(expected));
        assert!(from("f+0xg").is_err() && from("operator+").is_ok_and(|from| from.offset.is_none()));
        assert!(set("write=2").is_err() && set("write:x=2").is_err());
        let shown = |text| insert(text).map(|insert| insert.to_string());
        assert_eq!(shown("libx.so:flush = f( 1,0x10 )"), Ok("libx.so:flush=f(1, 16)".to_owned()));
        assert_eq!(shown("flush=f()"), Ok("flush=f()".to_owned()));
        assert_eq!(shown("flush = f"), Ok("flush=f".to_owned()));
        assert!(insert("flush").is_err() && insert("flush=f(").is_err());
        assert_eq!(pair("a = b").map(|pair| (pair.left, pair.right)), Ok(("a".to_owned(), "b".to_owned())));
    }
}
