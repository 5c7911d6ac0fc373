//! `#[probe]`: records the calls of a function. See `thalweg-probe`.
//!
//! The macro processes the function as tokens: the part before the body stays unchanged, and a guard is
//! inserted at the start of the body. So the macro needs to parse only `async`, `->` and the last braces.
#![forbid(unsafe_code)]

use proc_macro2::{Delimiter, Group, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

/// Records the calls of a function, each as one event when it ends, by a return or by a panic.
///
/// `#[probe(errors)]` records a call that returns `Err` as failed. `#[probe(name = "shop.order")]` replaces
/// the default name, which consists of module and function; several arguments are separated by commas. For an
/// `async fn`, a call is counted once, and its time is that of its polls.
#[proc_macro_attribute]
pub fn probe(attribute: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let item = TokenStream::from(item);
    match expand(attribute.into(), item.clone()) {
        Ok(tokens) => tokens.into(),
        Err((span, text)) => {
            let error = quote_spanned!(span => ::core::compile_error!(#text););
            quote!(#error #item).into()
        }
    }
}

type Problem = (Span, String);

#[derive(Default)]
struct Options {
    name: Option<Literal>,
    errors: bool,
}

fn options(attribute: TokenStream) -> Result<Options, Problem> {
    let mut options = Options::default();
    let mut tokens = attribute.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let wrong = (
            token.span(),
            "#[probe] knows `errors` and `name = \"…\"`, with a comma between them".to_owned(),
        );
        match token.to_string().as_str() {
            "errors" => options.errors = true,
            "name" => {
                let is = tokens.next().is_some_and(|token| token.to_string() == "=");
                match tokens.next() {
                    Some(TokenTree::Literal(literal)) if is && literal.to_string().starts_with('"') => {
                        options.name = Some(literal);
                    }
                    _ => return Err(wrong),
                }
            }
            _ => return Err(wrong),
        }
        match tokens.next() {
            None => break,
            Some(comma) if comma.to_string() == "," => {}
            Some(other) => return Err((other.span(), wrong.1)),
        }
    }
    Ok(options)
}

fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream, Problem> {
    let options = options(attribute)?;
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let at = tokens.iter().position(|token| is_word(token, "fn"));
    let body = match tokens.pop() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace && at.is_some() => group,
        other => {
            let span = other.map_or_else(Span::call_site, |token| token.span());
            return Err((span, "#[probe] goes before a function with a body".to_owned()));
        }
    };
    let at = at.expect("found");
    if let Some(token) = tokens[..at].iter().find(|token| is_word(token, "const")) {
        return Err((
            token.span(),
            "a `const fn` has no calls to record when it is compiled: leave out one of both".to_owned(),
        ));
    }
    let Some(TokenTree::Ident(name)) = tokens.get(at + 1) else {
        return Err((body.span(), "#[probe] needs the function's name".to_owned()));
    };
    let name = name.to_string();
    let name = name.trim_start_matches("r#");
    let name = match options.name {
        Some(name) => quote!(#name),
        None => quote!(::core::concat!(::core::module_path!(), "::", #name)),
    };
    let is_async = tokens[..at].iter().any(|token| is_word(token, "async"));
    let operation = quote! {
        static THALWEG_OPERATION: ::thalweg_probe::Operation =
            ::thalweg_probe::Operation::new(#name, ::core::file!(), ::core::line!());
    };
    let new = if is_async && options.errors {
        quote!({ #operation ::thalweg_probe::Polled::errors(&THALWEG_OPERATION, async move #body).await })
    } else if is_async {
        quote!({ #operation ::thalweg_probe::Polled::new(&THALWEG_OPERATION, async move #body).await })
    } else if options.errors {
        let returned = returned(&tokens[at..]);
        quote!({
            #operation
            let mut thalweg_call = THALWEG_OPERATION.enter();
            #[allow(clippy::redundant_closure_call)]
            let thalweg_result = (move || #returned #body)();
            thalweg_call.result(&thalweg_result);
            thalweg_result
        })
    } else {
        let inner = body.stream();
        quote!({ #operation let _thalweg_call = THALWEG_OPERATION.enter(); #inner })
    };
    let mut stream = TokenStream::from_iter(tokens);
    let mut group = match new.into_iter().next() {
        Some(TokenTree::Group(group)) => group,
        _ => Group::new(Delimiter::Brace, TokenStream::new()),
    };
    group.set_span(body.span());
    stream.extend([TokenTree::Group(group)]);
    Ok(stream)
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

/// A function's return type from its `->` on; nothing if a closure cannot name that type.
fn returned(signature: &[TokenTree]) -> TokenStream {
    let arguments = signature.iter().position(
        |token| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis),
    );
    let after = &signature[arguments.map_or(signature.len(), |at| at + 1)..];
    let end = after.iter().position(|token| is_word(token, "where")).unwrap_or(after.len());
    let after = &after[..end];
    if after.iter().any(|token| is_word(token, "impl")) {
        return TokenStream::new();
    }
    after.iter().cloned().collect()
}
