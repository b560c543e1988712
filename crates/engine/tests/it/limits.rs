//! Limits of reads: time, and tombstones; pages that end among tombstones lose and repeat nothing.

use std::collections::BTreeSet;

use engine::{Engine, EngineError, ReadCommand, ReadOptions};
use model::{
    ClusteringRange, Mutation, PartitionKey, PartitionRange, Position, RangeTombstone, TableSchema, Tombstone,
};
use reader::{LimitExceeded, ReadError, Refusal};
use std::sync::Arc;

use crate::support::*;

fn delete_row(table: &Arc<TableSchema>, p: &str, c: i32) -> Mutation {
    let mut mutation = Mutation::new(table.clone(), PartitionKey::new(p));
    mutation.row_mut(clustering(c)).deletion = Tombstone::new(100, 1_800_000_000);
    mutation
}

/// Rows of "a" to "f": in most partitions only every 500th row is live, some partitions are dead completely,
/// and in one only the end is live.
fn fill(engine: &Engine, table: &Arc<TableSchema>) {
    for p in ["a", "b", "c", "d", "e", "f"] {
        for c in 0..1500 {
            engine.apply(insert(table, p, c, "v", 1)).wait().unwrap();
            let lives = match p {
                "c" | "d" => false,
                "e" => c > 1400,
                _ => c % 500 == 0,
            };
            if !lives {
                engine.apply(delete_row(table, p, c)).wait().unwrap();
            }
        }
        if p == "c" {
            engine.flush(vec![]).unwrap();
        }
    }
    // Rows under a range tombstone count as dead too.
    let range =
        ClusteringRange { start: Position::before(clustering(0)), end: Position::after(clustering(450)) };
    let mut mutation = Mutation::new(table.clone(), PartitionKey::new("f"));
    let deletion = RangeTombstone { range, tombstone: Tombstone::new(100, 1_800_000_000) };
    mutation.partition.delete_range(table, &deletion);
    engine.apply(mutation).wait().unwrap();
}

#[test]
fn pages_that_end_among_tombstones_lose_and_repeat_nothing() {
    for shards in [1, 2] {
        let engine = open(options(&dir(&format!("tombstone-pages-{shards}"))), shards);
        let table = table(&engine);
        fill(&engine, &table);
        for reversed in [false, true] {
            let whole = |partitions| ReadCommand { reversed, ..ReadCommand::new(table.id, partitions) };
            let key = PartitionRange::Key(PartitionKey::new("e"));
            for command in [whole(PartitionRange::all()), whole(key)] {
                let expected = all(&engine, command.clone());
                assert_eq!(expected.iter().collect::<BTreeSet<_>>().len(), expected.len());
                for page_tombstones in [1, 300, 5000] {
                    let short = ReadCommand { page_tombstones, ..command.clone() };
                    assert_eq!(
                        all(&engine, short.clone()),
                        expected,
                        "{shards} {reversed} {page_tombstones}"
                    );
                    let page = engine.read(short).wait().unwrap();
                    // Each shard checks only some rows.
                    assert!(
                        page.tombstones < u64::from(shards) * (page_tombstones + 600),
                        "{}",
                        page.tombstones
                    );
                }
            }
        }
    }
}

#[test]
fn too_many_tombstones_are_refused_with_cassandras_text() {
    let mut options = options(&dir("tombstone-failure"));
    options.reads = ReadOptions { tombstone_failure_threshold: 1000, ..ReadOptions::default() };
    let engine = open(options, 1);
    let table = table(&engine);
    fill(&engine, &table);
    let command = ReadCommand::new(table.id, PartitionRange::Key(PartitionKey::new("d")));
    match engine.read(command.clone()).wait() {
        Err(EngineError::Read(ReadError::Limit(LimitExceeded::Tombstones(text)))) => {
            assert!(
                text.starts_with("Scanned over 10") && text.ends_with("was (d)); query aborted"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
    // With pages that end before the limit.
    let short = ReadCommand { page_tombstones: 500, ..command };
    assert!(all(&engine, short).is_empty());
}

#[test]
fn a_read_that_takes_too_long_is_given_up() {
    let engine = open(options(&dir("read-deadline")), 1);
    let table = table(&engine);
    for c in 0..2000 {
        engine.apply(insert(&table, "a", c, &"v".repeat(500), 1)).wait().unwrap();
    }
    engine.flush(vec![]).unwrap();
    let command = ReadCommand {
        timeout_us: Some(0),
        bypass_cache: true,
        ..ReadCommand::new(table.id, PartitionRange::Key(PartitionKey::new("a")))
    };
    match engine.read(command.clone()).wait() {
        Err(EngineError::Read(ReadError::Refused(Refusal::TimedOut(text)))) => {
            assert_eq!(text, "Semaphore timed out: sl:default");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(all(&engine, ReadCommand { timeout_us: None, ..command }).len(), 2000);
    let (_, _, stats) = engine.report().unwrap()[0].reads[0].clone();
    assert_eq!((stats.reads_timed_out, stats.used_count, stats.used_bytes), (1, 0, 0));
}
