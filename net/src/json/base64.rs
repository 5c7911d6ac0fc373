//! Base64: RFC 4648, section 4, with padding.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of each digit; 64 or more for a character that is no digit.
static DIGIT_VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut i = 0;
    while i < DIGITS.len() {
        values[DIGITS[i] as usize] = i as u8;
        i += 1;
    }
    values
};

pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    let (triples, rest) = bytes.as_chunks::<3>();
    for &[a, b, c] in triples {
        out.extend_from_slice(&four_digits(a, b, c));
    }
    match *rest {
        [a] => out.extend_from_slice(&[four_digits(a, 0, 0)[0], four_digits(a, 0, 0)[1], b'=', b'=']),
        [a, b] => {
            let [d, e, f, _] = four_digits(a, b, 0);
            out.extend_from_slice(&[d, e, f, b'=']);
        }
        _ => {}
    }
}

fn four_digits(a: u8, b: u8, c: u8) -> [u8; 4] {
    let bits = u32::from_be_bytes([0, a, b, c]);
    [18, 12, 6, 0].map(|shift| DIGITS[(bits >> shift & 63) as usize])
}

pub(super) fn decode(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    const LENGTH: &str = "the base64 text is cut off: its length must be a multiple of 4 (padded with `=`)";
    const DIGIT: &str = "a character that base64 does not have (A–Z, a–z, 0–9, +, /, padding =)";
    const ENDED: &str = "the base64 text has bits after its end: it was cut off or changed";
    let (fours, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(LENGTH);
    }
    let Some((last, fours)) = fours.split_last() else { return Ok(Vec::new()) };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut push = |four: [u8; 4], count: usize| {
        let values = four.map(|digit| DIGIT_VALUES[digit as usize]);
        let bits = values.iter().fold(0, |bits: u32, &value| bits << 6 | u32::from(value & 63));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..1 + count]);
        let unused = (1 << (8 * (3 - count))) - 1;
        match values.iter().any(|&value| value > 63) {
            true => Err(DIGIT),
            false if bits & unused != 0 => Err(ENDED),
            false => Ok(()),
        }
    };
    for &four in fours {
        push(four, 3)?;
    }
    match *last {
        [a, b, b'=', b'='] => push([a, b, b'A', b'A'], 1)?,
        [a, b, c, b'='] => push([a, b, c, b'A'], 2)?,
        four => push(four, 3)?,
    }
    Ok(bytes)
}
