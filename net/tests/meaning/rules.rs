//! Types by the language's rules, composed from the parts to the whole.
//!
//! For a record's labels, the type of a component gives the labels that the component *asks* for together
//! with all components after it, or that one of them does not accept the record. So a type is a function. The
//! argument of a type is the *continuation*: the labels that all components after this one ask of the records
//! that leave it. The value of a type is the labels that the component and the continuation together ask of
//! the records that enter. The language's definitions of the combinators are then the following rules, each
//! of which uses only the types of the parts:
//!
//! - *Subtyping*: a component that asks for `{a}` accepts every record with `a`.
//! - *Box, filter* with `v -> w | …`: asks for `v`; the continuation has to accept each `w`. *Flow
//!   inheritance*: labels that the continuation asks for and that no output variant makes are asked of the
//!   input record, if the component does not consume them and they are no binding tags (which are not
//!   inherited).
//! - `A .. B`: `A`, whose continuation is `B` followed by the continuation of `A .. B`.
//! - `A | B`: the part that matches best. A part matches by its *variants*: the sets of labels that it
//!   accepts, and asks for completely, if no component follows. A variant matches a record that has all its
//!   labels and no other binding tag, with the score of its number of labels; among equals the leftmost part
//!   wins.
//! - `A * P` is the exit by `P`, or `A .. (A * P)`: it asks for the matching pattern and for the labels that
//!   the continuation asks for, or for those that `A` asks for if its continuation is the same star. `A \ P`
//!   is `A` followed by the same test of patterns, after which records that match enter `A` again.
//! - `A ! <t>`: the labels that `A` asks for, and `<t>`, which is kept. `A @ 1`: `A`.
//! - `[| P, Q |]`: a record that matches a pattern; the record of the first pattern continues with the labels
//!   of the other patterns, which other records bring along. The continuation need not accept records that a
//!   cell lets pass unjoined.
//! - A net with a signature: the declared variant that matches best; only the variant's labels are visible
//!   inside; other labels bypass the net.
//!
//! Records that go round for ever get through: the accepted records are the greatest fixed point, the labels
//! asked for the least. Nothing here comes from the crate or from the other ways to find types.
//!
//! **Guards.** The language does not define the type of a guard, whose value is known only when the network
//! runs. In this module a record is accepted if some outcome of the guards lets all its descendants through.
//! No guard is trusted to keep a record inside for ever, and components that no outcome of the guards can
//! reach ask for nothing.

use std::collections::BTreeSet;

use crate::world::{Pattern, Set, World};

#[derive(Clone, Debug)]
pub(crate) enum Term {
    Identity,
    /// A box or filter: the labels that it consumes, and each record that it may emit.
    Taker(Set, Vec<Set>),
    Cell(Vec<Set>),
    Serial(Vec<Term>),
    Parallel(Vec<Term>),
    Star(Box<Term>, Vec<Pattern>),
    Feedback(Box<Term>, Vec<Pattern>),
    Split(Box<Term>, Set),
    Place(Box<Term>),
    /// A net with its declared variants.
    Net(Vec<Set>, Box<Term>),
}

/// A component with its variants.
#[derive(Debug)]
pub(crate) struct Typed<'a> {
    term: &'a Term,
    world: World,
    pub(crate) variants: BTreeSet<Set>,
    pub(crate) parts: Vec<Typed<'a>>,
}

/// The labels asked of a record: its own labels in the lowest lane, and in each further lane the labels that
/// bypass an enclosing net, from the innermost on.
type Asked = u128;
const LANE: u32 = Set::BITS;

/// The labels asked of each record, by its labels; `None` if the record is not accepted.
type Rest = Vec<Option<Asked>>;

/// The result of a test of patterns.
enum Tested {
    /// The pattern with these labels matches.
    Matches(Set),
    Otherwise,
    /// The guard of a pattern with these labels decides.
    Open(Set),
}

/// Whether a record may be routed to a variant.
fn fits(world: World, variant: Set, record: Set) -> bool {
    record & variant == variant && record & world.binding & !variant == 0
}

/// The first of the variants that match with the most labels.
fn best(world: World, variants: impl IntoIterator<Item = Set>, record: Set) -> Option<Set> {
    let mut best: Option<Set> = None;
    for variant in variants.into_iter().filter(|&variant| fits(world, variant, record)) {
        if best.is_none_or(|best| best.count_ones() < variant.count_ones()) {
            best = Some(variant);
        }
    }
    best
}

