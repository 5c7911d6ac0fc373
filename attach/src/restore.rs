//! Undoing all changes: by the attaching process, by its guard if it was killed, or by the next attachment.
//!
//! All data that restoring needs are in the target: the journal is in memory that is found by its name.
//! Because no data of the attaching process are needed, any process with the permission can restore a target
//! at any time, also more than once.

use crate::blob::{ENTRY_BYTES, TABLE_BYTES};
use crate::error::Error;
use crate::inject::Gadgets;
use crate::memory::{Found, Record};
use crate::process::{Mapping, Process, maps_of};
use crate::stacks::Stacks;
use crate::tracer::{Stopped, Waited, share_memory, traced};
use std::time::Duration;

/// The result of restoring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The number of functions and variables that were restored.
    pub changes: usize,
    /// The addresses of the functions and variables that were restored, not those of children. A variable to
    /// which the program has given another value is not among them.
    pub put_back: Vec<u64>,
    /// Bytes of memory that stay in the target, because threads still execute there; no code jumps to it any
    /// more.
    pub bytes_left: u64,
    /// The longest time for which the target's threads were stopped.
    pub stopped: Duration,
}

impl Restored {
    /// Adds what a later attempt has restored.
    pub(crate) fn and(&mut self, later: Restored) {
        self.changes += later.changes;
        self.put_back.extend(later.put_back);
        self.stopped = self.stopped.max(later.stopped);
        self.bytes_left = later.bytes_left;
    }
}

/// The state of an order while its call runs.
const UNDER_WAY: u64 = 1;
/// The offset in an inserted call's order of the threads in which the call is under way, and how many these are at
/// most.
const INSERTED_IN: u64 = 128;
const INSERTED_AT_ONCE: usize = 64;
/// The bytes of an inserted call's order.
pub(crate) const INSERTED_BYTES: u64 = INSERTED_IN + 8 * INSERTED_AT_ONCE as u64;

/// The times for which threads in code that is to be changed or freed run alone in one stop: most threads leave
/// the code in the first of them.
pub(crate) const ALONE: [Duration; 6] = [
    Duration::from_micros(10),
    Duration::from_micros(40),
    Duration::from_micros(80),
    Duration::from_micros(160),
    Duration::from_micros(320),
    Duration::from_micros(640),
];

/// The number of passes over children of the target that still have the attachment's memory.
const GENERATIONS: usize = 8;

/// Undoes all changes of a process, and of the children that it has forked since. Tries for `patience` to
/// free the memory.
pub(crate) fn restore(pid: i32, patience: Duration) -> Result<Restored, Error> {
    let Ok(process) = Process::open(pid) else { return Ok(Restored::default()) };
    let Some(found) = Found::in_target(&process)? else { return Ok(Restored::default()) };
    let mut restored = one(&process, patience)?;
    // A child may have forked another child before it was restored.
    for _ in 0..GENERATIONS {
        let children = others(pid, &found.name);
        if children.is_empty() {
            break;
        }
        let mut left = 0;
        for child in children {
            if let Ok(process) = Process::open(child) {
                left += one(&process, patience)?.bytes_left;
            }
        }
        if left > 0 {
            restored.bytes_left += left;
            break;
        }
    }
    Ok(restored)
}

/// Other processes that have memory of the same attachment; empty if the attachment's name is not known.
fn others(pid: i32, name: &str) -> Vec<i32> {
    if name.is_empty() {
        return Vec::new();
    }
    let mut others = all_but(pid);
    others.retain(|other| String::from_utf8_lossy(&maps_of(*other)).contains(name));
    others
}

/// Other processes that use the memory of this one: a child of `vfork` until it runs another program, or the
/// parent of this process if it is such a child. Its threads are not stopped when those of this process are.
fn company(process: &Process) -> Vec<i32> {
    let mut others = all_but(process.pid());
    others.retain(|other| share_memory(process.via(), *other));
    others
}

fn all_but(pid: i32) -> Vec<i32> {
    let Ok(list) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = list.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|other| *other != pid).collect()
}

