//! Synchrocells `[|P₁, …, Pₙ|]`: a cell waits for a record for every pattern, and joins these records to one.

mod held;
pub(crate) mod joins;
mod star;
mod task;

pub(crate) use self::star::CellStar;
pub(crate) use self::task::CellTask;
