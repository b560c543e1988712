//! `nodetool scrub`: rewrites the readable part of every SSTable of a table, and replaces the SSTable.
//!
//! Damaged parts are left out and counted (`sstable::read::Salvage`); the rest replaces the SSTable by a
//! durable record, as after any job. SSTables in quarantine are scrubbed too; their replacements are sound.
//! Partitions that are out of order go to SSTables of their own, in level 0 and in no run. Nothing is merged
//! or purged. An SSTable that several shards read is scrubbed by the shard responsible for it, and dealt out
//! at the same time.
//!
//! SSTables that could not be opened are scrubbed by the first shard if Data.db is readable without the
//! damaged components ([`SSTable::open_damaged`]); afterwards the table can be read again.
//!
//! Lost data is lost from the table: a snapshot is made before, unless the user declines it.

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
use super::reshard::{Dealer, is_owner};
use super::running::NewJob;
use super::table_state::TableState;
use crate::error::EngineError;
use crate::table::Table;

/// Number of partitions between two checks of the throughput limit.
const PARTITIONS_A_LOOK: u64 = 64;
/// Number of concurrent SSTables on a shard if the maximum is requested and the number of compactions has no
/// limit.
const JOBS_WITHOUT_LIMIT: u32 = 4;

/// Options of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubOptions {
    /// Leave out damaged parts also in tables of counters, whose counters then show less than was counted;
    /// and parts that the disk cannot read now, though a later attempt might succeed.
    pub skip_corrupted: bool,
    /// Make no snapshot before.
    pub no_snapshot: bool,
    /// Keep rows whose values are invalid for their column's type.
    pub no_validate: bool,
    /// Number of concurrent SSTables on each shard; `None`: one. 0: the limit of concurrent compactions; four
    /// if there is none.
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

/// The scrub of a table on a shard, shared by its concurrent tasks.
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
    /// Scrubs an SSTable that the table could not open. Called on the first shard.
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

    /// Runs this shard's part of a scrub.
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

    /// Scrubs the waiting SSTables one after the other.
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
        if table.is_shared(input, shards) && !is_owner(self.shard(), input.name()) {
            return Ok(());
        }
        if !table.sstables().iter().any(|sstable| Rc::ptr_eq(sstable, input)) {
            return Err(JobError::Refused("another request has replaced it".to_string()));
        }
        if table.sstables.is_frozen(input.name()) {
            return Err(JobError::Refused(
                "an earlier replacement of it is unfinished: restart the node first".to_string(),
            ));
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
            reason: "requested: scrub".to_string(),
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
            "the disk could not read all of it ({}); use --skip-corrupted to leave out the unreadable data",
            losses.errors.first().map_or(String::new(), ToString::to_string)
        ))),
        Ok((_, losses)) if has_counters && !skip_corrupted && !losses.is_none() => {
            let first = losses.errors.first().map_or(String::new(), ToString::to_string);
            Err(JobError::Refused(format!(
                "it is damaged ({first}), and without the damaged part counters would be too low; use --skip-corrupted to \
                 accept that"
            )))
        }
        salvaged => salvaged,
    };
    match salvaged {
        Ok((mut scrubbed, losses)) => {
            if !losses.is_none() {
                // The commit log may still have the lost data, so a start must replay it.
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
    // SSTables of out-of-order partitions may overlap any other.
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
