//! A connection between two processes of one host through memory that both have. The sender's process makes the
//! memory and hands it over through a Unix socket. Bytes travel through two rings in it; the socket only wakes an
//! end that sleeps, by a byte, and shows at once that the other process has ended.

#[allow(unsafe_code, reason = "memory that another process changes")]
mod map;
#[cfg_attr(all(test, loom), allow(unsafe_code, reason = "cells of loom's models"))]
mod marks;

use super::{is_later, poll_until, readable};
use map::{Map, Way};
use marks::{Impossible, Reading, TO_READ, TO_WRITE, Writing};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recv, recvmsg, send, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The message with which memory is handed over.
const HANDED: [u8; 8] = *b"thalwegm";
/// The bytes that are read from the socket at once; each is a call to wake up.
const CALLS: usize = 64;

/// How often an end glances at its ring before other threads get the processor: about a microsecond.
const GLANCES: u32 = 64;

/// One end of a connection through shared memory.
#[derive(Debug)]
pub(crate) struct Memory {
    socket: UnixStream,
    /// The memory; `None` until the sender has handed it over.
    map: Option<Map>,
    /// The direction in which this end writes.
    way: Way,
    writing: Writing,
    reading: Reading,
    /// Whether nothing was read so far. Before its greeting has been read, an end is woken for each byte.
    is_new: bool,
    /// Whether the other end has closed.
    is_over: bool,
}

impl Memory {
    /// The sender's end: makes the memory and hands it over.
    pub(super) fn begin(socket: UnixStream) -> io::Result<Memory> {
        let (map, file) = Map::create()?;
        // The receiver's listener sleeps on the socket until the greeting has come.
        map.asks(Way::Back).ask(TO_READ);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&files));
        let sent = sendmsg(&socket, &[IoSlice::new(&HANDED)], &mut control, SendFlags::NOSIGNAL)?;
        if sent != HANDED.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(Memory::new(socket, Way::There, Some(map)))
    }

    /// The receiver's end, which gets the memory.
    pub(super) fn accepted(socket: UnixStream) -> Memory {
        Memory::new(socket, Way::Back, None)
    }

    fn new(socket: UnixStream, way: Way, map: Option<Map>) -> Memory {
        let (writing, reading) = (Writing::new(way.capacity()), Reading::new(way.other().capacity()));
        Memory { socket, map, way, writing, reading, is_new: true, is_over: false }
    }

    /// Takes the memory that the sender has handed over.
    fn take(&mut self) -> io::Result<()> {
        if self.map.is_some() {
            return Ok(());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut said = [0; HANDED.len()];
        let got = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut said)],
            &mut control,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        )?;
        let mut files: Vec<OwnedFd> = control
            .drain()
            .flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(files) => files.collect(),
                _ => Vec::new(),
            })
            .collect();
        match (files.pop(), got.bytes == HANDED.len() && said == HANDED) {
            (Some(file), true) => self.map = Some(Map::take(&file)?),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "it hands over no memory")),
        }
        Ok(())
    }

    /// Writes as many bytes as there is room for.
    pub(super) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.take()?;
        if self.is_over {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let Memory { map: Some(map), way, writing, .. } = self else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        let room = writing.room(map.marks(*way), wanted)?.min(wanted);
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut written = 0;
        for piece in pieces {
            let piece = &piece[..piece.len().min(room - written)];
            map.copy_in(*way, (writing.at() + written) % way.capacity(), piece);
            written += piece.len();
        }
        if writing.publish(map.marks(*way), written, map.asks(way.other())) {
            self.wake();
        }
        Ok(written)
    }

    /// Reads the bytes that have arrived; 0 at the end.
    pub(super) fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.take()?;
        let Memory { map: Some(map), way, reading, is_new, .. } = self else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let from = way.other();
        let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut held = reading.held(map.marks(from), wanted)?;
        if held == 0 && *is_new {
            // The listener waits for the socket alone.
            map.asks(*way).ask(TO_READ);
            self.is_over |= !hear(&self.socket);
            held = reading.held(map.marks(from), wanted)?;
        }
        let held = held.min(wanted);
        if held == 0 {
            return if self.is_over { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        *is_new = false;
        let mut read = 0;
        for piece in pieces {
            let bytes = piece.len().min(held - read);
            map.copy_out(from, (reading.at() + read) % from.capacity(), &mut piece[..bytes]);
            read += bytes;
        }
        if reading.release(map.marks(from), read, map.asks(from)) {
            self.wake();
        }
        Ok(read)
    }

    /// Waits until there is something to read (or room to write), or one of the `others` can be read.
    pub(super) fn wait(
        &mut self,
        to_write: bool,
        others: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> io::Result<()> {
        let Memory { socket, map, way, writing, reading, is_over, .. } = self;
        if *is_over {
            return Ok(());
        }
        if let Some(map) = map {
            let asks = map.asks(*way);
            asks.ask(TO_READ | if to_write { TO_WRITE } else { 0 });
            let is_due = reading.held(map.marks(way.other()), 1)? > 0
                || to_write && writing.room(map.marks(*way), 1)? > 0;
            if is_due {
                asks.clear();
                return Ok(());
            }
        }
        let own = readable(socket.as_fd());
        let is_called = match others {
            [] => poll_until(&mut [own], deadline),
            [one] => poll_until(&mut [own, readable(*one)], deadline),
            [one, two, ..] => poll_until(&mut [own, readable(*one), readable(*two)], deadline),
        };
        if let Some(map) = map {
            map.asks(*way).clear();
            if is_called? {
                *is_over |= !hear(socket);
            }
        }
        Ok(())
    }

    /// Looks for data a few times; returns whether there are any.
    pub(super) fn glance(&mut self) -> bool {
        let Memory { map: Some(map), way, reading, .. } = self else { return false };
        let marks = map.marks(way.other());
        (0..GLANCES).any(|_| {
            std::hint::spin_loop();
            // An impossible position is reported by the next read.
            reading.held(marks, 1).is_ok_and(|bytes| bytes > 0)
        })
    }

    /// Looks whether the other end has closed, without a wait.
    pub(super) fn look(&mut self) {
        if self.map.is_some() {
            self.is_over |= !hear(&self.socket);
        }
    }

    /// Wakes the other end.
    fn wake(&mut self) {
        match send(&self.socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map_err(io::Error::from) {
            Ok(_) => {}
            // The other end has not heard former calls yet, and hears them.
            Err(error) if is_later(&error) => {}
            Err(_) => self.is_over = true,
        }
    }
}

/// Takes the calls that have come; returns false if the other end has closed.
fn hear(socket: &UnixStream) -> bool {
    let mut calls = [0; CALLS];
    loop {
        match recv(socket, &mut calls, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return false,
            Ok((_, CALLS..)) => {}
            Ok(_) => return true,
            Err(error) => return is_later(&error.into()),
        }
    }
}

impl From<Impossible> for io::Error {
    fn from(_: Impossible) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, "the other process has damaged the shared memory")
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
