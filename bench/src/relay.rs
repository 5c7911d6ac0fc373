//! A stage of a chain.

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

/// Processes each message that it reads, and passes on the result.
pub(crate) struct Relay<T: Send + 'static, F> {
    input: In<T>,
    output: Out<T>,
    work: F,
}

impl<T: Send + 'static, F> Relay<T, F> {
    pub(crate) fn new(input: In<T>, output: Out<T>, work: F) -> Relay<T, F> {
        Relay { input, output, work }
    }
}

impl<T: Send + 'static, F: FnMut(T) -> T + Send + 'static> Task for Relay<T, F> {
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
                Some(message) => {
                    let message = (self.work)(message);
                    assert!(self.output.push(cx, message).is_ok(), "there was room");
                }
                None if self.input.ended() => return Stop::Ended,
                None => return Stop::InputEmpty,
            }
        }
        Stop::QuantumSpent
    }
}
