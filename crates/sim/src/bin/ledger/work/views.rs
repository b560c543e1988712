//! A table with two materialized views: after each kill, the views have exactly the rows that follow from the
//! table, whatever of it was in flight.

use std::sync::atomic::{AtomicU64, Ordering};

use base::rng::Rng;

use super::{KEYSPACE, Workload, some};
use crate::client::{Cells, Client, Stop};
use crate::node_process::NodeOptions;

const KEYS: u64 = 200;
const VALUES: u64 = 12;

#[derive(Default)]
pub struct Views {
    acknowledged: AtomicU64,
}

/// A statement on one or two random rows.
fn statement(rng: &mut Rng) -> String {
    let (k, v, w) = (rng.below(KEYS), rng.below(VALUES), rng.below(1000));
    let table = format!("{KEYSPACE}.viewed");
    match rng.below(10) {
        0..4 => format!("INSERT INTO {table} (k, v, w) VALUES ({k}, {v}, {w})"),
        4 | 5 => format!("UPDATE {table} SET v = {v} WHERE k = {k}"),
        6 => format!("UPDATE {table} SET w = {w}, v = null WHERE k = {k}"),
        7 => format!("DELETE FROM {table} WHERE k = {k}"),
        8 => format!("UPDATE {table} SET v = {v} WHERE k = {k} IF EXISTS"),
        _ => format!(
            "BEGIN {}BATCH UPDATE {table} SET v = {v} WHERE k = {k}; \
             UPDATE {table} SET v = {v}, w = {w} WHERE k = {}; APPLY BATCH",
            ["", "UNLOGGED "][rng.below(2) as usize],
            rng.below(KEYS)
        ),
    }
}

impl Workload for Views {
    fn name(&self) -> &'static str {
        "views"
    }

    fn setup(&self) -> Vec<String> {
        vec![
            format!("CREATE TABLE {KEYSPACE}.viewed (k int PRIMARY KEY, v int, w int)"),
            format!(
                "CREATE MATERIALIZED VIEW {KEYSPACE}.by_value AS SELECT * FROM {KEYSPACE}.viewed \
                 WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)"
            ),
            format!(
                "CREATE MATERIALIZED VIEW {KEYSPACE}.keys AS SELECT k FROM {KEYSPACE}.viewed WHERE k IS NOT NULL \
                 PRIMARY KEY (k)"
            ),
        ]
    }

    fn clients(&self) -> u64 {
        2
    }

    fn work(&self, _client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        loop {
            let texts: Vec<String> = (0..1 + rng.below(4)).map(|_| statement(rng)).collect();
            connection.statements(&texts, |_, answer| {
                self.acknowledged.fetch_add(u64::from(answer.is_some()), Ordering::Relaxed);
                Ok(())
            })?;
        }
    }

    fn check(&self, connection: &mut Client, _options: &NodeOptions) -> Result<u64, Stop> {
        let mut read = |text: &str| -> Result<Vec<String>, Stop> {
            let text = format!("SELECT {text}");
            let mut rows = vec![];
            for row in connection.rows(&text)? {
                let cells = Cells(&row);
                let cell = |at| cells.int(at).map_or("null".to_string(), |value| value.to_string());
                rows.push((0..row.len()).map(cell).collect::<Vec<_>>().join(" "));
            }
            rows.sort();
            Ok(rows)
        };
        let base = read(&format!("k, v, w FROM {KEYSPACE}.viewed"))?;
        let views = [
            (
                "by_value",
                read(&format!("k, v, w FROM {KEYSPACE}.by_value"))?,
                base.iter().filter(|row| row.split(' ').nth(1) != Some("null")).cloned().collect::<Vec<_>>(),
            ),
            (
                "keys",
                read(&format!("k FROM {KEYSPACE}.keys"))?,
                base.iter().filter_map(|row| row.split(' ').next().map(str::to_string)).collect(),
            ),
        ];
        let mut wrong = vec![];
        for (view, found, mut expected) in views {
            expected.sort();
            wrong.extend(
                found.iter().filter(|row| !expected.contains(row)).map(|row| format!("{view} has {row}")),
            );
            wrong.extend(
                expected.iter().filter(|row| !found.contains(row)).map(|row| format!("{view} lacks {row}")),
            );
        }
        some(wrong)?;
        Ok(self.acknowledged.load(Ordering::Relaxed))
    }

    fn claim(&self) -> bool {
        false
    }
}
