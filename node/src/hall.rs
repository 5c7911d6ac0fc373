//! Connections to a node that have not proved yet that they know the cluster's token, or an invitation. One
//! thread reads and answers all of them, and computes nothing for TLS: a stranger costs the node no thread,
//! no signature, and no other connection its turn.

use std::collections::BTreeMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use thalweg_link::Watch;
use thalweg_link::secure::{Door, KNOCK, Knocked, deny};

use crate::channel::{GREETING, Greeting, is_greeting};
use crate::cluster::Cluster;
use crate::daemon::STRANGERS_MAX;

/// Connections that have proved nothing yet.
#[derive(Debug)]
pub(crate) struct Hall {
    listener: TcpListener,
    /// By their numbers, in order of their arrival.
    waiting: BTreeMap<u64, Waiting>,
    /// The number of the next connection.
    next: u64,
    watch: Watch,
    cluster: Cluster,
    /// Whether connections are with TLS.
    is_secure: bool,
}

#[derive(Debug)]
struct Waiting {
    stream: TcpStream,
    since: Instant,
    proves: Proves,
}

/// How a connection proves that it knows the token.
#[derive(Debug)]
enum Proves {
    /// Before a handshake of TLS.
    Knocks(Door),
    Greets(Greeting),
}

/// The number of the listener among what is waited for.
const LISTENER: u64 = u64::MAX;

impl Hall {
    /// A hall behind a listener that does not block.
    pub(crate) fn new(listener: TcpListener, cluster: Cluster, is_secure: bool) -> io::Result<Hall> {
        let watch = Watch::new()?;
        watch.add(&listener, LISTENER)?;
        Ok(Hall { listener, waiting: BTreeMap::new(), next: 0, watch, cluster, is_secure })
    }

    /// Waits until a connection is made or sends something, at most this long; returns the connections that
    /// have proved that they know the token or an invitation. Others that have sent something else, and those
    /// that have not sent everything in time, are closed.
    pub(crate) fn known(&mut self, most: Duration) -> Vec<TcpStream> {
        // An error is ignored: the next wait fails as well, or finds what this one has missed.
        let ready = self.watch.wait(most).unwrap_or_default();
        let mut known = Vec::new();
        for number in ready {
            match number {
                LISTENER => self.accept(&mut known),
                number => known.extend(self.look(number)),
            }
        }
        while let Some(first) = self.waiting.first_entry()
            && first.get().since.elapsed() >= GREETING
        {
            first.remove();
        }
        known
    }

    /// Accepts new connections, a bounded number at a time, and reads what they have sent already.
    fn accept(&mut self, known: &mut Vec<TcpStream>) {
        for _ in 0..STRANGERS_MAX {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
                continue;
            }
            if self.waiting.len() >= STRANGERS_MAX {
                self.waiting.pop_first();
            }
            let proves = match self.is_secure {
                true => Proves::Knocks(Door::default()),
                false => Proves::Greets(Greeting::default()),
            };
            let (number, since) = (self.next, Instant::now());
            self.next += 1;
            self.waiting.insert(number, Waiting { stream, since, proves });
            known.extend(self.look(number));
            if let Some(one) = self.waiting.get(&number)
                && self.watch.add(&one.stream, number).is_err()
            {
                self.waiting.remove(&number);
            }
        }
    }

    /// Reads and answers what a connection has sent; returns it when it has proved what it has to. It stays
    /// where it is when more has to come, and is closed if it sent something else.
    fn look(&mut self, number: u64) -> Option<TcpStream> {
        let mut one = self.waiting.remove(&number)?;
        match self.knocked(&mut one) {
            Knocked::Later => {
                self.waiting.insert(number, one);
                None
            }
            Knocked::Proved => {
                self.watch.remove(&one.stream);
                Some(one.stream)
            }
            Knocked::Refused => None,
        }
    }

    fn knocked(&self, one: &mut Waiting) -> Knocked {
        let looked = match &mut one.proves {
            Proves::Greets(greeting) => greeting.look(&one.stream, self.cluster.token()),
            Proves::Knocks(door) => {
                let secrets = |begin: &[u8; 8]| match *begin == KNOCK {
                    true => vec![*self.cluster.token()],
                    false => self.cluster.certificates().invitations(),
                };
                let looked = door.look(&one.stream, secrets);
                if is_greeting(door.said()) && matches!(looked, Ok(Knocked::Refused)) {
                    // A process of the cluster that does not know that the node listens with TLS.
                    deny(&one.stream);
                }
                looked
            }
        };
        // A connection that breaks has proved nothing.
        looked.unwrap_or(Knocked::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;
    use std::io::{Read, Write};

    #[test]
    fn only_what_proves_that_it_knows_the_token_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let cluster = Cluster::open(Some(&folder.path().join("cluster"))).unwrap();
        let mut hall = Hall::new(listener, cluster.clone(), false).unwrap();
        let connect = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        let mut silent: Vec<TcpStream> = (0..STRANGERS_MAX + 1).map(|_| connect(b"")).collect();
        let mut others = [connect(b"GET / HTTP/1.1\r\n\r\n"), connect(&[b"thalwgn1", &[7; 64][..]].concat())];
        let (stream, token) = (connect(b""), *cluster.token());
        let greeting = std::thread::spawn(move || Channel::greeted(stream, &token).is_ok());
        let mut known = Vec::new();
        let until = Instant::now() + Duration::from_secs(20);
        while known.is_empty() {
            assert!(Instant::now() < until, "the node is not served");
            known.extend(hall.known(Duration::from_millis(10)));
        }
        assert!(greeting.join().unwrap(), "the node proves that it knows the token, too");
        let mut bytes = [0; 64];
        assert!(matches!(others[0].read(&mut bytes), Ok(0) | Err(_)), "it is closed");
        assert_eq!(others[1].read(&mut bytes).unwrap(), 40, "it gets the node's number");
        assert!(matches!(others[1].read(&mut bytes), Ok(0) | Err(_)), "it is closed");
        assert!(matches!(silent[0].read(&mut bytes), Ok(0) | Err(_)), "others came after it");
        assert!(hall.waiting.len() <= STRANGERS_MAX && known.len() == 1);
    }
}
