//! Waits for many sockets at a price that does not grow with their number.

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The most sockets that one wait returns; the next wait returns others.
const READY_MAX: usize = 64;

/// A set of file descriptors, each with a number, that finds those which can be read.
///
/// A descriptor that is closed leaves the set, unless it was duplicated before.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// An empty set.
    ///
    /// # Errors
    /// The system has no room for one more file descriptor.
    pub fn new() -> io::Result<Watch> {
        Ok(Watch(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor under a number.
    ///
    /// # Errors
    /// The system has no memory for it, or the descriptor is in the set already.
    pub fn add(&self, fd: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?)
    }

    /// Removes a descriptor.
    pub fn remove(&self, fd: impl AsFd) {
        // An error means that the descriptor is not in the set.
        let _ = epoll::delete(&self.0, fd);
    }

    /// Waits until a descriptor can be read, at most for this time; returns the numbers of those that can be
    /// read, or that were closed by the other end.
    ///
    /// # Errors
    /// The system fails.
    pub fn wait(&self, most: Duration) -> io::Result<Vec<u64>> {
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        let mut events = [MaybeUninit::uninit(); READY_MAX];
        match epoll::wait(&self.0, &mut events, Some(&most)) {
            Ok((ready, _)) => Ok(ready.iter().map(|event| event.data.u64()).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn those_that_can_be_read_are_found() {
        let watch = Watch::new().unwrap();
        let mut pairs: Vec<_> = (0..READY_MAX + 10).map(|_| UnixStream::pair().unwrap()).collect();
        for (number, (_, other)) in pairs.iter().enumerate() {
            watch.add(other, number as u64).unwrap();
        }
        assert_eq!(watch.wait(Duration::ZERO).unwrap(), []);
        pairs[3].0.write_all(b"water").unwrap();
        assert_eq!(watch.wait(Duration::from_secs(20)).unwrap(), [3]);
        watch.remove(&pairs[3].1);
        assert_eq!(watch.wait(Duration::ZERO).unwrap(), []);
        // The last ones are closed at both ends, the others at one.
        pairs.truncate(READY_MAX + 4);
        let (closed, kept): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        drop(closed);
        let ready = watch.wait(Duration::from_secs(20)).unwrap();
        assert!(ready.len() == READY_MAX.min(kept.len() - 1) && !ready.contains(&3), "{ready:?}");
    }
}
