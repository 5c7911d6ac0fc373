//! The ways of a record through a component: a graph of steps. Some steps lead to all their successors,
//! others to one successor that a guard chooses.
//!
//! A box leads to each record that it emits, and all of them have to get through; a star with a guard leads
//! out or into another round, and one of the two ways is enough. So a [`Way`] is an and/or graph whose ends
//! are the records that leave. The way of a component is composed from those of its parts ([`Graph::go`]):
//! the ends of one part are the beginnings of the next. For `[{a, <n>} -> {a, <n = n - 1>}; {b = a}] * {a} if
//! <n == 0>` it is
//!
//! ```text
//! {a, <n>} ── any ──▶ leaves
//!              └────▶ all ──▶ {a, <n>} ── any ──▶ …
//!                      └────▶ {b} ──▶ gets no further
//! ```
//!
//! In this graph a record gets through only if the first guard holds.
//!
//! **Which steps lead on** is decided by a game of two players: guards choose where a step leads to one of
//! several successors, the other player chooses where a step leads to all of them. A player loses at a step
//! without successors where that player has to choose. An endless play is won by the guards, unless a guard
//! would have to keep a record in its loop for ever: the outermost loop of the play decides, by whether its
//! own guard chooses the next round again and again. The game is a parity game, with a rank for each round
//! ([`Graph::round`]); it is solved by Zielonka's algorithm (*Infinite games on finitely coloured graphs*,
//! 1998).
//!
//! A part without guards becomes one step, so only guards cost work. If a graph has more than [`STEPS_MAX`]
//! steps, it is enough that one of the records that leave gets through; if solving a game needs more than
//! [`GAMES_MAX`] smaller games, undecided steps count as won.

use std::collections::BTreeSet;

use super::super::shape::{Id, Set, add};
use super::variants::{Flow, holds};

/// The most steps of a way.
const STEPS_MAX: usize = 4096;
/// The most smaller games that are solved in order to solve one game.
const GAMES_MAX: usize = 1024;

/// The way of a record through a component, provided that all records that leave get through the following
/// components.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The steps; the record enters at the first. Each step is reachable, and a record can get through from
    /// it.
    steps: Vec<Step>,
    /// The labels of the record that are required on the ways that get through.
    asked: Set,
}

#[derive(Clone, Debug)]
struct Step {
    kind: Kind,
    /// The labels of the entering record that are required at this step.
    asked: Set,
    next: Vec<usize>,
    /// The rank: an endless play counts as getting through if the largest rank that occurs in it again and
    /// again is even, and as lost if this rank is odd.
    rank: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// The step leads to all its successors.
    All,
    /// A guard chooses the successor. Without successors no record gets further.
    Any,
    /// A record leaves the component at this step.
    Out(Flow),
}

impl Step {
    fn all(asked: Set, next: Vec<usize>) -> Step {
        Step { kind: Kind::All, asked, next, rank: 0 }
    }

    fn out(flow: Flow) -> Step {
        Step { kind: Kind::Out(flow), asked: Set::new(), next: Vec::new(), rank: 0 }
    }

    fn is_choice(&self) -> bool {
        self.kind == Kind::Any && self.next.len() > 1
    }
}

impl Way {
    /// The way through a component that is unknown, or that emits no records.
    pub(super) fn end(asked: Set) -> Way {
        Way::of(asked, [])
    }

    /// The way of a record from which all these records are made.
    pub(super) fn of(asked: Set, outs: impl IntoIterator<Item = Flow>) -> Way {
        let mut steps = vec![Step::all(asked.clone(), Vec::new())];
        steps.extend(outs.into_iter().collect::<BTreeSet<Flow>>().into_iter().map(Step::out));
        steps[0].next = (1..steps.len()).collect();
        Way { steps, asked }
    }

    pub(super) fn asked(&self) -> &Set {
        &self.asked
    }

    pub(super) fn size(&self) -> usize {
        self.steps.len()
    }

    /// The records that leave the component on any of the ways.
    pub(super) fn outs(&self) -> impl Iterator<Item = &Flow> {
        self.steps.iter().filter_map(|step| match &step.kind {
            Kind::Out(flow) => Some(flow),
            _ => None,
        })
    }

    /// Whether a guard decides which records leave.
    pub(super) fn has_guards(&self) -> bool {
        self.steps.iter().any(Step::is_choice)
    }

    /// The same way for a record that needs these labels in addition.
    pub(super) fn asking(mut self, labels: &[Id]) -> Way {
        add(&mut self.steps[0].asked, labels);
        add(&mut self.asked, labels);
        self
    }

