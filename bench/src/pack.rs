//! Group `pack`: the cost of a condition of a pack, compared with one written in Rust and one of an
//! expression library.

use std::hint::black_box;

use fasteval::{Compiler, Evaler};
use thalweg_pack::{Expression, Schema, Values};

use crate::measure::{Case, Contestant, Goal, repeated};

const ROWS: u64 = 1 << 12;
const SIMPLE: &str = "wait > 1500";
const THREE: &str = "wait > 1500 and full >= 0.2 and room <= 16";

struct Row([f64; 3]);

impl Values for Row {
    #[inline]
    fn number(&self, field: usize) -> f64 {
        self.0[field]
    }
}

/// Rows of which about half fulfil a condition, in an order that a branch predictor cannot learn.
fn rows() -> Vec<Row> {
    let row = |n: u64| {
        let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Row([(n % 3000) as f64, (n / 7 % 100) as f64 / 100.0, (n / 11 % 32) as f64])
    };
    (0..ROWS).map(row).collect()
}

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("condition", SIMPLE, "wait > 1500", |row| row.0[0] > 1500.0, Goal::AtMost(20.0)),
        case(
            "three conditions",
            THREE,
            "wait > 1500 && full >= 0.2 && room <= 16",
            |row| row.0[0] > 1500.0 && row.0[1] >= 0.2 && row.0[2] <= 16.0,
            Goal::None,
        ),
    ]
}

fn case(
    name: &str,
    ours: &'static str,
    rival: &'static str,
    limit: fn(&Row) -> bool,
    goal: Goal,
) -> Case<'static> {
    let mut schema = Schema::default();
    for field in ["wait", "full", "room"] {
        schema.number(field, "").expect("declared once");
    }
    let expression = Expression::condition(ours, &schema).expect("a condition");
    let same = rows();
    let rows = rows();
    let ours = Contestant::nanoseconds("thalweg-pack", "", 1, move |count| {
        Ok(repeated(count, |n| _ = black_box(expression.holds(&rows[(n % ROWS) as usize]))))
    });
    let limit = Contestant::nanoseconds("Rust", "", 1, move |count| {
        Ok(repeated(count, |n| _ = black_box(limit(&same[(n % ROWS) as usize]))))
    });
    Case {
        group: "pack",
        name: name.to_owned(),
        params: Vec::new(),
        unit: "ns",
        ours,
        rivals: vec![fasteval(rival)],
        limit: Some(limit),
        goal,
    }
}

/// The library compiles an expression as well, and looks up names during evaluation.
fn fasteval(text: &'static str) -> Contestant<'static> {
    let mut slab = fasteval::Slab::new();
    let parsed = fasteval::Parser::new().parse(text, &mut slab.ps).expect("an expression");
    let compiled = parsed.from(&slab.ps).compile(&slab.ps, &mut slab.cs);
    let rows = rows();
    Contestant::nanoseconds("fasteval", env!("VERSION_fasteval"), 1, move |count| {
        Ok(repeated(count, |n| {
            let row = &rows[(n % ROWS) as usize];
            let mut names = |name: &str, _: Vec<f64>| match name {
                "wait" => Some(row.0[0]),
                "full" => Some(row.0[1]),
                "room" => Some(row.0[2]),
                _ => None,
            };
            _ = black_box(compiled.eval(&slab, &mut names).is_ok_and(|value| value > 0.5));
        }))
    })
}
