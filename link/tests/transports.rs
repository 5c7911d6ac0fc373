//! Links through shared memory, and links that another listener passes on; links that move between transports while
//! messages go over them.

mod relay;

use relay::{Relay, message, push_all, take_all};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_chance::Chance;
use thalweg_link::{
    Address, Encoding, LinkId, Listener, Passing, Ports, Receiver, ReceiverOptions, Sender, SenderOptions,
    Tuning,
};

const TOKEN: [u8; 32] = [3; 32];
const SESSION: [u8; 16] = [1; 16];

fn link(number: u64) -> LinkId {
    LinkId { session: SESSION, number }
}

fn anywhere() -> Address {
    Address::Tcp("127.0.0.1:0".into())
}

/// A name of this process for memory and one for a Unix socket, which no other test uses.
fn names(of: &str) -> (Address, Address) {
    let name = |what: &str| format!("@thalweg-test-{what}-{of}-{}", std::process::id()).into();
    (Address::Memory(name("memory")), Address::Unix(name("unix")))
}

fn ends(listener: &Listener, to: Address, number: u64) -> (Sender, Receiver, Tuning) {
    let tuning = Tuning::new(to);
    let receiver =
        Receiver::new(listener.place(link(number)).unwrap(), ReceiverOptions::new(tuning.clone())).unwrap();
    let options = SenderOptions { token: TOKEN, ..SenderOptions::new(link(number), tuning.clone()) };
    (Sender::new(options).unwrap(), receiver, tuning)
}

/// A listener that passes connections on to `to`, which has the number 7.
fn passes_on(to: &Address) -> (Listener, Ports) {
    let listener = Listener::new(&anywhere(), TOKEN).unwrap();
    let (ports, to) = (Ports::new(1, 0), to.clone());
    let reach = Box::new(move |number| (number == 7).then(|| to.clone()));
    listener.pass_on(SESSION, Passing { reach, sending: ports.clone(), receiving: Ports::new(1, 0) });
    (listener, ports)
}

fn through(listeners: &[&Listener]) -> Address {
    Address::Through { listeners: listeners.iter().map(|one| one.address().clone()).collect(), to: 7 }
}

#[test]
fn memory_carries_messages_of_any_size() {
    let (memory, _) = names("sizes");
    let listener = Listener::new(&memory, TOKEN).unwrap();
    for (number, bytes_max, count) in [(1, 60, 20_000), (2, 5_000, 2_000), (3, 700_000, 60)] {
        let (mut sender, mut receiver, tuning) = ends(&listener, memory.clone(), number);
        let sending = std::thread::spawn(move || {
            push_all(&mut sender, number, count / 2, bytes_max);
            // The sizes of frames and windows change during the transfer.
            tuning.set_frame_bytes(777);
            tuning.set_window_bytes(1_000);
            tuning.set_encoding(Encoding::Lz4);
            sender.push(b"middle").unwrap();
            push_all(&mut sender, number, count / 2, bytes_max);
            sender.finish().unwrap();
        });
        for part in 0..2 {
            let mut chance = Chance::new(number);
            for at in 0..count / 2 {
                let got = receiver.recv().unwrap();
                assert!(got == Some(&message(at, &mut chance, bytes_max)[..]), "message {at} of part {part}");
            }
            let middle = receiver.recv().unwrap();
            assert_eq!(middle, (part == 0).then_some(&b"middle"[..]));
        }
        sending.join().unwrap();
    }
}

/// Both ends sleep before each message, so each has to be woken.
#[test]
fn an_end_that_sleeps_is_woken() {
    let (memory, _) = names("woken");
    let listener = Listener::new(&memory, TOKEN).unwrap();
    let (mut there, mut there_in, _) = ends(&listener, memory.clone(), 1);
    let (mut back, mut back_in, _) = ends(&listener, memory, 2);
    let answering = std::thread::spawn(move || {
        while let Some(message) = there_in.recv().unwrap() {
            let message = message.to_vec();
            std::thread::sleep(Duration::from_millis(message[0].into()));
            back.push(&message).and_then(|()| back.flush()).unwrap();
        }
        back.finish().unwrap();
    });
    let begun = Instant::now();
    for round in 0..60_u8 {
        std::thread::sleep(Duration::from_millis((round % 3).into()));
        there.push(&[round % 4]).and_then(|()| there.flush()).unwrap();
        assert_eq!(back_in.recv().unwrap(), Some(&[round % 4][..]));
    }
    // A wake-up that is lost shows after 100 ms, when an end looks by itself.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let finishing = std::thread::spawn(move || there.finish().unwrap());
    assert_eq!(back_in.recv().unwrap(), None);
    finishing.join().unwrap();
    answering.join().unwrap();
}

