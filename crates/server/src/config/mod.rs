//! What the server is started with: one typed value out of four layers.
//!
//! Flags count more than the environment (`MESSINA_…`), that more than `messina.yaml`, that more than the defaults.
//!
//! - [`options`]: the table of all options: names in both vendors' spellings, types, limits, what they do;
//! - [`units`]: durations and sizes;
//! - [`layers`]: YAML, environment and flags as settings, and settings into a [`Config`]; errors and warnings;
//! - [`flags`]: each option as a flag;
//! - [`security`]: every spelling of options about security that the peers have: obeyed, or the start is refused;
//! - [`encryption`], [`ports`]: TLS of a door, and which ports are opened;
//! - [`http_protection`]: who may use the admin API and read the metrics;
//! - [`ignored`]: options of the peers that the node does not have;
//! - [`index`]: the index of all options, each with one of three words;
//! - [`parts`]: the parts that a [`Config`] is made of, one for each consumer;
//! - [`storage`]: the engine's options, made of its parts.
//!
//! All of it is pure but [`load`], which reads the file and the environment.

pub mod encryption;
pub mod flags;
pub mod http_protection;
pub mod ignored;
pub mod index;
pub mod layers;
pub mod options;
pub mod parts;
pub mod ports;
pub mod security;
pub mod storage;
#[cfg(test)]
mod tests;
pub mod units;

use std::path::{Path, PathBuf};

pub use encryption::Encryption;
pub use http_protection::HttpProtection;
pub use layers::{ConfigErrors, Note, Setting};
pub use options::{CommitlogSync, IoBackend, LogLevel, OnDamagedCommitlog, SSTableFormat};
pub use parts::{
    BatchConfig, CommitlogConfig, CompactionConfig, HttpConfig, IdentityConfig, LargeDataConfig,
    ListenConfig, MachineConfig, PlaceConfig, ReadConfig, RequestConfig, ResultConfig, SSTableConfig,
    SchemaConfig, SecurityConfig, TimeoutConfig,
};

/// The file that is read if no other is named and it is there.
pub const DEFAULT_FILE: &str = "messina.yaml";
/// A configuration is never longer; whatever is, is another file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Everything that can be configured, in parts of one consumer each (see [`parts`]); the meaning of each option is in
/// [`options::OPTIONS`] and `docs/configuration.md`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub identity: IdentityConfig,
    pub place: PlaceConfig,
    pub machine: MachineConfig,
    pub commitlog: CommitlogConfig,
    pub compaction: CompactionConfig,
    pub sstables: SSTableConfig,
    pub large_data: LargeDataConfig,
    pub reads: ReadConfig,
    pub listen: ListenConfig,
    pub security: SecurityConfig,
    pub requests: RequestConfig,
    pub timeouts: TimeoutConfig,
    pub results: ResultConfig,
    pub batches: BatchConfig,
    pub schema: SchemaConfig,
    pub http: HttpConfig,
    pub log_level: LogLevel,
}

/// A configuration, and what is to be said about it once there is a log.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub notes: Vec<Note>,
    /// The file that was read.
    pub file: Option<PathBuf>,
}

/// Reads file and environment and puts the flags on top. `file` is the one that was asked for, if any.
///
/// # Errors
/// Everything that is wrong, not only the first thing.
#[allow(clippy::disallowed_methods, reason = "the door through which the environment comes in")]
pub fn load(file: Option<&Path>, flags: Vec<Setting>) -> Result<Loaded, ConfigErrors> {
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let from_environment = variables.iter().find(|(name, _)| name == "MESSINA_CONFIG");
    let asked = file.map(Path::to_owned).or(from_environment.map(|(_, path)| path.into()));
    let (path, must_be_there) = match asked {
        Some(path) => (path, true),
        None => (DEFAULT_FILE.into(), false),
    };
    let mut settings = vec![];
    let mut read = None;
    match read_file(&path) {
        Ok(text) => {
            settings.extend(layers::from_yaml(&path, &text)?);
            read = Some(path);
        }
        Err(error) if !must_be_there && error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(ConfigErrors::of(format!("cannot read {}: {error}", path.display()))),
    }
    settings.extend(layers::from_environment(&variables));
    settings.extend(flags);
    let (config, notes) = layers::apply(settings)?;
    Ok(Loaded { config, notes, file: read })
}

fn read_file(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other("it is longer than 1 MiB; is it a configuration?"));
    }
    Ok(text)
}
