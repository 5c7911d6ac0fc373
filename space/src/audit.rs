//! The space's own events: what was asked of the process from outside, by whom, and when it was adopted.

use crate::clock::Clock;
use crate::declared::Declared;
use crate::element::{Owner, Policy, Ring};
use crate::elements::Elements;
use crate::error::Error;
use crate::identity::Identity;
use crate::kind::{Kind, KindId, NameRef};
use crate::lease::LeaseEnd;
use crate::options::ElementOptions;
use crate::place::Wanted;
use std::sync::Arc;

/// The element holds a few thousand events, which suffices because people cause these events.
const ELEMENT: ElementOptions =
    ElementOptions { block_bytes: 16 << 10, block_count: 4, policy: Policy::Overwrite };

/// A setting's new value was adopted.
#[derive(Kind)]
#[kind(name = "space.setting_adopted")]
pub(crate) struct SettingAdopted<'a> {
    /// The setting.
    pub(crate) name: NameRef,
    /// Its value before.
    pub(crate) old: u64,
    /// Its value from here on.
    pub(crate) new: u64,
    /// The process that set it; 0: unknown.
    pub(crate) pid: u32,
    /// The user that set it.
    pub(crate) user: u32,
    /// The tool that set it, if it said so.
    pub(crate) tool: &'a str,
}

/// A setting was changed under a lease: it goes back to its former value unless the lease is renewed or confirmed.
#[derive(Kind)]
#[kind(name = "space.setting_leased")]
pub(crate) struct SettingLeased<'a> {
    /// The setting.
    pub(crate) name: NameRef,
    /// Its value under the lease.
    pub(crate) value: u64,
    /// The value that was confirmed last, to which it goes back.
    pub(crate) confirmed: u64,
    /// For how long from now on, without renewal; all bits set: no time ends it.
    #[field(unit = "ns")]
    pub(crate) lasts: u64,
    /// Whether it ends with the process that holds it.
    pub(crate) while_alive: bool,
    /// The process that holds it.
    pub(crate) pid: u32,
    /// The user that holds it.
    pub(crate) user: u32,
    /// The tool that holds it, if it said so.
    pub(crate) tool: &'a str,
}

/// The lease of a setting is over.
#[derive(Kind)]
#[kind(name = "space.setting_lease_ended")]
pub(crate) struct SettingLeaseEnded<'a> {
    /// The setting.
    pub(crate) name: NameRef,
    /// Its value from here on.
    pub(crate) value: u64,
    /// Its value under the lease.
    pub(crate) leased: u64,
    /// Why.
    pub(crate) why: LeaseEnd,
    /// The process that held it.
    pub(crate) pid: u32,
    /// The user that held it.
    pub(crate) user: u32,
    /// The tool that held it, if it said so.
    pub(crate) tool: &'a str,
}

/// Probes were switched on or off.
#[derive(Kind)]
#[kind(name = "space.probes_switched")]
pub(crate) struct ProbesSwitched<'a> {
    /// A pattern of their names.
    pub(crate) pattern: &'a str,
    /// On or off.
    pub(crate) on: bool,
    /// How many there are of that name now.
    pub(crate) probes: u32,
    /// The process that switched them.
    pub(crate) pid: u32,
    /// The user that switched them.
    pub(crate) user: u32,
}

/// A command was adopted.
#[derive(Kind)]
#[kind(name = "space.command_adopted")]
pub(crate) struct CommandAdopted<'a> {
    /// The command's number.
    pub(crate) command: u64,
    /// The process that sent it.
    pub(crate) pid: u32,
    /// The user that sent it.
    pub(crate) user: u32,
    /// What it is for.
    pub(crate) target: &'a str,
    /// The name of the command.
    pub(crate) name: &'a str,
    /// The command's arguments, separated by spaces.
    pub(crate) arguments: &'a str,
    /// The tool that sent it, if it said so.
    pub(crate) tool: &'a str,
}

/// A command was done under a lease: its inverse will be done unless the lease is renewed or confirmed.
#[derive(Kind)]
#[kind(name = "space.command_leased")]
pub(crate) struct CommandLeased<'a> {
    /// The command's number.
    pub(crate) command: u64,
    /// For how long from now on, without renewal; all bits set: no time ends it.
    #[field(unit = "ns")]
    pub(crate) lasts: u64,
    /// Whether it ends with the process that holds it.
    pub(crate) while_alive: bool,
    /// The target of the inverse.
    pub(crate) target: &'a str,
    /// The inverse.
    pub(crate) inverse: &'a str,
    /// The inverse's arguments, separated by spaces.
    pub(crate) arguments: &'a str,
}

/// The lease of a command is over.
#[derive(Kind)]
#[kind(name = "space.command_lease_ended")]
pub(crate) struct CommandLeaseEnded<'a> {
    /// The command's number. The inverse, which runs unless the command was confirmed or taken over, has the same number.
    pub(crate) command: u64,
    /// Why.
    pub(crate) why: LeaseEnd,
    /// The process that held it.
    pub(crate) pid: u32,
    /// The user that held it.
    pub(crate) user: u32,
    /// The tool that held it, if it said so.
    pub(crate) tool: &'a str,
}

/// A command was answered.
#[derive(Kind)]
#[kind(name = "space.command_answered")]
pub(crate) struct CommandAnswered<'a> {
    /// The command's number.
    pub(crate) command: u64,
    /// Whether it was done.
    pub(crate) done: bool,
    /// The command's result, or why it failed.
    pub(crate) answer: &'a str,
}

/// The element of the space's own events; made with the first event.
#[derive(Debug)]
pub(crate) struct Audit {
    ring: Ring,
    declared: Arc<Declared>,
    number: u32,
    clock: Clock,
}

impl Audit {
    pub(crate) fn new(identity: &Identity, elements: &mut Elements, name: NameRef) -> Result<Audit, Error> {
        let (mut ring, declared, number) =
            elements.take(identity, Wanted { options: ELEMENT, directory: 0 })?;
        ring.take_over(Owner { number, thread: crate::process::thread_id(), name });
        Ok(Audit { ring, declared, number, clock: identity.clock })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn emit<K: Kind>(&mut self, event: &K) -> Result<(), Error> {
        let kind: KindId<K> = self.declared.declare(self.number, ELEMENT.block_bytes)?;
        self.ring.emit(self.clock.now_in_halves(), 0, kind, event);
        Ok(())
    }
}
