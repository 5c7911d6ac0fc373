//! The monitor's typed events: a struct for each kind, an enum of all kinds, and functions that read them.

use super::OBSERVED;
use crate::process;
use anyhow::{Context, Result, ensure};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use thalweg_space::kind::FieldType;
use thalweg_space::kinds::{DescribedField, Description, What};

/// `monitor/src/decoding/events.rs`.
pub(super) fn events(kinds: &[Description]) -> Result<String> {
    let mut names = HashSet::new();
    for kind in kinds {
        let name = type_name(kind);
        ensure!(names.insert(name.clone()), "two kinds would be called {name}: rename one");
    }
    let files = OBSERVED.map(|folder| format!("`kinds/{folder}.kinds`"));
    let mut out = format!(
        "//! The events that the monitor knows, typed. Written by `cargo xtask kinds` from {}.\n",
        files.join(", ")
    );
    out += "//!\n//! A field that a space of another version lacks has the value that its description gives. Numbers are widened to 64\n";
    out += "//! bits, so that a version may change their size; names and sites are the numbers by which the catalog knows them.\n\n";
    out +=
        "use thalweg_space::kind::{FieldSpec, FieldType};\nuse thalweg_space::reader::{Event, Fields};\n\n";
    out += "use crate::decoding::texts::{Text, Texts};\n\n";
    out += "/// A kind as it is looked for in a catalog.\npub(crate) struct KnownKind {\n    pub(crate) name: &'static str,\n";
    out += "    pub(crate) fields: &'static [FieldSpec],\n}\n\n";
    observation(&mut out, kinds);
    out += "/// The specification of a field that readers look for in a catalog.\npub(crate) const fn field(name: &'static str, field_type: FieldType) -> FieldSpec {\n";
    out += "    FieldSpec { name, field_type, unit: \"\", doc: \"\", choices: &[], absent: None }\n}\n\n";
    for kind in kinds {
        structure(&mut out, kind);
        for field in kind.fields.iter().filter(|field| field.field_type == FieldType::Enum) {
            choices(&mut out, kind, field);
        }
    }
    formatted(&out)
}

/// `monitor/src/decoding/rows.rs`.
pub(super) fn rows(rows: &[Description]) -> Result<String> {
    let mut out = "//! The live rows that the monitor knows, typed. Written by `cargo xtask kinds` from `kinds/*.kinds`.\n\n".to_owned();
    out += "use thalweg_space::RowSpec;\nuse thalweg_space::kind::{FieldSpec, FieldType};\n";
    out += "use thalweg_space::reader::{Cells, LiveView};\n\nuse crate::decoding::events::field;\n\n";
    out += "/// A live row.\n#[derive(Clone, Copy, Debug, PartialEq)]\npub enum Row {\n";
    for row in rows {
        doc(&mut out, "    ", &row.doc);
        writeln!(out, "    {}({}),", short_name(row), type_name(row)).expect("a text");
    }
    out += "}\n\n/// The kinds of row that a reader looks for, by name.\npub(crate) const ROWS: &[RowSpec] = &[\n";
    for row in rows {
        let What::Row { former } = row.what else { continue };
        let (name, cells) = (&row.name, type_name(row));
        writeln!(
            out,
            "    RowSpec {{ name: {name:?}, doc: \"\", former: {former:?}, cells: {cells}::CELLS }},"
        )
        .expect("a text");
    }
    out += "];\n\nimpl Row {\n    /// The row as the type of the kind at place `number` of [`ROWS`].\n";
    out += "    pub(crate) fn read(number: usize, cells: &Cells, view: &LiveView) -> Option<Row> {\n        Some(match number {\n";
    for (n, row) in rows.iter().enumerate() {
        let (short, name) = (short_name(row), type_name(row));
        writeln!(out, "            {n} => Row::{short}({name}::read(cells, view)),").expect("a text");
    }
    out += "            _ => return None,\n        })\n    }\n}\n\n";
    for row in rows {
        row_structure(&mut out, row);
        for field in row.fields.iter().filter(|field| field.field_type == FieldType::Enum) {
            choices(&mut out, row, field);
        }
    }
    formatted(&out)
}