fn each(world: World, asked: impl FnMut(Set) -> Option<Asked>) -> Rest {
    world.sets().map(asked).collect()
}

/// The fixed point that iteration reaches from a start.
fn settled(mut at: Rest, next: impl Fn(&Rest) -> Rest) -> Rest {
    loop {
        let then = next(&at);
        if then == at {
            return at;
        }
        at = then;
    }
}

/// The labels that a loop (a star or a feedback) asks for, as a fixed point. `next` computes them from the
/// labels asked of records that certainly go round, and of those that go round if a guard holds. The function
/// computes two fixed points. The first says which records the loop accepts: the certain part begins with
/// every record and shrinks, the guarded part begins with none and grows, because no guard is trusted to keep
/// a record inside for ever. The second is the set of labels asked of accepted records, and grows from
/// nothing.
fn round(world: World, next: impl Fn(&Rest, &Rest) -> Rest) -> Rest {
    let only_taken = |rest: Rest| rest.into_iter().map(|asked| asked.map(|_| 0)).collect::<Rest>();
    let taken = settled(each(world, |_| None), |open| {
        settled(each(world, |_| Some(0)), |sure| only_taken(next(sure, open)))
    });
    settled(taken, |at| next(at, at))
}

fn test(patterns: &[Pattern], record: Set) -> Tested {
    let matching = patterns.iter().filter(|(labels, _)| record & labels == *labels);
    let mut sure: Option<Set> = None;
    let mut open: Option<Set> = None;
    for &(labels, guard) in matching {
        if guard {
            open = Some(open.unwrap_or(0) | labels);
        } else if sure.is_none_or(|sure| sure.count_ones() < labels.count_ones()) {
            sure = Some(labels);
        }
    }
    match (sure, open) {
        (Some(labels), _) => Tested::Matches(labels),
        (None, Some(labels)) => Tested::Open(labels),
        (None, None) => Tested::Otherwise,
    }
}

/// The labels asked for when a guard decides between two ways: those of both ways, or of the only way that
/// accepts the record.
fn either(one: Option<Asked>, other: Option<Asked>) -> Option<Asked> {
    one.or(other).map(|asked| asked | other.unwrap_or(0))
}

