//! The operations of a round, as concurrent tasks; each is sent through a random shard.

use base::rng::Rng;
use catalog::{Catalog, Changed, TableSettings};
use compaction::garbage::Granularity;
use compaction::{Layout, Plan, Reason, Split, Strategy, TableView};
use engine::node::compaction as compaction_node;
use engine::node::scrub::{ScrubOptions, scrub};
use engine::shard::EngineShard;
use engine::{EngineError, ReadCommand, node};
use model::sample;
use model::schema::{DroppedColumn, TableBuilder};
use model::{Codec, ColumnKind, Compression, CqlType, PartitionRange, TableId, TableOptions, TableSchema};
use runtime::{CpuGroup, Shard};
use uuid::Uuid;

use crate::client::{Client, PendingChange, SharedClient, on_some_shard};
use crate::content;
use crate::failure::Checker;
use crate::indexes;
use crate::logged_batches;
use crate::maintenance;
use crate::reads::{random_read, read_pages};
use crate::registers;
use crate::table_model::TableModel;

/// Grace period where tombstones are to be purged. It is longer than any write is in flight, because a
/// deletion may count from up to three seconds earlier.
const GC_GRACE_S: u32 = 6;

/// The keyspace of all tables here.
pub const KEYSPACE: &str = "sample";

/// What happens in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// This number of writes, one after the other.
    Write(u64),
    /// This number of batches, one after the other.
    Batch(u64),
    /// Whole partitions, read during writes.
    Read(u64),
    /// One table, or all.
    Flush,
    Sync,
    Truncate,
    Snapshot,
    /// One table, on all shards or a part of a shard's SSTables.
    Compact,
    /// Stops every running compaction.
    StopCompactions,
    /// See [`maintenance::one`].
    Maintenance,
    /// Loads SSTables made elsewhere.
    Load,
    /// This number of reads of several pages; only in a round without writes.
    ReadSlowly(u64),
    /// This number of tasks that compete for registers and counters.
    Compete(u64),
    /// Sets the wall clock by this number of microseconds.
    SetClock(i64),
    CreateTable,
    AddColumn,
    DropColumn,
    ChangeOptions,
    DropTable,
}

/// Runs all operations concurrently; returns when all have ended.
pub async fn round(shard: Shard, client: SharedClient, ops: Vec<Op>) {
    let running: Vec<_> = ops
        .into_iter()
        .map(|op| {
            let (on, client) = (shard.clone(), client.clone());
            shard.spawn(CpuGroup::Statement, async move {
                let delay_us = client.borrow_mut().rng.below(4000);
                on.sleep_us(delay_us).await;
                run(&on, &client, op).await;
            })
        })
        .collect();
    for task in running {
        task.await;
    }
}

async fn run(shard: &Shard, client: &SharedClient, op: Op) {
    let table = client.borrow_mut().random_table();
    match (op, table) {
        (Op::CreateTable, _) => create_table(shard, client).await,
        (Op::Compete(tasks), _) => registers::compete(shard, client, tasks).await,
        (Op::SetClock(us), _) => client.borrow_mut().set_clock_by_us(shard.wall_us(), us),
        (_, None) => {}
        (Op::Write(count), Some(_)) => {
            for _ in 0..count {
                let Some(table) = client.borrow_mut().random_table() else { return };
                write(shard, client, table).await;
                if client.borrow_mut().rng.chance(1, 8) {
                    let pause_us = client.borrow_mut().rng.below(3000);
                    shard.sleep_us(pause_us).await;
                }
            }
        }
        (Op::Batch(count), Some(_)) => logged_batches::write(shard, client, count).await,
        (Op::Read(count), Some(_)) => {
            for _ in 0..count {
                let Some(table) = client.borrow_mut().random_table() else { return };
                read_meanwhile(shard, client, table).await;
            }
        }
        (Op::Flush, Some(table)) => flush(shard, client, table).await,
        (Op::Sync, Some(_)) => sync(shard, client).await,
        (Op::Truncate, Some(table)) => truncate(shard, client, table).await,
        (Op::Snapshot, Some(table)) => snapshot(shard, client, table).await,
        (Op::Compact, Some(table)) => compact(shard, client, table).await,
        (Op::StopCompactions, Some(_)) => {
            let stop = |shard: Shard| async move {
                EngineShard::of(&shard)?.compactions().stop_jobs(None);
                Ok(())
            };
            let _ = on_some_shard(shard, client, stop).await;
        }
        (Op::Maintenance, Some(table)) => maintenance::one(shard, client, table).await,
        (Op::Load, Some(table)) => maintenance::load(shard, client, table).await,
        (Op::ReadSlowly(count), Some(_)) => maintenance::read_pages_slowly(shard, client, count).await,
        (Op::AddColumn | Op::DropColumn | Op::ChangeOptions | Op::DropTable, Some(table)) => {
            alter(shard, client, table, op).await;
        }
    }
}