fn row_structure(out: &mut String, row: &Description) {
    let name = type_name(row);
    doc(out, "", &row.doc);
    writeln!(out, "#[derive(Clone, Copy, Debug, Default, PartialEq)]\npub struct {name} {{").expect("a text");
    *out += "    /// The id of the object that the row shows.\n    pub id: u64,\n";
    for field in &row.fields {
        doc(out, "    ", &field.doc);
        writeln!(out, "    pub {}: {},", field_name(field), rust_type(row, field)).expect("a text");
    }
    *out += "}\n\n";
    writeln!(out, "impl {name} {{").expect("a text");
    specs(out, row, "CELLS");
    writeln!(out, "    fn read(cells: &Cells, view: &LiveView) -> {name} {{").expect("a text");
    let values = row.fields.iter().enumerate().map(|(n, field)| {
        let value = match field.field_type {
            FieldType::I8 | FieldType::I16 | FieldType::I32 | FieldType::I64 => {
                format!("cells.u64(view, {n}) as i64")
            }
            FieldType::F32 | FieldType::F64 => format!("f64::from_bits(cells.u64(view, {n}))"),
            FieldType::Bool => format!("cells.u64(view, {n}) != 0"),
            FieldType::Enum => format!("{}::of(cells.choice(view, {n}))", choices_name(row, field)),
            _ => format!("cells.u64(view, {n})"),
        };
        format!("{}: {value}", field_name(field))
    });
    let values = values.collect::<Vec<_>>().join(", ");
    writeln!(out, "        {name} {{ id: view.id, {values} }}\n    }}\n}}\n").expect("a text");
}

/// The name of the struct of a kind: `TaskReady` for the event `exec.task_ready`, `TaskRow` for the row
/// `exec.task`.
fn type_name(kind: &Description) -> String {
    let name = short_name(kind);
    if kind.what == What::Event { name } else { name + "Row" }
}

/// The name of a kind without its crate.
fn short_name(kind: &Description) -> String {
    camel_case(kind.name.split_once('.').map_or(kind.name.as_str(), |(_, name)| name))
}

fn camel_case(name: &str) -> String {
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.map(|part| part[..1].to_uppercase() + &part[1..]).collect()
}

fn choices_name(kind: &Description, field: &DescribedField) -> String {
    type_name(kind) + &camel_case(&field.name)
}

fn field_name(field: &DescribedField) -> String {
    match field.name.as_str() {
        "type" | "match" | "move" | "ref" | "in" | "loop" | "yield" | "self" => format!("r#{}", field.name),
        name => name.to_owned(),
    }
}

fn rust_type(kind: &Description, field: &DescribedField) -> String {
    match field.field_type {
        FieldType::I8 | FieldType::I16 | FieldType::I32 | FieldType::I64 => "i64".into(),
        FieldType::F32 | FieldType::F64 => "f64".into(),
        FieldType::Bool => "bool".into(),
        FieldType::Enum => choices_name(kind, field),
        FieldType::Str | FieldType::Bytes => "Text".into(),
        _ => "u64".into(),
    }
}

fn observation(out: &mut String, kinds: &[Description]) {
    let names: Vec<String> = kinds.iter().map(type_name).collect();
    *out += "/// One event of the observed program, decoded.\n#[derive(Clone, Copy, Debug, PartialEq)]\npub enum Observation {\n";
    for (kind, name) in kinds.iter().zip(&names) {
        doc(out, "    ", &kind.doc);
        writeln!(out, "    {name}({name}),").expect("a text");
    }
    *out += "}\n\n/// The kinds, by [`Observation::number`].\n";
    writeln!(out, "pub(crate) const KINDS: [KnownKind; {}] = [", kinds.len()).expect("a text");
    for (kind, name) in kinds.iter().zip(&names) {
        let text = format!("KnownKind {{ name: {:?}, fields: {name}::FIELDS }},", kind.name);
        writeln!(out, "    {text}").expect("a text");
    }
    *out += "];\n\nimpl Observation {\n    /// The place of the event's kind in [`KINDS`].\n    #[inline]\n";
    *out += "    pub(crate) fn number(&self) -> u16 {\n        match self {\n";
    for (n, name) in names.iter().enumerate() {
        writeln!(out, "            Observation::{name}(_) => {n},").expect("a text");
    }
    *out += "        }\n    }\n\n    /// The event as the type of the kind at place `number` of [`KINDS`].\n";
    *out += "    #[inline]\n";
    *out += "    pub(crate) fn read(number: u16, fields: &Fields, event: &Event<'_>, texts: &mut Texts) -> Option<Observation> {\n";
    *out += "        Some(match number {\n";
    for (n, (kind, name)) in kinds.iter().zip(&names).enumerate() {
        let texts =
            if kind.fields.iter().any(|field| field.field_type.is_variable()) { ", texts" } else { "" };
        writeln!(out, "            {n} => Observation::{name}({name}::read(fields, event{texts})),")
            .expect("a text");
    }
    *out += "            _ => return None,\n        })\n    }\n}\n\n";
}

