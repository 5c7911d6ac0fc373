//! Ids of tasks, streams and workers, and tables keyed by their numbers.
//!
//! A number identifies a task, stream or worker within one space. All input of an analysis belongs to one
//! space, so the analysis uses numbers; its results use ids, which include the space.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! ids {
    ($($(#[$doc:meta])+ $name:ident;)+) => {$(
        $(#[$doc])+
        ///
        /// An id is written as `17` if the report covers one space, and as `2/17` for the second of several
        /// spaces; in JSON it is then a number or a text.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            /// The number of the space among several, from 1; 0 if there is only one space.
            pub space: u32,
            /// The number of the task, stream or worker in the space.
            pub number: u64,
        }

        impl $name {
            /// The id of the task, stream or worker with this number, if there is only one space.
            pub fn of(number: u64) -> $name {
                $name { space: 0, number }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_id(f, self.space, self.number)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<$name, Self::Err> {
                let (space, number) = text.split_once('/').unwrap_or(("0", text));
                Ok($name { space: space.parse()?, number: number.parse()? })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.space {
                    0 => serializer.serialize_u64(self.number),
                    _ => serializer.collect_str(self),
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                match Written::deserialize(deserializer)? {
                    Written::Number(number) => Ok($name::of(number)),
                    Written::Text(text) => text.parse().map_err(de::Error::custom),
                }
            }
        }
    )+};
}

ids! {
    /// A task: its space and its number in that space.
    TaskId;
    /// A stream: its space and its number in that space.
    StreamId;
    /// A worker: its space and its number in that space.
    WorkerId;
}

/// An id in JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

fn write_id(f: &mut fmt::Formatter<'_>, space: u32, number: u64) -> fmt::Result {
    match space {
        0 => write!(f, "{number}"),
        _ => write!(f, "{space}/{number}"),
    }
}

/// A table keyed by ids.
pub type IdMap<T> = HashMap<u64, T, BuildHasherDefault<IdHasher>>;

/// Ids are counters, some with a writer's number in the upper bits, so a multiplication is enough to hash
/// them. An observed program that chose its ids to collide would only slow down the analysis of itself.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        let product = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}
