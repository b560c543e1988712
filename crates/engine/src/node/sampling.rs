//! Samplings that users request: the partitions that are used most, and tokens of the keys.

use std::collections::BTreeMap;

use model::TableId;
use runtime::Shard;

use super::large_data::key_text;
use super::of_all;
use crate::error::EngineError;
use crate::shard::EngineShard;
use crate::table::hot_keys::KeySamplers;

/// A partition that was used while keys were sampled. The count is at most `error` too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotPartition {
    pub keyspace: String,
    pub table: String,
    pub key: String,
    pub count: u64,
    pub error: u64,
}

/// The partitions that were used most, the most frequent first, and all uses that were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotPartitions {
    pub reads: Vec<HotPartition>,
    pub reads_counted: u64,
    pub writes: Vec<HotPartition>,
    pub writes_counted: u64,
}

/// Begins to count the keys of the tables' reads and writes, on each shard with `capacity` counters a table.
///
/// # Errors
/// A sampling of one of the tables runs already.
pub async fn begin_sampling(shard: &Shard, tables: &[TableId], capacity: usize) -> Result<(), EngineError> {
    let asked = tables.to_vec();
    let is_running = move |engine: &EngineShard| {
        let tables = asked.iter().filter_map(|id| engine.table(*id).ok());
        Ok(tables.into_iter().any(|table| table.counters.hot_keys.borrow().is_some()))
    };
    if of_all(shard, is_running).await?.contains(&true) {
        return Err(EngineError::Invalid("a sampling of the table runs already".to_string()));
    }
    let asked = tables.to_vec();
    of_all(shard, move |engine| {
        for table in asked.iter().filter_map(|id| engine.table(*id).ok()) {
            *table.counters.hot_keys.borrow_mut() = Some(KeySamplers::new(capacity));
        }
        Ok(())
    })
    .await
    .map(drop)
}

/// Ends what [`begin_sampling`] began, and returns at most `count` partitions each.
pub async fn end_sampling(
    shard: &Shard,
    tables: &[TableId],
    count: usize,
) -> Result<HotPartitions, EngineError> {
    let asked = tables.to_vec();
    let take = move |engine: &EngineShard| {
        let mut found = HotPartitions::default();
        for table in asked.iter().filter_map(|id| engine.table(*id).ok()) {
            let Some(KeySamplers { reads, writes }) = table.counters.hot_keys.take() else { continue };
            let schema = table.schema();
            let of = |sampler: &crate::table::hot_keys::KeySampler| {
                let keys = sampler.top(count).into_iter();
                let keys = keys.map(|hot| HotPartition {
                    keyspace: schema.keyspace.clone(),
                    table: schema.name.clone(),
                    key: key_text(&schema.partition_key, hot.key.bytes()),
                    count: hot.count,
                    error: hot.error,
                });
                keys.collect::<Vec<_>>()
            };
            found.reads.extend(of(&reads));
            found.writes.extend(of(&writes));
            found.reads_counted += reads.occurrences();
            found.writes_counted += writes.occurrences();
        }
        Ok(found)
    };
    let mut all = HotPartitions::default();
    for found in of_all(shard, take).await? {
        all.reads.extend(found.reads);
        all.writes.extend(found.writes);
        all.reads_counted += found.reads_counted;
        all.writes_counted += found.writes_counted;
    }
    // A partition belongs to one shard, so each occurs once.
    for hot in [&mut all.reads, &mut all.writes] {
        hot.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        hot.truncate(count);
    }
    Ok(all)
}

/// Tokens of a sample of the keys of each table's SSTables, in ascending order, by keyspace and table.
pub async fn sampled_tokens(shard: &Shard) -> Result<BTreeMap<(String, String), Vec<i64>>, EngineError> {
    let ask = |engine: &EngineShard| {
        let of = |table: &std::rc::Rc<crate::table::Table>| {
            let schema = table.schema();
            let sstables = table.sstables();
            let tokens: Vec<i64> = sstables.iter().flat_map(|sstable| sstable.sampled_tokens()).collect();
            ((schema.keyspace.clone(), schema.name.clone()), tokens)
        };
        Ok(engine.tables().iter().map(of).collect::<Vec<_>>())
    };
    let mut all: BTreeMap<(String, String), Vec<i64>> = BTreeMap::new();
    for (table, tokens) in of_all(shard, ask).await?.into_iter().flatten() {
        all.entry(table).or_default().extend(tokens);
    }
    for tokens in all.values_mut() {
        tokens.sort_unstable();
        tokens.dedup();
    }
    Ok(all)
}
