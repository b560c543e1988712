//! The combinators pass the examination of sources, and satisfy their laws.

use std::rc::Rc;
use std::sync::Arc;

use base::rng::Rng;
use model::sample::{self, Variety};
use model::{Mutation, PartitionRange, Purge, TableSchema};

use crate::examination::examine;
use crate::fragment::{ReadSpec, Reader, Source, Step};
use crate::{
    ChainReader, CompactReader, FilterReader, Garbage, Keep, MemorySource, MergeReader, MergeSource,
    ReversingReader, ShadowReader, Shadowing, SliceReader, block_on_ready, collect, collect_partitions,
};

fn memory(_: &Arc<TableSchema>, mutations: Vec<Mutation>) -> Box<dyn Source> {
    Box::new(MemorySource::new(&mutations))
}

/// Reads all rows of the inner source and cuts afterwards.
struct Sliced(MemorySource);

impl Source for Sliced {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        let whole = spec.clone().ranges([model::ClusteringRange::all()]);
        Box::new(SliceReader::new(spec, self.0.reader(&whole)))
    }
}

#[test]
fn memory_passes() {
    block_on_ready(examine(&mut memory, 0..40));
}

#[test]
fn a_slice_of_everything_passes() {
    let mut build = |_: &Arc<TableSchema>, mutations: Vec<Mutation>| -> Box<dyn Source> {
        Box::new(Sliced(MemorySource::new(&mutations)))
    };
    block_on_ready(examine(&mut build, 0..200));
}

#[test]
fn a_merge_of_any_split_passes() {
    for ways in [1, 2, 3, 7] {
        let mut rng = Rng::new(ways);
        let mut build = |_: &Arc<TableSchema>, mutations: Vec<Mutation>| -> Box<dyn Source> {
            let mut parts = vec![MemorySource::default(); ways as usize];
            mutations.iter().for_each(|mutation| parts[rng.index(ways as usize)].apply(mutation));
            let source = |part| -> Rc<dyn Source> { Rc::new(part) };
            Box::new(MergeSource { sources: parts.into_iter().map(source).collect() })
        };
        block_on_ready(examine(&mut build, 0..60));
    }
}

/// Reads forward and reverses each partition.
struct Reversed(MemorySource);

impl Source for Reversed {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        if !spec.reversed {
            return self.0.reader(spec);
        }
        let forward = self.0.reader(&spec.clone().reversed(false));
        Box::new(ReversingReader::new(forward, u64::MAX, None))
    }
}

#[test]
fn what_is_turned_round_passes() {
    let mut build = |_: &Arc<TableSchema>, mutations: Vec<Mutation>| -> Box<dyn Source> {
        Box::new(Reversed(MemorySource::new(&mutations)))
    };
    block_on_ready(examine(&mut build, 0..80));
}

/// A partition over the memory limit is refused with ScyllaDB's text; one within it is not.
#[test]
fn turning_round_has_a_limit() {
    let schema = sample::tables().remove(0);
    let variety = Variety::default();
    let mut rng = Rng::new(4);
    let mutations: Vec<Mutation> = (0..30).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
    let source = MemorySource::new(&mutations);
    let read = |limit_bytes: u64| {
        let forward = source.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()));
        let mut reader = ReversingReader::new(forward, limit_bytes, None);
        block_on_ready(collect(&mut reader))
    };
    let error = read(100).unwrap_err().to_string();
    let expected = "Memory usage of reversed read exceeds hard limit of 100 (configured via \
                    max_memory_for_unlimited_query_hard_limit), while reading partition ";
    assert!(error.starts_with(expected), "{error}");
    assert!(!read(1 << 20).unwrap().is_empty());
}

/// One source for each partition, concatenated.
struct Chained(MemorySource);

impl Source for Chained {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        let one = |(key, partition): (&model::PartitionKey, &model::Partition)| {
            let mut source = MemorySource::default();
            source.partitions_mut().insert(key.clone(), partition.clone());
            Rc::new(source) as Rc<dyn Source>
        };
        let all: Vec<_> = self.0.partitions().iter().map(one).collect();
        Box::new(ChainReader::new(spec.clone(), all))
    }
}

