//! Keys of data that are no names of labels, encoded as names: each character that a name cannot contain is
//! `_xHEX_`.
//!
//! Names in XML are often encoded in the same way (`_x0020_` for a space); Thalweg leaves leading zeros out.
//! In an encoded name, a `_` before an `x` is written as `_x5F_`, so no two keys have the same encoded name.
//! A key that is already a name is kept, unless it looks like an encoded name.

/// The name of a field for a key that is no name, or that looks like an encoded name.
pub(super) fn name_of(key: &str) -> String {
    if key.is_empty() {
        return "_x_".to_owned();
    }
    let mut name = String::with_capacity(key.len() + 8);
    let mut rest = key.chars();
    let mut is_first = true;
    while let Some(character) = rest.next() {
        let is_kept = match character {
            '_' => !rest.as_str().starts_with('x'),
            '0'..='9' => !is_first,
            other => other.is_ascii_alphabetic(),
        };
        if is_kept {
            name.push(character);
        } else {
            name.push_str(&format!("_x{:X}_", u32::from(character)));
        }
        is_first = false;
    }
    name
}

/// The key that `name` was made from, if it was made from a key that is not a name.
pub(super) fn key_of(name: &str) -> Option<String> {
    if !name.contains("_x") {
        return None;
    }
    if name == "_x_" {
        return Some(String::new());
    }
    let mut key = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(character) = rest.chars().next() {
        match escape(rest) {
            Some((escaped, after)) => {
                key.push(escaped);
                rest = after;
            }
            None => {
                key.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
    }
    // A name that the encoding does not produce stands for itself and not for another key.
    (key != name && name_of(&key) == name).then_some(key)
}

/// The character of an escape at the beginning of a text, and the rest of the text.
fn escape(text: &str) -> Option<(char, &str)> {
    let (digits, after) = text.strip_prefix("_x")?.split_once('_')?;
    let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    Some((character, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_name_comes_from_one_key(key in "(_|x|2|D|-|ä|a|_x2D_|_x5F_){0,8}", other in any::<String>()) {
            for key in [key, other] {
                let name = name_of(&key);
                prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
                if name != key {
                    prop_assert_eq!(key_of(&name), Some(key));
                } else {
                    prop_assert_eq!(key_of(&name), None);
                }
            }
        }
    }
}
