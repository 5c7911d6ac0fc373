//! Why a dispatch ended.

/// Why a task stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An input that the task popped in this dispatch had nothing more (`pop` or `next_ready` said `None`).
    /// It runs again when one of those that were empty has messages or ends.
    InputEmpty,
    /// An output that the task pushed to (or asked for room) in this dispatch was full. It runs again when
    /// one of those has room.
    OutputFull,
    /// The quantum is spent: the task runs again after the other ready tasks of its worker.
    QuantumSpent,
    /// The task is done: it is dropped, and with it its ports close.
    Ended,
}
