//! The queue of messages that were received and not handled yet.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, channel};

use lsp_server::{Message, Notification, RequestId};
use serde_json::Value;

/// A received message.
#[derive(Debug)]
pub(super) enum Incoming {
    Message(Message),
    /// A request that was cancelled before its turn came.
    Cancelled(RequestId),
    /// A message that can't be read, and why.
    Malformed(String),
}

/// A queue of messages in the order of their arrival.
pub(super) struct Inbox {
    arrived: Receiver<Incoming>,
    waiting: VecDeque<Incoming>,
}

/// After this many malformed messages in a row the connection is considered broken.
const MALFORMED_MAX: usize = 1000;

impl Inbox {
    /// Starts a thread that reads standard input.
    pub(super) fn of_standard_input() -> Inbox {
        let (sender, arrived) = channel();
        std::thread::spawn(move || {
            let mut input = io::stdin().lock();
            let mut malformed = 0;
            while malformed < MALFORMED_MAX {
                let incoming = match Message::read(&mut input) {
                    Ok(Some(message)) => {
                        malformed = 0;
                        Incoming::Message(message)
                    }
                    // If the message has the right length, the next frame follows it; otherwise the next line
                    // may be a header.
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        malformed += 1;
                        Incoming::Malformed(error.to_string())
                    }
                    Ok(None) | Err(_) => return,
                };
                if sender.send(incoming).is_err() {
                    return;
                }
            }
        });
        Inbox::new(arrived)
    }

    fn new(arrived: Receiver<Incoming>) -> Inbox {
        Inbox { arrived, waiting: VecDeque::new() }
    }

    /// The next message; `None` at the end of the input. `idle` is called if no message waits.
    pub(super) fn next(&mut self, idle: impl FnOnce()) -> Option<Incoming> {
        self.take_all();
        if self.waiting.is_empty() {
            idle();
            self.waiting.push_back(self.arrived.recv().ok()?);
            self.take_all();
        }
        self.waiting.pop_front()
    }

    fn take_all(&mut self) {
        while let Ok(incoming) = self.arrived.try_recv() {
            match &incoming {
                Incoming::Message(Message::Notification(n)) if n.method == "$/cancelRequest" => {
                    self.cancel(n.clone())
                }
                _ => self.waiting.push_back(incoming),
            }
        }
    }

    /// Marks the request as cancelled if it still waits in the queue. A request that was answered already is
    /// no error.
    fn cancel(&mut self, notification: Notification) {
        let id: Option<RequestId> = match &notification.params["id"] {
            Value::Number(number) => number.as_i64().and_then(|n| i32::try_from(n).ok()).map(RequestId::from),
            Value::String(text) => Some(RequestId::from(text.clone())),
            _ => None,
        };
        for incoming in &mut self.waiting {
            if let Incoming::Message(Message::Request(request)) = incoming
                && Some(&request.id) == id.as_ref()
            {
                *incoming = Incoming::Cancelled(request.id.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsp_server::Request;
    use serde_json::json;

    #[test]
    fn a_request_that_waits_can_be_cancelled_and_nothing_else() {
        let (sender, arrived) = channel();
        let send = |message: Message| sender.send(Incoming::Message(message)).unwrap();
        let request = |id: i32| Request::new(id.into(), "m".into(), json!(null)).into();
        (1..=3).for_each(|id| send(request(id)));
        let cancel = |id: Value| Notification::new("$/cancelRequest".into(), json!({ "id": id })).into();
        [json!(2), json!(77), json!("x"), json!(1.5), json!(null)]
            .into_iter()
            .for_each(|id| send(cancel(id)));
        drop(sender);
        let mut inbox = Inbox::new(arrived);
        let mut seen = Vec::new();
        while let Some(incoming) = inbox.next(|| ()) {
            seen.push(match incoming {
                Incoming::Message(Message::Request(request)) => request.id.to_string(),
                Incoming::Cancelled(id) => format!("cancelled {id}"),
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(seen, ["1", "cancelled 2", "3"]);
    }

    #[test]
    fn it_is_idle_only_when_nothing_waits() {
        let (sender, arrived) = channel();
        let change =
            || Incoming::Message(Notification::new("textDocument/didChange".into(), json!({})).into());
        (0..500).for_each(|_| sender.send(change()).unwrap());
        let mut inbox = Inbox::new(arrived);
        let mut idle = 0;
        (0..500).for_each(|_| assert!(inbox.next(|| idle += 1).is_some()));
        assert_eq!(idle, 0, "500 keys, and not one check between them");
        drop(sender);
        assert!(inbox.next(|| idle += 1).is_none());
        assert_eq!(idle, 1);
    }
}
