//! The reason why a task failed.

/// The reason why a task failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) panicked: bool,
}

impl Fault {
    /// The fault of a task that cannot go on, as the runtime found.
    pub(crate) fn found(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), panicked: false }
    }

    /// The task panicked.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Fault {
        Fault { message: message_of(panic), panicked: true }
    }
}

/// The message of a panic.
fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}
