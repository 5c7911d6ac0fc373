//! Damaged and cut files: every byte of a small space changed, every file cut at every length. A reader says what is
//! wrong or counts what is lost; it never panics, hangs or makes up events without end.

mod support;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::{Counted, Directory, read_events, space, totals};
use thalweg_space::archive::Archiver;
use thalweg_space::layout::{PAGE, VERSION};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Kind, Policy, RowKind, SettingSpec, Site, discover};

/// Says something.
#[derive(Kind)]
#[kind(name = "test.said")]
struct Said<'a> {
    who: u16,
    what: &'a str,
    how: &'a [u8],
}

/// A space with something in every file: two writers, one of them archived, settings, a live row.
fn make(directory: &Directory) -> PathBuf {
    let space = space(directory, 512, 2, Policy::Overwrite);
    let name = space.name("a name").unwrap();
    space.site(&Site { name: "inc", kind: "box", file: "a.snet", line: 3, column: 9, parent: None }).unwrap();
    let spec = SettingSpec { name: "s", doc: "d", unit: "u", min: 0, max: 9, default: 3, choices: &[] };
    space.setting(spec).unwrap();
    let row = space.live_row(RowKind::Task, 5).unwrap();
    row.cell(1).store(name.0, Ordering::Relaxed);
    let mut writers = [space.writer("first").unwrap(), space.writer("second").unwrap()];
    for writer in &mut writers {
        let counted = writer.declare::<Counted>().unwrap();
        let said = writer.declare::<Said<'static>>().unwrap();
        for count in 0..30 {
            writer.emit_at(1000 + count, counted, &Counted { count });
            writer.emit_same_time(said, &Said { who: 7, what: "hello", how: b"loud and clear" });
            writer.emit_at(1 << (count + 20), counted, &Counted { count });
        }
    }
    Archiver::open(space.path()).unwrap().finish().unwrap();
    std::fs::remove_file(space.path().join("0002.archive")).unwrap();
    // The row stays taken: this is the space of a process that was killed.
    std::mem::forget(row);
    space.path().to_path_buf()
}

/// Reads all there is, in every way. What comes back matters only as far as it is finite.
fn read_all(path: &Path) {
    let start = Instant::now();
    read_all_ways(path);
    assert!(start.elapsed() < Duration::from_secs(10), "a reader must come to an end");
}

fn read_all_ways(path: &Path) {
    let (seen, _) = read_events(path);
    assert!(seen.len() < 2000, "made up {} items", seen.len());
    let _ = discover::list(path.parent().unwrap());
    let Ok(reader) = SpaceReader::open(path) else { return };
    let _ = (
        reader.info(),
        reader.settings(),
        reader.live_rows(),
        reader.names(),
        reader.sites(),
        reader.writers(),
    );
    let _ = reader.events().by_block().poll(1000, &mut |item| drop(format!("{item:?}")));
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn the_space_is_good_before_it_is_damaged() {
    let directory = Directory::new("good");
    let path = make(&directory);
    let (seen, problem) = read_events(&path);
    assert!(problem.is_none(), "{problem:?}");
    let (events, lost) = totals(&seen);
    assert_eq!(events + lost, 180);
    assert!(events > 20 && lost > 20, "{events} {lost}");
    assert_eq!(files(&path).len(), 9);
    let reader = SpaceReader::open(&path).unwrap();
    assert_eq!(reader.live_rows().unwrap().len(), 1);
    assert_eq!(reader.settings().unwrap()[0].value, 3);
}

#[test]
fn every_byte_changed() {
    let directory = Directory::new("flip");
    let path = make(&directory);
    for name in files(&path) {
        let bytes = std::fs::read(&name).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&name).unwrap();
        let sparse = bytes.len() > 4 * PAGE;
        for at in 0..bytes.len() {
            // Of the large files only what means something, and a sample of the rest.
            if sparse && at % 509 != 0 && !(PAGE..PAGE + 128).contains(&at) && at >= 32 {
                continue;
            }
            let change = [0xff, 0x01, 0x80][at % 3];
            file.write_all_at(&[bytes[at] ^ change], at as u64).unwrap();
            read_all(&path);
            file.write_all_at(&bytes[at..at + 1], at as u64).unwrap();
        }
    }
    assert!(read_events(&path).1.is_none(), "the bytes were put back");
}

