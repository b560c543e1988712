//! Components of secondary indexes: what they hold, whichever way they were written.

use std::rc::Rc;

use base::rng::Rng;
use model::index::{IndexDefinition, IndexId, IndexKind, IndexPart, Posting};
use model::{Cell, ClusteringKey, CqlType, IndexTerms, Mutation, PartitionKey, TableSchema};
use reader::{Fragment, Step};
use runtime::IoClass;

use super::*;
use crate::component::secondary_index::{self, IndexEntry};
use crate::read::{ChunkCache, PostingCursor, SSTable, SSTableSource};

fn schema() -> Arc<TableSchema> {
    let index = |id: u128, column: &str, part: IndexPart| {
        let id = IndexId::from_u128(id);
        Arc::new(IndexDefinition::new(id, format!("i{id}"), IndexKind::Secondary, column).of_part(part))
    };
    TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Int)
        .static_column("s", CqlType::Int)
        .regular("v", CqlType::Int)
        .index(index(1, "v", IndexPart::Value))
        .index(index(2, "s", IndexPart::Value))
        .index(index(3, "c", IndexPart::Value))
        .index(index(4, "p", IndexPart::Value))
        .build()
        .unwrap()
}

fn mutations(schema: &Arc<TableSchema>) -> Vec<Mutation> {
    let mut rng = Rng::new(5);
    let column = |name: &str| schema.column_named(name).unwrap();
    (0..60i32)
        .map(|p| {
            let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(p.to_be_bytes()));
            if p % 3 == 0 {
                let cell = Cell::live(1, (p % 7).to_be_bytes());
                mutation.partition.static_row.set(column("s"), cell);
            }
            for c in 0..rng.below(40) as i32 {
                let row = mutation.row_mut(ClusteringKey::new([&c.to_be_bytes()[..]]));
                let value = (rng.below(30) as i32).to_be_bytes();
                match rng.below(4) {
                    0 => row.set(column("v"), Cell::tombstone(2, 100)),
                    _ => row.set(column("v"), Cell::live(1, value)),
                }
            }
            mutation
        })
        .filter(|mutation| !mutation.partition.is_empty())
        .collect()
}

/// The entries that the rows of the SSTable have under an index, sorted.
async fn expected(sstable: &Rc<SSTable>, schema: &Arc<TableSchema>, index: usize) -> Vec<IndexEntry> {
    let terms = IndexTerms::new(schema, &schema.indexes[index]).unwrap();
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
    let mut reader = SSTableSource::new(sstable.clone(), IoClass::Maintenance).reader(&spec);
    let mut found = vec![];
    let mut key = None;
    loop {
        let fragment = match reader.next().unwrap() {
            Step::Ready(fragment) => fragment,
            Step::Load => {
                reader.load().await.unwrap();
                continue;
            }
            Step::End => break,
        };
        let mut add = |key: &PartitionKey, row: Option<&ClusteringKey>, term: Vec<u8>| {
            let posting = Posting { key: key.clone(), row: row.cloned() };
            found.push(IndexEntry { term: term.into(), posting });
        };
        match &fragment {
            Fragment::PartitionStart { key: started, .. } => key = Some(started.clone()),
            Fragment::Static(row) => {
                let key = key.as_ref().unwrap();
                terms.of_partition_key(key, &mut |term| add(key, None, term));
                terms.of_static_row(row, &mut |term| add(key, None, term));
            }
            Fragment::Row(row) => {
                let key = key.as_ref().unwrap();
                terms.of_partition_key(key, &mut |term| add(key, None, term));
                terms.of_row(&row.key, &row.row, &mut |term| add(key, Some(&row.key), term));
            }
            _ => (),
        }
    }
    found.sort_by(|a, b| a.term.cmp(&b.term).then_with(|| a.posting.compare(&b.posting, schema)));
    found.dedup();
    found
}

async fn entries(sstable: &SSTable, id: IndexId) -> Vec<IndexEntry> {
    let index = sstable.secondary_index(id).unwrap();
    let mut cursor = PostingCursor::new(&index, false, IoClass::Statement, None);
    let mut found = vec![];
    while let Some(entry) = cursor.next().await.unwrap() {
        found.push(entry);
    }
    assert_eq!(index.check(IoClass::Statement).await.unwrap(), found.len() as u64);
    found
}

