//! The half of a tuner on a node: a process that the node starts, as it does for the parts of a network. The tuner asks
//! the half over its control connection to the node. Questions and answers are texts, which nothing here reads.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};
use thalweg_host::Error;

use crate::channel::{Channel, Refused, hex, random};
use crate::cluster::{Cluster, Known};
use crate::talk::Talk;

/// The name of the questions to a half.
pub(crate) const QUESTION: &str = "tune";
/// How long a node may be silent, except while it does what takes long.
const PATIENCE: Duration = Duration::from_secs(5);
/// The key of the text of a question, and of an answer.
const TEXT: &str = "text";

/// The control connection of a tuner to its half on a node. The half ends when this value is dropped.
pub struct Half(Talk);

impl Half {
    /// Connects to a node, which waits for a tuner that is silent, or whose connection broke, for the time of the
    /// lease.
    ///
    /// # Errors
    /// The node cannot be reached.
    pub fn connect(cluster: &Cluster, node: &Known, lease: Duration) -> Result<Half, Error> {
        let key = hex(&random::<16>().map_err(Error::run_of)?);
        let mut talk = Talk::connect(cluster, node, key)?;
        // While one node is silent, the leases of all others go on.
        talk.set_patience(PATIENCE.min(lease / 3)).map_err(Error::run_of)?;
        let lease = json!({ "lease_ms": lease.as_millis() as u64 });
        talk.ask("who", lease, &[])
            .map_err(|refused| Error::usage(format!("node {}: {}", node.name, refused.why)))?;
        Ok(Half(talk))
    }

    /// Asks the half; `is_long` says that the answer may take long. The node starts the half with the first question.
    ///
    /// # Errors
    /// The node refuses, the half has ended, or the node is lost; the text says why.
    pub fn ask(&mut self, question: &str, is_long: bool) -> Result<String, String> {
        let with = json!({ TEXT: question });
        let answer = match is_long {
            true => self.0.ask_long(QUESTION, with),
            false => self.0.ask(QUESTION, with, &[]).map(|(answer, _)| answer),
        };
        answer.map(|answer| text(&answer).to_owned()).map_err(|refused| refused.why)
    }
}

fn text(of: &Value) -> &str {
    of[TEXT].as_str().unwrap_or_default()
}

/// Is the half of a tuner on a node, which has started this process: passes questions on to `answer`, until the node has
/// closed the connection.
///
/// # Errors
/// This process was not started by a node.
pub fn serve_half(answer: &mut dyn FnMut(&str) -> Result<String, String>) -> Result<(), Error> {
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(Error::usage_of)?;
    let mut channel = Channel::private(UnixStream::from(socket));
    loop {
        let question = channel.receive().map_err(|error| {
            Error::usage("this command is started by `thalweg node`, for a tuner").because(error)
        })?;
        let Some((head, _)) = question else { return Ok(()) };
        let answered = answer(text(&head)).map(|answer| (json!({ TEXT: answer }), Vec::new()));
        if channel.answer(answered.map_err(Refused::new)).is_err() {
            return Ok(());
        }
    }
}
