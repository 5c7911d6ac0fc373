//! Types by brute force where guards decide: all possible decisions are tried.
//!
//! A record *gets through* if the guards can decide so that none of its descendants fails or stays in a loop
//! for ever. So a component is unfolded into every [`Place`] that a record may reach, with all components
//! that follow; then decisions are tried one by one for the places where a guard decides, until no record is
//! stuck and no guard keeps a record in its loop for ever. The labels required of a record are those required
//! at the places that its descendants reach and from which they can get through.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use crate::typing::{Coming, Line, Part, Table, branch, cell_line, declared, has, made_of, tested};
use crate::world::{Pattern, Set, World};

/// The most decisions that are tried for one place; no network of the tests needs as many.
const TRIES_MAX: usize = 100_000;

/// The continuation of a record after its present component.
#[derive(Clone, Copy)]
enum Behind<'a> {
    Nothing,
    /// Further parts in series.
    Parts(&'a [Part], &'a [Rc<Table>], usize),
    /// The test of patterns at a star or a feedback.
    Test(&'a Part, &'a Table, usize),
    /// The labels that bypass a net, and those of these labels that the record had when it entered the
    /// component.
    Around(Set, Set, usize),
}

/// The place of a record: in a component, or before the test of a loop.
#[derive(Clone, Copy)]
enum Place<'a> {
    Inside(&'a Part, &'a Table, usize),
    Test(usize),
}

/// The step of a record at a place.
#[derive(Clone, Debug)]
enum Move {
    Stuck,
    /// The labels required, and the places of all records that are made.
    All(Set, Vec<usize>),
    /// A guard of this loop makes the record leave or stay.
    Choice(Set, [usize; 2], usize),
}

struct Play<'a> {
    world: World,
    behinds: Vec<Behind<'a>>,
    known_behinds: HashMap<(usize, Set, Set, usize), usize>,
    places: Vec<(Place<'a>, Set, Set)>,
    known_places: HashMap<(usize, usize, Set, Set), usize>,
    moves: Vec<Move>,
    /// Places from which a record gets stuck, whatever is decided.
    dead: Vec<bool>,
    takes: HashMap<usize, bool>,
    tries: usize,
}

/// The line of the component's table for each set of labels.
pub(crate) fn lines(part: &Part, parts: &[Rc<Table>], world: World) -> Vec<Option<Line>> {
    let table = Table { lines: Vec::new(), variants: Default::default(), parts: parts.to_vec(), world };
    let mut play = Play {
        world,
        behinds: vec![Behind::Nothing],
        known_behinds: HashMap::new(),
        places: Vec::new(),
        known_places: HashMap::new(),
        moves: Vec::new(),
        dead: Vec::new(),
        takes: HashMap::new(),
        tries: 0,
    };
    let first: Vec<usize> =
        world.sets().map(|set| play.place(Place::Inside(part, &table, 0), set, set)).collect();
    while play.moves.len() < play.places.len() {
        let (place, set, own) = play.places[play.moves.len()];
        let then = play.next(place, set, own);
        play.moves.push(then);
    }
    play.bury();
    let line = |at: usize| Some(Line { asked: play.asked(at)?, ..Line::default() });
    first.into_iter().map(line).collect()
}

impl<'a> Play<'a> {
    fn behind(&mut self, behind: Behind<'a>) -> usize {
        let key = match behind {
            Behind::Nothing | Behind::Parts([], ..) => unreachable!("nothing waits there"),
            Behind::Parts(parts, _, then) => (parts.as_ptr() as usize, 0, 0, then),
            Behind::Test(part, _, then) => (std::ptr::from_ref(part) as usize, 1, 0, then),
            Behind::Around(around, own, then) => (0, around, own, then),
        };
        let next = self.behinds.len();
        let at = *self.known_behinds.entry(key).or_insert(next);
        if at == next {
            self.behinds.push(behind);
        }
        at
    }

    fn place(&mut self, place: Place<'a>, set: Set, own: Set) -> usize {
        let (part, behind) = match place {
            Place::Inside(part, _, behind) => (std::ptr::from_ref(part) as usize, behind),
            Place::Test(behind) => (0, behind),
        };
        let next = self.places.len();
        let at = *self.known_places.entry((part, behind, set, own)).or_insert(next);
        if at == next {
            self.places.push((place, set, own));
        }
        at
    }

    /// The place of a record after it leaves a component; `None` at the end of the network.
    fn leave(&mut self, behind: usize, set: Set, own: Set) -> Option<usize> {
        match self.behinds[behind] {
            Behind::Nothing => None,
            Behind::Parts(parts, tables, then) => {
                let then = self.parts(&parts[1..], &tables[1..], then);
                Some(self.place(Place::Inside(&parts[0], &tables[0], then), set, own))
            }
            Behind::Test(..) => Some(self.place(Place::Test(behind), set, own)),
            Behind::Around(around, around_own, then) => {
                self.leave(then, set | around, own | around_own & !set)
            }
        }
    }

