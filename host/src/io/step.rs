//! One step of a source: a record, input that is no record, or the reason why there is nothing.

use thalweg_net::record::Record;

use super::place::Raw;

/// One step of a source.
pub(crate) enum Next {
    /// A record for the network.
    Record(Record),
    /// Something that is not a record.
    Malformed(Malformed),
    /// Nothing yet: the source should wait.
    Pending,
    /// The input is at its end, or the run should end.
    End,
}

/// Something that is not a record.
pub(crate) struct Malformed {
    /// Where it stands and what is wrong with it.
    pub(crate) what: String,
    pub(crate) lost: Lost,
}

/// The bytes of the input that do not enter, for a dead letter.
pub(crate) enum Lost {
    /// These bytes.
    Raw(Raw),
    /// A record.
    Record(Record),
    /// Nothing, or it is not wanted.
    Nothing,
}

impl Next {
    /// Input that is not a record, of which no bytes are kept.
    pub(crate) fn malformed(what: String) -> Next {
        Next::Malformed(Malformed { what, lost: Lost::Nothing })
    }
}
