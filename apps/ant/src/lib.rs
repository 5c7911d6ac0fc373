//! Ant colony optimisation of one machine's schedule: the boxes of `ant.snet`.
//!
//! ```
//! use app_ant::colony::solve;
//! use app_ant::jobs::Jobs;
//!
//! // Three jobs: the length of each, its cost for a unit of lateness, and its due date.
//! let jobs = Jobs::new(&[3, 2, 4], &[1, 5, 2], &[3, 4, 6])?;
//! let (cost, order) = solve(&jobs, 5, 10, 1);
//! assert_eq!((cost, order), (6, vec![1, 2, 0]));
//! # Ok::<(), String>(())
//! ```
#![deny(unsafe_code)]

pub mod colony;
pub mod jobs;
pub mod random;
#[allow(unsafe_code, reason = "the table is found by its unmangled name")]
mod exported {
    use super::{compare, draw, mark, open, send, walk};

    thalweg_box::library! {
        "box draw ((<jobs>, <seed>) -> (times, weights, due, <seed>))" => draw,
        "box open ((times, weights, due, <steps>) -> (jobs, trails, order, <tardiness>, <left>))" => open,
        "box send ((jobs, trails, <ants>, <seed>, <left>) -> (jobs, trails, <seed>, <left>, <ant>) \
            | (jobs, trails, <ants>, <seed>, <left>, <by>, <away>))" => send,
        "box walk ((jobs, trails, <seed>, <left>, <ant>) -> (found, <cost>, <ant>))" => walk,
        "box compare ((order, <tardiness>, <by>, <away>, found, <cost>, <ant>) \
            -> (order, <tardiness>, <by>, <away>))" => compare,
        "box mark ((trails, order, <by>, <away>, <left>) -> (trails, order, <left>))" => mark,
    }
}

pub use exported::{thalweg_box_entries, thalweg_boxes};

use colony::Trails;
use jobs::Jobs;
use random::Random;
use thalweg_box::{Array, Out, Variant};

/// Draws random jobs.
fn draw(jobs: i64, seed: i64, out: &mut Out) -> Result<(), String> {
    let count = u16::try_from(jobs).map_err(|_| format!("{jobs} jobs cannot be drawn"))?;
    let [times, weights, due] =
        jobs::drawn(count.into(), seed.cast_unsigned()).map(|numbers| Array::from_slice(&numbers));
    out.emit((times, weights, due, seed));
    Ok(())
}

/// Makes the problem, an initial order and its cost, and equal trails.
fn open(times: Vec<i64>, weights: Vec<i64>, due: Vec<i64>, steps: i64, out: &mut Out) -> Result<(), String> {
    let jobs = Jobs::new(&times, &weights, &due)?;
    let order = jobs.by_urgency();
    let (cost, first) = (jobs.cost(&order), Array::from_slice(&order));
    let numbers = Array::from_slice(&[times, weights, due].concat());
    out.emit((numbers, Array::from_slice(Trails::new(&order).numbers()), first, cost, steps));
    Ok(())
}

/// Emits the ants of a step, and the record that waits for them.
fn send(jobs: Array, trails: Array, ants: i64, seed: i64, left: i64, out: &mut Out) -> Result<(), String> {
    if ants < 1 {
        return Err(format!("<ants> is {ants}: there must be one at least"));
    }
    let waiting = (jobs.clone(), trails.clone(), ants, seed, left, 0i64, ants);
    out.generate((1..=ants).map(move |ant| (jobs.clone(), trails.clone(), seed, left, ant)));
    out.generate(std::iter::once(Variant(2, waiting)));
    Ok(())
}

/// Emits the order that an ant found, and its cost.
fn walk(jobs: Array, trails: Array, seed: i64, left: i64, ant: i64, out: &mut Out) -> Result<(), String> {
    let jobs = Jobs::of(jobs.as_slice().ok_or(FOREIGN)?)?;
    let trails = Trails::of(trails.as_slice().ok_or(FOREIGN)?, jobs.len()).ok_or(FOREIGN)?;
    let order = trails.walk(&jobs, Random::of([seed, left, ant].map(i64::cast_unsigned)));
    out.emit((Array::from_slice(&order), jobs.cost(&order), ant));
    Ok(())
}

/// Emits the better of the best order so far and another one. Of two orders with the same cost, that of the
/// earlier step or of the ant with the lower number is kept, so the result does not depend on the order in
/// which ants arrive.
#[expect(clippy::too_many_arguments, reason = "what the record has")]
fn compare(
    order: Array,
    cost: i64,
    by: i64,
    away: i64,
    found: Array,
    found_cost: i64,
    ant: i64,
    out: &mut Out,
) {
    if (found_cost, ant) < (cost, by) {
        out.emit((found, found_cost, ant, away - 1));
    } else {
        out.emit((order, cost, by, away - 1));
    }
}

/// Emits the trails for the next step.
fn mark(
    mut trails: Array,
    order: Array,
    _by: i64,
    _away: i64,
    left: i64,
    out: &mut Out,
) -> Result<(), &'static str> {
    let along = order.as_slice::<u32>().ok_or(FOREIGN)?;
    let is_job = |job: &u32| (*job as usize) < along.len();
    let marked = trails.make_mut::<f32>().filter(|_| along.iter().all(is_job)).ok_or(FOREIGN)?;
    Trails::of(marked, along.len()).ok_or(FOREIGN)?.mark(along);
    out.emit((trails, order, left - 1));
    Ok(())
}

const FOREIGN: &str = "jobs, trails and orders come from these boxes only";
