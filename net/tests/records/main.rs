//! What components do with records, against naive versions that work on maps.

mod drops;
mod evaluate;
mod expressions;
mod filters;
mod lines;
mod naive;
mod routing;
