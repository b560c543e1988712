//! Concurrent readers share their loads; errors and dropped readers affect no other reader.

use base::rng::Rng;
use model::Compression;
use model::sample::{self, Variety};
use reader::{Fragment, ReadError, collect};
use runtime::CpuGroup;
use runtime::sim::{self, SimOptions, SimWorld};

use super::*;
use crate::write::Spacing;

const READERS: usize = 8;
const QUESTIONS: u64 = 8;

/// A table with a large partition, and with index pages and chunks of a few hundred bytes to a few kilobytes.
async fn sstable(shard: &Shard, cache: &Rc<ChunkCache>) -> (Arc<TableSchema>, Rc<SSTable>) {
    let schema = sample::tables()[1].clone();
    let variety = Variety { rows: 60, value_bytes: 300, ..Variety::default() };
    let mut rng = Rng::new(11);
    let mutations: Vec<Mutation> = (0..150).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
    let options = WriteOptions {
        compression: Some(Compression::lz4(4096)),
        column_index_bytes: 2000,
        summary: Spacing { min_index_interval: 2, max_index_interval: 2, ratio: 0.0 },
        ..WriteOptions::for_table(&schema, "memtable", IoClass::MemtableFlush)
    };
    let name = name_of(Version::Me, 1);
    write(shard, &dir(), name, &schema, options, &mutations).await.unwrap();
    (schema, open(shard, &dir(), name, cache).await.unwrap())
}

type Answer = Result<Vec<Fragment>, ReadError>;

/// Reads one partition, or a slice of it.
async fn ask(sstable: &Rc<SSTable>, schema: &Arc<TableSchema>, number: u64, seed: u64) -> Answer {
    let mut rng = Rng::new(seed);
    let variety = Variety { rows: 60, ..Variety::default() };
    let source = SSTableSource::new(Rc::clone(sstable), IoClass::Statement);
    let mut spec = ReadSpec::new(schema.clone(), PartitionRange::Key(sample::partition_key(number)));
    if seed % 2 == 1 {
        spec = spec.ranges(sample::ranges(&mut rng, schema, &variety)).reversed(seed % 4 == 1);
    }
    collect(&mut *source.reader(&spec)).await
}

fn reads(shard: &Shard) -> u64 {
    shard.stats().io_of(IoClass::Statement).reads
}

/// Concurrent readers of the same data cost the disk as much as one reader.
#[test]
fn what_several_want_is_read_once() {
    for seed in 0..8 {
        sim::run(seed, 1, move |shard| async move {
            let number = seed % 4;
            let alone = ChunkCache::new(1 << 20);
            let (schema, of_one) = sstable(&shard, &alone).await;
            let before = reads(&shard);
            let expect = ask(&of_one, &schema, number, seed).await.unwrap();
            let one = reads(&shard) - before;
            assert!(one > 1);

            let cache = ChunkCache::new(1 << 20);
            let shared = open(&shard, &dir(), of_one.name(), &cache).await.unwrap();
            let before = reads(&shard);
            let tasks: Vec<_> = (0..READERS)
                .map(|_| {
                    let (shared, schema) = (shared.clone(), schema.clone());
                    shard.spawn(CpuGroup::Statement, async move { ask(&shared, &schema, number, seed).await })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.await.unwrap(), expect);
            }
            assert_eq!(reads(&shard) - before, one, "seed {seed}");
            let stats = cache.stats();
            assert!(stats.chunks.shared_loads + stats.index_entries.shared_loads > 0);

            // From a warm cache nothing is read. A read that bypasses the cache reads everything and leaves
            // the cache's counters unchanged.
            let before = (reads(&shard), cache.stats());
            assert_eq!(ask(&shared, &schema, number, seed).await.unwrap(), expect);
            assert_eq!(reads(&shard), before.0);
            let hot = cache.stats();
            let source = SSTableSource::new(shared.clone(), IoClass::Statement).bypass_cache(true);
            let spec = ReadSpec::new(schema.clone(), PartitionRange::Key(sample::partition_key(number)));
            collect(&mut *source.reader(&spec)).await.unwrap();
            assert!(reads(&shard) > before.0);
            assert_eq!(cache.stats(), hot);

            // Without cached indexes the data are still found in the cache.
            cache.set_caches_index(false);
            assert_eq!(ask(&shared, &schema, number, seed).await.unwrap(), expect);
            let stats = cache.stats();
            assert_eq!((stats.index_entries, stats.index_pages), (hot.index_entries, hot.index_pages));
            assert!(stats.chunks.hits > hot.chunks.hits && stats.chunks.misses == hot.chunks.misses);
        });
    }
}

/// Some reads fail, and some readers are dropped during a load. All other readers get the right answer or an
/// I/O error, and the right answer after the disk has recovered.
#[test]
fn failed_and_abandoned_loads_do_not_affect_other_readers() {
    let mut failed = 0;
    for seed in 0..40 {
        let world = SimWorld::new(SimOptions { seed, ..Default::default() });
        let node = world.start_node(|_| async {}).unwrap();
        let cache_bytes = if seed % 2 == 0 { 1 << 20 } else { 20_000 };
        let made = world.block_on(&node, 0, move |shard| async move {
            let (schema, sstable) = sstable(&shard, &ChunkCache::new(1 << 20)).await;
            let mut expect = vec![];
            for question in 0..QUESTIONS {
                expect.push(ask(&sstable, &schema, question % 4, question).await.unwrap());
            }
            let cold = open(&shard, &dir(), sstable.name(), &ChunkCache::new(cache_bytes)).await.unwrap();
            (schema, cold, Rc::new(expect))
        });
        let (schema, sstable, expect) = made.unwrap();
        world.set_faults(|faults| faults.read_error = 0.1);
        let storm = {
            let (schema, sstable, expect) = (schema.clone(), sstable.clone(), expect.clone());
            world.block_on(&node, 0, move |shard| async move {
                let tasks: Vec<_> = (0..40)
                    .map(|task| {
                        let (sstable, schema) = (sstable.clone(), schema.clone());
                        let question = task % QUESTIONS;
                        let answer = async move { ask(&sstable, &schema, question % 4, question).await };
                        (question, shard.spawn(CpuGroup::Statement, answer))
                    })
                    .collect();
                let mut rng = Rng::new(seed);
                let mut failed = 0;
                for (question, task) in tasks {
                    if rng.below(3) == 0 {
                        shard.sleep_us(rng.below(100)).await;
                        task.cancel().await;
                        continue;
                    }
                    match task.await {
                        Ok(answer) => assert_eq!(answer, expect[question as usize], "seed {seed}"),
                        Err(ReadError::Io { .. }) => failed += 1,
                        Err(other) => panic!("seed {seed}: {other}"),
                    }
                }
                failed
            })
        };
        failed += storm.unwrap();
        world.set_faults(|faults| faults.read_error = 0.0);
        let calm = world.block_on(&node, 0, move |_| async move {
            for question in 0..QUESTIONS {
                let answer = ask(&sstable, &schema, question % 4, question).await.unwrap();
                assert_eq!(answer, expect[question as usize], "seed {seed}");
            }
        });
        calm.unwrap();
    }
    assert!(failed > 100, "{failed} reads failed");
}
