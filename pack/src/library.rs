//! The parts of packs about foreign libraries: the quantities kept of calls, and how values are read and set
//! by calling the library's functions.

use std::ops::Range;

use crate::problem::Problem;

/// A call that a pack names: `pvm_setopt(1, $)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub function: String,
    /// The arguments of the call.
    pub arguments: Vec<Given>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// A number.
    Number(i64),
    /// `$`: the value that is set.
    Value,
    /// `'text'`: the address of a text.
    Text(String),
    /// `&name`: the address of a word of eight bytes, zero at first, which the calls of one list share.
    Address(String),
    /// `&$`: the address of a word that holds the value that is set.
    ValueAddress,
    /// `*name`: the value of a word.
    Word(String),
}

/// The number of registers in which arguments are passed.
const ARGUMENTS_MAX: usize = 6;

impl Call {
    /// Reads `FUNCTION(ARGUMENT, …)`.
    ///
    /// # Errors
    /// The mistake and its place.
    pub fn read(text: &str) -> Result<Call, Problem> {
        let whole = 0..text.len();
        let no_call = || Problem::new(whole.clone(), "this is no call").help("write it as `function(1, $)`");
        let open = text.find('(').ok_or_else(no_call)?;
        let function = text[..open].trim();
        if function.is_empty() || !function.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(Problem::new(0..open.max(1).min(text.len()), "a call begins with a function's name")
                .help("write it as `function(1, $)`"));
        }
        let inside = text.trim_end().strip_suffix(')').ok_or_else(no_call)?;
        let inside = inside.get(open + 1..).ok_or_else(no_call)?;
        let mut arguments = Vec::new();
        for span in parts(inside, open + 1) {
            arguments.push(given(&text[span.clone()], span)?);
        }
        if arguments.len() > ARGUMENTS_MAX {
            let message = format!("a call has {ARGUMENTS_MAX} arguments at most");
            return Err(Problem::new(whole, message));
        }
        Ok(Call { function: function.to_owned(), arguments })
    }

    /// The constant numbers among the arguments, each with the index of its argument.
    pub fn numbers(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.arguments.iter().enumerate().filter_map(|(at, given)| match given {
            Given::Number(number) => Some((at, *number)),
            _ => None,
        })
    }

    /// Whether an argument of the call depends on the value that is set.
    pub fn takes_value(&self) -> bool {
        self.arguments.iter().any(|given| matches!(given, Given::Value | Given::ValueAddress))
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let arguments: Vec<String> = self.arguments.iter().map(Given::to_string).collect();
        write!(f, "{}({})", self.function, arguments.join(", "))
    }
}

impl std::fmt::Display for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Given::Number(number) => write!(f, "{number}"),
            Given::Value => f.write_str("$"),
            Given::Text(text) => write!(f, "'{text}'"),
            Given::Address(word) => write!(f, "&{word}"),
            Given::ValueAddress => f.write_str("&$"),
            Given::Word(word) => write!(f, "*{word}"),
        }
    }
}

