//! `tombstone_gc = {'mode': …}`: when tombstones of a table become droppable.

use std::collections::BTreeMap;

/// ScyllaDB's modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TombstoneGcMode {
    /// `gc_grace_seconds` after the deletion. The default of tables without the option.
    #[default]
    Timeout,
    /// Never.
    Disabled,
    /// Immediately.
    Immediate,
    /// After a repair has ensured that all replicas have the deletion. A single node has the only replica,
    /// which has all deletions, so tombstones are droppable immediately.
    Repair,
}

impl TombstoneGcMode {
    /// The mode of a table whose other options are `others`, in the form written by `table_option`.
    pub(crate) fn of(others: &BTreeMap<String, String>) -> Self {
        let said = others.get("tombstone_gc").and_then(|cql| cql.split_once("'mode': '"));
        match said.map(|(_, rest)| rest.to_ascii_lowercase()) {
            Some(mode) if mode.starts_with("disabled'") => Self::Disabled,
            Some(mode) if mode.starts_with("immediate'") => Self::Immediate,
            Some(mode) if mode.starts_with("repair'") => Self::Repair,
            _ => Self::Timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::other_options::{OptionValue, table_option};
    use crate::options::settings::TableSettings;
    use crate::options::text_map::map;

    #[test]
    fn modes_are_found_in_what_is_stored() {
        let of = |entries: &[(&str, &str)]| {
            let cql = table_option("tombstone_gc", &OptionValue::Map(map(entries))).unwrap();
            let mut settings = TableSettings::default();
            settings.others.insert("tombstone_gc".to_string(), cql);
            settings.tombstone_gc()
        };
        assert_eq!(of(&[("mode", "timeout")]), TombstoneGcMode::Timeout);
        assert_eq!(of(&[("mode", "Disabled")]), TombstoneGcMode::Disabled);
        assert_eq!(of(&[("mode", "immediate")]), TombstoneGcMode::Immediate);
        let repair = [("mode", "repair"), ("propagation_delay_in_seconds", "60")];
        assert_eq!(of(&repair), TombstoneGcMode::Repair);
        assert_eq!(of(&repair[1..]), TombstoneGcMode::Timeout);
        assert_eq!(TableSettings::default().tombstone_gc(), TombstoneGcMode::Timeout);
    }
}
