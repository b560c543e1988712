//! The loggers of the node, and the level of each: values, changed by the configuration and by `nodetool
//! setlogginglevel`.
//!
//! A logger is the target of a record. One without a level of its own has the level of [`ROOT`].

use std::collections::BTreeMap;

use log::{Level, LevelFilter};

use base::suggest::nearest;

/// The name for the level of all loggers that have none of their own, as in Cassandra.
pub const ROOT: &str = "ROOT";

/// All loggers, sorted. `docs/configuration.md` states what each logs; tests compare the names with that
/// page, and with the targets in the sources.
pub const LOGGERS: &[&str] = &[
    "admin",
    "auth",
    "backup",
    "batch",
    "compaction",
    "config",
    "cql",
    "engine",
    "init",
    "large_data",
    "memory",
    "query_result",
    "reactor",
    "reader_concurrency_semaphore",
    "slow_query",
    "tls",
];

/// The logger of this name, in any case.
///
/// # Errors
/// There is none; the text has those that there are.
pub fn logger(name: &str) -> Result<&'static str, String> {
    if name.eq_ignore_ascii_case(ROOT) {
        return Err(format!("the option log_level sets the level of {ROOT}"));
    }
    let found = LOGGERS.iter().copied().find(|known| known.eq_ignore_ascii_case(name));
    found.ok_or_else(|| match nearest(name, LOGGERS.iter().copied()) {
        Some(meant) => format!("there is no logger {name}; did you mean {meant}?"),
        None => format!("there is no logger {name}; there are: {ROOT}, {}", LOGGERS.join(", ")),
    })
}

/// The level of this name, in any case.
///
/// # Errors
/// There is none; the text has those that there are.
pub fn level(name: &str) -> Result<LevelFilter, String> {
    let level = if name.eq_ignore_ascii_case("ALL") { Ok(LevelFilter::Trace) } else { name.parse() };
    level.map_err(|_| {
        format!("there is no log level {name}; there are: OFF, ERROR, WARN, INFO, DEBUG, TRACE, ALL")
    })
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevels {
    pub root: LevelFilter,
    /// By the name of the logger; those that have a level of their own.
    pub loggers: BTreeMap<&'static str, LevelFilter>,
}

impl LogLevels {
    pub const OFF: Self = Self { root: LevelFilter::Off, loggers: BTreeMap::new() };

    /// The level of a target. Of crates from outside, only warnings and errors are logged.
    pub fn of(&self, target: &str) -> LevelFilter {
        match self.loggers.get(target) {
            Some(level) => *level,
            None if LOGGERS.contains(&target) => self.root,
            None => self.root.min(LevelFilter::Warn),
        }
    }

    /// The level above which no logger logs.
    pub fn highest(&self) -> LevelFilter {
        self.loggers.values().copied().fold(self.root, Ord::max)
    }

    pub fn is_on(&self, level: Level, target: &str) -> bool {
        level <= self.of(target)
    }

    /// Sets the level of a logger or of [`ROOT`]. Without a level, it gets the one that it has in `initial`.
    ///
    /// # Errors
    /// There is no such logger or level.
    pub fn set(&mut self, name: &str, to: Option<&str>, initial: &Self) -> Result<(), String> {
        let to = to.map(level).transpose()?;
        if name.eq_ignore_ascii_case(ROOT) {
            self.root = to.unwrap_or(initial.root);
            return Ok(());
        }
        let name = logger(name)?;
        match to.or(initial.loggers.get(name).copied()) {
            Some(level) => self.loggers.insert(name, level),
            None => self.loggers.remove(name),
        };
        Ok(())
    }

    /// [`ROOT`] and each logger, with the level that applies.
    pub fn list(&self) -> Vec<(&'static str, LevelFilter)> {
        let loggers = LOGGERS.iter().map(|name| (*name, self.of(name)));
        [(ROOT, self.root)].into_iter().chain(loggers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logger_has_its_own_level_or_that_of_the_root() {
        let initial =
            LogLevels { root: LevelFilter::Info, loggers: BTreeMap::from([("cql", LevelFilter::Error)]) };
        let mut levels = initial.clone();
        levels.set("Compaction", Some("debug"), &initial).unwrap();
        assert!(levels.is_on(Level::Debug, "compaction") && !levels.is_on(Level::Trace, "compaction"));
        assert!(levels.is_on(Level::Info, "engine") && !levels.is_on(Level::Debug, "engine"));
        assert!(!levels.is_on(Level::Warn, "cql") && levels.highest() == LevelFilter::Debug);
        levels.set("root", Some("ALL"), &initial).unwrap();
        assert_eq!((levels.of("engine"), levels.of("compaction")), (LevelFilter::Trace, LevelFilter::Debug));
        assert_eq!(levels.of("rustls::conn"), LevelFilter::Warn);
        levels.set("cql", Some("OFF"), &initial).unwrap();
        assert!(!levels.is_on(Level::Error, "cql"));
        for name in ["cql", "compaction", "ROOT"] {
            levels.set(name, None, &initial).unwrap();
        }
        assert_eq!(levels, initial);
        assert_eq!(levels.list()[0], (ROOT, LevelFilter::Info));
        assert_eq!(levels.list().len(), LOGGERS.len() + 1);
    }

    #[test]
    fn unknown_names_are_refused() {
        let mut levels = LogLevels::OFF;
        let mut refused =
            |name: &str, level: &str| levels.set(name, Some(level), &LogLevels::OFF).unwrap_err();
        assert_eq!(refused("compactoin", "DEBUG"), "there is no logger compactoin; did you mean compaction?");
        assert!(refused("org.apache.cassandra", "DEBUG").contains("there are: ROOT, admin, "));
        assert!(refused("cql", "LOUD").contains("there are: OFF, ERROR"));
        assert_eq!(levels, LogLevels::OFF);
    }

    #[test]
    fn loggers_are_sorted() {
        assert!(LOGGERS.is_sorted());
    }
}
