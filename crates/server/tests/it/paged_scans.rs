//! The law of paged scans: the pages of a statement, put together, are its unpaged result.
//!
//! Random data, mostly runs of dead rows, and random SELECTs: DISTINCT, PER PARTITION LIMIT, GROUP BY, JSON,
//! aggregates, static columns alone, filters, token ranges, IN, reverse, LIMIT. The reference is the same
//! statement without pages on a storage in memory. The same rows must come from
//!
//! - the simulated engine with two shards, from memtables and SSTables, without pages and with pages that end
//!   by rows, bytes or dead rows, whether or not readers stay open between pages;
//! - the storage in memory, whose pages end anywhere, also after every single row.
//!
//! Half of the tables have secondary indexes, created before the data or after them; the storage that decides
//! the right answer has none.
//!
//! Failing cases are shrunk.

use std::cell::{Cell as Counter, RefCell};
use std::sync::Arc;

use catalog::{Catalog, SchemaChange, TableSettings};
use cql::system::NodeInfo;
use cql::testing::MemoryCoordinator;
use cql::{
    ChangeSchema, ClientState, Coordinator, Decide, Execution, Host, Outcome, Prepared, ResultLimits, Storage,
};
use engine::{EngineOptions, node, recover};
use model::{
    Cell, ClusteringKey, CqlType, IndexDefinition, IndexKind, Liveness, Mutation, PartitionKey, TableId,
    TableSchema, Tombstone,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use protocol::{CqlError, Values};
use reader::{Page, ReadCommand};
use runtime::Shard;
use uuid::Uuid;

const NOW_US: i64 = 1_700_000_000_000_000;
const PARTITIONS: i32 = 5;
/// Consecutive rows with the same `c`, so that a group has several rows.
const ROWS_A_GROUP: i32 = 8;

/// Secondary indexes: kind and column.
const INDEXES: [(IndexKind, &str); 8] = [
    (IndexKind::Secondary, "v"),
    (IndexKind::Secondary, "s"),
    (IndexKind::Secondary, "c"),
    (IndexKind::Secondary, "d"),
    (IndexKind::StorageAttached, "v"),
    (IndexKind::StorageAttached, "s"),
    (IndexKind::StorageAttached, "d"),
    (IndexKind::Local, "v"),
];

/// The indexes of a table, as bits of the numbers in [`INDEXES`].
#[derive(Clone, Copy, Debug)]
struct Indexed {
    bits: u8,
    /// The indexes are created when the data have been written.
    is_late: bool,
}

const NOT_INDEXED: Indexed = Indexed { bits: 0, is_late: false };

fn table() -> Arc<TableSchema> {
    table_with(0)
}

fn table_with(bits: u8) -> Arc<TableSchema> {
    let chosen = (0..).zip(INDEXES).filter(|(number, _)| bits & (1 << number) != 0);
    let mut builder = TableSchema::builder("ks", "t");
    for (number, (kind, column)) in chosen {
        let id = Uuid::from_u128(1000 + number);
        builder = builder.index(Arc::new(IndexDefinition::new(id, format!("i{number}"), kind, column)));
    }
    builder
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Int)
        .clustering("d", CqlType::Int)
        .static_column("s", CqlType::Int)
        .regular("v", CqlType::Int)
        .build()
        .expect("a table")
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Live,
    /// Deleted one by one.
    Dead,
    /// Written, and then deleted by one range deletion on the first clustering column.
    Covered,
}

/// Consecutive rows.
#[derive(Clone, Copy, Debug)]
struct Run {
    kind: Kind,
    rows: i32,
}

#[derive(Clone, Debug)]
struct Content {
    has_static: bool,
    runs: Vec<Run>,
    is_flushed: bool,
}

