//! Makes the table that maps a network's boxes to functions written for S-Net in C, and the files that are
//! needed to compile the table.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use thalweg_net::check::{BoxUse, Resolved};
use thalweg_net::syntax::ast::{BoxSignature, LabelKind, Tuple};

use crate::error::Error;

/// The files that the table and the boxes include or are linked with.
const FILES: &[(&str, &str)] = &[
    ("thalweg.h", include_str!("../../../bindings/c/thalweg.h")),
    ("C4SNet.h", include_str!("../../../bindings/c4snet/C4SNet.h")),
    ("c4snet_table.h", include_str!("../../../bindings/c4snet/c4snet_table.h")),
    ("c4snet.c", include_str!("../../../bindings/c4snet/c4snet.c")),
    ("bool.h", include_str!("../../../bindings/c4snet/bool.h")),
    ("memfun.h", include_str!("../../../bindings/c4snet/memfun.h")),
];

/// Writes the table of a network's boxes into a folder, which is created if it does not exist, with the
/// headers and the C file that boxes of S-Net need; returns the table's path. A file that already has the
/// right content is not written.
///
/// # Errors
/// An error with the code E0901 if a file cannot be written.
pub fn write_table(name: &str, network: &Resolved, folder: &Path) -> Result<PathBuf, Error> {
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    for (file, text) in FILES {
        write(&folder.join(file), text)?;
    }
    let boxes = network.boxes.iter().filter(|declared| declared.command().is_none());
    let table = text(name, boxes.map(|declared: &BoxUse| (declared.name.to_string(), &declared.signature)));
    let file = folder.join(format!("{name}_boxes.c"));
    write(&file, &table)?;
    Ok(file)
}

/// Writes a file, unless the file already has the content `text`.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    if std::fs::read(path).is_ok_and(|before| before == text.as_bytes()) {
        return Ok(());
    }
    std::fs::write(path, text).map_err(|error| unwritable(path, error))
}

pub(super) fn unwritable(path: &Path, error: std::io::Error) -> Error {
    Error::coded("E0901", format!("cannot write {}", path.display())).because(error)
}

/// The text, in C, of a library's table of the given boxes.
fn text<'a>(net: &str, boxes: impl Iterator<Item = (String, &'a BoxSignature)>) -> String {
    let mut functions = String::new();
    let mut entries = String::new();
    for (name, signature) in boxes {
        let input = signature.input.as_ref();
        let parameters = parameters(input);
        // The function is declared as hidden, because otherwise a function of the C library with the same
        // name would be called (such as `step`).
        let parameters_of_c = declared(&parameters);
        _ = write!(
            functions,
            "\n__attribute__((visibility(\"hidden\"))) extern void *{name}(void *handle{parameters_of_c});\n"
        );
        functions.push_str(&call(&name, &parameters, &signature.outputs));
        _ = writeln!(
            entries,
            "    THALWEG_BOX(\"box {name} ({signature})\", {}, c4snet_call_{name}),",
            parameters.len()
        );
    }
    format!(
        "/* The boxes of the network {net}, for Thalweg. Made by `thalweg wrap`; changes are lost. */\n\
         #include \"c4snet_table.h\"\n{functions}\n\
         static const thalweg_box boxes[] = {{\n{entries}}};\nTHALWEG_LIBRARY(boxes)\n"
    )
}

/// The kinds of a box's parameters.
fn parameters(input: Option<&Tuple>) -> Vec<LabelKind> {
    input.map(|tuple| tuple.labels.iter().map(|at| at.label.kind).collect()).unwrap_or_default()
}

fn declared(parameters: &[LabelKind]) -> String {
    let of = |kind: &LabelKind| if *kind == LabelKind::Field { ", c4snet_data_t *" } else { ", int" };
    parameters.iter().map(of).collect()
}

/// The function that Thalweg calls: it converts arguments to fields and tags, and passes a handle for the
/// output.
fn call(name: &str, parameters: &[LabelKind], outputs: &[Tuple]) -> String {
    let variants: Vec<String> = outputs
        .iter()
        .map(|tuple| {
            let kinds = tuple.labels.iter().map(|at| match at.label.kind {
                LabelKind::Field => 'f',
                LabelKind::Tag => 't',
                LabelKind::BindingTag => 'b',
            });
            format!("\"{}\"", kinds.collect::<String>())
        })
        .collect();
    let listed = if variants.is_empty() { "NULL".to_owned() } else { variants.join(", ") };
    let mut locals = String::new();
    let mut passed = String::from("&call");
    let mut frees = String::new();
    for (index, kind) in parameters.iter().enumerate() {
        if *kind == LabelKind::Field {
            _ = writeln!(locals, "    c4snet_data_t *x{index} = c4snet_field(&call, &arguments[{index}]);");
            _ = write!(frees, " C4SNetFree(x{index});");
        } else {
            _ = writeln!(locals, "    int x{index} = c4snet_tag(&call, &arguments[{index}]);");
        }
        _ = write!(passed, ", x{index}");
    }
    let unused = if parameters.is_empty() { ", (void)arguments" } else { "" };
    format!(
        "static thalweg_status c4snet_call_{name}(const void *data, thalweg_value *arguments, uint32_t count, \
         thalweg_out *out) {{\n\
         \x20   static const char *const variants[] = {{{listed}}};\n\
         \x20   static const c4snet_signature signature = {{variants, {}}};\n\
         \x20   c4snet_call call = {{out, &signature, NULL}};\n\
         {locals}\
         \x20   (void)data, (void)count{unused};\n\
         \x20   if (c4snet_refused(&call)) {{{frees} return c4snet_end(&call); }}\n\
         \x20   {name}({passed});\n\
         \x20   return c4snet_end(&call);\n}}\n",
        variants.len()
    )
}
