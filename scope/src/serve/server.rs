//! The scope server.

use super::protocol::{
    Ask, ERROR, GREETING_BYTES, OPEN, PULL, REQUEST_BYTES_MAX, VERSION, encode, greeted, greeting, how, put,
    take,
};
use super::shared::{Scopes, locked};
use crate::error::Error;
use crate::tree::{Price, Scope};
use crate::view::Pull;
use rustix::net::sockopt::socket_peercred;
use std::collections::HashMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_space::{Space, SpaceOptions};

/// The time between two checks for a new client and for the request to stop.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a client may take to send its greeting and to read an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The socket at which the server listens.
    pub socket: PathBuf,
    /// The ids of other users that may connect.
    pub users: Vec<u32>,
    /// The most clients at a time.
    pub clients_max: usize,
    /// The most bytes of tuples that wait for a client; older ones are dropped and counted.
    pub waiting_bytes_max: usize,
    /// The most requests of a client in a second; a client that sends more is disconnected.
    pub requests_per_s: u32,
    /// How long a client may take to read an answer.
    pub patience: Duration,
    /// Share of the host's processor time that all pulls together may take.
    pub share: f64,
    /// The directory for the server's own space; the default one if `None`.
    pub spaces: Option<PathBuf>,
}

impl ServerOptions {
    /// Options for a server at this socket: 64 clients of its own user, 64 MiB for each, 1 % of the host's
    /// processor time.
    pub fn at(socket: impl Into<PathBuf>) -> ServerOptions {
        ServerOptions {
            socket: socket.into(),
            users: Vec::new(),
            clients_max: 64,
            waiting_bytes_max: 64 << 20,
            requests_per_s: 10_000,
            patience: PATIENCE,
            share: Price::SHARE,
            spaces: None,
        }
    }
}

/// The socket of this user's server: `scopes.socket` in the default directory of spaces.
///
/// # Errors
/// When there is no default directory of spaces.
pub fn default_socket() -> Result<PathBuf, Error> {
    Ok(thalweg_space::default_parent()?.join("scopes.socket"))
}

/// A scope server, which ends when this value is dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    /// The locked file that makes this server the only one at its socket.
    lock: File,
    shared: Arc<Shared>,
    threads: Vec<std::thread::JoinHandle<()>>,
    /// The number of clients so far, which numbers the next.
    admitted: u64,
}

#[derive(Debug)]
struct Shared {
    options: ServerOptions,
    space: Space,
    scopes: Scopes,
    price: Mutex<Price>,
    clients: Mutex<HashMap<u64, UnixStream>>,
    served: AtomicU64,
    refused: AtomicU64,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// When another server listens at this socket, or the socket cannot be made.
    pub fn listen(options: ServerOptions) -> Result<Server, Error> {
        let socket = &options.socket;
        let failed = |what: &str, error: io::Error| {
            Error::because(format!("cannot {what} {}", socket.display()), error)
        };
        if let Some(parent) = socket.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(|error| failed("make the folder of", error))?;
        }
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(lock_path(socket));
        let lock = lock.map_err(|error| failed("lock", error))?;
        if lock.try_lock().is_err() {
            return Err(Error::new(format!("a scope server listens at {} already", socket.display())));
        }
        // The lock is free, so the server that made an existing socket has ended.
        match std::fs::symlink_metadata(socket) {
            Ok(about) if std::os::unix::fs::FileTypeExt::is_socket(&about.file_type()) => {
                std::fs::remove_file(socket).map_err(|error| failed("remove", error))?;
            }
            Ok(_) => {
                return Err(Error::new(format!("{} is no socket: choose another path", socket.display())));
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(socket).map_err(|error| failed("listen at", error))?;
        // If other users are allowed, the file's mode lets every user connect; the server checks the user's
        // id and refuses the others.
        let mode = if options.users.is_empty() { 0o600 } else { 0o666 };
        std::fs::set_permissions(socket, Permissions::from_mode(mode))
            .map_err(|error| failed("guard", error))?;
        listener.set_nonblocking(true).map_err(|error| failed("listen at", error))?;
        let name = "scope server".to_owned();
        let space =
            Space::create(SpaceOptions { name, parent: options.spaces.clone(), ..Default::default() })?;
        let shared = Shared {
            price: Mutex::new(Price::new(options.share)),
            options,
            space,
            scopes: Scopes::default(),
            clients: Mutex::new(HashMap::new()),
            served: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        };
        Ok(Server { listener, lock, shared: Arc::new(shared), threads: Vec::new(), admitted: 0 })
    }

    /// Serves clients until `stop`.
    pub fn serve(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(_) => std::thread::sleep(PAUSE),
            }
            self.threads.retain(|thread| !thread.is_finished());
        }
    }

    /// The directory of the server's own space, which records what the server does.
    pub fn space(&self) -> &Path {
        self.shared.space.path()
    }

    /// The number of answers sent, of clients refused, and of leaves that the server reads.
    pub fn counts(&self) -> (u64, u64, usize) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.shared.served), count(&self.shared.refused), self.shared.scopes.count())
    }

    fn admit(&mut self, mut stream: UnixStream) {
        let shared = self.shared.clone();
        if let Err(why) = shared.may_come(&stream) {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            let _ = stream.set_nonblocking(true);
            // The error is ignored, because the client may not read the message.
            let _ = stream.write_all(format!("{why}\n").as_bytes());
            return;
        }
        self.admitted += 1;
        let key = self.admitted;
        if let Ok(copy) = stream.try_clone() {
            locked(&shared.clients).insert(key, copy);
        }
        let spawned = std::thread::Builder::new().name("scope client".into()).spawn({
            let shared = shared.clone();
            move || {
                // The error is ignored: a client that violates the protocol or disconnects affects no other
                // client.
                let _ = shared.client(stream);
                locked(&shared.clients).remove(&key);
            }
        });
        match spawned {
            Ok(thread) => self.threads.push(thread),
            Err(_) => drop(locked(&shared.clients).remove(&key)),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for stream in locked(&self.shared.clients).values() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Errors are ignored, because a later server removes the files, too.
        let _ = std::fs::remove_file(&self.shared.options.socket);
        let _ = std::fs::remove_file(lock_path(&self.shared.options.socket));
        let _ = self.lock.unlock();
        self.shared.space.finish();
        let _ = thalweg_space::discover::remove(self.shared.space.path());
    }
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Counts the requests of a client in a second.
struct Pace {
    second: Instant,
    count: u32,
}

impl Pace {
    fn is_too_fast(&mut self, most: u32) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            *self = Pace { second: Instant::now(), count: 0 };
        }
        self.count += 1;
        self.count > most
    }
}