fn structure(out: &mut String, kind: &Description) {
    let name = type_name(kind);
    doc(out, "", &kind.doc);
    let plain_default = kind.fields.iter().all(|field| field.absent.unwrap_or(0) == 0);
    let default = if plain_default { "Default, " } else { "" };
    writeln!(out, "#[derive(Clone, Copy, Debug, {default}PartialEq)]\npub struct {name} {{").expect("a text");
    for field in &kind.fields {
        doc(out, "    ", &field.doc);
        writeln!(out, "    pub {}: {},", field_name(field), rust_type(kind, field)).expect("a text");
    }
    *out += "}\n\n";
    if !plain_default {
        let values = kind.fields.iter().map(|field| {
            let value = match (field.field_type, field.absent.unwrap_or(0)) {
                (FieldType::Bool, value) => (value != 0).to_string(),
                (FieldType::Enum, _) => format!("{}::default()", choices_name(kind, field)),
                (FieldType::Str | FieldType::Bytes, _) => "Text::default()".to_owned(),
                (FieldType::F32 | FieldType::F64, _) => "0.0".to_owned(),
                (_, value) if value == i128::from(u64::MAX) => "u64::MAX".to_owned(),
                (_, value) => value.to_string(),
            };
            format!("{}: {value}", field_name(field))
        });
        let values = values.collect::<Vec<_>>().join(", ");
        writeln!(out, "impl Default for {name} {{\n    fn default() -> {name} {{\n        {name} {{ {values} }}\n    }}\n}}\n")
            .expect("a text");
    }
    writeln!(out, "impl From<{name}> for Observation {{\n    fn from(event: {name}) -> Observation {{")
        .expect("a text");
    writeln!(out, "        Observation::{name}(event)\n    }}\n}}\n").expect("a text");
    reading(out, kind, &name);
}

/// Writes the fields that are looked up, and the function that reads them.
fn reading(out: &mut String, kind: &Description, name: &str) {
    writeln!(out, "impl {name} {{").expect("a text");
    specs(out, kind, "FIELDS");
    *out += "    #[inline(always)]\n";
    let has_texts = kind.fields.iter().any(|field| field.field_type.is_variable());
    let texts = if has_texts { ", texts: &mut Texts" } else { "" };
    writeln!(out, "    fn read(fields: &Fields, event: &Event<'_>{texts}) -> {name} {{").expect("a text");
    if kind.fields.is_empty() {
        writeln!(out, "        let _ = (fields, event);\n        {name} {{}}\n    }}\n}}\n").expect("a text");
        return;
    }
    let offsets = kind.offsets();
    let words = kind
        .fields
        .iter()
        .zip(&offsets)
        .map(|(f, at)| at + f.field_type.bytes())
        .max()
        .unwrap_or(0)
        .div_ceil(8);
    let used: HashSet<usize> = kind
        .fields
        .iter()
        .zip(&offsets)
        .filter(|(field, _)| !field.field_type.is_variable())
        .map(|(_, at)| at / 8)
        .collect();
    let pattern: Vec<String> =
        (0..words).map(|n| if used.contains(&n) { format!("word_{n}") } else { "_".into() }).collect();
    writeln!(out, "        if let Some([{}]) = fields.words(event) {{", pattern.join(", ")).expect("a text");
    let same = kind
        .fields
        .iter()
        .zip(&offsets)
        .enumerate()
        .map(|(n, (field, at))| format!("{}: {}", field_name(field), of_words(kind, field, n, *at)));
    writeln!(out, "            return {name} {{ {} }};\n        }}", same.collect::<Vec<_>>().join(", "))
        .expect("a text");
    let found = kind
        .fields
        .iter()
        .enumerate()
        .map(|(n, field)| format!("{}: {}", field_name(field), by_name(kind, field, n)));
    writeln!(out, "        {name} {{ {} }}\n    }}\n}}\n", found.collect::<Vec<_>>().join(", "))
        .expect("a text");
}

/// Writes the constant that describes the fields which are looked up by their names.
fn specs(out: &mut String, kind: &Description, constant: &str) {
    writeln!(out, "    const {constant}: &'static [FieldSpec] = &[").expect("a text");
    for field in &kind.fields {
        let base = format!("field({:?}, FieldType::{:?})", field.name, field.field_type);
        let absent = field.absent.map(|value| format!(".absent({value})")).unwrap_or_default();
        if field.field_type == FieldType::Enum {
            let choices: Vec<String> =
                field.choices.iter().map(|(value, name)| format!("({value}, {name:?})")).collect();
            let choices = choices.join(", ");
            writeln!(out, "        FieldSpec {{ choices: &[{choices}], ..{base} }}{absent},")
                .expect("a text");
        } else {
            writeln!(out, "        {base}{absent},").expect("a text");
        }
    }
    *out += "    ];\n\n";
}

