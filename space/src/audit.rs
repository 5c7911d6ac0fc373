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
    /// The previous value.
    pub(crate) old: u64,
    /// The new value.
    pub(crate) new: u64,
    /// The process that set the value; 0: unknown.
    pub(crate) pid: u32,
    /// The user that set the value.
    pub(crate) user: u32,
    /// The name of the tool that set the value; empty if the tool gave none.
    pub(crate) tool: &'a str,
}

/// A setting was changed under a lease: the process restores the former value unless the lease is renewed or
/// confirmed.
#[derive(Kind)]
#[kind(name = "space.setting_leased")]
pub(crate) struct SettingLeased<'a> {
    /// The setting.
    pub(crate) name: NameRef,
    /// The value under the lease.
    pub(crate) value: u64,
    /// The value that was confirmed last, which the end of the lease restores.
    pub(crate) confirmed: u64,
    /// The duration of the lease without renewal; all bits set: no time limit.
    #[field(unit = "ns")]
    pub(crate) lasts: u64,
    /// Whether the lease ends with the process that holds it.
    pub(crate) while_alive: bool,
    /// The process that holds the lease.
    pub(crate) pid: u32,
    /// The user that holds the lease.
    pub(crate) user: u32,
    /// The name of the tool that holds the lease; empty if the tool gave none.
    pub(crate) tool: &'a str,
}

/// The lease of a setting is over.
#[derive(Kind)]
#[kind(name = "space.setting_lease_ended")]
pub(crate) struct SettingLeaseEnded<'a> {
    /// The setting.
    pub(crate) name: NameRef,
    /// The new value.
    pub(crate) value: u64,
    /// The value under the lease.
    pub(crate) leased: u64,
    /// Why the lease ended.
    pub(crate) why: LeaseEnd,
    /// The process that held the lease.
    pub(crate) pid: u32,
    /// The user that held the lease.
    pub(crate) user: u32,
    /// The name of the tool that held the lease; empty if the tool gave none.
    pub(crate) tool: &'a str,
}

/// Probes were switched on or off.
#[derive(Kind)]
#[kind(name = "space.probes_switched")]
pub(crate) struct ProbesSwitched<'a> {
    /// The pattern of the probes' names.
    pub(crate) pattern: &'a str,
    /// Whether the probes were switched on.
    pub(crate) on: bool,
    /// The number of probes that match the pattern now.
    pub(crate) probes: u32,
    /// The process that switched the probes.
    pub(crate) pid: u32,
    /// The user that switched the probes.
    pub(crate) user: u32,
}

/// A command was adopted.
#[derive(Kind)]
#[kind(name = "space.command_adopted")]
pub(crate) struct CommandAdopted<'a> {
    /// The command's number.
    pub(crate) command: u64,
    /// The process that sent the command.
    pub(crate) pid: u32,
    /// The user that sent the command.
    pub(crate) user: u32,
    /// The object to which the command applies.
    pub(crate) target: &'a str,
    /// The name of the command.
    pub(crate) name: &'a str,
    /// The command's arguments, separated by spaces.
    pub(crate) arguments: &'a str,
    /// The name of the tool that sent the command; empty if the tool gave none.
    pub(crate) tool: &'a str,
}

/// A command was carried out under a lease: the process carries out the inverse unless the lease is renewed
/// or confirmed.
#[derive(Kind)]
#[kind(name = "space.command_leased")]
pub(crate) struct CommandLeased<'a> {
    /// The command's number.
    pub(crate) command: u64,
    /// The duration of the lease without renewal; all bits set: no time limit.
    #[field(unit = "ns")]
    pub(crate) lasts: u64,
    /// Whether the lease ends with the process that holds it.
    pub(crate) while_alive: bool,
    /// The target of the inverse.
    pub(crate) target: &'a str,
    /// The name of the inverse command.
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
    /// Why the lease ended.
    pub(crate) why: LeaseEnd,
    /// The process that held the lease.
    pub(crate) pid: u32,
    /// The user that held the lease.
    pub(crate) user: u32,
    /// The name of the tool that held the lease; empty if the tool gave none.
    pub(crate) tool: &'a str,
}

/// A command was answered.
#[derive(Kind)]
#[kind(name = "space.command_answered")]
pub(crate) struct CommandAnswered<'a> {
    /// The command's number.
    pub(crate) command: u64,
    /// Whether the command was carried out.
    pub(crate) done: bool,
    /// The command's result, or why it failed.
    pub(crate) answer: &'a str,
}

/// A value of the shared map was written, by a box of the process or by a command to it. Compare-and-set is
/// recorded by the process that decides it, whichever process asked.
#[derive(Kind)]
#[kind(name = "map.written")]
pub(crate) struct MapWritten<'a> {
    /// The key.
    pub(crate) key: NameRef,
    /// Whether the value was written by compare-and-set.
    pub(crate) compared: bool,
    /// The process of the session whose box or user wrote the value.
    pub(crate) node: NameRef,
    /// The system's number of the process that wrote the value.
    pub(crate) pid: u32,
    /// The user that wrote the value.
    pub(crate) user: u32,
    /// The time of the stamp: microseconds since 1970, and in the low 12 bits a count.
    pub(crate) stamp: u64,
    /// The former value.
    pub(crate) old: &'a str,
    /// The value.
    pub(crate) new: &'a str,
    /// `box`, or the name of the tool that wrote the value.
    pub(crate) tool: &'a str,
}

/// A value of the shared map came from another process of the session, and took the place of an earlier one.
#[derive(Kind)]
#[kind(name = "map.received")]
pub(crate) struct MapReceived<'a> {
    /// The key.
    pub(crate) key: NameRef,
    /// The process of the session whose box or user wrote the value.
    pub(crate) node: NameRef,
    /// The time of the stamp: microseconds since 1970, and in the low 12 bits a count.
    pub(crate) stamp: u64,
    /// The former value.
    pub(crate) old: &'a str,
    /// The value.
    pub(crate) new: &'a str,
}

/// The element of events that are recorded under a lock; made with the first event.
#[derive(Debug)]
pub(crate) struct Audit {
    ring: Ring,
    declared: Arc<Declared>,
    number: u32,
    clock: Clock,
    block_bytes: usize,
}

impl Audit {
    pub(crate) fn new(identity: &Identity, elements: &mut Elements, name: NameRef) -> Result<Audit, Error> {
        Audit::with(ELEMENT, identity, elements, name)
    }

    /// Makes an element of this size and policy.
    pub(crate) fn with(
        options: ElementOptions,
        identity: &Identity,
        elements: &mut Elements,
        name: NameRef,
    ) -> Result<Audit, Error> {
        let block_bytes = options.block_bytes;
        let (mut ring, declared, number) = elements.take(identity, Wanted { options, directory: 0 })?;
        ring.take_over(Owner { number, thread: crate::process::thread_id(), name });
        Ok(Audit { ring, declared, number, clock: identity.clock, block_bytes })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn emit<K: Kind>(&mut self, event: &K) -> Result<(), Error> {
        let kind: KindId<K> = self.declared.declare(self.number, self.block_bytes)?;
        self.ring.emit(self.clock.now_in_halves(), 0, kind, event);
        Ok(())
    }
}
