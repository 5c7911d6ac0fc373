//! Kinds of event and of live row as constants for C, Java and Python: names, places, types and choices.
//!
//! Every language has the same constants. A kind has its name, its schema's hash, and the number of words of
//! its fixed part; a field has its byte offset in the fixed part (`AT`; a cell of a live row has its number,
//! `CELL`), its type (`TYPE`), and each of its choices (`CHOICE`).

use std::fmt::Write;
use thalweg_space::kinds::{DescribedField, Description, What};

const NOTE: &str = "Written by `cargo xtask kinds` from the files in kinds/.";

/// The names of the constants with the position of each field.
fn places(kind: &Description) -> Vec<(&'static str, usize)> {
    let is_row = kind.what != What::Event;
    let place = |at: usize| if is_row { ("CELL", at / 8) } else { ("AT", at) };
    kind.offsets().into_iter().map(place).collect()
}

fn words(kind: &Description) -> usize {
    let ends = kind.fields.iter().zip(kind.offsets());
    ends.map(|(field, at)| at + field.field_type.bytes()).max().unwrap_or(0).div_ceil(8)
}

/// `exec.task_ready` → `EXEC_TASK_READY`.
fn capitals(name: &str) -> String {
    name.to_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn field_type(field: &DescribedField) -> String {
    format!("FIELD_{}", format!("{:?}", field.field_type).to_uppercase())
}

fn doc(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`").replace("*/", "* /")
}

/// `bindings/c/thalweg_kinds.h`.
pub(super) fn c(kinds: &[Description]) -> String {
    let mut out = format!("/* The kinds of event and of live row that Thalweg has. {NOTE} */\n");
    out += "#ifndef THALWEG_KINDS_H\n#define THALWEG_KINDS_H\n\n#include \"thalweg_layout.h\"\n";
    for kind in kinds {
        let word = if kind.what == What::Event { "KIND" } else { "ROW" };
        let name = format!("THALWEG_{word}_{}", capitals(&kind.name));
        let mut line = |text: String| writeln!(out, "{text}").expect("a text");
        line(format!("\n/* {} */", doc(&kind.doc)));
        line(format!("#define {name}_NAME {:?}", kind.name));
        line(format!("#define {name}_HASH UINT64_C({:#018x})", kind.hash()));
        if kind.what == What::Event {
            line(format!("#define {name}_WORDS UINT32_C({})", words(kind)));
        }
        for (field, (place, at)) in kind.fields.iter().zip(places(kind)) {
            let of = capitals(&field.name);
            line(format!("/* {} */", doc(&field.doc)));
            line(format!("#define {name}_{place}_{of} UINT32_C({at})"));
            line(format!("#define {name}_TYPE_{of} THALWEG_{}", field_type(field)));
            for (value, choice) in &field.choices {
                line(format!("#define {name}_CHOICE_{of}_{} UINT32_C({value})", capitals(choice)));
            }
        }
    }
    out + "\n#endif\n"
}

/// `bindings/java/org/thalweg/Kinds.java`.
pub(super) fn java(kinds: &[Description]) -> String {
    let mut out = "package org.thalweg;\n\n".to_owned();
    writeln!(out, "/** The kinds of event and of live row that Thalweg has. {NOTE} */").expect("a text");
    out += "public final class Kinds {\n    private Kinds() {}\n";
    for kind in kinds {
        let mut line = |text: String| writeln!(out, "{text}").expect("a text");
        let parts = kind.name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        let class: String = parts.map(|part| part[..1].to_uppercase() + &part[1..]).collect();
        let end = if kind.what == What::Event { "" } else { "Row" };
        line(format!("\n    /** {} */", doc(&kind.doc)));
        line(format!("    public static final class {class}{end} {{"));
        line(format!("        private {class}{end}() {{}}"));
        line(format!("        public static final String NAME = {:?};", kind.name));
        line(format!("        public static final long HASH = {:#018x}L;", kind.hash()));
        if kind.what == What::Event {
            line(format!("        public static final int WORDS = {};", words(kind)));
        }
        for (field, (place, at)) in kind.fields.iter().zip(places(kind)) {
            let of = capitals(&field.name);
            line(format!("        /** {} */", doc(&field.doc)));
            line(format!("        public static final int {place}_{of} = {at};"));
            line(format!("        public static final int TYPE_{of} = Layout.{};", field_type(field)));
            for (value, choice) in &field.choices {
                line(format!("        public static final int CHOICE_{of}_{} = {value};", capitals(choice)));
            }
        }
        line("    }".to_owned());
    }
    out + "}\n"
}

/// `bindings/python/thalweg_kinds.py`.
pub(super) fn python(kinds: &[Description]) -> String {
    let mut out = format!(
        "\"\"\"The kinds of event and of live row that Thalweg has, by name. {NOTE}\n\n\
         KINDS[\"exec.task_ready\"].fields[\"task\"].at is the byte of its fixed part where a field is;\n\
         ROWS[\"exec.task\"].cells[\"state\"].at is the number of a cell.\n\"\"\"\n\n"
    );
    out += "from collections import namedtuple\n\nimport thalweg_layout as layout\n\n";
    out += "Kind = namedtuple(\"Kind\", \"name hash words doc fields\")\n";
    out += "Row = namedtuple(\"Row\", \"name hash doc cells\")\n";
    out += "Field = namedtuple(\"Field\", \"name type at unit choices doc\")\n\n";
    for (list, is_event) in [("KINDS", true), ("ROWS", false)] {
        writeln!(out, "{list} = {{").expect("a text");
        for kind in kinds.iter().filter(|kind| (kind.what == What::Event) == is_event) {
            let mut line = |text: String| writeln!(out, "{text}").expect("a text");
            let words = if is_event { format!("{}, ", words(kind)) } else { String::new() };
            let class = if is_event { "Kind" } else { "Row" };
            line(format!(
                "    {:?}: {class}({:?}, {:#018x}, {words}{:?}, {{",
                kind.name,
                kind.name,
                kind.hash(),
                doc(&kind.doc)
            ));
            for (field, (_, at)) in kind.fields.iter().zip(places(kind)) {
                let choices: Vec<String> =
                    field.choices.iter().map(|(value, choice)| format!("{choice:?}: {value}")).collect();
                line(format!(
                    "        {:?}: Field({:?}, layout.{}, {at}, {:?}, {{{}}}, {:?}),",
                    field.name,
                    field.name,
                    field_type(field),
                    field.unit,
                    choices.join(", "),
                    doc(&field.doc)
                ));
            }
            line("    }),".to_owned());
        }
        out += "}\n";
        if is_event {
            out.push('\n');
        }
    }
    out
}
