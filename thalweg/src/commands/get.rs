//! `thalweg get`: show settings of a run.

use crate::Terminal;
use crate::failure::Failure;

/// What `thalweg get` is told.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn main(_: Arguments, _: Terminal) -> Result<(), Failure> {
    Err(Failure::not_yet("get"))
}
