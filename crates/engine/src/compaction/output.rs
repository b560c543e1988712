//! The outputs of a job: one SSTable after the other, cut according to a layout.
//!
//! An SSTable ends before a partition, when it is large enough or the ring has passed a boundary. A partition
//! larger than an SSTable of a run is cut between two rows: the first part closes the range tombstone in
//! force, the second reopens it, and both have the partition tombstone, so that each part is correct by
//! itself.
//!
//! Outputs are complete but not sealed ([`SSTableWriter::finish_unsealed`]); they count when they are
//! committed.

use std::rc::Rc;
use std::sync::Arc;

use compaction::{Layout, RunPiece, Split};
use model::{PartitionKey, Position, RangeTombstoneChange, TableSchema, Tombstone};
use reader::Fragment;
use runtime::{IoClass, Shard};
use sstable::component::statistics::{DeltaBases, DeltaBasesCollector};
use sstable::name::{Generation, SSTableName};
use sstable::read::{ChunkCache, SSTable};
use sstable::write::{SSTableWriter, WriteOptions, remove_sstables};

use super::error::JobError;
use super::windows::Windows;
use crate::options::SSTableForm;
use crate::table::Table;
use crate::table::large_data_log::LargeDataLog;

/// Creates SSTables of one table on one shard.
pub(super) struct OutputFactory {
    pub(super) shard: Shard,
    pub(super) table: Rc<Table>,
    pub(super) schema: Arc<TableSchema>,
    pub(super) cache: Rc<ChunkCache>,
    pub(super) host_id: [u8; 16],
    pub(super) form: SSTableForm,
    pub(super) large_data: Rc<LargeDataLog>,
    pub(super) delta_bases: DeltaBases,
    /// See the function [`Self::repaired_at_ms`].
    pub(super) repaired_at_ms: i64,
    pub(super) expected_partitions: u64,
    /// The shard that owns the partitions of the outputs.
    pub(super) owner: u32,
}

impl OutputFactory {
    /// The bases of the delta encoding of times in the merge of `inputs`.
    pub(super) fn delta_bases(inputs: &[Rc<SSTable>]) -> DeltaBases {
        let mut bases = DeltaBasesCollector::new();
        inputs.iter().for_each(|input| bases.merge(&input.statistics().header.bases));
        bases.finish()
    }

    /// The repair time of the merge of `inputs`: the earliest of theirs; 0 if one is not repaired.
    pub(super) fn repaired_at_ms(inputs: &[Rc<SSTable>]) -> i64 {
        inputs.iter().map(|input| input.stats().repaired_at_ms).min().unwrap_or(0)
    }

    pub(super) async fn begin(
        &self,
        origin: &str,
        level: u32,
        run_id: Option<[u8; 16]>,
    ) -> Result<SSTableWriter, JobError> {
        let shards = self.shard.shard_count();
        let mut options = WriteOptions::for_table(&self.schema, origin, IoClass::Compaction);
        options.shard_count = shards;
        options.shard_id = self.owner;
        options.host_id = Some(self.host_id);
        options.expected_partitions = self.expected_partitions;
        options.delta_bases = self.delta_bases;
        options.repaired_at_ms = self.repaired_at_ms;
        options.level = level;
        options.run_id = run_id;
        self.form.apply_to(&mut options);
        self.large_data.apply_to(&mut options);
        let number = self.table.sstables.take_generation(shards);
        let name = SSTableName::big(self.form.version, Generation::Number(number));
        let files = self.shard.files();
        // The future is long and rarely used, so it is boxed: every job's task contains it.
        let create = SSTableWriter::create(files, &self.table.dir, name, self.schema.clone(), options);
        Ok(Box::pin(create).await?)
    }

    /// Completes and opens the written SSTable; `None` if nothing was written.
    pub(super) async fn complete(&self, writer: SSTableWriter) -> Result<Option<Rc<SSTable>>, JobError> {
        let Some(written) = Box::pin(writer.finish_unsealed()).await? else { return Ok(None) };
        self.large_data.written(&self.schema, &written);
        let (files, dir) = (self.shard.files(), &self.table.dir);
        match SSTable::open_unsealed(files, dir, written.name, &self.cache, IoClass::Compaction).await {
            Ok(sstable) => Ok(Some(sstable)),
            Err(error) => {
                // Files that remain after a second failure are removed by the next start.
                let _ = remove_sstables(files, dir, &[written.name]).await;
                Err(error.into())
            }
        }
    }

    /// Removes complete SSTables that were not committed.
    pub(super) async fn discard(&self, sstables: Vec<Rc<SSTable>>) {
        let names: Vec<SSTableName> = sstables.iter().map(|sstable| sstable.name()).collect();
        drop(sstables);
        if !names.is_empty() {
            // Files that remain after an error are removed by the next start.
            let _ = remove_sstables(self.shard.files(), &self.table.dir, &names).await;
        }
    }
}

