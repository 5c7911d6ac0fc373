//! The client's side: a scope that runs in a server.

use super::protocol::{
    ANSWER_BYTES_MAX, Ask, ERROR, GREETING_BYTES, OPEN, PULL, VERSION, decode, greeted, greeting, put, take,
};
use super::taken::Taken;
use crate::error::Error;
use crate::tree::{Backlog, Pulled};
use crate::tuple::Legend;
use crate::view::{Pull, View};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A client of a scope that runs in a server.
///
/// If the server ends and another one listens at its socket, the next pull continues there. Each event of an
/// element is then returned once or counted in a gap, whichever server read it. Tuples that a view makes,
/// such as sums, miss the events between the two servers, and the pull reports that.
///
/// ```no_run
/// use thalweg_scope::{Ask, Backlog, Remote, Target, built_in, default_socket};
///
/// let view = built_in()[0].text.to_owned();
/// let ask = Ask { view, target: Target::of("run"), backlog: Backlog::All };
/// let mut remote = Remote::open(&default_socket()?, &ask)?;
/// println!("{} tuples", remote.pull(None)?.batch.len());
/// # Ok::<(), thalweg_scope::Error>(())
/// ```
#[derive(Debug)]
pub struct Remote {
    socket: PathBuf,
    asked: Ask,
    /// The time from which on tuples were requested, in nanoseconds since 1970.
    since_ns: u64,
    /// Whether all tuples are made by the view.
    is_made: bool,
    /// The connection; `None` if the server has ended.
    stream: Option<UnixStream>,
    legend: Arc<Legend>,
    taken: Taken,
}

impl Remote {
    /// Requests a view from the server at `socket`.
    ///
    /// # Errors
    /// When there is no server, it has another version or refuses, or the view or the target is invalid.
    pub fn open(socket: &Path, ask: &Ask) -> Result<Remote, Error> {
        let is_made = View::read(&ask.view).is_ok_and(|view| view.is_made());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = match ask.backlog {
            Backlog::All => Duration::ZERO,
            Backlog::Last(span) => now.saturating_sub(span),
            Backlog::Nothing => now,
        };
        let stream = Some(Remote::connect(socket, ask)?);
        Ok(Remote {
            socket: socket.to_path_buf(),
            asked: ask.clone(),
            since_ns: since.as_nanos() as u64,
            is_made,
            stream,
            legend: Arc::default(),
            taken: Taken::default(),
        })
    }

    /// Sends the greeting and requests the view.
    fn connect(socket: &Path, ask: &Ask) -> Result<UnixStream, Error> {
        let refused = |error| {
            let what =
                format!("there is no scope server at {}: `thalweg serve` starts one", socket.display());
            Error::because(what, error)
        };
        let mut stream = UnixStream::connect(socket).map_err(refused)?;
        let mut answer = [0; GREETING_BYTES];
        // The error is ignored: a server that refuses may have closed the connection, and its answer states
        // the reason.
        let _ = stream.write_all(&greeting(VERSION));
        let mut line = Vec::new();
        let read = Read::by_ref(&mut stream).take(GREETING_BYTES as u64).read_to_end(&mut line);
        // A server that refuses may close before it has read the greeting; its answer can be read
        // nevertheless.
        if let Err(error) = read
            && line.is_empty()
        {
            return Err(Error::because("the scope server does not answer", error));
        }
        if line.len() == GREETING_BYTES {
            answer.copy_from_slice(&line);
        }
        if greeted(&answer) != Some(VERSION) {
            let _ = stream.take(1000).read_to_end(&mut line);
            let reason = String::from_utf8_lossy(&line);
            return Err(Error::new(format!("the scope server refuses: {}", reason.trim())));
        }
        exchange(&mut stream, OPEN, &ask.encode()).map_err(Gone::into_error)?;
        Ok(stream)
    }

    /// Pulls in the way that `how` names; `None`: as the view states.
    ///
    /// # Errors
    /// When the server has ended or refuses. After the server's end, the next pull looks for another server.
    pub fn pull(&mut self, how: Option<Pull>) -> Result<Pulled, Error> {
        let is_latest = how == Some(Pull::Latest);
        let code = match how {
            None => 0,
            Some(Pull::Since) => 1,
            Some(Pull::Latest) => 2,
        };
        let mut is_anew = false;
        let body = loop {
            let Some(stream) = &mut self.stream else {
                self.go_on()?;
                is_anew = true;
                continue;
            };
            match exchange(stream, PULL, &[code]) {
                Ok(body) => break body,
                Err(Gone { error, is_closed }) => {
                    self.stream = None;
                    if !is_closed || is_anew || self.go_on().is_err() {
                        return Err(error);
                    }
                    is_anew = true;
                }
            }
        };
        let mut pulled = decode(&body, &mut self.legend)?;
        if !is_latest {
            let spared = self.taken.take(&mut pulled.batch);
            pulled.lost = pulled.lost.saturating_sub(spared);
        }
        if is_anew && self.is_made {
            let text = "the scope server was restarted: this view lacks the events in between";
            pulled.problems.push(text.to_owned());
        }
        Ok(pulled)
    }

    /// Requests the same view from a server that was started after the former one ended. The client leaves
    /// out the part of the backlog that it received before.
    fn go_on(&mut self) -> Result<(), Error> {
        let backlog = if self.is_made { Backlog::Nothing } else { Backlog::All };
        self.stream = Some(Remote::connect(&self.socket, &Ask { backlog, ..self.asked.clone() })?);
        self.taken.begin_anew(&self.legend, self.since_ns);
        self.legend = Arc::default();
        Ok(())
    }
}

/// A request that failed.
struct Gone {
    error: Error,
    /// Whether the server has ended, and did not refuse.
    is_closed: bool,
}

impl Gone {
    fn into_error(self) -> Error {
        self.error
    }
}

fn exchange(stream: &mut UnixStream, kind: u8, body: &[u8]) -> Result<Vec<u8>, Gone> {
    let gone = |error| Gone { error: Error::because("the scope server has ended", error), is_closed: true };
    let refused = |error| Gone { error, is_closed: false };
    let asked = put(stream, kind, body);
    match take(stream, ANSWER_BYTES_MAX).map_err(gone)? {
        Some((ERROR, text)) => Err(refused(Error::new(String::from_utf8_lossy(&text).into_owned()))),
        Some((answered, body)) if answered == kind => Ok(body),
        Some(_) => Err(refused(Error::new("the scope server's answer does not belong to the request"))),
        None => {
            asked.map_err(gone)?;
            Err(Gone { error: Error::new("the scope server has closed"), is_closed: true })
        }
    }
}
