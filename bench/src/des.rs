//! Group `des`: a file of 10 MB through the network of `apps/des`, from memory to memory, compared with the
//! plain loop.

use crate::cores::on_cores;
use crate::measure::{Case, Contestant, Goal};
use crate::observed::{self, Observed};
use app_des::des::{Subkeys, encrypt};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Instant;
use thalweg_box::{Bytes, Value};
use thalweg_exec::{Blocking, In, Mode, Options, Out, TaskSpec};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::{Boxes, Network};

/// The size of the file in bytes.
const FILE_BYTES: usize = 10_000_000;
/// The size of a chunk in bytes: the default of `thalweg run`.
const CHUNK_BYTES: usize = 16384;
/// The capacity of a stream, which is small because chunks are large.
const CAPACITY: usize = 8;
const KEY: [u8; 8] = 0x1334_5779_9BBC_DFF1_u64.to_be_bytes();

/// Plain text and its cipher by the plain loop.
static FILE: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    let plain: Vec<u8> = (0..FILE_BYTES).map(|_| next()).collect();
    let secret = encrypt(&Subkeys::new(KEY), &plain);
    (plain, secret)
});

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for mode in [Mode::Off, Mode::Metrics, Mode::Full] {
        cases.push(Case {
            group: "des",
            name: "network on one worker, against the plain loop".into(),
            params: vec![("mode", observed::name(mode).into())],
            unit: "MB/s",
            ours: network(1, mode),
            rivals: if mode == Mode::Off { vec![openssl()] } else { Vec::new() },
            limit: Some(plain_loop()),
            goal: Goal::RatioAtLeast(0.9),
        });
    }
    for mode in [Mode::Off, Mode::Metrics, Mode::Full] {
        cases.push(Case {
            group: "des",
            name: "two workers, against one".into(),
            params: vec![("mode", observed::name(mode).into())],
            unit: "MB/s",
            ours: network(2, mode),
            rivals: Vec::new(),
            limit: Some(network(1, mode)),
            goal: Goal::RatioAtLeast(1.8),
        });
    }
    for mode in [Mode::Metrics, Mode::Full] {
        cases.push(Case {
            group: "des",
            name: "monitoring on two workers, against mode off".into(),
            params: vec![("mode", observed::name(mode).into())],
            unit: "MB/s",
            ours: network(2, mode),
            rivals: Vec::new(),
            limit: Some(network(2, Mode::Off)),
            goal: Goal::RatioAtLeast(0.97),
        });
    }
    cases
}

fn rate(seconds: f64) -> f64 {
    FILE_BYTES as f64 / 1e6 / seconds
}

fn plain_loop() -> Contestant<'static> {
    Contestant::new("plain loop", "", || {
        let (plain, secret) = &*FILE;
        on_cores(1, || {
            let begin = Instant::now();
            let result = encrypt(&Subkeys::new(KEY), plain);
            let took = begin.elapsed();
            if result == *secret { Ok(rate(took.as_secs_f64())) } else { Err("the cipher differs".into()) }
        })
    })
}

/// `openssl speed` with samples of one second: its own loop over a buffer that stays in the cache.
fn openssl() -> Contestant<'static> {
    let name = "openssl speed des-ecb";
    match Command::new("openssl").arg("version").output() {
        Err(error) => Contestant::missing(name, "", format!("cannot run openssl: {error}")),
        Ok(told) => {
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            let version = told.split_whitespace().nth(1).unwrap_or_default().to_owned();
            Contestant::new(name, String::leak(version), openssl_speed)
        }
    }
}

