//! Finds the end of a list or an object, 64 bytes at a time, if the text is surely JSON. The result is that
//! of [`Scan`](super::Scan) with at most half of its instructions. A text that is not surely JSON is left to
//! the scan, which reports the errors.
//!
//! Words of 64 bits say which bytes are quotes, brackets and so on, and each rule of the grammar is an
//! operation on such words, as in simdjson (Langdale and Lemire, Parsing Gigabytes of JSON per Second, 2019).
//! There are three sorts of rules:
//!
//! - which token may follow which: after each token the next one is found by an addition whose carry runs
//!   through the space between them;
//! - in an object `:` and `,` alternate, and in a list there is no `:`: this is checked at once for all `:`
//!   and `,` up to the next bracket;
//! - numbers, `true`, `false`, `null`, escapes and brackets are checked one by one.

use crate::lanes::{self, Lanes, Work};

/// A list or an object that is surely JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nested {
    /// The length of the list's or object's text in bytes.
    pub(super) length: usize,
    /// Whether the text contains no line ends or tabs.
    pub(super) is_on_one_line: bool,
}

/// The list or object that begins with the first byte. `None` if the text is not surely JSON, does not end,
/// or nests more than 64 levels.
#[inline]
pub(super) fn find(bytes: &[u8]) -> Option<Nested> {
    lanes::widest(Find(bytes)).flatten()
}

#[derive(Clone)]
struct Find<'a>(&'a [u8]);

impl Work for Find<'_> {
    type Output = Option<Nested>;

    #[inline(always)]
    fn run<L: Lanes>(self) -> Option<Nested> {
        if !matches!(self.0.first(), Some(b'{' | b'[')) {
            return None;
        }
        let mut finder = Finder { bytes: self.0, ..Finder::default() };
        let (blocks, rest) = self.0.as_chunks::<64>();
        for block in blocks {
            match finder.block::<L>(block) {
                Step::On => {}
                Step::End(nested) => return Some(nested),
                Step::Unsure => return None,
            }
        }
        let mut last = [b' '; 64];
        last[..rest.len()].copy_from_slice(rest);
        match finder.block::<L>(&last) {
            Step::End(nested) => Some(nested),
            Step::On | Step::Unsure => None,
        }
    }
}

enum Step {
    On,
    End(Nested),
    Unsure,
}

/// The state that is carried from one block of 64 bytes to the next.
#[derive(Default)]
struct Finder<'a> {
    bytes: &'a [u8],
    /// The number of bytes before the block.
    at: usize,
    /// All ones if the block begins inside a string, else 0.
    in_text: u64,
    /// Whether a backslash at the end of the previous block escapes the first byte.
    is_escaped: u64,
    /// Whether the previous byte belongs to a number or a word.
    in_scalar: u64,
    /// The kind of the previous token, as four flags of 0 or 1: an opening bracket; a comma or colon; a
    /// string; another value.
    follows: [u64; 4],
    /// Whether the text contains a tab or a line end outside of strings.
    has_lines: bool,
    open: Open,
}

/// The open brackets.
#[derive(Default)]
struct Open {
    depth: u32,
    is_object: bool,
    /// In an object, whether the latest key has its colon.
    has_colon: bool,
    /// For each enclosing list or object, from the inside to the outside, a bit that says whether it is an
    /// object.
    around: u64,
}

