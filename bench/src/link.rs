//! Group `link`: messages between the two ends of a link over loopback, compared with bare TCP, which is the
//! limit.
//!
//! Both ends of a link, and both ends of bare TCP, are threads of this process. A sample ends when the
//! receiver has passed on the last message.

use std::io::{BufReader, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use thalweg_link::{Address, LinkId, Listener, Receiver, ReceiverOptions, Sender, SenderOptions, Tuning};

use crate::measure::{Case, Contestant, Goal};

const TOKEN: [u8; 32] = [1; 32];
/// The first byte of a message that the receiver confirms.
const LAST: u8 = 1;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = vec![stream(64, Goal::AtMost(333.0))];
    cases.extend([1 << 10, 16 << 10, 64 << 10, 1 << 20].map(|bytes| {
        // A throughput of 0.9 corresponds to 1.11 times the time.
        stream(bytes, if bytes >= 16 << 10 { Goal::RatioAtMost(1.111) } else { Goal::None })
    }));
    cases.push(round_trip());
    cases
}

/// Messages sent one after another as fast as possible.
fn stream(bytes: usize, goal: Goal) -> Case<'static> {
    Case {
        group: "link",
        name: "stream".into(),
        params: vec![("bytes", bytes.to_string())],
        unit: "ns",
        ours: {
            let mut ends = None;
            Contestant::new("thalweg-link", "", move || ends.get_or_insert_with(linked_sink).sample(bytes))
        },
        rivals: vec![],
        limit: Some({
            let mut ends = None;
            Contestant::new("TCP", "", move || ends.get_or_insert_with(|| tcp_sink(bytes)).sample(bytes))
        }),
        goal,
    }
}

/// Single round trips: a message, then its answer.
fn round_trip() -> Case<'static> {
    Case {
        group: "link",
        name: "round trip".into(),
        params: vec![("bytes", "64".into())],
        unit: "ns",
        ours: {
            let mut ends = None;
            Contestant::new("thalweg-link", "", move || {
                let (sender, receiver) = ends.get_or_insert_with(linked_echo);
                let begin = Instant::now();
                for _ in 0..ROUNDS {
                    sender.push(&[0; 64]).and_then(|()| sender.flush()).map_err(said)?;
                    receiver.recv().map_err(said)?;
                }
                Ok(begin.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS))
            })
        },
        rivals: vec![],
        limit: Some({
            let mut stream = None;
            Contestant::new("TCP", "", move || {
                let stream = stream.get_or_insert_with(tcp_echo);
                let begin = Instant::now();
                for _ in 0..ROUNDS {
                    stream.write_all(&[0; 64]).map_err(said)?;
                    stream.read_exact(&mut [0; 64]).map_err(said)?;
                }
                Ok(begin.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS))
            })
        }),
        goal: Goal::RatioAtMost(1.3),
    }
}

/// The number of round trips of a sample.
const ROUNDS: u32 = 1000;
/// The number of bytes of a sample; [`MESSAGES_MIN`] is its least number of messages.
const SAMPLE_BYTES: usize = 64 << 20;
const MESSAGES_MIN: usize = 64;

fn said(error: impl std::fmt::Display) -> String {
    format!("{error:#}")
}

/// A sender, and the channel on which the receiver reports the last message.
struct Sink<S> {
    sender: S,
    arrived: mpsc::Receiver<()>,
}

trait Sending {
    fn push(&mut self, message: &[u8]) -> Result<(), String>;
    fn flush(&mut self) -> Result<(), String>;
}

impl<S: Sending> Sink<S> {
    /// The nanoseconds for a message of this many bytes.
    fn sample(&mut self, bytes: usize) -> Result<f64, String> {
        let count = (SAMPLE_BYTES / bytes).clamp(MESSAGES_MIN, 1_000_000);
        let mut message = vec![0; bytes];
        let begin = Instant::now();
        for _ in 1..count {
            self.sender.push(&message)?;
        }
        message[0] = LAST;
        self.sender.push(&message)?;
        self.sender.flush()?;
        self.arrived.recv().map_err(said)?;
        Ok(begin.elapsed().as_secs_f64() * 1e9 / count as f64)
    }
}

impl Sending for Sender {
    fn push(&mut self, message: &[u8]) -> Result<(), String> {
        Sender::push(self, message).map_err(said)
    }

    fn flush(&mut self) -> Result<(), String> {
        Sender::flush(self).map_err(said)
    }
}

impl Sending for BufWriter<TcpStream> {
    fn push(&mut self, message: &[u8]) -> Result<(), String> {
        self.write_all(message).map_err(said)
    }

    fn flush(&mut self) -> Result<(), String> {
        Write::flush(self).map_err(said)
    }
}

/// Both ends of a link.
fn linked() -> (Listener, Sender, Receiver) {
    let listener = Listener::new(&Address::Tcp("127.0.0.1:0".into()), TOKEN).expect("a listener");
    let link = LinkId { session: [0; 16], number: 1 };
    let tuning = Tuning::new(listener.address().clone());
    let place = listener.place(link).expect("a place");
    let lease = Duration::from_secs(3600);
    let receiver = Receiver::new(place, ReceiverOptions { lease, ..ReceiverOptions::new(tuning.clone()) })
        .expect("a receiver");
    let options = SenderOptions { token: TOKEN, ..SenderOptions::new(link, tuning) };
    (listener, Sender::new(options).expect("a sender"), receiver)
}

fn linked_sink() -> Sink<Sender> {
    let (listener, sender, mut receiver) = linked();
    let (said, arrived) = mpsc::channel();
    std::thread::spawn(move || {
        let _listener = listener;
        while let Ok(Some(message)) = receiver.recv() {
            if message[0] == LAST && said.send(()).is_err() {
                return;
            }
        }
    });
    Sink { sender, arrived }
}

fn linked_echo() -> (Sender, Receiver) {
    let (there, sender, mut from) = linked();
    let (back, mut to, receiver) = linked();
    std::thread::spawn(move || {
        let _listeners = (there, back);
        while let Ok(Some(message)) = from.recv() {
            if to.push(message).and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    });
    (sender, receiver)
}

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let here = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (there, _) = listener.accept().expect("a connection");
    for stream in [&here, &there] {
        stream.set_nodelay(true).expect("an option");
    }
    (here, there)
}

/// Bare TCP: messages have a known length, so no length is sent; small messages are buffered, large ones are
/// written directly.
fn tcp_sink(bytes: usize) -> Sink<BufWriter<TcpStream>> {
    let (here, there) = connected();
    let (said, arrived) = mpsc::channel();
    std::thread::spawn(move || {
        let mut there = BufReader::with_capacity(64 << 10, there);
        let mut message = vec![0; bytes];
        while there.read_exact(&mut message).is_ok() {
            if message[0] == LAST && said.send(()).is_err() {
                return;
            }
        }
    });
    Sink { sender: BufWriter::with_capacity(64 << 10, here), arrived }
}

fn tcp_echo() -> TcpStream {
    let (here, mut there) = connected();
    std::thread::spawn(move || {
        let mut message = [0; 64];
        while there.read_exact(&mut message).is_ok() && there.write_all(&message).is_ok() {}
    });
    here
}