/// The ranges between commas outside of texts; empty if `inside` is empty.
fn parts(inside: &str, from: usize) -> Vec<Range<usize>> {
    let (mut places, mut begin, mut is_text) = (Vec::new(), 0, false);
    for (at, letter) in inside.char_indices() {
        match letter {
            '\'' => is_text = !is_text,
            ',' if !is_text => {
                places.push(from + begin..from + at);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if !places.is_empty() || !inside.trim().is_empty() {
        places.push(from + begin..from + inside.len());
    }
    places
}

fn given(text: &str, span: Range<usize>) -> Result<Given, Problem> {
    let wrong = |message: String| {
        Problem::new(span.clone(), message)
            .help("an argument is a number, `$`, `&$`, `&word`, `*word` or `'text'`")
    };
    let text = text.trim();
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match text.split_at_checked(1) {
        Some(("$", "")) => Ok(Given::Value),
        Some(("&", "$")) => Ok(Given::ValueAddress),
        Some(("&", word)) if is_name(word) => Ok(Given::Address(word.to_owned())),
        Some(("*", word)) if is_name(word) => Ok(Given::Word(word.to_owned())),
        Some(("'", rest)) if rest.strip_suffix('\'').is_some_and(|inside| !inside.contains('\'')) => {
            Ok(Given::Text(rest[..rest.len() - 1].to_owned()))
        }
        _ => number(text).map(Given::Number).ok_or_else(|| wrong(format!("`{text}` is no argument"))),
    }
}

fn number(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let number = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None if digits.starts_with(|c: char| c.is_ascii_digit()) => digits.parse().ok()?,
        None => return None,
    };
    Some(sign * number)
}

/// A quantity of a probe's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// An argument, by its number from 0: a whole number.
    Argument(usize),
    /// The result of calls: a whole number.
    Result,
    /// The duration of calls.
    Time,
}

impl Kept {
    /// Reads `argument 1`, `argument 1 in kB`, `result` or `time`; also returns the unit after `in`.
    pub(crate) fn read(text: &str) -> Result<(Kept, &str), String> {
        let (what, unit) = text.split_once(" in ").unwrap_or((text, ""));
        let (what, unit) = (what.trim(), unit.trim());
        let number = what.strip_prefix("argument").map(str::trim);
        match (what, number.map(str::parse::<usize>)) {
            (_, Some(Ok(number))) if number < ARGUMENTS_MAX => Ok((Kept::Argument(number), unit)),
            (_, Some(Ok(number))) => {
                Err(format!("argument {number} is in no register: only 0 to 5 can be kept"))
            }
            ("result", _) => Ok((Kept::Result, unit)),
            ("time", _) if unit.is_empty() => Ok((Kept::Time, "ns")),
            ("time", _) => Err("times are kept in ns, and need no unit".to_owned()),
            _ => Err(format!(
                "`{text}` cannot be kept: write `argument 0` to `argument 5`, `result`, each perhaps with a unit (`argument 1 in B`), or `time`"
            )),
        }
    }
}

/// The figures of a kept quantity, in the order of their fields.
pub const FIGURES: [&str; 7] = ["mean", "deviation", "least", "p50", "p99", "most", "sum"];

/// A quantity that is kept of each call.
#[derive(Clone, Debug, PartialEq)]
pub struct Keep {
    /// The name of the quantity.
    pub name: String,
    /// The quantity.
    pub what: Kept,
    /// The number of the field with the quantity's mean; the other [`FIGURES`] have the next numbers.
    pub field: usize,
}

/// A value that is read by calls of the library's own functions.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The reading's name in expressions.
    pub name: String,
    /// The calls that read the value.
    pub get: Get,
    /// The number of the reading's field.
    pub field: usize,
}

/// How a value is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Get {
    /// The calls.
    pub calls: Vec<Call>,
    /// The word that holds the value after the calls; none: the last call returns the value.
    pub word: Option<String>,
    /// The functions at whose entry the calls are made.
    pub at: Vec<String>,
}

/// How a point, a setting that a pack may change, is set in a library.
#[derive(Clone, Debug, PartialEq)]
pub struct Lever {
    /// The means by which the point is set.
    pub by: By,
    /// The number of the field with the current value.
    pub field: usize,
    /// The value that the library uses if the application sets none.
    pub default: Option<f64>,
    /// Whether effects of a value persist after the former value is restored, so that a trial cannot
    /// alternate between the two values.
    pub is_lasting: bool,
}

/// The means by which a point is set.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// Calls of the library.
    Calls {
        /// The calls that set the value.
        set: Vec<Call>,
        /// The calls that restore the former value; if there are none, the calls of `set` restore it.
        back: Vec<Call>,
        /// The calls that read the value.
        get: Get,
    },
    /// An argument that is replaced in calls of a function.
    Argument {
        /// The function.
        function: String,
        /// The argument's number from 0.
        number: usize,
    },
    /// A variable of the library.
    Variable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_and_written() {
        for text in ["pvm_setopt(1, $)", "f()", "g(-3, 'a, b', &h, *h, &$, 16)"] {
            assert_eq!(Call::read(text).map(|call| call.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(Call::read("f(0x10)").map(|call| call.numbers().collect()), Ok(vec![(0, 16)]));
        assert!(Call::read("f($)").is_ok_and(|call| call.takes_value()));
    }

    #[test]
    fn what_is_no_call_is_refused_with_its_place() {
        for text in
            ["", "f", "f(", ")(", "(1)", "f(1", "f(,)", "f(x)", "f('a)", "f(1,2,3,4,5,6,7)", "f(&)", "f(--1)"]
        {
            let problem = Call::read(text).expect_err(text);
            assert!(
                problem.span.end <= text.len() && problem.span.start <= problem.span.end,
                "{text}: {problem:?}"
            );
        }
        assert_eq!(Call::read("f(1, x, 2)").map_err(|problem| problem.span), Err(4..6));
    }

    #[test]
    fn what_is_kept_is_read() {
        assert_eq!(Kept::read("argument 2 in kB"), Ok((Kept::Argument(2), "kB")));
        assert_eq!(Kept::read("time"), Ok((Kept::Time, "ns")));
        assert_eq!(Kept::read("result"), Ok((Kept::Result, "")));
        assert!(
            Kept::read("argument 6").is_err()
                && Kept::read("arg 1").is_err()
                && Kept::read("time in s").is_err()
        );
    }
}
