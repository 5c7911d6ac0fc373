//! The boxes of the random networks: the implementations for the runtime, and their meaning for the
//! interpreter.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thalweg_box::Out;
use thalweg_net::Boxes;

/// The declarations of the boxes of the random networks.
pub(crate) const DECLARATIONS: [&str; 9] = [
    "box inc ((a) -> (a))",
    "box swap ((a, b) -> (b, a))",
    "box turn ((a) -> (b))",
    "box sum ((a, b) -> (c))",
    "box twice ((a) -> (a))",
    "box none ((b) -> )",
    "box halve ((a) -> (a) | (c, <k>))",
    "box odd ((a) -> (a))",
    "box rest ((<n>) -> (<n>, <k>))",
];

/// The output of a box (variants from 1), and whether it fails afterwards; `counts`: the number of labels of
/// each of its variants.
pub(crate) fn meaning(name: &str, arguments: &[i64], counts: &[usize]) -> (Vec<(usize, Vec<i64>)>, bool) {
    if name.starts_with("box") {
        return (made_up(arguments, counts), false);
    }
    let (a, b) = (arguments[0], arguments.get(1).copied().unwrap_or(0));
    match name {
        "inc" => (vec![(1, vec![a.wrapping_add(1)])], false),
        "swap" => (vec![(1, vec![a, b])], false),
        "turn" => (vec![(1, vec![a])], false),
        "sum" => (vec![(1, vec![a.wrapping_add(b)])], false),
        "twice" => (vec![(1, vec![a]), (1, vec![a.wrapping_neg()])], false),
        "none" => (Vec::new(), false),
        "halve" if a % 2 == 0 => (vec![(1, vec![a / 2])], false),
        "halve" => (vec![(2, vec![a, a.rem_euclid(3)])], false),
        // Every third record is emitted before the box fails.
        "odd" => (vec![(1, vec![a])], a % 3 == 0),
        // The box generates n, n - 1, … down to 0, at most three values.
        "rest" => ((0..3).filter(|i| a - i >= 0).map(|i| (1, vec![a - i, i])).collect(), false),
        other => unreachable!("no box {other}"),
    }
}

/// The output of a box with a random signature: some of its variants, chosen by its arguments.
fn made_up(arguments: &[i64], counts: &[usize]) -> Vec<(usize, Vec<i64>)> {
    let sum = arguments.iter().fold(0_i64, |sum, argument| sum.wrapping_add(*argument));
    let of_variant = |(variant, &count): (usize, &usize)| {
        let value = |place: usize| sum.wrapping_add((variant + place) as i64).rem_euclid(3);
        (value(1) != 0).then(|| (variant + 1, (0..count).map(value).collect()))
    };
    counts.iter().enumerate().filter_map(of_variant).collect()
}

/// Boxes with random signatures: each with its declaration, the number of its arguments and the lengths of
/// its variants.
pub(crate) fn random_boxes(signatures: &[(String, usize, Vec<usize>)]) -> Boxes {
    fn emit(arguments: &[i64], counts: &[usize], out: &mut Out) {
        linger();
        for (variant, values) in made_up(arguments, counts) {
            match values[..] {
                [] => out.emit_variant(variant as u32, ()),
                [a] => out.emit_variant(variant as u32, (a,)),
                [a, b] => out.emit_variant(variant as u32, (a, b)),
                [a, b, c] => out.emit_variant(variant as u32, (a, b, c)),
                _ => unreachable!("at most three labels"),
            }
        }
    }
    let mut boxes = Boxes::new();
    for (declaration, takes, counts) in signatures {
        let counts = counts.clone();
        let added = match takes {
            0 => boxes.add(declaration, move |out: &mut Out| emit(&[], &counts, out)),
            1 => boxes.add(declaration, move |a: i64, out: &mut Out| emit(&[a], &counts, out)),
            2 => boxes.add(declaration, move |a: i64, b: i64, out: &mut Out| emit(&[a, b], &counts, out)),
            _ => boxes.add(declaration, move |a: i64, b: i64, c: i64, out: &mut Out| {
                emit(&[a, b, c], &counts, out);
            }),
        };
        added.expect("the declaration is right");
    }
    boxes
}

/// Makes some calls of boxes long, so that other workers take tasks from behind them.
fn linger() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    if CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(32) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(150) {
            std::hint::spin_loop();
        }
    }
}

pub(crate) fn boxes() -> &'static Boxes {
    static BOXES: LazyLock<Boxes> = LazyLock::new(make);
    &BOXES
}

fn make() -> Boxes {
    fn emit(name: &str, arguments: &[i64], out: &mut Out) -> Result<(), &'static str> {
        linger();
        let (emitted, failed) = meaning(name, arguments, &[]);
        for (variant, values) in emitted {
            match values[..] {
                [value] => out.emit_variant(variant as u32, (value,)),
                [value, other] => out.emit_variant(variant as u32, (value, other)),
                _ => unreachable!("one or two values"),
            }
        }
        if failed { Err("a third") } else { Ok(()) }
    }
    let mut boxes = Boxes::new();
    for declaration in DECLARATIONS {
        let name = declaration.split_whitespace().nth(1).expect("box NAME");
        let added = match name {
            "rest" => boxes.add(declaration, |n: i64, out: &mut Out| {
                out.generate(meaning("rest", &[n], &[]).0.into_iter().map(|(_, v)| (v[0], v[1])));
            }),
            "swap" | "sum" => {
                boxes.add(declaration, move |a: i64, b: i64, out: &mut Out| emit(name, &[a, b], out))
            }
            _ => boxes.add(declaration, move |a: i64, out: &mut Out| emit(name, &[a], out)),
        };
        added.expect("the declarations are right");
    }
    boxes
}
