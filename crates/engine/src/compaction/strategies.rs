//! From a table's `compaction` options to the strategy that decides.

use std::collections::BTreeMap;

use compaction::{Hybrid, HybridOptions, Null, SizeTiered, Strategy, strategy_from};

/// The strategy that a table's options ask for. They were checked when the table was made; of what another version
/// may have left in them and nobody understands, size tiers are made, which is right for any data.
pub(super) fn of(options: &BTreeMap<String, String>) -> Box<dyn Strategy> {
    let class = options.get("class").map_or("", String::as_str).rsplit('.').next().unwrap_or_default();
    if matches!(class, "IncrementalCompactionStrategy" | "HybridCompactionStrategy") {
        let strategy = Box::new(Hybrid::new(HybridOptions::from_map(options)));
        let is_enabled = options.get("enabled").is_none_or(|value| !value.eq_ignore_ascii_case("false"));
        return if is_enabled { strategy } else { Box::new(Null::disabled(strategy)) };
    }
    strategy_from(options).unwrap_or_else(|_| Box::new(SizeTiered::default()))
}
