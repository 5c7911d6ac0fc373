//! `thalweg inspect`: lists the contents of a library of boxes.

use std::path::PathBuf;

use serde_json::json;
use thalweg_box::abi::ABI_VERSION;
use thalweg_box::abi::event::EventSpec;
use thalweg_box::abi::map_key::{MapInitial, MapKeySpec};
use thalweg_box::abi::parameter::ParameterSpec;
use thalweg_host::{Error, libraries};
use thalweg_net::{Boxes, Loading};

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  # its boxes, parameters and events
  thalweg inspect ./libtidy.so
  # the same for programs
  thalweg inspect --json ./liba.so ./libb.so";

/// The arguments of `thalweg inspect`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The libraries. The command loads each library, which runs the library's load-time code.
    #[arg(value_name = "LIB", required = true)]
    libraries: Vec<PathBuf>,
    /// Print one JSON object for each box, parameter, kind of event and key of the shared map.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::new(terminal);
    for path in &arguments.libraries {
        let boxes = libraries::load(std::slice::from_ref(path), Loading::Stays)?;
        let parameters = boxes.parameters().map_err(|error| Error::coded_of("E0904", error))?;
        let events = boxes.events().map_err(|error| Error::coded_of("E0904", error))?;
        let keys = boxes.map_keys().map_err(|error| Error::coded_of("E0904", error))?;
        let library = path.display().to_string();
        if arguments.json {
            objects(&library, &boxes, &parameters, &events)
                .into_iter()
                .chain(keys.iter().map(|key| key_object(&library, key)))
                .try_for_each(|object| output.line(&object.to_string()))?;
            continue;
        }
        let name = output.styled("1", &library);
        let count = counted(boxes.names().count());
        output.line(&format!("{name}  box interface {ABI_VERSION}, {count}"))?;
        let lines = lines(&boxes, &parameters, &events).into_iter().chain(keys.iter().map(key_line));
        lines.into_iter().try_for_each(|line| output.line(&line))?;
    }
    output.flush()
}

/// The contents of a library, for people.
fn lines(boxes: &Boxes, parameters: &[ParameterSpec], events: &[EventSpec]) -> Vec<String> {
    let signatures = boxes.known().boxes;
    let mut lines: Vec<String> = signatures
        .iter()
        .map(|(name, signature)| {
            let note = if boxes.is_blocking(name) { "  has a thread of its own" } else { "" };
            format!("  box {name} ({signature}){note}")
        })
        .collect();
    lines.extend(parameters.iter().map(|parameter| {
        let ParameterSpec { name, unit, doc, range, value } = parameter;
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        format!("  parameter box.{name} = {value}{unit}, {} to {}: {doc}", range.start(), range.end())
    }));
    lines.extend(events.iter().map(|kind| {
        let fields: Vec<&str> = kind.fields.iter().map(|(name, ..)| name.as_str()).collect();
        format!("  event box.{} ({}): {}", kind.name, fields.join(", "), kind.doc)
    }));
    lines
}

/// The contents of a library, for programs: an object for each box, parameter and kind of event.
fn objects(
    library: &str,
    boxes: &Boxes,
    parameters: &[ParameterSpec],
    events: &[EventSpec],
) -> Vec<serde_json::Value> {
    let signatures = boxes.known().boxes;
    let boxes = signatures.iter().map(|(name, signature)| {
        json!({
            "library": library, "abi": ABI_VERSION, "box": name,
            "signature": signature.to_string(), "blocking": boxes.is_blocking(name),
        })
    });
    let parameters = parameters.iter().map(|parameter| {
        json!({
            "library": library, "abi": ABI_VERSION, "parameter": format!("box.{}", parameter.name),
            "unit": parameter.unit, "min": parameter.range.start(), "max": parameter.range.end(),
            "value": parameter.value, "doc": parameter.doc,
        })
    });
    let events = events.iter().map(|kind| {
        let fields = kind.fields.iter().map(|(name, unit, is_float)| {
            json!({"name": name, "unit": unit, "type": if *is_float { "f64" } else { "i64" }})
        });
        json!({
            "library": library, "abi": ABI_VERSION, "event": format!("box.{}", kind.name),
            "fields": fields.collect::<Vec<_>>(), "doc": kind.doc,
        })
    });
    boxes.chain(parameters).chain(events).collect()
}

fn key_line(key: &MapKeySpec) -> String {
    let (kind, value) = typed(&key.initial);
    format!("  key map.{} = {value}, {kind}: {}", key.name, key.doc)
}

fn key_object(library: &str, key: &MapKeySpec) -> serde_json::Value {
    let (kind, value) = typed(&key.initial);
    json!({
        "library": library, "abi": ABI_VERSION, "key": format!("map.{}", key.name), "type": kind,
        "value": value, "doc": key.doc,
    })
}

/// The type of a key's values, and its initial value.
fn typed(initial: &MapInitial) -> (&'static str, serde_json::Value) {
    match initial {
        MapInitial::Integer(number) => ("integer", json!(number)),
        MapInitial::Float(number) => ("float", json!(number)),
        MapInitial::Text(text) => ("text", json!(text)),
    }
}

fn counted(boxes: usize) -> String {
    if boxes == 1 { "1 box".to_owned() } else { format!("{boxes} boxes") }
}
