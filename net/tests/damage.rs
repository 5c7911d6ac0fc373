//! Any text gives an answer, and damage to a sound text is reported near the damage.

use proptest::prelude::*;
use thalweg_net::check::check_text;
use thalweg_net::syntax::{Diagnostic, Source, parse};

#[path = "support/programs.rs"]
#[allow(dead_code)]
mod programs;

use programs::{Random, program};

/// A program with every construct.
const PROGRAM: &str = r#"//! snet 2.0
type point = {x, y} | {<at>};
typesig move = point -> {x, y};
box start (-> (x));
net main {
    box inc ((x, <n>) -> (x, <n>) | (odd));
    box kept ((x) -> (x)) { <<< C | int kept(int x) { return x; } >>> }
    net inner ({x, <n>} -> ...) {
        box inc ((x) -> (y));
    }
    connect inc .. [{y} -> {x = y}];
    net loops
    connect (inc .. kept) * {odd}, {<n>} if <n > 3>;
}
connect
    [{} -> {<n = 0>, <k = min(1, 2)>}]
    .. (inner | loops | [{odd} -> {x = odd, <n = -1 + 2 * 3>}])
    .. [{x, <n>} -> if <n == 1 && !n> then {x, <n>} else if <n >= 2 ? 1 : 0> then {x}; {<n = n % 2>} else {x}]
    .. ([| {x}, {<n>} |] * {x, <n>})
    .. (inc ! <n> || kept !! <k>)
    .. (kept @ 3 | [])
    .. ((kept | []) \ {back});
"#;

/// The pieces of a text that can be damaged: words, numbers, signs, spaces.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |c: char| match first {
            _ if first.is_ascii_alphanumeric() || first == '_' => c.is_ascii_alphanumeric() || c == '_',
            _ if first.is_whitespace() => c.is_whitespace(),
            _ => false,
        };
        let long = ["<<<", ">>>", "[|", "|]", "||", "!!", "->", "..", "&&", "==", ">=", "//"];
        let length = match long.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => sign.len(),
            None => rest.char_indices().skip(1).find(|&(_, c)| !same(c)).map_or(rest.len(), |(i, _)| i),
        };
        pieces.push(&rest[..length]);
        rest = &rest[length..];
    }
    pieces
}

fn line_of(diagnostic: &Diagnostic) -> u32 {
    diagnostic.primary.as_ref().unwrap().start().line
}

/// The lines that a diagnostic points to.
fn lines_of(diagnostic: &Diagnostic) -> Vec<u32> {
    diagnostic.primary.iter().chain(&diagnostic.others).map(|note| note.start().line).collect()
}

/// Draws every diagnostic, which must not fail either.
fn draw(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        assert!(!diagnostic.render(true).is_empty());
        assert!(line_of(diagnostic) >= 1);
    }
}

#[test]
fn the_program_itself_is_sound() {
    let checked = check_text("main", PROGRAM, None);
    let rendered: String = checked.diagnostics.iter().map(|d| d.render(false)).collect();
    assert!(checked.resolved.is_some(), "{rendered}");
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Deleted,
    Doubled,
    Swapped,
}

/// The text with one piece damaged, and the line of the damage; `None` if that changes nothing.
fn damaged(at: usize, damage: Damage) -> Option<(String, u32)> {
    let mut pieces = pieces(PROGRAM);
    let solid: Vec<usize> = (0..pieces.len()).filter(|&i| !pieces[i].trim().is_empty()).collect();
    let at = solid[at % solid.len()];
    let line = 1 + pieces[..at].concat().matches('\n').count() as u32;
    match damage {
        Damage::Deleted => pieces[at] = " ",
        Damage::Doubled => pieces.insert(at, pieces[at]),
        Damage::Swapped => {
            let next = solid.iter().copied().find(|&i| i > at)?;
            if pieces[next] == pieces[at] {
                return None;
            }
            pieces.swap(at, next);
        }
    }
    Some((pieces.concat(), line))
}

/// Damages each piece in every way: the first error must be near it, unless the text is still well-formed.
#[test]
fn damage_is_told_where_it_is() {
    let count = pieces(PROGRAM).len();
    let (mut told, mut well_formed) = (0, 0);
    for at in 0..count {
        for damage in [Damage::Deleted, Damage::Doubled, Damage::Swapped] {
            let Some((text, line)) = damaged(at, damage) else { continue };
            let (_, errors) = parse(&Source::new("main", text.as_str()));
            draw(&errors);
            let Some(first) = errors.first() else {
                well_formed += 1;
                draw(&check_text("main", &text, None).diagnostics);
                continue;
            };
            told += 1;
            let near = errors.iter().flat_map(lines_of).any(|l| l.abs_diff(line) <= 2);
            assert!(
                near,
                "{damage:?} on line {line}, first reported on {}:\n{text}\n{}",
                line_of(first),
                first.render(false)
            );
            assert!(errors.len() <= 8, "{damage:?} on line {line}: {} errors\n{text}", errors.len());
        }
    }
    assert!(told > 3 * well_formed, "{told} reported, {well_formed} well-formed");
}

const WORDS: [&str; 62] = [
    "net",
    "box",
    "connect",
    "if",
    "then",
    "else",
    "type",
    "typesig",
    "main",
    "a",
    "b",
    "t",
    "0",
    "7",
    "0x1f",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "[|",
    "|]",
    "<",
    ">",
    "<#",
    "<t>",
    "{a}",
    "|",
    "||",
    "*",
    "**",
    "!",
    "!!",
    "!@",
    "!!@",
    "@",
    "\\",
    ":",
    "::",
    ";",
    ",",
    "=",
    "+",
    "-",
    "/",
    "%",
    "?",
    "..",
    "...",
    "->",
    "&&",
    "==",
    "!=",
    "<=",
    ">=",
    "<<< C | x >>>",
    "<metadata>m</metadata>",
    "// c\n",
    "/*",
    "ä",
    "\n",
];

