//! Commands: what an observer asks of the process once, with an answer. Not settings: a call, a move, a reload.
//!
//! The mailbox is a file of slots. A sender, in another process, holds a lock (`flock`) while it fills a free slot, and
//! says *sent* last; so a sender that is killed leaves nothing, or a whole command. The receiver takes the commands in
//! their order and answers in the slot. The sender, or a later one if it is dead, frees the slot.
//!
//! ```
//! use std::time::Duration;
//! use thalweg_space::{Answer, Command, Space, SpaceOptions, reader::SpaceReader};
//! # let parent = std::env::temp_dir().join(format!("thalweg-mail-{}", std::process::id()));
//! # std::fs::create_dir_all(&parent).unwrap();
//! # let options = SpaceOptions { name: "mail".into(), parent: Some(parent.clone()), ..Default::default() };
//!
//! let space = Space::create(options)?;
//! let mut mailbox = space.mailbox()?;
//!
//! // Usually in another process:
//! let sent = SpaceReader::open(space.path())?.send(&Command::new("task 7", "move").with("worker 1"))?;
//!
//! // At a safe point:
//! if let Some(received) = mailbox.poll()? {
//!     assert_eq!(received.command().arguments, ["worker 1"]);
//!     received.done_with_inverse("moved", &Command::new("task 7", "move").with("worker 0"))?;
//! }
//!
//! // In the other process again:
//! let Answer::Done { result, inverse } = sent.wait(Duration::from_secs(1))? else { panic!() };
//! assert_eq!((result.as_str(), inverse.unwrap().arguments[0].as_str()), ("moved", "worker 0"));
//! # std::fs::remove_dir_all(parent).unwrap();
//! # Ok::<(), thalweg_space::Error>(())
//! ```

use crate::audit::{CommandAdopted, CommandAnswered};
use crate::catalog::{Decoder, Encoder};
use crate::error::Error;
use crate::kind::Fnv;
use crate::layout::{VERSION, mailbox as layout};
use crate::map::{Fork, Map};
use crate::space::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// What it is for: a task, a worker, a box.
    pub target: String,
    /// What is to be done.
    pub name: String,
    /// With what.
    pub arguments: Vec<String>,
}

impl Command {
    /// A command without arguments.
    pub fn new(target: impl Into<String>, name: impl Into<String>) -> Command {
        Command { target: target.into(), name: name.into(), arguments: Vec::new() }
    }

    /// With one more argument.
    pub fn with(mut self, argument: impl Into<String>) -> Command {
        self.arguments.push(argument.into());
        self
    }

    fn encode(&self, out: &mut Encoder) {
        out.text(&self.target);
        out.text(&self.name);
        out.u32(self.arguments.len() as u32);
        for argument in &self.arguments {
            out.text(argument);
        }
    }

    fn decode(input: &mut Decoder<'_>) -> Option<Command> {
        Some(Command { target: input.text()?, name: input.text()?, arguments: input.list(Decoder::text)? })
    }
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done {
        /// What came of it.
        result: String,
        /// The command that takes it back, if there is one.
        inverse: Option<Command>,
    },
    /// It was not done.
    Failed {
        /// Why.
        why: String,
    },
}

impl Answer {
    fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        match self {
            Answer::Done { result, inverse } => {
                out.text(result);
                out.u32(u32::from(inverse.is_some()));
                if let Some(inverse) = inverse {
                    inverse.encode(&mut out);
                }
            }
            Answer::Failed { why } => out.text(why),
        }
        out.into_bytes()
    }

    fn decode(done: bool, bytes: &[u8]) -> Option<Answer> {
        let mut input = Decoder::new(bytes);
        if !done {
            return Some(Answer::Failed { why: input.text()? });
        }
        let result = input.text()?;
        let inverse = if input.u32()? == 0 { None } else { Some(Command::decode(&mut input)?) };
        Some(Answer::Done { result, inverse })
    }
}

/// Who sent a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The process.
    pub pid: u32,
    /// Its user.
    pub user: u32,
}

