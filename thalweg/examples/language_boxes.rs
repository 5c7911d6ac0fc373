//! The boxes of `docs/language.md`: `cargo build --example language_boxes` makes a library that `thalweg run`
//! loads.

use thalweg_box::{Out, Text, library};

/// Emits a record for each word of a line.
fn words(line: Text, out: &mut Out) {
    line.as_str().split_whitespace().for_each(|word| out.emit((word,)));
}

/// Emits the word and its length.
fn measure(word: Text, out: &mut Out) {
    out.emit((word.as_str(), word.as_str().chars().count() as i64));
}

/// Emits half of an even number as the first kind of result, and an odd number unchanged as the second.
fn halve(x: i64, out: &mut Out) {
    match x % 2 {
        0 => out.emit((x / 2,)),
        _ => out.emit_variant(2, (x,)),
    }
}

/// Emits the sum of two numbers; fails if the sum is too large.
fn add(a: i64, b: i64, out: &mut Out) -> Result<(), String> {
    let sum = a.checked_add(b).ok_or("the sum is too large")?;
    out.emit((sum,));
    Ok(())
}

/// Emits one record; the runtime calls the box once, when the network starts.
fn greet(out: &mut Out) {
    out.emit(("hello, world",));
}

library! {
    "box words ((line) -> (word))" => words,
    "box measure ((word) -> (word, <length>))" => measure,
    "box halve ((x) -> (x) | (odd))" => halve,
    "box add ((a, b) -> (sum))" => add,
    "box greet (-> (line))" => greet,
}
