//! Tests of routing by best match.

use proptest::prelude::*;
use thalweg_net::label::{Label, LabelKind};
use thalweg_net::record::Record;
use thalweg_net::router::{Choice, Router};

use crate::naive::{any_labels, any_map, record, to_record};

fn variants(text: &str) -> Vec<Vec<Label>> {
    let labels = |variant: &str| {
        variant.split(',').filter(|l| !l.is_empty()).map(|l| Label::parse(l).unwrap()).collect()
    };
    text.split('|').map(labels).collect()
}

fn route(branches: &[&str], record: &Record) -> Vec<usize> {
    let mut router = Router::new(branches.iter().map(|text| variants(text)).collect());
    indices(router.choose(record))
}

fn indices(choice: Choice<'_>) -> Vec<usize> {
    match choice {
        Choice::One(branch) => vec![branch],
        Choice::Tie(branches) => branches.to_vec(),
        Choice::None => vec![],
    }
}

#[test]
fn the_branch_with_the_most_matched_labels_is_chosen() {
    let table: &[(&[&str], &str, &[usize])] = &[
        (&["a", "a,b"], r#"{"a": 1}"#, &[0]),
        (&["a", "a,b"], r#"{"a": 1, "b": 1, "c": 1}"#, &[1]),
        (&["a", "b"], r#"{"a": 1, "b": 1}"#, &[0, 1]),
        (&["a", "b"], r#"{"c": 1}"#, &[]),
        // The variant {} accepts every record, and has the score 0.
        (&["", "b"], r#"{"c": 1}"#, &[0]),
        (&["", "b"], r#"{"b": 1}"#, &[1]),
        // The score is that of the largest matching variant of a branch, and not the sum.
        (&["a|b|c", "a,b"], r#"{"a": 1, "b": 1, "c": 1}"#, &[1]),
        (&["a|a,b,c", "a,b"], r#"{"a": 1, "b": 1}"#, &[1]),
        // A field is not the tag of the same name.
        (&["<a>", "a"], r#"{"a": 1}"#, &[1]),
        // Each binding tag of the record must be in the variant.
        (&["a", "<#b>"], r#"{"a": 1, "<#b>": 1}"#, &[1]),
        (&["a,b,c", ""], r#"{"a": 1, "b": 1, "c": 1, "<#b>": 1}"#, &[]),
        (&["a,<#b>", "a"], r#"{"a": 1, "<#b>": 1}"#, &[0]),
        (&["a,<#b>", "a,<#b>,<#c>"], r#"{"a": 1, "<#b>": 1, "<#c>": 1}"#, &[1]),
        // A variant that contains a binding tag matches only records with this tag.
        (&["a,<#b>", "a"], r#"{"a": 1}"#, &[1]),
    ];
    for (branches, text, expected) in table {
        assert_eq!(route(branches, &record(text)), *expected, "{branches:?} {text}");
    }
}

/// The branches that match best, according to the wording of the definition.
fn naive(branches: &[Vec<Vec<Label>>], record: &Record) -> Vec<usize> {
    let labels = record.shape().labels();
    let mut best = (None, vec![]);
    for (i, variants) in branches.iter().enumerate() {
        let mut most = None;
        for variant in variants {
            let has_all = variant.iter().all(|label| labels.contains(label));
            let mut binding = labels.iter().filter(|label| label.kind() == LabelKind::BindingTag);
            if has_all && binding.all(|label| variant.contains(label)) {
                most = most.max(Some(variant.iter().filter(|label| labels.contains(label)).count()));
            }
        }
        match most {
            Some(_) if most > best.0 => best = (most, vec![i]),
            Some(_) if most == best.0 => best.1.push(i),
            _ => {}
        }
    }
    best.1
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn router_and_naive_router_agree(
        branches in prop::collection::vec(prop::collection::vec(any_labels(4), 0..4), 0..6),
        maps in prop::collection::vec(any_map(12), 1..20),
    ) {
        let mut router = Router::new(branches.clone());
        for map in &maps {
            let record = to_record(map);
            prop_assert_eq!(indices(router.choose(&record)), naive(&branches, &record));
        }
    }
}
