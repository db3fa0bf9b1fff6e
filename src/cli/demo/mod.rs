//! `zarrmount demo`.

use super::error::CliError;
use super::exit::Exit;

/// See it at work in a temporary folder: copy NetCDF files in, look at the Zarr that arrives
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_args: &Args) -> Result<Exit, CliError> {
    Err(CliError::failed("the demonstration is not there yet"))
}