/// The words of a slot, as sender and receiver each see them. What is stored by `put` is seen by whoever then loads what was
/// stored by `store` after it.
pub(crate) trait Slot {
    /// Loads a word; acquire.
    fn load(&self, at: usize) -> u64;
    /// Stores a word; release.
    fn store(&self, at: usize, value: u64);
    /// Stores words.
    fn put(&self, at: usize, words: &[u64]);
    /// Loads words.
    fn get(&self, at: usize, count: usize) -> Vec<u64>;
}

/// Fills a free slot and says that it is sent. The caller holds the lock.
pub(crate) fn send(slot: &impl Slot, id: u64, sender: Sender, sender_start: u64, bytes: &[u8]) {
    slot.put(layout::COMMAND, &to_words(bytes));
    let who = u64::from(sender.pid) | u64::from(sender.user) << 32;
    slot.put(layout::ID, &[id, who, sender_start, bytes.len() as u64, hash(bytes), 0, 0]);
    slot.store(layout::STATE, layout::SENT);
}

/// Takes the command of a slot that was sent; an error if it is damaged.
fn receive(slot: &impl Slot) -> Result<(Command, Sender), String> {
    let words = slot.get(layout::ID, 5);
    let sender = Sender { pid: words[1] as u32, user: (words[1] >> 32) as u32 };
    let bytes = words[3] as usize;
    if bytes > layout::COMMAND_ROOM {
        return Err(format!("the command claims {bytes} bytes"));
    }
    let bytes = to_bytes(&slot.get(layout::COMMAND, bytes.div_ceil(8)), bytes);
    if hash(&bytes) != words[4] {
        return Err("the command's hash is wrong".to_string());
    }
    let command = Command::decode(&mut Decoder::new(&bytes)).ok_or("the command does not decode")?;
    Ok((command, sender))
}

/// Answers the command of a slot.
fn answer(slot: &impl Slot, answer: &Answer) {
    let mut bytes = answer.encode();
    if bytes.len() > layout::ANSWER_ROOM {
        let answer = match answer {
            Answer::Done { result, .. } => Answer::Done { result: cut(result), inverse: None },
            Answer::Failed { why } => Answer::Failed { why: cut(why) },
        };
        bytes = answer.encode();
    }
    slot.put(layout::ANSWER, &to_words(&bytes));
    slot.put(layout::ANSWER_BYTES, &[bytes.len() as u64]);
    let done = matches!(answer, Answer::Done { .. });
    slot.store(layout::STATE, if done { layout::DONE } else { layout::FAILED });
}

/// The answer in a slot, if there is one; an error if it is damaged.
pub(crate) fn answered(slot: &impl Slot) -> Result<Option<Answer>, String> {
    let state = slot.load(layout::STATE);
    if state != layout::DONE && state != layout::FAILED {
        return Ok(None);
    }
    let bytes = slot.get(layout::ANSWER_BYTES, 1)[0] as usize;
    if bytes > layout::ANSWER_ROOM {
        return Err(format!("the answer claims {bytes} bytes"));
    }
    let bytes = to_bytes(&slot.get(layout::ANSWER, bytes.div_ceil(8)), bytes);
    let answer = Answer::decode(state == layout::DONE, &bytes).ok_or("the answer does not decode")?;
    Ok(Some(answer))
}

/// A command's bytes; an error if they are too many.
pub(crate) fn encode(command: &Command) -> Result<Vec<u8>, Error> {
    let mut out = Encoder::default();
    command.encode(&mut out);
    let bytes = out.into_bytes();
    if bytes.len() > layout::COMMAND_ROOM {
        return Err(Error::new(format!(
            "command `{}` has {} bytes, and a mailbox takes up to {}: pass the name of a file instead",
            command.name,
            bytes.len(),
            layout::COMMAND_ROOM
        )));
    }
    Ok(bytes)
}

fn cut(text: &str) -> String {
    text.chars().take(layout::ANSWER_ROOM / 8).collect()
}

fn to_words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

