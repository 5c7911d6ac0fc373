//! `thalweg report`: say in a few sentences what limits the flow of a run.

use crate::Terminal;
use crate::failure::Failure;

/// What `thalweg report` is told.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn main(_: Arguments, _: Terminal) -> Result<(), Failure> {
    Err(Failure::not_yet("report"))
}
