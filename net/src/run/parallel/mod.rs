//! Parallel compositions: each record goes to the branch that matches it best.

use thalweg_exec::{Context, Out};

use crate::record::Record;

mod free;
mod ordered;

pub(crate) use self::free::ParallelDispatcher;
pub(crate) use self::ordered::OrderedParallel;

const NO_BRANCH: &str = "no branch takes a record with these labels";

/// The branch with the most space in its input stream.
fn emptiest(branches: &mut [Out<Record>], cx: &mut Context<'_>, tied: &[usize]) -> usize {
    let mut best = (tied[0], branches[tied[0]].room(cx));
    for &branch in &tied[1..] {
        let room = branches[branch].room(cx);
        if room > best.1 {
            best = (branch, room);
        }
    }
    best.0
}
