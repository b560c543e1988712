//! From a table's `compaction` options to the strategy that decides.

use std::collections::BTreeMap;

use compaction::{JobRules, Null, OptionsError, Strategy, strategy_from};

/// The strategy of these options, and why it could not be built if it could not.
///
/// CREATE and ALTER TABLE refuse such options, so only a schema that another version has stored can have them. The
/// table is then not compacted by itself: any strategy in the place of the one that was asked for would rewrite data in
/// a way that nobody chose.
pub(super) fn of(options: &BTreeMap<String, String>) -> (Box<dyn Strategy>, Option<OptionsError>) {
    match strategy_from(options) {
        Ok(strategy) => (strategy, None),
        Err(error) => (Box::new(Null::new()), Some(error)),
    }
}

/// How jobs are carried out by these options; as without options if the table has others than those that are
/// understood.
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
