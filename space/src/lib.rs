//! The event space: every byte that the observed process and its observers share.
//!
//! A *space* is a directory of memory-mapped files. A process publishes in it, at almost no cost, its
//! **events** (one *element*, a ring of blocks, per writing thread), the **catalog** that describes what
//! their kinds, names and sites mean, its **settings** (cells that observers change and the process loads
//! relaxed) and its **live rows** (counters of the tasks and streams that exist now). Observers read the
//! files when they want; they cannot slow the process down, and what it committed survives even `kill -9`.
//!
//! * Writing: [`Space`], [`Writer`] and [`Collector`], [`Kind`] with its derive, [`Setting`], [`LiveRow`].
//! * Reading: [`reader::SpaceReader`], [`archive::Archiver`], and [`discover`] to find spaces.
//!
//! The module [`layout`] defines the layout, and `docs/layout.md` of this crate draws it.
#![deny(unsafe_code)]

extern crate self as thalweg_space;

pub mod archive;
mod audit;
mod catalog;
mod cell;
#[allow(unsafe_code)]
pub mod clock;
mod collector;
pub mod copies;
mod declared;
mod directory;
pub mod discover;
#[allow(unsafe_code)]
mod element;
mod elements;
mod error;
#[allow(unsafe_code)]
mod file;
mod identity;
pub mod kind;
pub mod kinds;
pub mod layout;
pub mod lease;
#[allow(unsafe_code)]
mod live;
pub mod mailbox;
#[allow(unsafe_code)]
mod map;
#[allow(unsafe_code)]
mod map_list;
mod options;
mod place;
mod probe;
#[allow(unsafe_code)]
mod process;
#[allow(unsafe_code)]
mod read_map;
pub mod reader;
pub mod row;
mod session;
#[allow(unsafe_code)]
mod setting;
mod shared;
pub mod shared_map;
#[allow(unsafe_code)]
mod signal;
mod space;
pub mod tunable;
mod writer;

pub use clock::Clock;
pub use collector::{Collector, CollectorOptions, PathCollector, PathOperation};
pub use directory::default_parent;
pub use element::Policy;
pub use error::{Error, chain};
pub use kind::{Kind, KindEnum, KindId, NameRef, SiteRef};
pub use live::{KeepsRows, LIVE_CELLS, LiveRow, SeenRow};
pub use mailbox::{Answer, Command};
pub use options::{ElementOptions, SpaceOptions};
pub use probe::Probe;
pub use row::{Row, RowKind, RowSpec};
pub use setting::{Adoption, Affects, Changes, Setting, SettingSpec, Undo};
pub use shared_map::{MapKey, MapType, MapValue, SharedMap};
pub use signal::SignalWriter;
pub use space::{Site, Space};
pub use tunable::Tunable;
pub use writer::{EVENT_NS, Writer};
