//! Maps of text, as sub-options of tables are stored.

use std::collections::BTreeMap;

pub(crate) fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}
