//! Messages that a receiver can check, and a relay that cuts connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use thalweg_chance::Chance;
use thalweg_link::{Address, Receiver, Sender};

/// A message that contains its number and random bytes.
pub(crate) fn message(number: u64, chance: &mut Chance, bytes_max: usize) -> Vec<u8> {
    let bytes = 8 + chance.below(bytes_max as u64 + 1) as usize;
    let mut message = number.to_le_bytes().to_vec();
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    message.extend((8..bytes).map(|at| (mixed >> (at % 57)) as u8));
    message
}

/// Receives all messages, and compares each with the expected one.
pub(crate) fn take_all(receiver: &mut Receiver, seed: u64, bytes_max: usize) -> u64 {
    let mut chance = Chance::new(seed);
    let mut taken = 0;
    while let Some(got) = receiver.recv().unwrap() {
        assert!(got == message(taken, &mut chance, bytes_max), "message {taken} differs");
        taken += 1;
    }
    taken
}

pub(crate) fn push_all(sender: &mut Sender, seed: u64, count: u64, bytes_max: usize) {
    let mut chance = Chance::new(seed);
    for number in 0..count {
        sender.push(&message(number, &mut chance, bytes_max)).unwrap();
        if number % 64 == 0 {
            sender.flush().unwrap();
        }
    }
}

/// Carries bytes in both directions, and cuts each connection after some bytes.
pub(crate) struct Relay {
    pub(crate) address: Address,
    over: Arc<AtomicBool>,
    pub(crate) cuts: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn new(to: &Address, seed: u64, bytes_between_cuts: u64) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let (to, address) = match to.clone() {
            Address::Tcp(to) => (to, Address::Tcp(own)),
            Address::Tls(to) => (to, Address::Tls(own)),
            other => panic!("{other} is no address of TCP"),
        };
        let (over, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, cut) = (over.clone(), cuts.clone());
        let thread = std::thread::spawn(move || {
            let mut chance = Chance::new(seed);
            while let Ok((from, _)) = listener.accept() {
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                let to = TcpStream::connect(&to).unwrap();
                // Without this, small pieces would wait for acknowledgements that TCP delays by 40 ms.
                for stream in [&from, &to] {
                    stream.set_nodelay(true).unwrap();
                }
                let left = Arc::new(AtomicU64::new(1 + chance.below(2 * bytes_between_cuts)));
                let back = (to.try_clone().unwrap(), from.try_clone().unwrap(), left.clone());
                let backwards = std::thread::spawn(move || carry(back.0, back.1, &back.2));
                let was_cut = carry(from, to, &left) | backwards.join().unwrap();
                cut.fetch_add(u64::from(was_cut), Ordering::Relaxed);
            }
        });
        Relay { address, over, cuts, thread: Some(thread) }
    }
}

/// Carries bytes until the input ends, or until the allowed number was carried; then shuts both directions
/// down. Returns whether the connection was cut.
fn carry(mut from: TcpStream, mut to: TcpStream, left: &AtomicU64) -> bool {
    let mut bytes = [0; 1500];
    let mut was_cut = false;
    while let Ok(read) = from.read(&mut bytes) {
        let before = left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| Some(left.saturating_sub(read as u64)));
        let allowed = (read as u64).min(before.unwrap()) as usize;
        was_cut |= allowed < read;
        if to.write_all(&bytes[..allowed]).is_err() || read == 0 || allowed < read {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    was_cut
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let (Address::Tcp(address) | Address::Tls(address)) = &self.address else { return };
        drop(TcpStream::connect(address));
        self.thread.take().unwrap().join().unwrap();
    }
}
