//! Materialized views: a read of a view gives the rows that follow from the base table, whatever was written,
//! flushed, compacted, truncated or restarted in between.

use std::sync::Arc;

use base::rng::Rng;
use catalog::{Keyspace, TableSettings};
use engine::node::{self, Deadline, ViewBuild, compaction as compaction_node};
use engine::{Engine, EngineError, ReadCommand};
use model::sample::{self, Variety};
use model::view_definition::{HIDDEN_COLUMN, hidden_column_type};
use model::{
    ClusteringKey, CqlType, Mutation, PartitionKey, PartitionRange, Purge, Row, TableSchema, ViewCondition,
    ViewDefinition, ViewPlan, ViewTest,
};
use reader::{CompactReader, Fragment, Keep, MemorySource, ReadSpec, Reader, Source, Step};

use crate::support::*;

/// Times after those of every clock here, so that no compaction purges anything between two reads.
pub const VARIETY: Variety = Variety {
    partitions: 8,
    rows: 6,
    timestamps: 30,
    first_timestamp_us: 2_000_000_000_000_000,
    now_s: 2_000_000_000,
    value_bytes: 1,
};

/// The time of all reads: some of what has a TTL is live, some is not.
pub const NOW_S: u32 = VARIETY.now_s + 3;

/// The base table: the sample table with static columns and a collection.
pub const WIDE: usize = 1;

fn make_base(engine: &Engine) -> Arc<TableSchema> {
    let table = sample::tables()[WIDE].clone();
    if let Ok(known) = engine.table("sample", &table.name) {
        return known;
    }
    engine.change_schema(|catalog| catalog.create_keyspace(Keyspace::simple("sample")?)).unwrap();
    let name = table.name.clone();
    engine.change_schema(move |catalog| catalog.create_table(table, TableSettings::default())).unwrap();
    engine.table("sample", &name).unwrap()
}

/// Views of the base table: with a column added to the key, without some columns, and of some rows.
pub fn view_schemas(base: &TableSchema) -> Vec<Arc<TableSchema>> {
    let int = || CqlType::Int;
    let map = || CqlType::map(CqlType::Int, CqlType::Text);
    let definition = |added: Option<&str>, conditions: Vec<ViewCondition>| {
        Arc::new(ViewDefinition {
            base_id: base.id,
            base_name: base.name.clone(),
            selects_all: false,
            where_clause: "p IS NOT NULL AND c IS NOT NULL AND i IS NOT NULL".to_string(),
            conditions,
            added_key: added.map(str::to_string),
        })
    };
    let low = ViewCondition {
        columns: vec!["c".to_string()],
        test: ViewTest::Slice { start: None, end: Some((vec![3i32.to_be_bytes().to_vec()], true)) },
    };
    let view = |name: &str| TableSchema::builder("sample", name);
    [
        view("by_i")
            .partition_key("i", int())
            .clustering("p", CqlType::Text)
            .clustering("c", CqlType::reversed(int()))
            .regular("m", map())
            .regular("t", CqlType::Text)
            .view(definition(Some("i"), vec![])),
        view("by_c")
            .partition_key("c", int())
            .clustering("p", CqlType::Text)
            .regular("t", CqlType::Text)
            .regular(HIDDEN_COLUMN, hidden_column_type())
            .view(definition(None, vec![])),
        view("low")
            .partition_key("p", CqlType::Text)
            .clustering("i", int())
            .clustering("c", int())
            .regular("m", map())
            .view(definition(Some("i"), vec![low])),
    ]
    .map(|builder| builder.build().unwrap())
    .to_vec()
}

fn create_views(engine: &Engine, base: &TableSchema) -> Vec<Arc<TableSchema>> {
    for view in view_schemas(base) {
        if engine.table("sample", &view.name).is_err() {
            engine
                .change_schema(move |catalog| catalog.create_table(view, TableSettings::default()))
                .unwrap();
        }
    }
    view_schemas(base).iter().map(|view| engine.table("sample", &view.name).unwrap()).collect()
}

