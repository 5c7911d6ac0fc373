//! Links with TLS: order and completeness over connections that are cut, and peers that get nowhere.

mod relay;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519};
use relay::{Relay, push_all, take_all};
use thalweg_chance::Chance;
use thalweg_link::secure::{self, Identity, KNOCK, MEMBER, pem};
use thalweg_link::{
    Address, Encoding, LinkId, Listener, Receiver, ReceiverOptions, Sender, SenderOptions, Tuning,
};

const TOKEN: [u8; 32] = [3; 32];

fn link(number: u64) -> LinkId {
    LinkId { session: [1; 16], number }
}

/// An authority that signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let certificate = pem("CERTIFICATE", certificate.der());
        Authority { issuer: Issuer::new(params, key), certificate }
    }

    fn identity_until(&self, host: &str, year: i32) -> Identity {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let certificate = pem("CERTIFICATE", certificate.der());
        Identity::new(&self.certificate, &certificate, &pem("PRIVATE KEY", &key.serialize_der())).unwrap()
    }

    fn identity(&self) -> Identity {
        self.identity_until(MEMBER, 2100)
    }
}

fn listening(identity: Identity) -> Listener {
    Listener::with(&[Address::Tls("127.0.0.1:0".into())], TOKEN, Some(identity)).unwrap()
}

fn sender(to: Address, identity: Option<Identity>, number: u64) -> Sender {
    let options = SenderOptions {
        token: TOKEN,
        identity,
        lease: Duration::from_secs(60),
        ..SenderOptions::new(link(number), Tuning::new(to))
    };
    Sender::new(options).unwrap()
}

fn receiver(listener: &Listener, number: u64) -> Receiver {
    let tuning = Tuning::new(listener.address().clone());
    Receiver::new(listener.place(link(number)).unwrap(), ReceiverOptions::new(tuning)).unwrap()
}

#[test]
fn connections_that_break_anywhere_lose_nothing() {
    let authority = Authority::new("one");
    for (seed, between, count) in [(1, 300_000, 20_000), (2, 20_000, 4_000), (3, 8_000, 1_000)] {
        let listener = listening(authority.identity());
        let relay = Relay::new(listener.address(), seed, between);
        let mut receiver = receiver(&listener, seed);
        let tuning = Tuning::new(relay.address.clone());
        let options = SenderOptions {
            token: TOKEN,
            identity: Some(authority.identity()),
            ..SenderOptions::new(link(seed), tuning.clone())
        };
        let mut sender = Sender::new(options).unwrap();
        let sending = std::thread::spawn(move || {
            let mut chance = Chance::new(seed);
            tuning.set_frame_bytes(64 + chance.below(4000) as usize);
            tuning.set_encoding([Encoding::Plain, Encoding::Lz4, Encoding::Zstd][seed as usize % 3]);
            tuning.set_buffer_bytes(1 + chance.below(20_000) as usize);
            push_all(&mut sender, seed, count, 400);
            sender.finish().unwrap();
        });
        assert_eq!(take_all(&mut receiver, seed, 400), count);
        sending.join().unwrap();
        assert!(relay.cuts.load(Ordering::Relaxed) > 0, "{between} bytes between cuts");
    }
}

#[test]
fn large_messages_pass_in_small_and_large_frames() {
    let authority = Authority::new("one");
    for frame_bytes in [1000, 1 << 20] {
        let listener = listening(authority.identity());
        let mut receiver = receiver(&listener, 1);
        let tuning = Tuning::new(listener.address().clone());
        tuning.set_frame_bytes(frame_bytes);
        let identity = Some(authority.identity());
        let options = SenderOptions { token: TOKEN, identity, ..SenderOptions::new(link(1), tuning) };
        let mut sender = Sender::new(options).unwrap();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
        let expected = sent.clone();
        let sending = std::thread::spawn(move || {
            for _ in 0..3 {
                sender.push(&sent).unwrap();
                sender.flush().unwrap();
            }
            sender.finish().unwrap();
        });
        for _ in 0..3 {
            assert!(receiver.recv().unwrap() == Some(&expected[..]));
        }
        assert_eq!(receiver.recv().unwrap(), None);
        sending.join().unwrap();
    }
}

