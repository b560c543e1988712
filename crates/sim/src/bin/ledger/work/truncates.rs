//! Rows, and a TRUNCATE after some of them: truncated rows stay absent.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base::rng::Rng;

use super::{KEYSPACE, Workload, some};
use crate::client::{Cells, Client, Stop};
use crate::node_process::NodeOptions;
use crate::tracked_value::TrackedValue;

#[derive(Default)]
struct Emptied {
    rows: BTreeMap<i32, TrackedValue<u32>>,
    generation: u32,
    is_truncating: bool,
    acknowledged: u64,
}

#[derive(Default)]
pub struct Truncates(Mutex<Emptied>);

impl Workload for Truncates {
    fn name(&self) -> &'static str {
        "truncates"
    }

    fn setup(&self) -> Vec<String> {
        vec![format!("CREATE TABLE {KEYSPACE}.emptied (p int PRIMARY KEY, generation int)")]
    }

    fn work(&self, _client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        let notes = || self.0.lock().expect("no thread panics while it holds the lock");
        loop {
            let generation = {
                let mut notes = notes();
                notes.generation += 1;
                notes.generation
            };
            let first = rng.below(1000) as i32;
            let keys: Vec<i32> = (first..first + 5 + rng.below(20) as i32).collect();
            let texts = keys.iter().map(|key| {
                format!("INSERT INTO {KEYSPACE}.emptied (p, generation) VALUES ({key}, {generation})")
            });
            let texts: Vec<String> = texts.collect();
            keys.iter().for_each(|key| notes().rows.entry(*key).or_default().ask(Some(generation)));
            let mut is_answered = true;
            connection.statements(&texts, |place, answer| {
                is_answered &= answer.is_some();
                if answer.is_some() {
                    let mut notes = notes();
                    notes.rows.entry(keys[place]).or_default().acknowledge();
                    notes.acknowledged += 1;
                }
                Ok(())
            })?;
            if !is_answered {
                return Err(Stop::Wrong("writes of five rows are not answered in time".to_string()));
            }
            notes().is_truncating = true;
            // A TRUNCATE without an answer in time may have emptied the table.
            if connection.statement(&format!("TRUNCATE {KEYSPACE}.emptied"))?.is_some() {
                let mut notes = notes();
                notes.rows.clear();
                notes.is_truncating = false;
                notes.acknowledged += 1;
            } else {
                return Err(Stop::Wrong("a TRUNCATE is not answered in time".to_string()));
            }
        }
    }

    fn check(&self, connection: &mut Client, _options: &NodeOptions) -> Result<u64, Stop> {
        let mut there = BTreeMap::new();
        for row in connection.rows(&format!("SELECT p, generation FROM {KEYSPACE}.emptied"))? {
            there.insert(Cells(&row).int(0)?, Cells(&row).int(1)? as u32);
        }
        let mut notes = self.0.lock().expect("no thread panics while it holds the lock");
        if std::mem::take(&mut notes.is_truncating) && there.is_empty() {
            notes.rows.clear();
        }
        let mut wrong = vec![];
        for (key, row) in &mut notes.rows {
            if let Err(error) = row.settle(there.remove(key)) {
                wrong.push(format!("row {key} (its generation): {error}"));
            }
        }
        let extra = there
            .iter()
            .map(|(key, generation)| format!("row {key} of generation {generation} has come back"));
        wrong.extend(extra);
        some(wrong)?;
        Ok(notes.acknowledged)
    }

    fn claim(&self) -> bool {
        self.0
            .lock()
            .expect("no thread panics while it holds the lock")
            .rows
            .insert(-1, TrackedValue::sure(0));
        true
    }
}
