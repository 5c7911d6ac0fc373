//! The process that made a space, as its identity names it.

use crate::clock::{Anchor, Clock, ClockKind};
use crate::error::Error;
use crate::file;
use crate::layout::{PAGE, identity};
use std::fs::File;
use std::path::Path;

/// A bit of the identity's flags: `clean` leaves the space alone unless it is asked to.
pub(crate) const FLAG_KEEP: u64 = 1;
/// A bit of the identity's flags: the directory holds an archive of the space, not the space itself.
pub(crate) const FLAG_ARCHIVE: u64 = 2;
/// A bit of the identity's flags: the process was alive when the archive was last written.
pub(crate) const FLAG_LIVED: u64 = 4;

/// The process that made a space.
#[derive(Clone, Debug)]
pub struct Info {
    /// Version of the layout.
    pub version: u32,
    /// The space's UUID.
    pub uuid: [u8; 16],
    /// The process.
    pub pid: u32,
    /// When the process started, in clock ticks since boot.
    pub process_start: u64,
    /// The machine's boot.
    pub boot_id: [u8; 16],
    /// The space's name.
    pub name: String,
    /// The machine's name.
    pub host: String,
    /// The command line.
    pub command: String,
    /// The clock of the space's events.
    pub clock: Clock,
    /// The latest time, in ticks, at which the process recorded that it was alive.
    pub lived_ticks: u64,
    /// Whether the process marked its orderly end.
    pub finished: bool,
    /// Whether `clean` keeps the space.
    pub keep: bool,
    /// Whether the directory holds an archive that lies outside the space's own directory. Only the recording
    /// process writes into an archive.
    pub archive: bool,
    /// Whether the directory holds an archive whose process was still alive at the last write, so that the
    /// end of the process is not in it.
    pub lived_on: bool,
    /// In a copy of a space of another machine, the largest error of the real times that the clock gives, in
    /// nanoseconds; `None` for the clock of this machine.
    pub clock_error_ns: Option<u64>,
    /// The process that fetches the copy, and its start; pid 0: no process does.
    fetcher: (u32, u64),
}

impl Info {
    /// Whether the process still runs on this machine, or, if the directory holds a copy of a space of another
    /// machine, whether it ran when the copy was last updated, and the copy is still updated. False for every
    /// other archive, whose process does not write its end there.
    pub fn is_alive(&self) -> bool {
        match self.archive {
            true => self.lived_on && crate::process::is_alive(self.fetcher.0, self.fetcher.1),
            false => crate::process::is_alive_here(self.boot_id, self.pid, self.process_start),
        }
    }

    /// Whether the process still runs on this machine, so that the system of this machine knows it.
    pub fn is_alive_here(&self) -> bool {
        !self.archive && self.is_alive()
    }
}

/// Reads the identity from its file, which is at `path`.
pub(super) fn read_info(identity_file: &File, path: &Path) -> Result<Info, Error> {
    let mut page = [0; PAGE];
    // The version of the second anchor is odd while the anchor is written; a few tries outlast any writing.
    for _ in 0..100 {
        file::read_exact_at(identity_file, path, &mut page, 0)?;
        let mut version = [0; 8];
        file::read_exact_at(identity_file, path, &mut version, identity::ANCHOR_SECOND as u64)?;
        if version == page[identity::ANCHOR_SECOND..][..8] && version[0] & 1 == 0 {
            break;
        }
        page[identity::ANCHOR_SECOND..][..8].fill(0);
    }
    file::check_magic(path, &page, identity::MAGIC_VALUE, "the identity")?;
    let word = |at| file::word(&page, at);
    let anchor = |at| Anchor { ticks: word(at), monotonic_ns: word(at + 8), real_ns: word(at + 16) };
    let kind = match word(identity::CLOCK) {
        1 => ClockKind::Tsc,
        2 => ClockKind::Monotonic,
        other => {
            return Err(Error::new(format!("{} is damaged: it names clock {other}", path.display())));
        }
    };
    let hz = word(identity::FREQUENCY);
    if !(1_000..=1_000_000_000_000).contains(&hz) {
        return Err(Error::new(format!("{} is damaged: its clock has {hz} Hz", path.display())));
    }
    let second = (word(identity::ANCHOR_SECOND) != 0).then(|| anchor(identity::ANCHOR_SECOND + 8));
    let first = anchor(identity::ANCHOR_FIRST);
    let clock = Clock::from_anchors(kind, hz as f64, first, second);
    let bytes = |at: usize| page[at..at + 16].try_into().expect("16 bytes");
    Ok(Info {
        version: word(identity::VERSION) as u32,
        uuid: bytes(identity::UUID),
        pid: word(identity::PID) as u32,
        process_start: word(identity::PROCESS_START),
        boot_id: bytes(identity::BOOT),
        name: file::text(&page, identity::NAME, identity::NAME_BYTES),
        host: file::text(&page, identity::HOST, identity::HOST_BYTES),
        command: file::text(&page, identity::COMMAND, identity::COMMAND_BYTES),
        clock,
        lived_ticks: second.map_or(first.ticks, |second| second.ticks.max(first.ticks)),
        finished: word(identity::STATE) == 2,
        keep: word(identity::FLAGS) & FLAG_KEEP != 0,
        archive: word(identity::FLAGS) & FLAG_ARCHIVE != 0,
        lived_on: word(identity::FLAGS) & FLAG_LIVED != 0,
        clock_error_ns: word(identity::CLOCK_ERROR).checked_sub(1),
        fetcher: (word(identity::FETCHER) as u32, word(identity::FETCHER_START)),
    })
}
