//! `system.compaction_history`: ended compactions, kept for a week, also across restarts.
//!
//! Jobs add their results to the [`History`] in memory only. Shard 0 stores new ones once per second, as rows
//! with a TTL, several in each chunk of the schema's log; a crash may lose the last second. At a start the
//! stored jobs are loaded. The history is needed for nothing else, so unreadable parts are ignored.

use base::HashMap;
use catalog::{COMPACTION_HISTORY_TTL_S, compaction_history};
use model::types::CqlValue;
use model::{
    Cell, ClusteringPrefix, ColumnData, Liveness, Mutation, PartitionKey, PartitionRange, Row, TableSchema,
};
use reports::EndedCompaction;
use std::sync::Arc;

use super::EngineShard;
use crate::commitlog::LogError;
use crate::compaction::History;
use crate::error::EngineError;
use crate::read::ReadCommand;

/// Number of jobs in one chunk of the log; with reasons of usual length a few tens of kilobytes.
const ENTRY_JOBS: usize = 16;

impl EngineShard {
    /// Stores the jobs that ended since the last call. On shard 0.
    pub async fn save_compaction_history(&self) {
        let history = self.compactions.history();
        // Of two concurrent saves, the second finds nothing to store.
        let _one = self.history_saves.lock().await;
        let mut unsaved = history.take_unsaved();
        let (schema, now_s) = (compaction_history(), self.shard.wall_s());
        let mut most = ENTRY_JOBS;
        while !unsaved.is_empty() {
            let count = unsaved.len().min(most);
            let mutations = unsaved[..count].iter().map(|ended| mutation(&schema, ended, now_s)).collect();
            match self.apply_batch(mutations, false).await {
                Ok(()) => drop(unsaved.drain(..count)),
                Err(EngineError::Log(LogError::TooLarge { .. })) if count > 1 => most = 1,
                // It is too large to be stored.
                Err(EngineError::Log(LogError::TooLarge { .. })) => drop(unsaved.drain(..1)),
                Err(_) => return history.put_back(unsaved),
            }
        }
    }

    /// Appends the lines gathered by `log_all` to their file. On shard 0.
    pub async fn save_compaction_log(&self) {
        let _one = self.history_saves.lock().await;
        self.compactions.log().save(self.shard.files()).await;
    }

    /// Loads the stored jobs into `history`. On shard 0.
    pub async fn load_compaction_history(&self, history: &History) {
        let schema = compaction_history();
        let mut command = ReadCommand::new(schema.id, PartitionRange::all());
        command.read_id = self.shard.random_u64();
        let mut stored = vec![];
        while let Ok(page) = self.read(&command).await {
            for partition in &page.partitions {
                let rows = partition.rows.iter();
                stored.extend(rows.filter_map(|row| ended(&schema, &partition.key, &row.row)));
            }
            match page.next {
                Some(next) => command.paging = Some(next),
                None => break,
            }
        }
        history.restore(stored);
    }
}

fn mutation(schema: &Arc<TableSchema>, ended: &EndedCompaction, now_s: u32) -> Mutation {
    let (timestamp_us, ttl_s) = (ended.ended_ms * 1000, COMPACTION_HISTORY_TTL_S);
    let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(&ended.id.as_bytes()[..]));
    let row = mutation.row_mut(ClusteringPrefix::new([]));
    row.liveness = Liveness::expiring(timestamp_us, ttl_s, now_s);
    let count = |count: u64| CqlValue::BigInt(i64::try_from(count).unwrap_or(i64::MAX));
    let text = |text: &str| CqlValue::Text(text.to_string());
    let properties = [
        ("compaction_type", ended.kind.to_string()),
        ("reason", ended.reason.clone()),
        ("shard", ended.shard.to_string()),
        ("took_us", ended.took_us.to_string()),
        ("sstables_in", ended.input_sstables.to_string()),
        ("partitions_in", ended.input_partitions.to_string()),
        ("partitions_out", ended.output_partitions.to_string()),
    ];
    let properties = properties.map(|(name, value)| (text(name), CqlValue::Text(value)));
    let values = [
        ("bytes_in", count(ended.input_bytes)),
        ("bytes_out", count(ended.output_bytes)),
        ("columnfamily_name", text(&ended.table)),
        ("compacted_at", CqlValue::Timestamp(ended.ended_ms)),
        ("keyspace_name", text(&ended.keyspace)),
        ("compaction_properties", CqlValue::Map(properties.to_vec())),
    ];
    let cell = |bytes: Vec<u8>| Cell::expiring(timestamp_us, ttl_s, now_s, bytes);
    for (name, value) in values {
        let column = schema.column_named(name).expect("the table has it");
        row.set(column, cell(value.encode(&column.ty).expect("a value of its type")));
    }
    let merged = schema.column_named("rows_merged").expect("the table has it");
    for (inputs, partitions) in &ended.merged {
        let partitions = i64::try_from(*partitions).unwrap_or(i64::MAX);
        row.set_element(schema, merged, &inputs.to_be_bytes()[..], cell(partitions.to_be_bytes().to_vec()));
    }
    mutation
}

