//! Commands: requests of an observer that the process carries out once and answers, such as a call, a move or
//! a reload.
//!
//! The mailbox is a file of slots. A sender, in another process, holds a lock (`flock`) while it fills a free
//! slot, and marks the slot as *sent* last. So a sender that is killed leaves either no command or a complete
//! one. The receiver carries out the commands in the order in which they were sent, and answers in the slot.
//! The sender frees the slot; if the sender is dead, a later sender frees it.
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

use crate::audit::{CommandAdopted, CommandAnswered, CommandLeaseEnded, CommandLeased};
use crate::catalog::{Decoder, Encoder};
use crate::cell::{NO_TIME, printable};
use crate::error::Error;
use crate::kind::Fnv;
use crate::layout::{VERSION, mailbox as layout};
use crate::lease::{LeaseEnd, Terms, now_ns};
use crate::map::{Fork, Map};
use crate::shared::Shared;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A command: its target, name and arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The target: a task, a worker, a box.
    pub target: String,
    /// The name of the command.
    pub name: String,
    /// The arguments of the command.
    pub arguments: Vec<String>,
}

impl Command {
    /// A command without arguments.
    pub fn new(target: impl Into<String>, name: impl Into<String>) -> Command {
        Command { target: target.into(), name: name.into(), arguments: Vec::new() }
    }

    /// Adds an argument.
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

/// The target of a command to a lease begins with this word, before the lease's number; the commands' names
/// are `RENEW` and `CONFIRM`.
const LEASE: &str = "lease ";
pub(crate) const RENEW: &str = "renew";
pub(crate) const CONFIRM: &str = "confirm";
pub(crate) const GIVE_BACK: &str = "give back";

/// The target for commands that renew, confirm or give back the lease of the command with this id.
pub(crate) fn lease_target(id: u64) -> String {
    format!("{LEASE}{id}")
}

/// A command with the name of the tool that sends it and the terms of its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) command: Command,
    pub(crate) tool: String,
    pub(crate) terms: Option<Terms>,
}

impl Letter {
    fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        self.command.encode(&mut out);
        out.text(&self.tool);
        let while_alive = self.terms.is_some_and(|terms| terms.ends_with_its_holder());
        out.u32(u32::from(self.terms.is_some()) | u32::from(while_alive) << 1);
        out.u64(self.terms.map_or(NO_TIME, |terms| terms.lasts_ns()));
        out.into_bytes()
    }

    /// Decodes a letter: a command, its sender's tool, and the terms of its lease. A letter of a former build
    /// has only the command.
    fn decode(bytes: &[u8]) -> Option<Letter> {
        let mut input = Decoder::new(bytes);
        let command = Command::decode(&mut input)?;
        if input.is_empty() {
            return Some(Letter { command, tool: String::new(), terms: None });
        }
        let tool = printable(&input.text()?);
        let (flags, lasts_ns) = (input.u32()?, input.u64()?);
        let terms = (flags & 1 != 0).then(|| Terms::of_words(lasts_ns, flags & 2 != 0));
        Some(Letter { command, tool, terms })
    }
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The command was carried out.
    Done {
        /// The result, as text.
        result: String,
        /// The command that reverts the command that was carried out, if there is one.
        inverse: Option<Command>,
    },
    /// The command was not carried out.
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

/// The sender of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The process.
    pub pid: u32,
    /// The user id of the process.
    pub user: u32,
}

/// Access to the words of a slot, which sender and receiver implement differently. A thread that loads a word
/// stored by `store` then sees everything that `put` stored before.
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

/// Fills a free slot and marks it as sent. The caller holds the lock.
pub(crate) fn send(slot: &impl Slot, id: u64, sender: Sender, sender_start: u64, bytes: &[u8]) {
    slot.put(layout::COMMAND, &to_words(bytes));
    let sender_ids = u64::from(sender.pid) | u64::from(sender.user) << 32;
    slot.put(layout::ID, &[id, sender_ids, sender_start, bytes.len() as u64, hash(bytes), 0, 0]);
    slot.store(layout::STATE, layout::SENT);
}

