//! Builds materialized views of tables that have rows, in the background.
//!
//! A task of shard 0 waits until every write knows of the view ([`views::drain`]). Then each shard goes over
//! its partitions of the base table, in the order of tokens, and writes the rows of the view; writes that
//! come meanwhile add their own. Both write what follows from the base rows, with their timestamps, so the
//! result does not depend on their order.
//!
//! The progress is in a mark on disk ([`Unbuilt`]): the smallest token that a shard has reached, stored after
//! the rows up to it are durable. A start, with any number of shards, continues after it. A build that fails
//! is tried again after a pause; it ends when its view is dropped.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use model::{ClusteringRange, PartitionRange, RingPosition, TableId, ViewPlan};
use reader::PagePlace;
use runtime::{CpuGroup, JoinHandle, Shard};

use super::write::apply_each;
use super::{Deadline, NodeShard, on_all, sync, truncate, views};
use crate::error::EngineError;
use crate::read::ReadCommand;
use crate::table::view_mark::{self, Unbuilt};

/// Rows of the base table that are read at once.
const PAGE_ROWS: u64 = 256;
const PAGE_BYTES: u64 = 256 * 1024;
/// The progress is stored after this time.
const STORE_PROGRESS_US: u64 = 2_000_000;
/// Pause before a failed build is tried again.
const RETRY_US: u64 = 10_000_000;

/// A view that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewBuild {
    pub view: TableId,
    /// Partitions of the base table up to this token are in the view.
    pub last_token: i64,
    /// Partitions of the base table that have been read.
    pub keys_built: u64,
}

/// The builds of a node; on shard 0.
#[derive(Default)]
pub struct ViewBuilds {
    running: RefCell<BTreeMap<TableId, Running>>,
}

struct Running {
    progress: Arc<Progress>,
    /// Dropping it cancels the task.
    _task: JoinHandle<()>,
}

impl Drop for Running {
    /// Ends the parts on the other shards, too.
    fn drop(&mut self) {
        self.progress.cancelled.store(true, Ordering::Relaxed);
    }
}

/// The progress of a build: for each shard, the token up to which it is done.
struct Progress {
    tokens: Vec<AtomicI64>,
    keys: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    fn new(shards: u32, token: i64) -> Self {
        let tokens = (0..shards).map(|_| AtomicI64::new(token)).collect();
        Self { tokens, keys: AtomicU64::new(0), cancelled: AtomicBool::new(false) }
    }

    fn token(&self) -> i64 {
        self.tokens.iter().map(|token| token.load(Ordering::Relaxed)).min().unwrap_or(i64::MIN)
    }
}

impl ViewBuilds {
    /// Ends all builds. Their marks stay.
    pub(super) fn stop(&self) {
        self.running.take();
    }

    fn states(&self) -> Vec<ViewBuild> {
        let running = self.running.borrow();
        let state = |(view, running): (&TableId, &Running)| ViewBuild {
            view: *view,
            last_token: running.progress.token(),
            keys_built: running.progress.keys.load(Ordering::Relaxed),
        };
        running.iter().map(state).collect()
    }
}

/// The views that are not built.
pub async fn view_builds(shard: &Shard) -> Result<Vec<ViewBuild>, EngineError> {
    let call = shard.call(0, CpuGroup::Maintenance, |shard| async move {
        Ok(NodeShard::of(&shard)?.view_builds.states())
    });
    call.await?
}

/// Starts the builds of all views that have a mark. On shard 0.
pub(crate) async fn resume(shard: &Shard, node: &Rc<NodeShard>) -> Result<(), EngineError> {
    let catalog = node.catalog.borrow().clone();
    for view in catalog.all_tables().filter(|table| table.schema.view.is_some()) {
        if view_mark::load(shard.files(), &node.table_dir(&view.schema)).await?.is_some() {
            start(shard, node, view.schema.id);
        }
    }
    Ok(())
}

/// Starts the build of a view that has a mark. On shard 0.
pub(super) fn start(shard: &Shard, node: &Rc<NodeShard>, view: TableId) {
    let progress = Arc::new(Progress::new(shard.shard_count(), i64::MIN));
    let (task_shard, shown) = (shard.clone(), progress.clone());
    let weak = Rc::downgrade(node);
    let task = shard.spawn(CpuGroup::Maintenance, async move {
        loop {
            let Some(node) = weak.upgrade() else { return };
            match build(&task_shard, &node, view, &progress).await {
                Ok(()) => break,
                Err(EngineError::Stopped | EngineError::UnknownTable(_)) => break,
                Err(error) => {
                    log::warn!(target: "engine", "building the view {view} failed and is tried again: {error}");
                    drop(node);
                    task_shard.sleep_us(RETRY_US).await;
                }
            }
        }
        if let Some(node) = weak.upgrade() {
            node.view_builds.running.borrow_mut().remove(&view);
        }
    });
    node.view_builds.running.borrow_mut().insert(view, Running { progress: shown, _task: task });
}

