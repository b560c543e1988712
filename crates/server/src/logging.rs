//! The log of the process: the records of the crate `log`, on standard error, in the shape of the peers'
//! lines:
//!
//! ```text
//! INFO  2026-11-21 22:00:01,123 [shard 0] engine - 3 segments replayed
//! ```
//!
//! The target of a record is its logger, see [`log_levels`](crate::log_levels). The shard is the one whose
//! code logs; `main` is every other thread. For rare events only: each line is a system call. Times are
//! local.
//!
//! A process without [`start`] logs nothing, as tests and the simulation do.

use std::fmt;
use std::io::Write;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use log::{Level, Log, Metadata, Record};

use crate::log_levels::LogLevels;

/// The levels now, and those of the configuration.
struct Levels {
    now: LogLevels,
    initial: LogLevels,
}

/// Read for each line that the highest level of all loggers admits.
static LEVELS: RwLock<Levels> = RwLock::new(Levels { now: LogLevels::OFF, initial: LogLevels::OFF });

/// Logs from now on, at these levels. Another logger that the process has already stays.
pub fn start(levels: LogLevels) {
    LazyLock::force(&ZONE);
    // Only tests have another.
    let _ = log::set_logger(&StandardError);
    log::set_max_level(levels.highest());
    *LEVELS.write().unwrap_or_else(PoisonError::into_inner) = Levels { now: levels.clone(), initial: levels };
}

/// The levels now.
pub fn levels() -> LogLevels {
    read_levels().now.clone()
}

/// Sets the level of a logger. Without a level, the logger gets its level of the configuration; without a
/// logger, all do.
///
/// # Errors
/// There is no such logger or level.
pub fn set_level(logger: Option<&str>, level: Option<&str>) -> Result<(), String> {
    let levels = &mut *LEVELS.write().unwrap_or_else(PoisonError::into_inner);
    match logger {
        Some(logger) => levels.now.set(logger, level, &levels.initial)?,
        None => levels.now = levels.initial.clone(),
    }
    log::set_max_level(levels.now.highest());
    Ok(())
}

fn read_levels() -> RwLockReadGuard<'static, Levels> {
    LEVELS.read().unwrap_or_else(PoisonError::into_inner)
}

struct StandardError;

impl Log for StandardError {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        read_levels().now.is_on(metadata.level(), metadata.target())
    }

    /// Writes a line. A line break in the text is indented, so that a line of the log begins with its level.
    /// What cannot be written is lost.
    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let line = match runtime::current_shard() {
            Some(shard) => {
                line(record.level(), now(), &format_args!("shard {shard}"), record.target(), record.args())
            }
            None => line(record.level(), now(), &"main", record.target(), record.args()),
        };
        drop(std::io::stderr().lock().write_all(line.as_bytes()));
    }

    fn flush(&self) {}
}

/// The time zone of the process, determined once: a line of the log must not wait for a file.
static ZONE: LazyLock<TimeZone> = LazyLock::new(TimeZone::system);

#[allow(clippy::disallowed_methods, reason = "a log says when")]
fn now() -> Zoned {
    let now = std::time::SystemTime::now();
    Timestamp::try_from(now).unwrap_or_default().to_zoned(ZONE.clone())
}

fn line(
    level: Level,
    at: Zoned,
    place: &dyn fmt::Display,
    logger: &str,
    text: &fmt::Arguments<'_>,
) -> String {
    let text = text.to_string();
    let text = text.trim_end().replace('\n', "\n  ");
    format!("{level:<5} {} [{place}] {logger} - {text}\n", at.strftime("%Y-%m-%d %H:%M:%S,%3f"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_a_line() {
        let at: Timestamp = "2026-11-21T21:00:01.007999Z".parse().expect("a time");
        let at = at.to_zoned(TimeZone::fixed(jiff::tz::offset(1)));
        let line = line(Level::Info, at, &"shard 0", "engine", &format_args!("two\nlines\n"));
        assert_eq!(line, "INFO  2026-11-21 22:00:01,007 [shard 0] engine - two\n  lines\n");
    }
}