    /// The same way, in which the records that leave are replaced by `leave`.
    pub(super) fn leaving(&self, leave: impl Fn(&Flow) -> Flow) -> Way {
        let mut way = self.clone();
        for step in &mut way.steps {
            if let Kind::Out(flow) = &mut step.kind {
                *flow = leave(flow);
            }
        }
        way
    }
}

/// A way under construction; the record enters at the first step.
#[derive(Default)]
pub(super) struct Graph {
    steps: Vec<Step>,
}

impl Graph {
    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// Adds a step without successors, at which a record is lost unless the caller replaces the step.
    pub(super) fn stuck(&mut self) -> usize {
        self.push(Step { kind: Kind::Any, asked: Set::new(), next: Vec::new(), rank: 0 })
    }

    /// Adds a step for a record that need not get through anything after it.
    pub(super) fn end(&mut self) -> usize {
        self.push(Step::all(Set::new(), Vec::new()))
    }

    /// Makes this step one at which a record leaves.
    pub(super) fn leave(&mut self, at: usize, flow: Flow) {
        self.steps[at] = Step::out(flow);
    }

    /// Makes this step one at which a guard chooses, if there are several successors.
    pub(super) fn choose(&mut self, at: usize, asked: Set, next: Vec<usize>) {
        self.steps[at] = Step { kind: Kind::Any, asked, next, rank: 0 };
    }

    /// Leads this step through a component: `leave` gives the step that each leaving record reaches; `own`
    /// are those labels of the record at this step that it had at the first step.
    pub(super) fn go(
        &mut self,
        at: usize,
        way: &Way,
        own: &[Id],
        mut leave: impl FnMut(&mut Graph, &Flow) -> usize,
    ) {
        let places = way.steps.iter().map(|step| match &step.kind {
            Kind::Out(flow) => leave(self, flow),
            _ => self.stuck(),
        });
        let places: Vec<usize> = places.collect();
        for (step, &place) in way.steps.iter().zip(&places) {
            if matches!(step.kind, Kind::Out(_)) {
                continue;
            }
            let asked = step.asked.iter().copied().filter(|&l| holds(own, l)).collect();
            let next = step.next.iter().map(|&next| places[next]).collect();
            self.steps[place] = Step { kind: step.kind.clone(), asked, next, rank: step.rank };
        }
        self.steps[at] = Step::all(Set::new(), vec![places[0]]);
    }

    /// The rank for the rounds of a loop whose body has these ways. The rank is at least as large as all
    /// ranks in the ways.
    pub(super) fn around<'a>(&self, ways: impl IntoIterator<Item = &'a std::rc::Rc<Way>>) -> u32 {
        let ranks = ways.into_iter().flat_map(|way| way.steps.iter().map(|step| step.rank));
        ranks.max().unwrap_or(0).next_multiple_of(2)
    }

    /// Adds a step for a record that stays in a loop of this rank; `guarded` says whether a guard chooses to
    /// keep it there.
    pub(super) fn round(&mut self, body: usize, rank: u32, guarded: bool) -> usize {
        let rank = rank + u32::from(guarded);
        self.push(Step { rank, ..Step::all(Set::new(), vec![body]) })
    }

    pub(super) fn has_guards(&self) -> bool {
        self.steps.iter().any(Step::is_choice)
    }

    pub(super) fn asked(&self) -> Set {
        let mut asked = Set::new();
        self.steps.iter().for_each(|step| add(&mut asked, &step.asked));
        asked
    }

    /// The way, reduced to the reachable steps from which a record can get through; `None` if the first step
    /// is none of these.
    pub(super) fn way(mut self) -> Option<Way> {
        let leads_on = Game::new(&self.steps).solve();
        if !leads_on[0] {
            return None;
        }
        self.steps.iter_mut().for_each(|step| step.next.retain(|&next| leads_on[next]));
        self.keep_what_is_come_to();
        let asked = self.asked();
        let has_guards = self.has_guards();
        if has_guards && self.steps.len() <= STEPS_MAX {
            return Some(Way { steps: self.steps, asked });
        }
        let outs = self.steps.into_iter().filter_map(|step| match step.kind {
            Kind::Out(flow) => Some(flow),
            _ => None,
        });
        let mut way = Way::of(asked, outs);
        if has_guards {
            way.steps[0].kind = Kind::Any;
        }
        Some(way)
    }

    /// Removes steps that cannot be reached from the first, and skips steps that only lead to another step.
    fn keep_what_is_come_to(&mut self) {
        let steps = &mut self.steps;
        for at in 0..steps.len() {
            for i in 0..steps[at].next.len() {
                let (mut next, mut hops) = (steps[at].next[i], 0);
                while steps[next].next.len() == 1
                    && steps[next].asked.is_empty()
                    && steps[next].rank == 0
                    && hops < steps.len()
                {
                    (next, hops) = (steps[next].next[0], hops + 1);
                }
                steps[at].next[i] = next;
            }
        }
        let mut places: Vec<Option<usize>> = vec![None; steps.len()];
        let (mut order, mut at) = (vec![0], 0);
        places[0] = Some(0);
        while at < order.len() {
            for &next in &steps[order[at]].next {
                if places[next].is_none() {
                    places[next] = Some(order.len());
                    order.push(next);
                }
            }
            at += 1;
        }
        let kept = order.into_iter().map(|at| {
            let mut step = steps[at].clone();
            step.next.iter_mut().for_each(|next| *next = places[*next].expect("it is come to"));
            step.next.sort_unstable();
            step.next.dedup();
            step
        });
        *steps = kept.collect();
    }
}

