//! Packs of the repository, for libraries and for networks, that are damaged: lines and words are changed,
//! doubled, left out and exchanged, also between packs. Whatever comes, a pack is read or refused. The
//! places of the mistakes in a refused pack lie within its text; a pack that was read has values for every row.
//!
//! `FUZZ_SECONDS` sets the time of the ignored test, and `SEED` its first case.

use std::time::{Duration, Instant};

use thalweg_chance::{Chance, number_of};
use thalweg_pack::{Call, Expression, Fits, Problem, Schema, Values};
use thalweg_tune::Rules;
use thalweg_tune::library::{read, tried};

const PACKS: [&str; 7] = [
    include_str!("../packs/language.toml"),
    include_str!("../packs/libc.toml"),
    include_str!("../packs/malloc.toml"),
    include_str!("../packs/mpich.toml"),
    include_str!("../packs/network.toml"),
    include_str!("../packs/pvm.toml"),
    include_str!("packs/farm.toml"),
];
/// Words that a damaged line gets.
const WORDS: [&str; 30] = [
    "0",
    "-1",
    "1e999",
    "nan",
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ",",
    ".",
    "=",
    "$",
    "&$",
    "*",
    "%",
    "true",
    "if",
    "unless",
    "min(",
    "argument 0",
    "9223372036854775808",
    "\u{e4}",
    "\u{10ffff}",
    "\\u0000",
    "#",
    "\n[[",
];
/// The longest time that one case may take.
const CASE_MAX: Duration = Duration::from_secs(20);

/// Values that are known, unknown, and out of any range.
struct Row(u64);

impl Values for Row {
    fn number(&self, field: usize) -> f64 {
        let all = [0.0, 1.5, -1.0, f64::NAN, f64::INFINITY, 1e300, 0.25];
        all[(self.0 as usize).wrapping_add(field) % all.len()]
    }

    fn text(&self, field: usize) -> Option<&str> {
        field.is_multiple_of(2).then_some("des/star/round")
    }
}

fn schema() -> Schema {
    let mut schema = Schema::default();
    let fields = [
        ("stream.full_share", "share"),
        ("stream.wait", "us"),
        ("stream.capacity", "messages"),
        ("run.tasks", ""),
        ("process.memory", "B"),
        ("window.lasted", "s"),
    ];
    for (name, unit) in fields {
        schema.number(name, unit).unwrap();
    }
    schema.text("component").unwrap();
    schema
}

/// Changes one line, or the order of lines.
fn damage(lines: &mut Vec<String>, chance: &mut Chance) {
    if lines.is_empty() {
        return;
    }
    let count = lines.len() as u64;
    let (at, other) = (chance.below(count) as usize, chance.below(count) as usize);
    match chance.below(9) {
        0 => drop(lines.remove(at)),
        1 => lines.swap(at, other),
        2 => lines.insert(other, lines[at].clone()),
        3 => {
            let foreign: Vec<&str> = chance.of(&PACKS).lines().collect();
            lines.insert(at, foreign[chance.below(foreign.len() as u64) as usize].to_owned());
        }
        4 => {
            // The value of another key.
            if let (Some((key, _)), Some((_, value))) =
                (lines[at].split_once('='), lines[other].split_once('='))
            {
                lines[at] = format!("{key}={value}");
            }
        }
        5 => lines.truncate(at + 1),
        _ => {
            let letters: Vec<char> = lines[at].chars().collect();
            let from = chance.below(letters.len() as u64 + 1) as usize;
            let to = (from + chance.below(6) as usize).min(letters.len());
            let word = if chance.one_in(4) { "" } else { chance.of(&WORDS) };
            lines[at] =
                letters[..from].iter().collect::<String>() + word + &letters[to..].iter().collect::<String>();
        }
    }
}

fn look(seed: u64, text: &str, problems: &[Problem]) {
    assert!(!problems.is_empty(), "case {seed}: refused without a reason");
    for problem in problems {
        assert!(
            problem.span.start <= text.len() && problem.span.end <= text.len(),
            "case {seed}: {problem:?}"
        );
        problem.render("text", text);
    }
}

/// Reads a damaged pack, and the texts in it. Returns whether the pack was read.
fn try_case(seed: u64, schema: &Schema) -> bool {
    let mut chance = Chance::new(seed);
    let mut lines: Vec<String> = chance.of(&PACKS).lines().map(str::to_owned).collect();
    (0..1 + chance.below(6)).for_each(|_| damage(&mut lines, &mut chance));
    let text = lines.join("\n");
    let is_read = match read("pack.toml", &text) {
        Ok(pack) => {
            let names = pack.names.clone();
            let mut fits = Fits::default();
            for row in 0..7 {
                let measures = names.iter().enumerate().map(|(at, name)| (name.clone(), Row(row).number(at)));
                drop(tried(&pack, &mut fits, &measures.collect::<Vec<_>>()));
            }
            true
        }
        Err(bad) => {
            look(seed, &text, &bad.problems);
            assert!(!bad.to_string().is_empty(), "case {seed}");
            false
        }
    };
    let is_rule = match Rules::read(&[("pack.toml".to_owned(), text.clone())], &[]) {
        Ok(_) => true,
        Err(bad) => {
            look(seed, &bad.text, &bad.problems);
            false
        }
    };
    let line = match lines.len() as u64 {
        0 => "",
        count => lines[chance.below(count) as usize].as_str(),
    };
    let inner = line.split('"').nth(1).unwrap_or(line);
    match Call::read(inner) {
        Ok(call) => assert_eq!(Call::read(&call.to_string()), Ok(call), "case {seed}"),
        Err(problem) => look(seed, inner, &[problem]),
    }
    match Expression::read(inner, schema) {
        Ok(expression) => (0..7).for_each(|row| _ = expression.number(&Row(row))),
        Err(problems) => look(seed, inner, &problems),
    }
    is_read || is_rule
}

/// Tries cases from this seed on, at least `least`, until the time is over. Returns how many, and how many
/// packs were read.
fn play(from: u64, least: u64, time: Duration) -> (u64, u64) {
    let (begun, schema) = (Instant::now(), schema());
    let (mut tried, mut read) = (0, 0);
    while tried < least || begun.elapsed() < time {
        let case = Instant::now();
        read += u64::from(try_case(from + tried, &schema));
        assert!(case.elapsed() < CASE_MAX, "case {}: too long", from + tried);
        tried += 1;
    }
    (tried, read)
}

#[test]
fn damaged_packs_are_read_or_refused() {
    play(1, 3_000, Duration::ZERO);
}

/// Ten minutes, or as long as `FUZZ_SECONDS` says; `SEED` is the first case.
#[test]
#[ignore = "takes minutes"]
fn damaged_packs_are_read_or_refused_for_minutes() {
    let from = number_of("SEED", 1 << 32);
    let (tried, read) = play(from, 1, Duration::from_secs(number_of("FUZZ_SECONDS", 600)));
    eprintln!("{tried} damaged packs from case {from}, {read} of them read");
}
