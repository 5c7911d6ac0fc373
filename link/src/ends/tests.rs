//! Damaged conversations with the real ends of links. Each begins as a valid conversation, and
//! its frames are then damaged: bits and fields are changed, frames are cut, doubled, left out, exchanged, or
//! frames of other kinds put between them. Whatever comes, an end must not panic, hang, or take more memory than its limits
//! say; and where the bytes of the stream were not changed, it must pass on the sent messages in their order,
//! or fewer.
//!
//! `FUZZ_SECONDS` sets the time of the ignored test, and `SEED` its first case.

use super::{Listener, Passing, Receiver, ReceiverOptions, Sender, SenderOptions};
use crate::LinkId;
use crate::flow::Outgoing;
use crate::ports::Ports;
use crate::transport::{Address, unix_name};
use crate::tuning::Tuning;
use crate::wire::{
    ACK_WANTED, Ack, Encoding, HEADER_BYTES, Header, Hello, Kind, Refusal, VERSION, Via, Welcome, encode,
};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_chance::{Chance, number_of};

const TOKEN: [u8; 32] = [5; 32];
const SESSION: [u8; 16] = [6; 16];
/// The longest time that one case may take.
const CASE_MAX: Duration = Duration::from_secs(10);
/// The longest message of the receivers.
const MESSAGE_BYTES_MAX: u64 = 1 << 16;
/// The most memory that the cases may take, in kilobytes.
const MEMORY_KB_MAX: u64 = 200_000;

/// Whether the bytes of the stream are the sent ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stream {
    /// All frames arrive as they were made.
    Whole,
    /// Frames were cut, doubled, left out or exchanged.
    Ordered,
    /// Anything may have been changed.
    Damaged,
}

fn name(what: &str) -> std::path::PathBuf {
    format!("@thalweg-mutated-{what}-{}", std::process::id()).into()
}

fn hello(number: u64, chance: &mut Chance) -> Vec<u8> {
    Hello {
        version: VERSION,
        link: LinkId { session: SESSION, number },
        incarnation: chance.next(),
        token: TOKEN,
        node: "a".repeat(chance.below(20) as usize),
    }
    .encode()
}

/// Messages, and the frames of a valid conversation about them.
fn conversation(number: u64, chance: &mut Chance) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let messages: Vec<Vec<u8>> = (0..chance.below(12))
        .map(|_| {
            let most = chance.of(&[3, 60, 200, 3000]);
            let bytes = chance.below(most) as usize;
            if chance.one_in(2) { chance.bytes(bytes) } else { vec![b'x'; bytes] }
        })
        .collect();
    let mut flow = Outgoing::new(1 << 20);
    messages.iter().for_each(|message| flow.push(message));
    let mut frames = vec![hello(number, chance)];
    let mut offset = 0;
    while offset < flow.end() {
        let most = chance.of(&[1, 20, 300, 5000]);
        let bytes = (1 + chance.below(most)).min(flow.end() - offset) as usize;
        frames.push(data(&flow, offset, bytes, chance));
        offset += bytes as u64;
        if chance.one_in(5) {
            frames.push([Header::new(Kind::Ping, 0, 8).encode().as_slice(), &[1; 8]].concat());
        }
    }
    frames.push(Header { flags: ACK_WANTED, ..Header::new(Kind::End, offset, 0) }.encode().to_vec());
    (messages, frames)
}

fn data(flow: &Outgoing, offset: u64, bytes: usize, chance: &mut Chance) -> Vec<u8> {
    let encoding = chance.of(&Encoding::ALL);
    let flags = chance.below(2) as u16;
    let pieces = flow.bytes(offset, bytes);
    let (encoding, payload) = match encode(encoding, pieces) {
        Some(payload) => (encoding, payload),
        None => (Encoding::Plain, pieces.concat()),
    };
    let header = Header { encoding, flags, ..Header::new(Kind::Data, offset, payload.len()) };
    [header.encode().as_slice(), &payload].concat()
}

