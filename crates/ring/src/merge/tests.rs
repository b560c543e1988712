//! Merges of random SSTables, on the simulated disk.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use base::rng::Rng;
use model::sample::{self, Variety};
use model::{Mutation, Partition, PartitionKey, PartitionRange, Purge, TableSchema};
use reader::{CompactReader, Keep, MemorySource, MergeReader, ReadSpec, Source, collect_partitions};
use runtime::{IoClass, Shard, sim};
use sstable::name::{Generation, SSTableName};
use sstable::read::{ChunkCache, SSTable, SSTableSource};
use sstable::version::Version;
use sstable::write::{WriteOptions, write_reader};

use super::merge_run::{Merged, run};
use super::request::{End, MergeRequest, OutsideSSTable};
use super::running::Control;

const NOW_S: u32 = 2_000_000_000;
const OUTPUTS_FROM: u64 = 100;

fn dir() -> PathBuf {
    PathBuf::from("/data/table")
}

fn name(number: u64) -> SSTableName {
    SSTableName::big(Version::Nb, Generation::Number(number))
}

fn request(schema: &Arc<TableSchema>, inputs: u64) -> MergeRequest {
    MergeRequest {
        schema: schema.clone(),
        compression: schema.options.compression.clone(),
        bloom_filter_fp_chance: 0.01,
        summary: WriteOptions::for_table(schema, "", IoClass::Compaction).summary,
        column_index_bytes: 1000,
        dir: dir(),
        inputs: (1..=inputs).map(name).collect(),
        outputs: (OUTPUTS_FROM..OUTPUTS_FROM + 50).map(name).collect(),
        outside: vec![],
        memtable_min_timestamp_us: None,
        gc_before_s: 0,
        now_s: NOW_S,
        level: 3,
        repaired_at_ms: 77,
        host_id: [7; 16],
        max_bytes: u64::MAX,
        ends: vec![],
    }
}

async fn write_inputs(shard: &Shard, schema: &Arc<TableSchema>, rng: &mut Rng, count: u64) {
    let dir = dir();
    shard.files().create_dir_all(&dir).await.expect("a directory");
    for number in 1..=count {
        let mutations: Vec<Mutation> =
            (0..60).map(|_| sample::mutation(rng, schema, &Variety::default())).collect();
        let source = MemorySource::new(&mutations);
        let mut reader = source.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()));
        let options = WriteOptions::for_table(schema, "memtable", IoClass::MemtableFlush);
        let write =
            write_reader(shard.files(), &dir, name(number), schema.clone(), options, &mut *reader, shard);
        write.await.expect("an input");
    }
}

async fn open(shard: &Shard, names: &[SSTableName]) -> Vec<Rc<SSTable>> {
    let (cache, dir) = (ChunkCache::new(1 << 20), dir());
    let mut opened = vec![];
    for name in names {
        let open = SSTable::open(shard.files(), &dir, *name, &cache, IoClass::Compaction);
        opened.push(open.await.expect("an SSTable"));
    }
    opened
}

/// The content of the SSTables, merged, after a purge.
async fn content(
    schema: &Arc<TableSchema>,
    sstables: &[Rc<SSTable>],
    purge: Purge,
) -> Vec<(PartitionKey, Partition)> {
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
    let readers = sstables.iter().map(|sstable| {
        let source = Rc::new(SSTableSource::new(sstable.clone(), IoClass::Compaction)) as Rc<dyn Source>;
        source.reader(&spec)
    });
    let merged = MergeReader::of(&spec, readers.collect());
    let mut reader = CompactReader::new(merged, purge, Keep::Needed);
    collect_partitions(&mut reader, schema, false).await.expect("the content")
}

fn outputs(request: &MergeRequest, merged: &Merged) -> Vec<SSTableName> {
    merged.outputs.iter().map(|(index, _)| request.outputs[*index]).collect()
}

fn control() -> Control {
    let control = Control::default();
    control.allowed_bytes.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    control
}

/// Calls `f` with tables of every shape that is merged here, and a seed.
fn for_each_table(f: impl Fn(u64, Arc<TableSchema>)) {
    for (number, schema) in (0..).zip(sample::tables()) {
        if !schema.has_counters() {
            (0..8).for_each(|seed| f(seed * 100 + number, schema.clone()));
        }
    }
}

