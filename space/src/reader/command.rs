//! Sends commands to a process, and waits for its answers.

use super::space::SpaceReader;
use crate::error::Error;
use crate::file;
use crate::layout::mailbox as layout;
use crate::lease::Terms;
use crate::mailbox::{
    Answer, CONFIRM, Command, GIVE_BACK, Letter, RENEW, Sender, Slot, answered, encode, lease_target, send,
};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A command that was sent.
///
/// Dropping this value before the answer does not cancel the command; the process frees the slot for other
/// senders after its answer.
#[derive(Debug)]
pub struct Sent {
    reader: SpaceReader,
    slot: FileSlot,
    id: u64,
}

/// A slot in the mailbox's file. The slot keeps the first error of an access.
#[derive(Debug)]
struct FileSlot {
    file: Arc<File>,
    path: PathBuf,
    start: u64,
    problem: RefCell<Option<Error>>,
}

impl FileSlot {
    fn new(file: &Arc<File>, path: &Path, start: usize) -> FileSlot {
        let (file, path) = (file.clone(), path.to_path_buf());
        FileSlot { file, path, start: start as u64, problem: RefCell::default() }
    }

    fn result<T>(&self, value: T) -> Result<T, Error> {
        self.problem.borrow_mut().take().map_or(Ok(value), Err)
    }
}

impl Slot for FileSlot {
    fn load(&self, at: usize) -> u64 {
        self.get(at, 1)[0]
    }

    fn store(&self, at: usize, value: u64) {
        // The store is a system call, so a process that sees this value also sees everything stored before.
        self.put(at, &[value]);
    }

    fn put(&self, at: usize, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let Err(error) = self.file.write_all_at(&bytes, self.start + at as u64) {
            self.problem.borrow_mut().get_or_insert(Error::io("write", &self.path, error));
        }
    }

    fn get(&self, at: usize, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; 8 * count];
        let read = file::read_exact_at(&self.file, &self.path, &mut bytes, self.start + at as u64);
        if let Err(error) = read {
            self.problem.borrow_mut().get_or_insert(error);
        }
        bytes.chunks_exact(8).map(|word| file::word(word, 0)).collect()
    }
}

impl SpaceReader {
    /// Sends a command to the process, which carries it out at its next safe point.
    ///
    /// # Errors
    /// When the process is dead or accepts no commands, when its mailbox is full, or when the command is too
    /// long.
    pub fn send(&self, command: &Command) -> Result<Sent, Error> {
        self.send_letter(command, None)
    }

    /// Sends a command whose inverse the process carries out when the lease is over: see
    /// [`lease`](crate::lease). The command fails if it has no inverse.
    ///
    /// # Errors
    /// The errors of [`SpaceReader::send`], and an error when the terms would let the lease last for ever.
    pub fn send_leased(&self, command: &Command, terms: Terms) -> Result<LeasedCommand, Error> {
        terms.check(&command.name)?;
        Ok(LeasedCommand { sent: self.send_letter(command, Some(terms))? })
    }

    fn send_letter(&self, command: &Command, terms: Option<Terms>) -> Result<Sent, Error> {
        let bytes = encode(&Letter { command: command.clone(), tool: self.tool.clone(), terms })?;
        if !self.is_alive() {
            return Err(Error::new(format!(
                "the process of {} has ended, and takes no commands any more",
                self.path.display()
            )));
        }
        let path = self.path.join("mailbox");
        let file = Arc::new(open_mailbox(&path)?);
        file::lock(&file, &path)?;
        let sent = self.send_locked(&file, &path, &bytes);
        file.unlock().map_err(|e| Error::io("unlock", &path, e))?;
        sent
    }

    fn send_locked(&self, file: &Arc<File>, path: &Path, bytes: &[u8]) -> Result<Sent, Error> {
        let slots = (0..layout::SLOT_COUNT)
            .map(|n| FileSlot::new(file, path, layout::SLOTS + n * layout::SLOT_BYTES));
        let mut free = None;
        for slot in slots {
            let is_free = is_free(&slot);
            if slot.result(is_free)? {
                free = Some(slot);
                break;
            }
        }
        let slot = free.ok_or_else(|| {
            Error::new(format!(
                "the mailbox of {} is full: {} commands wait for the process, or their answers for the senders; \
                 try again later",
                self.path.display(),
                layout::SLOT_COUNT
            ))
        })?;
        let reader = SpaceReader::open(&self.path)?.called(&self.tool);
        let header = FileSlot::new(file, path, 0);
        // The count of numbers is increased before the command gets its number. If this process is killed in
        // between, the number stays unused and is not used twice.
        let id = header.load(layout::NUMBERS).wrapping_add(1);
        header.store(layout::NUMBERS, id);
        // An odd count announces that a command may have been sent that is not counted yet; that remains
        // visible if this process is killed.
        let announced = header.load(layout::SENT_COUNT) | 1;
        header.store(layout::SENT_COUNT, announced);
        header.result(())?;
        let pid = std::process::id();
        let sender = Sender { pid, user: crate::process::user() };
        send(&slot, id, sender, crate::process::start_time(pid).unwrap_or(0), bytes);
        slot.result(())?;
        header.store(layout::SENT_COUNT, announced.wrapping_add(1));
        header.result(())?;
        Ok(Sent { reader, slot, id })
    }
}