/// Decodes a row; `None` if values are missing.
fn ended(schema: &TableSchema, key: &PartitionKey, row: &Row) -> Option<EndedCompaction> {
    let value = |name: &str| {
        let column = schema.column_named(name)?;
        match row.cell(column.id)? {
            ColumnData::Simple(cell) => CqlValue::decode(&column.ty, &cell.value).ok(),
            ColumnData::Complex(_) => None,
        }
    };
    let text = |name: &str| match value(name)? {
        CqlValue::Text(text) => Some(text),
        _ => None,
    };
    let count = |name: &str| match value(name)? {
        CqlValue::BigInt(count) => u64::try_from(count).ok(),
        _ => None,
    };
    let CqlValue::Timestamp(ended_ms) = value("compacted_at")? else { return None };
    let properties: HashMap<String, String> = match value("compaction_properties")? {
        CqlValue::Map(entries) => {
            let texts = entries.into_iter().filter_map(|entry| match entry {
                (CqlValue::Text(name), CqlValue::Text(value)) => Some((name, value)),
                _ => None,
            });
            texts.collect()
        }
        _ => return None,
    };
    let property = |name: &str| properties.get(name).cloned().unwrap_or_default();
    let number = |name: &str| property(name).parse().unwrap_or(0);
    let merged = match row.cell(schema.column_named("rows_merged")?.id) {
        Some(ColumnData::Complex(complex)) => {
            let entries = complex.cells.iter().filter_map(|element| {
                let inputs = u32::from_be_bytes((*element.path).try_into().ok()?);
                Some((inputs, u64::from_be_bytes((*element.cell.value).try_into().ok()?)))
            });
            entries.collect()
        }
        _ => vec![],
    };
    Some(EndedCompaction {
        id: uuid::Uuid::from_slice(key.bytes()).ok()?,
        shard: number("shard") as u32,
        keyspace: text("keyspace_name")?,
        table: text("columnfamily_name")?,
        kind: property("compaction_type").into(),
        reason: property("reason"),
        ended_ms,
        took_us: number("took_us"),
        input_bytes: count("bytes_in")?,
        output_bytes: count("bytes_out")?,
        input_sstables: number("sstables_in"),
        input_partitions: number("partitions_in"),
        output_partitions: number("partitions_out"),
        merged,
    })
}

#[cfg(test)]
mod tests {
    use runtime::sim::{SimOptions, SimWorld};

    use super::*;
    use crate::compaction::history::time_uuid;
    use crate::{EngineOptions, recover};

    #[test]
    fn however_many_jobs_have_gathered_they_are_stored() {
        let world = SimWorld::new(SimOptions::default());
        let node = world.start_node(|_| async {}).unwrap();
        let stored = world.block_on(&node, 0, |shard| async move {
            let options = EngineOptions { commitlog_segment_bytes: 128 << 10, ..EngineOptions::new("/data") };
            recover::open(&shard, options).await?;
            let engine = EngineShard::of(&shard)?;
            let history = engine.compactions().history().clone();
            (0..1500).for_each(|number| history.push(ended_job(number, "4 of about 1.0 MB"), true));
            // A job that is too large for the log does not prevent the others from being stored.
            history.push(ended_job(1500, &"x".repeat(1 << 20)), true);
            history.push(ended_job(1501, "the last"), true);
            engine.save_compaction_history().await;
            assert!(!history.has_unsaved());
            let stored = History::default();
            engine.load_compaction_history(&stored).await;
            Ok::<_, EngineError>(stored.all().len())
        });
        assert_eq!(stored.unwrap().unwrap(), 1501);
    }

