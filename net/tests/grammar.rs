//! Tests of `docs/grammar.md`: the parser reads the texts that the grammar's rules produce, and the grammar
//! contains every word and sign of the language.

mod signs;

use std::collections::{BTreeMap, BTreeSet};

use thalweg_chance::Chance;
use thalweg_net::syntax::{Source, parse};

/// The right side of a rule.
#[derive(Debug)]
enum Rule {
    Text(String),
    Token(String),
    Name(String),
    Sequence(Vec<Rule>),
    Choice(Vec<Rule>),
    Optional(Box<Rule>),
    Repeated(Box<Rule>),
}

type Rules = BTreeMap<String, Rule>;

fn rules() -> Rules {
    let page = signs::file("docs/grammar.md");
    let blocks = page.split("```ebnf\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let words: Vec<String> =
        blocks.flat_map(|b| b.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    let mut words = words.iter().map(String::as_str).peekable();
    let mut rules = Rules::new();
    while let Some(name) = words.next() {
        assert_eq!(words.next(), Some("="), "after {name}");
        let rule = choice(&mut words);
        assert_eq!(words.next(), Some("."), "the end of {name}");
        assert!(rules.insert(name.to_owned(), rule).is_none(), "{name} twice");
    }
    rules
}

fn choice<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Rule {
    let mut choices = vec![sequence(words)];
    while words.next_if_eq(&"|").is_some() {
        choices.push(sequence(words));
    }
    if choices.len() == 1 { choices.remove(0) } else { Rule::Choice(choices) }
}

fn sequence<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Rule {
    let mut parts = Vec::new();
    while let Some(word) = words.next_if(|w| !matches!(*w, "." | "|" | ")" | "]" | "}")) {
        let part = match word {
            "(" | "[" | "{" => {
                let inside = choice(words);
                words.next().unwrap();
                match word {
                    "(" => inside,
                    "[" => Rule::Optional(Box::new(inside)),
                    _ => Rule::Repeated(Box::new(inside)),
                }
            }
            _ if word.starts_with('"') => Rule::Text(word.trim_matches('"').to_owned()),
            _ if word.starts_with(|c: char| c.is_ascii_lowercase()) => Rule::Token(word.to_owned()),
            _ => Rule::Name(word.to_owned()),
        };
        parts.push(part);
    }
    if parts.len() == 1 { parts.remove(0) } else { Rule::Sequence(parts) }
}

/// A random text by the rules; the deeper the nesting, the shorter the text.
struct Writer<'a> {
    rules: &'a Rules,
    chance: Chance,
    out: String,
}

impl Writer<'_> {
    fn below(&mut self, limit: usize) -> usize {
        self.chance.below(limit as u64) as usize
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push(' ');
    }

    fn put_one_of(&mut self, texts: &[&str]) {
        let text = self.chance.of(texts);
        self.put(text);
    }

    fn write(&mut self, rule: &Rule, depth: usize) {
        match rule {
            Rule::Text(text) => self.put(text),
            Rule::Token(token) => match token.as_str() {
                "id" => self.put_one_of(&["a", "b", "_c1", "Dd", "netx"]),
                "num" => self.put_one_of(&["0", "7", "0x1F", "017"]),
                "meta" => self.put("<metadata> <a/> </metadata>"),
                "code" => self.put_one_of(&["<<< C | int f(); >>>", "<<< exec filter | grep a >>>"]),
                other => panic!("no token `{other}`"),
            },
            Rule::Name(name) => {
                let rule = self.rules.get(name).unwrap_or_else(|| panic!("no rule `{name}`"));
                self.write(rule, depth + 1);
            }
            Rule::Sequence(parts) => parts.iter().for_each(|part| self.write(part, depth)),
            Rule::Choice(choices) => {
                // At a great depth the choice that ends soonest is used.
                let chosen = self.below(choices.len());
                let choice = if depth > 30 {
                    choices.iter().min_by_key(|c| weight(c)).unwrap()
                } else {
                    &choices[chosen]
                };
                self.write(choice, depth);
            }
            Rule::Optional(inside) => {
                if depth < 30 && self.below(2) == 0 {
                    self.write(inside, depth);
                }
            }
            Rule::Repeated(inside) => {
                let limit = if depth < 6 { 4 } else { 2 };
                let times = if depth < 30 { self.below(limit) } else { 0 };
                (0..times).for_each(|_| self.write(inside, depth));
            }
        }
    }
}

/// A measure of how soon a rule ends; names of rules have the most weight.
fn weight(rule: &Rule) -> usize {
    match rule {
        Rule::Text(_) | Rule::Token(_) => 1,
        Rule::Name(_) => 100,
        Rule::Sequence(parts) => parts.iter().map(weight).sum(),
        Rule::Choice(choices) => choices.iter().map(weight).min().unwrap_or(0),
        Rule::Optional(_) | Rule::Repeated(_) => 0,
    }
}

#[test]
fn the_parser_reads_what_the_rules_make() {
    let rules = rules();
    let mut bytes = 0;
    for seed in 1..=1000u64 {
        let mut writer = Writer { rules: &rules, chance: Chance::new(seed), out: String::new() };
        writer.write(&rules["File"], 0);
        let text = writer.out;
        bytes += text.len();
        let (_, errors) = parse(&Source::new("main.snet", text.as_str()));
        assert!(errors.is_empty(), "{}\nin {text}", errors[0].render(false));
    }
    assert!(bytes > 100_000, "{bytes} bytes are too few to judge by");
}

#[test]
fn a_sentence_with_a_hole_is_refused() {
    for text in ["net a connect", "net a connect b ..", "box f (a);", "net a connect [{} -> {<t = >}]"] {
        assert!(!parse(&Source::new("main.snet", text)).1.is_empty(), "{text}");
    }
}

#[test]
fn the_rules_have_every_word_and_sign() {
    fn collect(rule: &Rule, found: &mut BTreeSet<String>) {
        match rule {
            Rule::Text(text) => drop(found.insert(text.clone())),
            Rule::Sequence(parts) | Rule::Choice(parts) => parts.iter().for_each(|p| collect(p, found)),
            Rule::Optional(inside) | Rule::Repeated(inside) => collect(inside, found),
            Rule::Token(_) | Rule::Name(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    rules().values().for_each(|rule| collect(rule, &mut found));
    let mut expected = signs::of_the_lexer();
    assert!(expected.remove("::"), "`::` is reserved");
    expected.extend(["abs", "min", "max"].map(str::to_owned));
    assert_eq!(found, expected);
}