/// A sender that the other end can never accept fails at once, and not when its lease of a minute is over.
#[test]
fn ends_that_do_not_accept_each_other_say_why() {
    let (own, other) = (Authority::new("own"), Authority::new("other"));
    let secure = listening(own.identity());
    let foreign = listening(other.identity());
    let expired = listening(own.identity_until(MEMBER, 2001));
    let no_member = listening(own.identity_until("elsewhere.example", 2100));
    let plain = Listener::new(&Address::Tcp("127.0.0.1:0".into()), TOKEN).unwrap();
    let Address::Tcp(plain_at) = plain.address().clone() else { panic!("an address of TCP") };
    let at = |listener: &Listener| listener.address().clone();
    let cases = [
        (at(&foreign), Some(own.identity()), "its certificate is of another cluster"),
        (
            at(&expired),
            Some(own.identity()),
            "its certificate expired on 2001-01-01: `thalweg node init` there",
        ),
        (at(&no_member), Some(own.identity()), "its certificate is for elsewhere.example, not for member"),
        (at(&secure), None, "there is no certificate to show"),
        (
            at(&secure),
            Some(own.identity_until(MEMBER, 2001)),
            "the certificate of this machine, which has expired",
        ),
    ];
    for (address, identity, expected) in cases {
        let begun = Instant::now();
        let mut sender = sender(address, identity, 9);
        sender.push(b"water").unwrap();
        let error = format!("{:#}", sender.flush().unwrap_err());
        assert!(error.contains(expected), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{expected}: {:?}", begun.elapsed());
    }
    // A listener without TLS takes a handshake for garbage and closes the connection, so the sender tries
    // until its lease is over.
    let tuning = Tuning::new(Address::Tls(plain_at));
    let options = SenderOptions {
        token: TOKEN,
        identity: Some(own.identity()),
        lease: Duration::from_millis(200),
        ..SenderOptions::new(link(9), tuning)
    };
    let mut sender = Sender::new(options).unwrap();
    sender.push(b"water").unwrap();
    let error = format!("{:#}", sender.flush().unwrap_err());
    assert!(error.contains("link 9 has not reached tls/127.0.0.1:"), "{error}");
}

/// Carries one connection to the listener, and keeps what its client sent.
fn recorded(to: &Address) -> (Address, Arc<Mutex<Vec<u8>>>) {
    let Address::Tls(to) = to.clone() else { panic!("an address with TLS") };
    let relay = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tls(relay.local_addr().unwrap().to_string());
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeping = kept.clone();
    std::thread::spawn(move || {
        let (mut from, _) = relay.accept().unwrap();
        let mut to = TcpStream::connect(to).unwrap();
        let (mut back_from, mut back_to) = (to.try_clone().unwrap(), from.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back_from, &mut back_to));
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            keeping.lock().unwrap().extend(&bytes[..read]);
            to.write_all(&bytes[..read]).unwrap();
        }
    });
    (address, kept)
}

#[test]
fn a_replayed_handshake_and_garbage_get_nowhere() {
    let authority = Authority::new("one");
    let listener = listening(authority.identity());
    let (through, kept) = recorded(listener.address());
    let mut receiver = receiver(&listener, 1);
    let mut sender = sender(through, Some(authority.identity()), 1);
    sender.push(b"water").unwrap();
    let sending = std::thread::spawn(move || {
        sender.flush().unwrap();
        sender
    });
    assert_eq!(receiver.recv().unwrap(), Some(&b"water"[..]));
    let mut sender = sending.join().unwrap();
    let recording = kept.lock().unwrap().clone();
    assert!(recording.len() > 500, "a handshake with a certificate");
    assert!(!recording.windows(TOKEN.len()).any(|bytes| bytes == TOKEN), "the token is encrypted");
    let Address::Tls(at) = listener.address().clone() else { panic!("an address with TLS") };
    let before = listener.refused();
    let mut random = Chance::new(7);
    let attempts = 200;
    for attempt in 0..attempts {
        let mut stranger = TcpStream::connect(&at).unwrap();
        let garbage: Vec<u8> = (0..600).map(|_| random.below(256) as u8).collect();
        let bytes = match attempt % 4 {
            0 => recording.clone(),
            // A handshake that ends in the middle, and one with a flipped bit.
            1 => recording[..random.below(recording.len() as u64) as usize].to_vec(),
            2 => {
                let mut bytes = recording.clone();
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
                bytes
            }
            _ => garbage,
        };
        let _ = stranger.write_all(&bytes);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        // The listener closes the connection. It answers a knock by a number and refuses the proof, which was
        // for another number, before it computes anything of a handshake.
        stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        let rest = answer.strip_prefix(&KNOCK).map_or(&answer[..], |rest| &rest[16..]);
        assert!(rest.is_empty() || *rest == [21, 3, 3, 0, 2, 2, 49], "{answer:?}");
    }
    // A connection is counted after it was closed, so the last one may not be counted yet.
    let deadline = Instant::now() + Duration::from_secs(10);
    while listener.refused() - before < attempts && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(listener.refused() - before, attempts);
    // The link goes on, and nothing came twice.
    sender.push(b"stone").unwrap();
    let sending = std::thread::spawn(move || sender.finish().unwrap());
    assert_eq!(receiver.recv().unwrap(), Some(&b"stone"[..]));
    assert_eq!(receiver.recv().unwrap(), None);
    sending.join().unwrap();
}

