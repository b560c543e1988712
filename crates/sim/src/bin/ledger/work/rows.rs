//! Single rows: INSERT, sometimes UPDATE or DELETE of an earlier row, several in flight.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base::rng::Rng;

use super::{KEYSPACE, Workload, some, value};
use crate::client::{Cells, Client, Stop};
use crate::node_process::NodeOptions;
use crate::tracked_value::TrackedValue;

const PARTITIONS: i64 = 50;
const UNDER_WAY: usize = 16;

/// Rows by number; a row's value follows from its number and the version.
#[derive(Default)]
pub struct Rows(Mutex<BTreeMap<i64, TrackedValue<u32>>>);

impl Rows {
    /// The next statements, and their rows.
    fn next(&self, rng: &mut Rng) -> (Vec<i64>, Vec<String>) {
        let mut rows = self.0.lock().expect("no thread panics while it holds the lock");
        let (mut numbers, mut texts): (Vec<i64>, Vec<String>) = (vec![], vec![]);
        while texts.len() < UNDER_WAY {
            let next = rows.last_key_value().map_or(0, |(last, _)| last + 1);
            let number = if rng.chance(1, 4) && next > 0 { rng.below(next as u64) as i64 } else { next };
            let row = rows.entry(number).or_default();
            // At most one statement in flight for a row: the order of two is unknown.
            if !row.is_settled() {
                continue;
            }
            let p = number % PARTITIONS;
            let version = row.last().map_or(0, |version| version + 1);
            if version > 0 && rng.chance(1, 3) {
                row.ask(None);
                texts.push(format!("DELETE FROM {KEYSPACE}.rows WHERE p = 'p{p}' AND number = {number}"));
            } else {
                row.ask(Some(version));
                let value = value(number, version);
                texts.push(if version == 0 {
                    format!("INSERT INTO {KEYSPACE}.rows (p, number, v) VALUES ('p{p}', {number}, '{value}')")
                } else {
                    format!("UPDATE {KEYSPACE}.rows SET v = '{value}' WHERE p = 'p{p}' AND number = {number}")
                });
            }
            numbers.push(number);
        }
        (numbers, texts)
    }
}

impl Workload for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn setup(&self) -> Vec<String> {
        vec![format!("CREATE TABLE {KEYSPACE}.rows (p text, number bigint, v text, PRIMARY KEY (p, number))")]
    }

    fn work(&self, _client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        loop {
            let (numbers, texts) = self.next(rng);
            connection.statements(&texts, |place, answer| {
                if answer.is_some() {
                    let mut rows = self.0.lock().expect("no thread panics while it holds the lock");
                    rows.entry(numbers[place]).or_default().acknowledge();
                }
                Ok(())
            })?;
        }
    }

    fn check(&self, connection: &mut Client, _options: &NodeOptions) -> Result<u64, Stop> {
        let mut there = BTreeMap::new();
        for row in connection.rows(&format!("SELECT p, number, v FROM {KEYSPACE}.rows"))? {
            let cells = Cells(&row);
            let (p, number, text) = (cells.text(0)?, cells.bigint(1)?, cells.text(2)?);
            let version = text.split('.').nth(1).and_then(|version| version.parse().ok());
            let version = version.filter(|version| value(number, *version) == text);
            let Some(version) = version.filter(|_| p == format!("p{}", number % PARTITIONS)) else {
                return Err(Stop::Wrong(format!(
                    "row {number} of {p} is not as any client wrote it: {text}"
                )));
            };
            there.insert(number, version);
        }
        let mut rows = self.0.lock().expect("no thread panics while it holds the lock");
        let mut wrong = vec![];
        for (number, row) in rows.iter_mut() {
            if let Err(error) = row.settle(there.remove(number)) {
                wrong.push(format!("row {number} (its version): {error}"));
            }
        }
        wrong.extend(there.keys().map(|number| format!("row {number} was never written")));
        some(wrong)?;
        Ok(rows.len() as u64)
    }

    fn claim(&self) -> bool {
        self.0
            .lock()
            .expect("no thread panics while it holds the lock")
            .insert(i64::from(u32::MAX), TrackedValue::sure(0));
        true
    }
}
