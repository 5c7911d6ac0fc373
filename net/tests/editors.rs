//! Tests of `editors/`: the syntax colouring must know every word and sign, and must colour every part of a
//! network.

mod signs;

use std::collections::BTreeSet;
use std::path::Path;

use fancy_regex::Regex;
use serde_json::Value;

/// A TextMate grammar, limited to the features that this project's grammar uses.
struct Grammar {
    name: String,
    json: Value,
}

/// A rule of a grammar.
enum Rule {
    /// A match on one line, with scopes of its parts.
    Match { regex: Regex, scopes: Vec<(usize, String)> },
    /// A region from one match to another, possibly over several lines.
    Region { begin: Regex, end: Regex, scope: String },
}

/// A piece of text with its innermost scope.
type Token = (String, String);

impl Grammar {
    fn read() -> Grammar {
        let json: Value =
            serde_json::from_str(&signs::file("editors/vscode/syntaxes/snet.tmLanguage.json")).unwrap();
        Grammar { name: json["scopeName"].as_str().unwrap().to_owned(), json }
    }

    /// The rules in order, with included rules in place.
    fn rules(&self, patterns: &Value) -> Vec<Rule> {
        let patterns = patterns.as_array().expect("patterns");
        patterns.iter().flat_map(|pattern| self.rule(pattern)).collect()
    }

    fn rule(&self, pattern: &Value) -> Vec<Rule> {
        let text = |key: &str| pattern[key].as_str().map(str::to_owned);
        let regex = |key: &str| {
            Regex::new(pattern[key].as_str().unwrap()).unwrap_or_else(|e| panic!("{pattern}: {e}"))
        };
        if let Some(included) = text("include") {
            let name = included.strip_prefix('#').expect("a rule of this grammar");
            let rule = &self.json["repository"][name];
            assert!(rule.is_object(), "there is no rule {name}");
            return self.rule(rule);
        }
        if pattern.get("match").is_some() {
            let mut scopes: Vec<(usize, String)> = text("name").map(|scope| (0, scope)).into_iter().collect();
            for (group, capture) in pattern["captures"].as_object().into_iter().flatten() {
                scopes.push((group.parse().unwrap(), capture["name"].as_str().unwrap().to_owned()));
            }
            assert!(!scopes.is_empty(), "{pattern} has no name");
            return vec![Rule::Match { regex: regex("match"), scopes }];
        }
        if pattern.get("begin").is_some() {
            return vec![Rule::Region {
                begin: regex("begin"),
                end: regex("end"),
                scope: text("name").unwrap(),
            }];
        }
        self.rules(&pattern["patterns"])
    }

    /// The pieces of a text; a piece that no rule matches has the grammar's own name as its scope.
    fn tokens(&self, text: &str) -> Vec<Token> {
        let rules = self.rules(&self.json["patterns"]);
        let mut tokens = Vec::new();
        let mut region: Option<&Rule> = None;
        for line in text.lines() {
            let mut at = 0;
            while at <= line.len() {
                if let Some(Rule::Region { end, scope, .. }) = region {
                    let found = end.find_from_pos(line, at).unwrap();
                    let stop = found.map_or(line.len(), |m| m.end());
                    tokens.push((line[at..stop].to_owned(), scope.clone()));
                    match found {
                        Some(_) => region = None,
                        None => break,
                    }
                    at = stop;
                    continue;
                }
                // The earliest match wins, and among equal ones the first rule.
                let starts = rules.iter().filter_map(|rule| {
                    let (Rule::Match { regex, .. } | Rule::Region { begin: regex, .. }) = rule;
                    Some((regex.captures_from_pos(line, at).unwrap()?, rule))
                });
                let Some((found, rule)) = starts.min_by_key(|(found, _)| found.get(0).unwrap().start())
                else {
                    tokens.push((line[at..].to_owned(), self.name.clone()));
                    break;
                };
                let whole = found.get(0).unwrap();
                assert!(whole.end() > whole.start(), "an empty match in {line}");
                tokens.push((line[at..whole.start()].to_owned(), self.name.clone()));
                match rule {
                    Rule::Match { scopes, .. } => {
                        let mut behind = whole.start();
                        for (group, scope) in scopes {
                            let part = found.get(*group).unwrap();
                            tokens.push((line[behind..part.start()].to_owned(), self.name.clone()));
                            tokens.push((part.as_str().to_owned(), scope.clone()));
                            behind = part.end();
                        }
                        assert_eq!(behind, whole.end(), "a part without a scope in {line}");
                    }
                    Rule::Region { scope, .. } => {
                        tokens.push((whole.as_str().to_owned(), scope.clone()));
                        region = Some(rule);
                    }
                }
                at = whole.end();
            }
        }
        tokens.retain(|(text, _)| !text.trim().is_empty());
        tokens
    }

    #[track_caller]
    fn check(&self, text: &str, expected: &[(&str, &str)]) {
        let found = self.tokens(text);
        let short: Vec<(&str, &str)> =
            found.iter().map(|(t, s)| (t.trim(), s.split('.').next().unwrap())).collect();
        assert_eq!(short, expected, "{text}");
    }
}

