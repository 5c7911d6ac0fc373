//! The knock: what an end that connects proves before the other end computes anything for TLS.
//!
//! A handshake of TLS costs the end that accepts it a signature before it knows anything of the other end,
//! and a handshake that was recorded is as good a beginning as any. Therefore an end that connects first
//! proves that it knows a secret of the cluster, by a number that it cannot have proved before:
//!
//! ```text
//!   connecting end   "thalwgk1"                                        8 bytes
//!   accepting end    "thalwgk1" · number that never was sent before    8 + 16 bytes
//!   connecting end   HMAC-SHA-256 of that answer under the secret      32 bytes, then the handshake of TLS
//! ```
//! If the proof is wrong, the accepting end sends an alert of TLS and closes the connection. The knock proves
//! nothing about the connection that follows: both ends authenticate each other by TLS as if there were no
//! knock.

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::stream::Timed;
use crate::transport::is_later;

/// A secret that ends of a cluster know.
pub type Secret = [u8; 32];

/// The first bytes of both ends: the protocol and its version.
pub const KNOCK: [u8; 8] = *b"thalwgk1";
/// The first bytes of an end whose secret is an invitation.
pub const INVITED: [u8; 8] = *b"thalwgi1";
/// The answer to a wrong proof: an alert of TLS, `access_denied`.
const DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
const PROOF_BYTES: usize = 32;
const CHALLENGE_BYTES: usize = KNOCK.len() + 16;

/// What the accepting end sends.
pub(super) type Challenge = [u8; CHALLENGE_BYTES];

/// The proof that the connecting end knows the secret.
pub(super) fn proof(secret: &Secret, challenge: &Challenge) -> [u8; PROOF_BYTES] {
    let mut proof = [0; PROOF_BYTES];
    proof.copy_from_slice(hmac::sign(&key(secret), &proven(challenge)).as_ref());
    proof
}

/// Whether this is an answer to a knock.
pub(super) fn check(challenge: &Challenge) -> io::Result<()> {
    if challenge.starts_with(&KNOCK) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, super::explain::NO_TLS))
}

fn key(secret: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

fn proven(challenge: &Challenge) -> Vec<u8> {
    [b"knocks", &challenge[..]].concat()
}

/// Knocks; returns the proof, which has to be sent in front of the handshake.
pub(super) fn knock(
    stream: &TcpStream,
    (begin, secret): (&[u8; 8], &Secret),
    deadline: Instant,
) -> io::Result<[u8; PROOF_BYTES]> {
    let mut timed = Timed { stream, deadline };
    timed.write_all(begin)?;
    let mut challenge = [0; CHALLENGE_BYTES];
    let (known, number) = challenge.split_at_mut(KNOCK.len());
    timed.read_exact(known)?;
    if *known == KNOCK {
        timed.read_exact(number)?;
    }
    check(&challenge)?;
    Ok(proof(secret, &challenge))
}

/// The accepting end of a connection whose other end has not proved yet that it knows a secret.
#[derive(Debug, Default)]
pub struct Door {
    read: [u8; PROOF_BYTES],
    held: usize,
    /// The beginning of the other end and the challenge, when it has begun.
    begun: Option<([u8; 8], Challenge)>,
}

/// The state of a [`Door`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knocked {
    /// The other end has not sent everything yet.
    Later,
    /// The other end knows the secret.
    Proved,
    /// The other end sends something else, has closed the connection, or does not know the secret.
    Refused,
}

impl Door {
    /// Reads from a socket that does not block what has arrived, and answers it. `secrets` has the secrets
    /// that are good for a beginning: [`KNOCK`] or [`INVITED`].
    ///
    /// # Errors
    /// The connection is broken, or the system gives no random numbers.
    pub fn look(
        &mut self,
        stream: &TcpStream,
        secrets: impl FnOnce(&[u8; 8]) -> Vec<Secret>,
    ) -> io::Result<Knocked> {
        loop {
            let needed = if self.begun.is_some() { PROOF_BYTES } else { KNOCK.len() };
            if self.held < needed {
                let mut stream = stream;
                match stream.read(&mut self.read[self.held..needed]) {
                    Ok(0) => return Ok(Knocked::Refused),
                    Ok(read) => self.held += read,
                    Err(error) if is_later(&error) => return Ok(Knocked::Later),
                    Err(error) => return Err(error),
                }
                continue;
            }
            let Some((begin, challenge)) = self.begun else {
                match self.begin(stream)? {
                    true => continue,
                    false => return Ok(Knocked::Refused),
                }
            };
            let proven = proven(&challenge);
            let is_it = |secret| hmac::verify(&key(secret), &proven, &self.read).is_ok();
            if secrets(&begin).iter().any(is_it) {
                return Ok(Knocked::Proved);
            }
            deny(stream);
            return Ok(Knocked::Refused);
        }
    }

    /// The first bytes of the other end, if they are no knock.
    pub fn said(&self) -> &[u8] {
        if self.begun.is_some() { &[] } else { &self.read[..self.held] }
    }

