//! `cargo xtask layout`: the constants of the space's layout for other languages, made from the description
//! in Rust.
//!
//! `space/src/layout.rs` is parsed as text, so that names and comments are copied, and a new constant is in
//! all languages after the next run. A test compares the committed files with the generated ones.

use crate::committed::{self, Files};
use crate::process;
use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use syn::{Attribute, BinOp, Expr, Item, Lit};

const NOTE: &str = "Written by `cargo xtask layout` from space/src/layout.rs and space/src/kind.rs.";

/// A constant of the layout.
struct Constant {
    /// The name with its module: `ELEMENT_HEAD`.
    name: String,
    value: u64,
    doc: String,
}

/// The generated files, with their content.
fn files() -> Result<Files> {
    let constants = constants()?;
    Ok(vec![
        ("bindings/c/thalweg_layout.h".to_owned(), c(&constants)),
        ("bindings/java/org/thalweg/Layout.java".to_owned(), java(&constants)),
        ("bindings/python/thalweg_layout.py".to_owned(), python(&constants)),
    ])
}

pub(crate) fn run(arguments: lexopt::Parser) -> Result<ExitCode> {
    committed::write(arguments, files)
}

fn constants() -> Result<Vec<Constant>> {
    let mut all = Vec::new();
    let mut known = HashMap::new();
    let layout = parse(&process::root().join("space/src/layout.rs"))?;
    // The constants of the whole layout come first, because the constants in modules refer to them.
    take(&layout.items, "", &mut known, &mut all)?;
    for item in &layout.items {
        if let Item::Mod(module) = item
            && let Some((_, items)) = &module.content
        {
            take(items, &format!("{}_", module.ident.to_string().to_uppercase()), &mut known, &mut all)?;
        }
    }
    field_types(&mut all)?;
    Ok(all)
}

fn parse(path: &Path) -> Result<syn::File> {
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    syn::parse_file(&text).with_context(|| format!("could not parse {}", path.display()))
}

/// Evaluates the constants among `items`, whose names begin with `prefix`.
fn take(
    items: &[Item],
    prefix: &str,
    known: &mut HashMap<String, u64>,
    all: &mut Vec<Constant>,
) -> Result<()> {
    let constants = items.iter().filter_map(|item| match item {
        Item::Const(constant) if constant.ident != "_" => Some(constant),
        _ => None,
    });
    let constants: Vec<_> = constants.map(|c| (format!("{prefix}{}", c.ident), c)).collect();
    // A constant may refer to a later one, so all constants are evaluated repeatedly; each round succeeds for
    // at least one more.
    for _ in &constants {
        for (name, constant) in &constants {
            if let Ok(value) = value(&constant.expr, prefix, known) {
                known.insert(name.clone(), value);
            }
        }
    }
    for (name, constant) in constants {
        let value = value(&constant.expr, prefix, known).with_context(|| format!("the value of {name}"))?;
        all.push(Constant { name, value, doc: doc(&constant.attrs) });
    }
    Ok(())
}

/// The value of an expression; only the forms that the layout uses are supported.
fn value(expression: &Expr, prefix: &str, known: &HashMap<String, u64>) -> Result<u64> {
    Ok(match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse()?,
            Lit::ByteStr(bytes) => u64::from_le_bytes(bytes.value().try_into().ok().context("eight bytes")?),
            _ => bail!("neither a number nor bytes"),
        },
        Expr::Binary(binary) => {
            let (left, right) = (value(&binary.left, prefix, known)?, value(&binary.right, prefix, known)?);
            match binary.op {
                BinOp::Add(_) => left + right,
                BinOp::Sub(_) => left - right,
                BinOp::Mul(_) => left * right,
                BinOp::Shl(_) => left << right,
                _ => bail!("an operator that this does not know"),
            }
        }
        Expr::Path(path) => {
            let parts: Vec<String> = path.path.segments.iter().map(|s| s.ident.to_string()).collect();
            let name = match parts.as_slice() {
                [name] => format!("{prefix}{name}"),
                [up, name] if up == "super" => name.clone(),
                [up, module, name] if up == "super" => format!("{}_{name}", module.to_uppercase()),
                _ => bail!("the path {}", parts.join("::")),
            };
            *known.get(&name).with_context(|| format!("{name} is not known"))?
        }
        // `u64::from_le_bytes(*b"…")`.
        Expr::Call(call) if call.args.len() == 1 => value(&call.args[0], prefix, known)?,
        Expr::Unary(unary) => value(&unary.expr, prefix, known)?,
        Expr::Paren(paren) => value(&paren.expr, prefix, known)?,
        _ => bail!("an expression that this does not know"),
    })
}

