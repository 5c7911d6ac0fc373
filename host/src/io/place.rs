//! The places from which bytes come and to which they go: files, pipes, sockets, and directories of files.
//!
//! An input that may block is read only when it has data, so that a request to end is always noticed. While
//! data are unread, the peer has to wait.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::compression::{Compression, Decoder};
use super::endpoint::Place;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::notice::Notices;

/// The longest wait after which the caller checks whether the run should end.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The number of bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// An input of bytes.
pub(crate) struct Input {
    pub(crate) file: BufReader<File>,
    /// The name of the input in messages.
    pub(crate) name: String,
    /// Whether waiting for data can take for ever, as for a terminal, a pipe or a socket.
    waits: bool,
    /// Whether the input is decompressed, and the decoder.
    decoding: Decoding,
    /// Bytes that were given back to be read again, and how many of them were already read again.
    back: Vec<u8>,
    back_read: usize,
    /// The number of bytes consumed so far.
    taken: u64,
    /// The bytes since the beginning of the record, kept only if bytes that turn out to be no record must be
    /// passed on.
    kept: Option<Kept>,
}

/// Whether an input is decompressed.
enum Decoding {
    /// The input is not decompressed.
    No,
    /// The input will be decompressed if its first bytes, which were not read yet, are those of a compressed
    /// file.
    Asks,
    /// The input is compressed.
    By(Box<Decoder>),
}

/// Bytes of an input that are no record, and their place.
#[derive(Debug)]
pub(crate) struct Raw {
    /// The name of the input in messages.
    pub(crate) input: String,
    /// The line, from 1, if the format counts lines.
    pub(crate) line: Option<u64>,
    /// The number of bytes of the input before these bytes.
    pub(crate) byte: u64,
    pub(crate) bytes: Vec<u8>,
    /// Whether the bytes are passed on in pieces, and this piece is not the last.
    pub(crate) goes_on: bool,
}

impl Raw {
    /// The text without the white space around it.
    pub(super) fn trimmed(mut self) -> Raw {
        let before = self.bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.byte += before as u64;
        self.bytes = self.bytes.trim_ascii().to_vec();
        self
    }
}

/// The bytes of a record that is being read.
#[derive(Default)]
struct Kept {
    begin: u64,
    bytes: Vec<u8>,
}

impl Input {
    fn standard() -> Result<Input, Error> {
        let name = "standard input".to_owned();
        match rustix::io::dup(io::stdin()) {
            Ok(copy) => Input::of(File::from(copy), name),
            Err(error) => Err(unreadable(&name, error.into())),
        }
    }