/// Builds a view from where its mark says.
async fn build(
    shard: &Shard,
    node: &Rc<NodeShard>,
    view: TableId,
    progress: &Arc<Progress>,
) -> Result<(), EngineError> {
    let schema = node.catalog.borrow().table_by_id(view).map(|table| table.schema.clone());
    let schema = schema.ok_or(EngineError::UnknownTable(view))?;
    let dir = node.table_dir(&schema);
    views::drain(shard).await?;
    let from = match view_mark::load(shard.files(), &dir).await? {
        None => return Ok(()),
        Some(Unbuilt::Behind(token)) => token,
        Some(Unbuilt::Again) => {
            truncate::truncate_one(shard, view).await?;
            view_mark::store(shard.files(), &dir, Unbuilt::Behind(i64::MIN)).await?;
            i64::MIN
        }
    };
    progress.tokens.iter().for_each(|token| token.store(from, Ordering::Relaxed));
    log::info!(target: "engine", "building the view {} behind token {from}", schema.full_name());
    let (of_shards, watched) = (progress.clone(), progress.clone());
    let work = on_all(shard, CpuGroup::Maintenance, move |shard| {
        let progress = of_shards.clone();
        async move { build_part(&shard, view, from, &progress).await }
    });
    let store = async {
        let mut stored = from;
        loop {
            shard.sleep_us(STORE_PROGRESS_US).await;
            let reached = watched.token();
            // The rows of the view must be durable before the progress.
            if reached > stored && sync(shard).await.is_ok() {
                let _ = view_mark::store(shard.files(), &dir, Unbuilt::Behind(reached)).await;
                stored = reached;
            }
        }
    };
    first(work, store).await?;
    sync(shard).await?;
    view_mark::remove(shard.files(), &dir).await?;
    let keys = progress.keys.load(Ordering::Relaxed);
    log::info!(target: "engine", "the view {} is built of {keys} partitions", schema.full_name());
    Ok(())
}

/// The result of `work`; `beside`, which never ends, runs until then.
async fn first<T>(
    work: impl Future<Output = T>,
    beside: impl Future<Output = std::convert::Infallible>,
) -> T {
    let (mut work, mut beside) = (std::pin::pin!(work), std::pin::pin!(beside));
    std::future::poll_fn(|context| {
        let _ = beside.as_mut().poll(context);
        work.as_mut().poll(context)
    })
    .await
}

/// Goes over this shard's partitions of the base table.
async fn build_part(shard: &Shard, view: TableId, from: i64, progress: &Progress) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    let mine = &progress.tokens[shard.id() as usize];
    let base = {
        let catalog = node.catalog.borrow();
        let definition = catalog.table_by_id(view).and_then(|table| table.schema.view.clone());
        definition.ok_or(EngineError::UnknownTable(view))?.base_id
    };
    let start =
        if from == i64::MIN { RingPosition::BeforeToken(from) } else { RingPosition::AfterToken(from) };
    let partitions = PartitionRange::Between { start, end: RingPosition::AfterToken(i64::MAX) };
    let mut command = ReadCommand {
        page_rows: PAGE_ROWS,
        page_bytes: PAGE_BYTES,
        bypass_cache: true,
        ..ReadCommand::new(base, partitions)
    };
    loop {
        if progress.cancelled.load(Ordering::Relaxed) {
            return Err(EngineError::Stopped);
        }
        let _passage = node.views.pass([base].into_iter()).await;
        let _write = node.views.begin();
        let plan = plan(&node, base, view)?;
        let page = node.engine.read(&command).await?;
        let mut writes = vec![];
        for partition in &page.partitions {
            let rows = partition.rows.iter().map(|row| ClusteringRange::of_prefix(row.key.clone()));
            let stored = node.engine.stored(base, &partition.key, rows.collect()).await?;
            let mutations = plan.mutations(&partition.key, &Default::default(), &stored, shard.wall_s());
            match mutations {
                Ok(mutations) => writes.extend(mutations),
                // A row that was written before the view existed and does not fit its key.
                Err(error) => {
                    log::warn!(target: "engine", "a row is not in the view {}: {error}", plan.view.full_name());
                }
            }
        }
        progress.keys.fetch_add(page.partitions.len() as u64, Ordering::Relaxed);
        if !writes.is_empty() {
            // Not as a whole: after a crash the build writes these rows again.
            apply_each(shard, writes, Deadline::NONE).await?;
        }
        let Some(next) = page.next else { break };
        // A token may have several partitions; the one before is certainly done.
        let token = match &next.place {
            PagePlace::AfterPartition(key) => key.token(),
            PagePlace::Inside(unfinished) => unfinished.key.token(),
        };
        mine.store(token.saturating_sub(1).max(from), Ordering::Relaxed);
        command.paging = Some(next);
        shard.yield_now().await;
    }
    mine.store(i64::MAX, Ordering::Relaxed);
    Ok(())
}

fn plan(node: &NodeShard, base: TableId, view: TableId) -> Result<Arc<ViewPlan>, EngineError> {
    let plans = node.views.of(base).ok_or(EngineError::UnknownTable(view))?;
    plans.views.iter().find(|plan| plan.view.id == view).cloned().ok_or(EngineError::UnknownTable(view))
}