fn one(process: &Process, patience: Duration) -> Result<Restored, Error> {
    let mut waited = Waited::begin();
    let mut restored = Restored::default();
    let mut gadgets = None;
    let mut wait = Duration::from_millis(1);
    loop {
        let result = match &gadgets {
            Some(gadgets) => traced(|| attempt(process, gadgets)),
            None => process.maps().and_then(|maps| {
                let found = gadgets.insert(Gadgets::find(process, &maps)?);
                traced(|| attempt(process, found))
            }),
        };
        if !process.identity.lives() {
            // The process has ended, so its memory is gone.
            return Ok(Restored { bytes_left: 0, ..restored });
        }
        match result {
            Ok(once) => {
                restored.and(once);
                // A system call that the killed process had started in a thread may have made a mapping after
                // the last check.
                let is_done =
                    restored.bytes_left == 0 && Found::in_target(process).is_ok_and(|found| found.is_none());
                if is_done || restored.bytes_left > 0 && waited.time() > patience {
                    return Ok(restored);
                }
            }
            // Meanwhile a child has begun another program, which may not have its C library yet, or is about to
            // end.
            Err(_) if Found::in_target(process).is_ok_and(|found| found.is_none()) => {
                return Ok(Restored { bytes_left: 0, ..restored });
            }
            // An error may come from another process that restores the target at the same time, so restoring
            // is tried again.
            Err(error) if waited.time() > patience => return Err(error),
            Err(_) => {}
        }
        std::thread::sleep(wait);
        wait = (wait * 2).min(Duration::from_millis(50));
    }
}

/// Restores everything in one stop. If threads execute in the memory that is to be freed, the memory stays, and
/// the result says how much it is.
fn attempt(process: &Process, gadgets: &Gadgets) -> Result<Restored, Error> {
    let Some(found) = Found::in_target(process)? else { return Ok(Restored::default()) };
    // A thread that waits for its child of `vfork` does not stop, so once all threads have stopped there is no
    // such child that is not among these.
    let company = company(process);
    let mut stopped = Stopped::all(process)?;
    let is_unwinder = |record: &Record| matches!(record, Record::Unwinder { .. });
    let put_back_now = put_back(process, found.records.iter().filter(|record| !is_unwinder(record)))?;
    let mut within = within(process, &found, &stopped)?;
    let mut moments = ALONE.into_iter();
    loop {
        return_addresses(process, &found)?;
        // The functions that throw or unwind are restored only if no thread stands in a trampoline of another
        // function: such a thread may be about to change its return address, which an exception could not
        // pass once these functions are restored. Threads in the trampolines of these functions themselves do
        // not count.
        if within.iter().all(|(_, place)| is_harmless(&found.records, *place)) {
            put_back(process, found.records.iter().filter(|record| is_unwinder(record)))?;
        }
        let Some(alone) = moments.next().filter(|_| !within.is_empty()) else { break };
        // No thread enters the code any more, so those that are in it leave it soon, if they get a processor.
        let mut ids: Vec<i32> = within.iter().map(|(id, _)| *id).collect();
        ids.dedup();
        stopped.let_run(process, &ids, alone)?;
        within = self::within(process, &found, &stopped)?;
    }
    let bytes = found.mappings.iter().map(|mapping| mapping.end - mapping.begin).sum();
    let result = |stopped: Stopped, bytes_left| {
        let changes = put_back_now.len();
        Restored { changes, put_back: put_back_now, bytes_left, stopped: stopped.released() }
    };
    let has_company = company.into_iter().any(|other| share_memory(process.via(), other));
    if !within.is_empty() || is_calling(process, &found, &stopped)? || has_company {
        return Ok(result(stopped, bytes));
    }
    let Some(thread) = worker(process, &stopped, &process.maps()?) else { return Ok(result(stopped, bytes)) };
    for number in &found.open {
        gadgets.call(process, thread, (libc::SYS_close, [*number, 0, 0, 0, 0, 0]), &[])?;
    }
    // The journal, which is at the lowest address of the data, is removed last, so that another process can
    // complete this if it is interrupted.
    let (code, data): (Vec<&Mapping>, Vec<&Mapping>) =
        found.mappings.iter().partition(|mapping| mapping.path.contains("-code"));
    let code = code.iter().map(|mapping| (mapping.begin, mapping.end));
    for (begin, end) in code.chain(joined(&data).into_iter().rev()) {
        gadgets.call(process, thread, (libc::SYS_munmap, [begin, end - begin, 0, 0, 0, 0]), &[])?;
    }
    Ok(result(stopped, 0))
}

/// The places in inserted code at which threads stand, or continue when a signal handler returns, each with
/// the thread. A thread of which that cannot be found out counts as one that stands there.
fn within(process: &Process, found: &Found, stopped: &Stopped) -> Result<Vec<(i32, u64)>, Error> {
    let registers = stopped.positions()?;
    let stacks = Stacks::of(process, &registers);
    let mut within = Vec::new();
    for (thread, registers) in stopped.threads.iter().zip(&registers) {
        let anywhere = || found.mappings.iter().map(|mapping| mapping.begin).collect();
        let mut places = stacks.interrupted(registers).unwrap_or_else(anywhere);
        places.push(registers.rip);
        places.retain(|place| found.mappings.iter().any(|mapping| mapping.has(*place)));
        within.extend(places.into_iter().map(|place| (thread.id, place)));
    }
    Ok(within)
}

