//! One compaction, from its plan to the replaced SSTables.
//!
//! ```text
//! inputs -> disjoint chains -> MergeReader -> (own partitions) -> CompactReader -> Cutter -> SSTables
//!                                                                       |
//!                                                                       garbage -> SSTable
//! ```
//! Fragments pass through one at a time in the turns of the `Compaction` group; reads run ahead of the merge,
//! and writes follow it. At the end the outputs replace the inputs (`replace`).
//!
//! **Releasing inputs early.** In a job over runs, each output that ends between two partitions is committed
//! at once, together with the removal of the inputs that end before the next partition. An input that ends
//! later stays whole, and may hold data that was deleted by a tombstone that the job has purged and whose
//! SSTable was removed. Purged data is therefore kept in an SSTable of its own ("garbage collection"), which
//! is committed with the outputs and removed with the last input that overlaps it. At any point, with or
//! without a crash, the table's content is unchanged.
//!
//! **Shadow.** Data that other SSTables delete or overwrite is left out of the merge (`ShadowReader`). Those
//! SSTables stay, and no job may drop their tombstones while an input of this job is in the table.
//!
//! A job that fails or is stopped keeps what it has committed and removes its other outputs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use base::broken;
use compaction::garbage::Granularity;
use compaction::{Layout, Plan};
use model::{PartitionKey, PartitionRange, RingPosition};
use reader::{
    ChainReader, CompactReader, FilterReader, Fragment, Garbage, Keep, MergeCounts, MergeReader, ReadSpec,
    Reader, ShadowReader, Shadowing, Source, Step,
};
use runtime::{FileError, IoClass, Shard};
use sstable::name::SSTableName;
use sstable::read::{ChunkCache, SSTable, SSTableSource};
use sstable::write::SSTableWriter;

use super::error::JobError;
use super::host::CompactionHost;
use super::output::{Cut, OutputFactory, Outputs};
use super::purge::{Blocker, JobPurge, KeptTombstones, OwnSSTables};
use super::replace::{Replaced, replace};
use super::throttle::Throttle;
use crate::options::SSTableForm;
use crate::table::Table;
use crate::table::large_data_log::LargeDataLog;

/// Number of fragments between two checks whether the turn is over.
pub(super) const FRAGMENTS_A_CHECK: u64 = 16;

/// A running job as seen by other tasks.
pub struct Control {
    pub id: u64,
    /// The job must end as soon as it can.
    pub(super) stop: Cell<bool>,
    /// The job must end even if errors prevent its cleanup: the shard stops, or the table is dropped.
    pub(super) leave: Cell<bool>,
    /// Uncompressed bytes of the inputs, in total and already read.
    pub total_bytes: u64,
    pub read_bytes: Rc<Cell<u64>>,
    /// Bytes on disk of completed outputs.
    pub written_bytes: Cell<u64>,
    /// In the shard's monotonic time.
    pub started_us: u64,
}

impl Control {
    pub(super) fn new(id: u64, total_bytes: u64, started_us: u64) -> Rc<Self> {
        Rc::new(Self {
            id,
            stop: Cell::new(false),
            leave: Cell::new(false),
            total_bytes,
            read_bytes: Rc::default(),
            written_bytes: Cell::new(0),
            started_us,
        })
    }

    pub fn stop(&self) {
        self.stop.set(true);
    }

    pub fn leave(&self) {
        self.stop.set(true);
        self.leave.set(true);
    }

    pub(super) fn check(&self) -> Result<(), JobError> {
        if self.stop.get() { Err(JobError::Stopped) } else { Ok(()) }
    }
}

/// The parts of its shard that a job uses.
#[derive(Clone)]
pub(super) struct JobContext {
    pub(super) shard: Shard,
    pub(super) cache: Rc<ChunkCache>,
    pub(super) host_id: [u8; 16],
    /// The format in which outputs are written.
    pub(super) form: SSTableForm,
    pub(super) large_data: Rc<LargeDataLog>,
    pub(super) throttle: Rc<Throttle>,
}

