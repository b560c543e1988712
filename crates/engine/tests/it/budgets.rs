//! Every compaction strategy with a `disk_budget`, from one that cannot be kept to an ample one.

use std::path::Path;
use std::sync::Arc;

use base::rng::Rng;
use catalog::TableSettings;
use engine::commitlog::SyncMode;
use engine::options::CompactionOptions;
use engine::shard::EngineShard;
use engine::{EngineOptions, ReadCommand, node, recover};
use model::{ColumnData, PartitionRange, TableSchema};
use runtime::Shard;
use runtime::sim::{SimOptions, SimWorld};

use crate::support::{insert, test_table};

/// Live rows and their size: 6 MB, six of the smallest fragments.
const ROWS: i32 = 3000;
const VALUE_BYTES: usize = 2000;
const LIVE_BYTES: u64 = ROWS as u64 * VALUE_BYTES as u64;
/// Each row is written this number of times.
const ROUNDS: i32 = 5;

const STRATEGIES: &[&[(&str, &str)]] = &[
    &[("class", "IncrementalCompactionStrategy")],
    &[("class", "SizeTieredCompactionStrategy")],
    &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "1")],
    &[("class", "TimeWindowCompactionStrategy")],
    &[("class", "UnifiedCompactionStrategy")],
];

/// Directory of the keyspace's SSTables.
const TABLES: &str = "/data/data/ks";

/// Result of a run.
#[derive(Debug)]
struct Outcome {
    /// Maximum of the SSTables' bytes on disk, including running compactions.
    peak_bytes: u64,
    /// Bytes when no job is left.
    end_bytes: u64,
    end_sstables: usize,
    compactions: u64,
    flush_waits: u64,
    beyond_budget: u64,
}

async fn create(shard: &Shard, compaction: &'static [(&'static str, &'static str)]) -> Arc<TableSchema> {
    node::change_schema(shard, |catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?))
        .await
        .unwrap();
    node::change_schema(shard, move |catalog| {
        let compaction =
            compaction.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        catalog.create_table(test_table(), TableSettings { compaction, ..TableSettings::default() })
    })
    .await
    .unwrap();
    node::catalog(shard).unwrap().schema("ks", "t").unwrap().clone()
}

/// Nearly incompressible text.
fn noise(rng: &mut Rng) -> String {
    let mut bytes = vec![0; VALUE_BYTES];
    rng.fill(&mut bytes);
    bytes.iter().map(|byte| char::from(b'0' + byte % 64)).collect()
}

/// Overwrites all rows in scattered order, then waits until no job is left. Every row must have its last
/// value.
fn overwrite(compaction: &'static [(&'static str, &'static str)], budget_bytes: u64) -> Outcome {
    let world = SimWorld::new(SimOptions { seed: budget_bytes, ..SimOptions::default() });
    let node = world.start_node(|_| async {}).unwrap();
    let options = EngineOptions {
        memory_bytes: 3 << 20,
        commitlog_segment_bytes: 64 << 10,
        commitlog_total_bytes: 2 << 20,
        commitlog_sync: SyncMode::Batch,
        compaction: CompactionOptions {
            disk_budget_bytes: Some(budget_bytes),
            ..CompactionOptions::default()
        },
        ..EngineOptions::new("/data")
    };
    let disk = world.disk();
    let outcome = world.block_on(&node, 0, move |shard| async move {
        recover::open(&shard, options).await.unwrap_or_else(|error| panic!("{error}"));
        let table = create(&shard, compaction).await;
        let (mut rng, mut peak_bytes, mut last) = (Rng::new(7), 0, vec![String::new(); ROWS as usize]);
        for n in 0..ROWS * ROUNDS {
            let row = n * 7 % ROWS;
            let value = noise(&mut rng);
            let write = insert(&table, &format!("k{}", row / 10), row % 10, &value, i64::from(n) + 1);
            node::apply(&shard, write, node::Deadline::NONE)
                .await
                .unwrap_or_else(|error| panic!("write {n}: {error}"));
            last[row as usize] = value;
            if n % 10 == 0 {
                peak_bytes = peak_bytes.max(disk.used_bytes_in(Path::new(TABLES)));
            }
        }
        node::flush(&shard, vec![table.id]).await.unwrap();
        let compactions = EngineShard::of(&shard).unwrap().compactions().clone();
        loop {
            shard.sleep_us(1_000_000).await;
            peak_bytes = peak_bytes.max(disk.used_bytes_in(Path::new(TABLES)));
            let sstables = EngineShard::of(&shard).unwrap().table(table.id).unwrap().sstables();
            if compactions.stats().1 == 0 && compactions.table_needs(table.id).pending == 0 {
                assert_eq!(contents(&shard, &table).await, last);
                let end_bytes = sstables.iter().map(|it| it.data_bytes()).sum();
                let stats = compactions.stats().0;
                return Outcome {
                    peak_bytes,
                    end_bytes,
                    end_sstables: sstables.len(),
                    compactions: stats.completed,
                    flush_waits: stats.flush_waits,
                    beyond_budget: stats.beyond_budget,
                };
            }
        }
    });
    outcome.unwrap_or_else(|stop| panic!("{compaction:?} with {budget_bytes} bytes: {stop}"))
}