impl Finder<'_> {
    #[inline(always)]
    fn block<L: Lanes>(&mut self, block: &[u8; 64]) -> Step {
        let lanes = L::load(block);
        let (mut quotes, backslashes, controls) = (lanes.equal(b'"'), lanes.equal(b'\\'), lanes.below(b' '));
        if self.in_text & !(quotes | backslashes | controls) == u64::MAX && self.is_escaped == 0 {
            self.at += 64;
            return Step::On;
        }
        let mut escaped = 0;
        if backslashes | self.is_escaped != 0 {
            escaped = self.escaped(backslashes);
            quotes &= !escaped;
        }
        let texts = L::prefix_xor(quotes) ^ self.in_text;
        self.in_text = ((texts as i64) >> 63) as u64;
        let begins = quotes & texts;
        let text_ends = quotes & !texts;
        let outside = !(texts | text_ends);

        let mut space = lanes.equal(b' ');
        if controls != 0 {
            space |= lanes.equal(b'\n') | lanes.equal(b'\r') | lanes.equal(b'\t');
        }
        space &= outside;
        let opens = lanes.equal_folded(b'{') & outside;
        let closes = lanes.equal_folded(b'}') & outside;
        let colons = lanes.equal(b':') & outside;
        let commas = lanes.equal(b',') & outside;
        let scalars = outside & !(space | opens | closes | colons | commas);
        let before = scalars << 1 | self.in_scalar;
        self.in_scalar = scalars >> 63;
        let scalar_begins = scalars & !before;
        let scalar_ends = before & !scalars;

        let values = begins | scalar_begins | opens;
        let after_open = next(opens << 1, &mut self.follows[0], opens >> 63, space);
        let separators = colons | commas;
        let after_separator = next(separators << 1, &mut self.follows[1], separators >> 63, space);
        let after_text = next(text_ends << 1, &mut self.follows[2], text_ends >> 63, space);
        let after_value = next(closes << 1 | scalar_ends, &mut self.follows[3], closes >> 63, space);
        let wrong = after_open & !(values | closes)
            | after_separator & !values
            | after_text & !(separators | closes)
            | after_value & !(commas | closes)
            | controls & texts;

        let end = self.open.brackets::<L>(block, (opens, closes), (colons, commas), after_open);
        let Some(end) = end else { return Step::Unsure };
        // The bytes up to the end of the value, if the value ends in this block.
        let inside = u64::MAX >> (63 - end.min(63));
        self.has_lines |= controls & outside & inside != 0;
        if wrong & inside != 0
            || !self.are_escapes(escaped & inside)
            || !self.are_scalars(scalar_begins & inside)
        {
            return Step::Unsure;
        }
        if end < 64 {
            let length = self.at + end as usize + 1;
            return Step::End(Nested { length, is_on_one_line: !self.has_lines });
        }
        self.at += 64;
        Step::On
    }

    /// The bytes of the block that are escaped by a backslash before them.
    #[inline(always)]
    fn escaped(&mut self, backslashes: u64) -> u64 {
        let mut escaped = self.is_escaped;
        let mut left = backslashes & !escaped;
        self.is_escaped = 0;
        while left != 0 {
            let backslash = left & left.wrapping_neg();
            self.is_escaped = backslash >> 63;
            escaped |= backslash << 1;
            left &= !(backslash | backslash << 1);
        }
        escaped
    }

    /// Whether these bytes of the block, each of which follows a backslash, form valid escapes.
    #[inline(always)]
    fn are_escapes(&self, mut escaped: u64) -> bool {
        while escaped != 0 {
            let at = self.at + escaped.trailing_zeros() as usize;
            match self.bytes.get(at) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {}
                Some(b'u') => match self.bytes.get(at + 1..at + 5) {
                    Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => {}
                    _ => return false,
                },
                _ => return false,
            }
            escaped &= escaped - 1;
        }
        true
    }

    /// Whether a number, `true`, `false` or `null` begins at each of these bytes of the block.
    #[inline(always)]
    fn are_scalars(&self, mut begins: u64) -> bool {
        while begins != 0 {
            let at = self.at + begins.trailing_zeros() as usize;
            if !self.bytes.get(at..).is_some_and(is_scalar) {
                return false;
            }
            begins &= begins - 1;
        }
        true
    }
}

/// The beginning of the next token after each of the places `behind`, with white space skipped. `pending`
/// says whether the last token of the previous block has no successor yet; it is set to whether that holds
/// for this block.
#[inline(always)]
fn next(behind: u64, pending: &mut u64, last: u64, space: u64) -> u64 {
    let (sum, runs_on) = (behind | *pending).overflowing_add(space);
    *pending = last | u64::from(runs_on);
    sum & !space
}

