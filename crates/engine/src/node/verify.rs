//! `nodetool verify` on all shards; `compaction::verify` is the part of one shard.

use model::TableId;
use reports::Verified;
use runtime::{CpuGroup, Shard};
use sstable::read::Depth;

use super::on_all;
use crate::compaction::verify::verify_table;
use crate::error::EngineError;
use crate::shard::EngineShard;

/// Checks every SSTable of the table on all shards, one after the other on each: checksums, and whether its
/// files agree; with `rows` every row too. May be called on any shard.
pub async fn verify(shard: &Shard, table: TableId, rows: bool) -> Result<Verified, EngineError> {
    let depth = if rows { Depth::Rows } else { Depth::Components };
    let check = move |shard: Shard| async move {
        // A system table lives on shard 0.
        match EngineShard::of(&shard)?.table(table) {
            Ok(table) => Ok(verify_table(&shard, &table, depth).await),
            Err(_) => Ok(Verified::default()),
        }
    };
    let mut all = Verified::default();
    for of_shard in on_all(shard, CpuGroup::Maintenance, check).await? {
        all.merge(of_shard);
    }
    // Each shard reports an SSTable that cannot be opened.
    all.damaged.sort();
    all.damaged.dedup();
    Ok(all)
}
