//! Which message of a stream each message of a link is. Both ends record that, so a story goes on in the other
//! process.

use thalweg_exec::Context;
use thalweg_space::{Kind, KindEnum};

/// The direction in which records travel at an end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
pub(crate) enum Way {
    /// Records leave this process.
    Out = 0,
    /// Records enter this process.
    In = 1,
}

/// From this message on, messages of a link and of a stream correspond one by one. Recorded at the first
/// message, and whenever another message of the stream follows than the next one.
#[derive(Debug, Kind)]
#[kind(name = "net.joint")]
struct Joint {
    /// The task at this end of the link.
    task: u64,
    /// The link's number in its session.
    link: u64,
    /// The direction in which records travel.
    way: Way,
    /// The number of the message in the link, from 0.
    number: u64,
    /// The stream.
    stream: u64,
    /// The number of the message in the stream, from 0.
    index: u64,
}

/// An end of a link as the task at this end sees it.
#[derive(Debug)]
pub(crate) struct Passage {
    /// `None`: the link has no number.
    link: Option<u64>,
    way: Way,
    /// The number of the next message in the link.
    number: u64,
    /// The message of a stream that corresponds to it if nothing is recorded.
    next: Option<(u64, u64)>,
}

impl Passage {
    pub(crate) fn new(link: Option<u64>, way: Way) -> Passage {
        Passage { link, way, number: 0, next: None }
    }

    /// The next message of the link is this one of a stream.
    #[inline]
    pub(crate) fn pass(&mut self, cx: &mut Context<'_>, stream: u64, index: u64) {
        if self.next != Some((stream, index)) {
            self.record(cx, stream, index);
        }
        self.next = Some((stream, index + 1));
        self.number += 1;
    }

    /// The next message of the link corresponds to none of a stream.
    pub(crate) fn skip(&mut self) {
        self.number += 1;
        self.next = None;
    }

    #[cold]
    fn record(&self, cx: &mut Context<'_>, stream: u64, index: u64) {
        let (task, way, number) = (cx.task_id().0, self.way, self.number);
        let (Some(link), Some(writer)) = (self.link, cx.writer()) else { return };
        // If the catalog cannot be written any more, the space has reported so.
        if let Ok(kind) = writer.declare::<Joint>() {
            writer.emit(kind, &Joint { task, link, way, number, stream, index });
        }
    }
}
