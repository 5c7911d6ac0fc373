//! `docs/report.md` documents every field of the report's JSON: the page's last part is generated from the
//! types in `monitor/src/report/mod.rs`, `account.rs`, `finding.rs` and `prediction.rs`, so that page and
//! types have the same fields.
//!
//! `WRITE=1 cargo test -p thalweg-monitor --test schema` generates this part of the page again.

use std::path::PathBuf;

use thalweg_monitor::{SCHEMA, THRESHOLDS, VERSION, rule_names};

const TYPES: &str = concat!(
    include_str!("../src/report/mod.rs"),
    "\n",
    include_str!("../src/report/account.rs"),
    "\n",
    include_str!("../src/report/finding.rs"),
    "\n",
    include_str!("../src/report/prediction.rs")
);
/// The heading after which the page is generated from the types.
const MARK: &str = "## Every field\n";

/// A struct or an enum, with its fields or variants.
#[derive(Default)]
struct Type {
    name: String,
    doc: String,
    is_enum: bool,
    parts: Vec<Part>,
}

#[derive(Clone)]
struct Part {
    name: String,
    of: String,
    doc: String,
}

/// The types of the JSON, in order; the fields of a flattened type become fields of the enclosing type.
fn types(source: &str) -> Vec<Type> {
    let mut found = written(source);
    let parts = found.iter().flat_map(|of| &of.parts);
    let inner: Vec<String> =
        parts.filter(|part| part.name == FLATTENED).map(|part| part.of.clone()).collect();
    let is_inner = |of: &Type| inner.contains(&kind(&of.name));
    let whole = |part: Part, all: &[Type]| {
        if part.name == FLATTENED { fields_of(all, &part.of) } else { vec![part] }
    };
    for n in 0..found.len() {
        let parts = std::mem::take(&mut found[n].parts);
        found[n].parts = parts.into_iter().flat_map(|part| whole(part, &found)).collect();
    }
    found.retain(|of| !is_inner(of));
    found
}

/// The type of a field that stands for the fields of its struct (`#[serde(flatten)]`).
const FLATTENED: &str = "flattened";

fn fields_of(types: &[Type], link: &str) -> Vec<Part> {
    let of = types.iter().find(|of| kind(&of.name) == link).expect("a type of the files");
    of.parts.iter().map(Part::clone).collect()
}

/// The public types as declared in the source.
fn written(source: &str) -> Vec<Type> {
    let mut found = Vec::new();
    let mut flattened = false;
    let mut doc = String::new();
    let mut open: Option<Type> = None;
    for line in source.lines() {
        let text = line.trim();
        if let Some(words) = text.strip_prefix("/// ") {
            doc += if doc.is_empty() { "" } else { " " };
            doc += words;
            continue;
        }
        if text.starts_with("#[") {
            flattened |= text == "#[serde(flatten)]";
            let renames = ["rename =", "skip", "tag =", "untagged"];
            assert!(!renames.iter().any(|word| text.contains(word)), "the page cannot follow `{text}`");
            continue;
        }
        let comment = std::mem::take(&mut doc);
        match &mut open {
            None => open = begun(line, &comment),
            Some(_) if line == "}" => found.extend(open.take()),
            Some(of) => of.parts.extend(part(text, of.is_enum, comment).map(|part| {
                if std::mem::take(&mut flattened) {
                    Part { name: FLATTENED.to_owned(), ..part }
                } else {
                    part
                }
            })),
        }
    }
    found
}

fn begun(line: &str, doc: &str) -> Option<Type> {
    let (is_enum, rest) = match line.strip_prefix("pub struct ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("pub enum ")?),
    };
    let name = rest.strip_suffix(" {")?;
    Some(Type { name: name.to_owned(), doc: doc.to_owned(), is_enum, parts: Vec::new() })
}

