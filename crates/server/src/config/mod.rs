//! The server's configuration: one typed value from four layers.
//!
//! Flags override the environment (`MESSINA_…`), which overrides `messina.yaml`, which overrides the
//! defaults.
//!
//! - [`options`]: the table of all options: names in Cassandra's and ScyllaDB's spellings, types, limits,
//!   help;
//! - [`units`]: durations and sizes;
//! - [`layers`]: YAML, environment and flags as settings, and settings into a [`Config`]; errors and
//!   warnings;
//! - [`flags`]: each option as a flag;
//! - [`security`]: every spelling of the security options of Cassandra and ScyllaDB: obeyed, or the start is
//!   refused;
//! - [`audit`]: the audit log;
//! - [`encryption`], [`ports`]: TLS of a listener, and which ports are opened;
//! - [`http_protection`]: access rules of the admin API and the metrics;
//! - [`ignored`]: options of Cassandra and ScyllaDB that have no effect here;
//! - [`index`]: the index of all options, each with one of three words;
//! - [`parts`]: the parts of a [`Config`], one for each consumer;
//! - [`storage`]: the engine's options, built from the parts.
//!
//! Everything is pure except [`load`], which reads the file and the environment.

pub mod audit;
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

use crate::service_manager::Variables;

pub use encryption::Encryption;
pub use http_protection::HttpProtection;
pub use layers::{ConfigErrors, Note, Setting};
pub use options::{CommitlogSync, IoBackend, LogLevel, OnDamagedCommitlog, SSTableFormat};
pub use parts::{
    BackupConfig, BatchConfig, CommitlogConfig, CompactionConfig, FunctionConfig, HttpConfig, IdentityConfig,
    LargeDataConfig, ListenConfig, LogConfig, MachineConfig, PlaceConfig, ReadConfig, RequestConfig,
    ResultConfig, SSTableConfig, SchemaConfig, SecurityConfig, TimeoutConfig,
};

/// The file that is read if none is named and it exists.
pub const DEFAULT_FILE: &str = "messina.yaml";
/// A longer file is refused: it cannot be a configuration.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// All options, in parts with one consumer each (see [`parts`]). Their meaning is in [`options::OPTIONS`] and
/// `docs/configuration.md`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub identity: IdentityConfig,
    pub place: PlaceConfig,
    pub machine: MachineConfig,
    pub commitlog: CommitlogConfig,
    pub compaction: CompactionConfig,
    pub sstables: SSTableConfig,
    pub backup: BackupConfig,
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
    pub log: LogConfig,
}

/// A configuration, with the notes to be logged once there is a log.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub notes: Vec<Note>,
    /// The file that was read.
    pub file: Option<PathBuf>,
}

/// The directory for temporary files, as the environment names it.
#[allow(clippy::disallowed_methods, reason = "the door through which the environment comes in")]
pub fn temporary_dir() -> PathBuf {
    std::env::temp_dir()
}

/// What systemd put into the environment of a service.
#[allow(clippy::disallowed_methods, reason = "the door through which the environment comes in")]
pub fn service_variables() -> Variables {
    let variable = |name: &str| std::env::var(name).ok();
    Variables {
        socket: variable("NOTIFY_SOCKET"),
        watchdog_us: variable("WATCHDOG_USEC"),
        watchdog_pid: variable("WATCHDOG_PID"),
    }
}

/// Reads file and environment and puts the flags on top. `file` is the one that was asked for, if any.
///
/// # Errors
/// All errors, not only the first one.
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
