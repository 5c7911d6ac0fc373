//! Measures the cost of records in JSON: of plain records, and of values that only pass through a network.
//!
//! `json_cost [CASE [ROUNDS]]` with CASE plain, nested or copy runs only that case, to count its
//! instructions.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use thalweg_net::json::{Reader, write_record};

const PLAIN: &str = r#"{"a": 12345, "p": "text", "q": 2, "<t>": 77}"#;

/// An order as a web service sends it, some 3 kB.
fn nested() -> String {
    let item = r#"{"sku": "A-1734", "title": "Ein Stuhl aus Holz, geölt", "qty": 2, "price": 129.90, "tags": ["home", "wood", null], "stock": {"here": true, "depots": [12, 7, 0]}}"#;
    format!(
        r#"{{"order": {{"customer": {{"name": "Zoë", "city": "Köln"}}, "items": [{}]}}}}"#,
        vec![item; 18].join(", ")
    )
}

/// Reads and writes the line `rounds` times.
fn pass(line: &[u8], rounds: u64) {
    let mut reader = Reader::default();
    let mut out = Vec::with_capacity(line.len() + 64);
    for _ in 0..rounds {
        out.clear();
        let record = reader.read(black_box(line)).expect("a record");
        write_record(black_box(&record), &mut out);
        black_box(&out);
    }
}

/// Copies the line in and out, as is done to any record with a carried value.
fn copy(line: &[u8], rounds: u64) {
    let mut out = Vec::with_capacity(line.len() + 64);
    for _ in 0..rounds {
        out.clear();
        let value = black_box(line).to_vec();
        out.extend_from_slice(black_box(&value));
        black_box(&out);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next();
    let rounds: u64 = arguments.next().map_or(2_000_000, |text| text.parse().expect("a number"));
    let nested = nested();
    for (name, line, share) in [("plain", PLAIN, 1), ("nested", nested.as_str(), 20), ("copy", &nested, 1)] {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let rounds = rounds / share;
        let begin = Instant::now();
        match name {
            "copy" => copy(line.as_bytes(), rounds),
            _ => pass(line.as_bytes(), rounds),
        }
        let seconds = begin.elapsed().as_secs_f64();
        let (per, speed) = (seconds / rounds as f64, line.len() as f64 * rounds as f64 / seconds);
        println!("{name:8} {:9.1} ns a record of {} B, {:.2} GB/s", per * 1e9, line.len(), speed / 1e9);
    }
}
