//! Reshard: an SSTable with partitions of several shards is dealt out, as SSTables of its own for each shard.
//!
//! SSTables from elsewhere, and those written with another number of shards, are read by every shard, each
//! ignoring partitions of the others, and no shard may replace one by itself. So the one shard that is
//! responsible for it reads the SSTable and deals its partitions out. Nothing is merged or purged.
//!
//! 1. Every shard opens the outputs written for it and takes its `files_lock`. Locks are taken in the order
//!    of the shards, so two concurrent reshards do not deadlock.
//! 2. The record is made durable: from then on the outputs count.
//! 3. Every shard replaces the input by its outputs in one step; its visible data is the same before and
//!    after.
//! 4. When all shards have done so, the files are sealed and removed as after any job (`replace`). Until then
//!    no job takes the outputs.

use std::rc::Rc;

use compaction::Layout;
use model::{PartitionRange, TableId};
use reader::{Fragment, ReadSpec, Reader, Source, Step};
use runtime::{CpuGroup, IoClass, Shard};
use sstable::name::SSTableName;
use sstable::read::{SSTable, SSTableSource};

use super::error::JobError;
use super::host::CompactionHost;
use super::job::{Control, FRAGMENTS_A_CHECK, JobContext, JobStats};
use super::output::{Cutter, OutputFactory};
use super::record::{self, NotStored, Record};
use super::replace::{Replaced, finish};
use crate::error::EngineError;
use crate::table::Table;

/// Whether this shard is responsible for the SSTable: SSTables are assigned to shards by generation, round
/// robin.
pub(super) fn is_owner(shard: &Shard, name: SSTableName) -> bool {
    let number = crate::table::files::number(&name).unwrap_or(0);
    number % u64::from(shard.shard_count()) == u64::from(shard.id())
}

/// Deals `input` out. `layout` is the cut of the table's strategy for a rewritten SSTable of the input's
/// level.
pub(super) async fn run(
    around: &JobContext,
    control: &Rc<Control>,
    table: Rc<Table>,
    input: Rc<SSTable>,
    layout: Layout,
) -> Result<JobStats, JobError> {
    let mut dealer = Dealer::new(around, control, table, input, layout, "reshard");
    match deal(&mut dealer).await {
        Ok(()) => dealer.commit().await,
        Err(error) => {
            dealer.abort().await;
            Err(error)
        }
    }
}

/// Rewrites the content of one SSTable for the shards that own it, and then replaces the SSTable.
pub(super) struct Dealer {
    around: JobContext,
    pub(super) control: Rc<Control>,
    table: Rc<Table>,
    input: Rc<SSTable>,
    origin: &'static str,
    /// One cutter for each shard that has a part of the table.
    cutters: Vec<Cutter>,
    /// The owner of the current partition.
    owner: usize,
    /// Complete SSTables, by owner.
    complete: Vec<Vec<Rc<SSTable>>>,
    fragments: u64,
}

impl Dealer {
    pub(super) fn new(
        around: &JobContext,
        control: &Rc<Control>,
        table: Rc<Table>,
        input: Rc<SSTable>,
        layout: Layout,
        origin: &'static str,
    ) -> Self {
        let owners = if table.is_system() { 1 } else { around.shard.shard_count() as usize };
        let mut dealer = Self {
            around: around.clone(),
            control: control.clone(),
            table,
            input,
            origin,
            cutters: vec![],
            owner: 0,
            complete: vec![vec![]; owners],
            fragments: 0,
        };
        dealer.cutters = dealer.cut(&layout);
        dealer
    }

    fn cut(&self, layout: &Layout) -> Vec<Cutter> {
        let owners = self.complete.len() as u32;
        let run_id = self.input.messina().and_then(|info| info.run_id).filter(|_| layout.is_run);
        let cutter = |owner: u32| {
            let maker = OutputFactory {
                shard: self.around.shard.clone(),
                table: self.table.clone(),
                schema: self.table.schema(),
                cache: self.around.cache.clone(),
                host_id: self.around.host_id,
                form: self.around.form,
                large_data: self.around.large_data.clone(),
                delta_bases: OutputFactory::delta_bases(std::slice::from_ref(&self.input)),
                repaired_at_ms: OutputFactory::repaired_at_ms(std::slice::from_ref(&self.input)),
                expected_partitions: self.input.partition_count().div_ceil(u64::from(owners)),
                owner,
            };
            Cutter::new(Rc::new(maker), layout.clone(), self.origin).of_run(run_id)
        };
        (0..owners).map(cutter).collect()
    }

