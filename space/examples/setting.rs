//! A program that reads lines in batches. An observer can set the size of a batch.

use thalweg_space::reader::SpaceReader;
use thalweg_space::{Adoption, Affects, Space, SpaceOptions};

thalweg_space::settings! {
    /// The settings of this program, which observers may change.
    struct Settings {
        /// Lines that are read at a time
        batch: {
            name: "lines.batch",
            unit: "lines",
            min: 1,
            max: 4096,
            default: 64,
            affects: Affects::Run,
            adoption: Adoption::AtOnce,
        },
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parent = std::env::temp_dir().join(format!("thalweg-lines-{}", std::process::id()));
    std::fs::create_dir(&parent)?;
    let space = Space::create(SpaceOptions { parent: Some(parent.clone()), ..SpaceOptions::default() })?;
    let settings = Settings::DECLARED.make(Some(&space))?;
    assert_eq!(settings.batch.load(), 64);

    // Usually another process changes the setting, as `thalweg set lines.batch 128` does.
    SpaceReader::open(space.path())?.set("lines.batch", 128)?;

    assert_eq!(settings.batch.load(), 128);
    std::fs::remove_dir_all(parent)?;
    Ok(())
}
