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
        Ok(engine.tables().iter().map(|table| TableReport::of(table, state(table))).collect())
    })
    .await
}
