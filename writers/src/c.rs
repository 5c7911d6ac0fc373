//! Functions for C and C++ on top of `thalweg_probe.h`: each packs its arguments into words at places known
//! at compile time, and appends the words to the element of its thread.

use super::{events, length_places, snake, tails, word_of, words};
use std::fmt::Write;
use thalweg_space::kind::FieldType;
use thalweg_space::kinds::{DescribedField, Description};

/// A header for C and C++ with a function `thalweg_emit_…` for each kind of event; `stem` makes its guard
/// unique.
pub fn c(kinds: &[Description], stem: &str) -> String {
    let guard = format!("THALWEG_WRITERS_{}_H", snake(stem).to_uppercase());
    let mut out =
        format!("/* Writers of events. Written by `thalweg kinds`. */\n#ifndef {guard}\n#define {guard}\n");
    out += "\n#include \"thalweg_ring.h\"\n";
    for kind in events(kinds) {
        described(&mut out, kind);
        writer(&mut out, kind);
    }
    out + "\n#endif\n"
}

/// Writes the tables from which the catalog's record of the kind is made.
fn described(out: &mut String, kind: &Description) {
    let name = snake(&kind.name);
    let mut line = |text: String| writeln!(out, "{text}").expect("a text");
    line(format!("\n/* {} */", comment(&kind.doc)));
    for field in kind.fields.iter().filter(|field| field.field_type == FieldType::Enum) {
        line(format!("static const struct thalweg_choice thalweg_choices_{name}_{}[] = {{", field.name));
        for (value, choice) in &field.choices {
            line(format!("    {{UINT64_C({value}), {}}},", text(choice)));
        }
        line("};".to_owned());
    }
    if !kind.fields.is_empty() {
        line(format!("static const struct thalweg_field thalweg_fields_{name}[] = {{"));
        for field in &kind.fields {
            let choices = if field.field_type == FieldType::Enum {
                format!("thalweg_choices_{name}_{}", field.name)
            } else {
                "0".to_owned()
            };
            let (unit, doc) = (text(&field.unit), text(&field.doc));
            let (code, count) = (field.field_type as u8, field.choices.len());
            line(format!("    {{{code}, {count}, {}, {unit}, {doc}, {choices}}},", text(&field.name)));
        }
        line("};".to_owned());
    }
    let fields = if kind.fields.is_empty() { "0".to_owned() } else { format!("thalweg_fields_{name}") };
    line(format!("THALWEG_SHARED struct thalweg_kind thalweg_kind_{name} = {{"));
    line(format!("    {}, {},", text(&kind.name), text(&kind.doc)));
    let (hash, count) = (kind.hash(), kind.fields.len());
    let first = if tails(kind).next().is_some() { 0 } else { 1 + words(kind) };
    line(format!("    UINT64_C({hash:#018x}), {fields}, {count}, {}, {first}, 0,", words(kind)));
    line("};".to_owned());
}

fn writer(out: &mut String, kind: &Description) {
    let name = snake(&kind.name);
    let parameters: Vec<String> = kind.fields.iter().map(parameter).collect();
    let names: Vec<String> = kind.fields.iter().flat_map(arguments).collect();
    let list = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
    let also: String = parameters.iter().map(|parameter| format!(", {parameter}")).collect();
    let given: String = names.iter().map(|name| format!(", {name}")).collect();
    let mut line = |text: String| writeln!(out, "{text}").expect("a text");
    line(format!(
        "THALWEG_HOT void thalweg_emit_{name}_at(struct thalweg_thread *thread, uint64_t ticks{also})"
    ));
    line("{".to_owned());
    let count = words(kind);
    let packed: Vec<String> =
        (0..count.max(1)).map(|word| word_of(kind, word, bits).unwrap_or_else(|| "0".to_owned())).collect();
    line(format!("    const uint64_t words[{}] = {{{}}};", count.max(1), packed.join(", ")));
    let tails: Vec<_> = tails(kind).map(|field| variable(&field.name)).collect();
    if tails.is_empty() {
        line(format!("    thalweg_put(thread, &thalweg_kind_{name}, ticks, words, {count});"));
    } else {
        let list: Vec<String> = tails.iter().map(|name| format!("{{{name}, {name}_bytes}}")).collect();
        line(format!("    const struct thalweg_tail tails[] = {{{}}};", list.join(", ")));
        let lengths: Vec<String> = length_places(kind).iter().map(usize::to_string).collect();
        line(format!("    static const unsigned char lengths[] = {{{}}};", lengths.join(", ")));
        let tail_count = tails.len();
        line(format!(
            "    thalweg_put_tails(thread, &thalweg_kind_{name}, ticks, words, {count}, tails, lengths, {tail_count});"
        ));
    }
    line("}".to_owned());
    line(format!("THALWEG_HOT void thalweg_emit_{name}({list})"));
    line("{".to_owned());
    line("    struct thalweg_thread *thread = thalweg_thread_here();".to_owned());
    line(format!("    if (thread) thalweg_emit_{name}_at(thread, thalweg_now(){given});"));
    line("}".to_owned());
}

fn bits(field: &DescribedField) -> String {
    let name = variable(&field.name);
    match field.field_type {
        FieldType::I8 => format!("(uint64_t)(uint8_t){name}"),
        FieldType::I16 => format!("(uint64_t)(uint16_t){name}"),
        FieldType::I32 => format!("(uint64_t)(uint32_t){name}"),
        FieldType::F32 => format!("thalweg_bits_f32({name})"),
        FieldType::F64 => format!("thalweg_bits_f64({name})"),
        FieldType::Bool => format!("(uint64_t)({name} ? 1 : 0)"),
        _ => format!("(uint64_t){name}"),
    }
}

fn parameter(field: &DescribedField) -> String {
    let name = variable(&field.name);
    let c_type = match field.field_type {
        FieldType::U8 | FieldType::Enum => "uint8_t",
        FieldType::U16 => "uint16_t",
        FieldType::U32 => "uint32_t",
        FieldType::I8 => "int8_t",
        FieldType::I16 => "int16_t",
        FieldType::I32 => "int32_t",
        FieldType::I64 => "int64_t",
        FieldType::F32 => "float",
        FieldType::F64 => "double",
        FieldType::Bool => "int",
        FieldType::U64 | FieldType::Name | FieldType::Site => "uint64_t",
        FieldType::Str => return format!("const char *{name}, size_t {name}_bytes"),
        FieldType::Bytes => return format!("const void *{name}, size_t {name}_bytes"),
    };
    format!("{c_type} {name}")
}

fn arguments(field: &DescribedField) -> Vec<String> {
    let name = variable(&field.name);
    let length = format!("{name}_bytes");
    if field.field_type.is_variable() { vec![name, length] } else { vec![name] }
}

/// A field's name as a variable of C; a word that C or C++ reserves, or that the function uses, is changed.
fn variable(name: &str) -> String {
    const TAKEN: &str = " alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const \
        const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete do double \
        dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new \
        noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict \
        return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true \
        try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq \
        thread ticks words tails lengths unix linux ";
    if TAKEN.contains(&format!(" {name} ")) { format!("{name}_") } else { name.to_owned() }
}

fn comment(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`").replace("*/", "* /")
}

/// A string literal of C; characters outside ASCII are unchanged, in UTF-8.
fn text(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // An octal escape gets all three digits, so that a following digit is not part of it; `?` is
            // escaped to avoid trigraphs.
            c if c.is_ascii_control() || c == '?' => out += &format!("\\{:03o}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}
