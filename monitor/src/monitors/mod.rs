//! The built-in monitors, one a file.

mod accounts;
mod behind;
mod described;
mod expensive;
mod latency;
mod links;
mod locks;
mod overhead;
mod service;
mod shares;
mod streams;
mod volume;
mod waits;
mod workers;

pub(crate) use accounts::{Accounts, INSTRUCTIONS_MIN};
pub(crate) use behind::Orders;
pub(crate) use expensive::Records;
pub(crate) use latency::Latencies;
pub(crate) use links::Links;
pub use links::{LINK_COUNTED, LinkCount, LinkEnd, LinkEnds};
pub(crate) use locks::{Busy, Locks, Waited, kernel_for_lock};
pub(crate) use overhead::Costs;
pub(crate) use service::Services;
pub(crate) use shares::Shares;
pub(crate) use streams::Streams;
pub(crate) use waits::Waits;
pub(crate) use workers::Workers;

use crate::monitor::Monitor;

/// All built-in monitors, in the order in which they publish: the later ones read what the earlier ones
/// published.
pub(crate) fn built_in(ns_per_tick: f64) -> Vec<Box<dyn Monitor>> {
    vec![
        Box::new(Streams::default()),
        Box::new(Shares::default()),
        Box::new(Workers::default()),
        Box::new(Costs::default()),
        Box::new(Services::new(ns_per_tick)),
        Box::new(Latencies::new(ns_per_tick)),
        Box::new(Waits::default()),
        Box::new(Orders::default()),
        Box::new(Records::default()),
        Box::new(Accounts::default()),
        Box::new(Links::default()),
    ]
}
