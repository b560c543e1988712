//! A thousand concurrent reads of a large partition, in simulation: memory stays bounded, each read is
//! answered or refused with a reason, small reads are served, and afterwards the state is as before.

use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions, ReadCommand, ReadOptions, node, recover};
use model::{PartitionKey, PartitionRange, TableSchema};
use reader::{ReadError, Refusal};
use runtime::log_capture::LogCapture;
use runtime::sim::{SimOptions, SimWorld};
use runtime::{CpuGroup, Shard};
use std::sync::Arc;

use crate::support::{insert, test_table};

const MEMORY_BYTES: u64 = 8 << 20;
const READS: usize = 1000;
const PAGE_BYTES: u64 = 256 << 10;

async fn open(shard: &Shard, reads: ReadOptions) -> Arc<TableSchema> {
    let options = EngineOptions { memory_bytes: MEMORY_BYTES, reads, ..EngineOptions::new("/data") };
    recover::open(shard, options).await.unwrap_or_else(|error| panic!("{error}"));
    let keyspace = |catalog: &catalog::Catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?);
    node::change_schema(shard, keyspace).await.unwrap();
    let table = |catalog: &catalog::Catalog| catalog.create_table(test_table(), Default::default());
    node::change_schema(shard, table).await.unwrap();
    node::catalog(shard).unwrap().schema("ks", "t").unwrap().clone()
}

fn of(table: &TableSchema, key: &str) -> ReadCommand {
    let command = ReadCommand::new(table.id, PartitionRange::Key(PartitionKey::new(key)));
    ReadCommand { page_bytes: PAGE_BYTES, ..command }
}

#[derive(Default, Debug)]
struct Outcomes {
    answered: usize,
    queue_full: usize,
    timed_out: usize,
    killed: usize,
}

async fn storm(shard: Shard, reads: ReadOptions) -> Outcomes {
    let table = open(&shard, reads).await;
    let value = "v".repeat(1000);
    for c in 0..4000 {
        node::apply(&shard, insert(&table, "large", c, &value, 1), node::Deadline::NONE).await.unwrap();
    }
    node::apply(&shard, insert(&table, "small", 1, "value", 1), node::Deadline::NONE).await.unwrap();
    node::flush(&shard, vec![]).await.unwrap();
    let engine = EngineShard::of(&shard).unwrap();
    let tasks: Vec<_> = (0..READS)
        .map(|_| {
            let (shard, command) = (shard.clone(), ReadCommand { bypass_cache: true, ..of(&table, "large") });
            shard.clone().spawn(CpuGroup::Statement, async move {
                node::read(&shard, command, node::Deadline::NONE).await
            })
        })
        .collect();
    let mut outcomes = Outcomes::default();
    for (number, task) in tasks.into_iter().enumerate() {
        match task.await {
            Ok(page) => {
                assert!(page.row_count() > 100 && page.next.is_some());
                outcomes.answered += 1;
            }
            Err(EngineError::Read(ReadError::Refused(refusal))) => match refusal {
                Refusal::QueueFull(text) => {
                    assert_eq!(text, "sl:default: wait queue overload");
                    outcomes.queue_full += 1;
                }
                Refusal::TimedOut(text) => {
                    assert_eq!(text, "Semaphore timed out: sl:default");
                    outcomes.timed_out += 1;
                }
                Refusal::Killed(text) => {
                    assert_eq!(
                        text,
                        "kill limit triggered on semaphore sl:default by permit ks.t:data-query"
                    );
                    outcomes.killed += 1;
                }
            },
            Err(other) => panic!("{other}"),
        }
        let (_, limits, stats) = engine.report().reads[0].clone();
        let bytes_max = limits.memory_bytes * limits.kill_multiplier + 2 * PAGE_BYTES;
        assert!(stats.used_bytes_max <= bytes_max, "{} of {bytes_max}", stats.used_bytes_max);
        assert!(stats.queued <= limits.queue_max);
        if number % 100 == 50 && stats.queued < limits.queue_max {
            match node::read(&shard, of(&table, "small"), node::Deadline::NONE).await {
                Ok(page) => assert_eq!(page.row_count(), 1),
                Err(EngineError::Read(ReadError::Refused(Refusal::TimedOut(_)))) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
    // The next pages are never requested.
    shard.sleep_us(2 * engine::table::parked::PARKED_US_MAX).await;
    let stats = engine.report().reads[0].2;
    assert_eq!((stats.permits, stats.used_count, stats.used_bytes, stats.queued), (0, 0, 0, 0));
    let dump = node::read_diagnostics(&shard).await.unwrap().remove(0).remove(0);
    assert!(
        dump.starts_with("Semaphore sl:default with 0/100 count and 0/1048576 memory resources"),
        "{dump}"
    );
    assert_eq!(node::read(&shard, of(&table, "small"), node::Deadline::NONE).await.unwrap().row_count(), 1);
    outcomes
}

#[test]
fn a_storm_of_large_reads_is_bounded_and_passes() {
    for seed in 0..3 {
        let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
        let node = world.start_node(|_| async {}).unwrap();
        let outcomes = world.block_on(&node, 0, |shard| storm(shard, ReadOptions::default())).unwrap();
        assert_eq!(outcomes.queue_full, 0, "seed {seed}: {outcomes:?}");
        assert!(outcomes.answered > READS / 2, "seed {seed}: {outcomes:?}");
    }
}

#[test]
fn a_waiter_gets_an_error_after_its_timeout() {
    let world = SimWorld::new(SimOptions { seed: 9, ..SimOptions::default() });
    world.set_faults(|faults| faults.latency_us_max = 3000);
    let node = world.start_node(|_| async {}).unwrap();
    let reads = ReadOptions { timeout_us: 60_000, ..ReadOptions::default() };
    let log = LogCapture::of_this_thread();
    let outcomes = world.block_on(&node, 0, |shard| storm(shard, reads)).unwrap();
    let lines = log.lines();
    let dump = lines.iter().find(|line| line.text.contains("dumping permit diagnostics"));
    let dump = dump.unwrap_or_else(|| panic!("{lines:?}"));
    let words = ["Semaphore sl:default with ", ": timed out, ", "permits", "ks.t"];
    assert!(words.iter().all(|word| dump.text.contains(word)), "{dump:?}");
    assert!(outcomes.timed_out > 100 && outcomes.answered > 0, "{outcomes:?}");
}