/// Whether the slot may be used: it was never used, it was freed, or its command was answered and its sender
/// abandoned it or died.
fn is_free(slot: &FileSlot) -> bool {
    match slot.load(layout::STATE) {
        layout::FREE => true,
        layout::DONE | layout::FAILED => {
            let words = slot.get(layout::ID, 7);
            let abandoned = words[6] != 0;
            abandoned || !crate::process::is_alive(words[1] as u32, words[2])
        }
        _ => false,
    }
}

fn open_mailbox(path: &Path) -> Result<File, Error> {
    let file = file::open(path, OpenOptions::new().read(true).write(true)).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::new(format!(
            "the process of {} takes no commands: it has no mailbox",
            path.parent().unwrap_or(path).display()
        )),
        _ => Error::io("open", path, e),
    })?;
    let mut header = [0; 16];
    file::read_exact_at(&file, path, &mut header, 0)?;
    file::check_magic(path, &header, layout::MAGIC_VALUE, "the mailbox")?;
    let needed = (layout::SLOTS + layout::SLOT_BYTES * layout::SLOT_COUNT) as u64;
    let there = file::length(&file, path)?;
    if there < needed {
        return Err(Error::new(format!("{} is truncated: it has {there} bytes of {needed}", path.display())));
    }
    Ok(file)
}

impl Sent {
    /// The command's number, as in the events of the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether the process has received the command.
    ///
    /// # Errors
    /// When the mailbox cannot be read any more.
    pub fn is_adopted(&self) -> Result<bool, Error> {
        let state = self.slot.load(layout::STATE);
        self.slot.result(state != layout::SENT)
    }

    /// The answer, if there is one by now.
    ///
    /// # Errors
    /// When the mailbox cannot be read any more, or is damaged.
    pub fn answer(&self) -> Result<Option<Answer>, Error> {
        let answer = answered(&self.slot);
        self.slot.result(())?;
        answer.map_err(|why| Error::new(format!("{} is damaged: {why}", self.slot.path.display())))
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// The errors of [`Sent::answer`], and errors when the process ends without an answer or when no answer
    /// comes within `timeout`.
    pub fn wait(&self, timeout: Duration) -> Result<Answer, Error> {
        let begun = Instant::now();
        loop {
            if let Some(answer) = self.answer()? {
                return Ok(answer);
            }
            if !self.reader.is_alive() {
                // The process may have answered before it ended.
                return self.answer()?.ok_or_else(|| Error::new("the process ended without an answer"));
            }
            if begun.elapsed() >= timeout {
                let state = if self.is_adopted()? {
                    "was received, and there is no answer yet"
                } else {
                    "was not received yet: the process receives commands at its next safe point"
                };
                return Err(Error::new(format!("after {timeout:?} the command {state}")));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// A command that was sent under a lease. After this value is dropped, the lease ends by its terms.
#[derive(Debug)]
pub struct LeasedCommand {
    sent: Sent,
}

impl LeasedCommand {
    /// What was sent.
    pub fn sent(&self) -> &Sent {
        &self.sent
    }

    /// Restarts the time of the lease, and waits until the process confirms that.
    ///
    /// # Errors
    /// When the lease is over, and the errors of [`Sent::wait`].
    pub fn renew(&self, timeout: Duration) -> Result<(), Error> {
        self.ask(RENEW, timeout)
    }

    /// Confirms the command: it will not be reverted.
    ///
    /// # Errors
    /// As [`LeasedCommand::renew`].
    pub fn confirm(self, timeout: Duration) -> Result<(), Error> {
        self.ask(CONFIRM, timeout)
    }

    /// Ends the lease: the process reverts the command now.
    ///
    /// # Errors
    /// As [`LeasedCommand::renew`].
    pub fn give_back(self, timeout: Duration) -> Result<(), Error> {
        self.ask(GIVE_BACK, timeout)
    }

    fn ask(&self, what: &str, timeout: Duration) -> Result<(), Error> {
        let asked = self.sent.reader.send(&Command::new(lease_target(self.sent.id), what))?;
        match asked.wait(timeout)? {
            Answer::Done { .. } => Ok(()),
            Answer::Failed { why } => Err(Error::new(why)),
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        // The store only permits that the slot is freed; the next sender that needs the slot frees it.
        self.slot.put(layout::ABANDONED, &[1]);
    }
}
