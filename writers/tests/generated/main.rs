//! Checks that the code generated for Rust compiles, and that its kinds are those of the description.

use thalweg_space::kinds::{Description, parse};

#[allow(dead_code, unreachable_pub, reason = "only what the kinds say of themselves is asked, and here alone")]
#[rustfmt::skip]
mod shop;

#[test]
fn the_committed_file_is_what_would_be_written() {
    let kinds = parse(include_str!("shop.kinds")).unwrap();
    assert_eq!(thalweg_writers::rust(&kinds), include_str!("shop.rs"));
}

#[test]
fn kinds_made_from_a_description_are_those_described() {
    let kinds = parse(include_str!("shop.kinds")).unwrap();
    let written = [Description::of::<shop::OrderPlaced<'_>>(), Description::of::<shop::Closed>()];
    for (described, written) in kinds.iter().zip(written) {
        assert_eq!(written.hash(), described.hash());
        assert_eq!(written.offsets(), described.offsets());
        let choices =
            |kind: &Description| kind.fields.iter().map(|field| field.choices.clone()).collect::<Vec<_>>();
        assert_eq!(choices(&written), choices(described));
    }
}
