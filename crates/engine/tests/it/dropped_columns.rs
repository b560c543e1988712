//! ALTER TABLE DROP … USING TIMESTAMP, and the column added again: cells written after that time reappear,
//! wherever they were stored meanwhile, and earlier ones do not.

use std::path::Path;
use std::sync::Arc;

use catalog::TableSettings;
use engine::{Engine, EngineOptions};
use model::schema::TableBuilder;
use model::{Cell, ColumnData, CqlType, Liveness, Mutation, PartitionKey, PartitionRange, TableSchema};

use crate::support::{clustering, dir, open, options};

const DROPPED_US: i64 = 100;

/// Where the cells are stored while the column is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Memtable,
    /// Flushed before the drop.
    SSTable,
    /// In memory at the drop, and flushed while the column is dropped.
    FlushedWhileGone,
    /// In the log at the drop; the node crashes and replays it while the column is dropped.
    ReplayedWhileGone,
    /// In the log until the column is added again; then the node crashes.
    ReplayedAfterwards,
}

fn make(engine: &Engine) -> Arc<TableSchema> {
    let table =
        TableSchema::builder("ks", "t").partition_key("p", CqlType::Text).clustering("c", CqlType::Int);
    let table = table
        .static_column("s", CqlType::Int)
        .regular("v", CqlType::Text)
        .regular("w", CqlType::Int)
        .regular("m", CqlType::map(CqlType::Int, CqlType::Text));
    let table = table.build().unwrap();
    engine.change_schema(|catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?)).unwrap();
    engine.change_schema(|catalog| catalog.create_table(table, TableSettings::default())).unwrap();
    engine.table("ks", "t").unwrap()
}

fn alter(engine: &Engine, change: impl FnOnce(TableBuilder) -> TableBuilder) {
    let old = engine.table("ks", "t").unwrap();
    let new = change(old.to_builder()).build_with_ids_from(old.column_id_bound()).unwrap();
    engine.change_schema(move |catalog| catalog.alter_table(new, TableSettings::default())).unwrap();
}

/// A row for each timestamp, in a partition of its own, with a value in every column.
fn write(engine: &Engine, table: &Arc<TableSchema>, times_us: &[i64]) {
    for at_us in times_us {
        let mut mutation = Mutation::new(table.clone(), PartitionKey::new(&*format!("k{at_us}")));
        let (s, v) = (table.column_named("s").unwrap(), table.column_named("v").unwrap());
        let (w, m) = (table.column_named("w").unwrap(), table.column_named("m").unwrap());
        mutation.partition.static_row.set(s, Cell::live(*at_us, 7i32.to_be_bytes()));
        let row = mutation.row_mut(clustering(1));
        row.liveness = Liveness::new(*at_us);
        row.set(v, Cell::live(*at_us, "text"));
        row.set(w, Cell::live(*at_us, 8i32.to_be_bytes()));
        row.set_element(table, m, &1i32.to_be_bytes()[..], Cell::live(*at_us, "element"));
        engine.apply(mutation).wait().unwrap();
    }
}

/// The keys of the partitions that have a cell of the column.
fn with_cells(engine: &Engine, name: &str) -> Vec<String> {
    let table = engine.table("ks", "t").unwrap();
    let Some(id) = table.column_named(name).map(|column| column.id) else { return vec![] };
    let page = engine.read(engine::ReadCommand::new(table.id, PartitionRange::all())).wait().unwrap();
    let has = |row: &model::Row| match row.cell(id) {
        Some(ColumnData::Simple(_)) => true,
        Some(ColumnData::Complex(complex)) => !complex.cells.is_empty(),
        None => false,
    };
    let found = page
        .partitions
        .iter()
        .filter(|partition| has(&partition.static_row) || partition.rows.iter().any(|row| has(&row.row)));
    let mut keys: Vec<String> =
        found.map(|partition| String::from_utf8(partition.key.bytes().to_vec()).unwrap()).collect();
    keys.sort();
    keys
}

fn run(dir: &Path, place: Place) {
    let manual = || {
        let mut manual: EngineOptions = options(dir);
        manual.compaction.is_automatic = false;
        manual
    };
    let crash = |engine: Engine| {
        drop(engine);
        open(manual(), 2)
    };
    let mut engine = open(manual(), 2);
    let table = make(&engine);
    write(&engine, &table, &[99, 100, 101, 200]);
    if place == Place::SSTable {
        engine.flush(vec![]).unwrap();
    }
    alter(&engine, |builder| {
        ["s", "v", "m"].into_iter().fold(builder, |builder, name| builder.drop_column(name, DROPPED_US))
    });
    assert!(with_cells(&engine, "v").is_empty());
    match place {
        Place::FlushedWhileGone => engine.flush(vec![]).unwrap(),
        Place::ReplayedWhileGone => engine = crash(engine),
        _ => {}
    }
    // The other columns are unaffected meanwhile.
    assert_eq!(with_cells(&engine, "w").len(), 4, "{place:?}");
    alter(&engine, |builder| {
        let builder = builder.static_column("s", CqlType::Int).regular("v", CqlType::Text);
        builder.regular("m", CqlType::map(CqlType::Int, CqlType::Text))
    });
    if place == Place::ReplayedAfterwards {
        engine = crash(engine);
    }
    for _ in 0..2 {
        for name in ["s", "v", "m"] {
            assert_eq!(with_cells(&engine, name), ["k101", "k200"], "{name}, {place:?}");
        }
        assert_eq!(with_cells(&engine, "w").len(), 4, "{place:?}");
        // After a restart, with all data in SSTables.
        engine.close().unwrap();
        engine = open(manual(), 2);
    }
    // Later writes with an old timestamp are ignored, as they would be in an SSTable.
    let table = engine.table("ks", "t").unwrap();
    write(&engine, &table, &[50, 300]);
    assert_eq!(with_cells(&engine, "v"), ["k101", "k200", "k300"], "{place:?}");
    engine.close().unwrap();
}

#[test]
fn cells_newer_than_the_drop_come_back_with_the_column() {
    for place in [
        Place::Memtable,
        Place::SSTable,
        Place::FlushedWhileGone,
        Place::ReplayedWhileGone,
        Place::ReplayedAfterwards,
    ] {
        run(&dir(&format!("dropped-columns-{place:?}")), place);
    }
}
