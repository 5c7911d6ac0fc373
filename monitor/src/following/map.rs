//! The shared map of a run in its report: each key with its value, as the process had it when the report was made.

use thalweg_space::reader::SpaceReader;

use crate::report::Measurement;

/// A measurement for each key of the shared map; none if the run has no shared map.
pub(super) fn shared_map(reader: &SpaceReader) -> Vec<Measurement> {
    let keys = reader.shared_map().unwrap_or_default().into_iter();
    let measurement = |view: thalweg_space::shared_map::MapView| {
        let text = match (view.stamp.microseconds(), view.writer) {
            (0, _) => format!("{} (as at the start)", view.value),
            (_, 0) => {
                format!("{} (at the start {}; written by the process of the run)", view.value, view.initial)
            }
            (_, node) => {
                format!("{} (at the start {}; written by node number {node})", view.value, view.initial)
            }
        };
        Measurement::text(&format!("map.{}", view.key), &text)
    };
    keys.map(measurement).collect()
}