async fn write(shard: &Shard, client: &SharedClient, table: TableId) {
    let Some((seq, mutation)) = client.borrow_mut().begin_write(table) else { return };
    let apply = |shard: Shard| async move { node::apply(&shard, mutation, node::Deadline::NONE).await };
    let result = on_some_shard(shard, client, apply).await;
    client.borrow_mut().end_write(table, seq, result);
}

/// Writes until a write is acknowledged: a node must resume writes when the disk has space again.
pub async fn write_until_acknowledged(shard: Shard, client: SharedClient) {
    // A refused write is retried; its error has a reason.
    client.borrow_mut().excuses.no_space = true;
    let resumed = writes_resume(&shard, &client).await;
    let client = &mut *client.borrow_mut();
    client.excuses.no_space = false;
    if !resumed {
        client.fail(Checker::Resumes, "writes do not resume, though there is space");
    }
}

async fn writes_resume(shard: &Shard, client: &SharedClient) -> bool {
    for _ in 0..60 {
        let Some(table) = client.borrow_mut().random_table() else { return true };
        let Some((seq, mutation)) = client.borrow_mut().begin_write(table) else { return true };
        let apply = |shard: Shard| async move { node::apply(&shard, mutation, node::Deadline::NONE).await };
        let result = on_some_shard(shard, client, apply).await;
        let is_done = result.is_ok();
        client.borrow_mut().end_write(table, seq, result);
        if is_done {
            return true;
        }
        shard.sleep_us(500_000).await;
    }
    false
}

async fn flush(shard: &Shard, client: &SharedClient, table: TableId) {
    let (stamp, tables) = {
        let mut client = client.borrow_mut();
        let one = client.rng.chance(1, 2);
        (client.stamp(), if one { vec![table] } else { vec![] })
    };
    client.borrow().note(format!("flush {} tables", if tables.is_empty() { "all" } else { "one of the" }));
    let wanted = tables.clone();
    let result = on_some_shard(shard, client, |shard| async move { node::flush(&shard, wanted).await }).await;
    let client = &mut *client.borrow_mut();
    client.note(format!("flush {stamp}: {result:?}"));
    match result {
        Ok(()) => {
            let is_flushed = |known: &&mut TableModel| tables.is_empty() || tables.contains(&known.schema.id);
            client.tables.iter_mut().filter(is_flushed).for_each(|table| table.synced(stamp));
        }
        // A flush of all tables may meet one that is being dropped.
        Err(EngineError::File(_) | EngineError::SSTable(_))
            if client.tables.iter().any(|t| t.is_changing) => {}
        Err(error) => client.excuse("flush", table, &error),
    }
}

async fn sync(shard: &Shard, client: &SharedClient) {
    let stamp = client.borrow_mut().stamp();
    let result = on_some_shard(shard, client, |shard| async move { node::sync(&shard).await }).await;
    let client = &mut *client.borrow_mut();
    client.note(format!("sync {stamp}: {result:?}"));
    match result {
        Ok(()) => client.tables.iter_mut().for_each(|table| table.synced(stamp)),
        Err(error) => client.excuse("sync", Uuid::nil(), &error),
    }
}

