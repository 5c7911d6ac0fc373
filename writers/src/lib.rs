//! Generates writers of events for other programs from the description of their kinds (`.kinds`), so that a
//! user's kinds of event are written as fast as the built-in ones. There is a module for each language;
//! [`c`](fn@c) generates code for C and C++.
//!
//! ```
//! let kinds = thalweg_space::kinds::parse("kind shop.order_placed {\n    customer: u64\n    price: f64\n}").unwrap();
//! assert!(thalweg_writers::c(&kinds, "shop").contains("thalweg_emit_shop_order_placed(uint64_t customer, double price)"));
//! assert!(thalweg_writers::java(&kinds, "", "shop").contains("emitShopOrderPlaced(long customer, double price)"));
//! assert!(thalweg_writers::rust(&kinds).contains("pub struct OrderPlaced {"));
//! ```
#![forbid(unsafe_code)]

mod c;
mod java;
mod rust;

pub use c::c;
pub use java::java;
pub use rust::rust;

use thalweg_space::kinds::{DescribedField, Description, What};

/// The kinds of event among the descriptions.
fn events(kinds: &[Description]) -> impl Iterator<Item = &Description> {
    kinds.iter().filter(|kind| kind.what == What::Event)
}

/// The number of words of the fixed part.
fn words(kind: &Description) -> usize {
    let ends = kind.fields.iter().zip(kind.offsets());
    ends.map(|(field, at)| at + field.field_type.bytes()).max().unwrap_or(0).div_ceil(8)
}

/// The fields of a kind that are texts or byte strings.
fn tails(kind: &Description) -> impl Iterator<Item = &DescribedField> {
    kind.fields.iter().filter(|field| field.field_type.is_variable())
}

/// `shop.order_placed` → `shop_order_placed`.
fn snake(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// Where the lengths of a kind's texts lie in the fixed part, in units of 4 bytes.
fn length_places(kind: &Description) -> Vec<usize> {
    let all = kind.fields.iter().zip(kind.offsets());
    all.filter(|(field, _)| field.field_type.is_variable()).map(|(_, at)| at / 4).collect()
}

/// The C or Java expression for one word of the fixed part; `bits` gives the expression for each argument.
/// The lengths of texts are left out, because it is known only later which texts are cut. `None` if the word
/// contains no argument.
fn word_of(kind: &Description, word: usize, bits: fn(&DescribedField) -> String) -> Option<String> {
    let all = kind.fields.iter().zip(kind.offsets());
    let parts: Vec<String> = all
        .filter(|(field, at)| at / 8 == word && !field.field_type.is_variable())
        .map(|(field, at)| match at % 8 {
            0 => bits(field),
            byte => format!("{} << {}", bits(field), 8 * byte),
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(" | "))
}
