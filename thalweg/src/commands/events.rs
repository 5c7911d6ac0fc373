//! `thalweg events`: print the events of a run.

use crate::Terminal;
use crate::failure::Failure;

/// What `thalweg events` is told.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn main(_: Arguments, _: Terminal) -> Result<(), Failure> {
    Err(Failure::not_yet("events"))
}
