//! Reading a space from another process: its identity, settings, live rows, names and sites, and its events.
//!
//! Files are read with `pread`, except the lines of latest events, which are mapped. The reader trusts
//! nothing in the files: lengths are bounded, offsets checked, texts decoded with replacement. A truncated or
//! damaged file leads to an [`Error`](crate::Error) or a counted gap, never to a crash.

mod blocks;
mod command;
mod consumer;
mod element;
mod events;
mod feed;
mod fields;
mod info;
mod kinds;
mod latest;
mod merged;
mod numbers;
mod rows;
mod session;
mod space;

pub use crate::catalog::FieldInfo;
pub(crate) use blocks::{Blocks, ElementId, Place};
pub use command::{LeasedCommand, Sent};
pub use element::WriterInfo;

pub use events::{Event, EventStream, Item, Value};
pub use feed::{Feed, PathFeed, SpaceFeed};
pub use fields::{Fields, FromEvent, FromField, NO_CHOICE};
pub use info::Info;
pub(crate) use info::{FLAG_ARCHIVE, FLAG_KEEP, FLAG_LIVED};
pub use kinds::{FieldRef, KindInfo};
pub use latest::LatestEvents;
pub use merged::Merged;
pub(crate) use numbers::Numbers;
pub use rows::{Cells, LiveView, RowFinder, RowInfo};
pub use session::{Member, Session, SessionStream};
pub use space::{LeaseView, ProbeView, SetterView, SettingView, SiteInfo, SpaceReader};
