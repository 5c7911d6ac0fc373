//! Why a dispatch ended.

/// Why a task stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An input of the task was empty in this dispatch (`pop` or `next_ready` returned `None`). The task runs
    /// again when one of the empty inputs has messages or ends.
    InputEmpty,
    /// An output that the task pushed to (or asked for room) in this dispatch was full. The task runs again
    /// when one of the full outputs has room.
    OutputFull,
    /// The quantum is spent: the task runs again after the other ready tasks of its worker.
    QuantumSpent,
    /// The task is done: it is dropped, and its ports close.
    Ended,
}