/// The result of a job.
#[derive(Clone, Debug, Default)]
pub struct JobStats {
    /// Bytes on disk.
    pub input_bytes: u64,
    pub output_bytes: u64,
    /// Uncompressed bytes.
    pub plain_input_bytes: u64,
    pub plain_output_bytes: u64,
    pub input_partitions: u64,
    pub output_partitions: u64,
    pub last_key: Option<PartitionKey>,
    /// The SSTables that the job has added to the table.
    pub outputs: Vec<SSTableName>,
    /// Bytes on disk of each SSTable in `outputs`.
    pub output_sizes: Vec<u64>,
    pub kept_tombstones: KeptTombstones,
    /// The number of partitions merged from one input, from two inputs, and so on. A chain of inputs that do
    /// not overlap counts as one.
    pub merged: Vec<(u32, u64)>,
}

/// The SSTables to merge, and the rules of the merge.
pub(super) struct JobInput {
    pub(super) table: Rc<Table>,
    pub(super) inputs: Vec<Rc<SSTable>>,
    /// Fully expired SSTables: removed without being read.
    pub(super) expired: Vec<Rc<SSTable>>,
    /// Data that these SSTables delete is left out.
    pub(super) shadow: Option<Shadow>,
    pub(super) layout: Layout,
    pub(super) release_early: bool,
    /// Tombstones from before this time may be dropped.
    pub(super) gc_before_s: u32,
    /// The reason reported for tombstones that are kept because of `gc_before_s`.
    pub(super) young: Blocker,
    pub(super) now_s: u32,
    pub(super) origin: &'static str,
    /// SSTables that no other job may take: the inputs, and the SSTables that this job has added to the
    /// table, until it has ended.
    pub(super) own: OwnSSTables,
}

/// SSTables that are not inputs and whose tombstones and cells shadow data of the inputs.
pub(super) struct Shadow {
    pub(super) by: Vec<Rc<SSTable>>,
    pub(super) granularity: Granularity,
}

impl Shadow {
    /// `data`, which is `inputs` merged, without the data that is shadowed.
    fn over(&self, spec: &ReadSpec, inputs: &[Rc<SSTable>], data: Box<dyn Reader>) -> Box<dyn Reader> {
        let first = inputs.iter().map(|input| input.first_key()).min().expect("there is an input");
        let last = inputs.iter().map(|input| input.last_key()).max().expect("there is an input");
        let partitions = PartitionRange::Between {
            start: RingPosition::BeforeKey(first.clone()),
            end: RingPosition::AfterKey(last.clone()),
        };
        let of_range = ReadSpec::new(spec.schema.clone(), partitions);
        let shadow = MergeReader::of(&of_range, chains(&self.by, &of_range, None));
        let by = match self.granularity {
            Granularity::Row => Shadowing::Rows,
            Granularity::Cell => Shadowing::Cells,
        };
        Box::new(ShadowReader::new(spec, data, shadow, by))
    }
}

impl JobInput {
    pub(super) fn of(
        plan: &Plan,
        table: &Rc<Table>,
        inputs: Vec<Rc<SSTable>>,
        expired: Vec<Rc<SSTable>>,
    ) -> Self {
        let own = inputs.iter().chain(&expired).map(|sstable| sstable.name()).collect();
        Self {
            table: table.clone(),
            inputs,
            expired,
            shadow: None,
            layout: plan.layout.clone(),
            release_early: plan.release_early,
            gc_before_s: 0,
            young: Blocker::Young,
            now_s: 0,
            origin: "compaction",
            own: Rc::new(RefCell::new(own)),
        }
    }
}

