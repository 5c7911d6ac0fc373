//! One step of a source: a record, something that is none, or why there is nothing.

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

/// What of the input does not enter, for a dead letter.
pub(crate) enum Lost {
    /// These bytes.
    Raw(Raw),
    /// A record.
    Record(Record),
    /// Nothing, or nobody wants it.
    Nothing,
}

impl Next {
    /// Something that is not a record and of which there is nothing to be kept.
    pub(crate) fn malformed(what: String) -> Next {
        Next::Malformed(Malformed { what, lost: Lost::Nothing })
    }
}
