//! The result of asking a source for the next record: a record, input that is no record, or the reason why
//! there is neither.

use thalweg_net::record::Record;

use super::place::Raw;

/// The result of asking a source for the next record.
pub(crate) enum Next {
    /// A record for the network.
    Record(Record),
    /// Input that is no record.
    Malformed(Malformed),
    /// There is no input yet, so the caller should wait.
    Pending,
    /// The input is at its end, or the run should end.
    End,
}

/// Input that is no record.
pub(crate) struct Malformed {
    /// A message with the place of the input, and what is wrong with it.
    pub(crate) what: String,
    pub(crate) lost: Lost,
}

/// The bytes of the input that do not enter the network, for a dead letter.
pub(crate) enum Lost {
    /// These bytes.
    Raw(Raw),
    /// A record.
    Record(Record),
    /// No bytes were lost, or the lost bytes are not kept.
    Nothing,
}

impl Next {
    /// Input that is no record and whose bytes are not kept.
    pub(crate) fn malformed(what: String) -> Next {
        Next::Malformed(Malformed { what, lost: Lost::Nothing })
    }
}
