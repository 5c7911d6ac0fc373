//! Connections to a node before they have sent anything. A thread serves a connection only when it has begun
//! as one of a node begins, so a stranger that sends nothing, or another protocol, costs the node no thread.

use std::collections::VecDeque;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::channel::{GREETING, may_greet};
use crate::daemon::STRANGERS_MAX;

/// Connections of which nothing was read yet, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Hall {
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    stream: TcpStream,
    since: Instant,
    /// Whether there may be something to read.
    is_ready: bool,
}

impl Hall {
    /// Waits until a connection is made or sends something, at most this long, and accepts new connections.
    pub(crate) fn wait(&mut self, listener: &TcpListener, most: Duration) {
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        fds.extend(
            self.waiting.iter().map(|one| PollFd::from_borrowed_fd(one.stream.as_fd(), PollFlags::IN)),
        );
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        // An error is ignored: a wait that a signal interrupts ends early.
        let _ = poll(&mut fds, Some(&most));
        let ready: Vec<bool> = fds.iter().skip(1).map(|fd| !fd.revents().is_empty()).collect();
        self.waiting.iter_mut().zip(ready).for_each(|(one, is_ready)| one.is_ready = is_ready);
        for _ in 0..STRANGERS_MAX {
            let Ok((stream, _)) = listener.accept() else { break };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.waiting.len() >= STRANGERS_MAX {
                self.waiting.pop_front();
            }
            self.waiting.push_back(Waiting { stream, since: Instant::now(), is_ready: true });
        }
    }

    /// The connections that have begun as one of a node begins. Others that have sent something, and those
    /// that have sent nothing in time, are closed.
    pub(crate) fn begun(&mut self) -> Vec<TcpStream> {
        let mut begun = Vec::new();
        for mut one in std::mem::take(&mut self.waiting) {
            let may_greet = if std::mem::take(&mut one.is_ready) { beginning(&one.stream) } else { None };
            match may_greet {
                Some(true) => begun.push(one.stream),
                None if one.since.elapsed() < GREETING => self.waiting.push_back(one),
                _ => {}
            }
        }
        begun
    }
}

/// Whether the first bytes of a connection may be a greeting. The bytes stay to be read.
fn beginning(stream: &TcpStream) -> Option<bool> {
    let mut bytes = [0; 8];
    match stream.peek(&mut bytes) {
        Ok(0) => Some(false),
        // Of a greeting that has arrived in part, the rest is waited for by the thread that serves it.
        Ok(read) => Some(may_greet(&bytes[..read])),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(_) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn only_what_begins_as_a_greeting_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let mut hall = Hall::default();
        let connect = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        let mut silent: Vec<TcpStream> = (0..STRANGERS_MAX + 1).map(|_| connect(b"")).collect();
        let (mut other, mut node) = (connect(b"GET / HTTP/1.1\r\n\r\n"), connect(b"thal"));
        let mut begun = Vec::new();
        let until = Instant::now() + Duration::from_secs(20);
        node.write_all(b"wgn1").unwrap();
        while begun.is_empty() {
            assert!(Instant::now() < until, "the node is not served");
            hall.wait(&listener, Duration::from_millis(10));
            begun.extend(hall.begun());
        }
        let mut bytes = [0; 8];
        begun[0].set_nonblocking(false).unwrap();
        begun[0].read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"thalwgn1");
        assert!(matches!(other.read(&mut bytes), Ok(0) | Err(_)), "it is closed");
        assert!(matches!(silent[0].read(&mut bytes), Ok(0) | Err(_)), "others came after it");
        assert!(hall.waiting.len() <= STRANGERS_MAX && begun.len() == 1);
    }
}
