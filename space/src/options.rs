//! What a space and its elements are to be like.

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
    /// What happens when it is full.
    pub policy: Policy,
}

impl Default for ElementOptions {
    /// 16 blocks of 64 KiB, overwriting the oldest.
    fn default() -> ElementOptions {
        ElementOptions { block_bytes: 64 << 10, block_count: 16, policy: Policy::Overwrite }
    }
}

impl ElementOptions {
    /// Refuses what no element can be like.
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

/// How to make a space.
#[derive(Clone, Debug, Default)]
pub struct SpaceOptions {
    /// Its name: the directory is called `NAME-PID`. Empty: the program's name.
    pub name: String,
    /// The directory to make it in; default: see [`default_parent`](crate::default_parent).
    pub parent: Option<PathBuf>,
    /// The exact directory instead, which must not exist or be empty.
    pub path: Option<PathBuf>,
    /// The directory of a session to join, which is made if there is none; a name without a slash is below `parent`.
    /// Default: `$THALWEG_SESSION`, if there is neither `parent` nor `path`. See [`crate::reader::Session`].
    pub session: Option<PathBuf>,
    /// Size and policy of elements, unless a writer asks for its own.
    pub element: ElementOptions,
    /// The command line to show; empty: this process's own.
    pub command: String,
    /// `clean` leaves the space alone unless it is asked to remove it.
    pub keep: bool,
}
