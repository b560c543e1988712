//! Reads by secondary indexes: each answer, filtered, is that of a scan that was filtered, whatever was
//! written and wherever it is.

use std::ops::Bound;
use std::sync::Arc;

use base::rng::Rng;
use catalog::{Keyspace, TableSettings};
use engine::node::{self, compaction as compaction_node};
use engine::table::indexes::IndexState;
use engine::{Engine, EngineError, ReadCommand};
use model::index::{IndexDefinition, IndexId, IndexKind, IndexPart};
use model::sample::{self, Variety};
use model::{
    Cell, ClusteringRow, CqlType, IndexTerms, Mutation, PartitionKey, PartitionRange, RingPosition, Row,
    TableSchema,
};
use reader::trace::ReadTrace;
use reader::{IndexClause, IndexQuery};

use crate::support::*;

/// Times after those of every clock here, so that no compaction purges anything between two reads.
const VARIETY: Variety = Variety {
    partitions: 12,
    rows: 10,
    timestamps: 30,
    first_timestamp_us: 2_000_000_000_000_000,
    now_s: 2_000_000_000,
    value_bytes: 1,
};

/// The time of all reads: some of what has a TTL is live, some is not.
const NOW_S: u32 = VARIETY.now_s + 3;

fn definition(id: u128, column: &str, part: IndexPart) -> Arc<IndexDefinition> {
    let id = IndexId::from_u128(id);
    let kind = IndexKind::StorageAttached;
    let mut index = IndexDefinition::new(id, format!("by_{column}_{part:?}"), kind, column).of_part(part);
    // As CREATE INDEX stores it, so that a start finds it.
    index.options = [
        (catalog::indexes::TARGET.to_string(), catalog::indexes::target_text(part, column)),
        (catalog::indexes::CLASS_NAME.to_string(), "StorageAttachedIndex".to_string()),
    ]
    .into();
    Arc::new(index)
}

/// An index of every part of every column, with ids from `first_id` on.
fn definitions(schema: &TableSchema, first_id: u128) -> Vec<Arc<IndexDefinition>> {
    let keys = schema.partition_key.iter().chain(&schema.clustering);
    let names = keys.map(|key| (&key.name, &key.ty));
    let names = names.chain(schema.columns().iter().map(|column| (&column.name, &column.ty)));
    let parts = |ty: &CqlType| match ty {
        CqlType::Map { multi_cell: true, .. } => vec![IndexPart::Keys, IndexPart::Values, IndexPart::Entries],
        ty if ty.is_multi_cell() => vec![IndexPart::Values],
        _ => vec![IndexPart::Value],
    };
    let wanted = names.flat_map(|(name, ty)| parts(ty).into_iter().map(move |part| (name, part)));
    (first_id..).zip(wanted).map(|(id, (name, part))| definition(id, name, part)).collect()
}

/// Gives the table these indexes and no others.
fn set_indexes(engine: &Engine, schema: &TableSchema, indexes: &[Arc<IndexDefinition>]) -> Arc<TableSchema> {
    let (id, indexes) = (schema.id, indexes.to_vec());
    let alter = move |catalog: &catalog::Catalog| {
        let known = catalog.table_by_id(id).expect("the table is there");
        let bare = known.schema.indexes.iter();
        let builder =
            bare.fold(known.schema.to_builder(), |builder, index| builder.remove_index(&index.name));
        let builder = indexes.into_iter().fold(builder, |builder, index| builder.index(index));
        let schema = builder.build_with_ids_from(known.schema.column_id_bound()).unwrap();
        catalog.alter_table(schema, TableSettings::clone(&known.settings))
    };
    engine.change_schema(alter).unwrap();
    engine.table(&schema.keyspace, &schema.name).unwrap()
}