/// Runs the job. After the end, `own` holds the SSTables that must stay as they are until a restart.
pub(super) async fn run(
    around: &JobContext,
    control: &Rc<Control>,
    work: JobInput,
) -> Result<JobStats, JobError> {
    let JobInput {
        table,
        inputs,
        expired,
        shadow,
        layout,
        release_early,
        gc_before_s,
        young,
        now_s,
        origin,
        own,
    } = work;
    let shard = &around.shard;
    let schema = table.schema();
    let maker = Rc::new(OutputFactory {
        shard: shard.clone(),
        table: table.clone(),
        schema: schema.clone(),
        cache: around.cache.clone(),
        host_id: around.host_id,
        form: around.form,
        large_data: around.large_data.clone(),
        delta_bases: OutputFactory::delta_bases(&inputs),
        repaired_at_ms: OutputFactory::repaired_at_ms(&inputs),
        expected_partitions: inputs.iter().map(|input| input.partition_count()).sum(),
        owner: shard.id(),
    });
    let kept: Rc<RefCell<KeptTombstones>> = Rc::default();
    let purge = JobPurge::new(table.clone(), now_s, (gc_before_s, young), &inputs, own.clone(), kept.clone());
    let mut job = Job {
        around: around.clone(),
        control: control.clone(),
        table: table.clone(),
        maker: maker.clone(),
        own,
        remaining: inputs.iter().chain(&expired).cloned().collect(),
        expired,
        garbage: Garbage::default(),
        garbage_writer: None,
        is_in_garbage: false,
        garbage_sstables: vec![],
        outputs: Outputs::new(maker, layout, origin),
        done: JobStats::default(),
        unfinished: None,
        release_early,
    };
    let each = |bytes: fn(&SSTable) -> u64| job.remaining.iter().map(|input| bytes(input)).sum();
    job.done.input_bytes = each(|input| input.data_bytes() + input.index_bytes());
    job.done.plain_input_bytes = each(SSTable::uncompressed_bytes);
    job.done.input_partitions = each(SSTable::partition_count);

    let spec = ReadSpec::new(schema, PartitionRange::all());
    let counts = MergeCounts::default();
    let mut chains = chains(&inputs, &spec, Some(&control.read_bytes));
    if chains.len() > 1 && broken::is("compaction_input") {
        chains.pop();
    }
    let is_single = chains.len() == 1;
    let merged: Box<dyn Reader> = if is_single {
        chains.remove(0)
    } else {
        Box::new(MergeReader::new(&spec, chains).counting(counts.clone()))
    };
    let merged = match &shadow {
        Some(shadow) => shadow.over(&spec, &inputs, merged),
        None => merged,
    };
    let is_foreign = inputs.iter().any(|input| !table.is_written_here(input, shard.shard_count()));
    let owner = table.clone();
    let mine: Box<dyn Reader> = if is_foreign {
        Box::new(FilterReader::new(merged, move |key: &PartitionKey| owner.owns(key.token())))
    } else {
        merged
    };
    let mut reader =
        CompactReader::new(mine, purge, Keep::Needed).needing_markers(table.schema().needs_row_marker());
    if job.release_early {
        reader = reader.collecting(job.garbage.clone());
    }
    drop(inputs);
    let result = match job.merge(&mut reader).await {
        Ok(()) => job.commit_all().await,
        Err(error) => Err(error),
    };
    drop(reader);
    if let Err(error) = result {
        job.abort().await;
        return Err(error);
    }
    if let Some(why) = job.unfinished {
        return Err(JobError::Unfinished(why));
    }
    job.done.kept_tombstones = kept.take();
    job.done.merged = if is_single { vec![(1, job.done.input_partitions)] } else { counts.get() };
    Ok(job.done)
}

/// Readers over all inputs. SSTables that do not overlap are read one after the other by one reader, like the
/// fragments of a run. The number of bytes read is added to `progress`.
fn chains(inputs: &[Rc<SSTable>], spec: &ReadSpec, progress: Option<&Rc<Cell<u64>>>) -> Vec<Box<dyn Reader>> {
    let mut sorted: Vec<&Rc<SSTable>> = inputs.iter().collect();
    sorted.sort_by(|a, b| a.first_key().cmp(b.first_key()));
    let mut chains: Vec<Vec<&Rc<SSTable>>> = vec![];
    for input in sorted {
        let ends_before = |chain: &&mut Vec<&Rc<SSTable>>| {
            chain.last().is_some_and(|last| last.last_key() < input.first_key())
        };
        match chains.iter_mut().find(ends_before) {
            Some(chain) => chain.push(input),
            None => chains.push(vec![input]),
        }
    }
    let source = |input: &Rc<SSTable>| {
        let source = SSTableSource::new(input.clone(), IoClass::Compaction);
        let source = match progress {
            Some(bytes) => source.progress(bytes.clone()),
            None => source,
        };
        Rc::new(source) as Rc<dyn Source>
    };
    let reader = |chain: Vec<&Rc<SSTable>>| match chain.as_slice() {
        [only] => source(only).reader(spec),
        several => Box::new(ChainReader::new(spec.clone(), several.iter().map(|input| source(input)))),
    };
    chains.into_iter().map(reader).collect()
}

