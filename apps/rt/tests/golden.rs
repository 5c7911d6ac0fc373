//! Compares pictures with approved ones. `WRITE_GOLDEN=1 cargo test -p app-rt` writes the approved ones
//! again.

use app_rt::scene::{Scene, made};
use std::path::Path;

/// The tolerance of a colour. On another machine or with another compiler, a ray at a border may hit another
/// body, so a share of [`BORDER_PIXELS_SHARE`] of the colours may differ more.
const TOLERANCE: u8 = 2;
const BORDER_PIXELS_SHARE: f64 = 0.002;

#[test]
fn pictures_are_those_that_were_looked_at() {
    for number in [0, 1, 2, 3] {
        let picture = Scene::parse(&made(number)).expect("a scene").picture(96, 72);
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{number:03}.ppm"));
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            std::fs::write(&file, &picture).expect("the folder takes files");
        }
        let golden = std::fs::read(&file).expect("a golden picture");
        assert_eq!(golden.len(), picture.len());
        let off =
            golden.iter().zip(&picture).filter(|(one, other)| one.abs_diff(**other) > TOLERANCE).count();
        assert!(
            off as f64 <= BORDER_PIXELS_SHARE * picture.len() as f64,
            "scene {number}: {off} colours are off"
        );
    }
}
