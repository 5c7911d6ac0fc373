//! The identity of a message: which stream, and the how-manieth in it.

use std::fmt;
use std::str::FromStr;

/// A message. Streams lose nothing and keep order, so the k-th written is the k-th read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    /// Id of the stream.
    pub stream: u64,
    /// Counted from 0.
    pub index: u64,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.stream, self.index)
    }
}

/// A text that names no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAMessage(String);

impl fmt::Display for NotAMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` names no message: write STREAM:INDEX, such as 3:1042, the message with index 1042 of stream 3",
            self.0
        )
    }
}

impl std::error::Error for NotAMessage {}

impl FromStr for Message {
    type Err = NotAMessage;

    fn from_str(text: &str) -> Result<Message, NotAMessage> {
        let numbers = || {
            let (stream, index) = text.split_once(':')?;
            Some(Message { stream: stream.parse().ok()?, index: index.parse().ok()? })
        };
        numbers().ok_or_else(|| NotAMessage(text.to_owned()))
    }
}
