//! Cuts names that are too long for a picture, and marks the cut, so that a page stays small and is drawn
//! fast whatever the names of a run are.
//!
//! Each part of a path is cut separately, so a net's path remains the prefix of its components' paths. The
//! mark contains the length and a hash of the cut part, so different names stay different. `thalweg report
//! --json` contains every name in full.

use std::borrow::Cow;

use serde::Serialize;

/// The largest length in bytes of a part of a name that is not cut; it is larger than the names of files can
/// be.
const PART_MAX: usize = 256;
/// The largest length in bytes of a text that is not cut, unless the text is a report.
const TEXT_MAX: usize = 4096;
/// The number of bytes kept at the start of a cut part; [`END`] is the number kept at its end.
const BEGIN: usize = 128;
const END: usize = 64;

/// The text, in which each part of a path and each word that is too long is cut.
pub fn cut(text: &str) -> Cow<'_, str> {
    let is_end = |c: char| c == '/' || c.is_whitespace();
    if text.len() <= PART_MAX || text.split(is_end).all(|part| part.len() <= PART_MAX) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    for part in text.split_inclusive(is_end) {
        let word = part.trim_end_matches(is_end);
        match word.len() <= PART_MAX {
            true => out.push_str(part),
            false => {
                out.push_str(&shortened(word));
                out.push_str(&part[word.len()..]);
            }
        }
    }
    Cow::Owned(out)
}

/// The text with its parts cut, and then cut as a whole if it is still too long.
fn cut_whole(text: &str) -> Cow<'_, str> {
    let text = cut(text);
    if text.len() <= TEXT_MAX { text } else { Cow::Owned(shortened(&text)) }
}

/// The start and the end of a text, with a mark between them.
fn shortened(text: &str) -> String {
    let mut begin = BEGIN;
    while !text.is_char_boundary(begin) {
        begin -= 1;
    }
    let mut end = text.len() - END;
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{}…(cut·{}·bytes·#{hash:08x})…{}", &text[..begin], text.len(), &text[end..])
}

/// The value as JSON, with names cut. The JSON is written first and its names are cut afterwards, because a
/// separate formatter that cuts names would be compiled again for every type of a page and make the program
/// half a megabyte larger.
///
/// # Errors
/// Fails when the value cannot be encoded as JSON, which is a bug.
pub fn json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    Ok(texts_cut(&json)?.unwrap_or(json))
}

/// The JSON with its long texts cut; `None` if no text is too long.
fn texts_cut(json: &str) -> Result<Option<String>, serde_json::Error> {
    let (mut out, mut done, mut at) = (String::new(), 0, 0);
    let bytes = json.as_bytes();
    while let Some(begin) = json[at..].find('"').map(|place| at + place) {
        let mut end = begin + 1;
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let end = (end + 1).min(bytes.len());
        at = end;
        if end - begin <= PART_MAX {
            continue;
        }
        let text: String = serde_json::from_str(&json[begin..end])?;
        if let Cow::Owned(cut) = cut_whole(&text) {
            out.push_str(&json[done..begin]);
            out.push_str(&serde_json::to_string(&cut)?);
            done = end;
        }
    }
    Ok((done > 0).then(|| out + &json[done..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_stays() {
        let long = ["des/star/round", "a sentence of words. ", "/tmp/x\n"].concat().repeat(40);
        for text in ["", "des/star/round", "ü\u{0}\"\\\n", &"x".repeat(PART_MAX), &long] {
            assert_eq!(cut(text), text);
            assert_eq!(json(&text).unwrap(), serde_json::to_string(text).unwrap());
        }
    }

    #[test]
    fn a_long_name_is_cut_in_each_part_of_its_path_and_stays_another_name() {
        let name = |odd: char| format!("{}{odd}{}", "x".repeat(1 << 19), "y".repeat(1 << 19));
        let (one, other) = (name('1'), name('2'));
        assert!(
            cut(&one) != cut(&other)
                && cut(&one).len() < PART_MAX
                && cut(&one).contains("…(cut·1048577·bytes·#")
        );
        let inside = format!("{one}/inner[3] and more");
        assert_eq!(cut(&inside), format!("{}/inner[3] and more", cut(&one)));
        assert_eq!(cut(&cut(&inside)), cut(&inside), "what was cut is short");
        // No character is cut in the middle.
        for before in 0..4 {
            let wide = format!("{}{}", "a".repeat(before), "€".repeat(1000));
            assert!(cut(&wide).chars().filter(|&c| c == '€').count() > 40);
        }
    }

    #[test]
    fn texts_of_any_value_are_cut() {
        let long = "x".repeat(1 << 20);
        let many = "word ".repeat(1 << 10);
        let value =
            serde_json::json!({ &*long: [1.5, null, { "name": format!("a\"{long}\n") }], "many": many });
        let written = json(&value).unwrap();
        assert!(written.len() < 2000, "{}", written.len());
        let read: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(read[&*cut(&long)][0], 1.5);
        assert!(read["many"].as_str().unwrap().contains("…(cut·5120·bytes·#"));
    }
}