/// The player that chooses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Player {
    Guards,
    Others,
}

/// The game that decides from which steps a record can get through.
struct Game<'a> {
    steps: &'a [Step],
    before: Vec<Vec<usize>>,
    games: usize,
}

impl Game<'_> {
    fn new(steps: &[Step]) -> Game<'_> {
        let mut before = vec![Vec::new(); steps.len()];
        for (at, step) in steps.iter().enumerate() {
            step.next.iter().for_each(|&next| before[next].push(at));
        }
        Game { steps, before, games: 0 }
    }

    fn turn(&self, at: usize) -> Player {
        if self.steps[at].kind == Kind::Any { Player::Guards } else { Player::Others }
    }

    /// For each step whether the guards win.
    fn solve(mut self) -> Vec<bool> {
        let stuck = |player| -> Vec<usize> {
            let ends = (0..self.steps.len()).filter(|&at| self.steps[at].next.is_empty());
            ends.filter(|&at| self.turn(at) == player).collect()
        };
        let mut open = vec![true; self.steps.len()];
        let lost = self.drawn(Player::Others, stuck(Player::Guards), &open);
        remove(&mut open, &lost);
        let mut won = self.drawn(Player::Guards, stuck(Player::Others), &open);
        remove(&mut open, &won);
        self.play(open).into_iter().for_each(|at| won.push(at));
        let mut wins = vec![false; self.steps.len()];
        won.into_iter().for_each(|at| wins[at] = true);
        wins
    }

    /// The steps of `open` at which the guards win, if the game is played on `open` alone. Each step of
    /// `open` must lead to another step of `open`.
    fn play(&mut self, mut open: Vec<bool>) -> Vec<usize> {
        let mut won = Vec::new();
        loop {
            let left = || (0..open.len()).filter(|&at| open[at]);
            let Some(rank) = left().map(|at| self.steps[at].rank).max() else { return won };
            self.games += 1;
            if rank == 0 || self.games > GAMES_MAX {
                won.extend(left());
                return won;
            }
            let player = if rank % 2 == 0 { Player::Guards } else { Player::Others };
            let top = left().filter(|&at| self.steps[at].rank == rank).collect();
            let near = self.drawn(player, top, &open);
            let mut rest = open.clone();
            remove(&mut rest, &near);
            let won_there = self.play(rest.clone());
            let (other, against) = match player {
                Player::Guards => {
                    remove(&mut rest, &won_there);
                    (Player::Others, (0..rest.len()).filter(|&at| rest[at]).collect())
                }
                Player::Others => (Player::Guards, won_there),
            };
            if against.is_empty() {
                if player == Player::Guards {
                    won.extend(left());
                }
                return won;
            }
            let against = self.drawn(other, against, &open);
            remove(&mut open, &against);
            if other == Player::Guards {
                won.extend(against);
            }
        }
    }

    /// The steps of `open` from which a player can force the way to `to`.
    fn drawn(&self, player: Player, to: Vec<usize>, open: &[bool]) -> Vec<usize> {
        let mut inside = vec![false; open.len()];
        to.iter().for_each(|&at| inside[at] = true);
        let (mut drawn, mut at) = (to, 0);
        while at < drawn.len() {
            for &before in &self.before[drawn[at]] {
                let forced = || self.steps[before].next.iter().all(|&next| inside[next] || !open[next]);
                if open[before] && !inside[before] && (self.turn(before) == player || forced()) {
                    inside[before] = true;
                    drawn.push(before);
                }
            }
            at += 1;
        }
        drawn
    }
}

fn remove(from: &mut [bool], steps: &[usize]) {
    steps.iter().for_each(|&at| from[at] = false);
}