/// The sample table of this number, without indexes.
fn make_table(engine: &Engine, number: usize) -> Arc<TableSchema> {
    let table = sample::tables()[number].clone();
    if let Ok(known) = engine.table("sample", &table.name) {
        return known;
    }
    engine.change_schema(|catalog| catalog.create_keyspace(Keyspace::simple("sample")?)).unwrap();
    let name = table.name.clone();
    engine.change_schema(move |catalog| catalog.create_table(table, TableSettings::default())).unwrap();
    engine.table("sample", &name).unwrap()
}

fn states(engine: &Engine, schema: &TableSchema) -> Vec<IndexState> {
    let id = schema.id;
    engine.ask(0, move |shard| async move { node::index_states(&shard, id).await }).wait().unwrap()
}

/// Waits until every index can be used.
fn wait_until_built(engine: &Engine, schema: &TableSchema) {
    for _ in 0..3000 {
        if states(engine, schema).iter().all(IndexState::is_queryable) {
            return;
        }
        let sleep = engine.ask(0, |shard| async move {
            shard.sleep_us(10_000).await;
            Ok(())
        });
        sleep.wait().unwrap();
    }
    panic!("the indexes are not built: {:?}", states(engine, schema));
}

/// A row of an answer; without a row it is the static row of a partition that has no others.
type Found = (PartitionKey, Row, Option<ClusteringRow>);

/// All pages of a read.
fn rows(engine: &Engine, mut command: ReadCommand) -> Vec<Found> {
    let mut found = vec![];
    loop {
        let page = engine.read(command.clone()).wait().unwrap_or_else(|error| panic!("{error}"));
        for partition in page.partitions {
            let (key, statics) = (partition.key, partition.static_row);
            if partition.rows.is_empty() {
                found.push((key.clone(), statics.clone(), None));
            }
            found.extend(partition.rows.into_iter().map(|row| (key.clone(), statics.clone(), Some(row))));
        }
        match page.next {
            Some(next) => command.paging = Some(next),
            None => return found,
        }
    }
}

/// The terms of a row of an answer under an index.
fn terms_of(terms: &IndexTerms, (key, statics, row): &Found) -> Vec<Vec<u8>> {
    let mut found = vec![];
    let each = &mut |term: Vec<u8>| found.push(term);
    terms.of_partition_key(key, each);
    terms.of_static_row(statics, each);
    if let Some(row) = row {
        terms.of_row(&row.key, &row.row, each);
    }
    found
}

fn filtered(schema: &TableSchema, query: &IndexQuery, rows: Vec<Found>) -> Vec<Found> {
    let matches = |row: &Found| {
        query.clauses.iter().all(|clause| {
            let index = schema.indexes.iter().find(|index| index.id == clause.index).unwrap();
            let terms = IndexTerms::new(schema, index).unwrap();
            terms_of(&terms, row).iter().any(|term| clause.contains(term))
        })
    };
    rows.into_iter().filter(matches).collect()
}

/// One or two clauses on terms that rows have, or a little beside them.
fn query(rng: &mut Rng, schema: &TableSchema, rows: &[Found]) -> IndexQuery {
    let clause = |rng: &mut Rng| {
        let index = rng.pick(&schema.indexes).clone();
        let terms = IndexTerms::new(schema, &index).unwrap();
        let mut all: Vec<Vec<u8>> = rows.iter().flat_map(|row| terms_of(&terms, row)).collect();
        all.push(b"none".to_vec());
        let (a, b) = (rng.pick(&all).clone(), rng.pick(&all).clone());
        let (lower, upper) = (a.clone().min(b.clone()), a.clone().max(b));
        match rng.below(5) {
            0 => {
                IndexClause { index: index.id, lower: Bound::Included(lower), upper: Bound::Excluded(upper) }
            }
            1 => IndexClause { index: index.id, lower: Bound::Excluded(a), upper: Bound::Unbounded },
            2 => IndexClause { index: index.id, lower: Bound::Unbounded, upper: Bound::Included(a) },
            _ => IndexClause::equal(index.id, a),
        }
    };
    IndexQuery { clauses: (0..1 + rng.below(2)).map(|_| clause(rng)).collect() }
}

