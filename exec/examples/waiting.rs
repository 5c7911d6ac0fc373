//! Measures the memory of tasks that live at once, each with a stream: a chain of tasks that all wait.
//! Prints the bytes a task, allocated and in the files of the space.
//!
//! usage: waiting TASKS none|off|metrics|full
#![allow(clippy::print_stdout)]

mod measured;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_exec::{Context, In, Out, Ports, Stop, StreamSpec, Task, TaskSpec};

use measured::Measured;

/// Waits for a message that never comes.
struct Wait {
    input: In<u64>,
    output: Out<u64>,
    ran: Arc<AtomicU64>,
    is_new: bool,
}

impl Task for Wait {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.output);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if std::mem::take(&mut self.is_new) {
            self.ran.fetch_add(1, Ordering::Relaxed);
        }
        match self.input.pop(cx) {
            Some(message) => self.output.push(cx, message).map_or(Stop::OutputFull, |()| Stop::QuantumSpent),
            None if self.input.ended() => Stop::Ended,
            None => Stop::InputEmpty,
        }
    }
}

/// Makes the tasks, and looks at the memory when all have run.
struct Make {
    /// The start of the chain: while it is open, all tasks wait.
    _first: Out<u64>,
    last: Option<In<u64>>,
    left: u64,
    total: u64,
    ran: Arc<AtomicU64>,
    before: Option<u64>,
    space: Option<PathBuf>,
}

impl Task for Make {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let before = *self.before.get_or_insert_with(|| bytes_in_use(self.space.as_deref()));
        for _ in 0..self.left.min(1_000) {
            self.left -= 1;
            let (output, next) = cx.stream(StreamSpec::default());
            let input = self.last.replace(next).expect("a chain begins with a stream");
            cx.spawn(TaskSpec::default(), Wait { input, output, ran: self.ran.clone(), is_new: true });
        }
        if self.ran.load(Ordering::Relaxed) < self.total {
            return Stop::QuantumSpent;
        }
        let bytes = bytes_in_use(self.space.as_deref()).saturating_sub(before);
        println!("{:.1} bytes a task", bytes as f64 / self.total as f64);
        Stop::Ended
    }
}

/// The memory in use: allocated and not freed, slabs that do not come from the allocator, and the files of
/// the space.
fn bytes_in_use(space: Option<&Path>) -> u64 {
    // SAFETY: the call only reads the allocator's own counts.
    let allocated = unsafe { libc::mallinfo2() };
    let files = space.and_then(|path| std::fs::read_dir(path).ok()).into_iter().flatten().flatten();
    let blocks = files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum::<u64>();
    (allocated.uordblks + allocated.hblkhd + thalweg_exec::region_bytes()) as u64 + blocks
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tasks, mode] = &arguments[..] else { panic!("usage: waiting TASKS none|off|metrics|full") };
    let total: u64 = tasks.parse().expect("a number of tasks");
    let measured = Measured::new("waiting", mode);
    let runtime = &measured.runtime;
    let (first, last) = runtime.stream(StreamSpec::default());
    let ran = Arc::new(AtomicU64::new(0));
    runtime.spawn(
        TaskSpec::default(),
        Make {
            _first: first,
            last: Some(last),
            left: total,
            total,
            ran,
            before: None,
            space: measured.space().map(Path::to_owned),
        },
    );
    measured.end();
}
