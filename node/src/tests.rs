//! Damaged conversations with a node: valid greetings and questions of which bits, lengths and values are
//! changed, cut, doubled, left out or exchanged. Whatever comes, no thread of the node panics, and the node
//! goes on answering.
//!
//! `FUZZ_SECONDS` sets the time of the ignored test, and `SEED` its first case.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_chance::{Chance, number_of};

use crate::channel::Channel;
use crate::{Cluster, Known, Node, NodeOptions};

/// The longest time that one case may take: the end of a session's process is waited for, and questions are
/// long.
const CASE_MAX: Duration = Duration::from_secs(20);
/// How long answers are waited for.
const ANSWERS: Duration = Duration::from_millis(30);
/// The most memory that the cases may take, in kilobytes.
const MEMORY_KB_MAX: u64 = 400_000;

/// The node of all cases. Its program for sessions ends at once.
struct Tried {
    _folder: tempfile::TempDir,
    cluster: Cluster,
    known: Known,
    stop: Arc<AtomicBool>,
    serving: Option<std::thread::JoinHandle<()>>,
}

impl Tried {
    fn start() -> Tried {
        let folder = tempfile::tempdir().unwrap();
        let cluster = Cluster::open(Some(&folder.path().join("cluster"))).unwrap();
        let options = NodeOptions {
            name: "a".into(),
            listen: "127.0.0.1:0".into(),
            tls: false,
            join: Vec::new(),
            allow_exec: false,
            cluster: cluster.clone(),
            part: vec![Path::new("/bin/true").into()],
            half: Vec::new(),
        };
        let node = Node::start(options).unwrap();
        let (known, stop) = (node.known().clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let serving = Some(std::thread::spawn(move || node.serve(&stopped)));
        Tried { _folder: folder, cluster, known, stop, serving }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.known.address).unwrap()
    }

    /// Asks questions of a peer that knows the token, some of them damaged.
    fn ask(&self, seed: u64) {
        let mut chance = Chance::new(seed);
        let stream = self.connect();
        let other = stream.try_clone().unwrap();
        let Ok(mut channel) = Channel::greeted(stream, self.cluster.token()) else {
            panic!("case {seed}: the node does not greet")
        };
        let questions = (0..1 + chance.below(6)).map(|_| question(&mut chance));
        let mut messages: Vec<Vec<u8>> = questions.collect::<Vec<_>>();
        (0..chance.below(4)).for_each(|_| damage(&mut messages, &mut chance));
        // An error means that the node has closed the connection.
        _ = channel.send_bytes(&messages.concat());
        _ = other.shutdown(std::net::Shutdown::Write);
        // A node keeps a connection to which it may have to answer again.
        _ = other.set_read_timeout(Some(ANSWERS));
        _ = (&other).read_to_end(&mut Vec::new());
    }

    /// Begins as a peer does that does not know the token.
    fn greet(&self, seed: u64) {
        let mut chance = Chance::new(seed);
        let mut stream = self.connect();
        stream.set_read_timeout(Some(CASE_MAX)).unwrap();
        let mut messages =
            vec![b"thalwgn1".to_vec(), chance.bytes(32), chance.bytes(32), question(&mut chance)];
        (0..chance.below(4)).for_each(|_| damage(&mut messages, &mut chance));
        _ = stream.write_all(&messages.concat());
        _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer);
        // The node's own number is all that such a peer learns.
        assert!(answer.len() <= 40, "case {seed}: {} bytes", answer.len());
    }

    /// Whether the node answers a valid question.
    fn is_well(&self) -> bool {
        let connected = self.cluster.connect(&self.known);
        connected.is_ok_and(|mut channel| channel.ask("who", json!({}), &[]).is_ok())
    }
}

impl Drop for Tried {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(serving) = self.serving.take() {
            // A panic of the node's thread was reported by the thread itself.
            _ = serving.join();
        }
    }
}

/// A valid message, as bytes.
fn question(chance: &mut Chance) -> Vec<u8> {
    let hash = "ab".repeat(32);
    let mut blob = Vec::new();
    let mut head = match chance.below(11) {
        0 => json!({"do": "who", "key": "00112233445566778899aabbccddeeff", "number": 1}),
        1 => json!({"do": "time"}),
        2 => json!({"do": "join", "name": "b", "address": "127.0.0.1:9", "revoked": []}),
        3 => json!({"do": "members"}),
        4 => json!({"do": "has", "hash": hash}),
        5 => {
            blob = chance.bytes(200);
            json!({"do": "put", "hash": hash, "name": "lib.so", "last": chance.one_in(2)})
        }
        6 => json!({"do": "put", "last": true}),
        7 => json!({
            "do": "open", "session": "00".repeat(16), "token": "00".repeat(32), "libraries": [hash], "names": ["", "a"],
            "files": [["main.snet", "net n connect [];"]], "main": "main.snet", "lease_ms": 200,
        }),
        8 => json!({"do": "resume", "key": "00112233445566778899aabbccddeeff", "wait_ms": 5}),
        9 => json!({"do": "poll", "lost": [[1, "gone"]], "map": []}),
        _ => json!({"do": "close"}),
    };
    if chance.one_in(3) {
        change(&mut head, chance);
    }
    message(&head, &blob)
}