#[test]
fn chained_sources_are_one() {
    let mut build = |_: &Arc<TableSchema>, mutations: Vec<Mutation>| -> Box<dyn Source> {
        Box::new(Chained(MemorySource::new(&mutations)))
    };
    block_on_ready(examine(&mut build, 0..60));
}

/// Two filters that divide the partitions between them; merged they are the whole source.
struct Filtered(MemorySource);

impl Source for Filtered {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        let half = |odd: bool| -> Box<dyn Reader> {
            let wants = move |key: &model::PartitionKey| (key.token() % 2 != 0) == odd;
            Box::new(FilterReader::new(self.0.reader(spec), wants))
        };
        Box::new(MergeReader::new(spec, vec![half(false), half(true)]))
    }
}

#[test]
fn what_two_filters_let_through_is_the_whole() {
    let mut build = |_: &Arc<TableSchema>, mutations: Vec<Mutation>| -> Box<dyn Source> {
        Box::new(Filtered(MemorySource::new(&mutations)))
    };
    block_on_ready(examine(&mut build, 0..60));
}

/// The partitions of collected garbage.
fn partitions_of(
    garbage: &Garbage,
    schema: &Arc<TableSchema>,
) -> Vec<(model::PartitionKey, model::Partition)> {
    struct Collected(Garbage);
    impl Reader for Collected {
        fn next(&mut self) -> Result<Step, crate::ReadError> {
            Ok(self.0.borrow_mut().pop_front().map_or(Step::End, Step::Ready))
        }

        fn load(&mut self) -> crate::LocalFuture<'_, Result<(), crate::ReadError>> {
            Box::pin(async { Ok(()) })
        }

        fn skip_partition(&mut self) {
            unreachable!("nobody skips")
        }
    }
    block_on_ready(collect_partitions(&mut Collected(garbage.clone()), schema, false)).unwrap()
}

/// Compacting a stream gives the same result as compacting the merged partition in memory, in both
/// directions, for every choice of what is kept.
#[test]
fn compacting_a_stream_equals_compacting_its_partition() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let variety = Variety::default();
        let tables = sample::tables();
        let schema = rng.pick(&tables).clone();
        let mutations: Vec<_> =
            (0..rng.below(25)).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
        let source = MemorySource::new(&mutations);
        let purge = Purge {
            now_s: variety.now_s + rng.below(4) as u32,
            gc_before_s: variety.now_s - 3 + rng.below(4) as u32,
            max_purgeable_us: if rng.chance(1, 2) { i64::MAX } else { 1_700_000_000_000_003 },
        };
        let reversed = rng.chance(1, 2);
        let spec = ReadSpec::new(schema.clone(), PartitionRange::all()).reversed(reversed);

        let mut reader = CompactReader::new(source.reader(&spec), purge, Keep::Needed);
        let got = block_on_ready(collect_partitions(&mut reader, &schema, reversed)).unwrap();
        let expect: Vec<_> = source
            .partitions()
            .iter()
            .map(|(key, partition)| {
                let mut partition = partition.clone();
                partition.compact(&schema, &purge);
                (key.clone(), partition)
            })
            .filter(|(_, partition)| !partition.is_empty())
            .collect();
        assert_eq!(got, expect, "seed {seed}");

        // Merging the kept and the purged data gives the original.
        if !reversed && !schema.has_counters() {
            let garbage = Garbage::default();
            let mut reader = CompactReader::new(source.reader(&spec), purge, Keep::Needed);
            reader = reader.collecting(garbage.clone());
            let kept = block_on_ready(collect_partitions(&mut reader, &schema, false)).unwrap();
            let mut both = MemorySource::default();
            for (key, partition) in kept.into_iter().chain(partitions_of(&garbage, &schema)) {
                both.partitions_mut().entry(key).or_default().merge(&partition, &schema);
            }
            let everything = Purge::everything(purge.now_s);
            let kept_all = Purge::nothing(purge.now_s);
            for purge in [everything, kept_all] {
                let compacted = |source: &MemorySource| {
                    let mut reader = CompactReader::new(source.reader(&spec), purge, Keep::Needed);
                    block_on_ready(collect_partitions(&mut reader, &schema, false)).unwrap()
                };
                assert_eq!(compacted(&both), compacted(&source), "seed {seed}");
            }
        }

        let mut reader = CompactReader::new(source.reader(&spec), purge, Keep::Live);
        let live = block_on_ready(collect_partitions(&mut reader, &schema, reversed)).unwrap();
        for (key, partition) in &live {
            assert!(partition.tombstone.is_live() && partition.range_tombstones().is_empty(), "{key:?}");
            assert!(partition.rows().iter().all(|row| row.row.is_live_at(purge.now_s)), "seed {seed}");
        }
        // A purge before the query does not change its result.
        let mut purged = MemorySource::default();
        got.into_iter().for_each(|(key, partition)| {
            purged.partitions_mut().insert(key, partition);
        });
        let mut reader = CompactReader::new(purged.reader(&spec), purge, Keep::Live);
        let after = block_on_ready(collect(&mut reader)).unwrap();
        let mut reader = CompactReader::new(source.reader(&spec), purge, Keep::Live);
        assert_eq!(after, block_on_ready(collect(&mut reader)).unwrap(), "seed {seed}");
    }
}