/// A frame of any kind, with a payload of any length.
fn any_frame(chance: &mut Chance) -> Vec<u8> {
    let number = odd(chance);
    match chance.below(6) {
        0 => {
            let mut bytes = Vec::new();
            Ack { received: number, consumed: odd(chance), limit: odd(chance) }.encode(&mut bytes);
            bytes
        }
        1 => Refusal { is_final: chance.one_in(2), why: "no".repeat(chance.below(300) as usize) }.encode(),
        2 => Welcome { received: number, consumed: odd(chance), limit: odd(chance) }.encode(),
        3 => hello(number, chance),
        4 => Via { session: SESSION, token: TOKEN, to: number }.encode(),
        _ => {
            let bytes = chance.below(400) as usize;
            let mut frame = Header::new(Kind::Data, number, bytes).encode().to_vec();
            frame[0] = chance.below(12) as u8;
            frame[1] = chance.below(4) as u8;
            frame.extend(chance.bytes(bytes));
            frame
        }
    }
}

/// A number near a limit, or any.
fn odd(chance: &mut Chance) -> u64 {
    let near =
        [0, 1, 2, 8, 16, 255, 1 << 10, 1 << 16, 1 << 20, (1 << 20) + 1, 1 << 31, 1 << 32, 1 << 63, u64::MAX];
    match chance.below(4) {
        0 => chance.next(),
        1 => chance.of(&near).wrapping_sub(1),
        _ => chance.of(&near),
    }
}

/// Damages one frame, or the order of frames.
fn damage(frames: &mut Vec<Vec<u8>>, chance: &mut Chance) -> Stream {
    if frames.is_empty() {
        frames.push(any_frame(chance));
        return Stream::Damaged;
    }
    let (at, other) =
        (chance.below(frames.len() as u64) as usize, chance.below(frames.len() as u64) as usize);
    let frame = &mut frames[at];
    let place = chance.below(frame.len() as u64) as usize;
    match chance.below(12) {
        0 => {
            let copy = frame.clone();
            frames.insert(other, copy);
            return Stream::Ordered;
        }
        1 => {
            frames.remove(at);
            return Stream::Ordered;
        }
        2 => {
            frames.swap(at, other);
            return Stream::Ordered;
        }
        3 if !frame.is_empty() => frame[place] ^= 1 << chance.below(8),
        4 if !frame.is_empty() => frame[place] = chance.of(&[0, 1, 127, 128, 255]),
        5 if frame.len() >= HEADER_BYTES => frame[0] = chance.below(12) as u8,
        6 if frame.len() >= HEADER_BYTES => frame[1] = chance.below(4) as u8,
        7 if frame.len() >= HEADER_BYTES => frame[4..8].copy_from_slice(&(odd(chance) as u32).to_le_bytes()),
        8 if frame.len() >= HEADER_BYTES => frame[8..16].copy_from_slice(&odd(chance).to_le_bytes()),
        // The length that a compressed payload states.
        9 if frame.len() >= HEADER_BYTES + 4 => {
            frame[HEADER_BYTES..][..4].copy_from_slice(&(odd(chance) as u32).to_le_bytes());
        }
        10 => frames.insert(at, any_frame(chance)),
        _ => {
            let bytes = 1 + chance.below(60) as usize;
            frames.insert(at, chance.bytes(bytes));
        }
    }
    Stream::Damaged
}

/// Damages none to four times, and perhaps ends the connection within a frame.
fn damaged(frames: &mut Vec<Vec<u8>>, chance: &mut Chance) -> Stream {
    let stream =
        (0..chance.below(5)).fold(Stream::Whole, |stream, _| match (stream, damage(frames, chance)) {
            (Stream::Damaged, _) | (_, Stream::Damaged) => Stream::Damaged,
            _ => Stream::Ordered,
        });
    if frames.is_empty() || !chance.one_in(5) {
        return stream;
    }
    frames.truncate(1 + chance.below(frames.len() as u64) as usize);
    let last = frames.len() - 1;
    let bytes = chance.below(frames[last].len() as u64) as usize;
    frames[last].truncate(bytes);
    if stream == Stream::Whole { Stream::Ordered } else { stream }
}

/// The listeners of all cases.
struct Ends {
    listener: Listener,
    between: Listener,
}

impl Ends {
    fn new(what: &str) -> Ends {
        let address = |which: &str| Address::Unix(name(&format!("{what}-{which}")));
        let listener = Listener::new(&address("listener"), TOKEN).unwrap();
        let between = Listener::new(&address("between"), TOKEN).unwrap();
        let to = listener.address().clone();
        let reach = Box::new(move |number| (number < 3).then(|| to.clone()));
        let free = || Ports::new(4, 0);
        between.pass_on(SESSION, Passing { reach, sending: free(), receiving: free() });
        Ends { listener, between }
    }

