//! The positions of threads, and the addresses at which they continue when signal handlers return.

use crate::process::Process;
use crate::tracer::{Registers, read_readable};
use std::collections::VecDeque;

/// The largest part of a stack that is examined. The interrupted context is directly above the handler's own
/// frames.
const STACK_BYTES_MAX: u64 = 1 << 20;
/// The bytes of a stack that are read at once.
const PART_BYTES: u64 = 32 << 10;
/// The offsets in a signal frame, from the return address of the handler, of the interrupted stack pointer
/// and instruction pointer.
const FRAME_RSP: u64 = 8 + 40 + 15 * 8;
const FRAME_RIP: u64 = 8 + 40 + 16 * 8;
/// The largest number of stacks that are examined. Only the first ones are stacks of this thread; remains of former
/// frames lead to others.
const STACKS_MAX: usize = 16;

/// The addresses at which interrupted code continues, one for each signal handler that this thread executes.
pub(crate) fn interrupted(process: &Process, registers: &Registers, restorer: u64) -> Vec<u64> {
    let mut found = Vec::new();
    // The stacks are examined in the order in which frames lead to them, because the frames next to the stack
    // pointer are those of the thread's present handlers.
    let mut starts = VecDeque::from([registers.rsp & !7]);
    let mut seen: Vec<(u64, u64)> = Vec::new();
    let mut bytes = vec![0; PART_BYTES as usize];
    while let Some(start) = starts.pop_front().filter(|_| seen.len() < STACKS_MAX) {
        let mut end = start;
        // A stack ends at the first page that cannot be read, or, where it was made within other memory, after
        // the largest part that is examined.
        while end - start < STACK_BYTES_MAX && !is_seen(&seen, end) {
            let Some(read) = part(process, end, &mut bytes).filter(|read| *read >= 8) else { break };
            // Remains of a former handler's frame, in memory that a later handler does not use, look like a frame
            // too. Because of such remains, the search continues directly after each frame's first word, whatever
            // size the frame has. At worst the search finds an address at which no code continues.
            for (at, _) in words(&bytes[..read]).enumerate().filter(|(_, word)| *word == restorer) {
                let frame = end + 8 * at as u64;
                let word = |offset| process.read_word(frame + offset).unwrap_or(0);
                found.push(word(FRAME_RIP));
                // A handler on an alternate stack interrupted code on another stack.
                starts.push_back(word(FRAME_RSP) & !7);
            }
            end += read as u64 & !7;
            if read < bytes.len() {
                break;
            }
        }
        seen.push((start, end));
        starts.retain(|next| !is_seen(&seen, *next));
    }
    found
}

fn is_seen(seen: &[(u64, u64)], address: u64) -> bool {
    seen.iter().any(|(begin, end)| (*begin..*end).contains(&address))
}

/// Reads memory of the target from this address on; fewer bytes if it ends before.
fn part(process: &Process, from: u64, into: &mut [u8]) -> Option<usize> {
    match read_readable(process.pid(), from, into) {
        Ok(read) => Some(read),
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => None,
        // Some sandboxes have no such call, and it fails where the program's first thread has ended.
        Err(_) => Some(process.read_some(from, into)),
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}
