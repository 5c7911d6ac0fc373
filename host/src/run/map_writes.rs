//! Commands that write values of the shared map, which every run accepts.

use thalweg_space::mailbox::Received;
use thalweg_space::shared_map::Author;
use thalweg_space::{Command, MapValue, SharedMap, Space};

use crate::command::MAP_TARGET;

/// Whether this command is about the shared map.
pub(super) fn is_about_map(command: &Command) -> bool {
    command.target == MAP_TARGET
}

/// Answers a command about the shared map.
pub(super) fn answer(space: &Space, received: Received) -> Result<(), thalweg_space::Error> {
    let sender = received.sender();
    let author = Author { pid: sender.pid, user: sender.user, tool: received.tool().to_owned() };
    let done = match received.command().arguments.as_slice() {
        [key, value] => space.shared_map().and_then(|map| write(&map, key, (None, value), &author)),
        [key, value, expected] => {
            space.shared_map().and_then(|map| write(&map, key, (Some(expected), value), &author))
        }
        _ => return received.failed("a command about the shared map has a key and one or two values"),
    };
    match done {
        Ok(Ok(old)) => received.done(&old.to_string()),
        Ok(Err(why)) => received.failed(&why),
        Err(error) => received.failed(&format!("{error:#}")),
    }
}

/// Writes a value; returns the value before, or why none was written.
fn write(
    map: &SharedMap,
    name: &str,
    (expected, value): (Option<&str>, &str),
    author: &Author,
) -> Result<Result<MapValue, String>, thalweg_space::Error> {
    let Some(key) = map.find(name) else { return Ok(Err(format!("the shared map has no key `{name}`"))) };
    let value = key.type_of().parse(value)?;
    let Some(expected) = expected else { return key.set(value, author).map(Ok) };
    let expected = key.type_of().parse(expected)?;
    let decided = key.compare_and_set(&expected, value, author)?;
    Ok(match decided {
        Ok(()) => Ok(expected),
        Err(other) => Err(format!("`{name}` is {other}, not {expected}: nothing was written")),
    })
}
