//! Builds the strategy of a table from its `compaction` options.

use std::collections::BTreeMap;

use compaction::{JobRules, Null, OptionsError, Strategy, strategy_from};

/// The strategy of these options; if they are invalid, the null strategy and the error.
///
/// CREATE and ALTER TABLE refuse such options, so only a schema stored by another version can have them. The
/// table is then not compacted automatically: any other strategy would rewrite data in a way that no user
/// chose.
pub(super) fn of(options: &BTreeMap<String, String>) -> (Box<dyn Strategy>, Option<OptionsError>) {
    match strategy_from(options) {
        Ok(strategy) => (strategy, None),
        Err(error) => (Box::new(Null::new()), Some(error)),
    }
}

/// The rules for jobs in these options; the defaults if the options are invalid.
pub(super) fn rules_of(options: &BTreeMap<String, String>) -> JobRules {
    JobRules::new(options).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_no_strategy_takes_compact_nothing() {
        let options = |fanout: &str| {
            [("class", "LeveledCompactionStrategy"), ("fanout_size", fanout)]
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .into()
        };
        let (strategy, refused) = of(&options("1"));
        assert_eq!(strategy.name(), "NullCompactionStrategy");
        assert!(refused.is_some_and(|error| error.to_string().contains("fanout_size")));
        let (strategy, refused) = of(&options("2"));
        assert_eq!((strategy.name(), refused), ("LeveledCompactionStrategy", None));
    }
}