impl<'a> Typed<'a> {
    pub(crate) fn of(term: &'a Term, world: World) -> Typed<'a> {
        let parts: Vec<Typed> = match term {
            Term::Serial(parts) | Term::Parallel(parts) => {
                parts.iter().map(|part| Typed::of(part, world)).collect()
            }
            Term::Star(body, _)
            | Term::Feedback(body, _)
            | Term::Split(body, _)
            | Term::Place(body)
            | Term::Net(_, body) => vec![Typed::of(body, world)],
            Term::Identity | Term::Taker(..) | Term::Cell(_) => Vec::new(),
        };
        let mut typed = Typed { term, world, variants: BTreeSet::new(), parts };
        let alone = typed.before(&each(world, |_| Some(0)));
        let all = (0..).zip(alone).filter(|&(record, asked)| asked == Some(Asked::from(record)));
        typed.variants = match term {
            // The variants of all branches are variants of the parallel, even if another branch always wins.
            Term::Parallel(_) => typed.parts.iter().flat_map(|part| part.variants.clone()).collect(),
            Term::Cell(patterns) => patterns.iter().copied().collect(),
            Term::Net(variants, _) => variants.iter().copied().collect(),
            _ => all.map(|(record, _)| record).collect(),
        };
        typed
    }

    /// The part of a parallel that a record goes to.
    pub(crate) fn branch(&self, record: Set) -> Option<usize> {
        let matched = |part: &Typed| {
            best(self.world, part.variants.iter().copied(), record).map(|best| best.count_ones())
        };
        let matched: Vec<Option<u32>> = self.parts.iter().map(matched).collect();
        let most = matched.iter().flatten().max()?;
        matched.iter().position(|matched| matched.as_ref() == Some(most))
    }

    /// The labels that this component and its continuation ask for, given those that the continuation asks
    /// for.
    fn before(&self, rest: &Rest) -> Rest {
        let world = self.world;
        match self.term {
            Term::Identity => rest.clone(),
            Term::Taker(takes, gives) => each(world, |record| {
                let mut asked = Asked::from(*takes);
                let inherited = record & !takes & !world.binding;
                for made in gives {
                    asked |= through(rest[usize::from(inherited | made)]?, inherited & !made);
                }
                (record & takes == *takes).then_some(asked)
            }),
            Term::Cell(patterns) => each(world, |record| cell(patterns, record, rest)),
            Term::Serial(parts) if parts.is_empty() => rest.clone(),
            Term::Serial(_) => self.parts.iter().rev().fold(rest.clone(), |rest, part| part.before(&rest)),
            Term::Parallel(_) => {
                let parts: Vec<Rest> = self.parts.iter().map(|part| part.before(rest)).collect();
                each(world, |record| parts[self.branch(record)?][usize::from(record)])
            }
            Term::Star(_, exits) => round(world, |sure, open| {
                let (stays, may_stay) = (self.parts[0].before(sure), self.parts[0].before(open));
                each(world, |record| {
                    let at = usize::from(record);
                    match test(exits, record) {
                        Tested::Matches(labels) => Some(rest[at]? | Asked::from(labels)),
                        Tested::Otherwise => stays[at],
                        Tested::Open(labels) => Some(either(rest[at], may_stay[at])? | Asked::from(labels)),
                    }
                })
            }),
            Term::Feedback(_, backs) => {
                let behind = round(world, |sure, open| {
                    let (back, may_go_back) = (self.parts[0].before(sure), self.parts[0].before(open));
                    each(world, |record| {
                        let at = usize::from(record);
                        match test(backs, record) {
                            Tested::Matches(labels) => Some(back[at]? | Asked::from(labels)),
                            Tested::Otherwise => rest[at],
                            Tested::Open(labels) => {
                                Some(either(rest[at], may_go_back[at])? | Asked::from(labels))
                            }
                        }
                    })
                });
                self.parts[0].before(&behind)
            }
            Term::Split(_, tags) => {
                let inside = self.parts[0].before(rest);
                each(world, |record| {
                    let asked = inside[usize::from(record)]? | Asked::from(*tags);
                    (record & tags == *tags).then_some(asked)
                })
            }
            Term::Place(_) => self.parts[0].before(rest),
            Term::Net(variants, _) => each(world, |record| self.shielded(variants, record, rest)),
        }
    }

    fn shielded(&self, variants: &[Set], record: Set, rest: &Rest) -> Option<Asked> {
        let variant = best(self.world, variants.iter().copied(), record)?;
        let around = record & !variant;
        let whole = Asked::from(variant);
        // An error inside a net is reported for the net itself, so the record counts as accepted.
        let alone = self.parts[0].before(&each(self.world, |_| Some(0)));
        if alone[usize::from(variant)].is_none() {
            return Some(whole);
        }
        let behind = each(self.world, |out| {
            let asked = rest[usize::from(out | around)]?;
            let (own, further) = (asked & Asked::from(out), asked >> LANE);
            Some(own | Asked::from(asked as Set & around & !out) << LANE | further << (2 * LANE))
        });
        let asked = self.parts[0].before(&behind)[usize::from(variant)]?;
        Some(whole | asked >> LANE)
    }
}

/// The labels of `asked` that are asked of a component's input record, if only the labels `inherited` are
/// inherited from it; further lanes stay unchanged.
fn through(asked: Asked, inherited: Set) -> Asked {
    asked & (!Asked::from(Set::MAX) | Asked::from(inherited))
}

fn cell(patterns: &[Set], record: Set, rest: &Rest) -> Option<Asked> {
    let goes_on = record & patterns[0] == patterns[0];
    let matching = patterns.iter().filter(|labels| record & **labels == **labels);
    // If the record matches the first pattern and so continues, only variants that contain this pattern
    // count.
    let says_so = matching.filter(|labels| !goes_on || **labels & patterns[0] == patterns[0]);
    let most = says_so.clone().map(|labels| labels.count_ones()).max()?;
    let mut asked = says_so.copied().find(|labels| labels.count_ones() == most).map(Asked::from)?;
    if goes_on {
        let others = patterns[1..].iter().fold(0, |others, labels| others | labels);
        asked |= through(rest[usize::from(record | others)]?, record & !others);
    }
    Some(asked)
}
