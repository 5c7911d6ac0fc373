//! The ends of a running network as channels, for tests that feed and read it.

use std::sync::mpsc::{Receiver, Sender, channel};

use thalweg_exec::{In, Out, Runtime, TaskSpec};
use thalweg_net::record::Record;

/// Feeds the network from a channel, until its sender is dropped; another channel receives the output.
pub(crate) fn channels(
    runtime: &Runtime,
    mut input: Out<Record>,
    mut output: In<Record>,
) -> (Sender<Record>, Receiver<Record>) {
    let (sent, records) = channel();
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        for record in records {
            blocking.push(&mut input, record).unwrap();
        }
    });
    let (given, received) = channel();
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        while let Some(record) = blocking.pop(&mut output) {
            given.send(record).unwrap();
        }
    });
    (sent, received)
}
