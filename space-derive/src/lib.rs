//! `#[derive(Kind)]`, `#[derive(Row)]` and `#[derive(KindEnum)]`: declare a struct as a kind of event, or of live row, for `thalweg-space`.
//!
//! The derive places each field at compile time, in the order declared, at its natural alignment within
//! 64-bit words, and writes a function that packs the struct into those words. The compiled function has no
//! table and no loop, so a derived kind costs what a hand-written one costs.
//!
//! ```ignore
//! /// One dispatch of a task.
//! #[derive(Kind)]
//! #[kind(name = "exec.task_dispatched")]
//! struct TaskDispatched {
//!     /// Which task ran.
//!     task: u64,
//!     /// How long it ran.
//!     #[field(unit = "ticks")]
//!     duration: u32,
//! }
//! ```
#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use proc_macro2::{Group, Ident, Punct, Spacing, Span, TokenStream as Tokens, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Fields, GenericParam, Lifetime, Lit, LitStr, Meta, Result,
};

/// Derives `thalweg_space::Kind` for a struct with named fields.
///
/// Attributes: `#[kind(name = "crate.noun")]` (required) on the struct; on a field `#[field(unit = "…")]`,
/// and `#[field(absent = NUMBER)]` for a field that was added later: the value that readers use for a space
/// that lacks it. Doc comments become the catalog's documentation. A kind with at most one lifetime can be
/// read by `thalweg_space::reader::Event::read`.
#[proc_macro_derive(Kind, attributes(kind, field))]
pub fn derive_kind(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    kind(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Derives `thalweg_space::kind::Field` for an enum without data, so that it can be a field of a kind (one byte).
///
/// The catalog holds the variants' names in `snake_case`.
#[proc_macro_derive(KindEnum)]
pub fn derive_kind_enum(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    kind_enum(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Derives `thalweg_space::Row` for a struct with named fields: each field is a cell of a live row. The
/// constant with the field's name in capitals is the index of the cell.
///
/// Attributes: `#[row(name = "crate.noun")]` (required) on the struct, with `former = CODE` if such rows had
/// that code in spaces that described no rows; on a field the same attributes as for a kind.
#[proc_macro_derive(Row, attributes(row, field))]
pub fn derive_row(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    row(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn row(input: &DeriveInput) -> Result<Tokens> {
    let (mut name, mut former) = (None, quote!(None));
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("row")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                name = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("former") {
                let code: Expr = meta.value()?.parse()?;
                former = quote!(Some(#code));
            } else {
                return Err(meta.error("#[row] knows only `name = \"…\"` and `former = CODE`"));
            }
            Ok(())
        })?;
    }
    let missing = || Error::new(input.ident.span(), "give the row its name: #[row(name = \"crate.noun\")]");
    let name = name.ok_or_else(missing)?;
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new_spanned(parameter, "a row's cells are numbers, so it takes no parameters"));
    }
    let (mut specs, mut constants, mut values, mut reads) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let visibility = &input.vis;
    for (index, field) in named_fields(input)?.iter().enumerate() {
        let ident = field.ident.as_ref().expect("named_fields saw only named fields");
        let text = ident.to_string();
        let text = text.strip_prefix("r#").unwrap_or(&text);
        let FieldAttributes { unit, absent } = field_attributes(&field.attrs)?;
        let absent = absent.map(|value| quote!(.absent(#value)));
        let (doc, plain) = (docs(&field.attrs), &field.ty);
        let constant = Ident::new(&text.to_uppercase(), ident.span());
        specs.push(quote!(space::FieldSpec::of::<#plain>(#text, #unit, #doc) #absent));
        constants.push(quote!(#[doc = #doc] #visibility const #constant: usize = #index;));
        values.push(quote!(cells[#index] = <#plain as space::Field>::bits(&self.#ident, 0);));
        reads.push(quote!(#ident: ::thalweg_space::reader::FromField::from_field(cell(#index)?, &[])?));
    }
    let (type_name, doc) = (&input.ident, docs(&input.attrs));
    Ok(quote! {
        const _: () = {
            use ::thalweg_space::kind as space;
            const CELLS: &[space::FieldSpec] = &[#(#specs),*];
            const _: () = assert!(CELLS.len() <= ::thalweg_space::LIVE_CELLS, "a live row has 12 cells");
            const _: () = assert!(!space::any_variable(CELLS), "a cell is a number, no text or bytes");
            #[allow(dead_code)]
            impl #type_name {
                #(#constants)*
            }
            #[automatically_derived]
            impl ::thalweg_space::Row for #type_name {
                const SPEC: ::thalweg_space::RowSpec =
                    ::thalweg_space::RowSpec { name: #name, doc: #doc, former: #former, cells: CELLS };
                fn cells(&self) -> [u64; ::thalweg_space::LIVE_CELLS] {
                    #[allow(unused_mut)]
                    let mut cells = [0; ::thalweg_space::LIVE_CELLS];
                    #(#values)*
                    cells
                }
                fn from_cells(cell: &mut dyn FnMut(usize) -> Option<u64>) -> Option<Self> {
                    let _ = &cell;
                    Some(#type_name { #(#reads),* })
                }
            }
        };
    })
}

fn kind(input: &DeriveInput) -> Result<Tokens> {
    let name = kind_name(input)?;
    let fields = named_fields(input)?;
    only_lifetimes(input)?;
    let doc = docs(&input.attrs);
    let type_name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let mut specs = Vec::new();
    let mut packs = Vec::new();
    let mut tails = Vec::new();
    let mut reads = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let ident = field.ident.as_ref().expect("named_fields saw only named fields");
        let text = ident.to_string();
        let text = text.strip_prefix("r#").unwrap_or(&text);
        let FieldAttributes { unit, absent } = field_attributes(&field.attrs)?;
        let absent = absent.map(|value| quote!(.absent(#value)));
        let doc = docs(&field.attrs);
        let erased = with_static_lifetimes(field.ty.to_token_stream());
        let plain = &field.ty;
        specs.push(quote!(space::FieldSpec::of::<#erased>(#text, #unit, #doc) #absent));
        reads.push(quote!(#ident: event.field(&FIELDS[#index])?));
        packs.push(quote! {
            words[OFFSETS[#index] / 8] |=
                <#plain as space::Field>::bits(&self.#ident, tail_bytes_max) << (OFFSETS[#index] % 8 * 8);
        });
        tails.push(quote! {
            if <#plain as space::Field>::VARIABLE {
                visit(<#plain as space::Field>::tail(&self.#ident));
            }
        });
    }
    let count = fields.len();
    let reader = reader(input, &reads);
    Ok(quote! {
        const _: () = {
            use ::thalweg_space::kind as space;
            const FIELDS: [space::FieldSpec; #count] = [#(#specs),*];
            const OFFSETS: [usize; #count] = space::offsets(&FIELDS);
            const WORDS: usize = space::words(&FIELDS);
            #[automatically_derived]
            impl #impl_generics space::Kind for #type_name #type_generics #where_clause {
                const NAME: &'static str = #name;
                const DOC: &'static str = #doc;
                const FIELDS: &'static [space::FieldSpec] = &FIELDS;
                type Words = [u64; WORDS];
                #[inline(always)]
                fn words(&self, tail_bytes_max: u32) -> [u64; WORDS] {
                    let _ = tail_bytes_max;
                    #[allow(unused_mut)]
                    let mut words = [0u64; WORDS];
                    #(#packs)*
                    words
                }
                #[inline(always)]
                fn tails(&self, visit: &mut dyn FnMut(&[u8])) {
                    let _ = &visit;
                    #(#tails)*
                }
            }
            #reader
        };
    })
}

/// Makes the function that reads an event as the kind's own type. The function is not made for a kind with
/// several lifetimes or with `'static` texts.
fn reader(input: &DeriveInput, reads: &[Tokens]) -> Tokens {
    let lifetimes: Vec<_> = input.generics.lifetimes().map(|parameter| &parameter.lifetime).collect();
    let lends = |field: &syn::Field| field.ty.to_token_stream().to_string().contains('&');
    let lifetime = match lifetimes.as_slice() {
        [] if matches!(&input.data, Data::Struct(data) if data.fields.iter().any(lends)) => {
            return Tokens::new();
        }
        [] => Lifetime::new("'event", Span::call_site()),
        [one] => (*one).clone(),
        _ => return Tokens::new(),
    };
    let type_name = &input.ident;
    let (_, type_generics, where_clause) = input.generics.split_for_impl();
    let body = match &input.data {
        Data::Struct(data) if matches!(data.fields, Fields::Unit) => quote!(#type_name),
        _ => quote!(#type_name { #(#reads),* }),
    };
    quote! {
        #[automatically_derived]
        impl<#lifetime> ::thalweg_space::reader::FromEvent<#lifetime> for #type_name #type_generics #where_clause {
            fn from_event(event: &::thalweg_space::reader::Event<#lifetime>) -> Option<Self> {
                let _ = event;
                Some(#body)
            }
        }
    }
}

fn kind_enum(input: &DeriveInput) -> Result<Tokens> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "KindEnum is for enums without data"));
    };
    if data.variants.is_empty() || data.variants.len() > 256 {
        return Err(Error::new(
            input.ident.span(),
            "a KindEnum has 1 to 256 variants: it is stored in one byte",
        ));
    }
    let type_name = &input.ident;
    let mut variants = Vec::new();
    let mut names = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(variant.ident.span(), "a variant of a KindEnum carries no data"));
        }
        variants.push(&variant.ident);
        names.push(snake_case(&variant.ident.to_string()));
    }
    Ok(quote! {
        const _: () = {
            use ::thalweg_space::kind as space;
            #(assert!((#type_name::#variants as i128) >= 0 && (#type_name::#variants as i128) < 256,
                "a KindEnum is stored in one byte");)*
            #[automatically_derived]
            impl space::Field for #type_name {
                const TYPE: space::FieldType = space::FieldType::Enum;
                const CHOICES: &'static [(u64, &'static str)] = &[#((#type_name::#variants as u64, #names)),*];
                #[inline(always)]
                fn bits(&self, _: u32) -> u64 {
                    match self { #(#type_name::#variants => #type_name::#variants as u64),* }
                }
            }
            #[automatically_derived]
            impl<'event> ::thalweg_space::reader::FromField<'event> for #type_name {
                fn from_field(bits: u64, _: &'event [u8]) -> Option<Self> {
                    #(if bits == #type_name::#variants as u64 { return Some(#type_name::#variants); })*
                    None
                }
            }
        };
    })
}

fn named_fields(input: &DeriveInput) -> Result<Vec<&syn::Field>> {
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Ok(fields.named.iter().collect()),
            Fields::Unit => Ok(Vec::new()),
            Fields::Unnamed(_) => Err(Error::new(input.ident.span(), "a kind's fields need names")),
        },
        _ => Err(Error::new(input.ident.span(), "a kind is a struct with named fields")),
    }
}

fn only_lifetimes(input: &DeriveInput) -> Result<()> {
    for parameter in &input.generics.params {
        if !matches!(parameter, GenericParam::Lifetime(_)) {
            return Err(Error::new_spanned(
                parameter,
                "a kind has one schema, so it takes no type or const parameters, only lifetimes",
            ));
        }
    }
    Ok(())
}

fn kind_name(input: &DeriveInput) -> Result<String> {
    let name = name_in(&input.attrs)?.ok_or_else(|| {
        Error::new(input.ident.span(), "give the kind its name: #[kind(name = \"crate.noun_verb\")]")
    })?;
    let good = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if name.is_empty() || !name.chars().all(good) {
        return Err(Error::new(
            input.ident.span(),
            "a kind's name is made of letters, digits, '.', '_', '-', '/'",
        ));
    }
    Ok(name)
}

/// The attributes in `#[field(…)]`.
#[derive(Default)]
struct FieldAttributes {
    unit: String,
    absent: Option<Tokens>,
}

fn field_attributes(attributes: &[Attribute]) -> Result<FieldAttributes> {
    let mut found = FieldAttributes::default();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("field")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("unit") {
                found.unit = meta.value()?.parse::<LitStr>()?.value();
            } else if meta.path.is_ident("absent") {
                let value: Expr = meta.value()?.parse()?;
                found.absent = Some(value.to_token_stream());
            } else {
                return Err(meta.error("#[field] knows only `unit = \"…\"` and `absent = NUMBER`"));
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// Finds `name = "text"` in the attributes called `kind`; anything else in them is an error.
fn name_in(attributes: &[Attribute]) -> Result<Option<String>> {
    let mut found = None;
    for attribute in attributes.iter().filter(|a| a.path().is_ident("kind")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("#[kind] knows only `name = \"…\"`"));
            }
            found = Some(meta.value()?.parse::<LitStr>()?.value());
            Ok(())
        })?;
    }
    Ok(found)
}

fn docs(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("doc")) {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        let Expr::Lit(literal) = &pair.value else { continue };
        let Lit::Str(text) = &literal.lit else { continue };
        lines.push(text.value().trim().to_string());
    }
    lines.join(" ").trim().to_string()
}

/// `&'a str` → `&'static str`: the layout constants lie outside the impl, where `'a` is not declared.
fn with_static_lifetimes(tokens: Tokens) -> Tokens {
    let mut output = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                tokens.next();
                output.push(TokenTree::Punct(Punct::new('\'', Spacing::Joint)));
                output.push(TokenTree::Ident(Ident::new("static", Span::call_site())));
            }
            TokenTree::Group(group) => {
                let inner = with_static_lifetimes(group.stream());
                output.push(TokenTree::Group(Group::new(group.delimiter(), inner)));
            }
            other => output.push(other),
        }
    }
    output.into_iter().collect()
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
