//! `thalweg wrap`: the table that leads from a network to boxes written for S-Net in C.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use thalweg_net::check::check_file;
use thalweg_net::syntax::ast::{BoxSignature, LabelKind, Tuple};

use crate::Terminal;
use crate::failure::{Failure, print_diagnostics};
use crate::output::Output;

const EXAMPLES: &str = "\
Box sources written for S-Net (`void *foo(void *hnd, c4snet_data_t *x, int t)`, C4SNetOut) become a library:
  thalweg wrap foo.snet --into build
  cc -shared -fPIC -O2 -Ibuild build/foo_boxes.c \\
      build/c4snet.c foo.c -lm -o libfoo.so
  thalweg run foo.snet --boxes ./libfoo.so \\
      --input foo.xml --output result.xml";

/// What `thalweg wrap` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The network: the net named like the file.
    #[arg(value_name = "NET.snet")]
    net: PathBuf,
    /// The directory that gets the table, C4SNet.h and everything they need; it is made if it is not there.
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
}

/// What the table and the boxes include, and what they are linked with.
const FILES: &[(&str, &str)] = &[
    ("thalweg.h", include_str!("../../../bindings/c/thalweg.h")),
    ("C4SNet.h", include_str!("../../../bindings/c4snet/C4SNet.h")),
    ("c4snet_table.h", include_str!("../../../bindings/c4snet/c4snet_table.h")),
    ("c4snet.c", include_str!("../../../bindings/c4snet/c4snet.c")),
    ("bool.h", include_str!("../../../bindings/c4snet/bool.h")),
    ("memfun.h", include_str!("../../../bindings/c4snet/memfun.h")),
];

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let checked = check_file(&arguments.net, None);
    let Some(resolved) = checked.resolved else { return Err(Failure::Text(checked.diagnostics)) };
    print_diagnostics(&checked.diagnostics, terminal);
    let name = arguments.net.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let boxes = resolved.boxes.iter().map(|declared| (declared.name.to_string(), &declared.signature));
    let table = table(&name, boxes);
    let folder = &arguments.into;
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    for (file, text) in FILES {
        write(&folder.join(file), text)?;
    }
    let file = folder.join(format!("{name}_boxes.c"));
    write(&file, &table)?;
    let mut output = Output::new(terminal);
    let shown = folder.display();
    output.line(&format!("wrote {}; now compile it with the boxes:", file.display()))?;
    output.line(&format!(
        "  cc -shared -fPIC -O2 -I{shown} {} {} BOXES.c -o lib{name}.so",
        file.display(),
        folder.join("c4snet.c").display()
    ))?;
    output.flush()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| unwritable(path, error))
}

fn unwritable(path: &Path, error: std::io::Error) -> Failure {
    Failure::coded_because("E0901", format!("cannot write {}", path.display()), error)
}

/// The C text of a library's table for these boxes.
fn table<'a>(net: &str, boxes: impl Iterator<Item = (String, &'a BoxSignature)>) -> String {
    let mut functions = String::new();
    let mut entries = String::new();
    for (name, signature) in boxes {
        let input = signature.input.as_ref();
        let parameters = parameters(input);
        // Hidden, or else a function of the C library with that name would be called (`step` is one).
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

/// The function that Thalweg calls: arguments become fields and tags, the handle leads to the output.
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
