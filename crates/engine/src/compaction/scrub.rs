//! `nodetool scrub`: every SSTable of a table is written anew with what can be read of it, and replaced.
//!
//! What is damaged is left out and counted (`sstable::read::Salvage`); the rest takes the place of the SSTable by a
//! durable record, as after any job. SSTables in quarantine are scrubbed too: what takes their place is sound.
//! Partitions that stood out of order go to SSTables of their own, in level 0 and in no run. Nothing is merged, nothing
//! purged. One that several shards read is scrubbed by the shard whose turn it is, and dealt out with it.
//!
//! SSTables that could not be opened are scrubbed by the first shard if Data.db can be read without what is damaged
//! ([`SSTable::open_damaged`]); afterwards the table can be read again.
//!
//! What is lost is lost from the table: whoever scrubs has a snapshot made before, unless told not to.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use compaction::{Layout, Split};
use model::{ColumnKind, TableId};
use reader::Fragment;
use reports::Scrubbed;
use runtime::{CpuGroup, IoClass, JoinHandle};
use sstable::name::{Component, SSTableName};
use sstable::read::{SSTable, SalvageLosses};
use sstable::tools::ScrubRounds;

use super::error::JobError;
use super::job::{Control, JobContext, JobStats};
use super::manager::Manager;
use super::reshard::{Dealer, is_turn};
use super::running::NewJob;
use super::table_state::TableState;
use crate::error::EngineError;
use crate::table::Table;

/// So many partitions are looked at between two looks at the throughput.
const PARTITIONS_A_LOOK: u64 = 64;
/// So many SSTables of a shard at the same time, if as many as possible are asked for and nothing limits compactions.
const JOBS_WITHOUT_LIMIT: u32 = 4;

/// What is to be scrubbed away, and how carefully.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubOptions {
    /// Also of tables of counters what is damaged may be left out: a counter then shows less than was counted. And what
    /// the disk cannot read now, though it might another time.
    pub skip_corrupted: bool,
    /// Without a snapshot before.
    pub no_snapshot: bool,
    /// Rows with values that are none of their column's type are kept.
    pub no_validate: bool,
    /// So many SSTables at the same time on each shard; `None`: one. 0: as many as compactions may run, without a limit
    /// four.
    pub jobs: Option<u32>,
}

/// Counts what could not be read of an SSTable.
fn add_losses(scrubbed: &mut Scrubbed, of: &SSTable, losses: &SalvageLosses) {
    scrubbed.lost_partitions += losses.partitions;
    scrubbed.damaged_partitions += losses.damaged_partitions;
    scrubbed.lost_rows += losses.rows;
    scrubbed.gaps += losses.gaps;
    if let Some(first) = losses.errors.first() {
        scrubbed.damaged.push(format!("{}: {first}", data_file(of)));
    }
}

/// A scrub of a table on a shard, for those who work on it at the same time.
struct Scrub {
    waiting: RefCell<VecDeque<Rc<SSTable>>>,
    options: ScrubOptions,
    scrubbed: Rc<RefCell<Scrubbed>>,
    is_stopped: Cell<bool>,
}

fn data_file(sstable: &SSTable) -> String {
    sstable.dir().join(sstable.name().file_name(&Component::Data)).display().to_string()
}

