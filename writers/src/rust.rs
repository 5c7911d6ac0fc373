//! Generates structs with `#[derive(Kind)]`, which `thalweg_probe::emit` or a `Writer` of `thalweg_space`
//! writes.

use super::events;
use std::fmt::Write;
use thalweg_space::kind::FieldType;
use thalweg_space::kinds::{DescribedField, Description};

/// Rust structs for the kinds of event, each with `#[derive(Kind)]`.
pub fn rust(kinds: &[Description]) -> String {
    let mut out = "// Written by `thalweg kinds`: the program needs the crate `thalweg-space`.\n".to_owned();
    for kind in events(kinds) {
        for field in kind.fields.iter().filter(|field| field.field_type == FieldType::Enum) {
            choices(&mut out, kind, field);
        }
        structure(&mut out, kind);
    }
    out
}

fn structure(out: &mut String, kind: &Description) {
    let mut line = |text: String| writeln!(out, "{text}").expect("a text");
    line(format!("\n/// {}", or(&kind.doc, "An event.")));
    line("#[derive(Clone, Copy, Debug, thalweg_space::Kind)]".to_owned());
    line(format!("#[kind(name = {:?})]", kind.name));
    let borrows = if super::tails(kind).next().is_some() { "<'a>" } else { "" };
    line(format!("pub struct {}{borrows} {{", type_name(&kind.name)));
    for field in &kind.fields {
        line(format!("    /// {}", or(&field.doc, "A field.")));
        let mut about = Vec::new();
        if !field.unit.is_empty() {
            about.push(format!("unit = {:?}", field.unit));
        }
        about.extend(field.absent.map(|value| format!("absent = {value}")));
        if !about.is_empty() {
            line(format!("    #[field({})]", about.join(", ")));
        }
        line(format!("    pub {}: {},", identifier(&field.name), rust_type(kind, field)));
    }
    line("}".to_owned());
}

fn choices(out: &mut String, kind: &Description, field: &DescribedField) {
    let name = type_name(&kind.name) + &camel(&field.name);
    let mut line = |text: String| writeln!(out, "{text}").expect("a text");
    line(format!("\n/// {}", or(&field.doc, "A choice.")));
    line("#[derive(Clone, Copy, Debug, PartialEq, Eq, thalweg_space::KindEnum)]".to_owned());
    line(format!("pub enum {name} {{"));
    for (value, choice) in &field.choices {
        line(format!("    /// `{choice}`.\n    {} = {value},", camel(choice)));
    }
    line("}".to_owned());
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// `shop.order_placed` → `OrderPlaced`.
fn type_name(name: &str) -> String {
    camel(name.split_once('.').map_or(name, |(_, name)| name))
}

fn camel(name: &str) -> String {
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.map(|part| part[..1].to_uppercase() + &part[1..]).collect()
}

fn identifier(name: &str) -> String {
    const KEYWORDS: [&str; 39] = [
        "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
        "false", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub",
        "ref", "return", "static", "struct", "super", "trait", "true", "type", "unsafe", "use", "where",
        "while", "yield", "try",
    ];
    match name {
        "self" | "Self" | "crate" | "super" => format!("{name}_"),
        _ if KEYWORDS.contains(&name) => format!("r#{name}"),
        _ => name.to_owned(),
    }
}

fn rust_type(kind: &Description, field: &DescribedField) -> String {
    match field.field_type {
        FieldType::Name => "thalweg_space::NameRef".to_owned(),
        FieldType::Site => "thalweg_space::SiteRef".to_owned(),
        FieldType::Enum => type_name(&kind.name) + &camel(&field.name),
        FieldType::Str => "&'a str".to_owned(),
        FieldType::Bytes => "&'a [u8]".to_owned(),
        number => number.name().to_owned(),
    }
}
