//! The decisions of a tuner, as events of the run that it tunes: the tuner requests them by a command, so
//! that every view of the run shows them, and they are kept with all other events.

use thalweg_space::mailbox::Received;
use thalweg_space::{Command, ElementOptions, Kind, KindEnum, KindId, Policy, Space, Writer};

/// The element for decisions has space for about a hundred.
const ELEMENT: ElementOptions =
    ElementOptions { block_bytes: 16 << 10, block_count: 8, policy: Policy::Overwrite };
/// The most bytes of a text in a note; a note with a longer text is refused.
const TEXT_MAX: usize = 1200;

/// A tuner decided something about this run.
#[derive(Kind)]
#[kind(name = "tuner.decided")]
struct Decided<'a> {
    /// The decision's number.
    number: u64,
    /// What was decided.
    what: Verb,
    /// The expected gain: the part by which the goal was expected to become better; not a number if unknown.
    predicted: f64,
    /// The gain measured in the trial: the part by which the goal became better.
    gain: f64,
    /// The lower bound of the gain, with a confidence of 99 %.
    least: f64,
    /// The upper bound of the gain.
    most: f64,
    /// The number of pairs of windows that the trial compared.
    pairs: u32,
    /// The change that the tuner decided about, in words.
    change: &'a str,
    /// The settings' values that the change sets, as `NAME=VALUE`.
    values: &'a str,
    /// The settings' values that undo the change, as `NAME=VALUE`.
    back: &'a str,
    /// The model or rule that proposed the change.
    model: &'a str,
    /// The reason for the decision.
    why: &'a str,
}

/// What a tuner decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
#[repr(u8)]
enum Verb {
    /// The tuner began.
    Began = 0,
    /// The run's behaviour changed.
    Changed = 1,
    /// A change is tried.
    Tried = 2,
    /// A change was better, and stays.
    Kept = 3,
    /// A change was tried and undone.
    TakenBack = 4,
    /// A change that was kept at first was undone later.
    Undone = 5,
    /// Another process or user set or pinned a setting, so the tuner leaves it alone.
    Pinned = 6,
    /// A change would be tried if the tuner were allowed to.
    Advised = 7,
    /// The tuner ended.
    Ended = 8,
}

const VERBS: [(&str, Verb); 9] = [
    ("began", Verb::Began),
    ("changed", Verb::Changed),
    ("tried", Verb::Tried),
    ("kept", Verb::Kept),
    ("taken back", Verb::TakenBack),
    ("undone", Verb::Undone),
    ("pinned", Verb::Pinned),
    ("advised", Verb::Advised),
    ("ended", Verb::Ended),
];

/// Whether this command is a tuner's note about a decision.
pub(super) fn is_note(command: &Command) -> bool {
    command.target == "tuner" && command.name == "note"
}

/// Writes decisions of tuners as events.
#[derive(Debug)]
pub struct Notes {
    space: Space,
    /// The writer of notes. The writer is made for the first note, because most runs are not tuned.
    writer: Option<(Writer, KindId<Decided<'static>>)>,
}

impl Notes {
    /// The notes of a run, written into this space.
    pub fn new(space: &Space) -> Notes {
        Notes { space: space.clone(), writer: None }
    }

    /// Answers a command that is a note.
    pub(super) fn answer(&mut self, received: Received) -> Result<(), thalweg_space::Error> {
        match self.write(received.command()) {
            Ok(()) => received.done("noted"),
            Err(why) => received.failed(&why),
        }
    }

    fn write(&mut self, command: &Command) -> Result<(), String> {
        self.note(&command.arguments)
    }

    /// Writes a decision: its number, its verb, five figures and five texts, in the order of the arguments of
    /// the command `note`.
    ///
    /// # Errors
    /// The arguments do not have this form, or the space cannot hold another writer.
    pub fn note(&mut self, arguments: &[String]) -> Result<(), String> {
        let wrong = || "a note has a number, a verb, five figures and five texts".to_owned();
        let decided = read(arguments).ok_or_else(wrong)?;
        if self.writer.is_none() {
            let make = || {
                let mut writer = self.space.writer_with("tuner", ELEMENT)?;
                let kind = writer.declare()?;
                Ok((writer, kind))
            };
            self.writer = Some(make().map_err(|error: thalweg_space::Error| error.to_string())?);
        }
        if let Some((writer, kind)) = &mut self.writer {
            writer.emit(*kind, &decided);
        }
        Ok(())
    }
}

fn read(arguments: &[String]) -> Option<Decided<'_>> {
    let [number, what, predicted, gain, least, most, pairs, change, values, back, model, why] = arguments
    else {
        return None;
    };
    if [change, values, back, model, why].iter().any(|text| text.len() > TEXT_MAX) {
        return None;
    }
    Some(Decided {
        number: number.parse().ok()?,
        what: VERBS.iter().find(|(word, _)| word == what)?.1,
        predicted: predicted.parse().ok()?,
        gain: gain.parse().ok()?,
        least: least.parse().ok()?,
        most: most.parse().ok()?,
        pairs: pairs.parse().ok()?,
        change,
        values,
        back,
        model,
        why,
    })
}