fn content() -> impl Strategy<Value = Content> {
    let kind = prop_oneof![4 => Just(Kind::Live), 4 => Just(Kind::Dead), 1 => Just(Kind::Covered)];
    // The engine ends pages among dead rows after some hundreds of them.
    let rows = prop_oneof![2 => 1..10, 1 => 250..700];
    let run = (kind, rows).prop_map(|(kind, rows)| Run {
        kind,
        // Few live rows: more would make statements slow and find no more faults.
        rows: if matches!(kind, Kind::Live) { rows % 10 + 1 } else { rows },
    });
    (any::<bool>(), vec(run, 0..4), any::<bool>()).prop_map(|(has_static, runs, is_flushed)| Content {
        has_static,
        runs,
        is_flushed,
    })
}

fn mutations(schema: &Arc<TableSchema>, number: usize, content: &Content) -> Vec<Mutation> {
    let key = PartitionKey::new(&(number as i32).to_be_bytes()[..]);
    let mut writes = Mutation::new(schema.clone(), key.clone());
    let mut deletes = Mutation::new(schema.clone(), key);
    let (s, v) = (schema.column_named("s").expect("s"), schema.column_named("v").expect("v"));
    if content.has_static {
        let value = (number as i32).to_be_bytes();
        writes.partition.static_row.set(s, Cell::live(1, &value[..]));
    }
    let mut at = 0;
    for run in &content.runs {
        for _ in 0..run.rows {
            let (c, d) = (at / ROWS_A_GROUP, at % ROWS_A_GROUP);
            let row_key = || ClusteringKey::new([&c.to_be_bytes()[..], &d.to_be_bytes()[..]]);
            if matches!(run.kind, Kind::Live | Kind::Covered) {
                let row = writes.row_mut(row_key());
                row.liveness = Liveness::new(1);
                row.set(v, Cell::live(1, &(at % 7).to_be_bytes()[..]));
            }
            if matches!(run.kind, Kind::Dead | Kind::Covered) {
                deletes.row_mut(row_key()).deletion = Tombstone::new(2, (NOW_US / 1_000_000) as u32);
            }
            at += 1;
        }
    }
    let is_wanted = |mutation: &Mutation| !mutation.partition.is_empty();
    [writes, deletes].into_iter().filter(is_wanted).collect()
}

#[derive(Clone, Debug)]
struct Scan {
    text: String,
    page_rows: u32,
    page_bytes: u64,
    page_tombstones: u64,
    /// The storage in memory ends a page after one in this number of rows.
    one_in: u64,
    /// Whether the readers that a page leaves open are lost before the next page.
    is_reopened: bool,
}

/// One of these texts, the first being the simplest.
fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(texts).prop_map(str::to_string)
}

