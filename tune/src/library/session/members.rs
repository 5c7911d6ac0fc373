//! The processes of a session: those that come and those that end, on this machine and on nodes.

use std::time::Instant;

use super::running::of_living;
use super::{LENGTHS, LITTLE, LibraryProgress, RENEW_EVERY, Session};
use crate::control::{What, percent};
use crate::library::far::{Far, FarHalf};
use crate::library::half::{FIND, LOOK, RESTART, Said, TICK};
use crate::library::member::{Kind, Member};
use crate::library::search::Found;
use crate::library::target::Seen;

impl<'l> Session<'l, '_> {
    /// Attaches to processes that have started since the last look.
    pub(super) fn find(&mut self) -> Result<(), String> {
        let library = self.library;
        if library.pack.identity.is_none() {
            return Err("the pack identifies nothing".to_owned());
        }
        let is_first = self.targets.is_empty() && self.search.others.is_empty();
        let mut first = None;
        if library.halves.is_empty() || !library.processes.is_empty() {
            let is_known = |pid: i32| {
                self.targets.iter().any(|target| matches!(&target.kind, Kind::Here(here) if here.pid == pid))
            };
            for pid in self.search.candidates(library.pack, is_known) {
                match self.search.open(pid, library.pack, library.guard) {
                    Some(Found::Target(target)) => {
                        let name = target.name.clone();
                        self.add(Member::new(name, Kind::Here(target)));
                    }
                    Some(Found::Refused(name, why)) => {
                        (self.report)(&LibraryProgress::Refused(&name, &why));
                        first.get_or_insert(why);
                    }
                    None => {}
                }
            }
        }
        for half in &library.halves {
            while let Some(why) = self.find_far(half) {
                first = first.or(why);
            }
        }
        if is_first && self.targets.is_empty() {
            let name = &library.pack.name;
            let lost = || library.halves.iter().find_map(FarHalf::lost);
            let why = first
                .or_else(lost)
                .unwrap_or_else(|| format!("no process of these uses the library of the pack `{name}`"));
            return Err(why);
        }
        let count = self.targets.len() as f64;
        let processors = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
        for target in &mut self.targets {
            target.row.0[4] = count;
            target.here().into_iter().for_each(|target| target.seen.row.0[5] = processors);
        }
        Ok(())
    }

    /// Lets a half attach to one more process. Returns nothing if there is none, and else the reason why processes
    /// cannot be tuned, if some cannot.
    fn find_far(&mut self, half: &'l FarHalf) -> Option<Option<String>> {
        self.renew();
        // A half that is lost is noticed when processes that have ended are looked for.
        let said = half.ask(FIND).ok()?;
        let mut first = None;
        let mut is_more = false;
        for one in &said {
            match one {
                Said::Target { pid, .. } => {
                    let mut far = Far::new(half, *pid, Seen::nothing(self.library.pack));
                    let _ = far.take(&said);
                    far.end_window(0);
                    self.add(Member::new(format!("{}:{pid}", half.name), Kind::Far(far)));
                    is_more = true;
                }
                Said::Refused(name, why) => {
                    (self.report)(&LibraryProgress::Refused(name, why));
                    first.get_or_insert_with(|| why.clone());
                    is_more = true;
                }
                _ => {}
            }
        }
        is_more.then_some(first)
    }

    fn add(&mut self, member: Member<'l>) {
        let name = member.name.clone();
        self.targets.push(member);
        self.guard_gate(self.targets.len() - 1);
        self.clear();
        (self.report)(&LibraryProgress::Attached(&name));
    }

    /// Reports the nodes that were lost since the last call, and returns what was reported.
    pub(super) fn note_lost(&mut self) -> Vec<String> {
        let mut lost = Vec::new();
        for half in &self.library.halves {
            if let Some(why) = half.lost()
                && self.warn(format!("node {} is lost", half.name))
            {
                let text = format!("node {} is lost, and its processes are left alone: {why}", half.name);
                (self.report)(&LibraryProgress::Noted(&text));
                lost.push(format!("node {} is lost", half.name));
            }
        }
        lost
    }

    /// Leaves out processes that have ended, and those of nodes that are lost.
    pub(super) fn drop_ended(&mut self) {
        let is_alive: Vec<bool> = self.targets.iter().map(Member::is_alive).collect();
        let lost = self.note_lost();
        if !is_alive.contains(&false) {
            return;
        }
        let ended = || self.targets.iter().zip(&is_alive).filter(|(_, is_alive)| !**is_alive);
        let share: f64 = ended().map(|(target, _)| target.share).sum();
        let remaining = self.trial.take().map(|running| running.without(&self.targets, &is_alive));
        for known in self.lengths.iter_mut().flat_map(|length| &mut length.signatures) {
            *known = of_living(known, &is_alive, is_alive.len());
        }
        let mut alive = is_alive.iter();
        self.targets.retain(|_| alive.next().is_some_and(|is_alive| *is_alive));
        let goes_on = remaining.as_ref().is_none_or(|running| !running.candidate.values.is_empty());
        if share <= LITTLE && goes_on && lost.is_empty() {
            self.trial = remaining;
            return;
        }
        self.clear();
        if let Some(running) = remaining {
            let why = match lost.is_empty() {
                true => format!("processes that did {} of the work have ended meanwhile", percent(share)),
                false => lost.join(", "),
            };
            self.decide(What::TakenBack, Some(&running.candidate), None, why);
            self.undo_everywhere(running.candidate.point);
        }
    }

    /// Asks each half the same; what it says is taken over by its processes.
    fn ask_halves(&mut self, question: &str) {
        for half in &self.library.halves {
            // A half that is lost is noticed when processes that have ended are looked for.
            let Ok(said) = half.ask(question) else { continue };
            for target in &mut self.targets {
                if let Kind::Far(far) = &mut target.kind
                    && std::ptr::eq(far.half, half)
                {
                    let _ = far.take(&said);
                }
            }
        }
    }

    /// Reads what was recorded of calls in all processes. Halves end the windows that may end now: during a trial
    /// those by which it is judged, and else those of each length that is a divisor of the time.
    pub(super) fn read_all(&mut self) {
        let pack = self.library.pack;
        for target in self.targets.iter_mut().filter_map(Member::here) {
            // What cannot be read has not changed, so such a process makes no progress.
            let _ = target.read(pack);
        }
        if self.library.halves.is_empty() {
            return;
        }
        let lengths = match self.trial {
            Some(_) => self.length..=self.length,
            None => 0..=self.longest().min(self.ticks.trailing_zeros() as usize),
        };
        let lengths: String =
            lengths.filter(|length| *length < LENGTHS).map(|length| format!("\t{length}")).collect();
        self.ask_halves(&format!("{TICK}{lengths}"));
    }

    /// Begins windows of all lengths now.
    pub(super) fn restart(&mut self) {
        let now = Instant::now();
        self.ticks = 0;
        self.lengths.iter_mut().for_each(|length| length.begun = now);
        let pack = self.library.pack;
        self.targets.iter_mut().filter_map(Member::here).for_each(|target| target.restart(pack));
        self.ask_halves(RESTART);
    }

    /// Makes the pack's readings in all processes; returns whether a value differs from the one before.
    pub(super) fn make_readings(&mut self) -> bool {
        let mut changes = false;
        for number in 0..self.targets.len() {
            self.renew();
            changes |= self.targets[number].make_readings(self.library.pack);
        }
        changes
    }

    /// Reads the system's figures of all processes.
    pub(super) fn look_at_processes(&mut self) {
        let here = self.targets.iter_mut().filter_map(Member::here);
        here.for_each(crate::library::target::Target::look_at_process);
        self.ask_halves(LOOK);
        // Calls are looked for anew on the nodes, too.
        self.targets.iter_mut().for_each(|target| target.has_calls = false);
    }

    /// Renews the leases of the guard here and of the halves.
    pub(super) fn renew(&mut self) {
        if self.renewed.elapsed() >= RENEW_EVERY {
            self.renewed = Instant::now();
            self.search.renew();
            self.library.halves.iter().for_each(|half| half.renew(RENEW_EVERY));
        }
    }
}