    #[test]
    fn a_stop_in_the_middle_of_jobs_leaves_nothing_to_replay_and_a_whole_history() {
        let mut jobs = 0;
        for seed in 0..30 {
            let world = SimWorld::new(SimOptions { seed, ..SimOptions::default() });
            // A busy disk: operations started at the stop take a while.
            world.set_faults(|faults| (faults.latency_us_min, faults.latency_us_max) = (2_000, 40_000));
            let node = world.start_node(|_| async {}).unwrap();
            let remembered = world.block_on(&node, 0, move |shard| async move {
                recover::open(&shard, EngineOptions::new("/data")).await?;
                let schema = TableSchema::builder("ks", "t").partition_key("p", model::CqlType::Text);
                let schema = schema.build().expect("a table");
                crate::node::change_schema(&shard, |catalog| {
                    catalog.create_keyspace(catalog::Keyspace::simple("ks")?)
                })
                .await?;
                crate::node::change_schema(&shard, move |catalog| {
                    catalog.create_table(schema, catalog::TableSettings::default())
                })
                .await?;
                let table = crate::node::catalog(&shard)?.schema("ks", "t").expect("it was made").clone();
                for flush in 0..8 {
                    for key in 0..20 {
                        let key = PartitionKey::new(format!("{flush} {key}").as_str());
                        let mut write = Mutation::new(table.clone(), key);
                        write.row_mut(ClusteringPrefix::new([])).liveness = Liveness::new(1);
                        crate::node::apply(&shard, write, crate::node::Deadline::NONE).await?;
                    }
                    crate::node::flush(&shard, vec![table.id]).await?;
                }
                shard.sleep_us(seed * 30_000).await;
                let history = EngineShard::of(&shard)?.compactions().history().clone();
                crate::node::close(&shard).await?;
                Ok::<_, EngineError>(history.all().iter().map(|ended| ended.id).collect::<Vec<_>>())
            });
            let remembered = remembered.unwrap().unwrap();
            drop(node);
            world.kill();
            let node = world.start_node(|_| async {}).unwrap();
            let opened = world.block_on(&node, 0, |shard| async move {
                let report = recover::open(&shard, EngineOptions::new("/data")).await?;
                let history = EngineShard::of(&shard)?.compactions().history().clone();
                let stored: Vec<_> = history.all().iter().map(|ended| ended.id).collect();
                Ok::<_, EngineError>((report, stored))
            });
            let (report, stored) = opened.unwrap().unwrap();
            assert_eq!((report.replay.segments, report.replay.entries), (0, 0), "seed {seed}");
            assert!(
                remembered.iter().all(|id| stored.contains(id)),
                "seed {seed}: {remembered:?} {stored:?}"
            );
            jobs += remembered.len();
        }
        assert!(jobs > 10, "{jobs} jobs ended");
    }

    #[test]
    fn a_row_shows_the_stored_values() {
        let schema = compaction_history();
        let stored = ended_job(7, "4 of about 1.0 MB");
        let mutation = mutation(&schema, &stored, 1_700_000_001);
        let row = &mutation.partition.rows()[0].row;
        let found = ended(&schema, &mutation.key, row).expect("it is whole");
        assert_eq!(format!("{found:?}"), format!("{stored:?}"));
        assert!(row.is_live_at(1_700_000_001) && !row.is_live_at(1_700_000_002 + COMPACTION_HISTORY_TTL_S));
        assert!(ended(&schema, &mutation.key, &Row::new()).is_none());
    }

    fn ended_job(number: u64, reason: &str) -> EndedCompaction {
        EndedCompaction {
            id: time_uuid(1_700_000_000_123_000, number),
            shard: 3,
            keyspace: "shop".into(),
            table: "orders".into(),
            kind: "Compaction".into(),
            reason: reason.into(),
            ended_ms: 1_700_000_000_123,
            took_us: 5_000,
            input_bytes: 4_000_000,
            output_bytes: 1_000_000,
            input_sstables: 4,
            input_partitions: 12,
            output_partitions: 10,
            merged: vec![(1, 8), (2, 2)],
        }
    }
}