/// The expression for a field for the case that the event's layout is that of the description.
fn of_words(kind: &Description, field: &DescribedField, n: usize, at: usize) -> String {
    let (word, shift) = (format!("word_{}", at / 8), at % 8 * 8);
    let shifted = if shift == 0 { word } else { format!("({word} >> {shift})") };
    match field.field_type {
        FieldType::U8 => format!("u64::from({shifted} as u8)"),
        FieldType::U16 => format!("u64::from({shifted} as u16)"),
        FieldType::U32 => format!("u64::from({shifted} as u32)"),
        FieldType::I8 => format!("i64::from({shifted} as i8)"),
        FieldType::I16 => format!("i64::from({shifted} as i16)"),
        FieldType::I32 => format!("i64::from({shifted} as i32)"),
        FieldType::I64 => format!("{shifted} as i64"),
        FieldType::F32 => format!("f64::from(f32::from_bits({shifted} as u32))"),
        FieldType::F64 => format!("f64::from_bits({shifted})"),
        FieldType::Bool => format!("{shifted} as u8 != 0"),
        FieldType::Enum => format!("{}::of(u64::from({shifted} as u8))", choices_name(kind, field)),
        FieldType::U64 | FieldType::Name | FieldType::Site => shifted,
        FieldType::Str | FieldType::Bytes => by_name(kind, field, n),
    }
}

/// The expression for a field if its position was looked up by its name.
fn by_name(kind: &Description, field: &DescribedField, n: usize) -> String {
    match field.field_type {
        FieldType::I8 | FieldType::I16 | FieldType::I32 | FieldType::I64 => {
            format!("fields.u64(event, {n}) as i64")
        }
        FieldType::F32 | FieldType::F64 => format!("fields.f64(event, {n})"),
        FieldType::Bool => format!("fields.u64(event, {n}) != 0"),
        FieldType::Enum => format!("{}::of(fields.choice(event, {n}))", choices_name(kind, field)),
        FieldType::Str | FieldType::Bytes => format!("texts.keep(fields.bytes(event, {n}))"),
        _ => format!("fields.u64(event, {n})"),
    }
}

fn choices(out: &mut String, kind: &Description, field: &DescribedField) {
    let name = choices_name(kind, field);
    doc(out, "", &field.doc);
    writeln!(out, "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\npub enum {name} {{")
        .expect("a text");
    for (n, (_, choice)) in field.choices.iter().enumerate() {
        writeln!(out, "    /// `{choice}`.").expect("a text");
        let default = if n == 0 { "    #[default]\n" } else { "" };
        writeln!(out, "{default}    {},", camel_case(choice)).expect("a text");
    }
    *out += "    /// A value that this version of the reader does not know.\n    Unknown,\n}\n\n";
    writeln!(
        out,
        "impl {name} {{\n    #[inline]\n    fn of(number: u64) -> {name} {{\n        match number {{"
    )
    .expect("a text");
    for (value, choice) in &field.choices {
        writeln!(out, "            {value} => {name}::{},", camel_case(choice)).expect("a text");
    }
    writeln!(out, "            _ => {name}::Unknown,\n        }}\n    }}\n}}\n").expect("a text");
}

/// Writes a doc comment. Brackets of links are removed, because the links refer to items of the kinds' own
/// crate.
fn doc(out: &mut String, indent: &str, doc: &str) {
    let doc = doc.replace("[`", "`").replace("`]", "`");
    let doc = if doc.is_empty() { "Not described.".to_owned() } else { doc };
    writeln!(out, "{indent}/// {doc}").expect("a text");
}

/// The text formatted by `rustfmt`.
fn formatted(text: &str) -> Result<String> {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.arg("--config-path").arg(process::root()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut rustfmt = rustfmt.spawn().context("could not start rustfmt: `rustup component add rustfmt`")?;
    rustfmt.stdin.take().expect("it is piped").write_all(text.as_bytes())?;
    let output = rustfmt.wait_with_output()?;
    ensure!(output.status.success(), "rustfmt refused what was generated");
    Ok(String::from_utf8(output.stdout)?)
}