fn openssl_speed() -> Result<f64, String> {
    let mut command = Command::new("openssl");
    command.args(["speed", "-provider", "legacy", "-provider", "default", "-seconds", "1", "-mr"]);
    let told =
        command.args(["-bytes", "16384", "-evp", "des-ecb"]).output().map_err(|error| error.to_string())?;
    let lines = String::from_utf8_lossy(&told.stdout).into_owned();
    let rate = lines.lines().find(|line| line.starts_with("+F:")).and_then(|line| line.rsplit(':').next());
    let bytes_per_second = rate.and_then(|rate| rate.parse::<f64>().ok());
    bytes_per_second.map(|rate| rate / 1e6).ok_or_else(|| {
        format!(
            "openssl printed no rate (is its legacy provider installed?): {}",
            String::from_utf8_lossy(&told.stderr)
        )
    })
}

fn network(workers: usize, mode: Mode) -> Contestant<'static> {
    let name = format!("network, {workers} workers");
    let mut boxes = Boxes::new();
    if let Err(error) = boxes.add_entries("app-des", app_des::thalweg_box_entries()) {
        return Contestant::missing(name, "", error.to_string());
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apps/des/des.snet");
    match Network::load(&file, &boxes) {
        Ok(network) => Contestant::new(name, "", move || encrypt_by(&network, workers, mode)),
        Err(diagnostics) => {
            let told: String = diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
            Contestant::missing(name, "", told)
        }
    }
}

/// Encrypts as `thalweg run` does: the source and the sink have threads of their own, and the sink restores
/// the order.
fn encrypt_by(network: &Network, workers: usize, mode: Mode) -> Result<f64, String> {
    let (plain, secret) = &*FILE;
    let observed = Observed::with(Options { workers, mode, capacity: CAPACITY, ..Options::default() })?;
    let chunks: Vec<Bytes> = plain.chunks(CHUNK_BYTES).map(|chunk| Bytes::from_vec(chunk.to_vec())).collect();
    let begin = Instant::now();
    let ends = network.start(&observed.runtime).map_err(|error| error.to_string())?;
    let (told, end) = std::sync::mpsc::channel();
    let (mut input, mut output) = (ends.input, ends.output);
    observed.runtime.spawn_blocking_attached(TaskSpec::default(), move |ports| {
        ports.output(&mut input);
        move |task| feed(task, chunks, input)
    });
    observed.runtime.spawn_blocking_attached(TaskSpec::default(), move |ports| {
        ports.input(&mut output);
        move |task| {
            let result = collect(task, output);
            told.send((result, Instant::now())).ok();
        }
    });
    observed.runtime.start();
    let told = end.recv();
    observed.join()?;
    let (result, end) = told.map_err(|_| "the sink ended without a result")?;
    let equal = result.iter().flat_map(|chunk| chunk.as_slice()).eq(secret);
    if equal { Ok(rate((end - begin).as_secs_f64())) } else { Err("the cipher differs".into()) }
}

fn feed(task: &mut Blocking, chunks: Vec<Bytes>, mut input: Out<Record>) {
    let labels = [Label::field("data"), Label::field("key"), Label::tag("seq"), Label::tag("last")];
    let key = Value::Bytes(Bytes::from_vec(KEY.to_vec()));
    let count = chunks.len();
    for (seq, chunk) in chunks.into_iter().enumerate() {
        let last = i64::from(seq + 1 == count);
        let values = [Value::Bytes(chunk), key.clone(), Value::Int(seq as i64), Value::Int(last)];
        if task.feed(&mut input, Record::from_pairs(labels.into_iter().zip(values))).is_err() {
            return;
        }
    }
}

/// Reads the chunks and orders them; returns none if a record is not a chunk.
fn collect(task: &mut Blocking, mut output: In<Record>) -> Vec<Bytes> {
    let (data, seq) = (Label::field("data"), Label::tag("seq"));
    let mut result = Vec::new();
    let mut waiting = std::collections::BTreeMap::new();
    while let Some(mut record) = task.pop(&mut output) {
        let (Some(Value::Bytes(bytes)), Some(Value::Int(seq))) = (record.remove(data), record.remove(seq))
        else {
            return Vec::new();
        };
        waiting.insert(seq, bytes);
        while let Some(bytes) = waiting.remove(&(result.len() as i64)) {
            result.push(bytes);
        }
    }
    result
}