/// The SSTables being written by a job: one at a time, or one for each window.
pub(super) enum Outputs {
    Row(Box<Cutter>),
    Windows(Windows),
}

impl Outputs {
    pub(super) fn new(maker: Rc<OutputFactory>, layout: Layout, origin: &'static str) -> Self {
        match layout.split {
            Split::Windows { window_us, windows_max } => {
                let each = Layout { split: Split::Nowhere, ..layout };
                Self::Windows(Windows::new(maker, each, origin, window_us, windows_max))
            }
            _ => Self::Row(Box::new(Cutter::new(maker, layout, origin))),
        }
    }

    pub(super) fn wants_write(&self) -> bool {
        match self {
            Self::Row(cutter) => cutter.wants_write(),
            Self::Windows(windows) => windows.wants_write(),
        }
    }

    pub(super) async fn write_out(&mut self) -> Result<(), JobError> {
        match self {
            Self::Row(cutter) => cutter.write_out().await,
            Self::Windows(windows) => windows.write_out().await,
        }
    }

    /// Completes the SSTables being written. Called between partitions.
    pub(super) async fn end_sstables(&mut self) -> Result<(), JobError> {
        match self {
            Self::Row(cutter) => cutter.end_sstable().await,
            Self::Windows(windows) => windows.end_sstables().await,
        }
    }

    /// The SSTables completed since the last call.
    pub(super) fn take_complete(&mut self) -> Vec<Rc<SSTable>> {
        match self {
            Self::Row(cutter) => cutter.take_complete(),
            Self::Windows(windows) => windows.take_complete(),
        }
    }

    /// Removes the SSTables that were written and not taken.
    pub(super) async fn abort(&mut self) {
        match self {
            Self::Row(cutter) => cutter.abort().await,
            Self::Windows(windows) => windows.abort().await,
        }
    }
}

/// Where an SSTable ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    None,
    /// No SSTable is being written yet.
    Begin,
    Between,
    /// Between two rows of a large partition.
    Inside,
}

/// Cuts a stream of fragments into SSTables.
pub(super) struct Cutter {
    maker: Rc<OutputFactory>,
    layout: Layout,
    origin: &'static str,
    run_id: Option<[u8; 16]>,
    writer: Option<SSTableWriter>,
    /// Complete, not sealed.
    complete: Vec<Rc<SSTable>>,
    key: Option<PartitionKey>,
    tombstone: Tombstone,
    in_force: Tombstone,
    /// Bytes of the SSTable at the start of the current partition.
    partition_at: u64,
    after_row: bool,
    /// Index of the current boundary of the ring, or of the current piece.
    passed: usize,
}

impl Cutter {
    pub(super) fn new(maker: Rc<OutputFactory>, layout: Layout, origin: &'static str) -> Self {
        let run_id = layout.is_run.then(|| {
            let random = u128::from(maker.shard.random_u64()) << 64 | u128::from(maker.shard.random_u64());
            uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid().into_bytes()
        });
        Self {
            maker,
            layout,
            origin,
            run_id,
            writer: None,
            complete: vec![],
            key: None,
            tombstone: Tombstone::LIVE,
            in_force: Tombstone::LIVE,
            partition_at: 0,
            after_row: false,
            passed: 0,
        }
    }

    /// Writes the SSTables as part of this run.
    pub(super) fn of_run(mut self, run_id: Option<[u8; 16]>) -> Self {
        self.run_id = run_id.or(self.run_id);
        self
    }

    /// The cut to be made before `fragment` is pushed.
    #[inline]
    pub(super) fn cut_before(&self, fragment: &Fragment) -> Cut {
        let Some(writer) = &self.writer else { return Cut::Begin };
        let max_bytes = self.layout.max_bytes.unwrap_or(u64::MAX);
        match fragment {
            Fragment::PartitionStart { key, .. } => {
                let is_full = writer.uncompressed_bytes() >= max_bytes || self.passes_boundary(key);
                if is_full && writer.partitions() > 0 { Cut::Between } else { Cut::None }
            }
            // A partition of leveled compaction stays whole, because SSTables of one level must not overlap.
            Fragment::Row(_) | Fragment::Change(_)
                if self.after_row && self.layout.is_run && self.layout.level == 0 =>
            {
                let bytes = writer.uncompressed_bytes().saturating_sub(self.partition_at);
                if bytes >= max_bytes { Cut::Inside } else { Cut::None }
            }
            _ => Cut::None,
        }
    }

