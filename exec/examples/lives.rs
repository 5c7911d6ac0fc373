//! Makes tasks that live briefly: a task makes others, one after the other, each with a stream to read and
//! one to write; each passes one message on and ends. To count the cost of such a task in a mode, run the
//! example under `valgrind --tool=callgrind` with two numbers of tasks, and divide the difference of the
//! counted instructions by the difference of the numbers.
//!
//! usage: lives TASKS none|off|metrics|full

mod measured;

use thalweg_exec::{Context, In, Out, Ports, Stop, StreamSpec, Task, TaskSpec};

use measured::Measured;

/// Passes one message on.
struct Brief {
    input: In<u64>,
    output: Out<u64>,
}

impl Task for Brief {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        match self.input.pop(cx) {
            Some(message) => self.output.push(cx, message).map_or(Stop::OutputFull, |()| Stop::Ended),
            None if self.input.ended() => Stop::Ended,
            None => Stop::InputEmpty,
        }
    }
}

/// Makes a task for each message; the message comes back through that task.
struct Makes {
    left: u64,
    back: Option<In<u64>>,
}

impl Task for Makes {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if let Some(back) = &mut self.back {
            match back.pop(cx) {
                Some(_) => self.back = None,
                None if back.ended() => self.back = None,
                None => return Stop::InputEmpty,
            }
        }
        if self.left == 0 {
            return Stop::Ended;
        }
        self.left -= 1;
        let (mut there, input) = cx.stream(StreamSpec::default());
        let (output, mut back) = cx.stream(StreamSpec::default());
        there.push(cx, self.left).expect("an empty stream has room");
        cx.attach_output(&mut there);
        cx.spawn(TaskSpec::default(), Brief { input, output });
        // A `pop` from an empty stream makes the task wait for the stream's next message.
        assert_eq!(back.pop(cx), None);
        self.back = Some(back);
        Stop::InputEmpty
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tasks, mode] = &arguments[..] else { panic!("usage: lives TASKS none|off|metrics|full") };
    let left: u64 = tasks.parse().expect("a number of tasks");
    let measured = Measured::new("lives", mode);
    let runtime = &measured.runtime;
    runtime.spawn(TaskSpec::default(), Makes { left, back: None });
    measured.end();
}
