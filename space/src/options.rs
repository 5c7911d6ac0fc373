//! Options of a space and of its elements.

use crate::element::Policy;
use crate::error::Error;
use crate::layout::block;
use std::path::PathBuf;

/// Size and policy of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementOptions {
    /// Bytes of a block: a power of two, 512 bytes to 64 MiB.
    pub block_bytes: usize,
    /// How many blocks: at least 2.
    pub block_count: usize,
    /// What happens to events when the element is full.
    pub policy: Policy,
}

impl Default for ElementOptions {
    /// 16 blocks of 64 KiB, overwriting the oldest.
    fn default() -> ElementOptions {
        ElementOptions { block_bytes: 64 << 10, block_count: 16, policy: Policy::Overwrite }
    }
}

impl ElementOptions {
    /// Returns an error for options that no element can have.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let ElementOptions { block_bytes, block_count, .. } = *self;
        if !block_bytes.is_power_of_two() || !(block::BYTES_MIN..=block::BYTES_MAX).contains(&block_bytes) {
            return Err(Error::new(format!(
                "blocks of {block_bytes} bytes: a block is a power of two from {} bytes to {} bytes",
                block::BYTES_MIN,
                block::BYTES_MAX
            )));
        }
        if !(2..=1 << 24).contains(&block_count) {
            return Err(Error::new(format!("{block_count} blocks: an element has 2 to 16777216")));
        }
        Ok(())
    }
}

/// Options of a new space.
#[derive(Clone, Debug, Default)]
pub struct SpaceOptions {
    /// The space's name: its directory is called `NAME-PID`. An empty name stands for the program's name.
    pub name: String,
    /// The directory in which the space is made; default: see [`default_parent`](crate::default_parent).
    pub parent: Option<PathBuf>,
    /// The exact directory of the space, instead of `name` and `parent`. The directory must be empty or not
    /// exist.
    pub path: Option<PathBuf>,
    /// The directory of the session that the process joins, which is made if it does not exist; a name
    /// without a slash is below `parent`. Default: `$THALWEG_SESSION`, if there is neither `parent` nor
    /// `path`. See [`crate::reader::Session`].
    pub session: Option<PathBuf>,
    /// Size and policy of elements, unless a writer specifies its own.
    pub element: ElementOptions,
    /// The command line that observers display; empty: that of this process.
    pub command: String,
    /// Whether `clean` keeps the space unless it is asked to remove kept spaces.
    pub keep: bool,
}
