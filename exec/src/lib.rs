//! Tasks, streams and workers, which carry a network's messages.
//!
//! - A **task** is a state machine that runs to completion ([`Task`]): no stack, no future. A dispatch of a
//!   task reads up to a quantum of messages and returns why it stopped ([`Stop`]).
//! - A **stream** ([`Out`], [`In`]) is a bounded ring with one writer and one reader. Messages that a task
//!   pushed become visible at the end of its dispatch, in one batch. A stream never holds more messages than
//!   its capacity.
//! - A **worker** is a thread with its own queue of ready tasks. The [`Mapper`] decides which worker a task
//!   runs on. A worker without work spins a little, then sleeps: an idle runtime uses no processor time.
//! - A **blocking task** ([`Runtime::spawn_blocking`]) has a thread of its own and uses the same streams: it
//!   is meant for sources and sinks that access files, sockets or terminals.
//!
//! ```
//! use thalweg_exec::{Context, In, Options, Out, Ports, Runtime, Stop, StreamSpec, Task, TaskSpec};
//!
//! struct Double {
//!     input: In<u64>,
//!     output: Out<u64>,
//! }
//!
//! impl Task for Double {
//!     fn attach(&mut self, ports: &mut Ports<'_>) {
//!         ports.input(&mut self.input);
//!         ports.output(&mut self.output);
//!     }
//!
//!     fn run(&mut self, cx: &mut Context<'_>) -> Stop {
//!         for _ in 0..cx.quantum() {
//!             if self.output.room(cx) == 0 {
//!                 return Stop::OutputFull;
//!             }
//!             match self.input.pop(cx) {
//!                 Some(number) => self.output.push(cx, 2 * number).expect("there was room"),
//!                 None if self.input.ended() => return Stop::Ended,
//!                 None => return Stop::InputEmpty,
//!             }
//!         }
//!         Stop::QuantumSpent
//!     }
//! }
//!
//! let runtime = Runtime::new(Options { workers: 2, ..Options::default() })?;
//! let (mut numbers, input) = runtime.stream(StreamSpec::default());
//! let (output, mut doubled) = runtime.stream(StreamSpec::default());
//! runtime.spawn(TaskSpec { one_to_one: true, ..TaskSpec::default() }, Double { input, output });
//! runtime.spawn_blocking(TaskSpec::default(), move |task| {
//!     for number in 1..=1000 {
//!         task.push(&mut numbers, number).expect("the reader lives");
//!     }
//! });
//! let (sum, result) = std::sync::mpsc::channel();
//! runtime.spawn_blocking(TaskSpec::default(), move |task| {
//!     let mut total = 0;
//!     while let Some(number) = task.pop(&mut doubled) {
//!         total += number;
//!     }
//!     sum.send(total).expect("the receiver lives");
//! });
//! let summary = runtime.join()?;
//! assert_eq!(summary.tasks, 3);
//! assert_eq!(result.recv()?, 1_001_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod affinity;
mod dispatch;
mod error;
mod fault;
mod instructions;
#[cfg(all(test, loom))]
mod models;
mod parker;
mod procfs;
mod ring;
mod runtime;
mod shared;
mod slab;
mod stop;
mod sync;
mod task;
mod telemetry;
mod wake;

pub use thalweg_space::{NameRef, SiteRef};

pub use affinity::{barrier_everywhere, register_barrier};
pub use error::Error;
pub use runtime::blocking::Blocking;
pub use runtime::inputs::Inputs;
pub use runtime::moves::{Former, Move, TaskMover};
pub use runtime::parking::Workers;
pub use runtime::ports::{DeepSize, In, Out, StreamSpec};
pub use runtime::{Runtime, Summary};
pub use shared::ends::{FAILURES_KEPT, Failure};
pub use shared::mapper::Mapper;
pub use shared::options::Options;
pub use shared::settings::{Order, Settings};
pub use shared::spread::Spread;
pub use slab::region_bytes;
pub use stop::Stop;
pub use task::context::{Context, HandedOn, PassesTo, Ports, Progress, Task};
pub use task::placement::Placement;
pub use task::spec::{Replica, TaskId, TaskSpec};
pub use telemetry::Mode;
