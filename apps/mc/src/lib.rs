//! Monte Carlo option pricing: the boxes of `mc.snet`, which takes a path at a time, and of `farm.snet`,
//! which takes batches.
//!
//! ```
//! use app_mc::option::{Call, Sums};
//!
//! let call = Call { spot: 100.0, strike: 105.0, rate: 0.03, volatility: 0.25, years: 1.0 };
//! let sums = (1..=1000).try_fold(Sums::default(), |sums, path| sums.with(call.payoff(path)))?;
//! let (price, error) = call.price(sums, 1000);
//! assert!((price - call.exact()).abs() < 3.0 * error);
//! # Ok::<(), &'static str>(())
//! ```
#![deny(unsafe_code)]

pub mod option;
#[allow(unsafe_code, reason = "the table is found by its unmangled name")]
mod exported {
    use super::{PATHS_PER_BATCH, add, deal, merge, open, settle, simulate, simulate_batch};

    thalweg_box::library! {
        parameters PATHS_PER_BATCH;
        "box open ((spot, strike, rate, volatility, years) -> (option, sum, squares))" => open,
        "box simulate ((option, <path>) -> (payoff))" => simulate,
        "box add ((sum, squares, payoff) -> (sum, squares))" => add,
        "box deal ((option, sum, squares, <paths>, <batches>, <lanes>) \
            -> (option, <from>, <to>, <lane>) | (option, sum, squares, <paths>, <left>))" => deal,
        "box simulate_batch ((option, <from>, <to>) -> (more, more_squares))" => simulate_batch,
        "box merge ((sum, squares, <left>, more, more_squares) -> (sum, squares, <left>))" => merge,
        "box settle ((option, sum, squares, <paths>) -> (price, error, exact, <paths>))" => settle,
    }
}

pub use exported::{thalweg_box_entries, thalweg_boxes};

use option::{Call, Sums};
use thalweg_box::{Out, Parameter};

/// The number of paths in a batch, for options that state no number of batches. The unit `grain` marks it as
/// one that `thalweg tune` may change.
static PATHS_PER_BATCH: Parameter = Parameter::new(
    c"mc.paths_per_batch",
    c"grain",
    c"Paths in a batch, if <batches> is 0",
    1..=100_000_000,
    10_000,
);

/// The option as the boxes pass it on: its five numbers in an array.
fn to_array(call: Call) -> Vec<f64> {
    vec![call.spot, call.strike, call.rate, call.volatility, call.years]
}

fn from_array(option: &[f64]) -> Result<Call, String> {
    let &[spot, strike, rate, volatility, years] = option else {
        return Err(format!("an option has five numbers, and this one {}", option.len()));
    };
    Ok(Call { spot, strike, rate, volatility, years })
}

/// Emits the option, and empty sums.
fn open(spot: f64, strike: f64, rate: f64, volatility: f64, years: f64, out: &mut Out) -> Result<(), String> {
    let call = Call { spot, strike, rate, volatility, years }.checked()?;
    out.emit((to_array(call), 0i64, 0i64));
    Ok(())
}

/// Emits the payoff of one path.
fn simulate(option: Vec<f64>, path: i64, out: &mut Out) -> Result<(), String> {
    out.emit((from_array(&option)?.payoff(path.cast_unsigned()),));
    Ok(())
}

/// Adds one payoff to the sums.
fn add(sum: i64, squares: i64, payoff: i64, out: &mut Out) -> Result<(), &'static str> {
    let Sums { sum, squares } = Sums { sum, squares }.with(payoff)?;
    out.emit((sum, squares));
    Ok(())
}

/// Emits batches of about the same size, assigned to the lanes in turns; and the sums that wait for them. With
/// 0 batches, their number follows from [`PATHS_PER_BATCH`].
fn deal(
    option: Vec<f64>,
    sum: i64,
    squares: i64,
    paths: i64,
    batches: i64,
    lanes: i64,
    out: &mut Out,
) -> Result<(), String> {
    let batches = match batches {
        0 => paths.cast_unsigned().div_ceil(PATHS_PER_BATCH.get()).cast_signed(),
        batches => batches,
    };
    if !(1..=paths).contains(&batches) || lanes < 1 {
        return Err(format!(
            "{paths} paths in {batches} batches on {lanes} lanes: there must be one of each at least"
        ));
    }
    out.emit_variant(2, (option.clone(), sum, squares, paths, batches));
    let border = move |batch: i64| (i128::from(paths) * i128::from(batch) / i128::from(batches)) as i64;
    out.generate(
        (0..batches).map(move |batch| (option.clone(), border(batch), border(batch + 1), batch % lanes)),
    );
    Ok(())
}

/// Emits the sum of the payoffs of the paths after `from` up to `to`.
fn simulate_batch(option: Vec<f64>, from: i64, to: i64, out: &mut Out) -> Result<(), String> {
    let call = from_array(&option)?;
    let add = |sums: Sums, path: i64| sums.with(call.payoff(path.cast_unsigned()));
    let Sums { sum, squares } = (from + 1..=to).try_fold(Sums::default(), add)?;
    out.emit((sum, squares));
    Ok(())
}

/// Adds one batch to the sums.
fn merge(
    sum: i64,
    squares: i64,
    left: i64,
    more: i64,
    more_squares: i64,
    out: &mut Out,
) -> Result<(), &'static str> {
    let Sums { sum, squares } = Sums { sum, squares }.merge(Sums { sum: more, squares: more_squares })?;
    out.emit((sum, squares, left - 1));
    Ok(())
}

/// Emits the price, its standard error and the exact price.
fn settle(option: Vec<f64>, sum: i64, squares: i64, paths: i64, out: &mut Out) -> Result<(), String> {
    if paths < 1 {
        return Err(format!("<paths> is {paths}: there must be one at least"));
    }
    let call = from_array(&option)?;
    let (price, error) = call.price(Sums { sum, squares }, paths.cast_unsigned());
    out.emit((price, error, call.exact(), paths));
    Ok(())
}