async fn truncate(shard: &Shard, client: &SharedClient, table: TableId) {
    let begun = {
        let client = &mut *client.borrow_mut();
        let begun = client.stamp();
        let known = client.table(table).expect("just chosen");
        if known.truncating.is_some() {
            return;
        }
        known.truncating = Some(begun);
        known.disturbed = u64::MAX;
        client.counts.truncates += 1;
        client.note("truncate");
        begun
    };
    let result =
        on_some_shard(shard, client, move |shard| async move { node::truncate(&shard, table).await }).await;
    let client = &mut *client.borrow_mut();
    let ended = client.stamp();
    client.note(format!("truncate {begun}: {result:?}"));
    if let Err(error) = &result {
        client.excuse("truncate", table, error);
    }
    if let Some(known) = client.table(table) {
        known.disturbed = ended;
        match result {
            Ok(()) => known.truncated(begun),
            Err(_) => known.truncate_failed(begun),
        }
    }
}

async fn snapshot(shard: &Shard, client: &SharedClient, table: TableId) {
    let stamp = client.borrow_mut().stamp();
    let tag = format!("s{stamp}");
    let result =
        on_some_shard(shard, client, move |shard| async move { node::snapshot(&shard, table, tag).await });
    let result = result.await;
    let client = &mut *client.borrow_mut();
    client.note(format!("snapshot {stamp}: {result:?}"));
    if let Err(error) = result {
        client.excuse("snapshot", table, &error);
    }
}

/// A random layout of a compaction's output.
fn random_layout(rng: &mut Rng) -> Layout {
    let bytes = 100 << rng.below(7);
    match rng.below(6) {
        0 => Layout::whole(),
        1 => Layout::level(1 + rng.below(3) as u32, bytes),
        2 => Layout { split: Split::Tokens(vec![i64::MIN / 3, 0, i64::MAX / 2]), ..Layout::whole() },
        3 => Layout {
            split: Split::Windows { window_us: 1 + rng.below(40) as i64, windows_max: 3 },
            ..Layout::whole()
        },
        _ => Layout::run(bytes),
    }
}

async fn compact(shard: &Shard, client: &SharedClient, table: TableId) {
    let (stamp, is_major, split, seed) = {
        let client = &mut *client.borrow_mut();
        (client.stamp(), client.rng.chance(1, 3), client.rng.chance(1, 2), client.rng.next_u64())
    };
    let rewrite = Rng::new(seed).below(8);
    // Over damaged files a scrub would lose data that the repair brings back.
    let result = if rewrite == 0 && !client.borrow().is_decayed {
        scrub_all(shard, client, table).await
    } else if rewrite <= 2 {
        let granularity = if rewrite == 1 { Granularity::Row } else { Granularity::Cell };
        on_some_shard(shard, client, move |shard| async move {
            compaction_node::garbage_collect(&shard, table, granularity).await
        })
        .await
    } else if is_major {
        on_some_shard(shard, client, move |shard| async move {
            compaction_node::major(&shard, table, split).await
        })
        .await
    } else {
        let some = move |shard: Shard| async move {
            let compactions = EngineShard::of(&shard)?.compactions().clone();
            let plan = move |_: &mut dyn Strategy, view: &TableView<'_>, _: &[_]| {
                let mut rng = Rng::new(seed);
                let layout = random_layout(&mut rng);
                let all = rng.chance(1, 2);
                let inputs: Vec<_> =
                    view.free().filter(|_| all || rng.chance(2, 3)).map(|sstable| sstable.id).collect();
                let release_early = layout.is_run && rng.chance(3, 4);
                let plan = Plan {
                    inputs,
                    expired: vec![],
                    layout,
                    reason: Reason::Asked("simulation"),
                    release_early,
                };
                if plan.inputs.is_empty() { vec![] } else { vec![plan] }
            };
            compactions.run_request(table, "Simulation", plan).await
        };
        on_some_shard(shard, client, some).await
    };
    let client = &mut *client.borrow_mut();
    client.note(format!("compact {stamp} major {is_major}: {result:?}"));
    match result {
        Ok(()) => client.counts.compactions += 1,
        Err(error) => client.excuse("compact", table, &error),
    }
}

