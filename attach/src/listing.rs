//! The list of processes that are attached to, and the end of attachments of other processes. This module has
//! `unsafe`, because it sends a signal.

use crate::claim::{Claim, Claimed, attached_by, end_holder};
use crate::error::Error;
use crate::memory::Found;
use crate::process::{Identity, Process, maps_of};
use crate::restore::{Restored, restore};
use std::time::{Duration, Instant};

/// The longest time to wait for the end of the attaching process.
const WAIT: Duration = Duration::from_secs(10);

/// A process that is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The id of the process that is attached to.
    pub pid: i32,
    /// The attaching process, if it still lives; `None` if it was killed and its changes were not undone yet.
    pub maker: Option<Identity>,
    /// The number of changed functions and variables.
    pub changes: usize,
    /// The size of the attachment's memory in the process, in bytes of address space.
    pub bytes: u64,
}

/// The processes that are attached to, as far as permissions allow reading them.
pub fn attached() -> Vec<Attached> {
    let Ok(list) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = list.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut found: Vec<Attached> = numbers.filter_map(one).collect();
    found.sort_by_key(|attached| attached.pid);
    found
}

fn one(pid: i32) -> Option<Attached> {
    String::from_utf8_lossy(&maps_of(pid)).contains(crate::memory::NAME).then_some(())?;
    let found = Found::in_target(&Process::open(pid).ok()?).ok()??;
    Some(Attached {
        pid,
        maker: found.maker.filter(Identity::lives),
        changes: found.changes(),
        bytes: found.mappings.iter().map(|mapping| mapping.end - mapping.begin).sum(),
    })
}

/// Ends an attachment: asks the attaching process to end, by a signal, or undoes its changes if that process
/// is gone.
///
/// # Errors
/// The process is not attached to, or permissions forbid it.
pub fn detach(pid: i32) -> Result<Restored, Error> {
    let process = Process::open(pid)?;
    let found = Found::in_target(&process)?;
    let changes = found.as_ref().map_or(0, Found::changes);
    let holder = match Claim::tried(process.identity)? {
        Claimed::By(Some(holder)) => holder,
        Claimed::By(None) => return Err(attached_by(process.identity, None)),
        Claimed::Ours(claim) => {
            let Some(found) = found else {
                return Err(Error::new(format!("process {pid} is not attached to")));
            };
            match found.maker.filter(|maker| !claim.is_everywhere && maker.lives()) {
                Some(maker) => maker.pid,
                None => return restore(pid, WAIT),
            }
        }
    };
    end_holder(process.identity, holder)?;
    let begin = Instant::now();
    while Found::in_target(&process)?.is_some() || is_claimed_by(process.identity, holder) {
        if begin.elapsed() > WAIT {
            return Err(Error::new(format!("process {holder}, which attached to {pid}, does not end")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Restored { changes, ..Restored::default() })
}

fn is_claimed_by(target: Identity, holder: i32) -> bool {
    matches!(Claim::tried(target), Ok(Claimed::By(Some(by))) if by == holder)
}
