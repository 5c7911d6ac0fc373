//! The boxes of the random networks: as the runtime gets them, and what they mean.

use std::sync::LazyLock;

use thalweg_box::Out;
use thalweg_net::Boxes;

/// Their declarations.
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

/// What a box emits (variants from 1), and whether it fails then.
pub(crate) fn meaning(name: &str, arguments: &[i64]) -> (Vec<(usize, Vec<i64>)>, bool) {
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
        // Every third is emitted, and fails.
        "odd" => (vec![(1, vec![a])], a % 3 == 0),
        // Generated: n, n - 1, … down to 0, at most three.
        "rest" => ((0..3).filter(|i| a - i >= 0).map(|i| (1, vec![a - i, i])).collect(), false),
        other => unreachable!("no box {other}"),
    }
}

pub(crate) fn boxes() -> &'static Boxes {
    static BOXES: LazyLock<Boxes> = LazyLock::new(make);
    &BOXES
}

fn make() -> Boxes {
    fn emit(name: &str, arguments: &[i64], out: &mut Out) -> Result<(), &'static str> {
        let (emitted, failed) = meaning(name, arguments);
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
                out.generate(meaning("rest", &[n]).0.into_iter().map(|(_, v)| (v[0], v[1])));
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