fn to_bytes(words: &[u64], count: usize) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).take(count).collect()
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::new();
    hash.bytes(bytes);
    hash.0
}

/// The receiving end: one per space.
#[derive(Debug)]
pub struct Mailbox {
    map: Arc<Map>,
    shared: Arc<Shared>,
    /// How many commands were sent when the slots were looked at last and none was left.
    seen: u64,
    /// Polls since the slots were looked at.
    idle: u32,
}

/// After so many polls the slots are looked at anyway: a sender may be killed between sending and counting.
const IDLE_MAX: u32 = 256;

/// A slot in the receiver's map.
#[derive(Clone, Debug)]
struct Mapped {
    map: Arc<Map>,
    start: usize,
}

impl Slot for Mapped {
    fn load(&self, at: usize) -> u64 {
        u64::from_le(self.map.word(self.start + at).load(Ordering::Acquire))
    }

    fn store(&self, at: usize, value: u64) {
        self.map.word(self.start + at).store(value.to_le(), Ordering::Release);
    }

    fn put(&self, at: usize, words: &[u64]) {
        for (n, word) in words.iter().enumerate() {
            self.map.word(self.start + at + 8 * n).store(word.to_le(), Ordering::Relaxed);
        }
    }

    fn get(&self, at: usize, count: usize) -> Vec<u64> {
        let word = |n| u64::from_le(self.map.word(self.start + at + 8 * n).load(Ordering::Relaxed));
        (0..count).map(word).collect()
    }
}

impl Mailbox {
    pub(crate) fn create(shared: Arc<Shared>) -> Result<Mailbox, Error> {
        let bytes = layout::SLOTS + layout::SLOT_BYTES * layout::SLOT_COUNT;
        let map = Map::create(&shared.path.join("mailbox"), bytes, Fork::Wipe)?;
        map.word(8).store(u64::from(VERSION), Ordering::Relaxed);
        map.word(0).store(layout::MAGIC_VALUE, Ordering::Release);
        Ok(Mailbox { map: Arc::new(map), shared, seen: 0, idle: 0 })
    }

    /// The oldest command that was not taken yet; taking it is an event. Costs one load when there is none.
    ///
    /// # Errors
    /// When the event cannot be recorded.
    pub fn poll(&mut self) -> Result<Option<Received>, Error> {
        // Acquire, paired with the sender's release: a command that is counted is sent.
        let sent = self.map.word(layout::SENT_COUNT).load(Ordering::Acquire);
        self.idle += 1;
        if sent == self.seen && self.idle < IDLE_MAX {
            return Ok(None);
        }
        self.idle = 0;
        // Looked for twice: while the first look went over the slots, an older one may have come behind its back. Senders
        // come one after another, so the second look finds all that are older than what the first one found.
        while let Some((slot, id)) = self.oldest().and_then(|_| self.oldest()) {
            match receive(&slot) {
                Ok((command, sender)) => {
                    slot.store(layout::STATE, layout::ADOPTED);
                    let Command { target, name, arguments } = &command;
                    let arguments = &*arguments.join(" ");
                    let Sender { pid, user } = sender;
                    let adopted = CommandAdopted { command: id, pid, user, target, name, arguments };
                    self.shared.tell(&adopted)?;
                    let shared = self.shared.clone();
                    return Ok(Some(Received { slot, shared, id, command, sender, answered: false }));
                }
                Err(why) => answer(&slot, &Answer::Failed { why }),
            }
        }
        self.seen = sent;
        Ok(None)
    }

    fn oldest(&self) -> Option<(Mapped, u64)> {
        let slots = (0..layout::SLOT_COUNT)
            .map(|n| Mapped { map: self.map.clone(), start: layout::SLOTS + n * layout::SLOT_BYTES });
        let sent = slots.filter(|slot| slot.load(layout::STATE) == layout::SENT);
        sent.map(|slot| (slot.get(layout::ID, 1)[0], slot))
            .min_by_key(|(id, _)| *id)
            .map(|(id, slot)| (slot, id))
    }
}

