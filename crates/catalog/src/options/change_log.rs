//! `cdc = {'enabled': true, …}`: the options of a change log in ScyllaDB's form.

use std::collections::BTreeMap;

use model::ChangeLogOptions;
use model::change_log::Preimage;

/// The sub-options of a table whose other options are `others`, in the form written by `table_option`; those
/// that are missing have their defaults.
pub(crate) fn of(others: &BTreeMap<String, String>) -> ChangeLogOptions {
    let default = ChangeLogOptions::default();
    let Some(cql) = others.get("cdc") else { return default };
    let entry = |name: &str| {
        // Values are words and numbers, so none has a quotation mark.
        let (_, rest) = cql.split_once(&format!("'{name}': '"))?;
        Some(rest.split_once('\'')?.0.to_ascii_lowercase())
    };
    let preimage = match entry("preimage").as_deref() {
        Some("true") => Preimage::Changed,
        Some("full") => Preimage::Full,
        _ => Preimage::Off,
    };
    ChangeLogOptions {
        preimage,
        postimage: entry("postimage").is_some_and(|word| word == "true"),
        keys_only: entry("delta").is_some_and(|word| word == "keys"),
        ttl_s: entry("ttl").and_then(|number| number.parse().ok()).unwrap_or(default.ttl_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::other_options::{OptionValue, table_option};
    use crate::options::text_map::map;

    #[test]
    fn options_are_found_in_what_is_stored() {
        let of = |entries: &[(&str, &str)]| {
            let cql = table_option("cdc", &OptionValue::Map(map(entries))).unwrap();
            of(&map(&[("cdc", &cql)]))
        };
        assert_eq!(of(&[("enabled", "true")]), ChangeLogOptions::default());
        let all = [
            ("enabled", "TRUE"),
            ("preimage", "Full"),
            ("postimage", "true"),
            ("delta", "KEYS"),
            ("ttl", "60"),
        ];
        let expect =
            ChangeLogOptions { preimage: Preimage::Full, postimage: true, keys_only: true, ttl_s: 60 };
        assert_eq!(of(&all), expect);
        assert_eq!(of(&[("preimage", "true")]).preimage, Preimage::Changed);
        assert_eq!(of(&[("preimage", "false"), ("postimage", "false")]), ChangeLogOptions::default());
    }
}
