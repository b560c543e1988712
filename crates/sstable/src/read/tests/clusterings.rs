//! The clustering bounds exclude an SSTable from a slice only if nothing in it affects the slice.

use base::rng::Rng;
use model::sample::{self, Variety};
use model::{
    Cell, ClusteringPrefix, ClusteringRange, CqlType, Liveness, PartitionKey, Position, Row, Tombstone,
};
use reader::{Fragment, collect};
use runtime::sim;

use super::*;

fn options(schema: &TableSchema) -> WriteOptions {
    WriteOptions::for_table(schema, "memtable", IoClass::MemtableFlush)
}

fn at(c: i32) -> ClusteringPrefix {
    ClusteringPrefix::new([&c.to_be_bytes()[..]])
}

fn slice(from: i32, to: i32) -> ClusteringRange {
    ClusteringRange { start: Position::before(at(from)), end: Position::after(at(to)) }
}

/// Writes rows 10 to 20 of a partition, each with a TTL, and the changes of `add`. Returns whether a slice of
/// `range` may need the SSTable.
fn may_contain(
    version: Version,
    range: ClusteringRange,
    add: impl FnOnce(&mut Mutation) + Send + 'static,
) -> bool {
    sim::run(1, 1, move |shard| async move {
        let schema = TableSchema::builder("ks", "t")
            .partition_key("p", CqlType::Text)
            .clustering("c", CqlType::Int)
            .static_column("s", CqlType::Int)
            .regular("v", CqlType::Int)
            .build()
            .unwrap();
        let mut mutation = Mutation::new(schema.clone(), PartitionKey::new("a"));
        for c in 10..=20 {
            let row = mutation.row_mut(at(c));
            row.liveness = Liveness::expiring(5, 600, 1_700_000_000);
            row.set(
                schema.column_named("v").unwrap(),
                Cell::expiring(5, 600, 1_700_000_000, &[0, 0, 0, 1][..]),
            );
        }
        add(&mut mutation);
        let name = name_of(version, 1);
        write(&shard, &dir(), name, &schema, options(&schema), &[mutation]).await.unwrap();
        let cache = ChunkCache::new(1 << 20);
        let sstable = open(&shard, &dir(), name, &cache).await.unwrap();
        sstable.check(IoClass::Maintenance).await.unwrap();
        assert!(sstable.may_have_tombstones());
        sstable.may_contain_clustering(&schema, &[range])
    })
}

#[test]
fn rows_that_expire_do_not_make_an_sstable_matter_to_other_slices() {
    for version in [Version::Me, Version::Nb] {
        let nothing = |_: &mut Mutation| {};
        assert!(may_contain(version, slice(15, 30), nothing));
        assert!(!may_contain(version, slice(21, 30), nothing));
        assert!(!may_contain(version, slice(0, 9), nothing));
    }
    assert!(may_contain(Version::Mc, slice(21, 30), |_| {}), "its bounds cannot be trusted");
}

#[test]
fn what_the_bounds_do_not_cover_makes_it_matter() {
    let deleted = Tombstone::new(4, 1_700_000_000);
    let far = || slice(100, 200);
    assert!(may_contain(Version::Me, far(), move |mutation| mutation.partition.tombstone = deleted));
    assert!(may_contain(Version::Me, far(), |mutation| {
        let column = mutation.schema.column_named("s").unwrap().clone();
        let mut row = Row::default();
        row.set(&column, Cell::live(5, &[0, 0, 0, 1][..]));
        mutation.partition.static_row = row;
    }));
    // The bounds cover range deletions.
    assert!(may_contain(Version::Me, far(), move |mutation| mutation.delete_range(slice(50, 100), deleted)));
    assert!(!may_contain(Version::Me, far(), move |mutation| mutation.delete_range(slice(50, 99), deleted)));
    assert!(!may_contain(Version::Me, far(), move |mutation| {
        mutation.delete_range(slice(0, 5), deleted);
        mutation.delete_range(slice(5, 7), Tombstone::new(9, 1_700_000_000));
    }));
    assert!(may_contain(Version::Me, far(), move |mutation| {
        let all_behind = ClusteringRange { start: Position::after(at(20)), end: ClusteringRange::all().end };
        mutation.delete_range(all_behind, deleted);
    }));
}

