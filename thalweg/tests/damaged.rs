//! Reports on damaged spaces: half-written and lost blocks, cut files, another version, a message that does
//! not exist. The reports name missing data and never guess them.

mod planted_run;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use planted_run::planted_nets::{Cause, Net};
use planted_run::{Place, build, runtime_of, space_of_blocks};
use thalweg_monitor::Report;
use thalweg_space::layout::{element, identity};

/// The bytes of a block of the spaces in this test: a block has about a thousand events.
const BLOCK: u64 = 1 << 15;

/// The duration of a run; on a busy machine the run goes on until there are a few blocks.
const LONG_ENOUGH: Duration = Duration::from_millis(200);
const TOO_LONG: Duration = Duration::from_secs(60);

/// The space of a run that ended.
fn ended() -> Place {
    // A quantum of 1 or 2 messages makes many events.
    let net = Net::planted(Cause::SmallQuantum, 1);
    let place = Place::new();
    let space = space_of_blocks(&place, BLOCK as usize);
    let runtime = runtime_of(&net, &space);
    let (begun, path) = (Instant::now(), place.0.clone());
    let is_short = move || begun.elapsed() < LONG_ENOUGH || head(&fullest_in(&path)) < 4 * BLOCK;
    build(&net, &runtime, &space, move || begun.elapsed() < TOO_LONG && is_short());
    runtime.join().unwrap();
    space.finish();
    place
}

/// The element with most events, which is a worker's.
fn fullest(place: &Place) -> PathBuf {
    fullest_in(&place.0)
}

fn fullest_in(space: &Path) -> PathBuf {
    let files = std::fs::read_dir(space).unwrap().map(|file| file.unwrap().path());
    let elements = files.filter(|file| file.extension().is_some_and(|of| of == "element"));
    elements.max_by_key(|file| head(file)).expect("there are elements")
}

/// Counts the bytes that were written into an element; 0 for a file that a thread of the run has just created, and that
/// has no header yet.
fn head(file: &Path) -> u64 {
    let mut word = [0; 8];
    match std::fs::File::open(file).unwrap().read_exact_at(&mut word, element::HEAD as u64) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
        read => read.map(|()| u64::from_le_bytes(word)).expect("an element"),
    }
}

fn write_at(file: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(file).unwrap().write_all_at(bytes, at).unwrap();
}

fn thalweg(arguments: &[&str], place: &Place, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).arg(&place.0).args(more).output().expect("thalweg starts")
}

fn report(place: &Place) -> Report {
    let output = thalweg(&["report"], place, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a report")
}

fn note<'r>(report: &'r Report, code: &str) -> &'r str {
    let found = report.notes.iter().find(|note| note.code == code);
    &found.unwrap_or_else(|| panic!("no note {code}: {:?}", report.notes)).text
}

/// Checks that counts come from the totals, which lost events cannot falsify, and that the report leaves out
/// figures for which the lost events would be needed.
fn is_honest(damaged: &Report, whole: &Report) {
    assert!(whole.window.complete && !damaged.window.complete);
    assert_eq!(damaged.throughput.messages_in, whole.throughput.messages_in);
    assert!(damaged.streams.iter().all(|stream| stream.occupancy_mean.is_none()));
    assert!(damaged.latency.entered <= whole.latency.entered);
    assert_eq!(damaged.broken_count, 0);
}

#[test]
fn a_lost_block_is_a_gap_and_is_counted() {
    let place = ended();
    let whole = report(&place);
    let file = fullest(&place);
    assert!(head(&file) > 2 * BLOCK, "the run was too short: {} bytes", head(&file));
    // A block whose number was overwritten is not recognised as a block.
    write_at(&file, element::DATA as u64 + BLOCK, &[0; 8]);
    let damaged = report(&place);
    is_honest(&damaged, &whole);
    assert!(damaged.window.lost > 100 && damaged.window.gaps >= 1, "{:?}", damaged.window);
    assert_eq!(damaged.window.events + damaged.window.lost, whole.window.events);
    let text = note(&damaged, "lost");
    assert!(text.starts_with(&format!("{} events lost in", damaged.window.lost)), "{text}");
}

#[test]
fn a_half_written_block_is_read_up_to_where_it_breaks_off() {
    let place = ended();
    let whole = report(&place);
    let file = fullest(&place);
    // The second half of a block is wiped; the block lies well before the end, where the totals are.
    let block = head(&file) / BLOCK - 2;
    write_at(&file, element::DATA as u64 + block * BLOCK + BLOCK / 2, &vec![0; BLOCK as usize / 2]);
    let damaged = report(&place);
    is_honest(&damaged, &whole);
    assert!(damaged.window.lost > 100, "{:?}", damaged.window);
    assert!(damaged.window.events + damaged.window.lost <= whole.window.events);
}

#[test]
fn a_cut_file_is_named_and_the_rest_reported() {
    let place = ended();
    let whole = report(&place);
    let file = fullest(&place);
    OpenOptions::new().write(true).open(&file).unwrap().set_len(element::DATA as u64 + BLOCK).unwrap();
    let damaged = report(&place);
    assert!(damaged.window.events > 0 && damaged.window.events < whole.window.events);
    let name = file.file_name().unwrap().to_str().unwrap();
    let text = note(&damaged, "damaged");
    assert!(text.contains(name) && text.contains("truncated"), "{text}");
}

#[test]
fn a_space_of_another_version_is_refused_with_words() {
    let place = ended();
    let version = thalweg_space::layout::VERSION + 1;
    write_at(&place.0.join("space"), identity::VERSION as u64, &version.to_le_bytes());
    for command in ["report", "diagnose", "waits", "streams", "workers"] {
        let output = thalweg(&[command], &place, &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {stderr}");
        assert!(stderr.contains("version") && stderr.contains(&version.to_string()), "{command}: {stderr}");
    }
}

#[test]
fn a_message_that_never_was_is_reported_as_unknown() {
    let place = ended();
    for (message, words) in [
        ("999999:0", "say nothing of a message 999999:0"),
        ("1:99999999999", "say nothing of a message 1:99999999999"),
        ("seven", "seven"),
    ] {
        let output = thalweg(&["message"], &place, &[message]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
}