    /// Passes the next fragment to its owner's cutter. Ends if the job is stopped, and yields when the turn
    /// is over.
    pub(super) async fn take(&mut self, fragment: Fragment) -> Result<(), JobError> {
        if let Fragment::PartitionStart { key, .. } = &fragment {
            self.owner = if self.cutters.len() == 1 { 0 } else { self.table.owner(key.token()) as usize };
        }
        let cutter = &mut self.cutters[self.owner];
        cutter.take(fragment).await?;
        if cutter.wants_write() {
            cutter.write_out().await?;
        }
        self.fragments += 1;
        if self.fragments.is_multiple_of(FRAGMENTS_A_CHECK) && self.around.shard.need_preempt() {
            self.control.check()?;
            self.around.shard.yield_now().await;
        }
        Ok(())
    }

    /// Waits until `control.read_bytes` is within the throughput limit of compactions.
    pub(super) async fn pace(&self) -> Result<(), JobError> {
        let control = &self.control;
        control.check()?;
        let (shard, read_bytes) = (&self.around.shard, control.read_bytes.get());
        self.around.throttle.pass(shard, read_bytes, control.id, || control.stop.get()).await;
        control.check()
    }

    /// Completes the SSTables being written. The following ones are cut according to `layout`, if it is
    /// given.
    pub(super) async fn end_sstables(&mut self, layout: Option<&Layout>) -> Result<(), JobError> {
        for (cutter, complete) in self.cutters.iter_mut().zip(&mut self.complete) {
            cutter.end_sstable().await?;
            complete.append(&mut cutter.take_complete());
        }
        if let Some(layout) = layout {
            self.cutters = self.cut(layout);
        }
        Ok(())
    }

    /// Replaces the input by the complete SSTables.
    pub(super) async fn commit(mut self) -> Result<JobStats, JobError> {
        let outputs = std::mem::take(&mut self.complete);
        let Self { around, control, table, input, .. } = self;
        let shard = &around.shard;
        match commit(shard, &control, &table, &input, &outputs).await {
            Ok(()) => {}
            Err(error @ JobError::InDoubt(_)) => return Err(error),
            Err(error) => {
                let names: Vec<SSTableName> = outputs.iter().flatten().map(|output| output.name()).collect();
                drop(outputs);
                // Files that remain after an error are removed by the next start.
                let _ = sstable::write::remove_sstables(shard.files(), &table.dir, &names).await;
                return Err(error);
            }
        }
        let sum = |bytes: fn(&SSTable) -> u64| outputs.iter().flatten().map(|output| bytes(output)).sum();
        Ok(JobStats {
            input_bytes: input.data_bytes() + input.index_bytes(),
            output_bytes: sum(|output| output.data_bytes() + output.index_bytes()),
            plain_input_bytes: input.uncompressed_bytes(),
            plain_output_bytes: sum(SSTable::uncompressed_bytes),
            input_partitions: input.partition_count(),
            output_partitions: sum(SSTable::partition_count),
            merged: vec![(1, input.partition_count())],
            ..JobStats::default()
        })
    }

    /// Removes the SSTables that were written.
    pub(super) async fn abort(mut self) {
        for cutter in &mut self.cutters {
            cutter.abort().await;
        }
        let names: Vec<SSTableName> = self.complete.iter().flatten().map(|output| output.name()).collect();
        self.complete.clear();
        if !names.is_empty() {
            // Files that remain after an error are removed by the next start.
            let files = self.around.shard.files();
            let _ = sstable::write::remove_sstables(files, &self.table.dir, &names).await;
        }
    }
}

/// Reads the input and passes each partition to its owner.
async fn deal(dealer: &mut Dealer) -> Result<(), JobError> {
    let spec = ReadSpec::new(dealer.table.schema(), PartitionRange::all());
    let source = SSTableSource::new(dealer.input.clone(), IoClass::Compaction);
    let mut reader = Rc::new(source.progress(dealer.control.read_bytes.clone())).reader(&spec);
    loop {
        match reader.next()? {
            Step::Ready(fragment) => dealer.take(fragment).await?,
            Step::Load => {
                dealer.pace().await?;
                reader.load().await?;
            }
            Step::End => break,
        }
    }
    dealer.control.check()?;
    dealer.end_sstables(None).await
}

/// Replaces the input by the outputs, which are ordered by owner, on all shards.
async fn commit(
    shard: &Shard,
    control: &Control,
    table: &Rc<Table>,
    input: &Rc<SSTable>,
    outputs: &[Vec<Rc<SSTable>>],
) -> Result<(), JobError> {
    let id = table.schema().id;
    let names: Vec<Vec<SSTableName>> =
        outputs.iter().map(|outputs| outputs.iter().map(|output| output.name()).collect()).collect();
    let mut held = 0;
    let prepared = prepare_all(shard, id, input.name(), &names, &mut held).await;
    let result = match prepared {
        Ok(()) => commit_held(shard, control, table, input.name(), &names).await,
        Err(error) => Err(error),
    };
    let (input, in_doubt) = (input.name(), matches!(result, Err(JobError::InDoubt(_))));
    for owner in 0..held {
        let resume_table = move |shard: Shard| async move { resume_table(&shard, id, input, in_doubt).await };
        // A shard that has stopped holds no lock.
        let _ = shard.call(owner, CpuGroup::Compaction, resume_table).await;
    }
    result
}