/// An end whose process ends does not say so; the other one knows it nevertheless.
#[test]
fn the_end_of_a_process_is_noticed_at_once() {
    let (memory, _) = names("ended");
    let listener = Listener::new(&memory, TOKEN).unwrap();
    let (mut sender, receiver, tuning) = ends(&listener, memory, 1);
    drop(receiver);
    let lease = Duration::from_millis(50);
    let options = ReceiverOptions { lease, ..ReceiverOptions::new(tuning) };
    let mut receiver = Receiver::new(listener.place(link(1)).unwrap(), options).unwrap();
    let sending = std::thread::spawn(move || {
        sender.push(b"last").and_then(|()| sender.flush()).unwrap();
        drop(sender);
    });
    assert_eq!(receiver.recv().unwrap(), Some(&b"last"[..]), "what was written before is read");
    sending.join().unwrap();
    let begun = Instant::now();
    assert_eq!(receiver.recv().unwrap_err().to_string(), "link 1 has lost its sender for 50ms");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());

    // The other way round: a sender that has nothing to send is asked.
    let (mut sender, mut receiver, _) = ends(&listener, listener.address().clone(), 2);
    let sending =
        std::thread::spawn(move || sender.push(b"kept").and_then(|()| sender.flush()).map(|()| sender));
    assert!(receiver.recv_until(Instant::now() + Duration::from_millis(500)).unwrap().is_some());
    let mut sender = sending.join().unwrap().unwrap();
    sender.push(b"not acknowledged").and_then(|()| sender.flush()).unwrap();
    drop(receiver);
    assert!(sender.is_broken());
}

/// Hands over a file and says these bytes; returns whether the listener closes the connection.
fn is_refused(address: &Address, said: &[u8], file: Option<&OwnedFd>) -> bool {
    let Address::Memory(path) = address else { panic!("{address}") };
    let name = SocketAddr::from_abstract_name(&path.to_str().unwrap()[1..]).unwrap();
    let mut stream = UnixStream::connect_addr(&name).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = file.into_iter().map(AsFd::as_fd).collect();
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    }
    sendmsg(&stream, &[IoSlice::new(said)], &mut control, SendFlags::empty()).unwrap();
    // A connection that is closed with unread bytes is reset.
    !matches!(stream.read(&mut [0]), Ok(1..))
}

