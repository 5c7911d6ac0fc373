//! The positions of threads, and the addresses at which they continue when signal handlers return.

use crate::process::{Mapping, Process};
use crate::tracer::Registers;

/// The largest part of a stack that is examined. The interrupted context is directly above the handler's own
/// frames.
const STACK_BYTES_MAX: u64 = 1 << 20;
/// The offsets in a signal frame, from the return address of the handler, of the interrupted stack pointer
/// and instruction pointer.
const FRAME_RSP: u64 = 8 + 40 + 15 * 8;
const FRAME_RIP: u64 = 8 + 40 + 16 * 8;
/// The most frames of a stack that are examined.
const FRAMES_MAX: usize = 64;

/// The addresses at which interrupted code continues, one for each signal handler that this thread executes.
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
        // Remains of a former handler's frame, in memory that a later handler does not use, look like a frame
        // too. Because of such remains, the search continues directly after each frame's first word, whatever
        // size the frame has. At worst the search finds an address at which no code continues.
        for (at, _) in words(&bytes[..read]).enumerate().filter(|(_, word)| *word == restorer) {
            let frame = from + 8 * at as u64;
            let word = |offset| process.read_word(frame + offset).unwrap_or(0);
            found.push(word(FRAME_RIP));
            if found.len() == FRAMES_MAX {
                return found;
            }
            // A handler on an alternate stack interrupted code on another stack.
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