/// Reads the command of a slot that was sent; an error if the slot is damaged.
fn receive(slot: &impl Slot) -> Result<(Letter, Holder), String> {
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
    let letter = Letter::decode(&bytes).ok_or("the command does not decode")?;
    Ok((letter, Holder { sender, start: words[2] }))
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

/// The answer in a slot, if there is one; an error if the slot is damaged.
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

/// Encodes a command with its tool and the terms of its lease; an error if the bytes do not fit into a slot.
pub(crate) fn encode(letter: &Letter) -> Result<Vec<u8>, Error> {
    let bytes = letter.encode();
    if bytes.len() > layout::COMMAND_ROOM {
        return Err(Error::new(format!(
            "command `{}` has {} bytes, and a mailbox takes up to {}: pass the name of a file instead",
            letter.command.name,
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

/// A process that sent a command.
#[derive(Clone, Copy, Debug)]
struct Holder {
    sender: Sender,
    /// When it started.
    start: u64,
}

/// The receiving end of a space's commands; a space has at most one.
#[derive(Debug)]
pub struct Mailbox {
    map: Arc<Map>,
    /// The mailbox's file, for the lock.
    file: File,
    shared: Arc<Shared>,
    /// How many commands had been sent when the slots were last searched and none was left.
    seen: u64,
    /// The commands that can have a lease, see [`Mailbox::reversible`].
    reversible: Groups,
    leases: Arc<Leases>,
}

/// Groups of names of commands.
type Groups = &'static [&'static [&'static str]];

/// A command that was carried out under a lease.
#[derive(Debug)]
struct Held {
    /// The command's number.
    id: u64,
    /// The command's target and group.
    subject: (String, usize),
    /// The command that reverts all commands to this subject since the last one without a lease.
    undo: Command,
    holder: Holder,
    tool: String,
    terms: Terms,
    until: u64,
    /// Whether the holder gave the lease back.
    is_given_back: bool,
}

impl Held {
    /// Why the lease is over; `None` while it lasts.
    fn due(&self) -> Option<LeaseEnd> {
        let Holder { sender, start } = self.holder;
        if self.is_given_back {
            Some(LeaseEnd::GivenBack)
        } else if now_ns() >= self.until {
            Some(LeaseEnd::Expired)
        } else {
            let ends = self.terms.ends_with_its_holder() && !crate::process::is_alive(sender.pid, start);
            ends.then_some(LeaseEnd::HolderDied)
        }
    }
}

/// The leases of commands.
#[derive(Debug, Default)]
struct Leases {
    held: Mutex<Vec<Held>>,
    /// The number of leases; changed under the lock.
    count: AtomicUsize,
}

impl Leases {
    /// Runs `work` on the leases under the lock.
    fn with<R>(&self, work: impl FnOnce(&mut Vec<Held>) -> R) -> R {
        let mut held: MutexGuard<'_, Vec<Held>> = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut held);
        self.count.store(held.len(), Ordering::Relaxed);
        result
    }

    /// Removes a lease that is over, and returns it with the reason.
    fn take_due(&self) -> Option<(Held, LeaseEnd)> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.with(|held| {
            let (at, why) = held.iter().enumerate().find_map(|(at, held)| Some((at, held.due()?)))?;
            Some((held.swap_remove(at), why))
        })
    }
}

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
        let path = shared.identity.path.join("mailbox");
        let map = Map::create(&path, bytes, Fork::Wipe)?;
        map.word(8).store(u64::from(VERSION), Ordering::Relaxed);
        map.word(0).store(layout::MAGIC_VALUE, Ordering::Release);
        let file = crate::file::open_to_read(&path).map_err(|e| Error::io("open", &path, e))?;
        Ok(Mailbox { map: Arc::new(map), file, shared, seen: 0, reversible: &[], leases: Arc::default() })
    }

    /// Accepts [leases](crate::lease) of these commands. The answer to each of these commands has an inverse,
    /// or the command changed nothing. Commands of one group affect the same state, as pause and resume do:
    /// each replaces the lease of another one with the same target. Commands that are not named here have no
    /// leases.
    #[must_use]
    pub fn reversible(mut self, groups: Groups) -> Mailbox {
        self.reversible = groups;
        self
    }

    /// Receives the oldest command that is still waiting, and records that as an event. When the lease of a
    /// command is over, the command's inverse is received next, with the same number; no sender waits for the
    /// inverse's answer. Costs two loads when no command is waiting.
    ///
    /// # Errors
    /// When the event cannot be recorded.
    pub fn poll(&mut self) -> Result<Option<Received>, Error> {
        if let Some((held, why)) = self.leases.take_due() {
            return self.take_back(held, why).map(Some);
        }
        // Acquire, paired with the sender's release: a command that is counted was marked as sent before.
        let sent = u64::from_le(self.map.word(layout::SENT_COUNT).load(Ordering::Acquire));
        if sent == self.seen {
            return Ok(None);
        }
        loop {
            // The slots are searched twice: during the first search an older command may have come into a
            // slot that was searched already. Senders hold a lock, so the second search finds all commands
            // that are older than the one that the first search found.
            while let Some((slot, id)) = self.oldest().and_then(|_| self.oldest()) {
                let received = match receive(&slot) {
                    Ok((letter, holder)) => self.take(slot, id, letter, holder)?,
                    Err(why) => {
                        answer(&slot, &Answer::Failed { why });
                        continue;
                    }
                };
                if let Some(received) = self.answer_about_leases(received)? {
                    return Ok(Some(received));
                }
            }
            if sent & 1 == 0 {
                self.seen = sent;
                return Ok(None);
            }
            // A sender is writing, or was killed before it had counted its command.
            if self.file.try_lock().is_err() {
                return Ok(None);
            }
            let count = self.map.word(layout::SENT_COUNT);
            let sent = u64::from_le(count.load(Ordering::Relaxed));
            let even = sent.next_multiple_of(2);
            count.store(even.to_le(), Ordering::Release);
            let unlocked = self.file.unlock();
            unlocked.map_err(|e| Error::io("unlock", &self.shared.identity.path.join("mailbox"), e))?;
            if self.oldest().is_none() {
                self.seen = even;
                return Ok(None);
            }
        }
    }

    fn take(&self, slot: Mapped, id: u64, letter: Letter, holder: Holder) -> Result<Received, Error> {
        slot.store(layout::STATE, layout::ADOPTED);
        self.received(Some(slot), id, letter, holder)
    }

    fn received(
        &self,
        slot: Option<Mapped>,
        id: u64,
        letter: Letter,
        holder: Holder,
    ) -> Result<Received, Error> {
        let Command { target, name, arguments } = &letter.command;
        let arguments = &*arguments.join(" ");
        let Sender { pid, user } = holder.sender;
        let tool = &letter.tool;
        let adopted = CommandAdopted { command: id, pid, user, target, name, arguments, tool };
        self.shared.record(&adopted)?;
        let group = self.reversible.iter().position(|group| group.contains(&name.as_str()));
        let (shared, leases) = (self.shared.clone(), self.leases.clone());
        Ok(Received { slot, shared, leases, group, id, letter, holder, answered: false })
    }

    /// Makes a received command from the inverse of a command whose lease has ended.
    fn take_back(&self, held: Held, why: LeaseEnd) -> Result<Received, Error> {
        record_ended(&self.shared, &held, why)?;
        let pid = std::process::id();
        let sender = Sender { pid, user: crate::process::user() };
        let holder = Holder { sender, start: self.shared.identity.process_start };
        let letter = Letter { command: held.undo, tool: held.tool, terms: None };
        self.received(None, held.id, letter, holder)
    }

    /// Answers commands to leases, and commands that request a lease and cannot have one; returns any other
    /// command.
    fn answer_about_leases(&self, received: Received) -> Result<Option<Received>, Error> {
        let Command { target, name, .. } = &received.letter.command;
        let Some(id) = target.strip_prefix(LEASE) else {
            if received.letter.terms.is_none() || received.group.is_some() {
                return Ok(Some(received));
            }
            let have: Vec<_> = self.reversible.iter().copied().flatten().copied().collect();
            let others = if have.is_empty() { "no command here".to_string() } else { have.join(", ") };
            let why = format!("`{name}` has no lease, because no command reverts it: {others} can have one");
            return received.failed(&why).map(|()| None);
        };
        let (id, pid, name) = (id.parse().ok(), received.holder.sender.pid, name.clone());
        let done = self.leases.with(|held| {
            let at = held.iter().position(|held| Some(held.id) == id && held.holder.sender.pid == pid)?;
            let lease = &mut held[at];
            match name.as_str() {
                RENEW => lease.until = lease.terms.until(),
                GIVE_BACK => lease.is_given_back = true,
                CONFIRM => return Some(Some(held.swap_remove(at))),
                _ => return None,
            }
            Some(None)
        });
        match done {
            None => {
                let why = format!("the {target} is over, or is of another process");
                received.failed(&why)?;
            }
            Some(confirmed) => {
                if let Some(held) = confirmed {
                    record_ended(&self.shared, &held, LeaseEnd::Confirmed)?;
                }
                received.done(&name)?;
            }
        }
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

/// A command that was received. If a received command is dropped without an answer, the sender gets a failure
/// as the answer.
#[derive(Debug)]
pub struct Received {
    /// `None`: the command is the inverse of another one, and no sender waits for its answer.
    slot: Option<Mapped>,
    shared: Arc<Shared>,
    leases: Arc<Leases>,
    /// The index of the command's group among the groups of commands that may have leases; `None` if the
    /// command has no group.
    group: Option<usize>,
    id: u64,
    letter: Letter,
    holder: Holder,
    answered: bool,
}

fn record_ended(shared: &Shared, held: &Held, why: LeaseEnd) -> Result<(), Error> {
    let Sender { pid, user } = held.holder.sender;
    shared.record(&CommandLeaseEnded { command: held.id, why, pid, user, tool: &held.tool })
}

impl Received {
    /// The command that was received.
    pub fn command(&self) -> &Command {
        &self.letter.command
    }

    /// The command's number, as in its events.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The process that sent the command. The sender of an inverse after the end of a lease is this process.
    pub fn sender(&self) -> Sender {
        self.holder.sender
    }

    /// The name of the tool that sent the command; empty if it gave none.
    pub fn tool(&self) -> &str {
        &self.letter.tool
    }

    /// The terms of the command's lease; `None` if it has none.
    pub fn terms(&self) -> Option<Terms> {
        self.letter.terms
    }

    /// Answers that the command was carried out, with this result.
    ///
    /// # Errors
    /// When the event cannot be recorded; the sender has its answer all the same.
    pub fn done(mut self, result: &str) -> Result<(), Error> {
        self.answer(&Answer::Done { result: result.to_string(), inverse: None })
    }

    /// Answers that the command was carried out, and that `inverse` reverts it.
    ///
    /// # Errors
    /// As [`Received::done`].
    pub fn done_with_inverse(mut self, result: &str, inverse: &Command) -> Result<(), Error> {
        self.answer(&Answer::Done { result: result.to_string(), inverse: Some(inverse.clone()) })
    }

    /// Answers that the command was not carried out.
    ///
    /// # Errors
    /// As [`Received::done`].
    pub fn failed(mut self, why: &str) -> Result<(), Error> {
        self.answer(&Answer::Failed { why: why.to_string() })
    }

    fn answer(&mut self, with: &Answer) -> Result<(), Error> {
        self.answered = true;
        // The lease is recorded before the answer, because a sender may confirm it as soon as it has the
        // answer.
        let leased = match with {
            Answer::Done { inverse, .. } => self.note_lease(inverse.as_ref()),
            Answer::Failed { .. } => Ok(()),
        };
        if let Some(slot) = &self.slot {
            answer(slot, with);
        }
        let (done, text) = match with {
            Answer::Done { result, .. } => (true, result),
            Answer::Failed { why } => (false, why),
        };
        self.shared.record(&CommandAnswered { command: self.id, done, answer: text })?;
        leased
    }

    /// Records the lease of a command that was carried out, and ends the former lease of the same subject.
    fn note_lease(&self, inverse: Option<&Command>) -> Result<(), Error> {
        let Some(group) = self.group else { return Ok(()) };
        let subject = (self.letter.command.target.clone(), group);
        let (former, undo) = self.leases.with(|held| {
            let at = held.iter().position(|held| held.subject == subject);
            let former = at.map(|at| held.swap_remove(at));
            let undo = former.as_ref().map(|former| &former.undo).or(inverse).cloned();
            if let (Some(terms), Some(undo)) = (self.letter.terms, &undo) {
                held.push(Held {
                    id: self.id,
                    subject,
                    undo: undo.clone(),
                    holder: self.holder,
                    tool: self.letter.tool.clone(),
                    terms,
                    until: terms.until(),
                    is_given_back: false,
                });
            }
            (former, undo)
        });
        if let Some(former) = former {
            record_ended(&self.shared, &former, LeaseEnd::TakenOver)?;
        }
        let (Some(terms), Some(Command { target, name, arguments })) = (self.letter.terms, undo) else {
            return Ok(());
        };
        self.shared.record(&CommandLeased {
            command: self.id,
            lasts: terms.lasts_ns(),
            while_alive: terms.ends_with_its_holder(),
            target: &target,
            inverse: &name,
            arguments: &arguments.join(" "),
        })
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if !self.answered {
            let why = "the process did not answer".to_string();
            // The sender gets the answer; if the event cannot be recorded, there is no other place for the
            // error.
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

    /// The slot's header, two words of the command and two words of the answer.
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
                let (letter, holder) = receive(&receiver).expect("a command that is sent is whole");
                assert_eq!((letter.command, holder.sender.pid), (Command::new("t", "n"), 7));
                answer(&receiver, &Answer::Failed { why: "no".into() });
            });
            let mut bytes = Encoder::default();
            Command::new("t", "n").encode(&mut bytes);
            let bytes = bytes.into_bytes();
            send(&model, 1, Sender { pid: 7, user: 8 }, 9, &bytes);
            if let Some(answer) = answered(&model).expect("an answer that is there is whole") {
                assert_eq!(answer, Answer::Failed { why: "no".into() });
            }
            receiving.join().unwrap();
        });
    }
}
