//! From a table's `compaction` options to the strategy that decides.

use std::collections::BTreeMap;

use compaction::{SizeTiered, Strategy, strategy_from};

/// The strategy that a table's options ask for. They were checked when the table was made; of what another version
/// may have left in them and nobody understands, size tiers are made, which is right for any data.
pub(super) fn of(options: &BTreeMap<String, String>) -> Box<dyn Strategy> {
    strategy_from(options).unwrap_or_else(|_| Box::new(SizeTiered::default()))
}
