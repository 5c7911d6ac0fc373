//! The client's side: a scope that runs in a server.

use super::protocol::{
    ANSWER_BYTES_MAX, Ask, ERROR, GREETING_BYTES, OPEN, PULL, VERSION, decode, greeted, greeting, put, take,
};
use crate::error::Error;
use crate::tree::Pulled;
use crate::tuple::Legend;
use crate::view::Pull;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

/// A scope in a server.
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
    stream: UnixStream,
    legend: Arc<Legend>,
}

impl Remote {
    /// Asks the server at `socket` for a view.
    ///
    /// # Errors
    /// There is no server, it is of another version or refuses, or the view or target is wrong.
    pub fn open(socket: &Path, ask: &Ask) -> Result<Remote, Error> {
        let refused = |error| {
            let what =
                format!("there is no scope server at {}: `thalweg serve` starts one", socket.display());
            Error::because(what, error)
        };
        let mut stream = UnixStream::connect(socket).map_err(refused)?;
        let mut answer = [0; GREETING_BYTES];
        // What cannot be written may have been refused, which the answer says.
        let _ = stream.write_all(&greeting(VERSION));
        let mut line = Vec::new();
        let read = Read::by_ref(&mut stream).take(GREETING_BYTES as u64).read_to_end(&mut line);
        // One that refuses may close before it has read the greeting: what it said comes all the same.
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
            let said = String::from_utf8_lossy(&line);
            return Err(Error::new(format!("the scope server refuses: {}", said.trim())));
        }
        let mut remote = Remote { stream, legend: Arc::default() };
        remote.ask(OPEN, &ask.encode())?;
        Ok(remote)
    }

    /// Pulls: as the view says, or otherwise.
    ///
    /// # Errors
    /// The server has ended or refuses.
    pub fn pull(&mut self, how: Option<Pull>) -> Result<Pulled, Error> {
        let how = match how {
            None => 0,
            Some(Pull::Since) => 1,
            Some(Pull::Latest) => 2,
        };
        let body = self.ask(PULL, &[how])?;
        decode(&body, &mut self.legend)
    }

    fn ask(&mut self, kind: u8, body: &[u8]) -> Result<Vec<u8>, Error> {
        let gone = |error| Error::because("the scope server has gone", error);
        let asked = put(&mut self.stream, kind, body);
        match take(&mut self.stream, ANSWER_BYTES_MAX).map_err(gone)? {
            Some((ERROR, text)) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                Err(Error::new(text))
            }
            Some((answered, body)) if answered == kind => Ok(body),
            Some(_) => Err(Error::new("the scope server answers what was not asked")),
            None => {
                asked.map_err(gone)?;
                Err(Error::new("the scope server has closed"))
            }
        }
    }
}
