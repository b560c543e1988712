//! Reports of all shards and tables.

use model::TableId;
use reports::SemaphoreReport;
use runtime::Shard;

use super::of_all;
use crate::error::EngineError;
use crate::report::{ShardReport, TableReport};
use crate::shard::EngineShard;
use crate::table::Table;
use crate::table::indexes::IndexState;

/// Interval at which a rebuild of indexes looks whether it is complete.
const REBUILD_LOOK_US: u64 = 50_000;

/// The messages that `of` returns for every table on any shard, without duplicates; for example its
/// unreadable SSTables.
pub async fn table_messages(
    shard: &Shard,
    of: fn(&Table) -> Vec<String>,
) -> Result<Vec<String>, EngineError> {
    let ask = move |engine: &EngineShard| {
        Ok(engine.tables().iter().flat_map(|table| of(table)).collect::<Vec<_>>())
    };
    let mut all = of_all(shard, ask).await?.concat();
    all.sort();
    all.dedup();
    Ok(all)
}

/// The report of every shard.
pub async fn report(shard: &Shard) -> Result<Vec<ShardReport>, EngineError> {
    of_all(shard, |engine| Ok(engine.report())).await
}

/// What all shards together have of each secondary index of the table, in the order of the table's
/// definition.
pub async fn index_states(shard: &Shard, table: TableId) -> Result<Vec<IndexState>, EngineError> {
    let of_shards =
        of_all(shard, move |engine| Ok(engine.table(table).map_or(vec![], |table| table.index_states())))
            .await?;
    let mut all: Vec<IndexState> = vec![];
    for state in of_shards.into_iter().flatten() {
        match all.iter_mut().find(|known| known.name == state.name) {
            Some(known) => known.merge(&state),
            None => all.push(state),
        }
    }
    Ok(all)
}

/// Builds the named secondary indexes of all SSTables again. Reads by an index are refused until it is
/// complete.
///
/// # Errors
/// The node stops meanwhile, or the table is dropped.
pub async fn rebuild_indexes(shard: &Shard, table: TableId, names: Vec<String>) -> Result<(), EngineError> {
    let asked = names.clone();
    of_all(shard, move |engine| {
        let table = engine.table(table)?;
        table.forget_indexes(&asked);
        engine.compactions().nudge(&table);
        Ok(())
    })
    .await?;
    loop {
        // Jobs begin when the manager checks the table again; each builds the index of one SSTable.
        shard.sleep_us(REBUILD_LOOK_US).await;
        let states = index_states(shard, table).await?;
        if !states.iter().any(|state| names.contains(&state.name) && !state.is_queryable()) {
            return Ok(());
        }
        of_all(shard, move |engine| {
            let table = engine.table(table)?;
            engine.compactions().nudge(&table);
            Ok(())
        })
        .await?;
    }
}

/// What the reads of every shard are doing, for people: a text for each semaphore of each shard.
pub async fn read_diagnostics(shard: &Shard) -> Result<Vec<Vec<String>>, EngineError> {
    of_all(shard, |engine| Ok(engine.admissions().dump())).await
}

/// Running and waiting reads of every shard, for each semaphore.
pub async fn read_semaphores(shard: &Shard) -> Result<Vec<Vec<SemaphoreReport>>, EngineError> {
    of_all(shard, |engine| Ok(engine.admissions().reports())).await
}

/// The reports of all tables: a list for each shard, in the order of the tables' names.
pub async fn table_reports(shard: &Shard) -> Result<Vec<Vec<TableReport>>, EngineError> {
    of_all(shard, |engine| {
        let state = |table: &Table| engine.compactions().table_needs(table.schema().id);
        let now_us = engine.shard().now_us();
        Ok(engine.tables().iter().map(|table| TableReport::of(table, state(table), now_us)).collect())
    })
    .await
}