    pub(super) fn file(path: &Path) -> Result<Input, Error> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| unreadable(&name, error))?;
        Input::of(file, name)
    }

    fn of(file: File, name: String) -> Result<Input, Error> {
        let metadata = file.metadata().map_err(|error| unreadable(&name, error))?;
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Input::new(file, name, !metadata.is_file()))
    }

    fn peer(socket: OwnedFd, name: String) -> Input {
        let file = BufReader::with_capacity(BUFFER_BYTES, File::from(socket));
        Input::new(file, name, true)
    }

    fn new(file: BufReader<File>, name: String, waits: bool) -> Input {
        Input {
            file,
            name,
            waits,
            decoding: Decoding::No,
            back: Vec::new(),
            back_read: 0,
            taken: 0,
            kept: None,
        }
    }

    /// Decodes the input if it is compressed.
    pub(super) fn decode(&mut self) {
        self.decoding = Decoding::Asks;
    }

    /// The bytes that were read and not consumed yet; reads more if there are none. The result is empty if
    /// the input has ended.
    pub(super) fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.buffer().is_empty() && !self.fill()? {}
        Ok(self.buffer())
    }

    /// The bytes that were read and not consumed yet.
    fn buffer(&self) -> &[u8] {
        let back = &self.back[self.back_read..];
        match &self.decoding {
            _ if !back.is_empty() => back,
            Decoding::No => self.file.buffer(),
            Decoding::Asks => &[],
            Decoding::By(decoder) => decoder.buffer(),
        }
    }

    /// Reads once if the buffer is empty. Returns true if the input has ended, or the buffer has data now.
    fn fill(&mut self) -> io::Result<bool> {
        match &mut self.decoding {
            Decoding::No => {
                self.file.fill_buf()?;
                Ok(true)
            }
            Decoding::Asks => {
                self.ask()?;
                Ok(false)
            }
            Decoding::By(decoder) => {
                decoder.fill(&mut self.file)?;
                Ok(decoder.is_over() || !decoder.buffer().is_empty())
            }
        }
    }

    /// Determines whether the input is compressed.
    fn ask(&mut self) -> io::Result<()> {
        let begin = self.file.fill_buf()?;
        let found = match Compression::of_data(begin) {
            Ok(found) => found,
            // The few bytes that came do not suffice to identify the compression, so the input waits for
            // more.
            Err(()) => {
                let mut begin = begin.to_vec();
                self.file.consume(begin.len());
                let found = loop {
                    let more = self.file.fill_buf()?;
                    let Some(&next) = more.first() else { break None };
                    begin.push(next);
                    self.file.consume(1);
                    if let Ok(found) = Compression::of_data(&begin) {
                        break found;
                    }
                };
                (self.back, self.back_read) = (begin, 0);
                found
            }
        };
        self.decoding = match found {
            None => Decoding::No,
            Some(compression) => {
                let mut decoder = Decoder::new(compression)?;
                let begin = std::mem::take(&mut self.back);
                let mut begin = begin.as_slice();
                while !begin.is_empty() {
                    decoder.fill(&mut begin)?;
                }
                Decoding::By(Box::new(decoder))
            }
        };
        Ok(())
    }

    /// From now on keeps the bytes of each record until the next record begins.
    pub(super) fn keep(&mut self) {
        self.kept = Some(Kept::default());
    }

    /// Consumes `count` bytes.
    pub(super) fn consume(&mut self, count: usize) {
        if let Some(mut kept) = self.kept.take() {
            kept.bytes.extend_from_slice(&self.buffer()[..count]);
            self.kept = Some(kept);
        }
        self.taken += count as u64;
        if self.back_read < self.back.len() {
            self.back_read += count;
            return;
        }
        match &mut self.decoding {
            Decoding::By(decoder) => decoder.consume(count),
            _ => self.file.consume(count),
        }
    }

    /// Gives back the last of the consumed bytes, to be read again; from now on these bytes are not part of
    /// the record.
    pub(super) fn give_back(&mut self, bytes: &[u8]) {
        if let Some(kept) = &mut self.kept {
            kept.bytes.truncate(kept.bytes.len().saturating_sub(bytes.len()));
        }
        self.taken -= bytes.len() as u64;
        let rest = self.back.get(self.back_read..).unwrap_or(&[]);
        self.back = [bytes, rest].concat();
        self.back_read = 0;
    }

    /// Whether no byte was consumed yet.
    pub(super) fn is_at_begin(&self) -> bool {
        self.taken == 0
    }

    /// Marks the beginning of a record.
    pub(super) fn begin(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.begin = self.taken;
            kept.bytes.clear();
        }
    }

    /// The number of bytes that are kept.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.bytes.len())
    }

    /// The bytes since the beginning of text that turned out to be no record; `goes_on` says whether further
    /// bytes will follow. `None` if bytes are not kept.
    pub(super) fn raw(&mut self, line: Option<u64>, goes_on: bool) -> Option<Raw> {
        let kept = self.kept.as_mut()?;
        let (byte, bytes) = (kept.begin, std::mem::take(&mut kept.bytes));
        kept.begin = self.taken;
        Some(Raw { input: self.name.clone(), line, byte, bytes, goes_on })
    }

    /// Whether the buffer has data, or reading never has to wait for data.
    pub(crate) fn is_buffered(&self) -> bool {
        !self.waits || !self.buffer().is_empty() || !self.file.buffer().is_empty()
    }

    /// Whether reading would not wait (at the end of the input, too).
    pub(crate) fn is_ready(&mut self) -> io::Result<bool> {
        if !self.waits || !self.buffer().is_empty() {
            return Ok(true);
        }
        while !self.file.buffer().is_empty() || polled(self.file.get_ref().as_fd(), AT_ONCE)? {
            if matches!(self.decoding, Decoding::No) || self.fill()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits a moment for data.
    pub(crate) fn wait(&self) -> io::Result<()> {
        polled(self.file.get_ref().as_fd(), PATIENCE).map(|_| ())
    }

    /// Waits until there are data; false if the run should end.
    pub(crate) fn wait_for_more(&mut self, interrupt: &Interrupt) -> io::Result<bool> {
        while !interrupt.is_stopping() {
            if self.is_ready()? {
                return Ok(true);
            }
            self.wait()?;
        }
        Ok(false)
    }

    /// Whether this is a file on a disk, which is read without waiting.
    pub(crate) fn is_file(&self) -> bool {
        !self.waits
    }
}

/// Whether data arrive within the time `patience`.
fn polled(descriptor: BorrowedFd<'_>, patience: Timespec) -> io::Result<bool> {
    let mut descriptors = [PollFd::new(&descriptor, PollFlags::IN)];
    match poll(&mut descriptors, Some(&patience)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn unreadable(name: &str, error: io::Error) -> Error {
    Error::coded("E0901", format!("cannot read {name}")).because(error)
}

pub(crate) fn unwritable(name: &str, error: io::Error) -> Error {
    Error::coded("E0901", format!("cannot write {name}")).because(error)
}

/// The inputs at a place, in sequence.
pub(crate) enum Inputs {
    /// An input that is open already; `None` after it was returned.
    One(Option<Box<Input>>),
    /// The files of a directory that are still to be read, in the order of their names.
    Files(VecDeque<PathBuf>),
    /// The inputs of peers that connect.
    Peers(Listener, Peers),
}

/// How many more peers are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peers {
    None,
    One,
    All,
}

/// The next input of a place.
pub(crate) enum Following {
    Input(Box<Input>),
    /// There is no next input yet.
    Pending,
    End,
}

impl Inputs {
    pub(crate) fn open(place: &Place, keep: bool, notices: &Notices) -> Result<Inputs, Error> {
        let one = |input| Inputs::One(Some(Box::new(input)));
        let peers = if keep { Peers::All } else { Peers::One };
        Ok(match place {
            Place::Standard => one(Input::standard()?),
            Place::Path(path) if path.is_dir() => Inputs::Files(files_of(path)?),
            Place::Path(path) => one(Input::file(path)?),
            Place::Tcp(_) | Place::Unix(_) => {
                let (socket, name) = connect(place).map_err(|(name, error)| unreadable(&name, error))?;
                one(Input::peer(socket, name))
            }
            Place::TcpListen(_) | Place::UnixListen(_) => {
                let listener =
                    Listener::bind(place, notices).map_err(|(name, error)| unreadable(&name, error))?;
                Inputs::Peers(listener, peers)
            }
        })
    }

    /// Waits a moment for the next input.
    pub(crate) fn wait(&self) -> io::Result<()> {
        match self {
            Inputs::Peers(listener, _) => polled(listener.descriptor(), PATIENCE).map(|_| ()),
            _ => Ok(()),
        }
    }

    pub(crate) fn next(&mut self) -> Result<Following, Error> {
        Ok(match self {
            Inputs::One(input) => input.take().map_or(Following::End, Following::Input),
            Inputs::Files(paths) => match paths.pop_front() {
                Some(path) => Following::Input(Box::new(Input::file(&path)?)),
                None => Following::End,
            },
            Inputs::Peers(_, Peers::None) => Following::End,
            Inputs::Peers(listener, wanted) => match listener.accept() {
                Ok(Some((socket, name))) => {
                    if *wanted == Peers::One {
                        *wanted = Peers::None;
                    }
                    Following::Input(Box::new(Input::peer(socket, name)))
                }
                Ok(None) => Following::Pending,
                Err(error) => return Err(unreadable(&listener.name, error)),
            },
        })
    }
}

/// The files in a directory, in the order of their names; without hidden files, and without the files of
/// subdirectories.
fn files_of(folder: &Path) -> Result<VecDeque<PathBuf>, Error> {
    let failed = |error| unreadable(&folder.display().to_string(), error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.is_file() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let folder = folder.display();
        return Err(Error::coded(
            "E0901",
            format!("cannot read {folder}: there are no files in this directory"),
        ));
    }
    paths.sort();
    Ok(paths.into())
}

/// A socket that peers connect to.
pub(crate) struct Listener {
    socket: Socket,
    /// The name of the socket in messages.
    pub(crate) name: String,
    /// The path of a socket in the file system, which is removed at the end.
    path: Option<PathBuf>,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens at a place; `Err` has the name of the place in messages, and the error.
    fn bind(place: &Place, notices: &Notices) -> Result<Listener, (String, io::Error)> {
        let bound = match place {
            Place::TcpListen(address) => TcpListener::bind(address).and_then(|listener| {
                let name = format!("tcp-listen://{}", listener.local_addr()?);
                Ok(Listener { socket: Socket::Tcp(listener), name, path: None })
            }),
            Place::UnixListen(path) => UnixListener::bind(path).map(|listener| {
                let name = format!("unix-listen:{}", path.display());
                Listener { socket: Socket::Unix(listener), name, path: Some(path.clone()) }
            }),
            other => unreachable!("{other:?} is no place to listen at"),
        };
        let listener = bound.and_then(|listener| {
            match &listener.socket {
                Socket::Tcp(listener) => listener.set_nonblocking(true)?,
                Socket::Unix(listener) => listener.set_nonblocking(true)?,
            }
            Ok(listener)
        });
        match listener {
            Ok(listener) => {
                notices.note(format!("listening at {}", listener.name));
                Ok(listener)
            }
            Err(error) => Err((name_of(place), explained(place, error))),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(listener) => listener.as_fd(),
            Socket::Unix(listener) => listener.as_fd(),
        }
    }

    /// The peer that waits to connect, if there is one.
    fn accept(&self) -> io::Result<Option<(OwnedFd, String)>> {
        let accepted = match &self.socket {
            Socket::Tcp(listener) => listener.accept().and_then(|(stream, from)| {
                stream.set_nonblocking(false)?;
                Ok((stream.into(), format!("tcp://{from}")))
            }),
            Socket::Unix(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                Ok((stream.into(), self.name.clone()))
            }),
        };
        match accepted {
            Ok(peer) => Ok(Some(peer)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // An error is ignored, because another process may have removed the socket already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket connected to the peer at a place, and the place's name.
fn connect(place: &Place) -> Result<(OwnedFd, String), (String, io::Error)> {
    let name = name_of(place);
    let connected = match place {
        Place::Tcp(address) => TcpStream::connect(address).and_then(|stream| {
            stream.set_nodelay(true)?;
            Ok(stream.into())
        }),
        Place::Unix(path) => UnixStream::connect(path).map(OwnedFd::from),
        other => unreachable!("{other:?} is no place to connect to"),
    };
    match connected {
        Ok(socket) => Ok((socket, name)),
        Err(error) => Err((name, explained(place, error))),
    }
}

fn name_of(place: &Place) -> String {
    match place {
        Place::Standard => "-".to_owned(),
        Place::Path(path) => path.display().to_string(),
        Place::Tcp(address) => format!("tcp://{address}"),
        Place::TcpListen(address) => format!("tcp-listen://{address}"),
        Place::Unix(path) => format!("unix:{}", path.display()),
        Place::UnixListen(path) => format!("unix-listen:{}", path.display()),
    }
}

/// The error, with advice where the cause is known.
fn explained(place: &Place, error: io::Error) -> io::Error {
    let advice = match (place, error.kind()) {
        (Place::Tcp(_) | Place::Unix(_), io::ErrorKind::ConnectionRefused) => {
            "; nobody listens there: start the peer first"
        }
        (Place::UnixListen(_), io::ErrorKind::AddrInUse) => {
            "; if no program uses this socket any more, remove the file"
        }
        (Place::TcpListen(_), io::ErrorKind::AddrInUse) => "; take another port, or 0 for any",
        _ => return error,
    };
    io::Error::new(error.kind(), Advised { error, advice })
}

/// An error of the system, with advice.
#[derive(Debug)]
struct Advised {
    error: io::Error,
    advice: &'static str,
}

impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.error, self.advice)
    }
}

impl std::error::Error for Advised {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

/// The copy of standard output to which runs write records, after [`keep_standard_output`] was called.
static KEPT: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Keeps the process's standard output for the records of its runs: from now on all other output to standard
/// output goes to standard error. A program that writes records to standard output must call this before box
/// libraries are loaded; further calls have no effect.
///
/// # Errors
/// If there are no file descriptors left.
pub fn keep_standard_output() -> Result<(), Error> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.is_none() {
        let failed = |error: rustix::io::Errno| unwritable(STANDARD_OUTPUT, error.into());
        // Programs that boxes start do not inherit the copy.
        let copy = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3).map_err(failed)?;
        rustix::stdio::dup2_stdout(io::stderr()).map_err(failed)?;
        *kept = Some(copy);
    }
    Ok(())
}

const STANDARD_OUTPUT: &str = "standard output";

/// The file that is standard output, or that was standard output before [`keep_standard_output`] was called.
fn standard_output() -> io::Result<File> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let copy = match &*kept {
        Some(kept) => rustix::io::fcntl_dupfd_cloexec(kept, 3),
        None => rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3),
    };
    Ok(File::from(copy?))
}

