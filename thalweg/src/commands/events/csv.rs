//! Events of one kind as comma-separated values (RFC 4180), one line for each event, for spreadsheets and
//! data frames.

use std::sync::Arc;

use thalweg_host::Origin;
use thalweg_space::reader::{Event, FieldInfo, KindInfo, Value};

use super::shown;
use crate::failure::Failure;

/// The table being written: its kind is that of the first event.
#[derive(Default)]
pub(super) struct Csv {
    kind: Option<Arc<KindInfo>>,
}

impl Csv {
    /// The lines for an event: its own line, preceded by the names of the columns if it is the first.
    pub(super) fn lines(&mut self, event: &Event<'_>, process: &Origin) -> Result<Vec<String>, Failure> {
        let mut lines = Vec::new();
        match &self.kind {
            Some(kind) if is_alike(kind, event.kind) => {}
            Some(kind) => {
                return Err(Failure::Usage(format!(
                    "a table has events of one kind, and here are `{0}` and `{1}`, with fields of their own: say `--kind {0}` or `--kind {1}`",
                    kind.name, event.kind.name
                )));
            }
            None => {
                lines.push(header(event, process));
                self.kind = Some(Arc::clone(event.kind));
            }
        }
        let mut line = format!("{:.9}", process.seconds(event.time));
        if let Some(directory) = &process.directory {
            put(&mut line, directory);
        }
        put(&mut line, &event.writer.to_string());
        put(&mut line, &event.sequence.to_string());
        for (field, value) in event.fields() {
            put(&mut line, &cell(field, &value, process));
            if process.has_name(event.kind, &field.name) {
                put(&mut line, &process.called(event, &field.name).unwrap_or_default());
            }
        }
        lines.push(line);
        Ok(lines)
    }
}

/// Whether two kinds are equal. Each process of a session has its own catalog, and kinds of several catalogs
/// may be equal.
fn is_alike(one: &Arc<KindInfo>, other: &Arc<KindInfo>) -> bool {
    Arc::ptr_eq(one, other) || (one.name == other.name && one.fields == other.fields)
}

fn header(event: &Event<'_>, process: &Origin) -> String {
    let mut line = "time_s".to_owned();
    if process.directory.is_some() {
        put(&mut line, "space");
    }
    put(&mut line, "writer");
    put(&mut line, "sequence");
    for field in &event.kind.fields {
        if field.unit == "ticks" {
            put(&mut line, &format!("{}_ns", field.name));
        } else {
            put(&mut line, &field.name);
        }
        if process.has_name(event.kind, &field.name) {
            put(&mut line, &format!("{}_name", field.name));
        }
    }
    line
}

fn cell(field: &FieldInfo, value: &Value<'_>, process: &Origin) -> String {
    match value {
        Value::Unsigned(ticks) if field.unit == "ticks" => {
            format!("{:.0}", *ticks as f64 * 1e9 / process.clock.hz())
        }
        Value::Text(text) => text.clone().into_owned(),
        Value::Name(name) if name.0 == 0 => String::new(),
        _ => shown(field, value, process),
    }
}

/// Appends a comma and a cell, in quotes if necessary.
fn put(line: &mut String, cell: &str) {
    line.push(',');
    let is_plain = !cell.contains([',', '"', '\n', '\r']) && !cell.starts_with(' ') && !cell.ends_with(' ');
    if is_plain {
        line.push_str(cell);
        return;
    }
    line.push('"');
    line.push_str(&cell.replace('"', "\"\""));
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::put;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut line = "1".to_owned();
        for cell in ["plain", "a,b", "say \"x\"", "two\nlines", "", " room "] {
            put(&mut line, cell);
        }
        assert_eq!(line, "1,plain,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",,\" room \"");
    }
}