fn is_harmless(records: &[Record], place: u64) -> bool {
    records
        .iter()
        .any(|record| matches!(record, Record::Harmless { begin, end } if (*begin..*end).contains(&place)))
}

/// The ranges that neighbouring mappings, in the order of their addresses, cover together.
fn joined(mappings: &[&Mapping]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for mapping in mappings {
        match joined.last_mut() {
            Some((_, end)) if *end == mapping.begin => *end = mapping.end,
            _ => joined.push((mapping.begin, mapping.end)),
        }
    }
    joined
}

/// A stopped thread that can run system calls: its stack must be the one that the kernel or the C library
/// gave it.
pub(crate) fn worker<'a>(
    process: &Process,
    stopped: &'a Stopped,
    maps: &[Mapping],
) -> Option<&'a crate::tracer::Thread> {
    stopped.threads.iter().filter(|thread| thread.is_free()).find(|thread| {
        let Ok(registers) = thread.registers() else { return false };
        let Some(stack) = maps.iter().find(|mapping| mapping.has(registers.rsp)) else { return false };
        // A thread's own stack has its thread block at its end; a fiber's has not. The stack must have 16 KiB
        // below the stack pointer.
        let is_own = stack.path == "[stack]" || stack.has(registers.fs_base);
        let has_room = registers.rsp - stack.begin > 16 << 10;
        // The thread must belong to the process itself, and not to a child of `vfork`.
        is_own && has_room && process.identity.lives()
    })
}

/// Restores bytes that still have the changed value, and returns their addresses; bytes that another program has
/// changed since are not touched.
fn put_back<'a>(
    process: &Process,
    records: impl DoubleEndedIterator<Item = &'a Record>,
) -> Result<Vec<u64>, Error> {
    let mut restored = Vec::new();
    for record in records.rev() {
        let (Record::Bytes { address, old, new } | Record::Unwinder { address, old, new }) = record else {
            continue;
        };
        let mut now = vec![0; new.len()];
        // If the library was unloaded, its changed code is gone, and the read fails.
        if process.read(*address, &mut now).is_ok() && now == *new && new != old {
            process
                .write(*address, old)
                .map_err(|error| Error::of("cannot write the target's code", error))?;
            restored.push(*address);
        }
    }
    Ok(restored)
}

/// Restores the return addresses of calls under way on the stacks.
fn return_addresses(process: &Process, found: &Found) -> Result<(), Error> {
    let leave = found.records.iter().filter_map(|record| match record {
        Record::Leave { address } => Some(*address),
        _ => None,
    });
    let leave: Vec<u64> = leave.collect();
    let Some(table) = found.table.filter(|_| !leave.is_empty()) else { return Ok(()) };
    let mut bytes = vec![0; TABLE_BYTES as usize];
    process.read(table, &mut bytes).map_err(|error| Error::of("cannot read the calls under way", error))?;
    for entry in bytes.chunks_exact(ENTRY_BYTES as usize) {
        let word = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("8 bytes"));
        let (slot, back) = (word(0), word(8));
        if slot != 0 && process.read_word(slot).is_ok_and(|now| leave.contains(&now)) {
            process
                .write(slot, &back.to_le_bytes())
                .map_err(|error| Error::of("cannot write the target's stack", error))?;
        }
    }
    Ok(())
}

/// Whether an ordered or inserted call is under way, so that a thread will return into inserted code.
fn is_calling(process: &Process, found: &Found, stopped: &Stopped) -> Result<bool, Error> {
    for record in &found.records {
        let is_under_way = match record {
            Record::Order { address } => process.read_word(*address).is_ok_and(|state| state == UNDER_WAY),
            Record::Inserted { address } => {
                let mut bytes = [0; 8 * INSERTED_AT_ONCE];
                // After `exec` there is no memory, and no call.
                let is_read = process.read(*address + INSERTED_IN, &mut bytes).is_ok();
                let has = |thread: u64| bytes.chunks_exact(8).any(|word| *word == thread.to_le_bytes());
                // A child has a copy of this memory, and not the threads that made calls when it was forked.
                let mut threads = stopped.threads.iter().filter(|_| is_read);
                threads.try_fold(false, |found, thread| Ok(found || has(thread.position()?.fs_base)))?
            }
            _ => false,
        };
        if is_under_way {
            return Ok(true);
        }
    }
    Ok(false)
}