#[test]
fn a_link_moves_between_tls_and_a_socket_of_the_host() {
    let authority = Authority::new("one");
    let near = Address::Unix(format!("@thalweg-test-{}", std::process::id()).into());
    assert!(!near.is_near(), "no process listens yet");
    let addresses = [Address::Tls("127.0.0.1:0".into()), near.clone()];
    let listener = Listener::with(&addresses, TOKEN, Some(authority.identity())).unwrap();
    assert!(near.is_near() && !listener.address().is_near());
    let mut receiver = receiver(&listener, 1);
    let tuning = Tuning::new(listener.address().clone());
    let options = SenderOptions {
        token: TOKEN,
        identity: Some(authority.identity()),
        ..SenderOptions::new(link(1), tuning.clone())
    };
    let mut sender = Sender::new(options).unwrap();
    let addresses = listener.addresses().to_vec();
    let sending = std::thread::spawn(move || {
        for part in 0..20 {
            push_all(&mut sender, part, 200, 400);
            tuning.set_address(addresses[part as usize % 2].clone());
        }
        let counters = sender.counters();
        sender.finish().unwrap();
        counters.read()
    });
    for part in 0..20 {
        let mut chance = Chance::new(part);
        for number in 0..200 {
            let expected = relay::message(number, &mut chance, 400);
            assert!(receiver.recv().unwrap() == Some(&expected[..]), "message {number} of part {part}");
        }
    }
    assert_eq!(receiver.recv().unwrap(), None);
    let counts = sending.join().unwrap();
    assert!(counts.connections >= 15, "{counts:?}");
}

/// The socket is full when the last bytes are encrypted, so they are written only while the sender waits.
#[test]
fn bytes_that_were_encrypted_last_are_written() {
    let authority = Authority::new("one");
    let listener = listening(authority.identity());
    let tuning = Tuning::new(listener.address().clone());
    tuning.set_window_bytes(64 << 20);
    tuning.set_buffer_bytes(64 << 20);
    let place = listener.place(link(1)).unwrap();
    let mut receiver = Receiver::new(place, ReceiverOptions::new(tuning.clone())).unwrap();
    let identity = Some(authority.identity());
    let options = SenderOptions { token: TOKEN, identity, ..SenderOptions::new(link(1), tuning) };
    let mut sender = Sender::new(options).unwrap();
    let counters = sender.counters();
    let sending = std::thread::spawn(move || {
        sender.push(b"water").unwrap();
        sender.flush().unwrap();
        let before = sender.counters().read().wire_bytes;
        sender.push(&vec![7; 32 << 20]).unwrap();
        sender.flush().unwrap();
        (sender, before)
    });
    assert_eq!(receiver.recv().unwrap(), Some(&b"water"[..]));
    // The receiver reads nothing until the socket takes no more bytes.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut written = 0;
    loop {
        let now = counters.read().wire_bytes;
        if now > 1 << 20 && now == written {
            break;
        }
        assert!(Instant::now() < deadline, "{now} bytes written");
        written = now;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(receiver.recv().unwrap() == Some(&vec![7; 32 << 20][..]));
    let begun = Instant::now();
    while !sending.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the sender waits for ever");
        std::thread::yield_now();
    }
    let (sender, before) = sending.join().unwrap();
    assert!(before < 1000, "{before}");
    let ending = std::thread::spawn(move || sender.finish().unwrap());
    assert_eq!(receiver.recv().unwrap(), None);
    ending.join().unwrap();
}

#[test]
fn a_peer_without_a_certificate_is_refused() {
    let authority = Authority::new("one");
    let listener = listening(authority.identity());
    let Address::Tls(at) = listener.address().clone() else { panic!("an address with TLS") };
    let fingerprint = secure::fingerprint(&authority.certificate).unwrap();
    let stream = TcpStream::connect(at).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut stranger = secure::enroll(MEMBER, stream, (&KNOCK, &TOKEN), deadline, fingerprint).unwrap();
    stranger.tcp().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let refused = stranger.read(&mut [0; 10]).unwrap_err().to_string();
    assert!(refused.contains("it refuses a connection without a certificate"), "{refused}");
    // The listener counts after it has answered.
    while listener.refused() == 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(listener.refused(), 1);
}
