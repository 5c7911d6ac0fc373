//! The network of `audio.snet` on a file made by `oggenc`: two channels of 22,050 Hz, 0.6 s.

use app_audio::decoder::Decoder;
use app_audio::{DELAY, ECHO, GAIN, PLAYED, pcm};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use thalweg_box::Value;
use thalweg_exec::{Options, Runtime, TaskSpec};
use thalweg_net::label::Label;
use thalweg_net::{Boxes, Network, json};

/// Parameters are global to the process, so tests that set them are serialised by this lock.
static PARAMETERS: Mutex<()> = Mutex::new(());

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn chirp() -> PathBuf {
    folder().join("tests/data/chirp.ogg")
}

/// The pieces of the file's WAV, and the reasons for which records failed. `seen` is called after each piece.
fn run(
    file: &Path,
    pace: Option<i64>,
    mut seen: impl FnMut() + Send + 'static,
) -> (Vec<Vec<u8>>, Vec<String>) {
    let mut boxes = Boxes::new();
    boxes.add_entries("app-audio", app_audio::thalweg_box_entries()).unwrap();
    let network = Network::load(&folder().join("audio.snet"), &boxes).unwrap();
    let runtime = Runtime::new(Options { workers: 2, capacity: 2, ..Options::default() }).unwrap();
    let mut ends = network.start(&runtime).unwrap();
    let pace = pace.map_or(String::new(), |pace| format!(", \"<pace>\": {pace}"));
    let record =
        json::read_record(format!("{{\"file\": {:?}{pace}}}", file.to_str().unwrap()).as_bytes()).unwrap();
    runtime.spawn_blocking(TaskSpec::default(), move |task| task.push(&mut ends.input, record).unwrap());
    let (to, pieces) = channel();
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        while let Some(record) = task.pop(&mut ends.output) {
            match record.get(Label::field("data")) {
                Some(Value::Bytes(data)) => to.send(data.to_vec()).unwrap(),
                other => panic!("no bytes: {other:?}"),
            }
            seen();
        }
    });
    runtime.join().unwrap();
    (pieces.iter().collect(), ends.errors.iter().map(|error| error.reason.to_string()).collect())
}

/// The samples of the file from the decoder alone.
fn decoded() -> (Vec<f32>, u32, usize) {
    let decoder = Decoder::open(&chirp()).unwrap();
    let (rate, channels) = (decoder.rate(), decoder.channels());
    (decoder.flat_map(|piece| piece.unwrap().samples).collect(), rate, channels)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn a_file_becomes_what_a_plain_loop_makes_of_it() {
    let _alone = PARAMETERS.lock();
    GAIN.set(150);
    ECHO.set(40);
    DELAY.set(100);
    let (pieces, failures) = run(&chirp(), None, || {});
    assert_eq!(failures, [""; 0]);
    assert!(pieces.len() > 3, "the file is no single piece");
    let wav = pieces.concat();
    let (sound, rate, channels) = decoded();
    assert_eq!((rate, channels, sound.len()), (22050, 2, 2 * 13230));
    assert_eq!((&wav[..4], &wav[8..16], &wav[36..40]), (&b"RIFF"[..], &b"WAVEfmt "[..], &b"data"[..]));
    assert_eq!((number(&wav, 24), number(&wav, 28)), (rate, rate * 4));
    assert_eq!((number(&wav, 4) as usize, number(&wav, 40) as usize), (wav.len() - 8, wav.len() - 44));
    let delay = 22050 / 10 * channels;
    let wanted = (0..sound.len()).map(|index| {
        let before = if index < delay { 0.0 } else { sound[index - delay] };
        pcm((1.5 * (sound[index] + 0.4 * before)).clamp(-1.0, 1.0))
    });
    let found = wav[44..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
    assert!(found.eq(wanted));
    assert_eq!(PLAYED.get(), 600);
}

#[test]
fn a_parameter_is_heard_at_once_in_real_time() {
    let _alone = PARAMETERS.lock();
    GAIN.set(100);
    ECHO.set(0);
    let mut count = 0;
    let begun = Instant::now();
    let (pieces, failures) = run(&chirp(), Some(100), move || {
        count += 1;
        if count == 2 {
            GAIN.set(0);
        }
    });
    assert_eq!(failures, [""; 0]);
    // The last piece begins after half a second.
    assert!(begun.elapsed() >= Duration::from_millis(500), "faster than real time: {:?}", begun.elapsed());
    let silent = |piece: &Vec<u8>| piece.iter().all(|byte| *byte == 0);
    assert!(!silent(&pieces[1]) && silent(pieces.last().unwrap()));
}

#[test]
fn what_is_no_sound_fails_its_record() {
    let (pieces, failures) = run(&folder().join("audio.snet"), None, || {});
    assert!(pieces.is_empty());
    assert!(failures.len() == 1 && failures[0].contains("it has no Ogg page"), "{failures:?}");
    let (_, failures) = run(Path::new("/no/such.ogg"), None, || {});
    assert!(failures[0].contains("/no/such.ogg: No such file"), "{failures:?}");
    let (_, failures) = run(&chirp(), Some(-1), || {});
    assert!(failures[0].contains("percentage of real time"), "{failures:?}");
}