    /// Says this to a receiver, and compares what it passes on.
    fn receive(&self, seed: u64) {
        let mut chance = Chance::new(seed);
        let (messages, mut frames) = conversation(seed, &mut chance);
        let is_passed_on = chance.one_in(6);
        if is_passed_on {
            frames.insert(0, Via { session: SESSION, token: TOKEN, to: 1 }.encode());
        }
        let stream = damaged(&mut frames, &mut chance);
        let tuning = Tuning::new(self.listener.address().clone());
        tuning.set_window_bytes(1 << 20);
        let options =
            ReceiverOptions { message_bytes_max: MESSAGE_BYTES_MAX, ..ReceiverOptions::new(tuning) };
        let place = self.listener.place(LinkId { session: SESSION, number: seed }).unwrap();
        let mut receiver = Receiver::new(place, options).unwrap();
        let to = if is_passed_on { &self.between } else { &self.listener };
        let Address::Unix(path) = to.address() else { panic!("another address") };
        let mut client = UnixStream::connect_addr(&unix_name(path).unwrap()).unwrap();
        client.set_nonblocking(true).unwrap();
        // A sender says nothing after its greeting until it is welcome.
        let (greeting, rest) = frames.split_at(frames.len().min(1 + usize::from(is_passed_on)));
        let mut write = |bytes: &[u8]| client.write(bytes).is_ok_and(|written| written == bytes.len());
        let mut is_all = write(&greeting.concat());
        let patience = if stream == Stream::Whole { CASE_MAX } else { Duration::from_millis(3) };
        let until = Instant::now() + patience;
        while !receiver.is_connected() && Instant::now() < until {
            // An error comes again below.
            _ = receiver.advance(Some(Instant::now() + Duration::from_millis(1)));
        }
        is_all &= write(&rest.concat());
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let (got, is_ended) = Ends::all_of(&mut receiver, &mut client, seed);
        let are_sent =
            got.iter().zip(&messages).all(|(got, sent)| got == sent) && got.len() <= messages.len();
        assert!(stream == Stream::Damaged || are_sent, "case {seed}: other messages than were sent");
        if stream == Stream::Whole && is_all {
            assert!(
                is_ended && got.len() == messages.len(),
                "case {seed}: {} of {}",
                got.len(),
                messages.len()
            );
        }
    }

    /// What a receiver passes on until its stream ends, its sender violates the protocol, or the connection
    /// is closed; and whether the stream ended.
    fn all_of(receiver: &mut Receiver, client: &mut UnixStream, seed: u64) -> (Vec<Vec<u8>>, bool) {
        let begun = Instant::now();
        let mut got = Vec::new();
        loop {
            assert!(begun.elapsed() < CASE_MAX, "case {seed}: the receiver hangs");
            match receiver.advance(Some(Instant::now() + Duration::from_millis(1))) {
                Ok(true) => {
                    let message = receiver.message();
                    assert!(message.len() as u64 <= MESSAGE_BYTES_MAX, "case {seed}");
                    got.push(message.to_vec());
                    continue;
                }
                Ok(false) if receiver.is_ended() => return (got, true),
                Ok(false) => {}
                Err(_) => return (got, false),
            }
            if !receiver.is_connected() && is_closed(client) {
                return (got, false);
            }
        }
    }
}

fn is_closed(client: &mut UnixStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match client.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Answers a sender: a welcome, then an acknowledgement for each frame, and some of these damaged.
fn answer(mut stream: UnixStream, chance: &mut Chance) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut header = [0; HEADER_BYTES];
    let mut received = 0;
    loop {
        stream.read_exact(&mut header)?;
        let Ok(header) = Header::decode(header) else { panic!("a sender has sent another frame") };
        let mut payload = vec![0; header.payload_bytes];
        stream.read_exact(&mut payload)?;
        let limit = if chance.one_in(30) { odd(chance) } else { 1 << 20 };
        let mut frames = match header.kind {
            Kind::Hello => vec![Welcome { received, consumed: received, limit }.encode()],
            Kind::Data | Kind::End => {
                if header.kind == Kind::Data {
                    received = header.offset + plain_bytes(&header, &payload);
                }
                let mut bytes = Vec::new();
                Ack { received, consumed: received, limit }.encode(&mut bytes);
                vec![bytes]
            }
            _ => vec![],
        };
        if chance.one_in(4) {
            damage(&mut frames, chance);
        }
        stream.write_all(&frames.concat())?;
    }
}

