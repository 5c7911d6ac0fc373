//! Parses damaged descriptions of kinds: each mistake must be reported with its place and a sentence, and
//! writers for the remaining kinds must be generated in every language.

use std::path::Path;

use thalweg_chance::Chance;
use thalweg_space::kinds;

/// The words that are inserted at random.
const WORDS: [&str; 24] = [
    "{",
    "}",
    ":",
    "kind ",
    "row ",
    "in ",
    "enum ",
    "= ",
    ",",
    "///",
    "//",
    "\n",
    "\"",
    "u8",
    "text",
    "bytes",
    "0x",
    "0xffffffffffffffff",
    "-1",
    "18446744073709551616",
    "é",
    "\u{0}",
    "\u{202e}",
    "absent ",
];

fn texts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let ours = std::fs::read_dir(root.join("kinds")).unwrap().map(|entry| entry.unwrap().path());
    let mut texts: Vec<String> = ours
        .filter(|path| path.extension().is_some_and(|end| end == "kinds"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    texts.push(std::fs::read_to_string(root.join("writers/tests/generated/shop.kinds")).unwrap());
    texts
}

/// Applies a few random changes to a text: cutting, doubling, swapping and inserting.
fn damaged(text: &str, chance: &mut Chance) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    // Only a few kinds of the text are used, because the others would be parsed in every round without being
    // damaged.
    if letters.len() > 1500 {
        let from = chance.below(letters.len() as u64 - 1500) as usize;
        let from =
            (from..letters.len()).find(|at| letters[*at..].starts_with(&['\n', 'k'])).map_or(0, |at| at + 1);
        letters = letters[from..(from + 1500).min(letters.len())].to_vec();
    }
    for _ in 0..chance.between(1, 5) {
        let at = chance.below(letters.len() as u64 + 1) as usize;
        let to = (at + chance.below(30) as usize).min(letters.len());
        match chance.below(4) {
            0 => drop(letters.drain(at..to)),
            1 => {
                let part = letters[at..to].to_vec();
                letters.splice(at..at, part);
            }
            2 => letters.truncate(at.max(1)),
            _ => {
                let word = WORDS[chance.below(WORDS.len() as u64) as usize];
                letters.splice(at..at, word.chars());
            }
        }
    }
    letters.into_iter().collect()
}

#[test]
fn damaged_descriptions_are_refused_or_read_as_written() {
    let texts = texts();
    let mut chance = Chance::new(7);
    let (mut refused, mut taken) = (0, 0);
    for round in 0..20_000 {
        let text = damaged(&texts[round % texts.len()], &mut chance);
        match kinds::parse(&text) {
            Ok(described) => {
                taken += 1;
                // Printed and parsed again, the description must be the same, and every writer must be
                // generated.
                let printed = kinds::print(&described);
                let again = kinds::parse(&printed)
                    .unwrap_or_else(|problems| panic!("{text}\n{printed}\n{problems:?}"));
                assert_eq!(kinds::print(&again), printed, "{text}");
                for written in [
                    thalweg_writers::c(&described, "shop"),
                    thalweg_writers::java(&described, "", "shop"),
                    thalweg_writers::rust(&described),
                ] {
                    assert!(!written.is_empty(), "{text}");
                }
            }
            Err(problems) => {
                refused += 1;
                assert!(!problems.is_empty(), "{text}");
                let lines = text.lines().count();
                for problem in problems {
                    assert!(
                        (1..=lines + 1).contains(&problem.line) && problem.column >= 1,
                        "{text}\n{problem}"
                    );
                    assert!(problem.text.len() > 8, "{text}\n{problem}");
                }
            }
        }
    }
    assert!(refused > 5_000 && taken > 1_000, "{refused} refused, {taken} taken");
}
