//! `thalweg scope curve`: what pulling a view costs, by rate and shape.

use thalweg_scope::{Target, View};

use super::Arguments;
use crate::Terminal;
use crate::failure::Failure;

pub(crate) fn main(_: &View, _: Target, _: &Arguments, _: Terminal) -> Result<(), Failure> {
    Ok(())
}
