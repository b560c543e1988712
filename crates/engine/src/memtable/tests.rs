//! A memtable is a source, its snapshots do not change, and its charge is exact.

use super::*;
use ::reader::examination::examine;
use ::reader::{MemorySource, block_on_ready, collect};
use base::rng::Rng;
use model::PartitionRange;
use model::sample::{self, Variety};

#[test]
fn it_passes_the_examination() {
    let mut build = |schema: &Arc<TableSchema>, mutations: Vec<Mutation>| -> Box<dyn Source> {
        let memtable = Memtable::new(schema.clone());
        mutations.into_iter().for_each(|mutation| memtable.apply(mutation));
        Box::new(memtable)
    };
    block_on_ready(examine(&mut build, 0..200));
}

#[test]
fn open_readers_do_not_see_later_writes() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let tables = sample::tables();
        let schema = rng.pick(&tables[..3]).clone();
        let memtable = Memtable::new(schema.clone());
        let mut model = MemorySource::default();
        let mut open = vec![];
        for _ in 0..60 {
            let mutation = sample::mutation(&mut rng, &schema, &Variety::default());
            model.apply(&mutation);
            memtable.apply(mutation);
            if rng.chance(1, 8) {
                let reversed = rng.chance(1, 2);
                let spec = ReadSpec::new(schema.clone(), PartitionRange::all()).reversed(reversed);
                open.push((memtable.reader(&spec), model.reader(&spec)));
            }
        }
        for (mut mine, mut expect) in open {
            let mine = block_on_ready(collect(&mut *mine)).unwrap();
            assert_eq!(mine, block_on_ready(collect(&mut *expect)).unwrap(), "seed {seed}");
        }
    }
}

#[test]
fn the_charge_is_what_a_recount_finds() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let schema = rng.pick(&sample::tables()).clone();
        let memtable = Memtable::new(schema.clone());
        let variety = Variety { rows: 100, partitions: 50, ..Variety::default() };
        let mut snapshot = None;
        for step in 0..300 {
            memtable.apply(sample::mutation(&mut rng, &schema, &variety));
            if rng.chance(1, 20) {
                let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
                snapshot = Some(memtable.reader(&spec));
            }
            if step % 50 == 0 {
                assert_eq!(memtable.charged_bytes(), recount(&memtable), "seed {seed} step {step}");
            }
        }
        drop(snapshot);
        assert_eq!(memtable.charged_bytes(), recount(&memtable), "seed {seed}");
    }
}

fn recount(memtable: &Memtable) -> usize {
    let partitions = memtable.partitions.borrow();
    let mut bytes = partitions.recount();
    let mut cursor = partitions.cursor(|_| std::cmp::Ordering::Greater);
    while let Some((key, partition)) = cursor.next() {
        bytes += key.heap_bytes() + partition.recount();
    }
    bytes
}

#[test]
fn cells_of_dropped_columns_are_not_read() {
    let old = sample::tables().remove(1);
    let new = old.to_builder().drop_column("t", 9).drop_column("s", 9).regular("t", model::CqlType::Int);
    let new = new.build_with_ids_from(old.column_id_bound()).unwrap();
    let gone: Vec<_> = ["t", "s"].map(|name| old.column_named(name).unwrap().id).to_vec();
    let memtable = Memtable::new(old.clone());
    let mut rng = Rng::new(3);
    (0..100).for_each(|_| memtable.apply(sample::mutation(&mut rng, &old, &Variety::default())));
    for reversed in [false, true] {
        let read = |schema: &Arc<TableSchema>| {
            let spec = ReadSpec::new(schema.clone(), PartitionRange::all()).reversed(reversed);
            block_on_ready(collect(&mut *memtable.reader(&spec))).unwrap()
        };
        let cells = |fragments: Vec<::reader::Fragment>| {
            let row = |fragment: &::reader::Fragment| match fragment {
                ::reader::Fragment::Static(row) => Some(row.clone()),
                ::reader::Fragment::Row(row) => Some(row.row.clone()),
                _ => None,
            };
            let rows = fragments.iter().filter_map(row).collect::<Vec<_>>();
            assert!(rows.iter().all(|row| !row.is_empty()));
            rows.iter().flat_map(|row| row.cells().to_vec()).collect::<Vec<_>>()
        };
        let mut expect = cells(read(&old));
        let before = expect.len();
        expect.retain(|(id, _)| !gone.contains(id));
        assert!(expect.len() < before);
        assert_eq!(cells(read(&new)), expect);
    }
}

#[test]
fn of_a_column_that_was_made_again_nothing_is_read_that_was_written_before_the_drop() {
    let before = sample::tables().remove(1);
    let ty = before.column_named("t").unwrap().ty.clone();
    let schema = before.to_builder().drop_column("t", 9).regular("t", ty);
    let schema = schema.build_with_ids_from(before.column_id_bound()).unwrap();
    let memtable = Memtable::new(schema.clone());
    for (c, timestamp_us) in [(1, 8), (2, 9), (3, 10)] {
        let mut mutation = Mutation::new(schema.clone(), sample::partition_key(0));
        let row = mutation.row_mut(model::ClusteringPrefix::new([&i32::to_be_bytes(c)[..]]));
        row.set(schema.column_named("t").unwrap(), model::Cell::live(timestamp_us, "text"));
        memtable.apply(mutation);
    }
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
    let fragments = block_on_ready(collect(&mut *memtable.reader(&spec))).unwrap();
    let rows = fragments.iter().filter(|fragment| matches!(fragment, ::reader::Fragment::Row(_)));
    assert_eq!(rows.count(), 1, "{fragments:?}");
}

/// Counts the bytes that each thread has requested from the allocator and not yet freed.
struct Counting;

std::thread_local! {
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl std::alloc::GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        LIVE_BYTES.set(LIVE_BYTES.get() + layout.size() as isize);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { std::alloc::System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: std::alloc::Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get() - layout.size() as isize);
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { std::alloc::System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn the_charge_is_what_the_allocator_gave() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let schema = rng.pick(&sample::tables()).clone();
        let variety = Variety { rows: 60, partitions: 30, value_bytes: 200, ..Variety::default() };
        let before = LIVE_BYTES.get();
        let memtable = Memtable::new(schema.clone());
        let empty = LIVE_BYTES.get() - before;
        for _ in 0..400 {
            memtable.apply(sample::mutation(&mut rng, &schema, &variety));
        }
        let held = LIVE_BYTES.get() - before - empty;
        assert_eq!(memtable.charged_bytes() as isize, held, "seed {seed} of {}", schema.name);
        drop(memtable);
        assert_eq!(LIVE_BYTES.get(), before, "seed {seed}: everything is given back");
    }
}
