//! The cache returns the same data as the source under it, in every state of population, during writes,
//! flushes and evictions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use ::reader::examination::examine_shadowed;
use ::reader::{
    CompactReader, Fragment, Keep, LocalFuture, MemorySource, MergeReader, ReadError, ReadSpec, Reader,
    Source, Step, block_on_ready, collect,
};
use base::rng::Rng;
use model::sample::{self, Variety};
use model::{
    ClusteringPrefix, ClusteringRange, Mutation, PartitionKey, PartitionRange, Position, Purge, TableSchema,
};
use sstable::pool::{EvictionPolicy, MemoryPool};

use super::*;
use crate::memtable::Memtable;

/// A budget for everything, and one so small that most items are evicted at once.
const ROOMY: usize = 64 << 20;
const TIGHT: usize = 4000;

/// The source under the cache. It requires a load before every other fragment, and counts its readers.
#[derive(Clone)]
struct Disk {
    source: Rc<MemorySource>,
    reads: Rc<Cell<u64>>,
}

impl Disk {
    fn new(source: MemorySource) -> Self {
        Self { source: Rc::new(source), reads: Rc::default() }
    }
}

struct Halting {
    inner: Box<dyn Reader>,
    must_load: bool,
}

impl Reader for Halting {
    fn next(&mut self) -> Result<Step, ReadError> {
        if self.must_load {
            return Ok(Step::Load);
        }
        let step = self.inner.next()?;
        self.must_load = matches!(step, Step::Ready(_));
        Ok(step)
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        self.must_load = false;
        self.inner.load()
    }

    fn skip_partition(&mut self) {
        self.inner.skip_partition();
    }
}

impl UnderlyingSource for Disk {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        self.reads.set(self.reads.get() + 1);
        Box::new(Halting { inner: self.source.reader(spec), must_load: true })
    }
}

struct World {
    pool: Rc<MemoryPool>,
    rows: Rc<RowCache>,
    cache: Rc<TableCache>,
}

impl World {
    fn new(budget_bytes: usize) -> Self {
        let pool = MemoryPool::new(budget_bytes, EvictionPolicy::default());
        let rows = RowCache::in_pool(&pool);
        Self { cache: TableCache::new(&rows), rows, pool }
    }

    fn reader(&self, disk: &Disk, spec: &ReadSpec) -> Box<dyn Reader> {
        let PartitionRange::Key(key) = &spec.partitions else {
            return Box::new(CompactReader::new(disk.reader(spec), Purge::nothing(0), Keep::Needed));
        };
        Box::new(CacheReader::new(&self.cache, spec, key, self.cache.find(key), disk.clone()))
    }

    /// Creates gaps: evicts this percentage of the used bytes.
    fn evict(&self, percent: usize) {
        let budget = self.pool.budget_bytes();
        self.pool.set_budget_bytes(self.pool.stats().used_bytes() * (100 - percent) / 100);
        self.pool.set_budget_bytes(budget);
    }

    fn clean(&self) {
        while self.rows.clean_step() {}
    }
}

/// A source whose reads use a cache from which items are evicted in between.
struct Cached {
    world: World,
    disk: Disk,
    rng: RefCell<Rng>,
}

impl Source for Cached {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        let mut rng = self.rng.borrow_mut();
        match rng.below(8) {
            0 => self.world.evict(100),
            1 | 2 => self.world.evict(20 + rng.below(60) as usize),
            3 => self.world.clean(),
            _ => {}
        }
        self.world.reader(&self.disk, spec)
    }
}

#[test]
fn it_passes_the_examination_in_every_state_of_filling() {
    for budget_bytes in [ROOMY, TIGHT, 0] {
        let mut seed = 0;
        let mut build = |_: &Arc<TableSchema>, mutations: Vec<Mutation>| -> Box<dyn Source> {
            seed += 1;
            let disk = Disk::new(MemorySource::new(&mutations));
            Box::new(Cached { world: World::new(budget_bytes), disk, rng: RefCell::new(Rng::new(seed)) })
        };
        block_on_ready(examine_shadowed(&mut build, 0..150));
    }
}

fn compacted(reader: Box<dyn Reader>) -> Box<dyn Reader> {
    Box::new(CompactReader::new(reader, Purge::nothing(0), Keep::Needed))
}

/// An open read, and its expected output.
struct Open {
    reader: Box<dyn Reader>,
    got: Vec<Fragment>,
    expect: Vec<Fragment>,
    what: String,
}

impl Open {
    /// Runs this number of steps; true at the end.
    fn step(&mut self, steps: u64) -> bool {
        for _ in 0..steps {
            match self.reader.next().unwrap() {
                Step::Ready(fragment) => self.got.push(fragment),
                Step::Load => block_on_ready(self.reader.load()).unwrap(),
                Step::End => {
                    assert_eq!(self.got, self.expect, "{}", self.what);
                    return true;
                }
            }
        }
        false
    }
}