struct Job {
    around: JobContext,
    control: Rc<Control>,
    table: Rc<Table>,
    maker: Rc<OutputFactory>,
    own: OwnSSTables,
    /// Inputs that are still in the table, including the expired ones.
    remaining: Vec<Rc<SSTable>>,
    expired: Vec<Rc<SSTable>>,
    outputs: Outputs,
    /// Purged data that is not written yet.
    garbage: Garbage,
    garbage_writer: Option<SSTableWriter>,
    /// A partition of garbage has begun and not ended.
    is_in_garbage: bool,
    /// Garbage SSTables that are in the table.
    garbage_sstables: Vec<Rc<SSTable>>,
    done: JobStats,
    /// The reason why replaced files are still there.
    unfinished: Option<Arc<FileError>>,
    release_early: bool,
}

impl Job {
    async fn merge(&mut self, reader: &mut dyn Reader) -> Result<(), JobError> {
        let shard = self.around.shard.clone();
        let mut fragments = 0u64;
        loop {
            match reader.next()? {
                Step::Ready(fragment) => {
                    let cut = match &self.outputs {
                        Outputs::Row(cutter) => cutter.cut_before(&fragment),
                        Outputs::Windows(_) => Cut::None,
                    };
                    if cut != Cut::None
                        && let Outputs::Row(cutter) = &mut self.outputs
                    {
                        cutter.cut(cut, &fragment).await?;
                    }
                    // Only here has every partition before this one its rows in complete outputs. If a part
                    // of this partition is already in the garbage, the next such cut releases the inputs.
                    if cut == Cut::Between
                        && self.release_early
                        && let Fragment::PartitionStart { key, .. } = &fragment
                    {
                        self.write_garbage(Some(key)).await?;
                        if !self.is_in_garbage {
                            self.release(key).await?;
                        }
                    }
                    match &mut self.outputs {
                        Outputs::Row(cutter) => cutter.push(fragment)?,
                        Outputs::Windows(windows) => windows.push(fragment).await?,
                    }
                }
                Step::Load => {
                    self.control.check()?;
                    let (control, read_bytes) = (&self.control, self.control.read_bytes.get());
                    self.around.throttle.pass(&shard, read_bytes, control.id, || control.stop.get()).await;
                    self.control.check()?;
                    reader.load().await?;
                    if shard.need_preempt() {
                        shard.yield_now().await;
                    }
                }
                Step::End => break,
            }
            if self.outputs.wants_write() {
                self.outputs.write_out().await?;
                self.write_garbage(None).await?;
            }
            fragments += 1;
            // Reading the time costs a good part of the work for one fragment.
            if fragments.is_multiple_of(FRAGMENTS_A_CHECK) && shard.need_preempt() {
                self.control.check()?;
                shard.yield_now().await;
            }
        }
        self.control.check()?;
        self.outputs.end_sstables().await
    }

    /// Writes purged data to an SSTable of its own, up to the partition `until`.
    async fn write_garbage(&mut self, until: Option<&PartitionKey>) -> Result<(), JobError> {
        loop {
            let is_later = |fragment: &Fragment| matches!(fragment, Fragment::PartitionStart { key, .. } if Some(key) == until);
            let Some(fragment) = self.garbage.borrow_mut().pop_front_if(|fragment| !is_later(fragment))
            else {
                return Ok(());
            };
            match &fragment {
                Fragment::PartitionStart { .. } => self.is_in_garbage = true,
                Fragment::PartitionEnd => self.is_in_garbage = false,
                _ => {}
            }
            let writer = match &mut self.garbage_writer {
                Some(writer) => writer,
                empty => empty.insert(self.maker.begin("garbage_collection", 0, None).await?),
            };
            writer.push(fragment)?;
            if writer.wants_write() {
                writer.write_out().await?;
            }
        }
    }