fn part(text: &str, is_variant: bool, doc: String) -> Option<Part> {
    if is_variant {
        let (name, of) =
            text.trim_end_matches(',').split_once('(').unwrap_or((text.trim_end_matches(','), ""));
        return Some(Part { name: snake(name), of: kind(of.trim_end_matches(')')), doc });
    }
    let (name, of) = text.strip_prefix("pub ")?.trim_end_matches(',').split_once(": ")?;
    Some(Part { name: name.to_owned(), of: kind(of), doc })
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// A type's name in JSON.
fn kind(of: &str) -> String {
    let inside = |name: &str| Some(of.strip_prefix(name)?.strip_suffix('>')?.to_owned());
    if let Some(of) = inside("Option<") {
        return format!("{} or null", kind(&of));
    }
    if let Some(of) = inside("Vec<") {
        return format!("list of {}", kind(&of));
    }
    match of {
        "String" => "text".to_owned(),
        "bool" => "true or false".to_owned(),
        "f64" | "u64" | "u32" => "number".to_owned(),
        "TaskId" | "StreamId" | "WorkerId" => "id".to_owned(),
        "(String, f64)" => "pairs of text and number".to_owned(),
        "" => String::new(),
        name => format!("[{name}](#{})", name.to_lowercase()),
    }
}

/// The generated part of the page.
fn page(types: &[Type]) -> String {
    let mut page = format!(
        "{MARK}\nSchema `{SCHEMA}`, version {VERSION}. The object is a [Report](#report). An id is a number; in a report on several spaces a text, \
         `SPACE/NUMBER`.\n"
    );
    for of in types {
        page += &format!("\n### {}\n\n{}\n\n", of.name, plain(&of.doc));
        page += if of.is_enum { "| value | |\n|---|---|\n" } else { "| field | type | |\n|---|---|---|\n" };
        for part in &of.parts {
            let doc = plain(&part.doc);
            page += &match (of.is_enum, part.of.as_str()) {
                (true, "") => format!("| `{}` | {doc} |\n", part.name),
                (true, holds) => format!("| `{{\"{}\": …}}`, {holds} | {doc} |\n", part.name),
                (false, holds) => format!("| `{}` | {holds} | {doc} |\n", part.name),
            };
        }
    }
    page + &thresholds()
}

fn thresholds() -> String {
    let mut table = "\n## Thresholds of the rules\n\n| name | value | |\n|---|---|---|\n".to_owned();
    for of in THRESHOLDS {
        table += &format!("| `{}` | {} {} | {} |\n", of.name, of.value, of.unit, of.reason.trim());
    }
    table
}

/// A doc comment without the links of rustdoc.
fn plain(doc: &str) -> String {
    doc.replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

#[test]
fn every_field_is_documented() {
    let types = types(TYPES);
    assert!(types.iter().any(|of| of.name == "Report") && types.len() > 20, "the types were read");
    for of in &types {
        assert!(!of.doc.is_empty() && !of.parts.is_empty(), "{} says nothing", of.name);
        for part in &of.parts {
            assert!(!part.doc.is_empty(), "{}.{} says nothing", of.name, part.name);
        }
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/report.md");
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let (words, _) = text.split_once(MARK).expect("the page has its mark");
    let want = format!("{words}{}", page(&types));
    if std::env::var_os("WRITE").is_some() {
        return std::fs::write(&path, want).expect("the page can be written");
    }
    let differs = want.lines().zip(text.lines()).find(|(want, is)| want != is);
    assert!(
        want == text,
        "docs/report.md is not what the types say, from {differs:?} on: \
         `WRITE=1 cargo test -p thalweg-monitor --test schema` writes it anew"
    );
}

/// Checks that the names in a report's JSON are those of the page.
#[test]
fn names_in_json_are_those_of_the_page() {
    let mut analysis = thalweg_monitor::Analysis::new(thalweg_monitor::Options { ns_per_tick: 1.0, top: 1 });
    let report = analysis.report(&Default::default(), thalweg_monitor::Ending::default());
    let json = serde_json::to_value(&report).expect("a report is JSON");
    let types = types(TYPES);
    let check = |name: &str, value: &serde_json::Value| {
        let of = types.iter().find(|of| of.name == name).expect("a type");
        let mut want: Vec<&str> = of.parts.iter().map(|part| part.name.as_str()).collect();
        let mut is: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
        want.sort_unstable();
        is.sort_unstable();
        assert_eq!(is, want, "{name}");
    };
    check("Report", &json);
    check("SpaceInfo", &json["space"]);
    check("Window", &json["window"]);
    check("Verdict", &json["verdict"]);
    check("Throughput", &json["throughput"]);
    check("Latency", &json["latency"]);
    check("Waiting", &json["waiting"]);
    assert_eq!((json["schema"].as_str(), json["version"].as_u64()), (Some(SCHEMA), Some(u64::from(VERSION))));
}

/// Checks that the page describes every rule, in the order of the rules.
#[test]
fn every_rule_is_on_the_page() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/report.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (_, table) = page.split_once("| rule | kind | when |\n").expect("the page has the table");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let named: Vec<&str> = rows.map(|row| row.split('`').nth(1).expect("a name")).collect();
    assert_eq!(named, rule_names().collect::<Vec<_>>());
}
