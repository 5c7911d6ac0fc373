//! Archives events or reads an archive, to measure the cost: `archiving dispatches|calls|counters in|out
//! PASSES`. With 0 passes everything except the passes is done, for comparison. `archiving large DIR BYTES`
//! makes an archive of at least this many bytes, with dispatches of four writers, for measuring how long a
//! window of it takes to open.
#![allow(clippy::print_stdout, reason = "a command")]

mod loads;

use std::error::Error;
use std::path::Path;
use std::time::Instant;
use thalweg_space::archive::{ArchiveOptions, Archiver};
use thalweg_space::reader::{Item, SpaceReader};
use thalweg_space::{ElementOptions, Policy, Space, SpaceOptions};

const EVENTS: u64 = 1 << 18;

fn archive(space: &Path, kept: &Path) -> Result<(), Box<dyn Error>> {
    let _ = std::fs::remove_dir_all(kept);
    let options = ArchiveOptions { directory: Some(kept.to_path_buf()), ..ArchiveOptions::default() };
    let mut archiver = Archiver::with_options(space, options)?;
    archiver.step()?;
    archiver.finish()?;
    Ok(())
}

fn read(kept: &Path) -> Result<u64, Box<dyn Error>> {
    let mut count = 0;
    let mut events = SpaceReader::open(kept)?.events();
    while events.poll(usize::MAX, &mut |item| {
        count += u64::from(matches!(std::hint::black_box(&item), Item::Event(_)))
    })? > 0
    {}
    Ok(count)
}

/// Makes an archive of at least this many bytes, of four writers that write in turn. The archive is not
/// compressed, because that would take minutes, but has as many chunks as a compressed one.
fn make_large(directory: &Path, bytes: u64) -> Result<(), Box<dyn Error>> {
    let element = ElementOptions { block_bytes: 64 << 10, block_count: 256, policy: Policy::Overwrite };
    let space = Space::create(SpaceOptions { element, ..SpaceOptions::default() })?;
    let directory_of = Some(directory.to_path_buf());
    let options = ArchiveOptions {
        directory: directory_of,
        level: 0,
        chunk_bytes: 128 << 10,
        ..ArchiveOptions::default()
    };
    let mut archiver = Archiver::with_options(space.path(), options)?;
    let begin = SpaceReader::open(space.path())?.info()?.clock.anchor().ticks;
    let mut loads = Vec::new();
    for n in 0..4 {
        loads.push(loads::Dispatches::begin(&space, &format!("worker {n}"), begin)?);
    }
    while archiver.progress().bytes < bytes {
        loads.iter_mut().for_each(|load| load.write(EVENTS / 2));
        archiver.step()?;
    }
    archiver.finish()?;
    std::fs::remove_dir_all(space.path())?;
    let info = thalweg_space::archive::info(directory)?.ok_or("there is an archive")?;
    println!("{} events, {} bytes, {} segments", info.events, info.bytes, info.segments);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [large, directory, bytes] = &arguments[..]
        && large == "large"
    {
        return make_large(Path::new(directory), bytes.parse()?);
    }
    let [load, way, passes] = &arguments[..] else {
        return Err(
            "usage: archiving dispatches|calls|counters in|out PASSES, or archiving large DIR BYTES".into()
        );
    };
    let write = match load.as_str() {
        "dispatches" => loads::dispatches,
        "calls" => loads::calls,
        _ => loads::counters,
    };
    let element = ElementOptions { block_bytes: 64 << 10, block_count: 256, policy: Policy::Overwrite };
    let space = Space::create(SpaceOptions { element, ..SpaceOptions::default() })?;
    write(&space, EVENTS);
    let kept = space.path().join("kept");
    archive(space.path(), &kept)?;
    let passes: u64 = passes.parse()?;
    let begin = Instant::now();
    for _ in 0..passes {
        match way.as_str() {
            "in" => archive(space.path(), &kept)?,
            _ => assert_eq!(read(&kept)?, EVENTS),
        }
    }
    let took = begin.elapsed().as_nanos() as f64 / (passes.max(1) * EVENTS) as f64;
    let info = thalweg_space::archive::info(&kept)?.ok_or("there is an archive")?;
    println!("{took:.1} ns an event, {:.2} bytes", info.bytes as f64 / info.events as f64);
    std::fs::remove_dir_all(space.path())?;
    Ok(())
}