impl Open {
    /// Checks the brackets of a block and the tokens between them. Returns the place where the outermost
    /// bracket closes, or 64; `None` if the text is not valid.
    #[inline(always)]
    fn brackets<L: Lanes>(
        &mut self,
        block: &[u8; 64],
        (opens, closes): (u64, u64),
        (mut colons, mut commas): (u64, u64),
        after_open: u64,
    ) -> Option<u32> {
        let mut left = opens | closes;
        while left != 0 {
            let bracket = left & left.wrapping_neg();
            let before = bracket - 1;
            if !self.between::<L>(colons & before, commas & before) {
                return None;
            }
            (colons, commas) = (colons & !before, commas & !before);
            let at = left.trailing_zeros();
            let is_brace = block[at as usize] & 0x20 != 0;
            if opens & bracket != 0 {
                if self.is_object && !self.has_colon || self.depth == 64 {
                    return None;
                }
                self.around = self.around << 1 | u64::from(self.is_object);
                self.depth += 1;
                (self.is_object, self.has_colon) = (is_brace, false);
            } else {
                let is_empty = after_open & bracket != 0;
                if is_brace != self.is_object || is_brace && !self.has_colon && !is_empty {
                    return None;
                }
                self.depth -= 1;
                if self.depth == 0 {
                    return Some(at);
                }
                self.is_object = self.around & 1 != 0;
                self.has_colon = self.is_object;
                self.around >>= 1;
            }
            left &= left - 1;
        }
        self.between::<L>(colons, commas).then_some(64)
    }

    /// Whether these colons and commas, which stand before the next bracket, are allowed.
    #[inline(always)]
    fn between<L: Lanes>(&mut self, colons: u64, commas: u64) -> bool {
        if !self.is_object {
            return colons == 0;
        }
        let both = colons | commas;
        // Colons and commas must alternate: a colon comes first, unless the latest key already has its colon.
        let firsts = L::prefix_xor(both) & both;
        let takes_turns = firsts == if self.has_colon { commas } else { colons };
        self.has_colon ^= both.count_ones() % 2 == 1;
        takes_turns
    }
}

/// Whether the text begins with a number, `true`, `false` or `null` after which no byte of a number or word
/// follows.
#[inline(always)]
fn is_scalar(text: &[u8]) -> bool {
    let length = match text[0] {
        b't' if text.starts_with(b"true") => 4,
        b'f' if text.starts_with(b"false") => 5,
        b'n' if text.starts_with(b"null") => 4,
        b'-' | b'0'..=b'9' => number_length(text),
        _ => 0,
    };
    length > 0 && !text.get(length).is_some_and(|&byte| goes_on(byte))
}

/// Whether a byte may belong to a number or word: it is no space, no bracket, no `,`, `:` or quote.
#[inline(always)]
fn goes_on(byte: u8) -> bool {
    !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b']' | b'}' | b'[' | b'{' | b'"')
}

