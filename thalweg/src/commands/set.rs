//! `thalweg set`: change a setting of a run while it runs.

use crate::Terminal;
use crate::failure::Failure;

/// What `thalweg set` is told.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn main(_: Arguments, _: Terminal) -> Result<(), Failure> {
    Err(Failure::not_yet("set"))
}
