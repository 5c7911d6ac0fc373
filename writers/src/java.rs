//! A class for Java on top of the agent's `Writer`: each function packs its arguments into words at places
//! known at compile time, and appends the words to the element of its thread.

use super::{events, length_places, snake, tails, word_of, words};
use std::fmt::Write;
use thalweg_space::kind::FieldType;
use thalweg_space::kinds::{DescribedField, Description};

/// A class for Java with a function `emit…` for each kind of event, in the given package, if any; `stem` is
/// the stem of the file, from which the class gets its name.
pub fn java(kinds: &[Description], package: &str, stem: &str) -> String {
    let mut out = String::new();
    if !package.is_empty() {
        writeln!(out, "package {package};\n").expect("a text");
    }
    if package != AGENT {
        for class in ["Clock", "Kind", "Writer"] {
            writeln!(out, "import {AGENT}.{class};").expect("a text");
        }
        out += "\n";
    }
    let class = camel(stem, true);
    out += "/** Writers of events. Written by `thalweg kinds`. */\n";
    writeln!(out, "public final class {class}Kinds {{\n    private {class}Kinds() {{}}").expect("a text");
    for kind in events(kinds) {
        described(&mut out, kind);
        writer(&mut out, kind);
    }
    out + "}\n"
}

/// The package of Thalweg's agent.
const AGENT: &str = "org.thalweg.agent";

/// Writes the data from which a catalog's record of the kind is made.
fn described(out: &mut String, kind: &Description) {
    let mut line = |text: String| writeln!(out, "{text}").expect("a text");
    line(format!("\n    /** {} */", comment(&kind.doc)));
    let (name, hash, words) = (constant(kind), kind.hash(), words(kind));
    let event_words = if tails(kind).next().is_some() { 0 } else { 1 + words };
    line(format!("    public static final Kind {name} = new Kind("));
    line(format!("        {}, {}, {hash:#018x}L, {event_words}", text(&kind.name), text(&kind.doc)));
    for field in &kind.fields {
        let choices: Vec<(String, String)> =
            field.choices.iter().map(|(value, name)| (format!("{value}L"), text(name))).collect();
        let (values, names): (Vec<_>, Vec<_>) = choices.into_iter().unzip();
        let (code, unit, doc) = (field.field_type as u8, text(&field.unit), text(&field.doc));
        let (values, names) = (values.join(", "), names.join(", "));
        line(format!(
            "        , new Kind.Field({code}, {}, {unit}, {doc}, new long[] {{{values}}}, new String[] {{{names}}})",
            text(&field.name)
        ));
    }
    line("    );".to_owned());
}

fn writer(out: &mut String, kind: &Description) {
    let parameters: Vec<String> = kind.fields.iter().map(parameter).collect();
    let given: String = kind.fields.iter().map(|field| format!(", {}", variable(&field.name))).collect();
    let also: String = parameters.iter().map(|parameter| format!(", {parameter}")).collect();
    let (name, function) = (constant(kind), format!("emit{}", camel(&snake(&kind.name), true)));
    let packed: Vec<String> =
        (0..words(kind)).map(|word| word_of(kind, word, bits).unwrap_or_else(|| "0L".to_owned())).collect();
    let mut line = |text: String| writeln!(out, "{text}").expect("a text");
    line(format!("    public static void {function}({}) {{", parameters.join(", ")));
    line("        Writer writer = Writer.here();".to_owned());
    line(format!("        if (writer != null) {function}At(writer, Clock.now(){given});"));
    line("    }".to_owned());
    line(format!("    public static void {function}At(Writer writer, long ticks{also}) {{"));
    let texts: Vec<String> = tails(kind).map(|field| variable(&field.name)).collect();
    if texts.is_empty() {
        let words: String = packed.iter().map(|word| format!(", {word}")).collect();
        line(format!("        writer.put({name}, ticks{words});"));
    } else {
        let places: Vec<String> = length_places(kind).iter().map(usize::to_string).collect();
        let bytes: Vec<String> = tails(kind)
            .map(|field| match field.field_type {
                FieldType::Str => format!("Kind.bytes({})", variable(&field.name)),
                _ => variable(&field.name),
            })
            .collect();
        let (words, bytes, places) = (packed.join(", "), bytes.join(", "), places.join(", "));
        line(format!(
            "        writer.putTails({name}, ticks, new long[] {{{words}}}, new byte[][] {{{bytes}}}, new int[] {{{places}}});"
        ));
    }
    line("    }".to_owned());
}

fn bits(field: &DescribedField) -> String {
    let name = variable(&field.name);
    match field.field_type {
        FieldType::U8 | FieldType::I8 | FieldType::Enum => format!("({name} & 0xffL)"),
        FieldType::U16 | FieldType::I16 => format!("({name} & 0xffffL)"),
        FieldType::U32 | FieldType::I32 => format!("({name} & 0xffffffffL)"),
        FieldType::F32 => format!("(Float.floatToRawIntBits({name}) & 0xffffffffL)"),
        FieldType::F64 => format!("Double.doubleToRawLongBits({name})"),
        FieldType::Bool => format!("({name} ? 1L : 0L)"),
        _ => name,
    }
}

fn parameter(field: &DescribedField) -> String {
    let java_type = match field.field_type {
        FieldType::U8 | FieldType::Enum | FieldType::U16 | FieldType::I32 => "int",
        FieldType::I8 => "byte",
        FieldType::I16 => "short",
        FieldType::U32 | FieldType::U64 | FieldType::I64 | FieldType::Name | FieldType::Site => "long",
        FieldType::F32 => "float",
        FieldType::F64 => "double",
        FieldType::Bool => "boolean",
        FieldType::Str => "String",
        FieldType::Bytes => "byte[]",
    };
    format!("{java_type} {}", variable(&field.name))
}

/// A field's name as a Java variable: a word that Java reserves, or that the function uses, is changed.
fn variable(name: &str) -> String {
    const TAKEN: &str = " abstract assert boolean break byte case catch char class const continue default do double else enum extends \
        false final finally float for goto if implements import instanceof int interface long native new null package private \
        protected public return short static strictfp super switch synchronized this throw throws transient true try void \
        volatile while _ writer ticks ";
    if TAKEN.contains(&format!(" {name} ")) { format!("{name}_") } else { name.to_owned() }
}

/// `SHOP_ORDER_PLACED`.
fn constant(kind: &Description) -> String {
    snake(&kind.name).to_uppercase()
}

/// `order_placed` → `OrderPlaced`.
fn camel(name: &str, mut upper: bool) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if !c.is_alphanumeric() {
            upper = true;
        } else if std::mem::take(&mut upper) {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}

fn comment(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`").replace("*/", "* /").replace('\\', "&#92;")
}

/// A string literal of Java; characters outside ASCII are escaped, so that the compiler's encoding does not
/// change them.
fn text(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            // A Unicode escape of a line end would end the line, because Java replaces such escapes before it
            // parses literals.
            c if c.is_ascii_control() => out += &format!("\\{:03o}", c as u32),
            c => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    out + "\""
}
