//! The message that a component works on.

/// The message that a component works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) stream: u64,
    pub(crate) index: u64,
}
