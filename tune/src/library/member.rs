//! A process that takes part in a session: one of this machine, or one of a node.

use std::ops::{Deref, DerefMut};

use thalweg_pack::{By, Pack};

use super::far::{Far, FarHalf};
use super::half::{LAST, LEAVE, READINGS, SET, UNDO};
use super::session::Way;
use super::target::{Seen, Target};

/// A process that is tuned; it has what is known of the process.
pub(super) struct Member<'l> {
    /// The number of the process, after the name of its node if it is on one: `2041`, `a:2041`.
    pub(super) name: String,
    /// The way to the process's gatekeeper.
    pub(super) way: Way,
    /// The number of calls that count as progress in the last window, and the part of the progress of all
    /// processes that this process makes, smoothed over windows.
    pub(super) progress: f64,
    pub(super) share: f64,
    pub(super) kind: Kind<'l>,
}

pub(super) enum Kind<'l> {
    Here(Box<Target>),
    Far(Far<'l>),
}

impl Deref for Member<'_> {
    type Target = Seen;

    fn deref(&self) -> &Seen {
        match &self.kind {
            Kind::Here(target) => &target.seen,
            Kind::Far(far) => &far.seen,
        }
    }
}

impl DerefMut for Member<'_> {
    fn deref_mut(&mut self) -> &mut Seen {
        match &mut self.kind {
            Kind::Here(target) => &mut target.seen,
            Kind::Far(far) => &mut far.seen,
        }
    }
}

impl<'l> Member<'l> {
    pub(super) fn new(name: String, kind: Kind<'l>) -> Member<'l> {
        Member { name, way: Way::default(), progress: 0.0, share: 0.0, kind }
    }

    /// The process, if it is of this machine.
    pub(super) fn here(&mut self) -> Option<&mut Target> {
        if let Kind::Here(target) = &mut self.kind { Some(target) } else { None }
    }

    /// The half of the tuner on the process's node, if it is of another machine.
    pub(super) fn half(&self) -> Option<&'l FarHalf> {
        if let Kind::Far(far) = &self.kind { Some(far.half) } else { None }
    }

    /// Whether the process still runs, and its node is there.
    pub(super) fn is_alive(&self) -> bool {
        match &self.kind {
            Kind::Here(target) => target.is_alive(),
            Kind::Far(far) => far.is_alive(),
        }
    }

    /// Ends a window of the length with this number, which lasted `seconds` here. A node has its own clock.
    pub(super) fn end_window(&mut self, pack: &Pack, length: usize, seconds: f64) {
        match &mut self.kind {
            Kind::Here(target) => {
                target.seen.row.0[6] = seconds;
                target.end_window(pack, length, seconds);
            }
            Kind::Far(far) => far.end_window(length),
        }
    }

    /// Makes the pack's readings; returns whether a value differs from the one before.
    pub(super) fn make_readings(&mut self, pack: &Pack) -> bool {
        match &mut self.kind {
            Kind::Here(target) => target.make_readings(pack),
            Kind::Far(far) => {
                let before = far.seen.clone();
                // A half that is lost is noticed by `is_alive`.
                let _ = far.ask(READINGS, "");
                far.end_window(0);
                let read = pack.readings.iter().map(|reading| reading.field);
                let differs = |at: usize| before.row.0[at].to_bits() != far.seen.row.0[at].to_bits();
                let is_new = |(a, b): (&super::target::State, &super::target::State)| a.value != b.value;
                read.into_iter().any(differs) || before.points.iter().zip(&far.seen.points).any(is_new)
            }
        }
    }

    pub(super) fn set(&mut self, pack: &Pack, point: usize, value: f64) -> Result<(), String> {
        match &mut self.kind {
            Kind::Here(target) => target.set(pack, point, value),
            Kind::Far(far) => far.ask(SET, &format!("\t{point}\t{value}")),
        }
    }

    /// Restores the value that a point had before it was changed.
    pub(super) fn undo(&mut self, pack: &Pack, point: usize) -> Result<(), String> {
        match &mut self.kind {
            Kind::Here(target) => target.undo(pack, point),
            Kind::Far(far) if far.seen.is_changed(point) => far.ask(UNDO, &format!("\t{point}")),
            Kind::Far(_) => Ok(()),
        }
    }

    /// Whether the function with an argument that was restored is known to have been called since, which it never is in
    /// processes of other machines; true of other points.
    pub(super) fn has_begun_anew(&mut self, pack: &Pack, point: usize) -> bool {
        let lever = pack.points[point].lever.as_ref();
        let is_argument = lever.is_some_and(|lever| matches!(lever.by, By::Argument { .. }));
        self.here().map_or(!is_argument, |target| target.has_begun_anew(pack, point))
    }

    /// Takes everything back, or, if `keeps`, everything except values that were set by calls; `renew` is called
    /// before what may take long.
    pub(super) fn end(self, pack: &Pack, keeps: bool, renew: &mut dyn FnMut()) -> Result<(), String> {
        let mut far = match self.kind {
            Kind::Here(target) => return target.end(pack, keeps, renew),
            Kind::Far(far) => far,
        };
        for point in (0..far.seen.points.len()).filter(|_| !keeps) {
            if far.seen.is_changed(point) {
                renew();
                // A failure is reported when the process is left.
                let _ = far.ask(LAST, &format!("\t{point}"));
            }
        }
        renew();
        far.ask(LEAVE, &format!("\t{keeps}"))
    }
}
