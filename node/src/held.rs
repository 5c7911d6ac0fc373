//! What belongs to the connections of runs to a node: it outlives a connection that breaks, for as long as a
//! node may be silent, so the run can go on with it over a new connection.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What belongs to connections, by the name that the run has chosen.
pub(crate) struct Held<T> {
    all: Mutex<HashMap<String, Holding<T>>>,
    changed: Condvar,
    /// The number of waits so far.
    waits: AtomicU64,
}

enum Holding<T> {
    /// The thread that serves this connection has it.
    InUse(Option<TcpStream>),
    /// Another connection wants it, and the thread has to give it back.
    Wanted,
    /// The connection is broken. Each wait under a name has another number.
    Waits(u64, T),
}

impl<T> Default for Held<T> {
    fn default() -> Held<T> {
        Held { all: Mutex::default(), changed: Condvar::new(), waits: AtomicU64::new(0) }
    }
}

impl<T> std::fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("connections", &self.all().len()).finish()
    }
}

impl<T> Held<T> {
    /// A connection begins that can be continued under this name. Returns false if the name is taken.
    pub(crate) fn begin(&self, key: &str, connection: Option<TcpStream>) -> bool {
        let mut all = self.all();
        let is_new = !all.contains_key(key);
        if is_new {
            all.insert(key.to_owned(), Holding::InUse(connection));
        }
        is_new
    }

    /// The other end has closed the connection. Returns false if another connection wants what belongs to it,
    /// so that it has to [wait](Held::wait).
    pub(crate) fn end(&self, key: &str) -> bool {
        let mut all = self.all();
        let is_over = !matches!(all.get(key), Some(Holding::Wanted));
        if is_over {
            all.remove(key);
        }
        is_over
    }

    /// The connection broke: keeps what belongs to it until another connection takes it, at most this long.
    /// Returns it if none did.
    pub(crate) fn wait(&self, key: &str, kept: T, patience: Duration) -> Option<T> {
        let number = self.waits.fetch_add(1, Ordering::Relaxed);
        let mut all = self.all();
        all.insert(key.to_owned(), Holding::Waits(number, kept));
        self.changed.notify_all();
        let is_it = |known: &Holding<T>| matches!(known, Holding::Waits(of, _) if *of == number);
        let waits = |all: &mut HashMap<String, Holding<T>>| all.get(key).is_some_and(is_it);
        let waited = self.changed.wait_timeout_while(all, patience, waits);
        let (mut all, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if waits(&mut all)
            && let Some(Holding::Waits(_, kept)) = all.remove(key)
        {
            return Some(kept);
        }
        None
    }

    /// Takes what belonged to a connection that broke, for a new connection. If the node has not noticed yet
    /// that the old one broke, closes it, and waits until its last question was carried out, at most this
    /// long.
    pub(crate) fn take(&self, key: &str, connection: Option<TcpStream>, patience: Duration) -> Option<T> {
        let mut all = self.all();
        if let Some(holding @ Holding::InUse(_)) = all.get_mut(key)
            && let Holding::InUse(Some(old)) = std::mem::replace(holding, Holding::Wanted)
        {
            // An error is ignored: the connection is closed already.
            let _ = old.shutdown(Shutdown::Both);
        }
        let is_used = |all: &mut HashMap<String, Holding<T>>| matches!(all.get(key), Some(Holding::Wanted));
        let waited = self.changed.wait_timeout_while(all, patience, is_used);
        let (mut all, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !matches!(all.get(key), Some(Holding::Waits(..))) {
            return None;
        }
        let Some(Holding::Waits(_, kept)) = all.insert(key.to_owned(), Holding::InUse(connection)) else {
            return None;
        };
        self.changed.notify_all();
        Some(kept)
    }

    /// A panic under this lock leaves every step either done or not begun.
    fn all(&self) -> MutexGuard<'_, HashMap<String, Holding<T>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn what_nobody_takes_comes_back() {
        let held = Held::default();
        assert!(held.begin("a", None));
        assert!(!held.begin("a", None), "a name is good once");
        assert_eq!(held.wait("a", 7, Duration::from_millis(1)), Some(7));
        assert_eq!(held.take("a", None, LONG), None);
    }

    #[test]
    fn another_connection_takes_it_once() {
        let held = Held::default();
        held.begin("a", None);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| held.wait("a", 7, LONG));
            assert_eq!(held.take("b", None, LONG), None, "another name");
            // This waits until the other thread has noticed that its connection broke.
            assert_eq!(held.take("a", None, LONG), Some(7));
            assert_eq!(waits.join().unwrap(), None);
        });
        assert!(held.end("a"));
        assert_eq!(held.take("a", None, LONG), None, "it is over");
        held.begin("a", None);
        assert_eq!(held.take("a", None, Duration::from_millis(1)), None, "it is in use");
    }

    #[test]
    fn a_wait_that_was_ended_does_not_end_the_next_one() {
        let held = Held::default();
        held.begin("a", None);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| held.wait("a", 7, LONG));
            assert_eq!(held.take("a", None, LONG), Some(7));
            // The connection breaks again, perhaps before the first thread has noticed that it was relieved.
            let second = scope.spawn(|| held.wait("a", 8, LONG));
            assert_eq!(first.join().unwrap(), None, "the first wait is over");
            assert_eq!(held.take("a", None, LONG), Some(8));
            assert_eq!(second.join().unwrap(), None);
        });
    }

    #[test]
    fn a_connection_that_seems_to_live_is_closed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        let held = Held::default();
        held.begin("a", Some(served.try_clone().unwrap()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(std::io::Read::read(&mut served, &mut [0]).unwrap(), 0, "it is shut down");
                assert!(!held.end("a"), "the run has not closed it");
                held.wait("a", 7, LONG);
            });
            assert_eq!(held.take("a", None, LONG), Some(7));
        });
    }
}
