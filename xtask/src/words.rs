//! Words that must not be used in comments, texts of the program and pages, because they had private
//! meanings.
//!
//! The words below once had meanings of their own in this project: it said, for example, that events were
//! *told*, and called a thread a *who*. The glossary (docs/glossary.md) has the words that replaced these.
//! The test checks comments, string literals that are sentences, and the prose of pages; names in code are
//! not checked.

use crate::sources;

/// The forbidden words, each with its replacement.
const RULES: &[Rule] = &[
    Rule { name: "whoever", is_meant: is_whoever, instead: "name the thread, process, task or person" },
    Rule { name: "who", is_meant: is_who, instead: "`who` is for persons: name the thread, process or task" },
    Rule { name: "told", is_meant: is_told, instead: "record, report, print, show" },
    Rule {
        name: "how-manieth",
        is_meant: |words, at| words[at] == "how-manieth",
        instead: "index, position",
    },
    Rule {
        name: "likewise",
        is_meant: |words, at| words[at] == "likewise",
        instead: "say what is alike: `in the same way`, or the sentence itself",
    },
    Rule { name: "room", is_meant: is_room, instead: "this module has `unsafe`" },
];

struct Rule {
    name: &'static str,
    /// Whether the rule forbids the word at an index of a sentence. The words of the sentence are given in
    /// lower case.
    is_meant: fn(&[String], usize) -> bool,
    instead: &'static str,
}

/// Words after which `who` refers to a person.
const PERSONS: &[&str] = &[
    "people",
    "person",
    "persons",
    "somebody",
    "someone",
    "anybody",
    "anyone",
    "everybody",
    "everyone",
    "nobody",
    "user",
    "users",
    "reader",
    "readers",
    "those",
    "author",
    "authors",
    "attacker",
    "engineer",
    "engineers",
    "you",
    "developer",
    "developers",
];

fn is_whoever(words: &[String], at: usize) -> bool {
    words[at] == "whoever"
}

fn is_who(words: &[String], at: usize) -> bool {
    let before = at.checked_sub(1).map_or("", |at| &words[at]);
    let after: Vec<&str> = words[at + 1..].iter().take(3).map(String::as_str).collect();
    // The help of `thalweg waits` may ask "who waits for whom?", as people ask.
    let asked = after.contains(&"whom");
    words[at] == "who" && !PERSONS.contains(&before) && !asked
}

fn is_told(words: &[String], at: usize) -> bool {
    let after = |n: usize| words.get(at + n).map_or("", String::as_str);
    let apart = (1..=6).any(|n| ["apart", "from"].contains(&after(n)));
    match words[at].as_str() {
        "told" => !apart && after(1) != "to",
        "telling" => !apart,
        // `tells the reader that …` has the usual meaning of the word; `tells of …` and `the lock tells.`
        // have not.
        "tell" | "tells" => !apart && ["of", "", ".", ",", ";", ":"].contains(&after(1)),
        _ => false,
    }
}

fn is_room(words: &[String], at: usize) -> bool {
    let is = |n: usize, word: &str| words.get(at + n).is_some_and(|next| next == word);
    let before = at.checked_sub(1).map_or("", |at| &words[at]);
    ["room", "rooms"].contains(&words[at].as_str())
        && (is(1, "for") && is(2, "unsafe") || ["named", "unsafe"].contains(&before))
}

/// The words of a sentence in lower case; a sign that ends a clause is a word of its own.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.chars() {
        if c.is_alphanumeric() || matches!(c, '-' | '\'' | '_') {
            let last = words.last_mut().expect("there is always one");
            last.extend(c.to_lowercase());
        } else {
            words.push(if matches!(c, '.' | ',' | ';' | ':') { c.to_string() } else { String::new() });
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A line of prose, with its number.
type Line = (usize, String);

/// The prose of a page, which is the text outside blocks of code, without the targets of links.
fn prose_of_page(text: &str) -> Vec<Line> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mark = line.trim_start();
        let ticks = &mark[..mark.len() - mark.trim_start_matches('`').len()];
        match fence {
            None if ticks.len() >= 3 => fence = Some(ticks),
            Some(opened) if ticks == opened => fence = None,
            None => {
                let parts = line.split("](").enumerate().map(|(n, part)| match part.split_once(')') {
                    Some((_, rest)) if n > 0 => rest,
                    _ => part,
                });
                let prose = parts.collect::<Vec<_>>().join("]");
                lines.push((at + 1, prose));
            }
            Some(_) => {}
        }
    }
    lines
}