/// A command that was taken. Dropping it without an answer is a failure, which the sender is told.
#[derive(Debug)]
pub struct Received {
    slot: Mapped,
    shared: Arc<Shared>,
    id: u64,
    command: Command,
    sender: Sender,
    answered: bool,
}

impl Received {
    /// What is asked.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// The command's number, as in its events.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Who asks.
    pub fn sender(&self) -> Sender {
        self.sender
    }

    /// It was done, and this came of it.
    ///
    /// # Errors
    /// When the event cannot be recorded; the sender has its answer all the same.
    pub fn done(mut self, result: &str) -> Result<(), Error> {
        self.answer(&Answer::Done { result: result.to_string(), inverse: None })
    }

    /// It was done, and `inverse` takes it back.
    ///
    /// # Errors
    /// As [`Received::done`].
    pub fn done_with_inverse(mut self, result: &str, inverse: &Command) -> Result<(), Error> {
        self.answer(&Answer::Done { result: result.to_string(), inverse: Some(inverse.clone()) })
    }

    /// It was not done.
    ///
    /// # Errors
    /// As [`Received::done`].
    pub fn failed(mut self, why: &str) -> Result<(), Error> {
        self.answer(&Answer::Failed { why: why.to_string() })
    }

    fn answer(&mut self, with: &Answer) -> Result<(), Error> {
        self.answered = true;
        answer(&self.slot, with);
        let (done, text) = match with {
            Answer::Done { result, .. } => (true, result),
            Answer::Failed { why } => (false, why),
        };
        self.shared.tell(&CommandAnswered { command: self.id, done, answer: text })
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if !self.answered {
            let why = "the process did not answer".to_string();
            // The sender is told; if the event cannot be recorded, there is nobody else to tell.
            let _ = self.answer(&Answer::Failed { why });
        }
    }
}

/// The slot's protocol under loom.
#[cfg(all(test, loom))]
mod loom_model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;

    /// The slot's header and two words each of command and answer.
    #[derive(Clone)]
    struct Model(Arc<Vec<AtomicU64>>);

    impl Model {
        fn word(&self, at: usize) -> &AtomicU64 {
            let place = match at {
                at if at < layout::COMMAND => at / 8,
                at if at < layout::ANSWER => 8 + (at - layout::COMMAND) / 8,
                at => 11 + (at - layout::ANSWER) / 8,
            };
            &self.0[place]
        }
    }

    impl Slot for Model {
        fn load(&self, at: usize) -> u64 {
            self.word(at).load(Ordering::Acquire)
        }
        fn store(&self, at: usize, value: u64) {
            self.word(at).store(value, Ordering::Release);
        }
        fn put(&self, at: usize, words: &[u64]) {
            for (n, word) in words.iter().enumerate() {
                self.word(at + 8 * n).store(*word, Ordering::Relaxed);
            }
        }
        fn get(&self, at: usize, count: usize) -> Vec<u64> {
            (0..count).map(|n| self.word(at + 8 * n).load(Ordering::Relaxed)).collect()
        }
    }

    #[test]
    fn a_command_and_its_answer_are_seen_whole_or_not_at_all() {
        loom::model(|| {
            let model = Model(Arc::new((0..16).map(|_| AtomicU64::new(0)).collect()));
            let receiver = model.clone();
            let receiving = loom::thread::spawn(move || {
                if receiver.load(layout::STATE) != layout::SENT {
                    return;
                }
                let (command, sender) = receive(&receiver).expect("a command that is sent is whole");
                assert_eq!((command, sender.pid), (Command::new("t", "n"), 7));
                answer(&receiver, &Answer::Failed { why: "no".into() });
            });
            let bytes = encode(&Command::new("t", "n")).unwrap();
            send(&model, 1, Sender { pid: 7, user: 8 }, 9, &bytes);
            if let Some(answer) = answered(&model).expect("an answer that is there is whole") {
                assert_eq!(answer, Answer::Failed { why: "no".into() });
            }
            receiving.join().unwrap();
        });
    }
}