/// A file for writing: created or truncated, or the socket of a peer.
pub(crate) fn create(
    place: &Place,
    interrupt: &Interrupt,
    notices: &Notices,
) -> Result<(File, String), Error> {
    match place {
        Place::Standard => match standard_output() {
            Ok(file) => Ok((file, STANDARD_OUTPUT.to_owned())),
            Err(error) => Err(unwritable(STANDARD_OUTPUT, error)),
        },
        Place::Path(path) => {
            let name = path.display().to_string();
            let file = File::create(path).map_err(|error| unwritable(&name, error))?;
            Ok((file, name))
        }
        Place::Tcp(_) | Place::Unix(_) => {
            let (socket, name) = connect(place).map_err(|(name, error)| unwritable(&name, error))?;
            Ok((File::from(socket), name))
        }
        Place::TcpListen(_) | Place::UnixListen(_) => {
            let listener =
                Listener::bind(place, notices).map_err(|(name, error)| unwritable(&name, error))?;
            let failed = |error| unwritable(&listener.name, error);
            while !interrupt.is_stopping() {
                if let Some((socket, name)) = listener.accept().map_err(failed)? {
                    return Ok((File::from(socket), name));
                }
                polled(listener.descriptor(), PATIENCE).map_err(failed)?;
            }
            Err(interrupt.error())
        }
    }
}
