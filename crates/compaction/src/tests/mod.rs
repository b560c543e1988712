//! Decisions as text cases, and laws of all strategies.

mod date_tiered;
mod explained;
mod garbage;
mod incremental;
mod incremental_world;
mod laws;
mod leveled;
mod purge;
mod repaired;
mod size_tiered;
mod spec;
mod tiers;
mod time_window;
mod tombstones;
mod unified;

use crate::Strategy;
use crate::testing::Table;

/// `table`: see `testing/table_text.rs`. `expect`: the next plan as text.
#[track_caller]
fn check(strategy: &mut dyn Strategy, table: &str, expect: &str) {
    check_on(strategy, &Table::new(table), expect);
}

#[track_caller]
fn check_on(strategy: &mut dyn Strategy, table: &Table, expect: &str) {
    let plan = strategy.next(&table.view());
    let got = if expect.contains(": ") { table.explain(plan.as_ref()) } else { table.say(plan.as_ref()) };
    assert_eq!(got, expect);
}