fn text() -> impl Strategy<Value = String> {
    let optional = |keyword: &'static str, max: u32| {
        proptest::option::of(1..max)
            .prop_map(move |limit| limit.map_or(String::new(), |limit| format!(" {keyword} {limit}")))
    };
    let keys = || {
        one_of(&[
            "",
            "",
            "p = 2",
            "p IN (0, 1, 3)",
            "p IN (4, 2, 1, 0, 3)",
            "token(p) > 0",
            "token(p) <= token(2)",
        ])
    };
    let rows = || {
        one_of(&[
            "",
            "",
            "",
            "",
            "c = 0",
            "c > 0",
            "c < 40",
            "c >= 1 AND c < 60",
            "c IN (0, 1, 50)",
            "(c, d) > (0, 3)",
        ])
    };
    let filter = || {
        one_of(&[
            "",
            "",
            "",
            "",
            "v > 3",
            "v = 2",
            "v = 1 AND s = 1",
            "s = 2",
            "s > 0",
            "v = 1 AND s >= 1",
            "v >= 2 AND v < 5",
            "d = 2",
        ])
    };
    let limits = move || (optional("PER PARTITION LIMIT", 5), optional("LIMIT", 8));
    let of_rows = (
        one_of(&["*", "p", "p, c, d", "p, s", "JSON *", "v, writetime(v)", "DISTINCT_STATIC"]),
        keys(),
        rows(),
        filter(),
        limits(),
        any::<bool>(),
    );
    let of_rows = of_rows.prop_map(|(list, keys, rows, filter, (per_partition, limit), is_reversed)| {
        let list = if list == "DISTINCT_STATIC" { "s".to_string() } else { list };
        let order = if is_reversed && keys == "p = 2" { " ORDER BY c DESC, d DESC" } else { "" };
        let filter = if rows.contains("d)") && filter.starts_with('d') { String::new() } else { filter };
        statement(&list, &[&keys, &rows, &filter], &format!("{order}{per_partition}{limit}"))
    });
    let distinct = (one_of(&["p", "p, s", "JSON p, s"]), keys(), any::<bool>(), optional("LIMIT", 5));
    let distinct = distinct.prop_map(|(list, keys, filters, limit)| {
        // JSON precedes DISTINCT.
        let list = match list.strip_prefix("JSON ") {
            Some(list) => format!("JSON DISTINCT {list}"),
            None => format!("DISTINCT {list}"),
        };
        statement(&list, &[&keys, if filters { "s > 0" } else { "" }], &limit)
    });
    let groups = (
        one_of(&["p, count(*)", "p, c, count(v), max(v)", "p, s, min(d)", "p, c, d"]),
        one_of(&["p", "p, c", "p, c, d"]),
        keys(),
        rows(),
        filter(),
        limits(),
        any::<bool>(),
    );
    let groups = groups.prop_map(|(list, by, keys, rows, filter, (per_partition, limit), is_reversed)| {
        let order = if is_reversed && keys == "p = 2" { " ORDER BY c DESC, d DESC" } else { "" };
        let filter = if rows.contains("d)") && filter.starts_with('d') { String::new() } else { filter };
        let tail = format!(" GROUP BY {by}{order}{per_partition}{limit}");
        statement(&list, &[&keys, &rows, &filter], &tail)
    });
    let aggregates =
        (one_of(&["count(*)", "sum(v), max(c), count(s)", "min(s), count(*)"]), keys(), rows(), filter());
    let aggregates = aggregates.prop_map(|(list, keys, rows, filter)| {
        let filter = if rows.contains("d)") && filter.starts_with('d') { String::new() } else { filter };
        statement(&list, &[&keys, &rows, &filter], "")
    });
    prop_oneof![4 => of_rows, 2 => distinct, 3 => groups, 1 => aggregates]
}

fn statement(list: &str, relations: &[&str], tail: &str) -> String {
    let relations: Vec<&str> = relations.iter().copied().filter(|relation| !relation.is_empty()).collect();
    let wanted =
        if relations.is_empty() { String::new() } else { format!(" WHERE {}", relations.join(" AND ")) };
    format!("SELECT {list} FROM ks.t{wanted}{tail} ALLOW FILTERING")
}

fn scan() -> impl Strategy<Value = Scan> {
    let bytes = prop_oneof![3 => Just(1u64 << 20), 1 => 1u64..2_000];
    let tombstones = prop_oneof![3 => 1u64..600, 1 => Just(10_000u64)];
    (text(), 1u32..12, bytes, tombstones, 1u64..6, any::<bool>()).prop_map(
        |(text, page_rows, page_bytes, page_tombstones, one_in, is_reopened)| Scan {
            text,
            page_rows,
            page_bytes,
            page_tombstones,
            one_in,
            is_reopened,
        },
    )
}

/// The engine as a `Coordinator`, for reads.
struct EngineCoordinator {
    shard: Shard,
    limits: ResultLimits,
    is_reopened: bool,
    warnings: RefCell<Vec<String>>,
}

fn refused<T>() -> Result<T, CqlError> {
    Err(CqlError::Server("the law only reads".to_string()))
}

impl Storage for EngineCoordinator {
    fn catalog(&self) -> Catalog {
        node::catalog(&self.shard).expect("an engine")
    }