impl Manager {
    /// Scrubs an SSTable that the table could not open. On the first shard.
    pub async fn scrub_unreadable(
        self: &Rc<Self>,
        id: TableId,
        name: SSTableName,
        options: ScrubOptions,
    ) -> Result<Scrubbed, EngineError> {
        let managed = self.managed(id)?;
        let (files, dir) = (self.shard().files(), managed.table.dir.clone());
        let opened = SSTable::open_damaged(files, &dir, name, &self.around.cache, IoClass::Compaction).await;
        let left = |error: String| {
            let data = dir.join(name.file_name(&Component::Data)).display().to_string();
            Scrubbed { left: vec![format!("{data}: {error}")], ..Scrubbed::default() }
        };
        let input = match opened {
            Ok(input) => input,
            Err(error) => return Ok(left(error.to_string())),
        };
        self.acquire(&managed).await;
        let scrubbed: Rc<RefCell<Scrubbed>> = Rc::default();
        let ended = match self.begin_scrub(&managed, &input, options, &scrubbed) {
            Ok(job) => job.await,
            Err(error) => Err(error),
        };
        self.release(&managed);
        match ended {
            Ok(()) => {
                let mut scrubbed = scrubbed.take();
                if scrubbed.damaged.is_empty() {
                    let why = input.rebuilt().first().map_or("it could not be opened", |(_, why)| why);
                    scrubbed.damaged.push(format!("{}: {why}", data_file(&input)));
                }
                Ok(scrubbed)
            }
            Err(JobError::Stopped) => Err(JobError::Stopped.into()),
            Err(error) => Ok(left(error.to_string())),
        }
    }

    /// This shard's part of a scrub.
    pub async fn scrub(self: &Rc<Self>, id: TableId, options: ScrubOptions) -> Result<Scrubbed, EngineError> {
        let managed = self.managed(id)?;
        self.acquire(&managed).await;
        let ours = Rc::new(Scrub {
            waiting: RefCell::new(managed.table.sstables().iter().cloned().collect()),
            options,
            scrubbed: Rc::default(),
            is_stopped: Cell::new(false),
        });
        let jobs = match (options.jobs.unwrap_or(1), self.jobs_max()) {
            (0, 0) => JOBS_WITHOUT_LIMIT,
            (0, jobs) | (jobs, _) => jobs,
        };
        let jobs = (jobs as usize).min(ours.waiting.borrow().len());
        let work = |_| {
            let (manager, managed, ours) = (self.clone(), managed.clone(), ours.clone());
            let work = async move { manager.scrub_waiting(&managed, &ours).await };
            self.shard().spawn(CpuGroup::Maintenance, work)
        };
        for worker in (0..jobs).map(work).collect::<Vec<_>>() {
            worker.await;
        }
        self.release(&managed);
        if ours.is_stopped.get() { Err(JobError::Stopped.into()) } else { Ok(ours.scrubbed.take()) }
    }

    /// Scrubs one after the other of those that wait.
    async fn scrub_waiting(self: &Rc<Self>, managed: &Rc<TableState>, ours: &Scrub) {
        while !ours.is_stopped.get() {
            let Some(sstable) = ours.waiting.borrow_mut().pop_front() else { return };
            match self.scrub_one(managed, &sstable, ours.options, &ours.scrubbed).await {
                Ok(()) => {}
                Err(JobError::Stopped) => ours.is_stopped.set(true),
                Err(error) => {
                    let left = format!("{}: {error}", data_file(&sstable));
                    ours.scrubbed.borrow_mut().left.push(left);
                }
            }
        }
    }

    async fn scrub_one(
        self: &Rc<Self>,
        managed: &Rc<TableState>,
        input: &Rc<SSTable>,
        options: ScrubOptions,
        scrubbed: &Rc<RefCell<Scrubbed>>,
    ) -> Result<(), JobError> {
        let (table, shards) = (&managed.table, self.shard().shard_count());
        if table.is_shared(input, shards) && !is_turn(self.shard(), input.name()) {
            return Ok(());
        }
        if !table.sstables().iter().any(|sstable| Rc::ptr_eq(sstable, input)) {
            return Err(JobError::Refused("another request has replaced it".to_string()));
        }
        if table.sstables.is_frozen(input.name()) {
            return Err(JobError::Refused("what it replaces will be known after a restart".to_string()));
        }
        self.begin_scrub(managed, input, options, scrubbed)?.await
    }

