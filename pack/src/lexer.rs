//! Words of an expression.

use std::ops::Range;

use crate::problem::Problem;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'t> {
    Number(f64),
    /// A name, with dots inside; or a word of the language.
    Name(&'t str),
    /// The text between quotes.
    Text(&'t str),
    /// An operator or bracket.
    Sign(&'static str),
    End,
}

pub(crate) type Spanned<'t> = (Token<'t>, Range<usize>);

/// The signs of the language; longer ones come first, so that they match first.
const SIGNS: [&str; 17] =
    ["==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "(", ")", ",", "!"];

/// The words of `text`, and the end.
pub(crate) fn words(text: &str) -> Result<Vec<Spanned<'_>>, Problem> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        if letter.is_whitespace() {
            at += letter.len_utf8();
            continue;
        }
        let (token, length) = word(text, at, letter)?;
        words.push((token, at..at + length));
        at += length;
    }
    words.push((Token::End, at..at));
    Ok(words)
}

fn word(text: &str, at: usize, letter: char) -> Result<(Token<'_>, usize), Problem> {
    let rest = &text[at..];
    if letter.is_ascii_digit() {
        return number(rest).ok_or_else(|| Problem::new(at..at + 1, "this is no number"));
    }
    if letter.is_alphabetic() || letter == '_' {
        let length = while_is(rest, |c| c.is_alphanumeric() || c == '_' || c == '.');
        return Ok((Token::Name(&rest[..length]), length));
    }
    if letter == '"' {
        return match rest[1..].find('"') {
            Some(end) => Ok((Token::Text(&rest[1..=end]), end + 2)),
            None => Err(Problem::new(at..text.len(), "this text has no end").help("close it with `\"`")),
        };
    }
    match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        Some(sign) => Ok((Token::Sign(sign), sign.len())),
        None if letter == '=' => {
            Err(Problem::new(at..at + 1, "`=` is no comparison here").help("write `==`"))
        }
        None => Err(Problem::new(at..at + letter.len_utf8(), format!("`{letter}` means nothing here"))),
    }
}

fn while_is(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}

/// Digits with `_` between, a fraction, an exponent.
fn number(text: &str) -> Option<(Token<'_>, usize)> {
    let digits = |from: usize| from + while_is(&text[from..], |c| c.is_ascii_digit() || c == '_');
    let mut end = digits(0);
    if text[end..].starts_with('.') && text[end + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        end = digits(end + 1);
    }
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if unsigned.starts_with(|c: char| c.is_ascii_digit()) {
            end = digits(end + 1 + exponent.len() - unsigned.len());
        }
    }
    let value: f64 = text[..end].replace('_', "").parse().ok()?;
    value.is_finite().then_some((Token::Number(value), end))
}