/// A process of the same user that hands over anything else gets nowhere, and hinders nobody.
#[test]
fn false_memory_is_refused() {
    let (memory, _) = names("false");
    let listener = Listener::new(&memory, TOKEN).unwrap();
    let file = |bytes: u64, seals: SealFlags| {
        let file = memfd_create("false", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    };
    let all = SealFlags::SHRINK | SealFlags::GROW;
    let right = (4 << 10) + (64 << 10) + (4 << 10);
    let begun = Instant::now();
    assert!(is_refused(&memory, b"thalwegm", None), "no file");
    assert!(is_refused(&memory, b"GET / HT", Some(&file(right, all))), "another protocol");
    assert!(is_refused(&memory, b"thalwegm", Some(&file(right - 4096, all))), "too small");
    assert!(is_refused(&memory, b"thalwegm", Some(&file(right, SealFlags::GROW))), "it may shrink");
    assert!(begun.elapsed() < Duration::from_secs(1), "at once: {:?}", begun.elapsed());
    assert_eq!(listener.refused(), 4);
    // Right memory without a greeting: the connection is given up after a while, as any other.
    let begun = Instant::now();
    assert!(is_refused(&memory, b"thalwegm", Some(&file(right, all))));
    assert!(begun.elapsed() > Duration::from_secs(1) && begun.elapsed() < Duration::from_secs(15));
    let (mut sender, mut receiver, _) = ends(&listener, memory, 1);
    let sending = std::thread::spawn(move || {
        push_all(&mut sender, 4, 50, 100);
        sender.finish().unwrap();
    });
    assert_eq!(take_all(&mut receiver, 4, 100), 50);
    sending.join().unwrap();
}

#[test]
fn a_listener_passes_connections_on() {
    let listener = Listener::new(&anywhere(), TOKEN).unwrap();
    let (passer, passed) = passes_on(listener.address());
    let (mut sender, mut receiver, _) = ends(&listener, through(&[&passer]), 1);
    let sending = std::thread::spawn(move || {
        push_all(&mut sender, 4, 500, 70_000);
        let counts = sender.counters();
        sender.finish().unwrap();
        counts.read()
    });
    assert_eq!(take_all(&mut receiver, 4, 70_000), 500);
    let counts = sending.join().unwrap();
    assert!(passed.carried() >= counts.wire_bytes, "{} of {counts:?}", passed.carried());
}

/// Connections to the listener that passes on, and from it, are cut at arbitrary bytes.
#[test]
fn connections_that_are_passed_on_break_and_lose_nothing() {
    let listener = Listener::new(&anywhere(), TOKEN).unwrap();
    for (seed, before, after) in [(1, 40_000, 1 << 40), (2, 1 << 40, 40_000), (3, 30_000, 60_000)] {
        let second = Relay::new(listener.address(), seed, after);
        let (passer, _) = passes_on(&second.address);
        let first = Relay::new(passer.address(), seed + 10, before);
        let to = Address::Through { listeners: vec![first.address.clone()], to: 7 };
        let (mut sender, mut receiver, tuning) = ends(&listener, to, seed);
        // A frame of which a part is missing is sent again as a whole.
        tuning.set_frame_bytes(2_000);
        let sending = std::thread::spawn(move || {
            push_all(&mut sender, seed, 1_000, 1_000);
            sender.finish().unwrap();
        });
        assert_eq!(take_all(&mut receiver, seed, 1_000), 1_000);
        sending.join().unwrap();
        drop(receiver);
        let cuts = first.cuts.load(Ordering::Relaxed) + second.cuts.load(Ordering::Relaxed);
        assert!(cuts > 2, "{cuts} cuts");
        // The relays end when no connection is open any more.
        drop(passer);
    }
}

/// A listener that does not reach the other one, one that does not pass connections of this session on, and one that
/// nobody listens at are left out.
#[test]
fn a_sender_tries_all_listeners_that_may_pass_it_on() {
    let listener = Listener::new(&anywhere(), TOKEN).unwrap();
    let closed = Listener::new(&anywhere(), TOKEN).unwrap();
    let (cannot, _) = passes_on(&closed.address().clone());
    drop(closed);
    let does_not = Listener::new(&anywhere(), TOKEN).unwrap();
    let nobody = Listener::new(&anywhere(), TOKEN).unwrap();
    let to = through(&[&cannot, &does_not, &nobody]);
    drop(nobody);
    let tuning = Tuning::new(to.clone());
    let lease = Duration::from_millis(200);
    let options = SenderOptions { token: TOKEN, lease, ..SenderOptions::new(link(9), tuning.clone()) };
    let error = Sender::new(options).unwrap().open().unwrap_err().to_string();
    assert!(error.starts_with("link 9 has not reached number 7 through tcp/127.0.0.1:"), "{error}");

    let (passer, _) = passes_on(listener.address());
    let Address::Through { mut listeners, to } = to else { unreachable!() };
    listeners.push(passer.address().clone());
    let (mut sender, mut receiver, _) = ends(&listener, Address::Through { listeners, to }, 1);
    let sending = std::thread::spawn(move || {
        push_all(&mut sender, 4, 50, 100);
        sender.finish().unwrap();
    });
    assert_eq!(take_all(&mut receiver, 4, 100), 50);
    sending.join().unwrap();
}

/// Without the token, a listener passes nothing on.
#[test]
fn strangers_are_not_passed_on() {
    let target = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let listener = Listener::new(&anywhere(), TOKEN).unwrap();
    let (counted, to) = (asked.clone(), Address::Tcp(target.local_addr().unwrap().to_string()));
    let reach = Box::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Some(to.clone())
    });
    let ports = Ports::new(1, 0);
    listener.pass_on(SESSION, Passing { reach, sending: ports.clone(), receiving: ports.clone() });
    let Address::Tcp(address) = listener.address() else { panic!() };
    for (session, token) in [(SESSION, [4; 32]), ([2; 16], TOKEN)] {
        let mut stranger = std::net::TcpStream::connect(address).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = [9, 0, 0, 0, 48, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        stranger.write_all(&[&head[..], &session, &token, b"more"].concat()).unwrap();
        let read = stranger.read(&mut [0]).map_err(|error| error.kind());
        assert!(
            matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset)),
            "it closes the connection: {read:?}"
        );
    }
    assert_eq!((asked.load(Ordering::Relaxed), ports.carried()), (0, 0));
    assert_eq!(listener.refused(), 2);
}

/// While messages go over a link, it moves between all transports, in an order drawn by chance.
#[test]
fn a_link_moves_between_all_transports() {
    let (memory, unix) = names("moves");
    let all = [anywhere(), memory.clone(), unix.clone()];
    let listener = Listener::with(&all, TOKEN, None).unwrap();
    let (passer, passed) = passes_on(listener.address());
    let addresses = [listener.address().clone(), memory, unix, through(&[&passer])];
    let (mut sender, mut receiver, tuning) = ends(&listener, addresses[1].clone(), 1);
    let moves = 60;
    let sending = std::thread::spawn(move || {
        let mut chance = Chance::new(8);
        for _ in 0..moves {
            push_all(&mut sender, 5, 100, 3_000);
            tuning.set_address(addresses[chance.below(4) as usize].clone());
        }
        let counters = sender.counters();
        sender.finish().unwrap();
        counters.read().connections
    });
    for _ in 0..moves {
        let mut chance = Chance::new(5);
        for number in 0..100 {
            assert!(receiver.recv().unwrap() == Some(&message(number, &mut chance, 3_000)[..]), "{number}");
        }
    }
    assert_eq!(receiver.recv().unwrap(), None);
    assert!(sending.join().unwrap() > moves / 2 && passed.carried() > 0);
}
