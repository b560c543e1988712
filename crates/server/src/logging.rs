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
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

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

/// A time in local time, with milliseconds.
struct LocalTime {
    time: libc::tm,
    millis: i64,
}

#[allow(clippy::disallowed_methods, reason = "a log says when")]
fn now() -> LocalTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs() as libc::time_t;
    // SAFETY: all zeros is a valid `tm`.
    let mut time = unsafe { std::mem::zeroed::<libc::tm>() };
    // SAFETY: both pointers are to local variables, and the call fills `time`.
    unsafe { libc::localtime_r(&seconds, &mut time) };
    LocalTime { time, millis: i64::from(since.subsec_millis()) }
}

fn line(
    level: Level,
    at: LocalTime,
    place: &dyn fmt::Display,
    logger: &str,
    text: &fmt::Arguments<'_>,
) -> String {
    let LocalTime { time, millis } = at;
    format!(
        "{level:<5} {:04}-{:02}-{:02} {:02}:{:02}:{:02},{millis:03} [{place}] {logger} - {}\n",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec,
        text.to_string().trim_end().replace('\n', "\n  "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_a_line() {
        // SAFETY: all zeros is a valid `tm`.
        let mut time = unsafe { std::mem::zeroed::<libc::tm>() };
        (time.tm_year, time.tm_mon, time.tm_mday) = (126, 10, 21);
        (time.tm_hour, time.tm_min, time.tm_sec) = (22, 0, 1);
        let at = LocalTime { time, millis: 7 };
        let line = line(Level::Info, at, &"shard 0", "engine", &format_args!("two\nlines\n"));
        assert_eq!(line, "INFO  2026-11-21 22:00:01,007 [shard 0] engine - two\n  lines\n");
    }
}