    fn parts(&mut self, parts: &'a [Part], tables: &'a [Rc<Table>], then: usize) -> usize {
        if parts.is_empty() { then } else { self.behind(Behind::Parts(parts, tables, then)) }
    }

    fn next(&mut self, place: Place<'a>, set: Set, own: Set) -> Move {
        let (part, table, behind) = match place {
            Place::Inside(part, table, behind) => (part, table, behind),
            Place::Test(test) => return self.test(test, set, own),
        };
        let all = |asked: Set, next: Vec<usize>| Move::All(asked & own, next);
        match part {
            Part::Identity => all(0, self.leave(behind, set, own).into_iter().collect()),
            Part::Box(takes, gives) => self.taken(*takes, gives, behind, set, own),
            Part::Filter(takes, gives, otherwise) => {
                let gives = [&gives[..], otherwise.as_deref().unwrap_or(&[])].concat();
                self.taken(*takes, &gives, behind, set, own)
            }
            Part::Cell(patterns) => {
                let Some(line) = cell_line(patterns, set) else { return Move::Stuck };
                let joined = line.outs.iter().filter(|out| out.2 == Coming::Sure);
                let next = joined.filter_map(|&(out, out_own, _)| self.leave(behind, out, out_own & own));
                all(line.asked, next.collect())
            }
            Part::Serial(parts) => {
                let then = self.parts(&parts[1..], &table.parts[1..], behind);
                all(0, vec![self.place(Place::Inside(&parts[0], &table.parts[0], then), set, own)])
            }
            Part::Parallel(parts, _) => match branch(&table.parts, set) {
                Some(at) => {
                    all(0, vec![self.place(Place::Inside(&parts[at], &table.parts[at], behind), set, own)])
                }
                None => Move::Stuck,
            },
            Part::Split(_, tag, _) if !has(set, *tag) => Move::Stuck,
            Part::Split(body, tag, _) => {
                all(*tag, vec![self.place(Place::Inside(body, &table.parts[0], behind), set, own)])
            }
            Part::Place(body) => {
                all(0, vec![self.place(Place::Inside(body, &table.parts[0], behind), set, own)])
            }
            Part::Net(variants, body, _) => {
                let Some(variant) = declared(self.world, variants, set) else { return Move::Stuck };
                // An error inside a net is reported for the net itself, so the record does not get stuck
                // because of it.
                if table.parts[0].lines[usize::from(variant)].is_none() {
                    return all(variant, Vec::new());
                }
                let around = self.behind(Behind::Around(set & !variant, own & !variant, behind));
                let inside = Place::Inside(body, &table.parts[0], around);
                all(variant, vec![self.place(inside, variant, own & variant)])
            }
            Part::Star(..) => {
                let test = self.behind(Behind::Test(part, table, behind));
                all(0, vec![self.place(Place::Test(test), set, own)])
            }
            Part::Feedback(body, _) => {
                let test = self.behind(Behind::Test(part, table, behind));
                all(0, vec![self.place(Place::Inside(body, &table.parts[0], test), set, own)])
            }
        }
    }

    fn taken(&mut self, takes: Set, gives: &[Set], behind: usize, set: Set, own: Set) -> Move {
        if !has(set, takes) {
            return Move::Stuck;
        }
        let made = gives.iter().map(|&made| made_of(self.world, set, takes, made)).collect::<Vec<_>>();
        let next = made.into_iter().filter_map(|(out, out_own, _)| self.leave(behind, out, out_own & own));
        Move::All(takes & own, next.collect())
    }

    fn test(&mut self, test: usize, set: Set, own: Set) -> Move {
        let Behind::Test(part, table, behind) = self.behinds[test] else { unreachable!("it is a test") };
        let (body, patterns, star): (&Part, &[Pattern], bool) = match part {
            Part::Star(body, patterns, _) => (body, patterns, true),
            Part::Feedback(body, patterns) => (body, patterns, false),
            _ => unreachable!("it is a loop"),
        };
        let (matched, otherwise, asked) = tested(patterns, set);
        let (leaves, stays) = if star { (matched, otherwise) } else { (otherwise, matched) };
        let leaves = leaves.map(|_| match self.leave(behind, set, own) {
            Some(next) => vec![next],
            None => Vec::new(),
        });
        let stays = stays.map(|_| vec![self.place(Place::Inside(body, &table.parts[0], test), set, own)]);
        match (leaves, stays) {
            // If the record leaves the network here, no place follows: `usize::MAX` stands for the end.
            (Some(leaves), Some(stays)) => {
                let out = leaves.first().copied().unwrap_or(usize::MAX);
                Move::Choice(asked & own, [out, stays[0]], test)
            }
            (Some(next), None) | (None, Some(next)) => Move::All(asked & own, next),
            (None, None) => unreachable!("it leaves or stays"),
        }
    }

