//! What a report on a session says about the copies of spaces of other machines: how exact their times are, and
//! what is missing.

use thalweg_space::copies::{CopyState, states};
use thalweg_space::reader::SpaceReader;

use crate::report::Note;

/// Notes on the copies in the session of these spaces.
pub(super) fn notes(spaces: &[SpaceReader]) -> Vec<Note> {
    let Some(session) = spaces.first().and_then(|first| first.path().parent()) else { return Vec::new() };
    let mut notes = Vec::new();
    for (n, space) in spaces.iter().enumerate() {
        let Ok(info) = space.info() else { continue };
        if let Some(error_ns) = info.clock_error_ns {
            let text = format!(
                "Process {} ({}) ran on another machine, {}. Its times are those of this machine's clock, with an error of at most {:.1} µs.",
                n + 1,
                info.name,
                info.host,
                error_ns as f64 / 1e3
            );
            notes.push(Note { code: "clock".to_owned(), text });
        }
    }
    for CopyState { node, until_ns, missing } in states(session) {
        if missing.is_empty() && until_ns > 0 {
            continue;
        }
        let what = match until_ns {
            0 => format!("Node {node}: nothing that it recorded is here"),
            _ => format!("Node {node}: only a part of what it recorded is here"),
        };
        let why = if missing.is_empty() { "it has not arrived yet".to_owned() } else { missing };
        notes.push(Note { code: "node".to_owned(), text: format!("{what}: {why}.") });
    }
    notes
}
