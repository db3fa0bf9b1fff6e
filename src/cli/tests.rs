//! The command line as a whole.

use clap::CommandFactory as _;

use super::*;
use crate::config::options::{ALL, LOG_FILE};

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_option_of_the_table_is_an_argument_of_mount() {
    let command = Cli::command();
    let mount = command.find_subcommand("mount").unwrap();
    for option in ALL.iter().filter(|option| ***option != LOG_FILE) {
        assert!(mount.get_arguments().any(|argument| argument.get_long() == Some(option.name)));
    }
}

#[test]
fn every_option_is_documented_with_its_default() {
    let text = include_str!("../../docs/CONFIGURATION.md");
    for option in ALL {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{}` ", option.name)));
        let row = row.unwrap_or_else(|| panic!("no row for {}", option.name));
        assert!(row.contains(option.default), "{}: the default differs: {row}", option.name);
        assert!(row.contains(option.variable), "{}: the variable differs: {row}", option.name);
    }
}

#[test]
fn options_are_accepted_as_flags_and_after_o() {
    for line in [
        "zarrmount mount s3://b /mnt --chunks time=1,lat=-1 --read-only --log-file /tmp/log",
        "zarrmount mount s3://b /mnt -o ro,chunks=time=1:lat=-1 -v",
        "zarrmount -vv umount /mnt --timeout 5min",
        "zarrmount flush /mnt sst.zarr",
        "zarrmount status --json",
        "zarrmount recover",
        "zarrmount recover discard /spool a/b.nc --yes",
    ] {
        assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
    }
    for line in ["zarrmount", "zarrmount mount s3://b", "zarrmount umount /mnt --timeout soon"] {
        assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
    }
}
