//! Every option as a flag: `--commitlog-sync batch` for `commitlog_sync`.
//!
//! The flags are generated from the table of options, so none is missing. The most common ones are declared
//! by the command line parser itself and left out here. The generated ones are in the long help only
//! (`--help`, not `-h`).

use clap::error::Error;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::Config;
use super::layers::Setting;
use super::options::{OPTIONS, OptionDef, Target};

/// Options for which the command line declares flags itself.
const SPELLED_OUT: &[&str] = &[
    "data_dir",
    "in_memory",
    "listen_address",
    "native_transport_port",
    "api_port",
    "prometheus_port",
    "smp",
    "memory",
    "log_level",
];

/// The options that were given as flags.
#[derive(Clone, Debug, Default)]
pub struct OptionFlags(pub Vec<Setting>);

/// `--native-transport-port`
fn flag_of(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

/// Every spelling of the options here, including those of Cassandra and ScyllaDB.
fn names() -> impl Iterator<Item = &'static str> {
    let spellings = |option: &'static OptionDef| {
        std::iter::once(option.name).chain(option.also.iter().map(|(name, _)| *name))
    };
    OPTIONS.iter().flat_map(spellings).filter(|name| !SPELLED_OUT.contains(name))
}

impl FromArgMatches for OptionFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = names().filter_map(|name| {
            let value = matches.get_one::<String>(name)?;
            Some(Setting::flag(&flag_of(name), name, value))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

impl Args for OptionFlags {
    fn augment_args(mut command: Command) -> Command {
        let mut config = Config::default();
        for option in OPTIONS {
            let at = (option.target)(&mut config);
            let is_switch = matches!(at, Target::Bool(_));
            let what = format!("{} [default: {}]", option.what, at.show());
            let flag = |name: &'static str| {
                let arg = Arg::new(name).long(flag_of(name)[2..].to_string()).value_name("VALUE");
                let arg = arg.allow_negative_numbers(true).hide_short_help(true);
                let arg = arg.help_heading("Options of messina.yaml");
                if is_switch { arg.num_args(0..=1).default_missing_value("true") } else { arg }
            };
            if !SPELLED_OUT.contains(&option.name) {
                command = command.arg(flag(option.name).help(what));
            }
            for (name, _) in option.also {
                command = command.arg(flag(name).hide(true));
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Vec<Setting> {
        let command = OptionFlags::augment_args(Command::new("messina"));
        let matches = command.try_get_matches_from([&["messina"], words].concat()).unwrap();
        OptionFlags::from_arg_matches(&matches).unwrap().0
    }

    #[test]
    fn a_flag_is_its_option() {
        let words = ["--authenticator", "PasswordAuthenticator", "--enable-cache", "false", "--pin-shards"];
        let expect = [
            Setting::flag("--pin-shards", "pin_shards", "true"),
            Setting::flag("--authenticator", "authenticator", "PasswordAuthenticator"),
            Setting::flag("--enable-cache", "enable_cache", "false"),
        ];
        assert_eq!(parsed(&words), expect);
        let peers = parsed(&["--commitlog-segment-size-in-mb", "16"]);
        let expect = Setting::flag("--commitlog-segment-size-in-mb", "commitlog_segment_size_in_mb", "16");
        assert_eq!(peers, [expect]);
    }

    #[test]
    fn what_is_spelled_out_is_an_option() {
        for name in SPELLED_OUT {
            assert!(OPTIONS.iter().any(|option| option.name == *name), "{name}");
        }
    }
}
