//! A stage of a chain, for several tests.

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

/// Applies a function to each message.
pub(crate) struct Map<F> {
    pub(crate) input: In<u64>,
    pub(crate) output: Out<u64>,
    pub(crate) apply: F,
}

impl<F: FnMut(u64) -> u64 + Send + 'static> Task for Map<F> {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.output.room(cx) == 0 {
                return Stop::OutputFull;
            }
            match self.input.pop(cx) {
                Some(message) => self.output.push(cx, (self.apply)(message)).unwrap(),
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}