/// Nothing is damaged, so nothing may be lost.
async fn scrub_all(shard: &Shard, client: &SharedClient, table: TableId) -> Result<(), EngineError> {
    let options = ScrubOptions { no_snapshot: true, ..ScrubOptions::default() };
    let scrubbed =
        on_some_shard(shard, client, move |shard| async move { scrub(&shard, table, options).await }).await?;
    if !scrubbed.damaged.is_empty() || scrubbed.out_of_order > 0 {
        client.borrow_mut().fail(Checker::Undamaged, format!("a scrub found damage: {scrubbed:?}"));
    }
    Ok(())
}

async fn read_meanwhile(shard: &Shard, client: &SharedClient, table: TableId) {
    let (begun, command, key) = {
        let client = &mut *client.borrow_mut();
        let key = sample::partition_key(client.rng.below(client.variety.partitions));
        let now_s = client.read_now_s(shard.wall_us());
        let mut command = ReadCommand::new(table, PartitionRange::Key(key.clone()));
        command.now_s = Some(now_s);
        command.page_rows = u64::MAX;
        command.page_bytes = u64::MAX;
        command.reversed = client.rng.chance(1, 4);
        client.counts.reads += 1;
        (client.stamp(), command, key)
    };
    let asked = command.clone();
    let result =
        on_some_shard(
            shard,
            client,
            |shard| async move { node::read(&shard, asked, node::Deadline::NONE).await },
        )
        .await;
    let client = &mut *client.borrow_mut();
    match result {
        Ok(page) => {
            let Some(known) = client.table(table) else { return };
            let is_other = known.is_changing || known.truncating.is_some() || known.disturbed >= begun;
            // After the clock was set, a compaction may have purged expired data.
            let is_late = shard.wall_us() / 1_000_000 > i64::from(command.now_s.unwrap_or(0));
            if is_other || is_late {
                return;
            }
            let compared = known.compare_during_writes(&key, &page.partitions, &command, begun);
            if let Err(difference) = compared {
                client.fail(Checker::Meanwhile, format!("read {begun}: {difference}"));
            }
        }
        Err(error) => client.excuse("read", table, &error),
    }
}

/// Compares everything that can be read with the model.
pub async fn compare(shard: Shard, client: SharedClient, is_restarted: bool) {
    if let Err(error) = registers::compare(&shard, &client, is_restarted).await {
        let when = if is_restarted { "after a restart" } else { "while running" };
        client.borrow_mut().fail(Checker::Linear, format!("{when}: {error}"));
        return;
    }
    let batches = if is_restarted { logged_batches::known(&mut client.borrow_mut()) } else { vec![] };
    let ids: Vec<TableId> = client.borrow().tables.iter().map(|table| table.schema.id).collect();
    for id in ids {
        let (command, schema) = {
            let client = &mut *client.borrow_mut();
            let now_s = client.read_now_s(shard.wall_us());
            let page_rows = *client.rng.pick(&[3, 17, 10_000]);
            let Some(known) = client.table(id).filter(|known| !known.is_changing) else { continue };
            let command = ReadCommand { page_rows, ..known.whole(now_s) };
            (command, known.schema.clone())
        };
        let read = read_pages(&shard, &client, &command).await;
        let whole = read.clone().unwrap_or_default();
        let compared = read.and_then(|found| {
            let mut client = client.borrow_mut();
            let known = client.table(id).expect("nothing changes the schema meanwhile");
            known.compare_whole(&found, &command, is_restarted)
        });
        if let Err(difference) = compared {
            let (checker, when) = match is_restarted {
                true => (Checker::Restart, "after a restart"),
                false => (Checker::Running, "while running"),
            };
            client.borrow_mut().fail(checker, format!("{when}: {difference}"));
            return;
        }
        for _ in 0..3 {
            let command = random_read(&mut client.borrow_mut(), &schema, shard.wall_us());
            let read = read_pages(&shard, &client, &command).await;
            let mut client = client.borrow_mut();
            let known = client.table(id).expect("nothing changes the schema meanwhile");
            if let Err(difference) = read.and_then(|found| known.compare(&found, &command)) {
                client.fail(Checker::Running, difference);
                return;
            }
        }
        let has_indexes = client.borrow().has_indexes;
        if has_indexes && let Err(difference) = indexes::compare(&shard, &client, &schema, whole).await {
            client.borrow_mut().fail(Checker::Indexes, difference);
            return;
        }
    }
    logged_batches::compare(&mut client.borrow_mut(), &batches);
}

