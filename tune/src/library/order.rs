//! Orders to a session that tunes a library: commands in the mailbox of its space.

use std::path::Path;
use std::time::Duration;

use thalweg_space::reader::SpaceReader;
use thalweg_space::{Answer, Command, Error, Setting, SettingSpec, Space};

/// The name under which a session accepts orders, and the names of the orders.
const TARGET: &str = "tuner";
pub(super) const UNDO: &str = "undo";
pub(super) const PIN: &str = "pin";
/// The setting by which other programs recognise the space of a session; its value is the number of decisions
/// that the session has made.
const DECISIONS: &str = "library.decisions";

/// What a user can ask of a session that tunes a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Put back what the decision with this number kept, and do not change its setting again.
    Undo(u64),
    /// Do not change this setting any more.
    Pin(String),
}

impl Order {
    /// The order that a command gives; none if the command is no order.
    pub(super) fn read(command: &Command) -> Option<Order> {
        let [argument] = &command.arguments[..] else { return None };
        match (command.target.as_str(), command.name.as_str()) {
            (TARGET, UNDO) => argument.parse().ok().map(Order::Undo),
            (TARGET, PIN) => Some(Order::Pin(argument.clone())),
            _ => None,
        }
    }

    fn command(&self) -> Command {
        match self {
            Order::Undo(number) => Command::new(TARGET, UNDO).with(number.to_string()),
            Order::Pin(setting) => Command::new(TARGET, PIN).with(setting),
        }
    }

    /// Sends the order to the session with this space, under the name `tool`, and waits for the answer, which
    /// says what was done.
    ///
    /// # Errors
    /// Fails when the session has ended, does not answer in the time `patience`, or cannot carry out the
    /// order; the text says why.
    pub fn give(&self, space: &Path, tool: &str, patience: Duration) -> Result<String, String> {
        let send = || SpaceReader::open(space)?.called(tool).send(&self.command())?.wait(patience);
        match send().map_err(|error| error.to_string())? {
            Answer::Done { result, .. } => Ok(result),
            Answer::Failed { why } => Err(why),
        }
    }
}

/// Makes the setting in a session's space by which [`is_session`] recognises the session.
///
/// # Errors
/// Fails when the space cannot be written.
pub fn session_settings(space: &Space) -> Result<Setting, Error> {
    space.setting(SettingSpec {
        name: DECISIONS,
        doc: "How many decisions this tuner of a library has made.",
        max: u64::MAX,
        ..SettingSpec::SHOWN
    })
}

/// Whether a space is that of a session that tunes a library.
pub fn is_session(space: &Path) -> bool {
    let settings = SpaceReader::open(space).and_then(|reader| reader.settings());
    settings.is_ok_and(|settings| settings.iter().any(|setting| setting.name == DECISIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_from_its_command() {
        for order in [Order::Undo(7), Order::Pin("pvm.route".to_owned())] {
            assert_eq!(Order::read(&order.command()), Some(order));
        }
    }

    #[test]
    fn other_commands_are_no_orders() {
        let others = [
            Command::new("tuner", "undo"),
            Command::new("tuner", "undo").with("three"),
            Command::new("run", "pin").with("pvm.route"),
            Command::new("tuner", "pin").with("pvm.route").with("pvm.encoding"),
        ];
        for other in others {
            assert_eq!(Order::read(&other), None, "{other:?}");
        }
    }
}