/// Random writes, flushes that are merged step by step, evictions, clears, and reads of random slices in both
/// directions that stay open meanwhile: each returns the data written before it began.
#[test]
fn reads_give_what_was_written_whatever_happens_meanwhile() {
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let schema = rng.pick(&sample::all_tables()).clone();
        let variety = Variety { rows: *rng.pick(&[3, 6, 40]), partitions: 3, ..Variety::default() };
        let world = World::new(*rng.pick(&[ROOMY, ROOMY, TIGHT * 4]));
        let mut all = MemorySource::default();
        let mut disk = Disk::new(MemorySource::default());
        let (mut active, mut active_writes) = (Rc::new(Memtable::new(schema.clone())), vec![]);
        let mut flushed: Option<(Rc<Memtable>, MergeFlushed)> = None;
        let mut open: Vec<Open> = vec![];
        for step in 0..300 {
            match rng.below(20) {
                0..6 => {
                    let mutation = sample::mutation(&mut rng, &schema, &variety);
                    if !mutation.partition.is_empty() {
                        all.apply(&mutation);
                        active_writes.push(mutation.clone());
                        active.apply(mutation);
                    }
                }
                6 if flushed.is_none() => {
                    let mut source = (*disk.source).clone();
                    active_writes.drain(..).for_each(|mutation| source.apply(&mutation));
                    disk = Disk::new(source);
                    world.cache.raise_phase();
                    let merging = MergeFlushed::new(&world.cache, &*active, &schema);
                    flushed = Some((
                        std::mem::replace(&mut active, Rc::new(Memtable::new(schema.clone()))),
                        merging,
                    ));
                }
                7 => world.evict(rng.below(100) as usize),
                8 if rng.chance(1, 8) => world.cache.clear(),
                9 => drop((0..rng.below(20)).find(|_| !world.rows.clean_step())),
                10..15 => {
                    let key = sample::partition_key(rng.below(variety.partitions + 1));
                    let ranges = sample::ranges(&mut rng, &schema, &variety);
                    let spec = ReadSpec::new(schema.clone(), PartitionRange::Key(key));
                    let spec = spec.ranges(ranges).reversed(rng.chance(1, 2));
                    let mut readers: Vec<Box<dyn Reader>> = vec![active.reader(&spec)];
                    readers.extend(flushed.as_ref().map(|(memtable, _)| memtable.reader(&spec)));
                    readers.push(world.reader(&disk, &spec));
                    let expect = block_on_ready(collect(&mut *compacted(all.reader(&spec)))).unwrap();
                    let reader = compacted(MergeReader::of(&spec, readers));
                    let what = format!("seed {seed}, opened in step {step}: {spec:?}");
                    open.push(Open { reader, got: vec![], expect, what });
                }
                _ => {}
            }
            let is_merged =
                flushed.as_mut().is_some_and(|(_, merging)| !(0..rng.below(4)).all(|_| merging.step()));
            if is_merged {
                flushed = None;
            }
            open.retain_mut(|read| !read.step(rng.below(6)));
        }
        open.iter_mut().for_each(|read| assert!(read.step(u64::MAX)));
        drop(open);
        world.cache.clear();
        world.clean();
        let stats = world.rows.stats();
        assert_eq!((stats.partitions, stats.entries, stats.bytes), (0, 0, 0), "seed {seed}");
    }
}

fn wide() -> Arc<TableSchema> {
    sample::tables().remove(1)
}

fn key(c: i32) -> ClusteringPrefix {
    ClusteringPrefix::new([&c.to_be_bytes()[..]])
}

/// A partition of rows 0, 10, 20, … below 1000.
fn tens(schema: &Arc<TableSchema>) -> Disk {
    let mut mutation = Mutation::new(schema.clone(), sample::partition_key(0));
    for c in 0..100 {
        mutation.row_mut(key(c * 10)).liveness = model::Liveness::new(5);
    }
    Disk::new(MemorySource::new(&[mutation]))
}

fn slice(schema: &Arc<TableSchema>, partition: u64, from: i32, until: i32) -> ReadSpec {
    let range = ClusteringRange { start: Position::before(key(from)), end: Position::before(key(until)) };
    ReadSpec::new(schema.clone(), PartitionRange::Key(sample::partition_key(partition))).ranges([range])
}

fn rows(world: &World, disk: &Disk, spec: &ReadSpec) -> usize {
    let fragments = block_on_ready(collect(&mut *world.reader(disk, spec))).unwrap();
    fragments.iter().filter(|fragment| matches!(fragment, Fragment::Row(_))).count()
}