    fn is_dead(&self, at: usize) -> bool {
        // `usize::MAX` stands for the end of the network, where no record gets stuck.
        at != usize::MAX && self.dead[at]
    }

    fn bury(&mut self) {
        self.dead = vec![false; self.moves.len()];
        loop {
            let dead = |at: usize| match &self.moves[at] {
                Move::Stuck => true,
                Move::All(_, next) => next.iter().any(|&next| self.is_dead(next)),
                Move::Choice(_, next, _) => next.iter().all(|&next| self.is_dead(next)),
            };
            let new: Vec<usize> = (0..self.moves.len()).filter(|&at| !self.dead[at] && dead(at)).collect();
            if new.is_empty() {
                return;
            }
            new.into_iter().for_each(|at| self.dead[at] = true);
        }
    }

    /// Whether some decisions of the guards let all descendants of a record at this place get through.
    fn takes(&mut self, at: usize) -> bool {
        if at == usize::MAX {
            return true;
        }
        if let Some(&known) = self.takes.get(&at) {
            return known;
        }
        self.tries = 0;
        let takes = !self.is_dead(at) && self.try_decisions(at, &mut BTreeMap::new());
        self.takes.insert(at, takes);
        takes
    }

    /// Whether decisions for the other places can be added to `decided` so that a record at `from` gets
    /// through.
    fn try_decisions(&mut self, from: usize, decided: &mut BTreeMap<usize, usize>) -> bool {
        self.tries += 1;
        assert!(self.tries < TRIES_MAX, "too much to try: {decided:?}");
        let (mut seen, mut todo) = (HashSet::from([from]), vec![from]);
        let mut open = None;
        while let Some(at) = todo.pop() {
            match &self.moves[at] {
                Move::Stuck => unreachable!("it is dead"),
                Move::All(_, next) => todo.extend(next.iter().filter(|&&next| seen.insert(next))),
                Move::Choice(..) => match decided.get(&at) {
                    Some(&usize::MAX) => {}
                    Some(&next) if seen.insert(next) => todo.push(next),
                    Some(_) => {}
                    None => open = Some(at),
                },
            }
        }
        if seen.iter().any(|&at| self.keeps_for_ever(at, decided)) {
            return false;
        }
        let Some(open) = open else { return true };
        let Move::Choice(_, next, _) = self.moves[open] else { unreachable!("it is a choice") };
        for next in next {
            if !self.is_dead(next) {
                decided.insert(open, next);
                if self.try_decisions(from, decided) {
                    return true;
                }
                decided.remove(&open);
            }
        }
        false
    }

    /// Whether a guard is decided to keep a record in its loop, so that the record returns to the guard for
    /// ever.
    fn keeps_for_ever(&self, at: usize, decided: &BTreeMap<usize, usize>) -> bool {
        let Move::Choice(_, [_, stays], test) = self.moves[at] else { return false };
        if decided.get(&at) != Some(&stays) {
            return false;
        }
        let (mut seen, mut todo) = (HashSet::from([stays]), vec![stays]);
        while let Some(now) = todo.pop() {
            let next = match &self.moves[now] {
                Move::Stuck => Vec::new(),
                Move::All(_, next) => next.clone(),
                Move::Choice(..) => decided.get(&now).copied().into_iter().collect(),
            };
            let next = next.into_iter().filter(|&next| next != usize::MAX && self.is_inside(next, test));
            todo.extend(next.filter(|&next| seen.insert(next)));
        }
        seen.contains(&at)
    }

    /// Whether a place is in a loop, or before its test.
    fn is_inside(&self, at: usize, test: usize) -> bool {
        let (Place::Inside(_, _, mut behind) | Place::Test(mut behind)) = self.places[at].0;
        loop {
            if behind == test {
                return true;
            }
            behind = match self.behinds[behind] {
                Behind::Nothing => return false,
                Behind::Parts(.., then) | Behind::Test(.., then) | Behind::Around(.., then) => then,
            };
        }
    }

    /// The labels required of a record at this place; `None` if the record does not get through.
    fn asked(&mut self, at: usize) -> Option<Set> {
        if !self.takes(at) {
            return None;
        }
        let (mut seen, mut todo, mut all) = (HashSet::from([at]), vec![at], 0);
        while let Some(now) = todo.pop() {
            let (asked, next) = match self.moves[now].clone() {
                Move::Stuck => unreachable!("it gets through"),
                Move::All(asked, next) => (asked, next),
                Move::Choice(asked, next, _) => {
                    (asked, next.into_iter().filter(|&next| self.takes(next)).collect())
                }
            };
            all |= asked;
            let next = next.into_iter().filter(|&next| next != usize::MAX);
            todo.extend(next.filter(|&next| seen.insert(next)));
        }
        Some(all)
    }
}