fn plain_bytes(header: &Header, payload: &[u8]) -> u64 {
    match header.encoding {
        Encoding::Plain => payload.len() as u64,
        _ => u32::from_le_bytes(*payload.first_chunk().unwrap()).into(),
    }
}

/// Sends to an end that gives damaged answers.
fn send(address: &Address, seed: u64) {
    let mut chance = Chance::new(seed);
    let tuning = Tuning::new(address.clone());
    tuning.set_encoding(chance.of(&Encoding::ALL));
    tuning.set_frame_bytes(64 + chance.below(2000) as usize);
    let link = LinkId { session: SESSION, number: seed };
    let lease = Duration::from_millis(20);
    let options = SenderOptions { token: TOKEN, lease, ..SenderOptions::new(link, tuning) };
    let mut sender = Sender::new(options).unwrap();
    // Whatever waits for an acknowledgement that does not come is ended.
    let (stop, is_over) = (sender.stop(), std::sync::mpsc::channel::<()>());
    let (over, watched) = is_over;
    let watching = std::thread::spawn(move || {
        _ = watched.recv_timeout(Duration::from_millis(100));
        stop.stop();
    });
    let begun = Instant::now();
    let sent = (0..1 + chance.below(20)).try_for_each(|_| {
        let bytes = chance.below(800) as usize;
        sender.push(&chance.bytes(bytes))?;
        if chance.one_in(3) { sender.flush() } else { Ok(()) }
    });
    // An error is what most answers lead to.
    _ = sent.and_then(|()| sender.finish());
    drop(over);
    watching.join().unwrap();
    assert!(begun.elapsed() < CASE_MAX, "case {seed}: the sender hangs");
}

/// Serves the connections of senders until it is over, and then one more.
fn serve(listener: UnixListener, is_over: std::sync::Arc<std::sync::atomic::AtomicBool>) {
    let mut number = 0;
    while let Ok((stream, _)) = listener.accept() {
        if is_over.load(Ordering::Acquire) {
            return;
        }
        number += 1;
        // An error means that the sender has closed.
        _ = answer(stream, &mut Chance::new(number));
    }
}

/// The most memory that this process has had, in kilobytes.
fn memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Plays cases from this seed on, at least `least` with a receiver, until the time is over.
fn play(what: &str, from: u64, least: u64, time: Duration) -> [u64; 2] {
    let begun = Instant::now();
    let (receivers, senders) = (AtomicU64::new(0), AtomicU64::new(0));
    let goes_on = |played: u64, least: u64| played < least || begun.elapsed() < time;
    let ends = Ends::new(what);
    let path = name(&format!("{what}-receiver"));
    let answering = UnixListener::bind_addr(&unix_name(&path).unwrap()).unwrap();
    let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let served = is_over.clone();
    // This thread is not waited for where a case fails.
    let serving = std::thread::spawn(move || serve(answering, served));
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            while goes_on(receivers.load(Ordering::Relaxed), least) {
                ends.receive(from + receivers.fetch_add(1, Ordering::Relaxed));
            }
        });
        while goes_on(senders.load(Ordering::Relaxed), least / 20) {
            send(&Address::Unix(path.clone()), from + senders.fetch_add(1, Ordering::Relaxed));
        }
        receiving.join().unwrap();
    });
    is_over.store(true, Ordering::Release);
    drop(UnixStream::connect_addr(&unix_name(&path).unwrap()));
    serving.join().unwrap();
    let memory = memory_kb();
    assert!(memory < MEMORY_KB_MAX, "{memory} kB of memory");
    [receivers.into_inner(), senders.into_inner()]
}

#[test]
fn damaged_conversations_end() {
    play("few", 1, 2_000, Duration::ZERO);
}

/// Ten minutes, or as long as `FUZZ_SECONDS` says; `SEED` is the first case.
#[test]
#[ignore = "takes minutes"]
fn damaged_conversations_end_for_minutes() {
    let time = Duration::from_secs(number_of("FUZZ_SECONDS", 600));
    let from = number_of("SEED", 1 << 32);
    let [receivers, senders] = play("many", from, 1, time);
    eprintln!("{receivers} conversations with receivers, {senders} with senders, from case {from}");
}
