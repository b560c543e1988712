//! Checks `compaction = {…}` of a table in Cassandra: the table of options of the crate `compaction`,
//! without the values that would have no effect in a Cassandra node.

use std::collections::BTreeMap;

use compaction::{OptionsError, check_options};

use crate::wire::{Input, WireError};

/// Values that Messina's own server accepts and a Cassandra node must not, each with the reason.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "unsafe_aggressive_sstable_expiration",
        "true",
        "unsafe_aggressive_sstable_expiration cannot be true in Cassandra: the node checks each SSTable against those that \
         overlap it before it drops it; leave the option out",
    ),
    (
        "parallelize_output_shards",
        "false",
        "parallelize_output_shards cannot be false in Cassandra: the node runs the jobs of a major compaction with \
         concurrent_compactors; leave the option out",
    ),
];

/// The class and the options of a message: a number of pairs of texts.
pub fn read_options(bytes: &[u8]) -> Result<BTreeMap<String, String>, WireError> {
    let mut input = Input::new(bytes);
    let mut options = BTreeMap::new();
    for _ in 0..input.count("number of options", 8)? {
        let name = input.text("name of an option")?;
        options.insert(name, input.text("value of an option")?);
    }
    input.end()?;
    Ok(options)
}

/// Refuses options that a table in a Cassandra node must not have.
///
/// # Errors
/// Those of [`check_options`], and the values that have no effect in a Cassandra node.
pub fn check(options: &BTreeMap<String, String>) -> Result<(), OptionsError> {
    check_options(options)?;
    for (name, value, why) in REFUSED {
        if options.get(*name).is_some_and(|given| given.eq_ignore_ascii_case(value)) {
            return Err(OptionsError::Refused((*why).to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn the_bounds_are_those_of_the_table_of_options() {
        let incremental = "io.messina.IncrementalCompactionStrategy";
        let error = |pairs: &[(&str, &str)]| check(&options(pairs)).err().map(|error| error.to_string());
        assert_eq!(error(&[("class", incremental), ("sstable_size_in_mb", "100")]), None);
        let text = error(&[("class", incremental), ("bucket_low", "1.5")]).expect("refused");
        assert!(text.contains("between 0 and 1"), "{text}");
        let text = error(&[("class", incremental), ("window", "1")]).expect("refused");
        assert_eq!(text, "Properties specified [window] are not understood by IncrementalCompactionStrategy");
        assert!(error(&[("class", "io.messina.OtherStrategy")]).is_some());
    }

    #[test]
    fn values_without_effect_are_refused() {
        for (name, value, why) in REFUSED {
            let class = "io.messina.UnifiedCompactionStrategy";
            let refused = check(&options(&[("class", class), (name, value)]));
            assert_eq!(refused, Err(OptionsError::Refused(why.to_string())));
            let other = if *value == "true" { "false" } else { "true" };
            assert_eq!(check(&options(&[("class", class), (name, other)])), Ok(()));
        }
    }

    #[test]
    fn options_are_read_from_bytes() {
        let mut bytes = 1i32.to_be_bytes().to_vec();
        for text in ["class", "X"] {
            bytes.extend((text.len() as i32).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        assert_eq!(read_options(&bytes), Ok(options(&[("class", "X")])));
        for len in 0..bytes.len() {
            assert!(read_options(&bytes[..len]).is_err());
        }
    }
}