/// The length of the number at the beginning; 0 if there is none (RFC 8259, section 6).
#[inline(always)]
fn number_length(text: &[u8]) -> usize {
    let digits = |mut at: usize| {
        while text.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let whole = usize::from(text[0] == b'-');
    let mut at = digits(whole);
    if at == whole || text[whole] == b'0' && at > whole + 1 {
        return 0;
    }
    if text.get(at) == Some(&b'.') {
        let fraction = at + 1;
        at = digits(fraction);
        if at == fraction {
            return 0;
        }
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let exponent = at + 1 + usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        at = digits(exponent);
        if at == exponent {
            return 0;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Scan;
    use thalweg_chance::Chance;

    /// The length that the scan finds, for a list or an object, which is all that the fast check accepts.
    fn scanned(text: &[u8]) -> Option<usize> {
        let is_nested = matches!(text.first(), Some(b'{' | b'['));
        Scan::new().push(text).ok().flatten().filter(|_| is_nested)
    }

    #[track_caller]
    fn check(text: &[u8]) {
        let wanted = scanned(text);
        for (found, lanes) in lanes::each(&Find(text)).into_iter().zip(["SSE2", "AVX2", "AVX-512"]) {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(found.map(|nested| nested.length), wanted, "{lanes}: {shown}");
            if let Some(nested) = found {
                let is_on_one_line = !text[..nested.length].iter().any(|&byte| byte < b' ');
                assert_eq!(nested.is_on_one_line, is_on_one_line, "{lanes}: {shown}");
            }
        }
    }

    fn space(chance: &mut Chance, text: &mut Vec<u8>) {
        match chance.below(12) {
            0 => text.extend(vec![b' '; chance.below(140) as usize]),
            1 => text.extend(b"\r\n\t"),
            2..6 => text.push(b' '),
            _ => {}
        }
    }

    fn string(chance: &mut Chance, text: &mut Vec<u8>) {
        text.push(b'"');
        let parts = if chance.one_in(8) { chance.below(90) } else { chance.below(6) };
        for _ in 0..parts {
            let parts = [
                "a", "key", "{", "]", ",", ":", "größe", "\\\\", "\\\"", "\\n", "\\u00e9", "\\/", " ",
                "\u{7f}",
            ];
            text.extend(chance.of(&parts).as_bytes());
        }
        text.push(b'"');
    }

    fn value(chance: &mut Chance, depth: u64, text: &mut Vec<u8>) {
        let count = if chance.one_in(3) { 0 } else { chance.below(6) };
        let kind = if depth == 0 { chance.below(2) } else { chance.below(6) };
        let (open, close) = if kind == 0 { (b'{', b'}') } else { (b'[', b']') };
        match kind {
            0 | 1 if depth < 6 => {
                text.push(open);
                space(chance, text);
                for number in 0..count {
                    if number > 0 {
                        text.push(b',');
                        space(chance, text);
                    }
                    if kind == 0 {
                        string(chance, text);
                        space(chance, text);
                        text.push(b':');
                        space(chance, text);
                    }
                    value(chance, depth + 1, text);
                    space(chance, text);
                }
                text.push(close);
            }
            2 => text.extend(chance.of(&["true", "false", "null"]).as_bytes()),
            3 | 4 => {
                let numbers =
                    ["0", "-0", "7", "12345678901234567890", "-1.50", "1e5", "0.1E-07", "3.25e+300"];
                text.extend(chance.of(&numbers).as_bytes());
            }
            _ => string(chance, text),
        }
    }

    fn damage(chance: &mut Chance, text: &mut Vec<u8>) {
        let at = chance.below(text.len() as u64) as usize;
        let byte = chance.of(b"{}[]:,\"\\ 0129-+.eEtrufalsn\n\x01\x7f\xc3");
        match chance.below(6) {
            0 => text.truncate(at),
            1 => _ = text.remove(at),
            2 => text.insert(at, byte),
            3 => {
                let other = chance.below(text.len() as u64) as usize;
                text.swap(at, other);
            }
            _ => text[at] = byte,
        }
    }

    #[test]
    fn whatever_the_scan_takes_is_found_and_nothing_else() {
        let (mut whole, mut wrong) = (0, 0);
        for seed in 0..60_000 {
            let mut chance = Chance::new(seed);
            let mut text = Vec::new();
            value(&mut chance, 0, &mut text);
            assert_eq!(scanned(&text), Some(text.len()), "{}", String::from_utf8_lossy(&text));
            text.extend(chance.of(&[&b"}"[..], b", \"x\": 1}", b"\n", b"]\"\\", b""]));
            check(&text);
            for _ in 0..=chance.below(3) {
                if !text.is_empty() {
                    damage(&mut chance, &mut text);
                }
            }
            check(&text);
            *(if scanned(&text).is_some() { &mut whole } else { &mut wrong }) += 1;
        }
        // The test is meaningful only if there were many valid and many invalid texts.
        assert!(whole > 10_000 && wrong > 10_000, "{whole} {wrong}");
    }

    #[test]
    fn short_texts_are_all_judged_alike() {
        for seed in 0..300_000 {
            let mut chance = Chance::new(seed);
            let mut text = vec![chance.of(b"{[")];
            // Padding before the text moves it to any position in a block.
            if chance.one_in(2) {
                text.extend(vec![b' '; chance.below(64) as usize]);
            }
            for _ in 0..chance.below(16) {
                let tokens =
                    ["{", "}", "[", "]", ":", ",", "\"a\"", "\"\"", "1", "true", " ", "\"\\", "0", "-", "."];
                text.extend(chance.of(&tokens).as_bytes());
            }
            check(&text);
        }
    }

    #[test]
    fn at_most_64_lists_stand_in_each_other() {
        for (depth, is_found) in [(1, true), (64, true), (65, false), (1024, false)] {
            let text = [vec![b'['; depth], vec![b']'; depth]].concat();
            for found in lanes::each(&Find(&text)) {
                assert_eq!(found.map(|nested| nested.length), is_found.then_some(2 * depth));
            }
        }
        assert_eq!(find(b""), None);
        assert_eq!(find(b"]"), None);
    }
}
