//! A traced read records what it did; an untraced one records nothing.

use engine::{Engine, ReadCommand};
use model::{ClusteringRange, PartitionKey, PartitionRange, Position, TableSchema};
use reader::ReadTrace;

use crate::support::*;

fn read(table: &TableSchema, key: &str) -> ReadCommand {
    ReadCommand::new(table.id, PartitionRange::Key(PartitionKey::new(key)))
}

fn notes(engine: &Engine, command: ReadCommand) -> Vec<String> {
    let trace = ReadTrace::new();
    let command = ReadCommand { trace: Some(trace.clone()), ..command };
    engine.read(command).wait().unwrap();
    let (notes, left_off) = trace.take();
    assert_eq!(left_off, 0);
    notes.into_iter().map(|note| note.text).collect()
}

#[track_caller]
fn has(notes: &[String], words: &[&str]) {
    for word in words {
        assert!(notes.iter().any(|note| note.contains(word)), "{word}\n{}", notes.join("\n"));
    }
}

#[test]
fn a_trace_shows_which_sstables_were_read_and_why_not() {
    let dir = dir("traced");
    let mut options = options(&dir);
    options.compaction.is_automatic = false;
    let engine = open(options, 1);
    let table = table(&engine);
    // Three SSTables: one with the rows, one with other rows of the partition, one with other keys around it.
    for (keys, rows) in [(&["a"][..], 0..300), (&["a"][..], 1000..1010), (&["b", "c", "d", "e"][..], 0..1)] {
        for key in keys {
            for c in rows.clone() {
                engine.apply(insert(&table, key, c, &"v".repeat(100), 1)).wait().unwrap();
            }
        }
        engine.flush(vec![table.id]).unwrap();
    }
    let slice =
        ClusteringRange { start: Position::before(clustering(5)), end: Position::after(clustering(9)) };
    let command = ReadCommand { ranges: [slice].into(), ..read(&table, "a") };
    let cold = notes(&engine, command.clone());
    has(
        &cold,
        &[
            "Admitted by semaphore sl:default after ",
            "Reading 0 memtables",
            "The row cache knows nothing of the partition; it mirrors 3 SSTables",
            "me-1-big: is read",
            "me-2-big: skipped, its clustering keys are others",
            "me-3-big: skipped, ",
            "Row cache miss: 0 rows hit, 5 read from SSTables",
            "Read 5 live rows and 0 tombstones",
        ],
    );
    let disk = cold.iter().find(|note| note.starts_with("Disk: ")).unwrap();
    assert!(!disk.starts_with("Disk: 0 data requests"), "{disk}");
    let hot = notes(&engine, command.clone());
    has(
        &hot,
        &[
            "The row cache knows something of the partition",
            "Row cache hit: 5 rows hit, 0 read",
            "Disk: 0 data requests of 0 bytes, 0 index requests of 0 bytes",
        ],
    );
    assert!(!hot.iter().any(|note| note.contains("is read")), "{hot:?}");
    // Without the cache.
    let past = notes(&engine, ReadCommand { bypass_cache: true, ..command.clone() });
    has(&past, &["me-1-big: is read"]);
    assert!(!past.iter().any(|note| note.contains("ow cache")), "{past:?}");
    // The second page resumes the readers of the first.
    let first = ReadCommand { page_rows: 3, ..command };
    let page = engine.read(first.clone()).wait().unwrap();
    let second = notes(&engine, ReadCommand { paging: page.next, ..first });
    has(&second, &["Continuing with the readers that the last page left open", "Read 2 live rows"]);
    engine.close().unwrap();
}
