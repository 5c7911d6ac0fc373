//! The identity of a space: a file which names the process that made the space, and when that process was
//! last alive.

use crate::clock::{Anchor, Clock};
use crate::directory::{IDENTITY, IDENTITY_HALF_MADE};
use crate::error::Error;
use crate::layout::{PAGE, VERSION, identity as layout};
use crate::map::{Fork, Map};
use crate::options::SpaceOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// The process that made a space, its machine, and the file that names the process and the machine.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The space's directory.
    pub(crate) path: PathBuf,
    /// The map of the identity's file.
    pub(crate) map: Arc<Map>,
    pub(crate) clock: Clock,
    pub(crate) pid: u32,
    /// When the process started, in clock ticks since boot.
    pub(crate) process_start: u64,
    /// Whether a thread is writing the second anchor; set by compare-exchange, cleared with release.
    anchoring: AtomicBool,
    /// When the second anchor was last written, in ticks.
    anchored: AtomicU64,
}

impl Identity {
    /// Creates the identity of a space of this process in the directory `path`. The identity's file is empty
    /// and has a temporary name.
    pub(crate) fn create(path: PathBuf, clock: Clock) -> Result<Identity, Error> {
        let pid = std::process::id();
        let process_start = crate::process::start_time(pid).unwrap_or(0);
        let map = Arc::new(Map::create(&path.join(IDENTITY_HALF_MADE), PAGE, Fork::Wipe)?);
        let (anchoring, anchored) = (AtomicBool::new(false), AtomicU64::new(clock.anchor().ticks));
        Ok(Identity { path, map, clock, pid, process_start, anchoring, anchored })
    }

    /// Renames the file to its final name: a reader finds either no identity or a complete one, even if this
    /// process is killed.
    pub(crate) fn publish(&self) -> Result<(), Error> {
        let (new, named) = (self.path.join(IDENTITY_HALF_MADE), self.path.join(IDENTITY));
        std::fs::rename(&new, &named).map_err(|e| Error::io("name", &named, e))
    }

    /// Records in the second anchor that the process is alive now; costs three readings of clocks.
    pub(crate) fn note_alive(&self) {
        self.anchored.store(0, Ordering::Relaxed);
        self.refresh_anchor();
    }

    /// The space's UUID.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let half = |at| self.map.word(at).load(Ordering::Relaxed);
        let both = u128::from(half(layout::UUID + 8)) << 64 | u128::from(half(layout::UUID));
        both.to_le_bytes()
    }

    /// Announces the writer of this number to readers. The element of the writer must be complete.
    pub(crate) fn publish_writers(&self, number: u32) {
        self.map.word(layout::WRITERS).fetch_max(u64::from(number), Ordering::Release);
        self.refresh_anchor();
    }

    /// Returns an error in the child of a fork. The check reads the identity and makes no system call,
    /// because the kernel wipes the maps of a child.
    pub(crate) fn check_fork(&self) -> Result<(), Error> {
        if self.map.word(layout::MAGIC).load(Ordering::Relaxed) == layout::MAGIC_VALUE {
            return Ok(());
        }
        Err(Error::new(format!(
            "this process is a fork of process {}, which made the space {}: make a space of its own",
            self.pid,
            self.path.display()
        )))
    }

    /// Writes the contents of the file; [`Identity::publish`] gives it its final name.
    pub(crate) fn write(&self, options: &SpaceOptions, name: &str) {
        let map = &self.map;
        let put = |at, value: u64| map.word(at).store(value, Ordering::Relaxed);
        put(layout::VERSION, u64::from(VERSION) | (PAGE as u64) << 32);
        put_bytes(map, layout::UUID, crate::process::uuid());
        put(layout::PID, u64::from(self.pid));
        put(layout::PROCESS_START, self.process_start);
        put_bytes(map, layout::BOOT, crate::process::boot_id());
        put(layout::CLOCK, self.clock.kind() as u64);
        put(layout::FREQUENCY, self.clock.hz().round() as u64);
        self.write_anchor(layout::ANCHOR_FIRST, &self.clock.anchor());
        put(layout::STATE, 1);
        put(layout::FLAGS, u64::from(options.keep));
        map.put_text(layout::NAME, layout::NAME_BYTES, name);
        map.put_text(layout::HOST, layout::HOST_BYTES, &crate::process::host());
        let command = if options.command.is_empty() { command_line() } else { options.command.clone() };
        map.put_text(layout::COMMAND, layout::COMMAND_BYTES, &command);
        map.word(layout::MAGIC).store(layout::MAGIC_VALUE, Ordering::Release);
    }

    fn write_anchor(&self, at: usize, anchor: &Anchor) {
        for (index, value) in [anchor.ticks, anchor.monotonic_ns, anchor.real_ns].into_iter().enumerate() {
            self.map.word(at + 8 * index).store(value, Ordering::Relaxed);
        }
    }

    /// Updates the second anchor, at most once a second and by one thread at a time.
    pub(crate) fn refresh_anchor(&self) {
        let age = self.clock.now().saturating_sub(self.anchored.load(Ordering::Relaxed));
        if age < self.clock.hz() as u64 {
            return;
        }
        if self.anchoring.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        let anchor = self.clock.read_anchor();
        let version = self.map.word(layout::ANCHOR_SECOND);
        let odd = version.load(Ordering::Relaxed) | 1;
        version.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        self.write_anchor(layout::ANCHOR_SECOND + 8, &anchor);
        version.store(odd + 1, Ordering::Release);
        self.anchored.store(anchor.ticks, Ordering::Relaxed);
        self.anchoring.store(false, Ordering::Release);
    }
}

fn put_bytes(map: &Map, at: usize, bytes: [u8; 16]) {
    for (index, half) in bytes.chunks(8).enumerate() {
        let word = u64::from_le_bytes(half.try_into().expect("8 bytes"));
        map.word(at + 8 * index).store(word, Ordering::Relaxed);
    }
}

fn command_line() -> String {
    std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
