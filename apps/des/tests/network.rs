//! Runs the network of `des.snet`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use app_des::des::{Subkeys, encrypt};
use thalweg_box::{Bytes, Value};
use thalweg_exec::{Mode, Options, Runtime, TaskSpec};
use thalweg_net::check::{KnownBoxes, check_file};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::{Boxes, Network};
use thalweg_space::{Space, SpaceOptions};

const KEY: [u8; 8] = 0x1334_5779_9BBC_DFF1_u64.to_be_bytes();

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("des.snet")
}

fn network() -> Network {
    let mut boxes = Boxes::new();
    boxes.add_entries("app-des", app_des::thalweg_box_entries()).unwrap();
    Network::load(&file(), &boxes).unwrap_or_else(|diagnostics| {
        panic!("{}", diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect::<String>())
    })
}

/// A directory for spaces, removed when the value is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("app-des-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// The output of the network: the bytes in order, and the reasons of records that failed.
struct Result {
    bytes: Vec<u8>,
    failures: Vec<String>,
}

/// Sends `data` through the network in chunks, as `thalweg run` does.
fn through(options: Options, data: &[u8], chunk: usize, key: &[u8], decrypt: bool) -> Result {
    let runtime = Runtime::new(options).unwrap();
    let mut ends = network().start(&runtime).unwrap();
    let records = records(data, chunk, key, decrypt);
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        for record in records {
            task.push(&mut ends.input, record).unwrap();
        }
    });
    let (sender, results) = std::sync::mpsc::channel();
    let failures = sender.clone();
    runtime.spawn_blocking(TaskSpec::default(), move |_| {
        while let Ok(error) = ends.errors.recv() {
            failures.send(Err(error.reason)).unwrap();
        }
    });
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        while let Some(mut record) = task.pop(&mut ends.output) {
            let labels = [Label::tag("seq"), Label::field("data"), Label::tag("last")];
            let values = labels.map(|label| record.remove(label));
            let [Some(Value::Int(seq)), Some(Value::Bytes(bytes)), Some(_)] = values else {
                panic!("{record:?} lacks a label")
            };
            assert_eq!(record.slots().len(), 0, "{record:?} has labels that should have been consumed");
            sender.send(Ok((seq, bytes.into_vec()))).unwrap();
        }
    });
    let summary = runtime.join().unwrap();
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    let mut chunks = BTreeMap::new();
    let mut failures = Vec::new();
    for result in results {
        match result {
            Ok((seq, bytes)) => assert_eq!(chunks.insert(seq, bytes), None, "chunk {seq} came twice"),
            Err(reason) => failures.push(reason),
        }
    }
    Result { bytes: chunks.into_values().collect::<Vec<_>>().concat(), failures }
}

fn records(data: &[u8], chunk: usize, key: &[u8], decrypt: bool) -> Vec<Record> {
    let mut chunks: Vec<&[u8]> = data.chunks(chunk).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let key = Value::Bytes(Bytes::from_vec(key.to_vec()));
    let count = chunks.len();
    let record = |(seq, part): (usize, &[u8])| {
        let mut pairs = vec![
            (Label::field("data"), Value::Bytes(Bytes::from_vec(part.to_vec()))),
            (Label::field("key"), key.clone()),
            (Label::tag("seq"), Value::Int(seq as i64)),
            (Label::tag("last"), Value::from(seq + 1 == count)),
        ];
        if decrypt {
            pairs.push((Label::tag("decrypt"), Value::Int(1)));
        }
        Record::from_pairs(pairs)
    };
    chunks.into_iter().enumerate().map(record).collect()
}

fn noise(count: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn the_network_fits_the_boxes_of_the_library() {
    let mut known = KnownBoxes::default();
    for entry in app_des::thalweg_box_entries() {
        known.add("app-des", entry.signature().unwrap()).unwrap();
    }
    let checked = check_file(&file(), Some(&known));
    let errors: String = checked.diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
    assert_eq!(errors, "");
    assert!(checked.resolved.is_some());
}

#[test]
fn a_file_is_the_same_in_every_mode_with_one_and_two_workers() {
    let plain = noise(3_000_001);
    let secret = encrypt(&Subkeys::new(KEY), &plain);
    let directory = Directory::new("modes");
    for workers in [1, 2] {
        for mode in [Mode::Off, Mode::Metrics, Mode::Full] {
            let name = format!("{workers}-{mode:?}");
            let parent = Some(directory.0.clone());
            let space = Space::create(SpaceOptions { name, parent, ..SpaceOptions::default() }).unwrap();
            let options = Options { workers, mode, space: Some(space), ..Options::default() };
            let result = through(options, &plain, 16384, &KEY, false);
            assert_eq!(result.failures, Vec::<String>::new());
            assert!(result.bytes == secret, "{workers} workers, mode {mode:?}");
        }
    }
}

#[test]
fn files_of_any_length_come_back() {
    let chunk = 64;
    for length in [0, 1, 7, 8, 9, chunk - 1, chunk, chunk + 1, 5 * chunk, 100 * chunk + 13] {
        let plain = noise(length);
        let options = || Options { workers: 2, ..Options::default() };
        let secret = through(options(), &plain, chunk, &KEY, false).bytes;
        assert!(secret == encrypt(&Subkeys::new(KEY), &plain), "{length} bytes");
        assert!(through(options(), &secret, chunk, &KEY, true).bytes == plain, "{length} bytes and back");
    }
}

#[test]
fn chunks_that_cannot_be_enciphered_fail_alone() {
    let result = through(Options::default(), &noise(100), 10, &KEY, false);
    // The data are nine chunks of 10 bytes, of which the last one is padded.
    assert_eq!(result.failures.len(), 9);
    assert!(result.failures[0].starts_with("10 bytes are not a whole number"), "{}", result.failures[0]);
    assert_eq!(result.bytes.len(), 16);
    let result = through(Options::default(), &noise(100), 8, b"seven b", false);
    assert_eq!(result.failures.len(), 13);
    assert_eq!(result.failures[0], "a DES key has 8 bytes, this one has 7");
}