/// Applies a change to the schema and keeps in mind that it may not end well.
async fn change(
    shard: &Shard,
    client: &SharedClient,
    pending: PendingChange,
    f: impl FnOnce(&Catalog) -> Changed + Send + 'static,
) {
    let PendingChange { table, before, after } = pending.clone();
    {
        let client = &mut *client.borrow_mut();
        if client.pending.is_some() {
            return;
        }
        client.stamp();
        client.counts.changes += 1;
        client.note(format!("change of {table}: {:?}", (before.is_some(), after.is_some())));
        if let Some(known) = client.table(table) {
            known.is_changing = true;
        }
        client.pending = Some(pending);
    }
    let result =
        on_some_shard(shard, client, |shard| async move { node::change_schema(&shard, f).await }).await;
    let client = &mut *client.borrow_mut();
    let ended = client.stamp();
    client.note(format!("change of {table}: {result:?}"));
    match result {
        Ok(_) => {
            client.pending = None;
            match after {
                None => {
                    client.tables.retain(|known| known.schema.id != table);
                    client.dropped.push(table);
                }
                Some(schema) => {
                    if before.is_none() {
                        client.tables.push(TableModel::new(schema));
                    } else if let Some(known) = client.table(table) {
                        known.schema = schema;
                        known.is_changing = false;
                        known.disturbed = ended;
                    }
                }
            }
        }
        Err(error) => {
            client.needs_restart = true;
            client.excuse("change of the schema", table, &error);
        }
    }
}

/// Options of a random strategy with which small SSTables give it work.
fn random_settings(rng: &mut Rng) -> TableSettings {
    let strategies: [&[(&str, &str)]; 7] = [
        &[("class", "SizeTieredCompactionStrategy"), ("min_threshold", "2")],
        &[
            ("class", "SizeTieredCompactionStrategy"),
            ("tombstone_threshold", "0.05"),
            ("tombstone_compaction_interval", "1"),
        ],
        &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "1")],
        &[
            ("class", "TimeWindowCompactionStrategy"),
            ("compaction_window_unit", "MINUTES"),
            ("expired_sstable_check_frequency_seconds", "0"),
        ],
        &[("class", "IncrementalCompactionStrategy"), ("sstable_size_in_mb", "1"), ("min_threshold", "2")],
        &[("class", "UnifiedCompactionStrategy")],
        &[("class", "SizeTieredCompactionStrategy"), ("enabled", "false")],
    ];
    let options = rng.pick(&strategies).iter();
    let compaction = options.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let mut settings = TableSettings { compaction, ..TableSettings::default() };
    if rng.chance(1, 6) {
        settings.caching.insert("enabled".to_string(), "FALSE".to_string());
    }
    settings
}

