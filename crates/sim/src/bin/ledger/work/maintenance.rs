//! Flushes and compactions, so that a kill interrupts them.

use std::time::Duration;

use base::rng::Rng;

use super::{KEYSPACE, Workload};
use crate::client::{Client, Stop};
use crate::node_process::NodeOptions;

const PAUSE_MS_MAX: u64 = 60;
const TABLES: [&str; 5] = ["rows", "batches", "versions", "counters", "loaded"];

pub struct Maintenance;

impl Workload for Maintenance {
    fn name(&self) -> &'static str {
        "maintenance"
    }

    fn setup(&self) -> Vec<String> {
        vec![]
    }

    #[allow(clippy::disallowed_methods, reason = "a client outside pauses in the real world's time")]
    fn work(&self, _client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        loop {
            let what = if rng.chance(1, 4) { "compact" } else { "flush" };
            let table = *rng.pick(&TABLES);
            match connection.post(&format!("/v1/{what}?keyspace={KEYSPACE}&table={table}")) {
                // Another client's compaction of the same table has replaced it.
                Err(Stop::Wrong(text)) if text.contains("the compaction was stopped") => {}
                answered => drop(answered?),
            }
            std::thread::sleep(Duration::from_millis(rng.below(PAUSE_MS_MAX)));
        }
    }

    fn check(&self, _connection: &mut Client, _options: &NodeOptions) -> Result<u64, Stop> {
        Ok(0)
    }

    fn claim(&self) -> bool {
        false
    }
}
