//! The log on standard error, in the line format of Cassandra and ScyllaDB:
//!
//! ```text
//! INFO  2026-11-21 22:00:01,123 [shard 0] engine - 3 segments replayed
//! ```
//!
//! For rare events only: each line is a system call. Times are local.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::config::LogLevel;

/// Number of levels that are written; 0: none.
static LEVELS: AtomicU8 = AtomicU8::new(LogLevel::Info as u8 + 1);

/// Sets the level; lines above it are left out from now on.
pub fn set_level(level: LogLevel) {
    LEVELS.store(level as u8 + 1, Ordering::Relaxed);
}

/// Turns the log off. For simulated nodes, whose faults are made on purpose.
pub fn silence() {
    LEVELS.store(0, Ordering::Relaxed);
}

pub fn is_on(level: LogLevel) -> bool {
    (level as u8) < LEVELS.load(Ordering::Relaxed)
}

/// Writes a line. `place` is the thread that logs: `main`, `shard 3`. Further lines of a text are indented,
/// so every line of the log that starts at column one begins with its level. A failed write is ignored.
pub fn log(level: LogLevel, place: impl fmt::Display, component: &str, text: fmt::Arguments<'_>) {
    if is_on(level) {
        let line = line(level, now(), &place, component, text);
        drop(std::io::stderr().lock().write_all(line.as_bytes()));
    }
}

/// A time in local time, with milliseconds.
struct Moment {
    time: libc::tm,
    millis: i64,
}

#[allow(clippy::disallowed_methods, reason = "a log says when")]
fn now() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs() as libc::time_t;
    // SAFETY: all zeros is a valid `tm`.
    let mut time = unsafe { std::mem::zeroed::<libc::tm>() };
    // SAFETY: both pointers are to local variables, and the call fills `time`.
    unsafe { libc::localtime_r(&seconds, &mut time) };
    Moment { time, millis: i64::from(since.subsec_millis()) }
}

fn line(
    level: LogLevel,
    at: Moment,
    place: &dyn fmt::Display,
    component: &str,
    text: fmt::Arguments<'_>,
) -> String {
    let level = match level {
        LogLevel::Error => "ERROR",
        LogLevel::Warn => "WARN ",
        LogLevel::Info => "INFO ",
        LogLevel::Debug => "DEBUG",
        LogLevel::Trace => "TRACE",
    };
    let Moment { time, millis } = at;
    format!(
        "{level} {:04}-{:02}-{:02} {:02}:{:02}:{:02},{millis:03} [{place}] {component} - {}\n",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec,
        text.to_string().trim_end().replace('\n', "\n  "),
    )
}

/// `info!("engine", "opened {}", dir)` logs from the main thread; other threads use [`log`] with their place.
#[macro_export]
macro_rules! info {
    ($component:expr, $($text:tt)*) => {
        $crate::logging::log($crate::config::LogLevel::Info, "main", $component, format_args!($($text)*))
    };
}

#[macro_export]
macro_rules! warning {
    ($component:expr, $($text:tt)*) => {
        $crate::logging::log($crate::config::LogLevel::Warn, "main", $component, format_args!($($text)*))
    };
}

#[macro_export]
macro_rules! error {
    ($component:expr, $($text:tt)*) => {
        $crate::logging::log($crate::config::LogLevel::Error, "main", $component, format_args!($($text)*))
    };
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
        let at = Moment { time, millis: 7 };
        let line = line(LogLevel::Info, at, &"shard 0", "engine", format_args!("two\nlines\n"));
        assert_eq!(line, "INFO  2026-11-21 22:00:01,007 [shard 0] engine - two\n  lines\n");
    }
}