/// The networks of `docs/` and `apps/`.
fn networks() -> Vec<String> {
    let mut networks = vec![signs::file("apps/des/des.snet")];
    let mut pages = vec!["docs/language.md".to_owned()];
    for entry in std::fs::read_dir(signs::root().join("docs/errors")).unwrap() {
        pages.push(format!("docs/errors/{}", entry.unwrap().file_name().display()));
    }
    for page in pages {
        let page = signs::file(&page);
        let blocks = page.split("```snet").skip(1).map(|rest| rest.split_once('\n').unwrap().1);
        networks.extend(blocks.map(|rest| rest.split("```").next().unwrap().to_owned()));
    }
    assert!(networks.len() > 80, "only {} networks", networks.len());
    networks
}

#[test]
fn textmate_knows_every_word_and_sign() {
    let grammar = Grammar::read();
    for sign in signs::of_the_lexer() {
        let tokens = grammar.tokens(&format!("a {sign} b"));
        let scope = tokens.iter().find(|(text, _)| *text == sign).map_or("", |(_, scope)| scope);
        assert!(
            scope.starts_with("keyword") || scope.starts_with("punctuation"),
            "`{sign}` is in {tokens:?}"
        );
        if sign.starts_with(char::is_alphabetic) {
            assert!(scope.starts_with("keyword"), "`{sign}` is {scope}");
        }
    }
}

#[test]
fn textmate_leaves_nothing_of_a_network_out() {
    let grammar = Grammar::read();
    for network in networks() {
        for (text, scope) in grammar.tokens(&network) {
            // Characters without a meaning, and invalid numbers, have no scope.
            let wrong = !text.chars().all(|c| c.is_ascii_alphanumeric()) && text.trim() == ".";
            assert!(scope != grammar.name || wrong, "{text:?} has no scope in\n{network}");
        }
    }
}

#[test]
fn textmate_tells_what_a_piece_is() {
    let grammar = Grammar::read();
    grammar.check(
        "net main connect f !! <t> // why\n/* a\nnet */ [| {a}, {<#b>} |]",
        &[
            ("net", "keyword"),
            ("main", "entity"),
            ("connect", "keyword"),
            ("f", "variable"),
            ("!!", "keyword"),
            ("<", "punctuation"),
            ("t", "entity"),
            (">", "punctuation"),
            ("// why", "comment"),
            ("/*", "comment"),
            ("a", "comment"),
            ("net */", "comment"),
            ("[|", "punctuation"),
            ("{", "punctuation"),
            ("a", "variable"),
            ("}", "punctuation"),
            (",", "punctuation"),
            ("{", "punctuation"),
            ("<#", "punctuation"),
            ("b", "entity"),
            (">", "punctuation"),
            ("}", "punctuation"),
            ("|]", "punctuation"),
        ],
    );
    grammar.check(
        "<metadata> net </metadata> {",
        &[("<metadata>", "comment"), ("net </metadata>", "comment"), ("{", "punctuation")],
    );
    grammar.check("<<< C | net >>> 0x1F", &[("<<< C |", "meta"), ("net >>>", "meta"), ("0x1F", "constant")]);
    grammar.check("<<< exec filter | a >>>", &[("<<< exec filter |", "meta"), ("a >>>", "meta")]);
}

/// The words and signs in the patterns of Vim's file.
fn signs_of_vim() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in signs::file("editors/vim/syntax/snet.vim").lines() {
        if let Some(words) = line.strip_prefix("syntax keyword ") {
            found.extend(words.split(' ').skip(1).map(str::to_owned));
        } else if let Some(pattern) = line.strip_prefix("syntax match ").and_then(|l| l.split('"').nth(1)) {
            match pattern.strip_prefix('[').and_then(|p| p.strip_suffix(']')) {
                Some(class) => found.extend(class.replace('\\', "").chars().map(String::from)),
                None => found.extend(pattern.split("\\|").map(|sign| sign.replace('\\', ""))),
            }
            if pattern.contains("\\\\") {
                found.insert("\\".to_owned());
            }
        }
    }
    found
}

#[test]
fn vim_knows_every_word_and_sign() {
    let found = signs_of_vim();
    let missing: Vec<String> =
        signs::of_the_lexer().into_iter().filter(|sign| !found.contains(sign)).collect();
    assert_eq!(missing, [""; 0], "of {found:?}");
}

#[test]
fn the_extension_leads_to_files_that_exist() {
    let folder = signs::root().join("editors/vscode");
    let read = |name: &str| -> Value {
        serde_json::from_str(&signs::file(&format!("editors/vscode/{name}")))
            .unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    let package = read("package.json");
    let contributes = &package["contributes"];
    let languages = &contributes["languages"][0];
    assert_eq!(languages["extensions"][0], ".snet");
    assert_eq!(contributes["grammars"][0]["scopeName"], Grammar::read().name.as_str());
    for path in [&package["main"], &languages["configuration"], &contributes["grammars"][0]["path"]] {
        let path = Path::new(path.as_str().unwrap());
        assert!(folder.join(path).exists(), "{}", path.display());
    }
    for (open, close) in
        read("language-configuration.json")["brackets"].as_array().unwrap().iter().map(|p| (&p[0], &p[1]))
    {
        let known = signs::of_the_lexer();
        assert!(
            known.contains(open.as_str().unwrap()) && known.contains(close.as_str().unwrap()),
            "{open} {close}"
        );
    }
}
