//! An SSTable with partitions of several shards becomes some for each shard.
//!
//! SSTables from elsewhere and those of a start with another number of shards are read by every shard, each leaving out
//! what is not its own, and no shard may replace one by itself. So one shard, whose turn it is, reads it whole and deals its
//! partitions out; nothing is merged and nothing purged.
//!
//! 1. Every shard opens what was written for it, and holds its files still (in the order of the shards: two that
//!    do this at once do not wait for each other).
//! 2. The record is made durable: from here on the outputs count.
//! 3. Every shard has its outputs in the place of the input, in one step each; what it shows before and after is the same.
//! 4. When all have, the files are sealed and removed as after any job (`replace`). Until then no job takes the outputs.

use std::rc::Rc;

use compaction::Layout;
use model::{PartitionRange, TableId};
use reader::{Fragment, ReadSpec, Reader, Source, Step};
use runtime::{CpuGroup, IoClass, Shard};
use sstable::name::SstableName;
use sstable::read::{SSTable, SSTableSource};

use super::error::JobError;
use super::job::{Control, Done, FRAGMENTS_A_CHECK, Surroundings};
use super::output::{Cutter, Maker};
use super::record::{self, NotStored, Record};
use super::replace::{Replaced, finish};
use crate::error::EngineError;
use crate::shard::EngineShard;
use crate::table::Table;

/// The turn of a shard: SSTables are dealt out to those that read them by their names.
pub(super) fn is_turn(shard: &Shard, name: SstableName) -> bool {
    let number = crate::table::files::number(&name).unwrap_or(0);
    number % u64::from(shard.shard_count()) == u64::from(shard.id())
}

/// Deals `input` out. `layout` is how the table's strategy cuts a rewritten SSTable of its level.
pub(super) async fn run(
    around: &Surroundings,
    control: &Rc<Control>,
    table: Rc<Table>,
    input: Rc<SSTable>,
    layout: Layout,
) -> Result<Done, JobError> {
    let shard = &around.shard;
    let shards = shard.shard_count();
    let schema = table.schema();
    let cutter = |owner: u32| {
        let maker = Maker {
            shard: shard.clone(),
            table: table.clone(),
            schema: schema.clone(),
            cache: around.cache.clone(),
            host_id: around.host_id,
            sstable_version: around.sstable_version,
            large_data: around.large_data.clone(),
            delta_bases: Maker::delta_bases(std::slice::from_ref(&input)),
            expected_partitions: input.partition_count().div_ceil(u64::from(shards)),
            owner,
        };
        let run_id = input.messina().and_then(|info| info.run_id).filter(|_| layout.is_run);
        Cutter::new(Rc::new(maker), layout.clone(), "reshard").of_run(run_id)
    };
    let mut cutters: Vec<Cutter> = (0..shards).map(cutter).collect();
    let dealt = deal(around, control, &table, &input, &mut cutters).await;
    let result = match dealt {
        Ok(()) => {
            let outputs: Vec<Vec<Rc<SSTable>>> = cutters.iter_mut().map(Cutter::take_complete).collect();
            let committed = commit(shard, control, &table, &input, &outputs).await;
            if matches!(&committed, Err(error) if !matches!(error, JobError::InDoubt(_))) {
                let names: Vec<SstableName> = outputs.iter().flatten().map(|output| output.name()).collect();
                drop(outputs);
                // What remains after an error is removed by the next start.
                let _ = sstable::write::remove_sstables(shard.files(), &table.dir, &names).await;
                return Err(committed.expect_err("matched above"));
            }
            committed.map(|()| outputs)
        }
        Err(error) => Err(error),
    };
    let outputs = match result {
        Ok(outputs) => outputs,
        Err(error) => {
            for cutter in &mut cutters {
                cutter.abort().await;
            }
            return Err(error);
        }
    };
    let sum = |bytes: fn(&SSTable) -> u64| outputs.iter().flatten().map(|output| bytes(output)).sum();
    Ok(Done {
        input_bytes: input.data_bytes() + input.index_bytes(),
        output_bytes: sum(|output| output.data_bytes() + output.index_bytes()),
        plain_input_bytes: input.uncompressed_bytes(),
        plain_output_bytes: sum(SSTable::uncompressed_bytes),
        input_partitions: input.partition_count(),
        output_partitions: sum(SSTable::partition_count),
        ..Done::default()
    })
}

/// Reads the input, and gives each partition to its owner's cutter.
async fn deal(
    around: &Surroundings,
    control: &Rc<Control>,
    table: &Rc<Table>,
    input: &Rc<SSTable>,
    cutters: &mut [Cutter],
) -> Result<(), JobError> {
    let shard = &around.shard;
    let spec = ReadSpec::new(table.schema(), PartitionRange::all());
    let source = SSTableSource::new(input.clone(), IoClass::Compaction).progress(control.read_bytes.clone());
    let mut reader = Rc::new(source).reader(&spec);
    let (mut owner, mut fragments) = (0, 0u64);
    loop {
        match reader.next()? {
            Step::Ready(fragment) => {
                if let Fragment::PartitionStart { key, .. } = &fragment {
                    owner = table.owner(key.token()) as usize;
                }
                cutters[owner].take(fragment).await?;
                if cutters[owner].wants_write() {
                    cutters[owner].write_out().await?;
                }
            }
            Step::Load => {
                control.check()?;
                let read_bytes = control.read_bytes.get();
                around.throttle.pass(shard, read_bytes, control.id, || control.stop.get()).await;
                control.check()?;
                reader.load().await?;
            }
            Step::End => break,
        }
        fragments += 1;
        if fragments.is_multiple_of(FRAGMENTS_A_CHECK) && shard.need_preempt() {
            control.check()?;
            shard.yield_now().await;
        }
    }
    control.check()?;
    for cutter in cutters {
        cutter.end_sstable().await?;
    }
    Ok(())
}

