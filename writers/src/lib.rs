//! Writers of events for other programs, from the description of their kinds (`.kinds`): what a user adds to have a kind of event of their
//! own that is written as fast as a built-in one. A module per language; [`c`](fn@c) serves C and C++.
//!
//! ```
//! let kinds = thalweg_space::kinds::parse("kind shop.order_placed {\n    customer: u64\n    price: f64\n}").unwrap();
//! assert!(thalweg_writers::c(&kinds, "shop").contains("thalweg_emit_shop_order_placed(uint64_t customer, double price)"));
//! assert!(thalweg_writers::rust(&kinds).contains("pub struct OrderPlaced {"));
//! ```
#![forbid(unsafe_code)]

mod c;
mod rust;

pub use c::c;
pub use rust::rust;

use thalweg_space::kinds::{DescribedField, Description, What};

/// The kinds of event among the descriptions.
fn events(kinds: &[Description]) -> impl Iterator<Item = &Description> {
    kinds.iter().filter(|kind| kind.what == What::Event)
}

/// Words of the fixed part.
fn words(kind: &Description) -> usize {
    let ends = kind.fields.iter().zip(kind.offsets());
    ends.map(|(field, at)| at + field.field_type.bytes()).max().unwrap_or(0).div_ceil(8)
}

/// The texts and byte strings of a kind.
fn tails(kind: &Description) -> impl Iterator<Item = &DescribedField> {
    kind.fields.iter().filter(|field| field.field_type.is_variable())
}

/// `shop.order_placed` → `shop_order_placed`.
fn snake(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}
