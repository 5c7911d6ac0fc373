//! The shared map of a run, for observers: its keys with their values, and the command that writes one.

use std::time::Duration;

use thalweg_space::shared_map::MapView;
use thalweg_space::{Answer, Command};

use crate::command::MAP_TARGET;
use crate::error::Error;
use crate::live::LiveRun;
use crate::spaces::nearest;

/// The beginning of the names by which `thalweg get` and `thalweg set` show keys of the shared map.
pub const MAP_PREFIX: &str = "map.";
/// How long a run may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

impl LiveRun {
    /// The keys of the shared map with their values in this process.
    ///
    /// # Errors
    /// If the run's space cannot be read.
    pub fn shared_map(&self) -> Result<Vec<MapView>, Error> {
        self.reader().shared_map().map_err(Error::usage_of)
    }

    /// Writes a value of the shared map, as people write it; with `expected` only if that is the present
    /// value. Returns the value before.
    ///
    /// # Errors
    /// There is no such key, the value has another type, the present value is not the expected one, or the
    /// run does not answer.
    pub fn write_map(&self, key: &str, value: &str, expected: Option<&str>) -> Result<String, Error> {
        let keys = self.shared_map()?;
        let Some(known) = keys.iter().find(|known| known.key == key) else {
            return Err(Error::usage(no_key(key, &keys)));
        };
        let kind = known.initial.type_of();
        for text in [Some(value), expected].into_iter().flatten() {
            kind.parse(text).map_err(|error| {
                Error::usage(format!("{error:#}: the key `{key}` of the shared map takes {}s", kind.name()))
            })?;
        }
        if let Some(whole) = self.whole() {
            return Err(Error::usage(format!(
                "{} is a part of a run over nodes: the process that began the run writes the shared map for all parts. Give \
                 `thalweg set` the session {}",
                self.path().display(),
                whole.display()
            )));
        }
        let command = Command::new(MAP_TARGET, "set").with(key).with(value);
        let command = expected.into_iter().fold(command, Command::with);
        let sent = self.reader().send(&command).map_err(Error::usage_of)?;
        match sent.wait(PATIENCE).map_err(Error::run_of)? {
            Answer::Done { result, .. } => Ok(result),
            Answer::Failed { why } => Err(Error::run(why)),
        }
    }
}

/// The message for a key that does not exist.
pub fn no_key(key: &str, keys: &[MapView]) -> String {
    if keys.is_empty() {
        return format!("there is no key `{key}`: no library of the run declares keys of the shared map");
    }
    match nearest(key, keys.iter().map(|known| known.key.as_str())) {
        Some(near) => format!("the shared map has no key `{key}`: did you mean `{MAP_PREFIX}{near}`?"),
        None => format!("the shared map has no key `{key}`: `thalweg get '{MAP_PREFIX}*'` lists its keys"),
    }
}