    async fn apply(&self, _: Mutation) -> Result<(), CqlError> {
        refused()
    }

    async fn apply_batch(&self, _: Vec<Mutation>) -> Result<(), CqlError> {
        refused()
    }

    async fn apply_unlogged(&self, _: Vec<Mutation>) -> Result<(), CqlError> {
        refused()
    }

    async fn read(&self, mut command: ReadCommand) -> Result<Page, CqlError> {
        if let Some(paging) = command.paging.as_mut().filter(|_| self.is_reopened) {
            paging.read_id = paging.read_id.wrapping_add(1).max(1);
        }
        node::read(&self.shard, command, node::Deadline::NONE)
            .await
            .map_err(|error| CqlError::Server(error.to_string()))
    }

    async fn read_modify_write(&self, _: ReadCommand, _: Decide) -> Result<Page, CqlError> {
        refused()
    }

    async fn change_schema(&self, _: ChangeSchema) -> Result<Vec<SchemaChange>, CqlError> {
        refused()
    }

    async fn truncate(&self, _: TableId) -> Result<(), CqlError> {
        refused()
    }
}

impl Host for EngineCoordinator {
    fn wall_us(&self) -> i64 {
        NOW_US
    }

    fn timestamp_us(&self) -> i64 {
        NOW_US
    }

    fn random_u64(&self) -> u64 {
        self.shard.random_u64()
    }

    fn node_info(&self) -> NodeInfo {
        NodeInfo::new(self.host_id(), std::net::IpAddr::from([127, 0, 0, 1]), 9042)
    }

    fn host_id(&self) -> Uuid {
        Uuid::from_u128(1)
    }

    fn log_warning(&self, text: &str) {
        self.warnings.borrow_mut().push(text.to_string());
    }
}

impl ClientState for EngineCoordinator {
    fn result_limits(&self) -> ResultLimits {
        self.limits
    }
}

/// Rows in the protocol's encoding, of all pages.
type Rows = Vec<Vec<Option<Vec<u8>>>>;

fn rows_of(result: &cql::ResultRows, columns: usize, into: &mut Rows) {
    let cells = result.joined_cells();
    let mut rest = &cells[..];
    for _ in 0..result.count() {
        let row = (0..columns).map(|_| {
            let (len, tail) = rest.split_first_chunk::<4>().expect("a length");
            rest = tail;
            let len = usize::try_from(i32::from_be_bytes(*len)).ok()?;
            let (value, tail) = rest.split_at(len);
            rest = tail;
            Some(value.to_vec())
        });
        into.push(row.collect());
    }
}

async fn all<C: Coordinator>(storage: &C, text: &str, page_rows: Option<u32>) -> Result<Rows, String> {
    let plan = Prepared::new(&storage.catalog(), None, text).map_err(|error| format!("{text}: {error}"))?;
    let mut rows = vec![];
    let mut state: Option<Vec<u8>> = None;
    for _ in 0..100_000 {
        let paging_state = state.as_deref();
        let execution =
            Execution { now_us: NOW_US, timestamp_us: None, now_s: None, page_rows, paging_state };
        let outcome = plan.execute(storage, &Values::default(), &execution, &mut vec![]).await;
        let Outcome::Rows(page) = outcome.map_err(|error| format!("{text}: {error}"))? else {
            return Err(format!("{text}: no rows"));
        };
        if page_rows.is_some_and(|page_rows| page.count() > page_rows) {
            return Err(format!("{text}: {} rows on a page of {page_rows:?}", page.count()));
        }
        rows_of(&page, page.columns.columns_count(), &mut rows);
        state = page.paging_state;
        if state.is_none() {
            return Ok(rows);
        }
    }
    Err(format!("{text}: the pages do not end"))
}