fn partitions(rng: &mut Rng) -> PartitionRange {
    let mut key = || sample::partition_key(rng.below(VARIETY.partitions));
    let (a, b) = (key(), key());
    match rng.below(4) {
        0 => PartitionRange::Key(a),
        1 => PartitionRange::Between {
            start: RingPosition::AfterKey(a.clone().min(b.clone())),
            end: RingPosition::AfterKey(a.max(b)),
        },
        _ => PartitionRange::all(),
    }
}

/// Compares `queries` reads by index with scans.
#[track_caller]
fn compare(engine: &Engine, schema: &TableSchema, rng: &mut Rng, queries: u32) {
    let now_s = Some(NOW_S);
    let all = rows(engine, ReadCommand { now_s, ..ReadCommand::new(schema.id, PartitionRange::all()) });
    let mut matched = 0;
    for _ in 0..queries {
        let query = query(rng, schema, &all);
        let scan = ReadCommand {
            now_s,
            reversed: rng.chance(1, 3),
            ranges: sample::ranges(rng, schema, &VARIETY).into(),
            ..ReadCommand::new(schema.id, partitions(rng))
        };
        let expect = filtered(schema, &query, rows(engine, scan.clone()));
        matched += expect.len();
        let page_rows = [1, 2, 3, 7, 10_000][rng.index(5)];
        let index = Some(Arc::new(query.clone()));
        let bypass_cache = rng.chance(1, 3);
        let by_index = ReadCommand { index, page_rows, bypass_cache, ..scan.clone() };
        let found = filtered(schema, &query, rows(engine, by_index));
        assert_eq!(found, expect, "{query:?} {scan:?} in pages of {page_rows}");
    }
    // Few random queries may match nothing.
    assert!(matched > 0 || all.is_empty() || queries < 20, "the queries match nothing");
}

fn apply(engine: &Engine, schema: &Arc<TableSchema>, rng: &mut Rng, writes: u32) {
    for _ in 0..writes {
        engine.apply(sample::mutation(rng, schema, &VARIETY)).wait().unwrap();
    }
}

fn flush(engine: &Engine, schema: &TableSchema) {
    engine.flush(vec![schema.id]).unwrap();
}