/// The codes of the types of fields.
fn field_types(all: &mut Vec<Constant>) -> Result<()> {
    for item in parse(&process::root().join("space/src/kind.rs"))?.items {
        let Item::Enum(item) = item else { continue };
        if item.ident != "FieldType" {
            continue;
        }
        for variant in item.variants {
            let (_, code) = variant.discriminant.context("a type of field without a code")?;
            let value = value(&code, "", &HashMap::new())?;
            let name = format!("FIELD_{}", variant.ident.to_string().to_uppercase());
            all.push(Constant { name, value, doc: doc(&variant.attrs) });
        }
        return Ok(());
    }
    bail!("space/src/kind.rs has no `enum FieldType`")
}

/// The doc comment in one line, without the marks of rustdoc's links.
fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`")
}

/// The number as text: magic numbers in hexadecimal, because that is easier to read.
fn number(constant: &Constant) -> String {
    if constant.value > u64::from(u32::MAX) {
        format!("{:#018x}", constant.value)
    } else {
        constant.value.to_string()
    }
}

fn c(constants: &[Constant]) -> String {
    let mut out = format!("/* The layout of a Thalweg space. {NOTE} */\n");
    out += "#ifndef THALWEG_LAYOUT_H\n#define THALWEG_LAYOUT_H\n\n#include <stdint.h>\n\n";
    for constant in constants {
        comment(&mut out, &constant.doc, "/* ", " */");
        let wide = if constant.value > u64::from(u32::MAX) { "UINT64_C" } else { "UINT32_C" };
        writeln!(out, "#define THALWEG_{} {wide}({})", constant.name, number(constant)).expect("a text");
    }
    out + "\n#endif\n"
}

fn java(constants: &[Constant]) -> String {
    let mut out = "package org.thalweg;\n\n".to_owned();
    writeln!(out, "/** The layout of a Thalweg space. {NOTE} */").expect("a text");
    out += "public final class Layout {\n    private Layout() {}\n";
    for constant in constants {
        out.push('\n');
        comment(&mut out, &constant.doc, "    /** ", " */");
        let long = constant.value > i32::MAX as u64;
        let (kind, end) = if long { ("long", "L") } else { ("int", "") };
        let line = format!("public static final {kind} {} = {}{end};", constant.name, number(constant));
        writeln!(out, "    {line}").expect("a text");
    }
    out + "}\n"
}

fn python(constants: &[Constant]) -> String {
    let mut out = format!("\"\"\"The layout of a Thalweg space. {NOTE}\"\"\"\n\n");
    for constant in constants {
        comment(&mut out, &constant.doc, "# ", "");
        writeln!(out, "{} = {}", constant.name, number(constant)).expect("a text");
    }
    out
}

fn comment(out: &mut String, doc: &str, begin: &str, end: &str) {
    if !doc.is_empty() {
        writeln!(out, "{begin}{doc}{end}").expect("a text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_files_agree_with_the_layout() {
        committed::assert_up_to_date(files().unwrap(), "layout");
    }

    #[test]
    fn constants_are_chained() {
        let constants = constants().unwrap();
        let value = |name: &str| constants.iter().find(|c| c.name == name).map(|c| c.value);
        assert_eq!(value("BLOCK_HEADER"), Some(32));
        assert_eq!(value("BLOCK_BYTES_MAX"), Some(1 << 26));
        assert_eq!(value("IDENTITY_MAGIC_VALUE"), Some(u64::from_le_bytes(*b"thalwegS")));
        assert_eq!(value("ELEMENT_DATA"), Some(4096));
        assert_eq!(value("FIELD_BYTES"), Some(16));
    }
}