    /// Commits the complete outputs and removes the inputs that end before `next`.
    async fn release(&mut self, next: &PartitionKey) -> Result<(), JobError> {
        let exhausted: Vec<Rc<SSTable>> = (self.remaining.iter())
            .filter(|input| input.last_key() < next || is_among(&self.expired, input))
            .cloned()
            .collect();
        if exhausted.is_empty() {
            return Ok(());
        }
        let mut garbage = vec![];
        if let Some(writer) = self.garbage_writer.take() {
            garbage.extend(self.maker.complete(writer).await?);
        }
        let left: Vec<&Rc<SSTable>> =
            self.remaining.iter().filter(|input| !is_among(&exhausted, input)).collect();
        let is_needed = |garbage: &Rc<SSTable>| {
            left.iter().any(|input| {
                input.first_key() <= garbage.last_key() && garbage.first_key() <= input.last_key()
            })
        };
        let (garbage, needless): (Vec<_>, Vec<_>) = garbage.into_iter().partition(is_needed);
        let (kept, gone): (Vec<_>, Vec<_>) = self.garbage_sstables.drain(..).partition(is_needed);
        self.garbage_sstables = kept;
        self.maker.discard(needless).await;
        self.commit([exhausted, gone].concat(), garbage).await
    }

    async fn commit_all(&mut self) -> Result<(), JobError> {
        // No input remains for which the garbage could be needed.
        if let Some(writer) = self.garbage_writer.take() {
            let _ = writer.abort().await;
        }
        let gone = [self.remaining.clone(), std::mem::take(&mut self.garbage_sstables)].concat();
        self.commit(gone, vec![]).await
    }

    /// Replaces `gone` by the complete outputs and `garbage`.
    async fn commit(&mut self, gone: Vec<Rc<SSTable>>, garbage: Vec<Rc<SSTable>>) -> Result<(), JobError> {
        let outputs = self.outputs.take_complete();
        let added = [outputs.clone(), garbage.clone()].concat();
        if added.is_empty() && gone.is_empty() {
            return Ok(());
        }
        self.own.borrow_mut().extend(added.iter().map(|sstable| sstable.name()));
        let control = self.control.clone();
        let replaced = replace(&self.around.shard, &self.table, &gone, &added, || control.leave.get()).await;
        let is_certain = match &replaced {
            Ok(replaced) => matches!(replaced, Replaced::Wholly),
            Err(JobError::InDoubt(_)) => false,
            Err(_) => {
                self.forget(&added);
                self.maker.discard(added).await;
                return replaced.map(drop);
            }
        };
        if !is_certain {
            // SSTables of an uncertain replacement stay as they are until a restart.
            self.table.sstables.freeze(added.iter().chain(&gone).map(|sstable| sstable.name()));
        }
        let replaced = replaced?;
        self.forget(&gone);
        self.remaining.retain(|input| !is_among(&gone, input));
        self.garbage_sstables.extend(garbage);
        for output in &outputs {
            let bytes = output.data_bytes() + output.index_bytes();
            self.done.output_bytes += bytes;
            self.done.outputs.push(output.name());
            self.done.output_sizes.push(bytes);
            self.done.plain_output_bytes += output.uncompressed_bytes();
            self.done.output_partitions += output.partition_count();
            self.control.written_bytes.set(self.control.written_bytes.get() + bytes);
            self.done.last_key = self.done.last_key.take().max(Some(output.last_key().clone()));
        }
        if let Replaced::Unfinished(unfinished) = replaced
            && !self.control.leave.get()
        {
            self.unfinished.get_or_insert(unfinished.why.clone());
            let names: Vec<SSTableName> = added.iter().chain(&gone).map(|sstable| sstable.name()).collect();
            let table = self.table.clone();
            let thaw = async move |shard: Shard, _| {
                table.sstables.thaw(&names);
                if let Some(host) = CompactionHost::of(&shard) {
                    host.nudge(&table);
                }
            };
            unfinished.finish_later(&self.around.shard, &self.table, thaw);
        }
        Ok(())
    }

    fn forget(&self, sstables: &[Rc<SSTable>]) {
        let mut own = self.own.borrow_mut();
        own.retain(|name| sstables.iter().all(|sstable| sstable.name() != *name));
    }

    async fn abort(&mut self) {
        if let Some(writer) = self.garbage_writer.take() {
            // Files that remain after an error are removed by the next start.
            let _ = writer.abort().await;
        }
        self.outputs.abort().await;
    }
}

fn is_among(sstables: &[Rc<SSTable>], sstable: &Rc<SSTable>) -> bool {
    sstables.iter().any(|other| Rc::ptr_eq(other, sstable))
}
