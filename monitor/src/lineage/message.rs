//! The identity of a message: its stream and its index in that stream.

use std::fmt;
use std::str::FromStr;

use crate::ids::StreamId;

/// A message, identified by stream and index. Streams lose nothing and keep order, so the k-th message
/// written is the k-th message read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId {
    /// The stream.
    pub stream: StreamId,
    /// Counted from 0.
    pub index: u64,
}

impl MessageId {
    /// The same message, with an id of its stream that leaves out the space.
    pub(crate) fn local(&self) -> MessageId {
        MessageId { stream: StreamId::of(self.stream.number), ..*self }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.stream, self.index)
    }
}

/// The error for a text that does not name a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAMessage(String);

impl fmt::Display for NotAMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` names no message: write STREAM:INDEX, such as 3:1042, the message with index 1042 of stream 3 (of a session SPACE/STREAM:INDEX, such as 2/3:1042)",
            self.0
        )
    }
}

impl std::error::Error for NotAMessage {}

impl FromStr for MessageId {
    type Err = NotAMessage;

    fn from_str(text: &str) -> Result<MessageId, NotAMessage> {
        let numbers = || {
            let (stream, index) = text.split_once(':')?;
            Some(MessageId { stream: stream.parse().ok()?, index: index.parse().ok()? })
        };
        numbers().ok_or_else(|| NotAMessage(text.to_owned()))
    }
}
