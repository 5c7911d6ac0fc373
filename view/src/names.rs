//! Names that are too long for a picture are cut, with a mark that says so: a page stays small, and is drawn fast, whatever a run calls its parts.
//!
//! Each part of a path is cut by itself, so that a net's path still begins the paths of what is in it. The mark has the length and a hash of
//! what was cut: two names that differ do not become one. `thalweg report --json` has every name in full.

use std::borrow::Cow;

use serde::Serialize;

/// Bytes of a part of a name that is left as it is: no file's name is longer.
const PART_MAX: usize = 256;
/// Bytes of a whole text that is left as it is, where it is no report.
const TEXT_MAX: usize = 4096;
/// Of what is cut so many bytes at the begin and at the end are left.
const BEGIN: usize = 128;
const END: usize = 64;

/// The text with every part of a path, and every word, that is too long cut.
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

/// The text cut in its parts; and as a whole if it is too long nevertheless.
fn cut_whole(text: &str) -> Cow<'_, str> {
    let text = cut(text);
    if text.len() <= TEXT_MAX { text } else { Cow::Owned(shortened(&text)) }
}

/// The begin and the end of a text, and between them a mark.
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

/// As JSON, with names cut. It is written as all JSON is and cut then: a formatter of its own would be compiled once more for every type of a
/// page, and make the program half a megabyte larger.
///
/// # Errors
/// The value cannot be written as JSON, which is a mistake of this program.
pub fn json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    Ok(texts_cut(&json)?.unwrap_or(json))
}

/// JSON with its texts cut; none if none is too long.
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
        // Characters stay whole, wherever they begin.
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