fn builds(engine: &Engine) -> Vec<ViewBuild> {
    engine.ask(0, |shard| async move { node::view_builds(&shard).await }).wait().unwrap()
}

fn wait_until_built(engine: &Engine) {
    for _ in 0..3000 {
        if builds(engine).is_empty() {
            return;
        }
        let sleep = engine.ask(0, |shard| async move {
            shard.sleep_us(10_000).await;
            Ok(())
        });
        sleep.wait().unwrap();
    }
    panic!("the views are not built: {:?}", builds(engine));
}

pub type Found = Vec<(PartitionKey, ClusteringKey, Row)>;

/// The rows of a table, without what a client does not see.
fn rows(engine: &Engine, table: &TableSchema) -> Found {
    let now_s = Some(NOW_S);
    let mut command =
        ReadCommand { now_s, page_rows: 7, ..ReadCommand::new(table.id, PartitionRange::all()) };
    let mut found = vec![];
    loop {
        let page = engine.read(command.clone()).wait().unwrap_or_else(|error| panic!("{error}"));
        for partition in page.partitions {
            let key = partition.key;
            found.extend(partition.rows.into_iter().map(|row| (key.clone(), row.key, visible(row.row))));
        }
        match page.next {
            Some(next) => command.paging = Some(next),
            None => return found,
        }
    }
}

/// The cells of a row. Clients do not see the marker.
pub fn visible(mut row: Row) -> Row {
    row.liveness = model::Liveness::NONE;
    row
}

/// The base table as one source, and what its views must have.
#[derive(Default)]
pub struct Model {
    pub base: MemorySource,
}

impl Model {
    pub fn expected(&self, base: &Arc<TableSchema>, view: &Arc<TableSchema>, now_s: u32) -> Found {
        let plan = ViewPlan::new(base, view).unwrap();
        let mut source = MemorySource::default();
        for (key, partition) in self.base.partitions() {
            let nothing = model::Partition::default();
            let writes = plan.mutations(key, &nothing, partition, now_s).unwrap();
            writes.iter().for_each(|write| source.apply(write));
        }
        let spec = ReadSpec::new(view.clone(), PartitionRange::all());
        let mut live = CompactReader::new(source.reader(&spec), Purge::nothing(now_s), Keep::Live)
            .needing_markers(view.needs_row_marker());
        let (mut found, mut at) = (vec![], None);
        loop {
            match live.next().unwrap() {
                Step::Ready(Fragment::PartitionStart { key, .. }) => at = Some(key),
                Step::Ready(Fragment::Row(row)) => {
                    found.push((at.clone().unwrap(), row.key, visible((*row.row).clone())));
                }
                Step::Ready(_) | Step::Load => {}
                Step::End => return found,
            }
        }
    }

    #[track_caller]
    fn compare(&self, engine: &Engine, base: &Arc<TableSchema>, views: &[Arc<TableSchema>]) -> usize {
        let mut count = 0;
        for view in views {
            let expected = self.expected(base, view, NOW_S);
            assert_eq!(rows(engine, view), expected, "{}", view.name);
            count += expected.len();
        }
        count
    }
}