fn random_options(client: &mut Client, has_counters: bool) -> TableOptions {
    let gc_grace_s = if client.purges && !has_counters { GC_GRACE_S } else { 864_000 };
    let rng = &mut client.rng;
    let compressions = [
        None,
        Some(Compression::lz4(4096)),
        Some(Compression::new(Codec::Snappy, 16384)),
        Some(Compression::new(Codec::Deflate, 1024)),
        Some(Compression { dictionary: true, ..Compression::new(Codec::Zstd { level: 1 }, 4096) }),
    ];
    TableOptions {
        compression: rng.pick(&compressions).clone(),
        bloom_filter_fp_chance: *rng.pick(&[0.01, 0.1, 1.0]),
        memtable_flush_period_ms: *rng.pick(&[0, 0, 2000]),
        gc_grace_s,
        ..TableOptions::default()
    }
}

async fn create_table(shard: &Shard, client: &SharedClient) {
    let schema = {
        let client = &mut *client.borrow_mut();
        let shape = client.rng.pick(&sample::tables()).clone();
        if client.tables.iter().any(|known| known.schema.name == shape.name) {
            return;
        }
        let id = u128::from(client.rng.next_u64()) << 64 | u128::from(client.rng.next_u64());
        let id = Uuid::from_u128(id);
        let id = client.dropped.pop().filter(|_| client.rng.chance(1, 2)).unwrap_or(id);
        let mut builder = shape.to_builder().id(id).options(random_options(client, shape.has_counters()));
        if shape.clustering.is_empty() {
            builder = builder.regular(content::MARKS, CqlType::set(CqlType::Int));
        }
        builder.build_with_ids_from(shape.column_id_bound()).expect("a table with one more column")
    };
    let settings = random_settings(&mut client.borrow_mut().rng);
    let pending = PendingChange { table: schema.id, before: None, after: Some(schema.clone()) };
    change(shard, client, pending, move |catalog| catalog.create_table(schema, settings)).await;
}

/// The table with a dropped column added again.
fn with_recreated_column(schema: &TableSchema) -> Option<TableBuilder> {
    let is_gone = |gone: &&DroppedColumn| schema.column_named(&gone.name).is_none() && !gone.ty.is_counter();
    let DroppedColumn { name, ty, kind, .. } = schema.dropped.iter().find(is_gone)?.clone();
    let builder = schema.to_builder();
    Some(match kind {
        ColumnKind::Static => builder.static_column(name, ty),
        ColumnKind::Regular => builder.regular(name, ty),
    })
}

async fn alter(shard: &Shard, client: &SharedClient, table: TableId, op: Op) {
    let (old, new) = {
        let client = &mut *client.borrow_mut();
        let old = client.table(table).expect("just chosen").schema.clone();
        let builder = match op {
            Op::DropTable => None,
            Op::AddColumn if client.rng.chance(1, 2) && with_recreated_column(&old).is_some() => {
                with_recreated_column(&old)
            }
            Op::AddColumn => {
                let types = [
                    CqlType::Int,
                    CqlType::Text,
                    CqlType::set(CqlType::Int),
                    CqlType::map(CqlType::Int, CqlType::Text),
                ];
                let ty = if old.has_counters() { CqlType::Counter } else { client.rng.pick(&types).clone() };
                let name = format!("x{}", old.column_id_bound());
                Some(old.to_builder().regular(name, ty))
            }
            Op::DropColumn => {
                let may_go: Vec<&str> = old
                    .columns()
                    .iter()
                    .map(|column| column.name.as_str())
                    .filter(|name| *name != content::MARKS && *name != "n")
                    .collect();
                if may_go.len() < 2 {
                    return;
                }
                let name = client.rng.pick(&may_go).to_string();
                Some(old.to_builder().drop_column(&name, client.last_write_us()))
            }
            _ => Some(old.to_builder().options(random_options(client, old.has_counters()))),
        };
        let bound = old.column_id_bound();
        (old, builder.map(|builder| builder.build_with_ids_from(bound).expect("a table that was altered")))
    };
    let settings = random_settings(&mut client.borrow_mut().rng);
    let pending = PendingChange { table, before: Some(old.clone()), after: new.clone() };
    change(shard, client, pending, move |catalog| match new {
        Some(new) => catalog.alter_table(new, settings),
        None => catalog.drop_table(&old.keyspace, &old.name),
    })
    .await;
}
