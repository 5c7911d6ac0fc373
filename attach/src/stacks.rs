//! The positions of threads, and the addresses at which they continue when signal handlers return.

use crate::process::{Mapping, Process};
use crate::tracer::Registers;
use std::cell::OnceCell;

/// The largest part of a stack that is examined. The interrupted context is directly above the handler's own
/// frames.
const STACK_BYTES_MAX: u64 = 1 << 20;
/// The most that is examined for one thread, of all its stacks together.
const BYTES_MAX: u64 = 16 << 20;
/// The words of a signal frame that hold the interrupted stack pointer and instruction pointer stand so many words
/// before the word with the segments.
const WORDS_TO_RSP: u64 = 3;
const WORDS_TO_RIP: u64 = 2;

/// The stacks of a process. All its threads are stopped.
#[derive(Debug)]
pub(crate) struct Stacks<'a> {
    process: &'a Process,
    /// The process's mappings, which are read only if a stack's end is not known otherwise, because reading them
    /// takes a good part of the time for which the threads are stopped.
    maps: OnceCell<Option<Vec<Mapping>>>,
    /// Stacks that were read together: each with its begin and its bytes.
    read: Vec<(u64, Vec<u8>)>,
}

impl<'a> Stacks<'a> {
    /// The stacks of threads with these registers.
    pub(crate) fn of(process: &'a Process, threads: &[Registers]) -> Stacks<'a> {
        /// The most ranges that the kernel reads by one call.
        const RANGES_MAX: usize = 1024;
        let mut stacks = Stacks { process, maps: OnceCell::new(), read: Vec::new() };
        let range = |registers: &Registers| {
            Some((registers.rsp & !7, stacks.known_end(registers.rsp & !7, registers)?))
        };
        let mut ranges: Vec<(u64, u64)> = threads.iter().filter_map(range).take(RANGES_MAX).collect();
        let mut sum = 0;
        ranges.retain(|(begin, end)| {
            sum += end - begin;
            sum <= BYTES_MAX
        });
        let bytes = process.read_ranges(&ranges);
        let mut rest = &bytes[..];
        for (begin, end) in ranges {
            // Of a range that was not read to its end, nothing is used.
            let Some((first, others)) = rest.split_at_checked((end - begin) as usize) else { break };
            stacks.read.push((begin, first.to_vec()));
            rest = others;
        }
        stacks
    }

    /// The addresses at which interrupted code continues, one for each signal handler that this thread executes;
    /// `None` if that cannot be found out.
    ///
    /// A frame is found by its word with the segments, and not by the address to which the handler returns: when
    /// the handler has returned and the kernel has not yet restored the registers, the stack pointer is above the
    /// return address, but below the saved registers. Also, a program may have more than one way to return.
    pub(crate) fn interrupted(&self, registers: &Registers) -> Option<Vec<u64>> {
        let segments = segments(registers);
        let mut found = Vec::new();
        let mut starts = vec![registers.rsp];
        let mut examined: Vec<(u64, u64)> = Vec::new();
        let mut bytes = Vec::new();
        let mut sum = 0;
        while let Some(start) = starts.pop() {
            let from = not_examined(&examined, start & !7);
            let to = self.end(start, registers)?;
            if from >= to {
                continue;
            }
            sum += to - from;
            if sum > BYTES_MAX {
                return None;
            }
            examined.push((from, to));
            let known =
                self.read.iter().find(|(begin, bytes)| (*begin, bytes.len()) == (from, (to - from) as usize));
            let bytes = match known {
                Some((_, known)) => known,
                None => {
                    bytes.resize((to - from) as usize, 0);
                    let read = self.process.read_some(from, &mut bytes);
                    bytes.truncate(read);
                    &bytes
                }
            };
            // Remains of a former handler's frame, in memory that a later handler does not use, look like a frame
            // too. Because of such remains, every word is examined, whatever size a frame has. At worst the
            // search finds an address at which no code continues.
            for (at, _) in words(bytes).enumerate().filter(|(_, word)| *word == segments) {
                let word = |before| {
                    let address = from + 8 * at as u64 - 8 * before;
                    self.process.read_word(address).unwrap_or(0)
                };
                found.push(word(WORDS_TO_RIP));
                // A handler on an alternate stack interrupted code on another stack.
                starts.push(word(WORDS_TO_RSP));
            }
        }
        Some(found)
    }

    /// An address up to which there is all of the stack that is to be examined from `start` on; 0 if there is no
    /// memory, and `None` if that cannot be found out.
    ///
    /// No stack contains the thread's own block, which is above the thread's stack, or the arguments of the
    /// program, which are above the first thread's stack. So a stack that begins closely below one of them ends
    /// there at the latest.
    fn end(&self, start: u64, registers: &Registers) -> Option<u64> {
        if let Some(end) = self.known_end(start, registers) {
            return Some(end);
        }
        let most = start.saturating_add(STACK_BYTES_MAX);
        let maps = self.maps.get_or_init(|| self.process.maps().ok()).as_ref()?;
        Some(maps.iter().find(|mapping| mapping.has(start)).map_or(0, |mapping| mapping.end.min(most)))
    }

    /// The end of a stack that begins closely below the thread's block or the program's arguments.
    fn known_end(&self, start: u64, registers: &Registers) -> Option<u64> {
        let most = start.saturating_add(STACK_BYTES_MAX);
        let above = [registers.fs_base, self.process.arguments].into_iter();
        above.filter(|end| (start..=most).contains(end)).min()
    }
}

/// The word of a signal frame that holds the segments: those of the code and of the stack, which are the same in
/// all code of a program, and two that are always 0.
pub(crate) fn segments(of: &Registers) -> u64 {
    of.cs & 0xffff | (of.ss & 0xffff) << 48
}

/// The first address from `from` on that is in none of the ranges.
fn not_examined(examined: &[(u64, u64)], mut from: u64) -> u64 {
    while let Some((_, end)) = examined.iter().find(|(begin, end)| (*begin..*end).contains(&from)) {
        from = *end;
    }
    from
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_examined_once() {
        let examined = [(8, 16), (24, 32), (16, 24)];
        assert_eq!([0, 8, 20, 31, 32, 40].map(|from| not_examined(&examined, from)), [0, 32, 32, 32, 32, 40]);
    }
}