/// The prose of a file in Rust: its comments, and its string literals of three words or more.
fn prose_of_code(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let (mut rest, mut line) = (text, 1);
    let mut add = |from: usize, text: &str| {
        lines.extend(text.lines().enumerate().map(|(n, text)| (from + n, text.to_owned())));
    };
    let mut previous = ' ';
    while let Some(first) = rest.chars().next() {
        let raw = rest.strip_prefix('r').map_or(0, |rest| rest.len() - rest.trim_start_matches('#').len());
        let begins_raw = rest.starts_with('r') && rest[1 + raw..].starts_with('"');
        let in_name = previous.is_alphanumeric() && previous != 'b' || previous == '_';
        let length = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            add(line, &rest[..end]);
            end
        } else if begins_raw && !in_name {
            let end = format!("\"{}", "#".repeat(raw));
            let begin = raw + 2;
            let length = rest[begin..].find(&end).map_or(rest.len(), |at| begin + at);
            add_sentence(line, &rest[begin..length], &mut add);
            (length + end.len()).min(rest.len())
        } else if first == '"' {
            let end = end_of_text(rest);
            add_sentence(line, &rest[1..end], &mut add);
            (end + 1).min(rest.len())
        } else if first == '\'' {
            length_of_char(rest)
        } else {
            first.len_utf8()
        };
        line += rest[..length].matches('\n').count();
        previous = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    lines
}

fn add_sentence(line: usize, text: &str, add: &mut impl FnMut(usize, &str)) {
    if text.split_whitespace().count() >= 3 {
        add(line, &without_values(text));
    }
}

/// The position of the quote that ends a string literal.
fn end_of_text(rest: &str) -> usize {
    let mut escaped = true;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character literal, or of the quote of a lifetime.
fn length_of_char(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => rest[3.min(rest.len())..].find('\'').map_or(1, |at| at + 4),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// A text without its parts in braces, because `{told}` in a text is the name of a variable.
fn without_values(text: &str) -> String {
    let mut depth = 0_u32;
    text.chars()
        .filter(|c| match c {
            '{' => {
                depth += 1;
                false
            }
            '}' => {
                depth = depth.saturating_sub(1);
                false
            }
            _ => depth == 0,
        })
        .collect()
}

/// The forbidden words of a file, each with its line.
fn found(path: &str, text: &str) -> Vec<String> {
    let lines = if path.ends_with(".md") { prose_of_page(text) } else { prose_of_code(text) };
    let mut found = Vec::new();
    for (line, prose) in lines {
        let words = words(&prose);
        for at in 0..words.len() {
            let broken = RULES.iter().filter(|rule| (rule.is_meant)(&words, at));
            found.extend(broken.map(|rule| {
                format!("{path}:{line}: \"{}\": {} ({})", prose.trim(), rule.name, rule.instead)
            }));
        }
    }
    found
}

#[test]
fn private_words_are_not_written() {
    let texts = sources::ending_with(".rs").into_iter().chain(sources::ending_with(".md"));
    // This file is left out of the check, because it contains the words.
    let texts = texts.filter(|(path, _)| path != "xtask/src/words.rs");
    let wrong: Vec<String> = texts.flat_map(|(path, text)| found(&path, &text)).collect();
    assert!(wrong.is_empty(), "{}\n(docs/glossary.md has the words)", wrong.join("\n"));
}

#[track_caller]
fn check(path: &str, text: &str, wanted: &[&str]) {
    let found = found(path, text);
    let names: Vec<&str> = found
        .iter()
        .filter_map(|line| RULES.iter().rev().find(|rule| line.contains(&format!("\": {} (", rule.name))))
        .map(|rule| rule.name)
        .collect();
    assert_eq!(names, wanted, "{text}: {found:?}");
}

#[test]
fn who_stands_for_persons() {
    check("a.md", "People who ask. Anyone who looks. Who waits for whom? Those who write.", &[]);
    check("a.md", "The lock knows who writes. Whoever writes waits.", &["who", "whoever"]);
    check("a.md", "`who` [text](who.md)\n```sh\nwho\n```", &["who"]);
}

#[test]
fn what_is_recorded_is_not_told() {
    check(
        "a.md",
        "The header tells readers that it is complete, and how to tell two apart. Told to stop, it stops.",
        &[],
    );
    check(
        "a.md",
        "It is told once. One tells of it. The lock tells. A telling event.",
        &["told", "told", "told", "told"],
    );
    check(
        "a.md",
        "The how-manieth event, likewise; a room for unsafe.",
        &["how-manieth", "likewise", "room"],
    );
}

#[test]
fn names_in_code_are_no_words() {
    check(
        "a.rs",
        "let told = who.tells(); // fine\nlet text = \"who\"; let c = '\"'; let d = '\\''; fn f<'a>() {}",
        &[],
    );
    check("a.rs", "print!(\"{told} of {} records\"); let s = r#\"a \" b c\"#;", &[]);
    check("a.rs", "/// It was told.\nlet x = \"nobody is told \\\" of it\";", &["told", "told"]);
    check("a.rs", "let x = \"a\n the lock tells;\n b\";", &["told"]);
    let at = found("a.rs", "let x = \"a\n b c\n was told\";");
    assert!(at[0].starts_with("a.rs:3: "), "{at:?}");
}