    fn begin_scrub(
        self: &Rc<Self>,
        managed: &Rc<TableState>,
        input: &Rc<SSTable>,
        options: ScrubOptions,
        scrubbed: &Rc<RefCell<Scrubbed>>,
    ) -> Result<JoinHandle<Result<(), JobError>>, JobError> {
        let layout = managed.strategy.borrow().layout(input.level());
        let needs_bytes = input.data_bytes() + input.index_bytes();
        let new = NewJob {
            kind: "Scrub",
            reason: "asked for: scrub".to_string(),
            total_bytes: input.uncompressed_bytes(),
            input_sstables: 1,
            weight: None,
            needs_bytes,
            own: Rc::new(RefCell::new([input.name()].into_iter().collect())),
        };
        let (around, table, input) = (self.around.clone(), managed.table.clone(), input.clone());
        let scrubbed = scrubbed.clone();
        let run = async move |control: Rc<Control>| {
            let done = Box::pin(run(&around, &control, table, input, layout, options)).await;
            done.map(|(done, of_one)| {
                scrubbed.borrow_mut().merge(of_one);
                done
            })
        };
        self.begin_job(managed, new, None, run)
    }
}

/// Scrubs one SSTable.
async fn run(
    around: &JobContext,
    control: &Rc<Control>,
    table: Rc<Table>,
    input: Rc<SSTable>,
    layout: Layout,
    ScrubOptions { skip_corrupted, no_validate, .. }: ScrubOptions,
) -> Result<(JobStats, Scrubbed), JobError> {
    let schema = table.schema();
    let has_counters = schema.columns_of(ColumnKind::Regular).any(|column| column.ty.is_counter());
    let rounds = ScrubRounds::new(&input, &schema, IoClass::Compaction)?.validating(!no_validate);
    let mut dealer = Dealer::new(around, control, table.clone(), input.clone(), layout, "scrub");
    let salvaged = match salvage(&mut dealer, rounds, &input).await {
        Ok((_, losses)) if losses.io_error_count > 0 && !skip_corrupted => Err(JobError::Refused(format!(
            "the disk could not read all of it ({}); say --skip-corrupted to go on without what it cannot read",
            losses.errors.first().map_or(String::new(), ToString::to_string)
        ))),
        Ok((_, losses)) if has_counters && !skip_corrupted && !losses.is_none() => {
            let first = losses.errors.first().map_or(String::new(), ToString::to_string);
            Err(JobError::Refused(format!(
                "it is damaged ({first}), and without the damaged part counters would show less than was counted; \
                 say --skip-corrupted to accept that"
            )))
        }
        salvaged => salvaged,
    };
    match salvaged {
        Ok((mut scrubbed, losses)) => {
            if !losses.is_none() {
                // The log may still have what is lost.
                table.forget_flushed();
            }
            add_losses(&mut scrubbed, &input, &losses);
            Ok((dealer.commit().await?, scrubbed))
        }
        Err(error) => {
            dealer.abort().await;
            Err(error)
        }
    }
}

async fn salvage(
    dealer: &mut Dealer,
    mut rounds: ScrubRounds,
    input: &SSTable,
) -> Result<(Scrubbed, SalvageLosses), JobError> {
    let mut scrubbed = Scrubbed { sstables: 1, ..Scrubbed::default() };
    // What stood out of order may overlap anything.
    let loose = Layout { level: 0, max_bytes: None, is_run: false, split: Split::Nowhere };
    loop {
        while let Some(fragment) = rounds.next().await {
            match &fragment {
                Fragment::Static(_) | Fragment::Row(_) => scrubbed.rows += 1,
                Fragment::PartitionEnd => {
                    scrubbed.partitions += 1;
                    if rounds.is_first() {
                        dealer.control.read_bytes.set(rounds.position().min(input.uncompressed_bytes()));
                    } else {
                        scrubbed.out_of_order += 1;
                    }
                }
                Fragment::PartitionStart { .. } if scrubbed.partitions.is_multiple_of(PARTITIONS_A_LOOK) => {
                    dealer.pace().await?;
                }
                Fragment::PartitionStart { .. } | Fragment::Change(_) => {}
            }
            dealer.take(fragment).await?;
        }
        dealer.control.check()?;
        let is_over = !rounds.next_round();
        dealer.end_sstables((!is_over).then_some(&loose)).await?;
        if is_over {
            return Ok((scrubbed, rounds.into_losses()));
        }
    }
}