#[test]
fn an_index_has_the_terms_of_all_rows_whatever_memory_it_is_sorted_in() {
    for run_bytes in [usize::MAX, 20_000, 1] {
        sim::run(1, 1, move |shard| async move {
            let schema = schema();
            let files = shard.files();
            files.create_dir_all(&dir()).await.unwrap();
            let options = WriteOptions { index_run_bytes: run_bytes, ..options(&schema) };
            let name = name_of(Version::Me);
            let mutations = mutations(&schema);
            write_mutations(&shard, &dir(), name, schema.clone(), options, &mutations).await.unwrap();
            let cache = ChunkCache::new(1 << 20);
            let sstable = SSTable::open(files, &dir(), name, &cache, IoClass::Statement).await.unwrap();
            assert_eq!(sstable.secondary_indexes().len(), 4);
            for (at, index) in schema.indexes.iter().enumerate() {
                let expected = expected(&sstable, &schema, at).await;
                assert!(expected.len() > 10);
                assert_eq!(entries(&sstable, index.id).await, expected, "index {at}");
                // A cursor finds each place.
                let opened = sstable.secondary_index(index.id).unwrap();
                let mut cursor = PostingCursor::new(&opened, true, IoClass::Statement, None);
                for (place, entry) in expected.iter().enumerate().step_by(7) {
                    let token = entry.posting.key.token();
                    cursor.seek(&entry.term, token).await.unwrap();
                    let first = expected[..=place]
                        .iter()
                        .position(|it| it.term == entry.term && it.posting.key.token() == token);
                    assert_eq!(cursor.next().await.unwrap().as_ref(), Some(&expected[first.unwrap()]));
                }
                cursor.seek(&[0xff; 9], i64::MIN).await.unwrap();
                assert_eq!(cursor.next().await.unwrap(), None);
            }
            let left = files.read_dir(&dir()).await.unwrap();
            assert!(left.iter().all(|entry| !entry.name.ends_with(".tmp")));
        });
    }
}

#[test]
fn an_index_that_is_built_later_is_the_same_and_goes_with_its_sstable() {
    sim::run(1, 1, |shard| async move {
        let schema = schema();
        let plain = schema.indexes.iter().fold(schema.to_builder(), |it, index| it.remove_index(&index.name));
        let plain = plain.build().unwrap();
        let files = shard.files();
        files.create_dir_all(&dir()).await.unwrap();
        let name = name_of(Version::Me);
        let mutations = mutations(&plain);
        let place = dir();
        let options = options(&plain);
        let written = write_mutations(&shard, &place, name, plain.clone(), options, &mutations);
        written.await.unwrap();
        let cache = ChunkCache::new(1 << 20);
        let class = IoClass::Compaction;
        let sstable = SSTable::open(files, &dir(), name, &cache, class).await.unwrap();
        for index in &schema.indexes {
            let id = index.id;
            assert!(sstable.secondary_index(id).is_none());
            let progress = Rc::default();
            let built = build_index(&sstable, &schema, index, class, &shard, progress, &|| true);
            assert!(built.await.unwrap());
            publish_index(files, &sstable, id).await.unwrap();
            sstable.open_secondary_index(files, id, &cache, class).await.unwrap();
        }
        let expected = expected(&sstable, &schema, 0).await;
        assert_eq!(entries(&sstable, schema.indexes[0].id).await, expected);
        let again = SSTable::open(files, &dir(), name, &cache, class).await.unwrap();
        assert_eq!(again.secondary_indexes(), sstable.secondary_indexes());
        // A dropped index leaves the SSTable as it was.
        let dropped = schema.indexes[1].id;
        remove_index(files, &sstable, dropped).await.unwrap();
        let again = SSTable::open(files, &dir(), name, &cache, class).await.unwrap();
        assert!(again.secondary_index(dropped).is_none() && again.rebuilt().is_empty());
        // A damaged one is left out, and built again by the engine.
        let damaged = dir().join(name.file_name(&secondary_index::component(schema.indexes[2].id)));
        let mut bytes = files.read_all(&damaged, class, 1 << 20).await.unwrap();
        let last = bytes.len() - 10;
        bytes[last] ^= 1;
        files.write_all(&damaged, &bytes, class).await.unwrap();
        let again = SSTable::open(files, &dir(), name, &cache, class).await.unwrap();
        assert!(again.secondary_index(schema.indexes[2].id).is_none());
        assert_eq!((again.rebuilt().len(), again.secondary_indexes().len()), (1, 2));
        remove_sstable(files, &dir(), &name).await.unwrap();
        assert!(files.read_dir(&dir()).await.unwrap().is_empty(), "no file is left");
    });
}