async fn prepare_all(
    shard: &Shard,
    id: TableId,
    input: SSTableName,
    names: &[Vec<SSTableName>],
    held: &mut u32,
) -> Result<(), JobError> {
    for (owner, names) in (0..).zip(names) {
        let names = names.clone();
        let call = shard.call(owner, CpuGroup::Compaction, move |shard| async move {
            prepare(&shard, id, input, &names).await.map_err(|error| error.to_string())
        });
        *held = owner + 1;
        call.await.map_err(|_| JobError::Stopped)?.map_err(JobError::Refused)?;
    }
    Ok(())
}

/// Step 1, on each shard.
async fn prepare(
    shard: &Shard,
    id: TableId,
    input: SSTableName,
    names: &[SSTableName],
) -> Result<(), EngineError> {
    let host = CompactionHost::of(shard).ok_or(EngineError::Stopped)?;
    let table = host.table(id)?;
    table.files_lock.hold().await;
    for name in names {
        let (files, cache) = (shard.files(), host.cache());
        let opened = SSTable::open_unsealed(files, &table.dir, *name, cache, IoClass::Compaction).await;
        let opened = opened.map_err(|error| EngineError::SSTable(error.to_string()))?;
        table.sstables.incoming.borrow_mut().push(opened);
    }
    table.begin_removal(shard.files(), &[input]).await?;
    Ok(())
}

/// Undoes the preparations of step 1 on each shard, after success or failure.
async fn resume_table(shard: &Shard, id: TableId, input: SSTableName, in_doubt: bool) {
    if let Some(Ok(table)) = CompactionHost::of(shard).map(|host| host.table(id)) {
        table.sstables.incoming.take();
        if !in_doubt {
            table.commit_removal(shard.files(), &[input]).await;
        }
        table.files_lock.release();
    }
}

async fn commit_held(
    shard: &Shard,
    control: &Control,
    table: &Rc<Table>,
    input: SSTableName,
    names: &[Vec<SSTableName>],
) -> Result<(), JobError> {
    control.check()?;
    let id = table.schema().id;
    let record = Record { outputs: names.concat(), inputs: vec![input] };
    let number = table.sstables.take_generation(shard.shard_count());
    match record::store(shard.files(), &table.dir, number, &record).await {
        Ok(()) => {}
        Err(NotStored::Absent(error)) => return Err(JobError::File(error)),
        Err(NotStored::InDoubt(error)) => {
            table.sstables.freeze([input].into_iter());
            return Err(JobError::InDoubt(error));
        }
    }
    for owner in 0..names.len() as u32 {
        let swap = move |shard: Shard| async move { swap(&shard, id, input) };
        // The table may have been dropped on that shard.
        let _ = shard.call(owner, CpuGroup::Compaction, swap).await;
    }
    let owners = names.len() as u32;
    match finish(shard, table, number, &record, || control.leave.get()).await {
        Replaced::Wholly => thaw_all(shard, id, owners, &record.outputs).await,
        Replaced::Unfinished(_) if control.leave.get() => {}
        Replaced::Unfinished(unfinished) => {
            // The outputs count, so they must not be removed.
            if let Some(host) = CompactionHost::of(shard) {
                host.report(table, &JobError::Unfinished(unfinished.why.clone()));
            }
            let thaw =
                async move |shard: Shard, record: Record| thaw_all(&shard, id, owners, &record.outputs).await;
            unfinished.finish_later(shard, table, thaw);
        }
    }
    Ok(())
}

async fn thaw_all(shard: &Shard, id: TableId, owners: u32, names: &[SSTableName]) {
    for owner in 0..owners {
        let names = names.to_vec();
        let thaw = move |shard: Shard| async move { thaw(&shard, id, &names) };
        let _ = shard.call(owner, CpuGroup::Compaction, thaw).await;
    }
}

/// Step 3, on each shard.
fn swap(shard: &Shard, id: TableId, input: SSTableName) {
    let Some(host) = CompactionHost::of(shard) else { return };
    let Ok(table) = host.table(id) else { return };
    let incoming = table.sstables.incoming.take();
    let names: Vec<SSTableName> = incoming.iter().map(|sstable| sstable.name()).collect();
    table.sstables.freeze(names.iter().copied());
    let gone: Vec<Rc<SSTable>> =
        table.sstables().iter().filter(|sstable| sstable.name() == input).cloned().collect();
    table.replace_sstables(&gone, &incoming);
    host.resharded(&table, input, &names);
}

/// The end of step 4, on each shard.
fn thaw(shard: &Shard, id: TableId, names: &[SSTableName]) {
    let Some(host) = CompactionHost::of(shard) else { return };
    let Ok(table) = host.table(id) else { return };
    table.sstables.thaw(names);
    host.nudge(&table);
}