    fn passes_boundary(&self, key: &PartitionKey) -> bool {
        match &self.layout.split {
            Split::Tokens(tokens) => tokens.get(self.passed).is_some_and(|token| key.token() > *token),
            Split::Runs(pieces) => RunPiece::of(pieces, key) != Some(self.passed),
            Split::Nowhere | Split::Windows { .. } => false,
        }
    }

    /// Makes the cut that [`Self::cut_before`] returned.
    pub(super) async fn cut(&mut self, cut: Cut, fragment: &Fragment) -> Result<(), JobError> {
        match cut {
            Cut::None => return Ok(()),
            Cut::Begin | Cut::Between => {
                self.end_sstable().await?;
                if let Fragment::PartitionStart { key, .. } = fragment {
                    match &self.layout.split {
                        Split::Tokens(tokens) => {
                            self.passed = tokens.partition_point(|token| key.token() > *token);
                        }
                        Split::Runs(pieces) => {
                            self.passed = RunPiece::of(pieces, key).expect("the pieces cover all keys");
                            self.run_id = Some(pieces[self.passed].run.0.to_be_bytes());
                        }
                        Split::Nowhere | Split::Windows { .. } => {}
                    }
                }
                self.begin().await?;
            }
            Cut::Inside => {
                let at = match fragment {
                    Fragment::Row(row) => Position::before(row.key.clone()),
                    Fragment::Change(change) => change.position.clone(),
                    _ => unreachable!("a partition is cut between rows"),
                };
                let in_force = self.in_force;
                let change =
                    |tombstone| Fragment::Change(RangeTombstoneChange { position: at.clone(), tombstone });
                if !in_force.is_live() {
                    self.push_raw(change(Tombstone::LIVE))?;
                }
                self.push_raw(Fragment::PartitionEnd)?;
                self.end_sstable().await?;
                self.begin().await?;
                let key = self.key.clone().expect("inside a partition");
                self.push_raw(Fragment::PartitionStart { key, tombstone: self.tombstone })?;
                // If the next fragment is a change, it states the tombstone in force itself.
                if !in_force.is_live() && matches!(fragment, Fragment::Row(_)) {
                    self.push_raw(change(in_force))?;
                }
                self.partition_at = 0;
                self.after_row = false;
            }
        }
        Ok(())
    }

    fn push_raw(&mut self, fragment: Fragment) -> Result<(), JobError> {
        Ok(self.writer.as_mut().expect("an SSTable is begun before anything is pushed").push(fragment)?)
    }

    #[inline]
    pub(super) fn push(&mut self, fragment: Fragment) -> Result<(), JobError> {
        match &fragment {
            Fragment::PartitionStart { key, tombstone } => {
                self.partition_at = self.writer.as_ref().map_or(0, SSTableWriter::uncompressed_bytes);
                if self.layout.is_run {
                    self.key = Some(key.clone());
                }
                self.tombstone = *tombstone;
                self.in_force = Tombstone::LIVE;
                self.after_row = false;
            }
            Fragment::Row(_) => self.after_row = true,
            Fragment::Change(change) => {
                self.in_force = change.tombstone;
                self.after_row = false;
            }
            Fragment::Static(_) | Fragment::PartitionEnd => self.after_row = false,
        }
        self.push_raw(fragment)
    }

    #[inline]
    pub(super) fn wants_write(&self) -> bool {
        self.writer.as_ref().is_some_and(SSTableWriter::wants_write)
    }

    pub(super) async fn write_out(&mut self) -> Result<(), JobError> {
        match &mut self.writer {
            Some(writer) => Ok(writer.write_out().await?),
            None => Ok(()),
        }
    }

    /// Cuts if needed, and pushes.
    pub(super) async fn take(&mut self, fragment: Fragment) -> Result<(), JobError> {
        let cut = self.cut_before(&fragment);
        self.cut(cut, &fragment).await?;
        self.push(fragment)
    }

    async fn begin(&mut self) -> Result<(), JobError> {
        self.writer = Some(self.maker.begin(self.origin, self.layout.level, self.run_id).await?);
        Ok(())
    }

    /// Completes the SSTable being written. Called between partitions.
    pub(super) async fn end_sstable(&mut self) -> Result<(), JobError> {
        if let Some(writer) = self.writer.take() {
            self.complete.extend(self.maker.complete(writer).await?);
        }
        Ok(())
    }

    /// The SSTables completed since the last call.
    pub(super) fn take_complete(&mut self) -> Vec<Rc<SSTable>> {
        std::mem::take(&mut self.complete)
    }

    /// Removes the SSTables that were written and not taken.
    pub(super) async fn abort(&mut self) {
        if let Some(writer) = self.writer.take() {
            // Files that remain after an error are removed by the next start.
            let _ = writer.abort().await;
        }
        let complete = self.take_complete();
        self.maker.discard(complete).await;
    }
}