async fn open(shard: &Shard, schema: &Arc<TableSchema>) -> Result<(), String> {
    recover::open(shard, EngineOptions::new("/data")).await.map_err(|error| error.to_string())?;
    let keyspace = |catalog: &Catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?);
    node::change_schema(shard, keyspace).await.map_err(|error| error.to_string())?;
    let created = schema.clone();
    let create = move |catalog: &Catalog| catalog.create_table(created.clone(), TableSettings::default());
    node::change_schema(shard, create).await.map_err(|error| error.to_string())?;
    Ok(())
}

/// Rows that the statements found, and the number of statements that used an index.
struct Found {
    rows: usize,
    indexed: usize,
}

async fn check(
    shard: Shard,
    contents: Vec<Content>,
    scans: Vec<Scan>,
    indexed: Indexed,
) -> Result<Found, String> {
    let schema = table_with(indexed.bits);
    let memory = MemoryCoordinator::new(std::slice::from_ref(&schema));
    memory.set_exact_indexes(true);
    let plain = MemoryCoordinator::new(&[table()]);
    open(&shard, &if indexed.is_late { table() } else { schema.clone() }).await?;
    for (number, content) in contents.iter().enumerate() {
        for mutation in mutations(&schema, number, content) {
            memory.write(&mutation);
            plain.write(&mutation);
            node::apply(&shard, mutation, node::Deadline::NONE).await.map_err(|error| error.to_string())?;
        }
        if content.is_flushed {
            node::flush(&shard, vec![]).await.map_err(|error| error.to_string())?;
        }
    }
    if indexed.is_late {
        let indexed = schema.clone();
        let alter = move |catalog: &Catalog| catalog.alter_table(indexed.clone(), TableSettings::default());
        node::change_schema(&shard, alter).await.map_err(|error| error.to_string())?;
    }
    let mut total = Found { rows: 0, indexed: 0 };
    for scan in &scans {
        let text = &scan.text;
        // Some of the combinations are not valid CQL; `found_rows` shows that most are.
        if matches!(Prepared::new(&memory.catalog(), None, text), Err(CqlError::Invalid(_))) {
            continue;
        }
        // Beside an index some relations of several columns are refused, as in Cassandra.
        if let Err(error) = all(&memory, text, None).await
            && (error.contains("Multi-column slice restrictions")
                || error.contains("IN restrictions are not"))
            && indexed.bits != 0
        {
            continue;
        }
        let expected = all(&plain, text, None).await?;
        total.rows += expected.len();
        memory.index_reads();
        let limits = ResultLimits {
            page_bytes: scan.page_bytes,
            page_tombstones: scan.page_tombstones,
            ..ResultLimits::default()
        };
        memory.set_result_limits(limits);
        memory.set_early_ends(u64::from(scan.page_rows), scan.one_in);
        let is_reopened = scan.is_reopened;
        let engine =
            EngineCoordinator { shard: shard.clone(), limits, is_reopened, warnings: RefCell::default() };
        let found = [
            ("the engine, no pages", all(&engine, text, None).await?),
            ("the engine, pages", all(&engine, text, Some(scan.page_rows)).await?),
            ("memory, pages", all(&memory, text, Some(scan.page_rows)).await?),
            ("memory, no pages", all(&memory, text, None).await?),
        ];
        for (storage, found) in found {
            if found != expected {
                return Err(format!(
                    "{storage}: {indexed:?} {scan:?}\nfound    {found:?}\nexpected {expected:?}"
                ));
            }
        }
        total.indexed += usize::from(memory.index_reads() > 0);
    }
    Ok(total)
}

