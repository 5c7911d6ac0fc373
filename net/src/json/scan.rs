//! Finds where a JSON value ends, in pieces as they arrive. The scan checks the whole grammar of RFC 8259 and
//! does not decode values.
//!
//! ```
//! use thalweg_net::json::Scan;
//! let mut scan = Scan::new();
//! assert_eq!(scan.push(b"{\"a\": [1, tr").unwrap(), None);
//! assert_eq!(scan.push(b"ue]} {").unwrap(), Some(4));
//! assert_eq!(Scan::new().push(b"[1 2]").unwrap_err().at, 3);
//! ```

/// The most lists and objects that a value may nest.
pub const DEPTH_MAX: usize = 1024;

/// A scan of one value.
#[derive(Clone, Debug)]
pub struct Scan {
    state: State,
    depth: usize,
    /// For each open list or object, whether it is an object.
    is_object: [u64; DEPTH_MAX / 64],
}

/// An error in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The number of bytes in the scanned piece that precede the error.
    pub at: usize,
    /// What was expected at the error, or what is wrong there.
    pub what: &'static str,
}

/// The state of the scan: what may come next. The `bool` of a text says whether it is a key.
#[derive(Clone, Copy, Debug)]
enum State {
    Value,
    /// A value or the end of the list, right after its opening bracket.
    FirstElement,
    /// A key or the end of the object, right after its opening bracket.
    FirstKey,
    Key,
    Colon,
    /// A comma, or the end of the innermost list or object.
    Comma,
    Text(bool),
    Escape(bool),
    /// How many hexadecimal digits must still follow `\\u`.
    Digits(bool, u8),
    /// The remaining letters of `true`, `false` or `null`.
    Literal(&'static [u8]),
    /// After the sign of a number.
    Sign,
    /// After a zero at the beginning of a number.
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl Default for Scan {
    fn default() -> Scan {
        Scan::new()
    }
}

impl Scan {
    /// A scan that begins before a value, or before the space in front of it.
    pub fn new() -> Scan {
        Scan { state: State::Value, depth: 0, is_object: [0; DEPTH_MAX / 64] }
    }

    /// Scans the next piece. Returns the number of bytes of the piece after which the value ends; `None` if
    /// it does not end in the piece. A number outside of lists and objects ends only when another byte
    /// follows it.
    ///
    /// # Errors
    /// The first error in the text, and its place.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<usize>, Wrong> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.state {
                State::Text(is_key) => {
                    at = plain_end(bytes, at);
                    match bytes.get(at) {
                        Some(b'"') => {}
                        Some(b'\\') => {
                            self.state = State::Escape(is_key);
                            at += 1;
                            continue;
                        }
                        Some(_) => return wrong(at, "a control character in a text must be escaped"),
                        None => break,
                    }
                    at += 1;
                    if is_key {
                        self.state = State::Colon;
                        // The usual case is handled at once: the colon follows directly, then at most one
                        // space, then a value.
                        if bytes.get(at) == Some(&b':') {
                            self.state = State::Value;
                            at += 1 + usize::from(bytes.get(at + 1) == Some(&b' '));
                        }
                        continue;
                    }
                    self.state = State::Comma;
                    if self.depth == 0 {
                        return Ok(Some(at));
                    }
                    continue;
                }
                State::Escape(is_key) => {
                    self.state = match byte {
                        b'u' => State::Digits(is_key, 4),
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => State::Text(is_key),
                        _ => return wrong(at, "an escape that JSON does not have"),
                    };
                }
                State::Digits(is_key, left) => {
                    if !byte.is_ascii_hexdigit() {
                        return wrong(at, "an escape that JSON does not have");
                    }
                    self.state =
                        if left == 1 { State::Text(is_key) } else { State::Digits(is_key, left - 1) };
                }
                State::Literal(rest) => {
                    if byte != rest[0] {
                        return wrong(at, "expected true, false or null");
                    }
                    self.state = if rest.len() > 1 { State::Literal(&rest[1..]) } else { State::Comma };
                    if self.depth == 0 && rest.len() == 1 {
                        return Ok(Some(at + 1));
                    }
                }
                State::Value if byte == b'"' => self.state = State::Text(false),
                State::Integer | State::Fraction | State::ExponentDigits if byte.is_ascii_digit() => {}
                _ if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') && !self.is_in_number() => {}
                State::Comma => match byte {
                    b',' => {
                        let is_in_object = self.is_in_object();
                        self.state = if is_in_object { State::Key } else { State::Value };
                        at += 1 + usize::from(bytes.get(at + 1) == Some(&b' '));
                        if is_in_object && bytes.get(at) == Some(&b'"') {
                            self.state = State::Text(true);
                            at += 1;
                        }
                        continue;
                    }
                    b'}' if self.is_in_object() => {
                        if self.close() {
                            return Ok(Some(at + 1));
                        }
                    }
                    b']' if !self.is_in_object() => {
                        if self.close() {
                            return Ok(Some(at + 1));
                        }
                    }
                    _ if self.is_in_object() => return wrong(at, "expected `,` or `}` after a value"),
                    _ => return wrong(at, "expected `,` or `]` after an element of a list"),
                },
                State::Key | State::FirstKey => match byte {
                    b'"' => self.state = State::Text(true),
                    b'}' if matches!(self.state, State::FirstKey) => {
                        if self.close() {
                            return Ok(Some(at + 1));
                        }
                    }
                    _ => return wrong(at, "expected a key in quotes"),
                },
                State::Colon => match byte {
                    b':' => self.state = State::Value,
                    _ => return wrong(at, "expected `:` after a key"),
                },
                State::FirstElement if byte == b']' => {
                    if self.close() {
                        return Ok(Some(at + 1));
                    }
                }
                State::Value | State::FirstElement => self.begin(byte, at)?,
                _ => {
                    if let Some(next) = self.next_of_number(byte) {
                        self.state = next;
                    } else if !self.is_whole_number() {
                        return wrong(at, "not a number as JSON writes it");
                    } else if self.depth == 0 {
                        return Ok(Some(at));
                    } else {
                        self.state = State::Comma;
                        continue;
                    }
                }
            }
            at += 1;
        }
        Ok(None)
    }

    /// Handles the first byte of a value.
    fn begin(&mut self, byte: u8, at: usize) -> Result<(), Wrong> {
        self.state = match byte {
            b'"' => State::Text(false),
            b'{' | b'[' => {
                if self.depth == DEPTH_MAX {
                    return wrong(at, "more than 1024 lists and objects inside each other");
                }
                let bit = 1 << (self.depth % 64);
                let word = &mut self.is_object[self.depth / 64];
                *word = if byte == b'{' { *word | bit } else { *word & !bit };
                self.depth += 1;
                if byte == b'{' { State::FirstKey } else { State::FirstElement }
            }
            b'-' => State::Sign,
            b'0' => State::Zero,
            b'1'..=b'9' => State::Integer,
            b't' => State::Literal(b"rue"),
            b'f' => State::Literal(b"alse"),
            b'n' => State::Literal(b"ull"),
            _ => return wrong(at, "expected a value"),
        };
        Ok(())
    }

    #[inline]
    fn is_in_object(&self) -> bool {
        let index = self.depth.wrapping_sub(1) % DEPTH_MAX;
        self.is_object[index / 64] >> (index % 64) & 1 == 1
    }

    /// Closes the innermost list or object; returns whether that ended the value.
    #[inline]
    fn close(&mut self) -> bool {
        self.depth -= 1;
        self.state = State::Comma;
        self.depth == 0
    }

    #[inline]
    fn is_in_number(&self) -> bool {
        self.is_whole_number()
            || matches!(self.state, State::Sign | State::Point | State::Exponent | State::ExponentSign)
    }

    #[inline]
    fn is_whole_number(&self) -> bool {
        matches!(self.state, State::Zero | State::Integer | State::Fraction | State::ExponentDigits)
    }

    /// The state after this byte, if the byte continues the number.
    #[inline]
    fn next_of_number(&self, byte: u8) -> Option<State> {
        Some(match (self.state, byte) {
            (State::Sign, b'0') => State::Zero,
            (State::Sign | State::Integer, b'0'..=b'9') => State::Integer,
            (State::Zero | State::Integer, b'.') => State::Point,
            (State::Point | State::Fraction, b'0'..=b'9') => State::Fraction,
            (State::Zero | State::Integer | State::Fraction, b'e' | b'E') => State::Exponent,
            (State::Exponent, b'+' | b'-') => State::ExponentSign,
            (State::Exponent | State::ExponentSign | State::ExponentDigits, b'0'..=b'9') => {
                State::ExponentDigits
            }
            _ => return None,
        })
    }
}

