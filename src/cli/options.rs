//! The options of `mount` as clap arguments, made from the table in `config`.

use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};

use super::Globals;
use super::error::CliError;
use crate::config::layers::{Layer, Layers, Origin};
use crate::config::options::{ALL, LOG_FILE, OptionSpec};

/// The flags that were given.
#[derive(Debug, Clone, Default)]
pub(super) struct OptionFlags(Vec<(&'static OptionSpec, String)>);

impl OptionFlags {
    /// All layers: these flags and `-o`, the environment, the file.
    pub(super) fn layers(
        &self,
        globals: &Globals,
        mount_options: &[String],
        file: Option<&std::path::Path>,
    ) -> Result<Layers, CliError> {
        let mut flags = Layer::empty(Origin::CommandLine);
        for (option, text) in &self.0 {
            flags.set(option, text)?;
        }
        if let Some(path) = &globals.log_file {
            flags.set(&LOG_FILE, path)?;
        }
        for text in mount_options {
            flags.add_mount_options(text)?;
        }
        let environment = Layer::from_environment(|name| std::env::var(name).ok());
        let file = file.map(Layer::from_file).transpose()?;
        Ok(Layers::new([Some(flags), Some(environment), file].into_iter().flatten().collect()))
    }
}

/// `--log-file` is an option of every verb and therefore not one of these.
fn rows() -> impl Iterator<Item = &'static OptionSpec> {
    ALL.iter().copied().filter(|option| **option != LOG_FILE)
}

impl clap::Args for OptionFlags {
    fn augment_args(command: Command) -> Command {
        rows().fold(command, |command, option| command.arg(argument(option)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(option: &'static OptionSpec) -> Arg {
    let help = format!("{} [default: {}]", option.help, option.default);
    let argument = Arg::new(option.name).long(option.name).help(help).help_heading("Mount options");
    match option.value {
        None => argument.action(ArgAction::SetTrue),
        Some(name) => argument.value_name(name).allow_hyphen_values(true),
    }
}

impl FromArgMatches for OptionFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = rows().filter_map(|option| {
            let text = if option.is_switch() {
                matches.get_flag(option.name).then(|| "on".to_owned())
            } else {
                matches.get_one::<String>(option.name).cloned()
            };
            Some((option, text?))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