fn compact(engine: &Engine, schema: &TableSchema) {
    let id = schema.id;
    let major = engine.ask(0, move |shard| async move { compaction_node::major(&shard, id, false).await });
    match major.wait() {
        // The strategy's own job may have the SSTables.
        Ok(()) | Err(EngineError::Compaction(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn each_answer_is_that_of_a_scan_through_writes_flushes_and_compactions() {
    for (number, shards) in [(0, 1), (1, 2), (2, 1)] {
        let engine = open(options(&dir(&format!("indexes-{number}"))), shards);
        let mut rng = Rng::new(number as u64 + 1);
        let bare = make_table(&engine, number);
        let schema = set_indexes(&engine, &bare, &definitions(&bare, 1));
        for round in 0..8 {
            apply(&engine, &schema, &mut rng, 25);
            wait_until_built(&engine, &schema);
            compare(&engine, &schema, &mut rng, 25);
            match round {
                1 | 2 | 4 => flush(&engine, &schema),
                5 => {
                    compact(&engine, &schema);
                    wait_until_built(&engine, &schema);
                    compare(&engine, &schema, &mut rng, 25);
                }
                _ => {}
            }
        }
        engine.truncate(schema.id).unwrap();
        assert!(states(&engine, &schema).iter().all(|state| state.is_queryable() && state.postings == 0));
        compare(&engine, &schema, &mut rng, 3);
        apply(&engine, &schema, &mut rng, 25);
        compare(&engine, &schema, &mut rng, 25);
        engine.close().unwrap();
    }
}

#[test]
fn an_index_of_a_table_with_data_is_built_and_removed_when_it_is_dropped() {
    let dir = dir("indexes-built");
    let engine = open(options(&dir), 2);
    let mut rng = Rng::new(9);
    let bare = make_table(&engine, 1);
    let wanted = definitions(&bare, 100);
    let files_of = |schema: &TableSchema| {
        let name = format!("{}-{}", schema.name, schema.id.simple());
        files(&dir.join("data/sample").join(name), ".db")
            .iter()
            .filter(|path| path.to_str().unwrap().contains("MessinaIndex_"))
            .count()
    };
    for _ in 0..3 {
        apply(&engine, &bare, &mut rng, 40);
        flush(&engine, &bare);
    }
    apply(&engine, &bare, &mut rng, 40);
    assert_eq!(files_of(&bare), 0);
    let schema = set_indexes(&engine, &bare, &wanted);
    // Reads are right from the beginning.
    compare(&engine, &schema, &mut rng, 20);
    wait_until_built(&engine, &schema);
    compare(&engine, &schema, &mut rng, 40);
    assert!(states(&engine, &schema).iter().any(|state| state.postings > 0));
    assert!(files_of(&schema) >= wanted.len());

    // Dropped and made again, it is another index.
    let others = definitions(&bare, 200);
    let schema = set_indexes(&engine, &schema, &others[..1]);
    compare(&engine, &schema, &mut rng, 20);
    wait_until_built(&engine, &schema);
    for _ in 0..3000 {
        let sstables = states(&engine, &schema)[0].sstables as usize;
        if files_of(&schema) == sstables {
            break;
        }
        let sleep = engine.ask(0, |shard| async move {
            shard.sleep_us(10_000).await;
            Ok(())
        });
        sleep.wait().unwrap();
    }
    assert_eq!(files_of(&schema), states(&engine, &schema)[0].sstables as usize);
    compare(&engine, &schema, &mut rng, 20);
    engine.close().unwrap();
}

#[test]
fn indexes_are_right_after_restarts_with_any_number_of_shards() {
    let dir = dir("indexes-restart");
    let mut rng = Rng::new(4);
    let mut damage = false;
    for (run, shards) in [1, 3, 2, 1].into_iter().enumerate() {
        let engine = open(options(&dir), shards);
        let bare = make_table(&engine, 2);
        let schema = set_indexes(&engine, &bare, &definitions(&bare, 1));
        if damage {
            compare(&engine, &schema, &mut rng, 20);
        }
        apply(&engine, &schema, &mut rng, 60);
        flush(&engine, &schema);
        apply(&engine, &schema, &mut rng, 30);
        compare(&engine, &schema, &mut rng, 20);
        wait_until_built(&engine, &schema);
        compare(&engine, &schema, &mut rng, 20);
        damage = true;
        // Some runs end without a word.
        if run % 2 == 0 {
            engine.close().unwrap();
        }
    }
}

#[test]
fn a_selective_clause_reads_few_rows_and_the_trace_shows_it() {
    let engine = open(options(&dir("indexes-trace")), 1);
    let bare = table(&engine);
    let schema = set_indexes(&engine, &bare, &[definition(1, "v", IndexPart::Value)]);
    for i in 0..3000 {
        let v = format!("{}", i % 500);
        engine.apply(insert(&schema, &format!("key{}", i % 30), i, &v, 1)).wait().unwrap();
    }
    engine.flush(vec![schema.id]).unwrap();
    wait_until_built(&engine, &schema);
    let of = |value: &str| {
        let trace = ReadTrace::new();
        let query =
            IndexQuery { clauses: vec![IndexClause::equal(schema.indexes[0].id, value.as_bytes().to_vec())] };
        let command = ReadCommand {
            index: Some(Arc::new(query)),
            trace: Some(trace.clone()),
            ..ReadCommand::new(schema.id, PartitionRange::all())
        };
        let found = all(&engine, command);
        let notes: Vec<String> = trace.take().0.into_iter().map(|note| note.text).collect();
        (found, notes)
    };
    let (found, notes) = of("77");
    assert_eq!(found.len(), 6);
    assert!(found.iter().all(|row| row.2 == "77"), "no other row was read");
    assert!(notes.iter().any(|note| note.starts_with("Index 1 of 1 is used")), "{notes:?}");
    assert!(notes.iter().any(|note| note == "6 candidates, 6 of them in all indexes"), "{notes:?}");
    let counts = || {
        let reports = engine.ask(0, |shard| async move { node::table_reports(&shard).await }).wait().unwrap();
        let of_table = reports[0].iter().find(|report| report.id == schema.id).unwrap();
        (of_table.index_reads, of_table.index_scans, of_table.index_candidates)
    };
    assert_eq!(counts(), (1, 0, 6));
    // What was overwritten is a candidate, and does not match.
    engine.apply(insert(&schema, "key17", 77, "other", 2)).wait().unwrap();
    let (found, notes) = of("77");
    assert_eq!(found.iter().filter(|row| row.2 == "77").count(), 5);
    assert!(notes.iter().any(|note| note.starts_with("6 candidates")), "{notes:?}");
    assert_eq!(counts(), (2, 0, 12));
    engine.close().unwrap();
}

#[test]
fn a_partition_with_more_candidates_than_a_window_is_read_in_pages_both_ways() {
    let engine = open(options(&dir("indexes-large")), 1);
    let bare = table(&engine);
    let schema = set_indexes(&engine, &bare, &[definition(1, "v", IndexPart::Value)]);
    let mut written = vec![];
    for i in 0..14_000 {
        let v = if i % 2 == 0 { "even" } else { "odd" };
        let mut mutation =
            Mutation::new(schema.clone(), PartitionKey::new(if i < 13_000 { "a" } else { "b" }));
        mutation.row_mut(clustering(i)).set(schema.column_named("v").unwrap(), Cell::live(1, v));
        written.push(engine.apply(mutation));
        if i % 4000 == 0 {
            written.drain(..).for_each(|pending| pending.wait().unwrap());
            engine.flush(vec![schema.id]).unwrap();
        }
    }
    // A table of many other rows, so that the index is worth it.
    for i in 0..20_000 {
        let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(format!("k{i}").as_str()));
        mutation.row_mut(clustering(i)).set(schema.column_named("v").unwrap(), Cell::live(1, "none"));
        written.push(engine.apply(mutation));
    }
    written.drain(..).for_each(|pending| pending.wait().unwrap());
    engine.flush(vec![schema.id]).unwrap();
    wait_until_built(&engine, &schema);
    let query = IndexQuery { clauses: vec![IndexClause::equal(schema.indexes[0].id, b"even".to_vec())] };
    for reversed in [false, true] {
        for page_rows in [10_000, 1500] {
            let command = ReadCommand {
                reversed,
                page_rows,
                index: Some(Arc::new(query.clone())),
                ..ReadCommand::new(schema.id, PartitionRange::all())
            };
            let found = all(&engine, command);
            let even: Vec<_> = found.iter().filter(|row| row.2 == "even").map(|row| row.1).collect();
            assert_eq!(even.len(), 7000, "reversed {reversed} in pages of {page_rows}");
            let of_a: Vec<i32> = even.iter().copied().filter(|c| *c < 13_000).collect();
            assert!(of_a.is_sorted_by(|a, b| if reversed { a > b } else { a < b }));
            assert!(reversed || found.len() == 7000, "only candidates are read");
        }
    }
    engine.close().unwrap();
}

#[test]
fn a_damaged_index_is_given_up_and_built_again() {
    let dir = dir("indexes-damaged");
    let engine = open(options(&dir), 1);
    let bare = table(&engine);
    let schema = set_indexes(&engine, &bare, &[definition(1, "v", IndexPart::Value)]);
    for i in 0..3000 {
        engine.apply(insert(&schema, &format!("key{i}"), i, &format!("{}", i % 500), 1)).wait().unwrap();
    }
    engine.flush(vec![schema.id]).unwrap();
    wait_until_built(&engine, &schema);
    let file = files(&table_dir(&dir, &schema), ".db")
        .into_iter()
        .find(|path| path.to_str().unwrap().contains("MessinaIndex_"))
        .expect("the SSTable has its index");
    // Every page but the first and the last, so that it opens and cannot be read.
    let mut bytes = std::fs::read(&file).unwrap();
    let len = bytes.len();
    bytes[60..len - 60].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&file, &bytes).unwrap();
    let query = IndexQuery { clauses: vec![IndexClause::equal(schema.indexes[0].id, b"77".to_vec())] };
    let read = || {
        let command = ReadCommand {
            index: Some(Arc::new(query.clone())),
            bypass_cache: true,
            ..ReadCommand::new(schema.id, PartitionRange::all())
        };
        all(&engine, command).into_iter().filter(|row| row.2 == "77").count()
    };
    assert_eq!(read(), 6, "it is read in order");
    assert!(!states(&engine, &schema)[0].is_queryable());
    // A verify reports nothing else; a flush wakes the build.
    let id = schema.id;
    engine.apply(insert(&schema, "more", 1, "x", 1)).wait().unwrap();
    engine.flush(vec![id]).unwrap();
    wait_until_built(&engine, &schema);
    let verified = engine
        .ask(0, move |shard| async move { node::verify::verify(&shard, id, true).await })
        .wait()
        .unwrap();
    assert!(verified.damaged.is_empty(), "{:?}", verified.damaged);
    assert_eq!(read(), 6);
    engine.close().unwrap();
}

#[test]
fn every_strategy_keeps_indexes_right() {
    let strategies = [
        "SizeTieredCompactionStrategy",
        "LeveledCompactionStrategy",
        "TimeWindowCompactionStrategy",
        "IncrementalCompactionStrategy",
        "UnifiedCompactionStrategy",
    ];
    for (number, strategy) in strategies.into_iter().enumerate() {
        let engine = open(options(&dir(&format!("indexes-{strategy}"))), 1);
        let mut rng = Rng::new(number as u64);
        let bare = make_table(&engine, 1);
        let id = bare.id;
        let alter = move |catalog: &catalog::Catalog| {
            let known = catalog.table_by_id(id).expect("the table is there");
            let mut settings = TableSettings::clone(&known.settings);
            settings.compaction = [("class".to_string(), strategy.to_string())].into();
            catalog.alter_table(known.schema.clone(), settings)
        };
        engine.change_schema(alter).unwrap();
        let schema = set_indexes(&engine, &bare, &definitions(&bare, 1));
        for _ in 0..5 {
            apply(&engine, &schema, &mut rng, 25);
            flush(&engine, &schema);
            compare(&engine, &schema, &mut rng, 8);
        }
        compact(&engine, &schema);
        wait_until_built(&engine, &schema);
        compare(&engine, &schema, &mut rng, 20);
        engine.close().unwrap();
    }
}

#[test]
fn sstables_from_elsewhere_get_their_indexes() {
    let (from, to) = (dir("indexes-from"), dir("indexes-to"));
    let mut rng = Rng::new(3);
    let engine = open(options(&from), 1);
    let bare = make_table(&engine, 2);
    apply(&engine, &bare, &mut rng, 60);
    flush(&engine, &bare);
    let files_of = from.join("data/sample").join(format!("{}-{}", bare.name, bare.id.simple()));
    engine.close().unwrap();
    let engine = open(options(&to), 2);
    let bare = make_table(&engine, 2);
    let schema = set_indexes(&engine, &bare, &definitions(&bare, 1));
    apply(&engine, &schema, &mut rng, 20);
    engine.import(schema.id, &files_of).unwrap();
    compare(&engine, &schema, &mut rng, 20);
    wait_until_built(&engine, &schema);
    compare(&engine, &schema, &mut rng, 40);
    engine.close().unwrap();
}