/// The value of each row.
async fn contents(shard: &Shard, table: &TableSchema) -> Vec<String> {
    let mut values = vec![String::new(); ROWS as usize];
    let mut command = ReadCommand::new(table.id, PartitionRange::all());
    loop {
        let page = node::read(shard, command.clone(), node::Deadline::NONE)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        for partition in &page.partitions {
            let key: i32 = std::str::from_utf8(&partition.key.bytes()[1..]).unwrap().parse().unwrap();
            for row in &partition.rows {
                let c = i32::from_be_bytes(row.key.values().next().unwrap().try_into().unwrap());
                let Some((_, ColumnData::Simple(v))) = row.row.cells().first() else { panic!("{row:?}") };
                values[(key * 10 + c) as usize] = String::from_utf8(v.value.to_vec()).unwrap();
            }
        }
        match page.next {
            Some(next) => command.paging = Some(next),
            None => return values,
        }
    }
}

/// The guarantee of `compaction::incremental::space`: live data, a flush and three fragments fit into twice
/// the live data here.
#[test]
fn incremental_compaction_keeps_a_budget_that_can_be_kept() {
    for percent in [200, 250, 300, 1000] {
        let budget_bytes = LIVE_BYTES * percent / 100;
        let outcome = overwrite(STRATEGIES[0], budget_bytes);
        // The budget covers data and index; filters, summaries and other components come on top.
        assert!(outcome.peak_bytes <= budget_bytes * 102 / 100, "{percent} %: {outcome:?}");
        assert_eq!(outcome.beyond_budget, 0, "{percent} %: {outcome:?}");
    }
}

/// No strategy can keep a budget below the live data. Compactions continue nevertheless, because dead rows
/// would otherwise stay forever; and this is logged.
#[test]
fn incremental_compaction_goes_on_with_a_budget_that_cannot_be_kept() {
    for percent in [20, 50, 110] {
        let outcome = overwrite(STRATEGIES[0], LIVE_BYTES * percent / 100);
        assert!(outcome.beyond_budget > 0 && outcome.flush_waits > 0, "{percent} %: {outcome:?}");
        assert!(outcome.peak_bytes <= LIVE_BYTES * 2, "{percent} %: {outcome:?}");
        assert!(outcome.end_bytes <= LIVE_BYTES * 4 / 3, "{percent} %: {outcome:?}");
    }
}

/// The other strategies ignore the budget.
#[test]
fn other_strategies_compact_as_without_a_budget() {
    for strategy in &STRATEGIES[1..] {
        let [small, ample] = [50, 1000].map(|percent| overwrite(strategy, LIVE_BYTES * percent / 100));
        assert!(
            small.compactions >= 10 && small.compactions == ample.compactions,
            "{strategy:?}: {small:?}, {ample:?}"
        );
        assert!(small.end_sstables <= 8 && small.beyond_budget == 0, "{strategy:?}: {small:?}");
    }
}
