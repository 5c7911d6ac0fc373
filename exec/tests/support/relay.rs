//! A task that passes on what it reads.

use thalweg_exec::{Context, In, Out, Ports, Stop, StreamSpec, Task, TaskSpec};

/// Writes each message as often as it should, and puts more of its kind behind itself when the first comes.
pub(crate) struct Relay<T: Send + 'static> {
    input: In<T>,
    output: Out<T>,
    times: u64,
    behind: u64,
    /// A message, and how often it is still to be written.
    held: Option<(T, u64)>,
}

impl<T: Copy + Send + 'static> Relay<T> {
    /// Writes each message once.
    pub(crate) fn new(input: In<T>, output: Out<T>) -> Relay<T> {
        Relay { input, output, times: 1, behind: 0, held: None }
    }

    /// Writes each message so many times, at least once.
    #[allow(dead_code, reason = "some tests only pass on")]
    pub(crate) fn times(self, times: u64) -> Relay<T> {
        Relay { times, ..self }
    }

    /// Unfolds into so many more.
    #[allow(dead_code, reason = "some tests only pass on")]
    pub(crate) fn unfolding(self, behind: u64) -> Relay<T> {
        Relay { behind, ..self }
    }

    fn unfold(&mut self, cx: &mut Context<'_>) {
        let (output, input) = cx.stream(StreamSpec::default());
        let behind = std::mem::replace(&mut self.output, output);
        cx.spawn(TaskSpec::default(), Relay::new(input, behind).unfolding(self.behind - 1));
        self.behind = 0;
    }
}

impl<T: Copy + Send + 'static> Task for Relay<T> {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            let (message, left) = match self.held.take() {
                Some(held) => held,
                None => match self.input.pop(cx) {
                    Some(message) => (message, self.times),
                    None if self.input.ended() => return Stop::Ended,
                    None => return Stop::InputEmpty,
                },
            };
            if self.output.push(cx, message).is_err() {
                self.held = Some((message, left));
                return Stop::OutputFull;
            }
            self.held = (left > 1).then_some((message, left - 1));
            if self.behind > 0 {
                self.unfold(cx);
            }
        }
        Stop::QuantumSpent
    }
}