#[test]
fn the_pages_of_a_scan_are_its_unpaged_result() {
    let cases = Counter::new(0);
    let rows = Counter::new(0);
    let indexed = Counter::new(0);
    let config = Config { cases: 90, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let indexes = (prop_oneof![Just(0u8), any::<u8>()], any::<bool>());
    let strategy = (vec(content(), 1..=PARTITIONS as usize), vec(scan(), 1..16), indexes);
    let result = runner.run(&strategy, |(contents, scans, (bits, is_late))| {
        cases.set(cases.get() + 1);
        let of = Indexed { bits, is_late };
        let found = runtime::sim::run(cases.get(), 2, move |shard| check(shard, contents, scans, of));
        let found = found.map_err(TestCaseError::fail)?;
        rows.set(rows.get() + found.rows);
        indexed.set(indexed.get() + found.indexed);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(indexed.get() > 50, "indexes are used: by {} statements", indexed.get());
    assert!(rows.get() > 300, "the statements find something: {} rows", rows.get());
}

/// The two cases in which pages lost partitions: more dead rows than a page may read.
#[test]
fn partitions_after_many_dead_rows_are_found() {
    let dead = Run { kind: Kind::Dead, rows: 11_000 };
    let live = Run { kind: Kind::Live, rows: 1 };
    let of = |has_static, runs: &[Run]| Content { has_static, runs: runs.to_vec(), is_flushed: false };
    let contents = vec![
        of(false, &[live]),
        of(false, &[live]),
        of(false, &[dead, live]),
        of(true, &[dead]),
        of(true, &[dead, Run { kind: Kind::Dead, rows: 5_000 }]),
    ];
    let limits = ["", " PER PARTITION LIMIT 1", " LIMIT 4"];
    let mut scans = vec![];
    for text in ["DISTINCT p", "JSON DISTINCT p, s", "p, c, s"] {
        for tail in limits.iter().filter(|tail| !(text.contains("DISTINCT") && tail.contains("PER"))) {
            for filter in ["", "s > 0"] {
                for page_rows in [2, 3, 100] {
                    scans.push(Scan {
                        text: statement(text, &[filter], tail),
                        page_rows,
                        page_bytes: 1 << 20,
                        page_tombstones: 10_000,
                        one_in: 5_000,
                        is_reopened: page_rows == 2,
                    });
                }
            }
        }
    }
    let found = runtime::sim::run(1, 1, move |shard| check(shard, contents, scans, NOT_INDEXED));
    found.map(|_| ()).unwrap_or_else(|error| panic!("{error}"));
}

/// Limits below a page of storage hold too: a result that ends within a page is measured.
#[test]
fn an_unpaged_result_within_one_page_of_storage_keeps_its_limits() {
    let run = |unpaged_soft_bytes: u64, unpaged_hard_bytes: u64, text: &'static str| {
        runtime::sim::run(1, 1, move |shard| async move {
            let schema = table();
            open(&shard, &schema).await.unwrap();
            let runs = vec![Run { kind: Kind::Live, rows: 100 }];
            for mutation in mutations(&schema, 0, &Content { has_static: false, runs, is_flushed: false }) {
                node::apply(&shard, mutation, node::Deadline::NONE).await.unwrap();
            }
            let limits = ResultLimits { unpaged_soft_bytes, unpaged_hard_bytes, ..ResultLimits::default() };
            let warnings = RefCell::default();
            let engine = EngineCoordinator { shard, limits, is_reopened: false, warnings };
            let whole = all(&engine, text, None).await.map(|rows| rows.len());
            assert_eq!(all(&engine, text, Some(7)).await.unwrap().len(), 100, "pages have no such limits");
            (whole, engine.warnings.take().len())
        })
    };
    for text in ["SELECT * FROM ks.t", "SELECT p, c, d FROM ks.t GROUP BY p, c, d"] {
        assert_eq!(run(1 << 20, 100 << 20, text), (Ok(100), 0), "{text}");
        assert_eq!(run(1_000, 100 << 20, text), (Ok(100), 1), "{text}");
        let (refused, _) = run(1_000, 2_000, text);
        let refused = refused.unwrap_err();
        assert!(refused.contains("exceeds hard limit of 2000"), "{text}: {refused}");
    }
}
