//! The kinds that a crate declares, from its source.

use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use syn::{Attribute, Expr, Fields, Item, ItemEnum, ItemStruct, Lit, Meta, Type};
use thalweg_space::kind::FieldType;
use thalweg_space::kinds::{DescribedField, Description, What};

/// The choices of each enum, by the enum's name.
type Choices = HashMap<String, Vec<(u64, String)>>;

/// All structs with `#[derive(Kind)]` or `#[derive(Row)]` below a folder, by file and place in it.
pub(super) fn kinds(folder: &Path) -> Result<Vec<Description>> {
    let mut structs = Vec::new();
    let mut choices = Choices::new();
    for path in rust_files(folder)? {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        // Files without a struct that derives `Kind` or `Row` are skipped, because parsing them would take
        // most of the time.
        if text.contains("#[derive(") && ["Kind", "Row)"].iter().any(|name| text.contains(name)) {
            let file =
                syn::parse_file(&text).with_context(|| format!("could not parse {}", path.display()))?;
            take(file.items, &mut structs, &mut choices)?;
        }
    }
    described_all(&structs, &choices)
}

fn described_all(structs: &[ItemStruct], choices: &Choices) -> Result<Vec<Description>> {
    structs.iter().map(|item| describe(item, choices).with_context(|| item.ident.to_string())).collect()
}

/// The kinds that a text in Rust declares.
#[cfg(test)]
pub(super) fn kinds_in(text: &str) -> Result<Vec<Description>> {
    let (mut structs, mut choices) = (Vec::new(), Choices::new());
    take(syn::parse_file(text)?.items, &mut structs, &mut choices)?;
    described_all(&structs, &choices)
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn take(items: Vec<Item>, structs: &mut Vec<ItemStruct>, choices: &mut Choices) -> Result<()> {
    for item in items {
        match item {
            Item::Struct(item) if derives(&item.attrs, "Kind") || derives(&item.attrs, "Row") => {
                structs.push(item)
            }
            Item::Enum(item) if derives(&item.attrs, "KindEnum") => {
                choices.insert(item.ident.to_string(), choices_of(&item)?);
            }
            // `kinds! { … }` contains only structs.
            Item::Macro(item) if item.mac.path.is_ident("kinds") => {
                take(item.mac.parse_body::<syn::File>()?.items, structs, choices)?;
            }
            Item::Mod(module) if !module.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) => {
                take(module.content.map(|(_, items)| items).unwrap_or_default(), structs, choices)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn derives(attributes: &[Attribute], name: &str) -> bool {
    let mut found = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|segment| segment.ident == name);
            Ok(())
        });
    }
    found
}

fn choices_of(item: &ItemEnum) -> Result<Vec<(u64, String)>> {
    let mut next = 0;
    let choice = |variant: &syn::Variant| {
        let value = match &variant.discriminant {
            Some((_, value)) => u64::try_from(number(value)?)?,
            None => next,
        };
        next = value + 1;
        Ok((value, snake_case(&variant.ident.to_string())))
    };
    item.variants.iter().map(choice).collect()
}

fn describe(item: &ItemStruct, choices: &Choices) -> Result<Description> {
    let (mut name, mut former) = (None, None);
    let is_row = derives(&item.attrs, "Row");
    let own = if is_row { "row" } else { "kind" };
    for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident(own)) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                name = Some(meta.value()?.parse::<syn::LitStr>()?.value());
            } else {
                former = Some(meta.value()?.parse::<syn::LitInt>()?.base10_parse()?);
            }
            Ok(())
        })?;
    }
    let what = if is_row { What::Row { former } } else { What::Event };
    let fields = match &item.fields {
        Fields::Named(fields) => {
            fields.named.iter().map(|field| described(field, choices)).collect::<Result<_>>()?
        }
        _ => Vec::new(),
    };
    let name = name.context("it has no #[kind(name = \"…\")] or #[row(name = \"…\")]")?;
    Ok(Description { what, name, doc: doc(&item.attrs), fields })
}

fn described(field: &syn::Field, choices: &Choices) -> Result<DescribedField> {
    let name = field.ident.as_ref().context("a field without a name")?.to_string();
    let name = name.trim_start_matches("r#").to_owned();
    let (mut unit, mut absent) = (String::new(), None);
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("field")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("unit") {
                unit = meta.value()?.parse::<syn::LitStr>()?.value();
            } else {
                let value: Expr = meta.value()?.parse()?;
                absent = Some(number(&value).map_err(|error| meta.error(error.to_string()))?);
            }
            Ok(())
        })?;
    }
    let (field_type, choices) = type_of(&field.ty, choices).with_context(|| name.clone())?;
    Ok(DescribedField { name, field_type, choices, unit, absent, doc: doc(&field.attrs) })
}

fn type_of(rust: &Type, choices: &Choices) -> Result<(FieldType, Vec<(u64, String)>)> {
    let field_type = match rust {
        Type::Reference(reference) => match &*reference.elem {
            Type::Slice(_) => FieldType::Bytes,
            _ => FieldType::Str,
        },
        Type::Path(path) => {
            let name = path.path.segments.last().context("a type without a name")?.ident.to_string();
            match name.as_str() {
                "NameRef" => FieldType::Name,
                "SiteRef" => FieldType::Site,
                _ => match FieldType::from_name(&name) {
                    Some(field_type) => field_type,
                    None => {
                        let choices = choices.get(&name);
                        let choices =
                            choices.with_context(|| format!("no #[derive(KindEnum)] enum {name}"))?;
                        return Ok((FieldType::Enum, choices.clone()));
                    }
                },
            }
        }
        _ => bail!("a type that no field can have"),
    };
    Ok((field_type, Vec::new()))
}

fn number(value: &Expr) -> Result<i128> {
    Ok(match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse()?,
            _ => bail!("not a number"),
        },
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => -number(&unary.expr)?,
        _ => bail!("not a number"),
    })
}

/// The documentation, in one line.
fn doc(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(line).collect::<Vec<_>>().join(" ").trim().to_owned()
}

fn snake_case(name: &str) -> String {
    let mut output = String::new();
    for (index, c) in name.trim_start_matches("r#").chars().enumerate() {
        if c.is_uppercase() && index > 0 {
            output.push('_');
        }
        output.extend(c.to_lowercase());
    }
    output
}
