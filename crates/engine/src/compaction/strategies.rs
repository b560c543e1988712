//! From a table's `compaction` options to the strategy that decides.

use std::collections::BTreeMap;

use compaction::{Layout, Plan, SizeTiered, Strategy, TableView};

/// Decides nothing: `enabled: false`, and tables that live in memory.
struct Null;

impl Strategy for Null {
    fn name(&self) -> &'static str {
        "NullCompactionStrategy"
    }

    fn next(&mut self, _: &TableView<'_>) -> Option<Plan> {
        None
    }

    fn major(&mut self, view: &TableView<'_>, split: bool) -> Vec<Plan> {
        SizeTiered::default().major(view, split)
    }

    fn layout(&self, _: u32) -> Layout {
        Layout::whole()
    }

    fn pending(&self, _: &TableView<'_>) -> u64 {
        0
    }

    fn backlog_bytes(&self, _: &TableView<'_>) -> f64 {
        0.0
    }
}

/// The strategy that a table's options ask for. The options have been checked.
pub(super) fn of(options: &BTreeMap<String, String>) -> Box<dyn Strategy> {
    let class = options.get("class").map_or("", String::as_str);
    let is_enabled = options.get("enabled").is_none_or(|value| !value.eq_ignore_ascii_case("false"));
    if !is_enabled || class.ends_with(".NullCompactionStrategy") || class.ends_with(".InMemoryCompactionStrategy") {
        return Box::new(Null);
    }
    Box::new(SizeTiered::default())
}