/// The content of several sources merged, without deleted data.
fn together(schema: &Arc<TableSchema>, readers: Vec<Box<dyn Reader>>) -> Vec<crate::Fragment> {
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
    let merged = MergeReader::of(&spec, readers);
    let mut reader = CompactReader::new(merged, Purge::nothing(0), Keep::Needed);
    block_on_ready(collect(&mut reader)).unwrap()
}

/// Removing shadowed data does not change the content of data and shadow merged.
#[test]
fn what_a_shadow_leaves_is_with_the_shadow_what_there_was() {
    let mut rng = Rng::new(31);
    let mut removed = [0, 0];
    for _ in 0..400 {
        let schema = rng.pick(&sample::tables()).clone();
        let variety = Variety { partitions: 6, ..Variety::default() };
        let mut source = || {
            let count = 1 + rng.below(12);
            let all: Vec<Mutation> =
                (0..count).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
            MemorySource::new(&all)
        };
        let (data, shadow) = (source(), source());
        let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
        let expect = together(&schema, vec![data.reader(&spec), shadow.reader(&spec)]);
        let alone = together(&schema, vec![data.reader(&spec)]);
        for (by, removed) in [Shadowing::Rows, Shadowing::Cells].into_iter().zip(&mut removed) {
            let rest = || ShadowReader::new(&spec, data.reader(&spec), shadow.reader(&spec), by);
            assert_eq!(together(&schema, vec![Box::new(rest()), shadow.reader(&spec)]), expect);
            let left = together(&schema, vec![Box::new(rest())]);
            *removed += usize::from(left != alone);
            // The operation is idempotent: its result contains no data that the shadow covers.
            let again = ShadowReader::new(&spec, Box::new(rest()), shadow.reader(&spec), by);
            assert_eq!(together(&schema, vec![Box::new(again)]), left);
        }
    }
    assert!(removed[0] > 100 && removed[1] > removed[0], "{removed:?}");
}

#[test]
fn a_partition_that_is_skipped_beside_its_shadow_leaves_the_others() {
    let mut rng = Rng::new(5);
    for _ in 0..50 {
        let schema = sample::tables()[2].clone();
        let variety = Variety { partitions: 8, ..Variety::default() };
        let mut source = || {
            let all: Vec<Mutation> = (0..20).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
            MemorySource::new(&all)
        };
        let (data, shadow) = (source(), source());
        let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
        let reader = || ShadowReader::new(&spec, data.reader(&spec), shadow.reader(&spec), Shadowing::Cells);
        let whole = block_on_ready(collect(&mut reader())).unwrap();
        let wanted = |key: &model::PartitionKey| key.token() % 2 == 0;
        let mut filtered = FilterReader::new(reader(), wanted);
        let found = block_on_ready(collect(&mut filtered)).unwrap();
        let mut is_wanted = false;
        let expect: Vec<_> = whole
            .into_iter()
            .filter(|fragment| {
                if let crate::Fragment::PartitionStart { key, .. } = fragment {
                    is_wanted = wanted(key);
                }
                is_wanted
            })
            .collect();
        assert_eq!(found, expect);
    }
}