/// The outputs, by owner, take the input's place on all shards.
async fn commit(
    shard: &Shard,
    control: &Control,
    table: &Rc<Table>,
    input: &Rc<SSTable>,
    outputs: &[Vec<Rc<SSTable>>],
) -> Result<(), JobError> {
    let id = table.schema().id;
    let names: Vec<Vec<SstableName>> =
        outputs.iter().map(|outputs| outputs.iter().map(|output| output.name()).collect()).collect();
    let mut held = 0;
    let prepared = prepare_all(shard, id, &names, &mut held).await;
    let result = match prepared {
        Ok(()) => commit_held(shard, control, table, input.name(), &names).await,
        Err(error) => Err(error),
    };
    for owner in 0..held {
        // A shard that is gone holds nothing.
        let _ = shard.call(owner, CpuGroup::Compaction, move |shard| async move { let_go(&shard, id) }).await;
    }
    result
}

async fn prepare_all(
    shard: &Shard,
    id: TableId,
    names: &[Vec<SstableName>],
    held: &mut u32,
) -> Result<(), JobError> {
    for (owner, names) in (0..).zip(names) {
        let names = names.clone();
        let call = shard.call(owner, CpuGroup::Compaction, move |shard| async move {
            prepare(&shard, id, &names).await.map_err(|error| error.to_string())
        });
        *held = owner + 1;
        call.await.map_err(|_| JobError::Stopped)?.map_err(JobError::Refused)?;
    }
    Ok(())
}

/// Step 1, on each shard.
async fn prepare(shard: &Shard, id: TableId, names: &[SstableName]) -> Result<(), EngineError> {
    let engine = EngineShard::of(shard)?;
    let table = engine.table(id)?;
    table.files_lock.hold().await;
    for name in names {
        let (files, cache) = (shard.files(), engine.cache());
        let opened = SSTable::open_unsealed(files, &table.dir, *name, cache, IoClass::Compaction).await;
        let opened = opened.map_err(|error| EngineError::SSTable(error.to_string()))?;
        table.incoming.borrow_mut().push(opened);
    }
    Ok(())
}

/// The end of step 1, and of it all, on each shard.
fn let_go(shard: &Shard, id: TableId) {
    let table = EngineShard::of(shard).and_then(|engine| engine.table(id));
    if let Ok(table) = table {
        table.incoming.take();
        table.files_lock.release();
    }
}

async fn commit_held(
    shard: &Shard,
    control: &Control,
    table: &Rc<Table>,
    input: SstableName,
    names: &[Vec<SstableName>],
) -> Result<(), JobError> {
    control.check()?;
    let id = table.schema().id;
    let record = Record { outputs: names.concat(), inputs: vec![input] };
    let number = table.take_generation(shard.shard_count());
    match record::store(shard.files(), &table.dir, number, &record).await {
        Ok(()) => {}
        Err(NotStored::Absent(error)) => return Err(JobError::File(error)),
        Err(NotStored::InDoubt(error)) => {
            table.freeze([input].into_iter());
            return Err(JobError::InDoubt(error));
        }
    }
    for owner in 0..shard.shard_count() {
        let swap = move |shard: Shard| async move { swap(&shard, id, input) };
        // The table may be gone there.
        let _ = shard.call(owner, CpuGroup::Compaction, swap).await;
    }
    let finished = finish(shard, table, number, &record, || control.leave.get()).await;
    if finished == Replaced::Wholly {
        for (owner, names) in (0..).zip(names) {
            let names = names.clone();
            let thaw = move |shard: Shard| async move { thaw(&shard, id, &names) };
            let _ = shard.call(owner, CpuGroup::Compaction, thaw).await;
        }
    }
    Ok(())
}

/// Step 3, on each shard.
fn swap(shard: &Shard, id: TableId, input: SstableName) {
    let Ok(engine) = EngineShard::of(shard) else { return };
    let Ok(table) = engine.table(id) else { return };
    let incoming = table.incoming.take();
    let names: Vec<SstableName> = incoming.iter().map(|sstable| sstable.name()).collect();
    table.freeze(names.iter().copied());
    let gone: Vec<Rc<SSTable>> =
        table.sstables().iter().filter(|sstable| sstable.name() == input).cloned().collect();
    table.replace_sstables(&gone, &incoming);
    engine.compactions().resharded(&table, input, &names);
}

/// The end of step 4, on each shard.
fn thaw(shard: &Shard, id: TableId, names: &[SstableName]) {
    let Ok(engine) = EngineShard::of(shard) else { return };
    let Ok(table) = engine.table(id) else { return };
    table.thaw(names);
    engine.compactions().nudge(&table);
}