/// The file marks an expired cell as expired. When the wall clock is set back, the cell stays expired and its
/// empty value is not read. One cell has the TTL of its row, the other has its own.
#[test]
fn an_expired_cell_is_read_as_one() {
    sim::run(1, 1, |shard| async move {
        let schema = TableSchema::builder("ks", "t")
            .partition_key("p", CqlType::Text)
            .clustering("c", CqlType::Int)
            .regular("v", CqlType::Int)
            .regular("w", CqlType::Text)
            .build()
            .unwrap();
        let (written_s, expired_s) = (1_700_000_000, 1_700_000_600);
        let mut mutation = Mutation::new(schema.clone(), PartitionKey::new("a"));
        let row = mutation.row_mut(at(1));
        row.liveness = Liveness::expiring(5, 600, written_s);
        row.set(schema.column_named("v").unwrap(), Cell::expired(5, 600, expired_s));
        row.set(schema.column_named("w").unwrap(), Cell::expired(6, 30, written_s + 30));
        // The written value is empty, and the cell has not expired.
        mutation.row_mut(at(2)).set(schema.column_named("w").unwrap(), Cell::expiring(6, 30, written_s, ""));
        let expected: Vec<Row> = mutation.partition.rows().iter().map(|row| row.row.clone()).collect();
        let cache = ChunkCache::new(1 << 20);
        for (generation, version) in [(1, Version::Me), (2, Version::Nb)] {
            let name = name_of(version, generation);
            write(&shard, &dir(), name, &schema, options(&schema), &[mutation.clone()]).await.unwrap();
            let sstable = open(&shard, &dir(), name, &cache).await.unwrap();
            sstable.check(IoClass::Maintenance).await.unwrap();
            let source = SSTableSource::new(sstable, IoClass::Statement);
            let mut reader = source.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()));
            let fragments = collect(&mut *reader).await.unwrap();
            let rows = fragments.into_iter().filter_map(|fragment| match fragment {
                Fragment::Row(row) => Some(Row::clone(&row.row)),
                _ => None,
            });
            assert_eq!(rows.collect::<Vec<Row>>(), expected);
        }
    });
}

/// Random SSTables: an SSTable that is excluded has nothing for the slice, not even a deletion.
#[test]
fn what_is_ruled_out_has_nothing_of_the_slice() {
    sim::run(7, 1, |shard| async move {
        let cache = ChunkCache::new(1 << 20);
        let mut rng = Rng::new(77);
        let mut ruled_out = 0;
        for number in 0..300 {
            let schema = rng.pick(&sample::tables()).clone();
            let variety = Variety { rows: 40, ..Variety::default() };
            let mutations: Vec<Mutation> =
                (0..1 + rng.below(3)).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
            let name = name_of(Version::Me, number + 1);
            let written = write(&shard, &dir(), name, &schema, options(&schema), &mutations).await;
            if written.is_none() {
                continue;
            }
            let sstable = open(&shard, &dir(), name, &cache).await.unwrap();
            for _ in 0..5 {
                let ranges = sample::ranges(&mut rng, &schema, &variety);
                if sstable.may_contain_clustering(&schema, &ranges) {
                    continue;
                }
                ruled_out += 1;
                let spec = ReadSpec::new(schema.clone(), PartitionRange::all()).ranges(ranges);
                let source = SSTableSource::new(sstable.clone(), IoClass::Statement);
                let mut reader = source.reader(&spec);
                for fragment in collect(&mut *reader).await.unwrap() {
                    assert!(
                        matches!(
                            &fragment,
                            Fragment::PartitionStart { tombstone, .. } if tombstone.is_live()
                        ) || fragment == Fragment::PartitionEnd,
                        "{fragment:?}"
                    );
                }
            }
        }
        assert!(ruled_out > 50, "{ruled_out}");
    });
}
