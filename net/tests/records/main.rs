//! Operations of components on records, compared with naive versions on maps.

mod drops;
mod evaluate;
mod expressions;
mod filters;
mod lines;
mod naive;
mod routing;