#[test]
fn words_of_extreme_values() {
    let directory = Directory::new("words");
    let path = make(&directory);
    for name in files(&path) {
        let bytes = std::fs::read(&name).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&name).unwrap();
        for at in (0..bytes.len().min(3 * PAGE)).step_by(8) {
            // The names and the command line are texts of any bytes.
            if at >= 512 && !(PAGE..PAGE + 512).contains(&at) && name.ends_with("space") {
                continue;
            }
            for value in [u64::MAX, 1 << 62, (1 << 62) - 8, 0xffff_ffff] {
                let length = 8.min(bytes.len() - at);
                file.write_all_at(&value.to_le_bytes()[..length], at as u64).unwrap();
                read_all(&path);
            }
            let end = (at + 8).min(bytes.len());
            file.write_all_at(&bytes[at..end], at as u64).unwrap();
        }
    }
}

#[test]
fn every_file_cut_at_every_length() {
    let directory = Directory::new("cut");
    let path = make(&directory);
    for name in files(&path) {
        let bytes = std::fs::read(&name).unwrap();
        let step = if bytes.len() > 4 * PAGE { 211 } else { 1 };
        for length in (0..bytes.len()).rev().step_by(step) {
            std::fs::OpenOptions::new().write(true).open(&name).unwrap().set_len(length as u64).unwrap();
            read_all(&path);
        }
        std::fs::remove_file(&name).unwrap();
        read_all(&path);
        std::fs::write(&name, bytes).unwrap();
    }
    assert!(read_events(&path).1.is_none(), "the files were put back");
}

/// A damaged writer does not hide the others.
#[test]
fn one_cut_element_leaves_the_others_readable() {
    let directory = Directory::new("one");
    let path = make(&directory);
    let (before, _) = read_events(&path);
    let element = std::fs::OpenOptions::new().write(true).open(path.join("0002.element")).unwrap();
    element.set_len(4000).unwrap();
    let (seen, problem) = read_events(&path);
    let problem = problem.expect("it must be told").to_string();
    assert!(problem.contains("0002.element") && problem.contains("truncated"), "{problem}");
    let first = |seen: &[support::Seen]| {
        let of_first = |s: &&support::Seen| match s {
            support::Seen::Event { writer, .. } | support::Seen::Gap { writer, .. } => *writer == 1,
        };
        seen.iter().filter(of_first).cloned().collect::<Vec<_>>()
    };
    assert_eq!(first(&seen), first(&before));
}

#[test]
fn a_later_version_is_refused_with_its_number() {
    let directory = Directory::new("version");
    let path = make(&directory);
    for name in
        ["space", "0000.catalog", "0001.element", "0001.archive", "0001.catalog", "settings", "live.0"]
    {
        let name = path.join(name);
        let bytes = std::fs::read(&name).unwrap();
        let mut later = bytes.clone();
        later[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
        std::fs::write(&name, later).unwrap();
        let error = SpaceReader::open(&path).and_then(|reader| {
            reader.settings()?;
            reader.live_rows()?;
            reader.events().poll(usize::MAX, &mut |_| {}).map(|_| ())
        });
        let error = error.expect_err(&format!("{name:?}")).to_string();
        assert!(error.contains("version 2") && error.contains("newer thalweg"), "{error}");
        std::fs::write(&name, bytes).unwrap();
    }
}

#[test]
fn no_space_is_an_error_that_says_what_to_do() {
    let directory = Directory::new("none");
    let error = SpaceReader::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("no space") && error.contains("thalweg ls"), "{error}");
}
