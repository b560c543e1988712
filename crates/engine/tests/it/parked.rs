//! Parked reads, in simulation: they return the same rows as reads with new readers, they are dropped when
//! necessary, and their pages are of one state of the table.

use engine::shard::EngineShard;
use engine::{EngineOptions, ReadCommand, node, recover};
use model::{PartitionKey, PartitionRange, TableSchema};
use reader::Page;
use runtime::Shard;
use runtime::sim::{SimOptions, SimWorld};
use std::sync::Arc;

use crate::support::{insert, test_table};

async fn open(shard: &Shard) -> Arc<TableSchema> {
    recover::open(shard, EngineOptions::new("/data")).await.unwrap_or_else(|error| panic!("{error}"));
    let keyspace = |catalog: &catalog::Catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?);
    node::change_schema(shard, keyspace).await.unwrap();
    let table = |catalog: &catalog::Catalog| catalog.create_table(test_table(), Default::default());
    node::change_schema(shard, table).await.unwrap();
    node::catalog(shard).unwrap().schema("ks", "t").unwrap().clone()
}

fn run<F: Future<Output = ()> + 'static>(seed: u64, test: impl FnOnce(Shard) -> F + Send + 'static) {
    let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
    let node = world.start_node(|_| async {}).unwrap();
    world.block_on(&node, 0, test).unwrap();
}

fn parked(shard: &Shard, table: &TableSchema) -> usize {
    EngineShard::of(shard).unwrap().table(table.id).unwrap().parked.len()
}

fn rows(page: &Page) -> Vec<(PartitionKey, Vec<u8>)> {
    let of = |partition: &reader::PartitionPage| {
        let key = partition.key.clone();
        partition.rows.iter().map(move |row| (key.clone(), row.key.as_bytes().to_vec())).collect::<Vec<_>>()
    };
    page.partitions.iter().flat_map(of).collect()
}

/// All pages; with `unpark` every page opens new readers.
async fn all(shard: &Shard, command: &ReadCommand, unpark: bool) -> Vec<(PartitionKey, Vec<u8>)> {
    let mut command = command.clone();
    let mut all = vec![];
    loop {
        let page = node::read(shard, command.clone(), node::Deadline::NONE).await.unwrap();
        all.extend(rows(&page));
        let Some(mut next) = page.next else { return all };
        if unpark {
            next.read_id += 1;
        }
        command.paging = Some(next);
    }
}

async fn pages_agree(shard: Shard) {
    let table = open(&shard).await;
    for (number, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
        for c in 0..60 {
            node::apply(&shard, insert(&table, key, c, "value", 1), node::Deadline::NONE).await.unwrap();
        }
        if number != 2 {
            node::flush(&shard, vec![]).await.unwrap();
        }
    }
    let ring = ReadCommand::new(table.id, PartitionRange::all());
    let key = ReadCommand::new(table.id, PartitionRange::Key(PartitionKey::new("b")));
    for (command, count) in [(ring, 240), (key, 60)] {
        for (reversed, page_rows) in [(false, 1), (false, 7), (false, 60), (true, 7), (true, 59)] {
            let command = ReadCommand { reversed, page_rows, ..command.clone() };
            let anew = all(&shard, &command, true).await;
            assert_eq!(anew.len(), count);
            assert!(parked(&shard, &table) > 0, "nobody asked for what those pages left open");
            EngineShard::of(&shard).unwrap().table(table.id).unwrap().parked.clear();
            assert_eq!(all(&shard, &command, false).await, anew, "reversed {reversed}, {page_rows} a page");
            assert_eq!(parked(&shard, &table), 0, "a read that has ended is not parked");
        }
        let limited = ReadCommand { partition_limit_rows: 5, page_rows: 3, ..command };
        let anew = all(&shard, &limited, true).await;
        assert_eq!(all(&shard, &limited, false).await, anew);
    }
}

#[test]
fn parked_reads_give_what_others_give() {
    run(1, pages_agree);
}

async fn parks_and_resumes(shard: Shard) {
    let table = open(&shard).await;
    for c in 0..10 {
        node::apply(&shard, insert(&table, "a", 2 * c, "value", 1), node::Deadline::NONE).await.unwrap();
    }
    let key = PartitionRange::Key(PartitionKey::new("a"));
    let first = ReadCommand { page_rows: 4, ..ReadCommand::new(table.id, key) };
    let second = |page: &Page| ReadCommand { paging: page.next.clone(), ..first.clone() };
    let read = |command: ReadCommand| {
        let shard = shard.clone();
        async move { node::read(&shard, command, node::Deadline::NONE).await.unwrap() }
    };

    // All pages are of one state; a read that begins later sees writes made meanwhile.
    let page = read(first.clone()).await;
    assert_eq!(parked(&shard, &table), 1);
    node::apply(&shard, insert(&table, "a", 9, "new", 2), node::Deadline::NONE).await.unwrap();
    let before = read(second(&page)).await;
    let anew = read(first.clone()).await;
    let after = read(second(&anew)).await;
    let keys = |page: &Page| page.partitions[0].rows.iter().map(|row| row.key.as_bytes().to_vec()).collect();
    let (before, after): (Vec<_>, Vec<_>) = (keys(&before), keys(&after));
    assert_ne!(before, after);
    assert_eq!(before[0], after[0]);

    // Parked reads are dropped by a flush, by time, by another query with the same read id, and by a
    // truncate.
    assert_eq!(parked(&shard, &table), 2);
    node::flush(&shard, vec![]).await.unwrap();
    assert_eq!(parked(&shard, &table), 0);
    let page = read(first.clone()).await;
    shard.sleep_us(2 * engine::table::parked::PARKED_US_MAX).await;
    assert_eq!(parked(&shard, &table), 0);
    assert_eq!(rows(&read(second(&page)).await).len(), 4);
    let page = read(first.clone()).await;
    let other = ReadCommand { reversed: true, ..second(&page) };
    assert_eq!(rows(&read(other).await).len(), 3, "those in front of the first page's last row");
    node::truncate(&shard, table.id).await.unwrap();
    assert_eq!(parked(&shard, &table), 0);
    assert_eq!(rows(&read(second(&page)).await).len(), 0);

    // Many parked reads that are not continued do not block others: the oldest are evicted.
    for c in 0..10 {
        node::apply(&shard, insert(&table, "a", 2 * c, "value", 3), node::Deadline::NONE).await.unwrap();
    }
    for _ in 0..300 {
        read(first.clone()).await;
    }
    let count = parked(&shard, &table);
    assert!((1..=100).contains(&count), "{count}");
}

#[test]
fn parked_reads_are_dropped_when_they_must_be() {
    run(2, parks_and_resumes);
}
