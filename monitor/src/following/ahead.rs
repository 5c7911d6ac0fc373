//! Reads and decodes events on one thread while another thread analyses earlier events.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use thalweg_space::Error;
use thalweg_space::reader::Feed;

use crate::composing::dispatch::Value;
use crate::decoding::events::Observation;
use crate::decoding::texts::Texts;
use crate::following::analysis::Analysis;
use crate::following::follower::Decoder;
use crate::monitor::wants;

/// The number of events in a batch: about half a millisecond of work, so that passing a batch between threads
/// costs little compared with its work.
const STEPS: usize = 2048;
/// The maximal number of batches that were read and not yet analysed.
const WAITING: usize = 4;

/// Receives decoded events.
pub(super) trait Decoded {
    /// Receives an event of `writer` at `time`.
    fn observe(&mut self, time: u64, writer: u64, observation: &Observation);
    /// Counts an event that no monitor wants.
    fn unknown_event(&mut self, time: u64, writer: u64);
    /// Records that `lost` events of `writer` are missing at this point.
    fn gap(&mut self, writer: u64, lost: u64);
    /// Records an event of `writer` whose kind no catalog describes.
    fn unknown_kind(&mut self, writer: u64);
    /// Returns the number of a kind that is not one of the runtime's, if some monitor wants this kind.
    fn kind(&mut self, name: &str, fields: Vec<String>) -> Option<u16>;
    /// Receives an event of a kind to which [`Decoded::kind`] gave a number, with all its values.
    fn other(&mut self, time: u64, writer: u64, kind: u16, values: impl Iterator<Item = Value>);
    /// Restarts the measurement at `time`.
    fn restart(&mut self, time: u64);
    /// The buffer into which the next event's texts are written.
    fn texts(&mut self) -> &mut Texts;
}

/// A call of [`Decoded`] that is still to be made.
enum Step {
    Observe { time: u64, writer: u64, observation: Observation },
    UnknownEvent { time: u64, writer: u64 },
    Gap { writer: u64, lost: u64 },
    UnknownKind { writer: u64 },
    Kind { name: String, fields: Vec<String> },
    Other { time: u64, writer: u64, kind: u16, values: Vec<Value> },
    Restart { time: u64 },
}

/// Decoded events of one space, in order of time, and their texts.
#[derive(Default)]
pub(super) struct Steps {
    steps: Vec<Step>,
    pub(super) texts: Texts,
}

impl Steps {
    /// Makes all buffered calls and empties the buffer. The texts must have been moved out before.
    pub(super) fn make(&mut self, into: &mut impl Decoded) {
        for step in self.steps.drain(..) {
            match step {
                Step::Observe { time, writer, observation } => into.observe(time, writer, &observation),
                Step::UnknownEvent { time, writer } => into.unknown_event(time, writer),
                Step::Gap { writer, lost } => into.gap(writer, lost),
                Step::UnknownKind { writer } => into.unknown_kind(writer),
                Step::Kind { name, fields } => drop(into.kind(&name, fields)),
                Step::Other { time, writer, kind, values } => {
                    into.other(time, writer, kind, values.into_iter());
                }
                Step::Restart { time } => into.restart(time),
            }
        }
    }
}

/// The kinds that an analysis on another thread wants, and the number that the analysis gives to the next
/// kind.
pub(super) struct Wanted {
    pub(super) names: Vec<String>,
    pub(super) next: u16,
}

/// Buffers a decoder's output until the analysis processes it.
struct Later {
    wanted: Wanted,
    taken: Steps,
}

impl Decoded for Later {
    #[inline]
    fn observe(&mut self, time: u64, writer: u64, observation: &Observation) {
        self.taken.steps.push(Step::Observe { time, writer, observation: *observation });
    }

    fn unknown_event(&mut self, time: u64, writer: u64) {
        self.taken.steps.push(Step::UnknownEvent { time, writer });
    }

    fn gap(&mut self, writer: u64, lost: u64) {
        self.taken.steps.push(Step::Gap { writer, lost });
    }

    fn unknown_kind(&mut self, writer: u64) {
        self.taken.steps.push(Step::UnknownKind { writer });
    }

    fn kind(&mut self, name: &str, fields: Vec<String>) -> Option<u16> {
        let names: Vec<&str> = self.wanted.names.iter().map(String::as_str).collect();
        if self.wanted.next == u16::MAX || !wants(&names, name) {
            return None;
        }
        self.taken.steps.push(Step::Kind { name: name.to_owned(), fields });
        self.wanted.next += 1;
        Some(self.wanted.next - 1)
    }

    fn other(&mut self, time: u64, writer: u64, kind: u16, values: impl Iterator<Item = Value>) {
        self.taken.steps.push(Step::Other { time, writer, kind, values: values.collect() });
    }

    fn restart(&mut self, time: u64) {
        self.taken.steps.push(Step::Restart { time });
    }

    fn texts(&mut self) -> &mut Texts {
        &mut self.taken.texts
    }
}

/// The reading thread's side: it sends decoded batches to the analyses and receives empty batches back.
struct Reading {
    spaces: Vec<Later>,
    batches: SyncSender<(usize, Steps)>,
    empty: Receiver<Steps>,
}

impl Reading {
    fn hand_over(&mut self, space: usize) {
        let empty = self.empty.try_recv().unwrap_or_default();
        let full = std::mem::replace(&mut self.spaces[space].taken, empty);
        // Sending fails only if the analysing thread panicked; the panic's message gives the reason.
        _ = self.batches.send((space, full));
    }
}

/// Reads a feed to its end as it is now, `limit` items at a time, on a separate thread; returns the number of
/// items read, and the error if reading stopped before the end. Each space has a decoder and an analysis.
pub(super) fn poll<F: Feed>(
    feed: &mut F,
    limit: usize,
    decoders: Vec<&mut Decoder>,
    mut analyses: Vec<&mut Analysis<'_>>,
) -> (u64, Result<(), Error>) {
    let (batches, to_analyse) = sync_channel(WAITING);
    let (give_back, empty) = channel();
    let later = |analysis: &&mut Analysis<'_>| Later { wanted: analysis.wanted(), taken: Steps::default() };
    let reading = Reading { spaces: analyses.iter().map(later).collect(), batches, empty };
    thread::scope(|scope| {
        let reader = scope.spawn(move || read(feed, limit, decoders, reading));
        analyse(&to_analyse, &mut analyses, &give_back);
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn read<F: Feed>(
    feed: &mut F,
    limit: usize,
    mut decoders: Vec<&mut Decoder>,
    mut reading: Reading,
) -> (u64, Result<(), Error>) {
    let mut taken = 0;
    let outcome = loop {
        let polled = feed.poll(limit, &mut |space, item| {
            let later = &mut reading.spaces[space];
            decoders[space].feed(&item, later);
            if later.taken.steps.len() >= STEPS {
                reading.hand_over(space);
            }
        });
        match polled {
            Ok(count) => taken += count as u64,
            Err(error) => break Err(error),
        }
        if polled.is_ok_and(|count| count < limit) {
            break Ok(());
        }
    };
    (0..reading.spaces.len()).for_each(|space| reading.hand_over(space));
    (taken, outcome)
}

fn analyse(
    batches: &Receiver<(usize, Steps)>,
    analyses: &mut [&mut Analysis<'_>],
    give_back: &Sender<Steps>,
) {
    for (space, mut steps) in batches {
        analyses[space].take_steps(&mut steps);
        _ = give_back.send(steps);
    }
}
