//! The configured audit log: `audit_logging_options`, with the names and defaults of Cassandra 5.0.

use std::path::{Path, PathBuf};

use super::options::EnumOption;
use crate::audit::{AuditOptions, AuditRules, NameFilter, RollCycle};

/// The section `audit_logging_options`.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditConfig {
    pub enabled: bool,
    /// `None`: `audit` in the data directory.
    pub dir: Option<PathBuf>,
    pub included_keyspaces: Vec<String>,
    pub excluded_keyspaces: Vec<String>,
    pub included_categories: Vec<String>,
    pub excluded_categories: Vec<String>,
    pub included_users: Vec<String>,
    pub excluded_users: Vec<String>,
    pub roll_cycle: RollCycle,
    pub block: bool,
    pub queue_bytes_max: u64,
    pub log_bytes_max: u64,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            dir: None,
            included_keyspaces: vec![],
            excluded_keyspaces: ["system", "system_schema", "system_virtual_schema"]
                .map(String::from)
                .to_vec(),
            included_categories: vec![],
            excluded_categories: vec![],
            included_users: vec![],
            excluded_users: vec![],
            roll_cycle: RollCycle::Hourly,
            block: true,
            queue_bytes_max: 256 << 20,
            log_bytes_max: 16 << 30,
        }
    }
}

impl EnumOption for RollCycle {
    fn names(&self) -> Vec<&'static str> {
        Self::ALL.map(|(name, _)| name).to_vec()
    }

    fn name(&self) -> &'static str {
        Self::name(*self)
    }

    fn set_by_name(&mut self, name: &str) -> bool {
        let found = Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        *self = found.map_or(*self, |(_, cycle)| *cycle);
        found.is_some()
    }
}

impl AuditConfig {
    /// The options of the log, whether it is enabled or not.
    ///
    /// # Errors
    /// A category is unknown.
    pub fn options(&self, data_dir: &Path) -> Result<AuditOptions, String> {
        let Self {
            enabled: _,
            dir,
            included_keyspaces,
            excluded_keyspaces,
            included_categories,
            excluded_categories,
            included_users,
            excluded_users,
            roll_cycle,
            block,
            queue_bytes_max,
            log_bytes_max,
        } = self;
        let filter = |included: &Vec<String>, excluded: &Vec<String>| NameFilter {
            included: included.clone(),
            excluded: excluded.clone(),
        };
        let mut rules = AuditRules {
            keyspaces: filter(included_keyspaces, excluded_keyspaces),
            categories: filter(included_categories, excluded_categories),
            users: filter(included_users, excluded_users),
        };
        rules.check()?;
        Ok(AuditOptions {
            rules,
            dir: dir.clone().unwrap_or_else(|| data_dir.join("audit")),
            roll_cycle: *roll_cycle,
            block: *block,
            queue_bytes_max: *queue_bytes_max,
            log_bytes_max: *log_bytes_max,
        })
    }
}
