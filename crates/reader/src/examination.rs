//! The examination: the test suite that every source passes, forward and reverse.
//!
//! The tests of every [`Source`] call [`examine`] with a function that builds the source from mutations. The
//! expected result is computed by [`crate::memory`], fragment by fragment. After the random writes of a seed,
//! each source is read by single partitions, ranges of partitions and slices of rows, in both directions,
//! with partitions skipped at random points.

use std::sync::Arc;

use base::rng::Rng;
use model::sample::{self, Variety};
use model::{Mutation, PartitionKey, PartitionRange, Purge, RingPosition, TableSchema};

use crate::block_on::LocalFuture;
use crate::fragment::{Fragment, ReadSpec, Reader, Source, Step};
use crate::memory::{MemorySource, fragments_of};
use crate::{CompactReader, Keep, ReadError, collect};

/// Builds a source of a table from writes. The order in which the writes are merged must not affect the
/// result.
pub trait Build {
    /// A source of `table`, with the same content as `content`, on the simulated disk of `shard`.
    fn build<'a>(
        &'a mut self,
        schema: &'a Arc<TableSchema>,
        mutations: Vec<Mutation>,
    ) -> LocalFuture<'a, Box<dyn Source>>;
}

impl<F> Build for F
where
    F: FnMut(&Arc<TableSchema>, Vec<Mutation>) -> Box<dyn Source>,
{
    fn build<'a>(
        &'a mut self,
        schema: &'a Arc<TableSchema>,
        mutations: Vec<Mutation>,
    ) -> LocalFuture<'a, Box<dyn Source>> {
        let source = self(schema, mutations);
        Box::pin(async move { source })
    }
}

/// Examines sources that `build` creates from the writes of `seeds`, for every table of [`sample::tables`].
/// Panics with the seed at the first difference.
pub async fn examine(build: &mut dyn Build, seeds: std::ops::Range<u64>) {
    for schema in sample::all_tables() {
        for seed in seeds.clone() {
            Examination::new(schema.clone(), seed).run(build).await;
        }
    }
}

/// As [`examine`], for sources that remove data that their own tombstones delete.
pub async fn examine_shadowed(build: &mut dyn Build, seeds: std::ops::Range<u64>) {
    for schema in sample::all_tables() {
        for seed in seeds.clone() {
            let examination = Examination::new(schema.clone(), seed);
            Examination { is_shadowed: true, ..examination }.run(build).await;
        }
    }
}

struct Examination {
    schema: Arc<TableSchema>,
    seed: u64,
    rng: Rng,
    variety: Variety,
    is_shadowed: bool,
}

impl Examination {
    fn new(schema: Arc<TableSchema>, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut variety = Variety::default();
        // Some seeds use partitions large enough for an index of their own.
        if seed % 8 == 7 {
            variety.rows = 400;
            variety.value_bytes = 2000;
            variety.partitions = 2;
        }
        rng.next_u64();
        Self { schema, seed, rng, variety, is_shadowed: false }
    }

    async fn run(&mut self, build: &mut dyn Build) {
        let count = if self.variety.rows > 100 { 400 } else { self.rng.below(25) };
        let mutations: Vec<Mutation> =
            (0..count).map(|_| sample::mutation(&mut self.rng, &self.schema, &self.variety)).collect();
        let mutations: Vec<Mutation> = mutations.into_iter().filter(|m| !m.partition.is_empty()).collect();
        let expected = MemorySource::new(&mutations);
        let source = build.build(&self.schema, mutations).await;
        let keys: Vec<PartitionKey> = (0..self.variety.partitions + 1).map(sample::partition_key).collect();
        for _ in 0..12 {
            let spec = self.random_spec(&keys);
            self.check(&expected, &*source, &spec).await;
        }
        // Two readers at the same time, then a third: reading does not change the source.
        let spec = ReadSpec::new(self.schema.clone(), PartitionRange::all());
        let (mut a, mut b) = (source.reader(&spec), source.reader(&spec));
        let interleaved = [one(&mut *a).await, one(&mut *b).await];
        assert_eq!(interleaved[0], interleaved[1], "seed {}", self.seed);
        self.check(&expected, &*source, &spec).await;
    }

