//! The settings of a runtime: each is declared here and nowhere else.

use thalweg_space::{Adoption, Affects};

use crate::telemetry::Mode;

thalweg_space::settings! {
    /// The settings that can be changed while a runtime runs. `Settings::DECLARED` describes each setting;
    /// [`Options`](crate::Options) give the initial values of some.
    pub struct Settings {
        /// How much is recorded
        mode: {
            name: "monitor.mode",
            choices: &Mode::NAMES,
            default: Mode::Metrics as u64,
            adoption: Adoption::NextDispatch,
        },
        /// How many workers take part; others are parked
        workers: {
            name: "exec.workers",
            unit: "workers",
            min: 1,
            max: 4096,
            default: 1,
            adoption: Adoption::NextDispatch,
        },
        /// Messages that a dispatch takes at most
        quantum: {
            name: "exec.quantum",
            unit: "messages",
            min: 1,
            max: 1 << 20,
            default: 64,
            affects: Affects::Task,
            adoption: Adoption::NextDispatch,
        },
        /// How long a dispatch should last
        quantum_us: {
            name: "exec.quantum_us",
            unit: "us",
            min: 1,
            max: 10_000_000,
            default: 100,
            affects: Affects::Task,
            adoption: Adoption::NextDispatch,
        },
        /// How long a worker without work spins before it sleeps
        spin_us: {
            name: "exec.spin_us",
            unit: "us",
            max: 1_000_000,
            default: 30,
            adoption: Adoption::NextDispatch,
        },
        /// The most messages that a stream holds if the network's text gives it no capacity; an existing
        /// stream adopts a new value when its writer next looks for room, at the latest after as many
        /// messages as the stream may hold
        capacity: {
            name: "exec.capacity",
            unit: "messages",
            min: 1,
            max: 1 << 30,
            default: 64,
            affects: Affects::Stream,
            adoption: Adoption::NextDispatch,
        },
        /// Sources read no further input while this many messages are under way in streams; 0: no limit
        unfinished: {
            name: "exec.unfinished",
            unit: "messages",
            max: 1 << 40,
            adoption: Adoption::NextDispatch,
        },
        /// Which ready task a worker takes next: the first, or the one with most messages to read and fewest unread behind it
        order: { name: "exec.order", choices: &Order::NAMES, adoption: Adoption::NextDispatch },
        /// How the worker of a task that is made is chosen: neighbours together, workers in turn, or the way the
        /// run began with
        mapper: { name: "exec.mapper", choices: &["contiguous", "round-robin"], adoption: Adoption::NextMade },
        /// Whether workers without work get tasks of busy workers
        steal: SWITCH { name: "exec.steal", adoption: Adoption::NextDispatch },
        /// After how long inside one call of a box a worker's other tasks that are ready go to a worker that has
        /// nothing to do; 0: they wait for the box
        steal_after_us: {
            name: "exec.steal_after_us",
            unit: "us",
            max: 60_000_000,
            default: 1000,
            adoption: Adoption::NextDispatch,
        },
        /// Whether replicas of a split move to workers that have time for them
        spread: SWITCH { name: "exec.spread", default: 1, adoption: Adoption::NextDispatch },
        /// The percentage of messages' work that may be spent on reading the clock for each message (mode
        /// full), and on measuring the sizes of some messages; 0: neither is done; 100: the size of every
        /// message is measured
        clock_budget: { name: "exec.clock_budget", unit: "%", max: 100, default: 1, affects: Affects::Task },
        /// The task that is made slower (`thalweg diagnose --perturb`)
        delay_task: { name: "exec.delay_task", affects: Affects::Task },
        /// How much longer the delayed task takes for each message
        delay_ns: { name: "exec.delay_ns", unit: "ns", max: 1_000_000_000, affects: Affects::Task },
        /// A second task that is made slower at the same time
        delay_second_task: { name: "exec.delay_second_task", affects: Affects::Task },
        /// How much longer the second delayed task takes for each message
        delay_second_ns: { name: "exec.delay_second_ns", unit: "ns", max: 1_000_000_000, affects: Affects::Task },
        /// Until when the delayed tasks are made slower, by the space's clock
        delay_until: { name: "exec.delay_until", unit: "ticks", affects: Affects::Task },
    }
}

/// Which ready task a worker takes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Order {
    /// The task that became ready first. Tasks to which another task has just written messages go before all
    /// others, the latest of them first.
    #[default]
    Fifo,
    /// Of the first few tasks the one with the greatest demand: the messages that it has to read, less those
    /// that it wrote and no task has read (LPEL-HRC, ICA3PP 2013).
    Demand,
}

impl Order {
    /// The values of the setting `exec.order`, from 0.
    pub const NAMES: [&str; 2] = ["fifo", "demand"];
}