/// Writes at random: single writes, batches, and writes that read first, from any shard.
fn write(
    engine: &Engine,
    base: &Arc<TableSchema>,
    model: &mut Model,
    rng: &mut Rng,
    count: usize,
    shards: u32,
) {
    for _ in 0..count {
        let from = rng.below(u64::from(shards)) as u32;
        let mutations: Vec<Mutation> = (0..1 + rng.below(3))
            .map(|_| Mutation { schema: base.clone(), ..sample::mutation(rng, base, &VARIETY) })
            .collect();
        mutations.iter().for_each(|mutation| model.base.apply(mutation));
        let first = mutations[0].clone();
        let is_conditional = mutations.len() == 1 && rng.chance(1, 3);
        let done = engine.ask(from, move |shard| async move {
            if is_conditional {
                let command = ReadCommand::new(first.schema.id, PartitionRange::Key(first.key.clone()));
                let decide = move |_: &_, _: &_| Ok::<_, EngineError>(Some(vec![first]));
                return node::read_modify_write(&shard, command, Deadline::NONE, decide).await.map(drop);
            }
            if mutations.len() == 1 {
                return node::apply(&shard, first, Deadline::NONE).await;
            }
            node::apply_batch(&shard, mutations, Deadline::NONE).await
        });
        done.wait().unwrap();
    }
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
fn views_follow_their_base_table_through_flushes_compactions_and_truncates() {
    for shards in [1, 2] {
        let engine = open(options(&dir(&format!("views-{shards}"))), shards);
        let mut rng = Rng::new(u64::from(shards));
        let base = make_base(&engine);
        let mut model = Model::default();
        let views = create_views(&engine, &base);
        wait_until_built(&engine);
        for round in 0..8 {
            write(&engine, &base, &mut model, &mut rng, 30, shards);
            assert!(model.compare(&engine, &base, &views) > 0);
            match round {
                1 | 2 | 4 => engine.flush(vec![]).unwrap(),
                5 => {
                    views.iter().for_each(|view| compact(&engine, view));
                    compact(&engine, &base);
                    model.compare(&engine, &base, &views);
                }
                _ => {}
            }
        }
        engine.truncate(base.id).unwrap();
        model = Model::default();
        assert_eq!(model.compare(&engine, &base, &views), 0);
        write(&engine, &base, &mut model, &mut rng, 30, shards);
        assert!(model.compare(&engine, &base, &views) > 0);
        engine.close().unwrap();
    }
}

#[test]
fn views_of_tables_with_rows_are_built_beside_writes_and_after_restarts() {
    let dir = dir("views-built");
    let mut rng = Rng::new(9);
    let mut model = Model::default();
    for (run, shards) in [2, 3, 1].into_iter().enumerate() {
        let engine = open(options(&dir), shards);
        let base = make_base(&engine);
        if run > 0 {
            // What the last run left unbuilt is built now.
            let views = create_views(&engine, &base);
            write(&engine, &base, &mut model, &mut rng, 20, shards);
            wait_until_built(&engine);
            assert!(model.compare(&engine, &base, &views) > 0);
            for view in views {
                let drop_view = move |catalog: &catalog::Catalog| catalog.drop_table("sample", &view.name);
                engine.change_schema(drop_view).unwrap();
            }
        }
        write(&engine, &base, &mut model, &mut rng, 60, shards);
        engine.flush(vec![]).unwrap();
        write(&engine, &base, &mut model, &mut rng, 20, shards);
        create_views(&engine, &base);
        // Closed at once, with or without time for the builds.
        if run == 1 {
            wait_until_built(&engine);
        }
        engine.close().unwrap();
    }
    let engine = open(options(&dir), 2);
    let base = make_base(&engine);
    let views = create_views(&engine, &base);
    wait_until_built(&engine);
    assert!(model.compare(&engine, &base, &views) > 0);
    engine.close().unwrap();
}

#[test]
fn a_table_with_views_cannot_be_dropped_or_loaded_into() {
    let engine = open(options(&dir("views-guarded")), 1);
    let base = make_base(&engine);
    let views = create_views(&engine, &base);
    let text =
        |result: Result<_, EngineError>| result.err().map(|error| error.to_string()).unwrap_or_default();
    let name = base.name.clone();
    let dropped = engine.change_schema(move |catalog| catalog.drop_table("sample", &name));
    assert!(text(dropped.map(drop)).contains("materialized views still depend on it (by_c, by_i, low)"));
    for table in [&base, &views[0]] {
        assert!(text(engine.refresh(table.id).map(drop)).contains("has materialized views or is one"));
    }
    engine.close().unwrap();
}
