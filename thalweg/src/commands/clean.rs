//! `thalweg clean`: remove what runs that died have left.

use crate::Terminal;
use crate::failure::Failure;

/// What `thalweg clean` is told.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn main(_: Arguments, _: Terminal) -> Result<(), Failure> {
    Err(Failure::not_yet("clean"))
}
