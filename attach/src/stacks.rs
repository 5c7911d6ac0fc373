//! Where threads are, and where they will go on when a signal handler that interrupted them returns.

use crate::process::{Mapping, Process};
use crate::tracer::Registers;

/// So much of a stack is looked at. What a handler interrupted lies right above the handler's own part.
const STACK_BYTES_MAX: u64 = 1 << 20;
/// In a signal's frame, from the address of the handlers' end: the stack pointer and the instruction pointer of what was interrupted.
const FRAME_RSP: u64 = 8 + 40 + 15 * 8;
const FRAME_RIP: u64 = 8 + 40 + 16 * 8;
/// The most frames of a stack that are examined.
const FRAMES_MAX: usize = 64;

/// The places where what signal handlers interrupted in this thread goes on.
pub(crate) fn interrupted(
    process: &Process,
    maps: &[Mapping],
    registers: &Registers,
    restorer: u64,
) -> Vec<u64> {
    let mut found = Vec::new();
    let mut starts = vec![registers.rsp];
    let mut seen: Vec<u64> = Vec::new();
    let mut bytes = Vec::new();
    while let Some(start) = starts.pop() {
        let Some(mapping) = maps.iter().find(|mapping| mapping.has(start)) else { continue };
        seen.push(mapping.begin);
        let from = start & !7;
        bytes.resize((mapping.end - from).min(STACK_BYTES_MAX) as usize, 0);
        let read = process.read_some(from, &mut bytes);
        // What a former handler has left in memory that a later one does not use looks like a frame too. So
        // the search goes on right behind each frame, whatever size the frame gives. At worst it finds a word
        // that no code returns to.
        for (at, _) in words(&bytes[..read]).enumerate().filter(|(_, word)| *word == restorer) {
            let frame = from + 8 * at as u64;
            let word = |offset| process.read_word(frame + offset).unwrap_or(0);
            found.push(word(FRAME_RIP));
            if found.len() == FRAMES_MAX {
                return found;
            }
            // A handler with a stack of its own interrupted something on another one.
            let next = word(FRAME_RSP);
            if maps.iter().any(|mapping| mapping.has(next) && !seen.contains(&mapping.begin)) {
                starts.push(next);
            }
        }
    }
    found
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}
