//! Tests with damaged and truncated files: every byte of a small space is changed, every file is cut at every
//! length. A reader returns an error or counts lost events; it never panics, hangs or returns events without
//! end.

mod support;

use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::hostile::{Template, fifo, make, read_all_ways, read_one_way, write_all_ways};
use support::{Directory, child, read_events, skip, totals};
use thalweg_chance::Chance;
use thalweg_space::archive::Archiver;
use thalweg_space::layout::{PAGE, VERSION, element};
use thalweg_space::reader::SpaceReader;

/// Reads everything in a space in every way that a reader has. The results do not matter, but the reading
/// must end.
fn read_all(path: &Path) {
    let start = Instant::now();
    read_all_ways(path);
    assert!(start.elapsed() < Duration::from_secs(10), "a reader must come to an end");
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// Whether byte `at` of a file with a page of header is unused. Of the unused bytes only a sample is changed.
fn is_unused(at: usize, bytes: &[u8]) -> bool {
    bytes.len() > PAGE && (element::HEADER + 8..PAGE - 8).contains(&at)
}

#[test]
fn the_space_is_good_before_it_is_damaged() {
    let directory = Directory::new("good");
    let path = make(directory.path());
    let (seen, problem) = read_events(&path);
    assert!(problem.is_none(), "{problem:?}");
    let (events, lost) = totals(&seen);
    assert_eq!(events + lost, 285);
    assert!(events > 20 && lost > 20, "{events} {lost}");
    assert_eq!(files(&path).len(), 16, "{:?}", files(&path));
    let reader = SpaceReader::open(&path).unwrap();
    assert_eq!(reader.live_rows().unwrap().len(), 1);
    assert_eq!(reader.settings().unwrap()[0].value, 3);
}

#[test]
fn every_byte_changed() {
    let directory = Directory::new("flip");
    let path = make(directory.path());
    for name in files(&path) {
        let bytes = std::fs::read(&name).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&name).unwrap();
        let sparse = bytes.len() > 2 * PAGE;
        for at in 0..bytes.len() {
            // In large files the bytes of the headers, and a sample of the other bytes, are changed.
            if sparse && at % 509 != 0 && !(PAGE..PAGE + 128).contains(&at) && at >= 128 {
                continue;
            }
            if is_unused(at, &bytes) && at % 37 != 0 {
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
    let path = make(directory.path());
    for name in files(&path) {
        let bytes = std::fs::read(&name).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&name).unwrap();
        for at in (0..bytes.len().min(3 * PAGE)).step_by(8) {
            if is_unused(at, &bytes) && at % 37 != 0 {
                continue;
            }
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
    let path = make(directory.path());
    for name in files(&path) {
        let bytes = std::fs::read(&name).unwrap();
        let step = if bytes.len() > 4 * PAGE { 211 } else { 1 };
        for length in (0..bytes.len()).rev().step_by(step) {
            if is_unused(length, &bytes) && length % 37 != 0 {
                continue;
            }
            std::fs::OpenOptions::new().write(true).open(&name).unwrap().set_len(length as u64).unwrap();
            read_all(&path);
        }
        std::fs::remove_file(&name).unwrap();
        read_all(&path);
        std::fs::write(&name, bytes).unwrap();
    }
    assert!(read_events(&path).1.is_none(), "the files were put back");
}

/// A damaged element does not keep the other elements from being read.
#[test]
fn one_cut_element_leaves_the_others_readable() {
    let directory = Directory::new("one");
    let path = make(directory.path());
    let (before, _) = read_events(&path);
    let element = std::fs::OpenOptions::new().write(true).open(path.join("0002.element")).unwrap();
    element.set_len(4000).unwrap();
    let (seen, problem) = read_events(&path);
    let problem = problem.expect("it must be reported").to_string();
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
    let path = make(directory.path());
    for name in [
        "space",
        "0000.catalog",
        "0001.element",
        "0001.archive",
        "0001.catalog",
        "settings",
        "live.0",
        "segments",
        "000001.segment",
    ] {
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
        let versions = format!("has version {}, and this program reads up to version {VERSION}", VERSION + 1);
        assert!(error.contains(&versions) && error.contains("newer thalweg"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        std::fs::write(&name, bytes).unwrap();
    }
}

#[test]
fn no_space_is_an_error_with_what_to_do() {
    let directory = Directory::new("none");
    let error = SpaceReader::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("no space") && error.contains("thalweg ls"), "{error}");
}

/// The number of damaged spaces that are read; the next constant is the number of processes.
const DAMAGED: u64 = 100_000;
const READERS: u64 = 2;

/// Many damaged spaces are read in processes with limited memory and time.
#[test]
fn a_hundred_thousand_damaged_spaces() {
    let directory = Directory::new("damaged");
    let children: Vec<_> = (0..READERS)
        .map(|reader| {
            let place = directory.path().join(reader.to_string());
            std::fs::create_dir(&place).unwrap();
            let variables = [
                ("THALWEG_TEST_PARENT", place.to_str().unwrap().to_string()),
                ("THALWEG_TEST_READER", reader.to_string()),
            ];
            std::thread::spawn(move || child::run("damaged_spaces_process", &variables))
        })
        .collect();
    for child in children {
        let stderr = child.join().unwrap_or_else(|_| {
            let place = |reader| directory.path().join(format!("{reader}.case"));
            let cases: Vec<_> = (0..READERS).map(|reader| std::fs::read_to_string(place(reader))).collect();
            panic!("a panic, a signal or an end of memory; of the readers, these were at {cases:?}")
        });
        assert!(stderr.contains(&format!("read {}", DAMAGED / READERS)), "{stderr}");
    }
}

/// One case can be run again with `THALWEG_TEST_PARENT=/tmp/an-empty-directory THALWEG_TEST_READER=0
/// THALWEG_TEST_CASE=4711`.
#[test]
#[ignore = "run by another test"]
fn damaged_spaces_process() {
    let Some(parent) = child::given::<PathBuf>("THALWEG_TEST_PARENT") else { return };
    let Some(reader) = child::given::<u64>("THALWEG_TEST_READER") else { return };
    let one = child::given::<u64>("THALWEG_TEST_CASE");
    let now = std::fs::File::create(parent.with_extension("case")).unwrap();
    child::confine(&parent, 256 << 20, 1 << 30, 0);
    let path = make(&parent);
    let template = Template::of(&path);
    for case in 0..DAMAGED / READERS {
        if one.is_some_and(|one| one != case) {
            continue;
        }
        // The file names the present case, so that the case is known if a signal ends the process.
        now.write_all_at(format!("case {case:6}").as_bytes(), 0).unwrap();
        child::end_after(60);
        let mut random = Chance::new(case * READERS + reader);
        let choose = &mut |limit| random.below(limit);
        if case % 16 == 0 {
            // The files are damaged while a reader reads them.
            std::thread::scope(|scope| {
                scope.spawn(|| (0..4).for_each(|_| template.damage(choose)));
                read_all_ways(&path);
            });
        } else {
            template.damage(choose);
        }
        read_one_way(&path, choose(2));
        let written = case % 8 == 1;
        if written {
            write_all_ways(&path);
        }
        template.restore(written);
    }
    assert!(read_events(&path).1.is_none(), "the files were put back");
    eprintln!("read {}", DAMAGED / READERS);
}

/// Entries that are no plain files are rejected: opening a FIFO would block, and a link may lead to private
/// files.
#[test]
fn links_fifos_and_directories_are_refused() {
    let directory = Directory::new("kinds");
    let path = make(directory.path());
    let elsewhere = directory.path().join("elsewhere");
    for name in files(&path) {
        let bytes = std::fs::read(&name).unwrap();
        std::fs::write(&elsewhere, &bytes).unwrap();
        let made: [(&str, &dyn Fn() -> std::io::Result<()>); 3] = [
            ("symbolic link", &|| symlink(&elsewhere, &name)),
            ("FIFO", &|| fifo(&name)),
            ("directory", &|| std::fs::create_dir(&name)),
        ];
        for (what, make) in made {
            std::fs::remove_file(&name).unwrap();
            make().unwrap();
            let error = SpaceReader::open(&path).and_then(|reader| {
                reader.settings()?;
                reader.live_rows()?;
                reader.events().poll(usize::MAX, &mut |_| {}).map(|_| ())
            });
            let error = format!("{:#}", error.expect_err(&format!("{what} {}", name.display())));
            assert!(error.contains(what) && error.contains(name.to_str().unwrap()), "{error}");
            if what == "directory" {
                std::fs::remove_dir(&name).unwrap();
                std::fs::write(&name, &bytes).unwrap();
            }
        }
    }
    assert!(read_events(&path).1.is_none(), "the files were put back");
}

/// A link in place of an archive must not lead to writes into a file elsewhere.
#[test]
fn an_archiver_writes_through_no_link() {
    let directory = Directory::new("link");
    let path = make(directory.path());
    let precious = directory.path().join("precious");
    for name in ["segments.new", "segments", "000002.segment", "0002.element"] {
        let name = path.join(name);
        let before = std::fs::read(&name).ok();
        std::fs::write(&precious, before.as_deref().unwrap_or(b"precious")).unwrap();
        let expected = std::fs::read(&precious).unwrap();
        let _ = std::fs::remove_file(&name);
        symlink(&precious, &name).unwrap();
        let _ = Archiver::open(&path).and_then(Archiver::finish);
        assert_eq!(std::fs::read(&precious).unwrap(), expected, "{}", name.display());
        let _ = std::fs::remove_file(&name);
        if let Some(before) = before {
            std::fs::write(&name, before).unwrap();
        }
    }
}

/// An archive that appears while a reader follows its element is checked like one that existed before.
#[test]
fn a_late_archive_of_other_blocks_is_refused() {
    let directory = Directory::new("late");
    let path = make(directory.path());
    let reader = SpaceReader::open(&path).unwrap();
    let mut stream = reader.events();
    while stream.poll(usize::MAX, &mut |_| {}).unwrap() > 0 {}
    let mut archive = std::fs::read(path.join("0001.archive")).unwrap();
    archive[element::BLOCKS..][..8].copy_from_slice(&1024_u64.to_le_bytes());
    std::fs::write(path.join("0002.archive"), archive).unwrap();
    let error = stream.poll(usize::MAX, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("0002.element and its archive disagree"), "{error}");
}

/// When sparse files are read that are larger than any disk, holes are skipped.
#[test]
fn huge_files_with_holes_are_read_at_once() {
    let directory = Directory::new("huge");
    child::run(
        "huge_files_process",
        &[("THALWEG_TEST_PARENT", directory.path().to_str().unwrap().to_string())],
    );
}

#[test]
#[ignore = "run by another test"]
fn huge_files_process() {
    let Some(parent) = child::given::<PathBuf>("THALWEG_TEST_PARENT") else { return };
    child::confine(&parent, 256 << 20, 1 << 30, 120);
    let path = make(&parent);
    let (before, _) = read_events(&path);
    for (name, blocks) in [("0001.archive", 512), ("0002.element", 512 | 1 << 63)] {
        let bytes = std::fs::read(path.join(name)).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(path.join(name)).unwrap();
        if file.set_len(1 << 43).is_err() {
            skip("no room for a file with a large hole");
            continue;
        }
        file.write_all_at(&u64::to_le_bytes(blocks), element::BLOCKS as u64).unwrap();
        file.write_all_at(&(1_u64 << 43).to_le_bytes(), element::HEAD as u64).unwrap();
        read_all_ways(&path);
        write_all_ways(&path);
        std::fs::write(path.join(name), bytes).unwrap();
    }
    let _ = std::fs::remove_file(path.join("0002.archive"));
    let (after, problem) = read_events(&path);
    assert!(problem.is_none(), "{problem:?}");
    assert_eq!(totals(&after), totals(&before));
}
