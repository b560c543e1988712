//! Which entries the audit log has, and how its files roll. Decides; knows no file and no clock.

use std::path::PathBuf;

use cql::AuditCategory;

use super::entry::AuditEntry;

/// The names of one kind that entries must, or must not, have. Source: `audit/AuditLogFilter.java` of
/// Cassandra 5.0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameFilter {
    /// Empty: all.
    pub included: Vec<String>,
    /// Stronger than `included`.
    pub excluded: Vec<String>,
}

impl NameFilter {
    /// Whether an entry of this name is logged. An entry without the name is, unless only some names are
    /// included.
    pub fn admits(&self, name: Option<&str>) -> bool {
        let has = |names: &[String]| name.is_some_and(|name| names.iter().any(|known| known == name));
        !has(&self.excluded) && (self.included.is_empty() || has(&self.included))
    }
}

/// The three filters; an entry must pass all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRules {
    pub keyspaces: NameFilter,
    /// In capitals.
    pub categories: NameFilter,
    pub users: NameFilter,
}

impl AuditRules {
    pub fn admits(&self, entry: &AuditEntry<'_>) -> bool {
        self.categories.admits(Some(entry.event.category().name()))
            && self.keyspaces.admits(entry.keyspace)
            && self.users.admits(entry.user)
    }

    /// Replaces the names of categories by those in capitals.
    ///
    /// # Errors
    /// A name is no category.
    pub fn check(&mut self) -> Result<(), String> {
        for name in self.categories.included.iter_mut().chain(&mut self.categories.excluded) {
            name.make_ascii_uppercase();
            if AuditCategory::ALL.iter().all(|category| category.name() != name) {
                let names = AuditCategory::ALL.map(AuditCategory::name).join(", ");
                return Err(format!("{name} is not a category of the audit log; there are: {names}"));
            }
        }
        Ok(())
    }
}

/// When the file is closed and a new one begun, by the wall clock (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RollCycle {
    Minutely,
    #[default]
    Hourly,
    Daily,
}

impl RollCycle {
    /// In the words of Cassandra.
    pub const ALL: [(&'static str, Self); 3] =
        [("MINUTELY", Self::Minutely), ("HOURLY", Self::Hourly), ("DAILY", Self::Daily)];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, cycle)| *cycle == self).map_or("", |(name, _)| name)
    }

    /// The number of the cycle that has this time, in seconds since 1970.
    pub fn number(self, wall_s: u64) -> u64 {
        wall_s / self.length_s()
    }

    pub fn length_s(self) -> u64 {
        match self {
            Self::Minutely => 60,
            Self::Hourly => 3600,
            Self::Daily => 86_400,
        }
    }
}

/// All that `audit_logging_options` and `nodetool enableauditlog` may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditOptions {
    pub rules: AuditRules,
    pub dir: PathBuf,
    pub roll_cycle: RollCycle,
    /// Whether a request waits while the queue is full; otherwise its entry is dropped, and counted.
    pub block: bool,
    /// Limit on one shard of the bytes that wait to be written.
    pub queue_bytes_max: u64,
    /// Limit of the files together; the oldest are removed.
    pub log_bytes_max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &str) -> Vec<String> {
        names.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn excluded_is_stronger_than_included() {
        let admitted = |included: &str, excluded: &str| {
            let filter = NameFilter { included: names(included), excluded: names(excluded) };
            [Some("a"), Some("b"), None].map(|name| filter.admits(name))
        };
        assert_eq!(admitted("", ""), [true, true, true]);
        assert_eq!(admitted("a", ""), [true, false, false]);
        assert_eq!(admitted("", "a"), [false, true, true]);
        assert_eq!(admitted("a b", "a"), [false, true, false]);
    }

    #[test]
    fn categories_are_checked() {
        let mut rules = AuditRules::default();
        rules.categories.excluded = names("query Dml");
        assert_eq!(rules.check(), Ok(()));
        assert_eq!(rules.categories.excluded, ["QUERY", "DML"]);
        rules.categories.included = names("queries");
        let error = rules.check().unwrap_err();
        assert!(error.contains("QUERIES") && error.contains("PREPARE"), "{error}");
    }

    #[test]
    fn cycles_begin_at_round_times() {
        assert_eq!(RollCycle::Hourly.number(7199), 1);
        assert_eq!(RollCycle::Hourly.number(7200), 2);
        assert_eq!(RollCycle::Daily.name(), "DAILY");
    }
}
