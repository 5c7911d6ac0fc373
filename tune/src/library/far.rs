//! The processes of other machines, as the session sees them: the half of the tuner on their node measures and
//! changes them ([`half`]), and the session keeps what the half has said last.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::half::{self, Said};
use super::target::Seen;

/// The way to the half of the tuner on a node.
pub struct FarHalf {
    /// The node's name.
    pub name: String,
    /// Asks the half a question; the second value says whether the answer may take long.
    ask: Box<Ask>,
    /// Why the half does not answer any more.
    lost: RefCell<Option<String>>,
    asked: Cell<Instant>,
    /// The lines of gatekeepers that nobody has taken yet, each with the process that the gatekeeper is of.
    gates: RefCell<VecDeque<(i32, String)>>,
}

/// Asks a half, which may take long or not.
type Ask = dyn Fn(&str, bool) -> Result<String, String>;

impl FarHalf {
    /// Begins to tune on a node: `pack` is the text of the pack, `processes` are the processes there; if empty, all
    /// that use the library. `ask` sends a question to the node, and says whether it may take long to answer.
    ///
    /// # Errors
    /// The half does not begin; the text says why.
    pub fn begin(
        name: String,
        ask: Box<Ask>,
        (pack, processes): (&str, &[i32]),
        lease: Duration,
    ) -> Result<FarHalf, String> {
        let (lost, asked, gates) = (RefCell::default(), Cell::new(Instant::now()), RefCell::default());
        let half = FarHalf { name, ask, lost, asked, gates };
        let processes: String = processes.iter().map(|pid| format!("\t{pid}")).collect();
        half.ask(&format!("{}\t{}\t{}{processes}\n{pack}", half::BEGIN, half.name, lease.as_millis()))?;
        Ok(half)
    }

    /// Asks the half; an error is that the half is lost.
    pub(super) fn ask(&self, question: &str) -> Result<Vec<Said>, String> {
        if let Some(why) = self.lost.borrow().clone() {
            return Err(why);
        }
        self.asked.set(Instant::now());
        let is_long = ![half::TICK, half::RENEW].iter().any(|word| question.starts_with(word));
        match (self.ask)(question, is_long) {
            Ok(answer) => {
                let mut said: Vec<Said> = answer.lines().filter_map(Said::read).collect();
                said.retain_mut(|one| {
                    let Said::OfGate(of, line) = one else { return true };
                    self.gates.borrow_mut().push_back((*of, std::mem::take(line)));
                    false
                });
                Ok(said)
            }
            Err(why) => {
                *self.lost.borrow_mut() = Some(why.clone());
                Err(why)
            }
        }
    }

    /// The next line of the gatekeeper of this process.
    pub(super) fn line_of_gate(&self, of: i32) -> Option<String> {
        let mut lines = self.gates.borrow_mut();
        let at = lines.iter().position(|(known, _)| *known == of)?;
        lines.remove(at).map(|(_, line)| line)
    }

    pub(super) fn order_gate(&self, of: i32, order: &str) {
        // A half that is lost is noticed when its processes are looked at.
        let _ = self.ask(&format!("{}\t{of}\t{order}", half::ORDER));
    }

    /// Why the half is lost.
    pub(super) fn lost(&self) -> Option<String> {
        self.lost.borrow().clone()
    }

    /// Renews the half's lease, unless the half was asked something lately.
    pub(super) fn renew(&self, every: Duration) {
        if self.asked.get().elapsed() >= every && self.lost.borrow().is_none() {
            // That a half is lost is noticed when its processes are looked at.
            let _ = self.ask(half::RENEW);
        }
    }
}

/// A process of another machine.
pub(super) struct Far<'l> {
    pub(super) half: &'l FarHalf,
    pub(super) pid: i32,
    pub(super) seen: Seen,
    is_alive: bool,
    /// The rows of the windows that have ended last, by their lengths.
    rows: Vec<(usize, Vec<f64>)>,
}

impl<'l> Far<'l> {
    pub(super) fn new(half: &'l FarHalf, pid: i32, seen: Seen) -> Far<'l> {
        Far { half, pid, seen, is_alive: true, rows: Vec::new() }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.is_alive && self.half.lost.borrow().is_none()
    }

    /// Takes over what an answer says of this process; the error is what the answer says that failed.
    pub(super) fn take(&mut self, said: &[Said]) -> Result<(), String> {
        let mut is_this = false;
        let mut result = Ok(());
        for said in said {
            match said {
                Said::Target { pid, is_alive, has_calls, points } => {
                    is_this = *pid == self.pid;
                    if is_this && points.len() == self.seen.points.len() {
                        self.is_alive = *is_alive;
                        self.seen.has_calls = *has_calls;
                        self.seen.points.clone_from(points);
                        self.rows.clear();
                    }
                }
                Said::Row(length, row) if is_this && row.len() == self.seen.row.0.len() => {
                    self.rows.push((*length, row.clone()));
                }
                Said::Failed(why) => result = Err(why.clone()),
                _ => {}
            }
        }
        result
    }

    /// The last window of a length becomes the present one.
    pub(super) fn end_window(&mut self, length: usize) {
        if let Some((_, row)) = self.rows.iter().find(|(known, _)| *known == length) {
            // The number of processes is known by the session alone.
            let count = self.seen.row.0[4];
            self.seen.row.0.clone_from(row);
            self.seen.row.0[4] = count;
        }
    }

    /// Makes sure that the process has a gatekeeper on its node; returns the process that the gatekeeper is of.
    pub(super) fn gate(&self) -> Result<i32, String> {
        let said = self.half.ask(&format!("{}\t{}", half::GATE, self.pid))?;
        let of = said.into_iter().find_map(|said| match said {
            Said::Gate(of) => Some(Ok(of)),
            Said::Failed(why) => Some(Err(why)),
            _ => None,
        });
        of.unwrap_or_else(|| Err("its node has no gatekeeper".to_owned()))
    }

    /// Asks the half for something about this process, and takes over what the answer says.
    pub(super) fn ask(&mut self, what: &str, with: &str) -> Result<(), String> {
        let said = self.half.ask(&format!("{what}\t{}{with}", self.pid))?;
        self.take(&said)
    }
}
