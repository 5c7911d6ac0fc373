//! A task that passes on the messages that it reads.

use thalweg_exec::{Context, HandedOn, In, Out, PassesTo, Ports, Progress, Stop, StreamSpec, Task, TaskSpec};

/// Writes each message `times` times, and puts `behind` more relays behind itself when the first message
/// comes.
pub(crate) struct Relay<T: Send + 'static> {
    input: In<T>,
    output: Out<T>,
    times: u64,
    behind: u64,
    /// A message, and how many more times it must be written.
    held: Option<(T, u64)>,
    /// A counter from which the relay computes how many of the messages that are handed on to it it passes
    /// on.
    passed: u64,
}

impl<T: Copy + Send + 'static> Relay<T> {
    /// Writes each message once.
    pub(crate) fn new(input: In<T>, output: Out<T>) -> Relay<T> {
        Relay { input, output, times: 1, behind: 0, held: None, passed: 0 }
    }

    /// Makes the relay write each message `times` times, at least once.
    #[allow(dead_code, reason = "some tests only pass on")]
    pub(crate) fn times(self, times: u64) -> Relay<T> {
        Relay { times, ..self }
    }

    /// Makes the relay put `behind` more relays behind itself.
    #[allow(dead_code, reason = "some tests only pass on")]
    pub(crate) fn unfolding(self, behind: u64) -> Relay<T> {
        Relay { behind, ..self }
    }

    /// Whether each message is written once, and the relay holds no message.
    fn is_simple(&self) -> bool {
        self.times == 1 && self.behind == 0 && self.held.is_none()
    }

    /// Hands messages on to the next relay, if it waits for them.
    fn hand_on(&mut self, cx: &mut Context<'_>) -> Option<Stop> {
        let most = cx.hands_on(&self.input, &self.output).min(cx.quantum());
        if most == 0 {
            return None;
        }
        let count = self.input.upcoming(cx, most).len();
        self.input.hand_on(cx, count, &mut self.output)
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

    fn passes_to(&mut self, _: HandedOn<'_>) -> Option<PassesTo<'_>> {
        self.is_simple().then(|| self.output.passes_to())
    }

    /// Passes on all messages, or sometimes only some of them.
    fn work_on(&mut self, messages: HandedOn<'_>, _: Progress<'_>) -> usize {
        let count = messages.of::<T>().map_or(0, |messages| messages.len());
        self.passed = self.passed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(count as u64 | 1);
        match self.passed >> 60 {
            0 => 0,
            1 | 2 => count / 2,
            _ => count,
        }
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if self.is_simple()
            && let Some(stop) = self.hand_on(cx)
        {
            return stop;
        }
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
