//! The network of `des.snet`.

use std::path::Path;
use thalweg_net::check::{KnownBoxes, check_file};

#[test]
fn the_network_fits_the_boxes_of_the_library() {
    let mut known = KnownBoxes::default();
    for entry in app_des::thalweg_box_entries() {
        known.add("app-des", entry.signature().unwrap()).unwrap();
    }
    let checked = check_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("des.snet"), Some(&known));
    let told: String = checked.diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
    assert_eq!(told, "");
    assert!(checked.resolved.is_some());
}