impl Shared {
    /// Whether this client is admitted; the error states why it is not.
    fn may_come(&self, stream: &UnixStream) -> Result<(), String> {
        let user = socket_peercred(stream)
            .map_err(|_| "the scope server cannot find out which user you are".to_owned())?
            .uid;
        if user != rustix::process::geteuid() && !self.options.users.contains(&user.as_raw()) {
            return Err(format!("the scope server of another user does not serve user {}", user.as_raw()));
        }
        if locked(&self.clients).len() >= self.options.clients_max {
            return Err(format!("the scope server has {} clients already", self.options.clients_max));
        }
        Ok(())
    }

    /// Serves a client until it disconnects.
    fn client(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(self.options.patience))?;
        stream.set_write_timeout(Some(self.options.patience))?;
        let mut bytes = [0; GREETING_BYTES];
        stream.read_exact(&mut bytes)?;
        match greeted(&bytes) {
            Some(VERSION) => stream.write_all(&greeting(VERSION))?,
            Some(other) => {
                let line = format!(
                    "this scope server speaks version {VERSION} of its protocol, and you speak {other}\n"
                );
                return stream.write_all(line.as_bytes());
            }
            None => {
                return stream.write_all(
                    b"this is a scope server of Thalweg: `thalweg scope --server` speaks with it\n",
                );
            }
        }
        let Some((OPEN, body)) = take(&mut stream, REQUEST_BYTES_MAX)? else {
            return self.refuse(&mut stream, "a client's first request must name its view");
        };
        let opened = Ask::decode(&body).map_err(|damaged| damaged.to_string()).and_then(|ask| {
            let opened = self.scopes.open(&ask, &self.space, self.options.waiting_bytes_max);
            opened.map_err(|error| format!("{error:#}"))
        });
        let mut scope = match opened {
            Ok(scope) => {
                put(&mut stream, OPEN, scope.view().name.as_bytes())?;
                scope
            }
            Err(why) => return self.refuse(&mut stream, &why),
        };
        // A client may wait any time between requests.
        stream.set_read_timeout(None)?;
        self.pulls(&mut stream, &mut scope)
    }

    fn pulls(&self, stream: &mut UnixStream, scope: &mut Scope) -> io::Result<()> {
        let mut sent = [1; 3];
        let mut pace = Pace { second: Instant::now(), count: 0 };
        loop {
            let request = match take(stream, REQUEST_BYTES_MAX) {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return self.refuse(stream, &error.to_string());
                }
                Err(error) => return Err(error),
            };
            let most = self.options.requests_per_s;
            if pace.is_too_fast(most) {
                return self.refuse(stream, &format!("more than {most} requests in a second"));
            }
            let how = match request {
                (PULL, body) => how(&body),
                _ => return self.refuse(stream, "the request has an unknown type"),
            };
            let how = match how {
                Ok(how) => how,
                Err(damaged) => return self.refuse(stream, &damaged.to_string()),
            };
            // A client that requests pulls more often than the limit of processor time allows waits before
            // its pull.
            let wait = locked(&self.price).wait();
            std::thread::sleep(wait);
            let pulled = match how {
                None => scope.pull(),
                Some(Pull::Since) => scope.pull_since(),
                Some(Pull::Latest) => scope.pull_latest(),
            };
            locked(&self.price).pay(pulled.cost_ns);
            let answer = encode(&pulled, &mut sent);
            put(stream, PULL, &answer)?;
            self.served.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn refuse(&self, stream: &mut UnixStream, why: &str) -> io::Result<()> {
        self.refused.fetch_add(1, Ordering::Relaxed);
        put(stream, ERROR, why.as_bytes())
    }
}
