//! Empties caches at a user's request.

use runtime::Shard;
use sstable::pool::CacheClass;

use super::of_all;
use crate::error::EngineError;

/// Empties the row cache of every table.
pub async fn clear_rows(shard: &Shard) -> Result<(), EngineError> {
    of_all(shard, |engine| {
        engine.tables().iter().filter_map(|table| table.cache().cloned()).for_each(|cache| cache.clear());
        Ok(())
    })
    .await
    .map(drop)
}

/// Evicts all pages of indexes, read and parsed.
pub async fn clear_index_pages(shard: &Shard) -> Result<(), EngineError> {
    of_all(shard, |engine| {
        engine.evict(CacheClass::IndexEntries);
        engine.evict(CacheClass::IndexPages);
        Ok(())
    })
    .await
    .map(drop)
}