fn message(head: &Value, blob: &[u8]) -> Vec<u8> {
    let head = head.to_string();
    let lengths = [(head.len() as u32).to_le_bytes(), (blob.len() as u32).to_le_bytes()].concat();
    [&lengths, head.as_bytes(), blob].concat()
}

/// Changes the value of one key, or removes the key.
fn change(head: &mut Value, chance: &mut Chance) {
    let Some(object) = head.as_object_mut() else { return };
    // A peer of the cluster may choose a lease of an hour, in which the node keeps what belongs to it.
    let keys: Vec<String> = object.keys().filter(|key| *key != "lease_ms").cloned().collect();
    let key = keys[chance.below(keys.len() as u64) as usize].clone();
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let value = match chance.below(12) {
        0 => json!(null),
        1 => json!(-1),
        2 => json!(u64::MAX),
        3 => json!(1e300),
        4 => json!(""),
        5 => json!("../../x"),
        6 => json!("ä\u{0}\u{10ffff}".repeat(50)),
        7 => json!([]),
        8 => json!([[[]], {"a": 1}, null]),
        9 => deep,
        10 => json!({"a": {"b": []}}),
        _ => {
            object.remove(&key);
            return;
        }
    };
    object.insert(key, value);
}

/// Damages one message, or the order of messages.
fn damage(messages: &mut Vec<Vec<u8>>, chance: &mut Chance) {
    let count = messages.len() as u64;
    if count == 0 {
        return;
    }
    let (at, other) = (chance.below(count) as usize, chance.below(count) as usize);
    let message = &mut messages[at];
    let place = chance.below(message.len() as u64) as usize;
    match chance.below(9) {
        0 => message[place] ^= 1 << chance.below(8),
        1 => message[place] = chance.of(&[0, 1, b'"', b'{', b'[', 127, 255]),
        2 | 3 if message.len() >= 8 => {
            let lengths = [0, 1, 7, 1 << 16, 4 << 20, (4 << 20) + 1, 16 << 20, (16 << 20) + 1, u32::MAX];
            let at = if chance.one_in(2) { 0 } else { 4 };
            message[at..at + 4].copy_from_slice(&chance.of(&lengths).to_le_bytes());
        }
        4 => message.truncate(place.max(1)),
        5 => {
            let copy = message.clone();
            messages.insert(other, copy);
        }
        6 => drop(messages.remove(at)),
        7 => messages.swap(at, other),
        _ => {
            let bytes = 1 + chance.below(40) as usize;
            messages.insert(at, chance.bytes(bytes));
        }
    }
}

/// The most memory that this process has had, in kilobytes.
fn memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Plays cases from this seed on, at least `least`, until the time is over. Returns their number.
fn play(from: u64, least: u64, time: Duration) -> u64 {
    static PANICS: AtomicU64 = AtomicU64::new(0);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Only threads of the node have this name.
        if std::thread::current().name() == Some("guest") {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        before(info);
    }));
    let (begun, tried) = (Instant::now(), Tried::start());
    let mut played = 0;
    while played < least || begun.elapsed() < time {
        let (seed, case) = (from + played, Instant::now());
        if seed.is_multiple_of(4) {
            tried.greet(seed)
        } else {
            tried.ask(seed)
        }
        assert!(case.elapsed() < CASE_MAX, "case {seed}: the node hangs");
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "case {seed}: a thread of the node panicked");
        played += 1;
        if played.is_multiple_of(500) {
            assert!(tried.is_well(), "case {seed}: the node does not answer");
        }
    }
    assert!(tried.is_well(), "the node does not answer");
    let memory = memory_kb();
    assert!(memory < MEMORY_KB_MAX, "{memory} kB of memory");
    played
}

#[test]
fn damaged_conversations_end() {
    play(1, 600, Duration::ZERO);
}

/// Ten minutes, or as long as `FUZZ_SECONDS` says; `SEED` is the first case.
#[test]
#[ignore = "takes minutes"]
fn damaged_conversations_end_for_minutes() {
    let from = number_of("SEED", 1 << 32);
    let played = play(from, 1, Duration::from_secs(number_of("FUZZ_SECONDS", 600)));
    eprintln!("{played} conversations with a node, from case {from}");
}
