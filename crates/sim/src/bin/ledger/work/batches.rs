//! Batches over two partitions of two tables, two rows in each, alternately logged and unlogged.
//!
//! README.md promises that a logged batch is present wholly or not at all, and of any batch the part on one
//! shard. So both rows of a partition are present or none, and all four rows of a logged batch.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base::rng::Rng;

use super::{KEYSPACE, Workload, some, value};
use crate::client::{Cells, Client, Stop};
use crate::node_process::NodeOptions;

/// The tables of the first and the second partition of a batch.
const TABLES: [&str; 2] = ["batches", "more_batches"];

const PARTITIONS: i64 = 20;
/// Rows of a batch in each of its two partitions.
const ROWS: i32 = 2;
const BOTH: u8 = 3;

/// State of a batch: which of its partitions must be present, and which may be.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    must: u8,
    may: u8,
}

#[derive(Default)]
pub struct Batches {
    batches: Mutex<BTreeMap<i64, Batch>>,
}

impl Batches {
    fn text(number: i64) -> String {
        let kind = if is_logged(number) { "" } else { "UNLOGGED " };
        let mut text = format!("BEGIN {kind}BATCH\n");
        for (partition, table) in partitions(number).into_iter().zip(TABLES) {
            for row in 0..ROWS {
                let value = value(number, row as u32);
                text.push_str(&format!(
                    "INSERT INTO {KEYSPACE}.{table} (p, number, i, v) VALUES ({partition}, {number}, {row}, '{value}');\n"
                ));
            }
        }
        text.push_str("APPLY BATCH");
        text
    }
}

fn is_logged(number: i64) -> bool {
    number % 2 == 0
}

fn partitions(number: i64) -> [i64; 2] {
    [number % PARTITIONS, PARTITIONS + number / 3 % PARTITIONS]
}

impl Workload for Batches {
    fn name(&self) -> &'static str {
        "batches"
    }

    fn setup(&self) -> Vec<String> {
        let table = |name| {
            format!(
                "CREATE TABLE {KEYSPACE}.{name} (p int, number bigint, i int, v text, PRIMARY KEY (p, number, i))"
            )
        };
        TABLES.map(table).to_vec()
    }

    fn work(&self, _client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        loop {
            let (mut numbers, mut texts) = (vec![], vec![]);
            {
                let mut batches = self.batches.lock().expect("no thread panics while it holds the lock");
                for _ in 0..1 + rng.below(4) {
                    let number = batches.last_key_value().map_or(0, |(last, _)| last + 1);
                    batches.insert(number, Batch { must: 0, may: BOTH });
                    numbers.push(number);
                    texts.push(Self::text(number));
                }
            }
            connection.statements(&texts, |place, answer| {
                if answer.is_some() {
                    let mut batches = self.batches.lock().expect("no thread panics while it holds the lock");
                    batches.insert(numbers[place], Batch { must: BOTH, may: BOTH });
                }
                Ok(())
            })?;
        }
    }

    fn check(&self, connection: &mut Client, _options: &NodeOptions) -> Result<u64, Stop> {
        // Number of rows of each batch in each of its partitions.
        let mut there: BTreeMap<(i64, usize), i32> = BTreeMap::new();
        let mut wrong = vec![];
        for (place, table) in TABLES.iter().enumerate() {
            for row in connection.rows(&format!("SELECT p, number, i, v FROM {KEYSPACE}.{table}"))? {
                let cells = Cells(&row);
                let (p, number, i, text) = (cells.int(0)?, cells.bigint(1)?, cells.int(2)?, cells.text(3)?);
                if partitions(number)[place] == i64::from(p) && text == value(number, i as u32) {
                    *there.entry((number, place)).or_default() += 1;
                } else {
                    wrong.push(format!(
                        "row {i} of batch {number} in {table}, {p} is not as any client wrote it"
                    ));
                }
            }
        }
        let mut batches = self.batches.lock().expect("no thread panics while it holds the lock");
        for (number, batch) in batches.iter_mut() {
            let mut found = 0;
            for place in 0..2 {
                match there.remove(&(*number, place)).unwrap_or(0) {
                    0 => {}
                    rows if rows == ROWS => found |= 1 << place,
                    rows => wrong.push(format!("batch {number} has {rows} of {ROWS} rows in one partition")),
                }
            }
            let is_whole = found == 0 || found == BOTH;
            if found & batch.must != batch.must || found & !batch.may != 0 {
                wrong.push(format!("batch {number}: partitions {found:02b} of {batch:?}"));
            } else if is_logged(*number) && !is_whole {
                wrong.push(format!("half of the logged batch {number} is there"));
            }
            *batch = Batch { must: found, may: found };
        }
        wrong.extend(there.keys().map(|(number, _)| format!("batch {number} was never sent")));
        some(wrong)?;
        Ok(batches.len() as u64)
    }

    fn claim(&self) -> bool {
        let mut batches = self.batches.lock().expect("no thread panics while it holds the lock");
        batches.insert(i64::from(u32::MAX), Batch { must: BOTH, may: BOTH });
        true
    }
}