    /// Answers the first bytes, if they are a knock.
    fn begin(&mut self, mut stream: &TcpStream) -> io::Result<bool> {
        let mut begin = [0; 8];
        begin.copy_from_slice(&self.read[..8]);
        if begin != KNOCK && begin != INVITED {
            return Ok(false);
        }
        let mut challenge = [0; CHALLENGE_BYTES];
        challenge[..8].copy_from_slice(&KNOCK);
        let filled = SystemRandom::new().fill(&mut challenge[8..]);
        filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
        // The buffer of a new connection has room for so few bytes.
        stream.write_all(&challenge)?;
        self.begun = Some((begin, challenge));
        self.held = 0;
        Ok(true)
    }
}

/// Sends the alert by which an end says that it does not know the other end's secret, or that it expects TLS.
/// What has arrived is read before: a connection that is closed with unread bytes is reset, and the other end
/// would not see the reason.
pub fn deny(mut stream: &TcpStream) {
    // Errors are ignored: the connection is given up in any case.
    let _ = stream.read(&mut [0; 2048]);
    let _ = stream.write_all(&DENIED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Duration;

    const SECRET: Secret = [7; 32];

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        other.set_nonblocking(true).unwrap();
        (one, other)
    }

    fn good(begin: &[u8; 8]) -> Vec<Secret> {
        if *begin == KNOCK { vec![[1; 32], SECRET] } else { Vec::new() }
    }

    /// The last state of the door, when what was sent has been read.
    fn end(door: &mut Door, stream: &TcpStream) -> Knocked {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match door.look(stream, good).unwrap() {
                Knocked::Later => assert!(Instant::now() < deadline, "nothing arrives"),
                end => return end,
            }
            std::thread::yield_now();
        }
    }

    /// Knocks with this secret; returns the end at the door, the answer to the proof, and all that was sent.
    fn tried(begin: [u8; 8], secret: Secret) -> (Knocked, Vec<u8>, Vec<u8>) {
        let (one, other) = pair();
        let knocking = std::thread::spawn(move || {
            let deadline = Instant::now() + Duration::from_secs(20);
            let proof = knock(&one, (&begin, &secret), deadline).unwrap();
            (&one).write_all(&proof).unwrap();
            let mut answer = Vec::new();
            (&one).read_to_end(&mut answer).unwrap();
            (answer, [&begin[..], &proof].concat())
        });
        let end = end(&mut Door::default(), &other);
        drop(other);
        let (answer, sent) = knocking.join().unwrap();
        (end, answer, sent)
    }

    #[test]
    fn only_the_secrets_of_the_beginning_are_good() {
        for (begin, secret, expected) in [
            (KNOCK, SECRET, Knocked::Proved),
            (KNOCK, [1; 32], Knocked::Proved),
            (KNOCK, [8; 32], Knocked::Refused),
            (INVITED, SECRET, Knocked::Refused),
        ] {
            let (end, answer, _) = tried(begin, secret);
            assert_eq!(end, expected, "{begin:?}");
            let denied: &[u8] = if expected == Knocked::Refused { &DENIED } else { &[] };
            assert_eq!(answer, denied, "{begin:?}");
        }
    }

    #[test]
    fn a_recorded_proof_is_refused() {
        let (end_of_first, _, sent) = tried(KNOCK, SECRET);
        assert_eq!(end_of_first, Knocked::Proved);
        let (mut one, other) = pair();
        one.write_all(&sent).unwrap();
        assert_eq!(end(&mut Door::default(), &other), Knocked::Refused);
        drop(other);
        let mut answer = Vec::new();
        one.read_to_end(&mut answer).unwrap();
        assert_eq!(answer[CHALLENGE_BYTES..], DENIED);
    }

    #[test]
    fn what_is_no_knock_is_refused_without_an_answer() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[22, 3, 1, 2, 0, 1, 0, 1], b"thalwgn1", b"thalwgk9"] {
            let (mut one, other) = pair();
            one.write_all(bytes).unwrap();
            assert_eq!(end(&mut Door::default(), &other), Knocked::Refused, "{bytes:?}");
            drop(other);
            let mut answer = Vec::new();
            // The connection may be reset, because bytes were not read.
            let _ = one.read_to_end(&mut answer);
            assert_eq!(answer, b"", "{bytes:?}");
        }
    }

    #[test]
    fn a_knock_may_come_in_pieces() {
        let (mut one, other) = pair();
        let mut door = Door::default();
        one.write_all(&KNOCK[..3]).unwrap();
        assert_eq!(door.look(&other, good).unwrap(), Knocked::Later);
        one.write_all(&KNOCK[3..]).unwrap();
        let mut challenge = [0; CHALLENGE_BYTES];
        let answering = std::thread::spawn(move || {
            one.read_exact(&mut challenge).unwrap();
            let proof = proof(&SECRET, &challenge);
            one.write_all(&proof[..20]).unwrap();
            one.write_all(&[&proof[20..], b"hello"].concat()).unwrap();
            one
        });
        assert_eq!(end(&mut door, &other), Knocked::Proved);
        let _one = answering.join().unwrap();
        // What follows the proof stays in the socket.
        other.set_nonblocking(false).unwrap();
        let mut rest = [0; 5];
        (&other).read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"hello");
    }
}