    fn random_spec(&mut self, keys: &[PartitionKey]) -> ReadSpec {
        let rng = &mut self.rng;
        let mut ring_position = |open: RingPosition| match rng.below(6) {
            0 => open,
            1 => RingPosition::BeforeToken(rng.pick(keys).token()),
            2 => RingPosition::AfterToken(rng.pick(keys).token()),
            3 => RingPosition::BeforeKey(rng.pick(keys).clone()),
            _ => RingPosition::AfterKey(rng.pick(keys).clone()),
        };
        let (start, end) = (
            ring_position(RingPosition::BeforeToken(i64::MIN)),
            ring_position(RingPosition::AfterToken(i64::MAX)),
        );
        let partitions = match rng.below(3) {
            0 => PartitionRange::Key(rng.pick(keys).clone()),
            1 => PartitionRange::Between { start, end },
            _ => PartitionRange::all(),
        };
        let ranges = sample::ranges(rng, &self.schema, &self.variety);
        let reversed = rng.chance(1, 2);
        ReadSpec::new(self.schema.clone(), partitions).ranges(ranges).reversed(reversed)
    }

    async fn check(&mut self, expected: &MemorySource, source: &dyn Source, spec: &ReadSpec) {
        let context = || format!("seed {}, {}, {spec:?}", self.seed, self.schema.full_name());
        // When deleted counters are removed depends on what was merged before. The data that remains after
        // their removal does not.
        let canonical = self.is_shadowed || spec.schema.has_counters();
        let wanted: Vec<Vec<Fragment>> = expected
            .partitions()
            .iter()
            .filter(|(key, _)| spec.partitions.contains(key))
            .map(|(key, partition)| {
                let mut partition = partition.clone();
                if canonical {
                    partition.shadow(&spec.schema);
                }
                fragments_of(spec, key, &partition)
            })
            .collect();
        let mut reader = source.reader(spec);
        if canonical {
            reader = Box::new(CompactReader::new(reader, Purge::nothing(0), Keep::Needed));
        }
        let got = collect(&mut *reader).await.unwrap_or_else(|error| panic!("{error}: {}", context()));
        let flat: Vec<Fragment> = wanted.iter().flatten().cloned().collect();
        // A source may omit partitions without wanted data.
        assert_same(&without_hollow(got), &without_hollow(flat), &context());
        assert!(matches!(reader.next(), Ok(Step::End)), "the end is said again: {}", context());

        if spec.wants_all_rows() && !spec.schema.has_counters() {
            self.check_skipping(wanted, source, spec).await;
        }
    }

    /// Checks a read that skips each partition after some of its fragments.
    async fn check_skipping(&mut self, wanted: Vec<Vec<Fragment>>, source: &dyn Source, spec: &ReadSpec) {
        let mut reader = source.reader(spec);
        let (mut got, mut expect) = (vec![], vec![]);
        for partition in split_partitions(without_hollow(wanted.concat())) {
            let take = 1 + self.rng.index(partition.len());
            expect.extend(partition.into_iter().take(take));
            for _ in 0..take {
                got.extend(one(&mut *reader).await);
            }
            reader.skip_partition();
        }
        got.extend(one(&mut *reader).await);
        assert_same(&got, &expect, &format!("skipping, seed {}, {spec:?}", self.seed));
    }
}

async fn one(reader: &mut dyn Reader) -> Option<Fragment> {
    loop {
        match step(reader) {
            Step::Ready(fragment) => return Some(fragment),
            Step::End => return None,
            Step::Load => reader.load().await.unwrap_or_else(|error: ReadError| panic!("{error}")),
        }
    }
}

fn step(reader: &mut dyn Reader) -> Step {
    reader.next().unwrap_or_else(|error| panic!("{error}"))
}

fn split_partitions(fragments: Vec<Fragment>) -> Vec<Vec<Fragment>> {
    let mut out: Vec<Vec<Fragment>> = vec![];
    for fragment in fragments {
        if matches!(fragment, Fragment::PartitionStart { .. }) {
            out.push(vec![]);
        }
        out.last_mut().expect("a partition starts").push(fragment);
    }
    out
}

/// Removes partitions that contain neither a tombstone nor a row.
fn without_hollow(fragments: Vec<Fragment>) -> Vec<Fragment> {
    let hollow = |partition: &Vec<Fragment>| {
        partition.len() == 2
            && matches!(partition[0], Fragment::PartitionStart { tombstone, .. } if tombstone.is_live())
    };
    split_partitions(fragments).into_iter().filter(|partition| !hollow(partition)).flatten().collect()
}

#[track_caller]
fn assert_same(got: &[Fragment], expect: &[Fragment], context: &str) {
    if got == expect {
        return;
    }
    let at = got.iter().zip(expect).take_while(|(got, expect)| got == expect).count();
    panic!(
        "fragment {at} of {} (expected {}) differs\n got    {:?}\n expect {:?}\n{context}",
        got.len(),
        expect.len(),
        got.get(at),
        expect.get(at)
    );
}