/// Merges three SSTables, and compares with a read of them that may purge `expected`.
fn check(seed: u64, schema: Arc<TableSchema>, expected: Purge, change: fn(&mut MergeRequest)) -> Merged {
    sim::run(seed, 1, move |shard| async move {
        write_inputs(&shard, &schema, &mut Rng::new(seed), 3).await;
        let mut request = request(&schema, 3);
        change(&mut request);
        let merged = Box::pin(run(&shard, &request, &control())).await.expect("a merge");
        let inputs = open(&shard, &request.inputs).await;
        let written = open(&shard, &outputs(&request, &merged)).await;
        let found = content(&schema, &written, Purge::nothing(NOW_S)).await;
        assert_eq!(found, content(&schema, &inputs, expected).await, "seed {seed}, table {}", schema.name);
        for output in &written {
            assert!(output.messina().is_none(), "Cassandra would not delete Messina.db");
            assert_eq!((output.level(), output.stats().repaired_at_ms), (3, 77));
            assert_eq!(output.stats().originating_host_id, Some([7; 16]));
        }
        merged
    })
}

#[test]
fn a_merge_keeps_the_content() {
    for_each_table(|seed, schema| {
        let merged = check(seed, schema, Purge::nothing(NOW_S), |_| {});
        assert_eq!(merged.outputs, [(0, 0)]);
        let counted: u64 = merged.counts.iter().map(|(_, partitions)| partitions).sum();
        assert!(counted >= merged.partitions && merged.partitions > 0, "{merged:?}");
    });
}

#[test]
fn outputs_are_cut_by_size_and_by_the_ends() {
    for_each_table(|seed, schema| {
        let merged = check(seed, schema, Purge::nothing(NOW_S), |request| request.max_bytes = 1);
        assert_eq!(merged.outputs.len() as u64, merged.partitions);
    });
    for_each_table(|seed, schema| {
        let merged = check(seed, schema, Purge::nothing(NOW_S), |request| {
            request.ends =
                vec![End::AfterToken(i64::MIN / 2), End::BeforeToken(0), End::AfterToken(i64::MAX)];
        });
        assert!(merged.outputs.is_sorted() && merged.outputs.len() <= 3, "{merged:?}");
        assert!(merged.outputs.iter().all(|(_, part)| *part < 3), "{merged:?}");
    });
}

#[test]
fn tombstones_are_purged_unless_something_outside_may_need_them() {
    let all = Purge { now_s: NOW_S, gc_before_s: u32::MAX, max_purgeable_us: i64::MAX };
    let none = Purge { max_purgeable_us: i64::MIN, ..all };
    for_each_table(|seed, schema| {
        check(seed, schema.clone(), all, |request| request.gc_before_s = u32::MAX);
        check(seed, schema.clone(), none, |request| {
            request.gc_before_s = u32::MAX;
            request.memtable_min_timestamp_us = Some(i64::MIN);
        });
        check(seed, schema, none, |request| {
            request.gc_before_s = u32::MAX;
            // Without a filter it may contain every key.
            let keys = (0..1000).map(sample::partition_key);
            let (first, last) = (keys.clone().min().expect("a key"), keys.max().expect("a key"));
            request.outside = vec![OutsideSSTable { name: name(9), first, last, min_timestamp_us: i64::MIN }];
        });
    });
}

#[test]
fn a_merge_that_fails_or_is_stopped_leaves_no_file() {
    let schema = sample::tables()[0].clone();
    sim::run(1, 1, move |shard| async move {
        write_inputs(&shard, &schema, &mut Rng::new(1), 2).await;
        let files = shard.files();
        let before = files.read_dir(&dir()).await.expect("a directory").len();
        let stopped = control();
        stopped.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut large = request(&schema, 2);
        large.max_bytes = 1;
        large.outputs.truncate(2);
        let error = Box::pin(run(&shard, &large, &control())).await.expect_err("too few names");
        assert_eq!(error, "the output needs more than 2 SSTables");
        let mut missing = request(&schema, 2);
        missing.inputs.push(name(50));
        assert!(Box::pin(run(&shard, &missing, &control())).await.is_err());
        let _ = Box::pin(run(&shard, &request(&schema, 2), &stopped)).await.expect_err("stopped");
        let after = files.read_dir(&dir()).await.expect("a directory").len();
        assert_eq!(after, before);
    });
}

#[test]
fn a_damaged_request_is_an_error() {
    for len in 0..200 {
        assert!(MergeRequest::read(&vec![0; len]).is_err());
    }
    let mut rng = Rng::new(3);
    for _ in 0..5000 {
        let bytes: Vec<u8> = (0..rng.below(300)).map(|_| (rng.below(256) * rng.below(2)) as u8).collect();
        let _ = MergeRequest::read(&bytes);
    }
}
