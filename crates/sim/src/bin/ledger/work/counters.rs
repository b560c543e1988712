//! Counters: increments one by one and in counter batches. After a kill a counter has at least the
//! acknowledged and at most the sent increments.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base::rng::Rng;

use super::{KEYSPACE, Workload, some};
use crate::client::{Cells, Client, Stop};
use crate::node_process::NodeOptions;

const COUNTERS: u64 = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    acknowledged: i64,
    sent: i64,
}

#[derive(Default)]
pub struct Counters(Mutex<BTreeMap<i32, Count>>);

impl Workload for Counters {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn setup(&self) -> Vec<String> {
        vec![format!("CREATE TABLE {KEYSPACE}.counters (k int PRIMARY KEY, n counter)")]
    }

    fn clients(&self) -> u64 {
        2
    }

    fn work(&self, _client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        loop {
            let count = if rng.chance(1, 3) { 2 } else { 1 };
            let first = rng.below(COUNTERS) as i32;
            let parts: Vec<(i32, i64)> =
                (0..count).map(|i| ((first + i) % COUNTERS as i32, 1 + rng.below(5) as i64)).collect();
            let update = |(counter, by): &(i32, i64)| {
                format!("UPDATE {KEYSPACE}.counters SET n = n + {by} WHERE k = {counter}")
            };
            let updates: Vec<String> = parts.iter().map(update).collect();
            let text = match &updates[..] {
                [one] => one.clone(),
                several => format!("BEGIN COUNTER BATCH {}; APPLY BATCH", several.join("; ")),
            };
            let add = |change: &dyn Fn(&mut Count, i64)| {
                let mut counts = self.0.lock().expect("no thread panics while it holds the lock");
                parts.iter().for_each(|(counter, by)| change(counts.entry(*counter).or_default(), *by));
            };
            add(&|count, by| count.sent += by);
            if connection.statement(&text)?.is_some() {
                add(&|count, by| count.acknowledged += by);
            }
        }
    }

    fn check(&self, connection: &mut Client, _options: &NodeOptions) -> Result<u64, Stop> {
        let mut there = BTreeMap::new();
        for row in connection.rows(&format!("SELECT k, n FROM {KEYSPACE}.counters"))? {
            let cells = Cells(&row);
            there.insert(cells.int(0)?, cells.bigint(1)?);
        }
        let mut counts = self.0.lock().expect("no thread panics while it holds the lock");
        let (mut wrong, mut sum) = (vec![], 0);
        for (counter, count) in counts.iter_mut() {
            let found = there.remove(counter).unwrap_or(0);
            if !(count.acknowledged..=count.sent).contains(&found) {
                wrong.push(format!("counter {counter} is {found}: {count:?}"));
            }
            sum += count.acknowledged;
            *count = Count { acknowledged: found, sent: found };
        }
        wrong.extend(there.keys().map(|counter| format!("counter {counter} was never written")));
        some(wrong)?;
        Ok(sum as u64)
    }

    fn claim(&self) -> bool {
        let mut counts = self.0.lock().expect("no thread panics while it holds the lock");
        let count = counts.entry(0).or_default();
        count.sent += 1;
        count.acknowledged = count.sent;
        true
    }
}