/// Data that was read once is not read again: rows, ranges, parts of them, absent rows and partitions, in
/// both directions.
#[test]
fn what_is_known_is_not_read_below() {
    let (schema, world) = (wide(), World::new(ROOMY));
    let disk = tens(&schema);
    let asked = |spec: &ReadSpec| {
        let before = disk.reads.get();
        (rows(&world, &disk, spec), disk.reads.get() - before)
    };
    let one = |c| {
        let spec = slice(&schema, 0, 0, 0);
        spec.ranges([ClusteringRange::of_prefix(key(c))])
    };
    assert_eq!(asked(&one(500)), (1, 1));
    assert_eq!(asked(&one(500)), (1, 0));
    assert_eq!(asked(&one(501)), (0, 1), "an absent row");
    assert_eq!(asked(&one(501)), (0, 0));
    assert_eq!(asked(&slice(&schema, 0, 100, 200)), (10, 1));
    for reversed in [false, true] {
        assert_eq!(asked(&slice(&schema, 0, 100, 200).reversed(reversed)), (10, 0));
        assert_eq!(asked(&slice(&schema, 0, 115, 166).reversed(reversed)), (5, 0));
    }
    assert_eq!(asked(&one(155)), (0, 0), "absent, inside of what was read");
    assert_eq!(asked(&slice(&schema, 0, 50, 250).reversed(true)), (20, 2), "two gaps beside it");
    assert_eq!(asked(&slice(&schema, 0, 50, 250)), (20, 0));
    let whole = ReadSpec::new(schema.clone(), PartitionRange::Key(sample::partition_key(0)));
    assert_eq!(asked(&whole).0, 100);
    assert_eq!(asked(&whole), (100, 0));
    assert_eq!(asked(&whole.clone().reversed(true)), (100, 0));
    let absent = ReadSpec::new(schema.clone(), PartitionRange::Key(sample::partition_key(1)));
    assert_eq!(asked(&absent), (0, 1));
    assert_eq!(asked(&absent), (0, 0), "an absent partition");
    let stats = world.rows.stats();
    assert_eq!(stats.reads - stats.misses, 11);
}

/// A large partition is evicted row by row; then the gaps are read again, and not the rest.
#[test]
fn it_is_evicted_by_rows() {
    let (schema, world) = (wide(), World::new(ROOMY));
    let disk = tens(&schema);
    let whole = ReadSpec::new(schema.clone(), PartitionRange::Key(sample::partition_key(0)));
    assert_eq!(rows(&world, &disk, &whole), 100);
    world.evict(20);
    let left = world.cache.find(&sample::partition_key(0)).expect("rows go first").entry_count();
    assert!((60..100).contains(&left), "{left}");
    let before = world.rows.stats().rows_missed;
    assert_eq!(rows(&world, &disk, &whole), 100);
    assert!(world.rows.stats().rows_missed - before < 100);
}

/// Flushed rows are in the cache without a read, if their positions were known.
#[test]
fn flushed_rows_are_merged_into_what_is_known() {
    let (schema, world) = (wide(), World::new(ROOMY));
    let disk = tens(&schema);
    let absent = ReadSpec::new(schema.clone(), PartitionRange::Key(sample::partition_key(1)));
    assert_eq!(rows(&world, &disk, &absent), 0);
    assert_eq!(rows(&world, &disk, &slice(&schema, 0, 100, 200)), 10);
    let memtable = Memtable::new(schema.clone());
    let mut source = (*disk.source).clone();
    for (partition, c) in [(0, 111), (0, 301), (1, 7), (2, 8)] {
        let mut mutation = Mutation::new(schema.clone(), sample::partition_key(partition));
        mutation.row_mut(key(c)).liveness = model::Liveness::new(9);
        source.apply(&mutation);
        memtable.apply(mutation);
    }
    let disk = Disk::new(source);
    world.cache.raise_phase();
    let mut merging = MergeFlushed::new(&world.cache, &memtable, &schema);
    while merging.step() {}
    assert_eq!(rows(&world, &disk, &absent), 1);
    assert_eq!(rows(&world, &disk, &slice(&schema, 0, 100, 200)), 11);
    assert_eq!(disk.reads.get(), 0);
    assert_eq!(rows(&world, &disk, &slice(&schema, 0, 200, 400)), 21);
    assert_eq!(disk.reads.get(), 1);
    assert!(world.cache.find(&PartitionKey::new("key2")).is_none(), "nobody has asked for it");
}

/// A read that began before the end of a flush must not populate the cache.
#[test]
fn a_reader_of_before_does_not_fill_the_cache_of_after() {
    let (schema, world) = (wide(), World::new(ROOMY));
    let disk = tens(&schema);
    let spec = slice(&schema, 0, 0, 1000);
    let mut old = world.reader(&disk, &spec);
    assert!(matches!(old.next().unwrap(), Step::Load));
    block_on_ready(old.load()).unwrap();
    let mut mutation = Mutation::new(schema.clone(), sample::partition_key(0));
    mutation.row_mut(key(55)).liveness = model::Liveness::new(9);
    let mut source = (*disk.source).clone();
    source.apply(&mutation);
    let (before, disk) = (disk, Disk::new(source));
    world.cache.raise_phase();
    assert_eq!(block_on_ready(collect(&mut *old)).unwrap().len(), 102);
    assert_eq!(before.reads.get(), 1);
    assert_eq!(rows(&world, &disk, &spec), 101);
}
