//! The event that a run's sources are paused, or continue, because of a command: written by the run, read by
//! `thalweg ls` and by reports.

use std::path::Path;

use thalweg_space::reader::SpaceReader;
use thalweg_space::{ElementOptions, Kind, KindId, Policy, Space, Writer};

/// The element has space for a few hundred events.
const ELEMENT: ElementOptions =
    ElementOptions { block_bytes: 4096, block_count: 2, policy: Policy::Overwrite };

/// A command paused the run's sources, or let them continue.
#[derive(Kind)]
#[kind(name = "control.paused")]
struct Paused {
    /// Whether the sources are paused.
    paused: bool,
}

/// Writes the events that record that the run's sources are paused or continue.
pub(super) struct RestEvents {
    writer: Writer,
    kind: KindId<Paused>,
    is_paused: bool,
}

impl RestEvents {
    pub(super) fn new(space: &Space) -> Result<RestEvents, thalweg_space::Error> {
        let mut writer = space.writer_with("control", ELEMENT)?;
        let kind = writer.declare()?;
        Ok(RestEvents { writer, kind, is_paused: false })
    }

    /// Notes whether the sources are paused; a change is recorded as an event.
    pub(super) fn note(&mut self, paused: bool) {
        if std::mem::replace(&mut self.is_paused, paused) != paused {
            self.writer.emit(self.kind, &Paused { paused });
        }
    }
}

/// Whether the sources of the run in this space are paused.
pub(crate) fn is_paused(space: &Path) -> bool {
    let Ok(reader) = SpaceReader::open(space) else { return false };
    let mut paused = false;
    // A failure to read other files of the space is ignored, because the element of these events may be
    // undamaged.
    let _ = reader.latest().look(&mut |event| {
        if let Some(last) = event.read::<Paused>() {
            paused = last.paused;
        }
    });
    paused
}