fn wrong<T>(at: usize, what: &'static str) -> Result<T, Wrong> {
    Err(Wrong { at, what })
}

/// The place of the first byte from `at` on that is special in a text: a quote, a backslash, a control
/// character.
#[inline]
pub(super) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // The highest bit of each byte is set if the byte is 0 (or follows a byte that is 0).
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    while let Some(eight) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found = zeros(word ^ (ONES * 0x22)) | zeros(word ^ (ONES * 0x5c)) | controls;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or(&[]);
    at + rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\').unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn what_passes_is_what_is_json(text in "[\\[\\]{},:\"a1-tn0.e\\\\ u]{0,14}", cut in 0..14_usize) {
            // The text is put into a list and a space is appended, so that the scan finds the end of the
            // value.
            let framed = format!("[{text}] ");
            let cut = cut.min(framed.len());
            let mut scan = Scan::new();
            let (first, second) = framed.as_bytes().split_at(cut);
            let passed = match scan.push(first) {
                Ok(None) => scan.push(second).map(|end| end.map(|end| end + cut)),
                other => other,
            };
            let mut values = serde_json::Deserializer::from_str(&framed).into_iter::<serde_json::Value>();
            match values.next() {
                Some(Ok(_)) => prop_assert_eq!(passed, Ok(Some(values.byte_offset()))),
                Some(Err(error)) if error.to_string().contains("out of range") => {}
                _ => prop_assert!(!matches!(passed, Ok(Some(_))), "{framed}"),
            }
        }

        #[test]
        fn plain_bytes_are_passed_over(text in "[a-zé\"\\\\\\x00-\\x1f\u{7f}\u{80}]{0,40}", at in 0..10_usize) {
            let bytes = text.as_bytes();
            let is_end = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            let at = at.min(bytes.len());
            let expected = bytes[at..].iter().position(is_end).map_or(bytes.len(), |end| at + end);
            prop_assert_eq!(plain_end(bytes, at), expected);
        }
    }

    #[test]
    fn depth_has_a_limit() {
        assert_eq!(Scan::new().push(&[b'['; 1024]), Ok(None));
        assert_eq!(Scan::new().push(&[b'['; 1025]).unwrap_err().at, 1024);
    }
}