proptest! {
    #[test]
    fn a_soup_of_tokens_never_fails(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..60)) {
        let text = words.join(" ");
        let checked = check_text("main", &text, None);
        draw(&checked.diagnostics);
        prop_assert_eq!(checked.resolved.is_some(), !checked.diagnostics.iter().any(Diagnostic::is_error));
    }

    #[test]
    fn a_soup_in_a_topology_never_fails(words in prop::collection::vec(prop::sample::select(&WORDS[8..]), 0..40)) {
        let text = format!("box a ((a) -> (b)); box b ((b) -> (a)); net main connect a {} ;", words.join(" "));
        draw(&check_text("main", &text, None).diagnostics);
    }

    #[test]
    fn any_text_never_fails(text in "\\PC{0,200}") {
        draw(&check_text("main", &text, None).diagnostics);
    }

    #[test]
    fn damage_upon_damage_never_fails(steps in prop::collection::vec((0usize..1000, 0usize..3, any::<char>()), 1..12)) {
        let mut text = PROGRAM.to_string();
        for (at, how, other) in steps {
            let mut pieces = pieces(&text);
            if pieces.is_empty() {
                break;
            }
            let at = at % pieces.len();
            let other = other.to_string();
            match how {
                0 => drop(pieces.remove(at)),
                1 => pieces.insert(at, pieces[at]),
                _ => pieces.insert(at, &other),
            }
            text = pieces.concat();
        }
        draw(&check_text("main", &text, None).diagnostics);
    }
}

/// Counts of how the damage of a text is reported.
#[derive(Default)]
struct Tally {
    cases: usize,
    /// Reported by an error at most two tokens away.
    near: usize,
    /// A missing or surplus bracket is reported by an error at a bracket of its kind, the other one of the
    /// pair.
    at_partner: usize,
    /// Not reported, because the damaged text is well-formed: a list with one element less, another
    /// component, …
    well_formed: usize,
    far: Vec<String>,
}

/// The tokens with one token damaged; `None` if that changes nothing.
fn with_damage(tokens: &[String], at: usize, damage: Damage) -> Option<Vec<&str>> {
    let mut tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    match damage {
        Damage::Deleted => drop(tokens.remove(at)),
        Damage::Doubled => tokens.insert(at, tokens[at]),
        Damage::Swapped if at + 1 < tokens.len() && tokens[at] != tokens[at + 1] => tokens.swap(at, at + 1),
        Damage::Swapped => return None,
    }
    Some(tokens)
}

impl Tally {
    fn look(&mut self, whole: &[String], at: usize, damage: Damage) {
        let Some(tokens) = with_damage(whole, at, damage) else { return };
        self.cases += 1;
        let mut starts = Vec::new();
        let mut text = String::new();
        for token in &tokens {
            starts.push(text.len() as u32);
            text += token;
            text.push(' ');
        }
        let (_, errors) = parse(&Source::new("main", text.as_str()));
        if self.cases.is_multiple_of(7) {
            draw(&check_text("main", &text, None).diagnostics);
        }
        if errors.is_empty() {
            self.well_formed += 1;
            return;
        }
        let index = |byte: u32| starts.partition_point(|&start| start <= byte).saturating_sub(1);
        let mut places = errors.iter().flat_map(|e| e.primary.iter().chain(&e.others)).map(|note| note.span);
        if places
            .clone()
            .any(|s| index(s.start).abs_diff(at) <= 2 || index(s.end.max(1) - 1).abs_diff(at) <= 2)
        {
            self.near += 1;
            return;
        }
        let pairs = ["()", "{}", "[]", "<>", "[||]"];
        let touched = [whole.get(at), whole.get(at + 1)].into_iter().flatten();
        let mut kinds = pairs
            .iter()
            .filter(|pair| touched.clone().any(|t| pair.starts_with(&**t) || pair.ends_with(&**t)));
        if kinds.any(|pair| {
            places.any(|s| {
                let there = tokens[index(s.start)..].iter().take(2);
                there.map(|token| token.trim_start_matches("<#")).any(|t| !t.is_empty() && pair.contains(t))
            })
        }) {
            self.at_partner += 1;
            return;
        }
        self.far.push(format!("{damage:?} `{}`:\n{text}\n{}", whole[at], errors[0].render(false)));
    }
}

/// Deletes each token of many programs, doubles it, and swaps it with the next one.
#[test]
fn damage_to_a_token_is_told_beside_it() {
    let mut told = Tally::default();
    for seed in 0.. {
        if told.cases >= 21_000 {
            break;
        }
        let tokens = program(&mut Random::new(seed));
        for at in 0..tokens.len() {
            for damage in [Damage::Deleted, Damage::Doubled, Damage::Swapped] {
                told.look(&tokens, at, damage);
            }
        }
    }
    let Tally { cases, near, at_partner, well_formed, far } = told;
    let counted = format!(
        "{cases} cases: {near} near, {at_partner} at the partner, {well_formed} well-formed, {} far",
        far.len()
    );
    assert!(far.is_empty(), "{counted}\n{}", far.join("\n"));
    // Few damaged texts are well-formed, and few brackets are reported at their partner.
    assert!(near > 50 * well_formed && near > 50 * at_partner, "{counted}");
}
