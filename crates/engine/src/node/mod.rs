//! The engine's functions for a whole node: each forwards the request to the shards that have the data.
//!
//! Every function here may be called on any shard. Tables of the system keyspaces live on shard 0 only; of
//! all other tables, each shard has the partitions whose tokens it owns ([`Sharder`]).
//!
//! - `write`, `read`: requests, each with a [`Deadline`], on the shards that own the partitions;
//! - `schema`: stores a schema change and publishes it to every shard; [`attach`]: tables for reading only;
//! - `views`, `view_build`: writes to tables with materialized views, and the builds of views;
//! - `truncate`, [`snapshot`](mod@snapshot), [`upload`]: empties a table, snapshots it, or loads SSTables
//!   into it;
//! - [`compaction`], [`scrub`], [`verify`]: users' requests to the compactions of all shards;
//! - `report`, [`large_data`](mod@large_data): the state of shards and tables;
//! - `flush`, `close`: flush and sync, and the end of the node.

pub mod attach;
pub mod cache;
mod close;
pub mod compaction;
mod deadline;
mod flush;
pub mod large_data;
mod read;
mod report;
pub mod sampling;
mod schema;
pub mod scrub;
pub mod snapshot;
mod truncate;
pub mod upload;
pub mod verify;
mod view_build;
mod views;
mod write;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use base::HashSet;
use catalog::Catalog;
use catalog::system::is_system_keyspace;
use model::{TableId, TableSchema};
use runtime::{CpuGroup, Event, Shard};

use crate::commitlog::CommitLog;
use crate::error::EngineError;
use crate::manifest::SSTableManifest;
use crate::options::EngineOptions;
use crate::shard::EngineShard;
use crate::sharder::Sharder;
use crate::table::Table;

pub use close::close;
pub use deadline::Deadline;
pub use flush::{Rotation, flush, rotate_logs, sync};
pub use large_data::large_data;
pub use read::{read, sstables_of_key};
pub use report::{
    index_states, read_diagnostics, read_semaphores, rebuild_indexes, report, table_messages, table_reports,
};
pub use schema::{change_schema, make_dirs, publish};
pub use snapshot::checkpoint::{Checkpoint, CheckpointTable, checkpoint};
pub use snapshot::snapshot;
pub use snapshot::store::{Clear, clear as clear_snapshots, list as snapshots};
pub use truncate::truncate;
pub(crate) use view_build::resume as resume_view_builds;
pub use view_build::{ViewBuild, view_builds};
pub use write::{apply, apply_batch, apply_unlogged, read_modify_write};

/// The node, as stored on each shard.
pub struct NodeShard {
    pub options: EngineOptions,
    pub engine: Rc<EngineShard>,
    pub sharder: Sharder,
    pub catalog: RefCell<Catalog>,
    /// The materialized views of the catalog.
    pub views: views::Views,
    /// The views that are being built; only on shard 0.
    pub view_builds: view_build::ViewBuilds,
    /// The log of the system tables; only on shard 0.
    pub schema_log: Option<Rc<CommitLog>>,
    /// A schema change, truncate or similar operation is running; only on shard 0.
    busy: Cell<bool>,
    idle: Event,
    last_schema_us: Cell<i64>,
    /// Tables dropped since the start, of which the log may still have entries; only on shard 0.
    dropped: RefCell<HashSet<TableId>>,
    /// Keyspaces of attached tables that exist only in memory; only on shard 0.
    pub attached_keyspaces: RefCell<Vec<String>>,
}

impl NodeShard {
    pub fn new(
        options: EngineOptions,
        engine: Rc<EngineShard>,
        schema_log: Option<Rc<CommitLog>>,
    ) -> Rc<Self> {
        let sharder = Sharder { shard_count: engine.shard().shard_count() };
        Rc::new(Self {
            options,
            engine,
            sharder,
            catalog: RefCell::new(Catalog::empty()),
            views: views::Views::default(),
            view_builds: view_build::ViewBuilds::default(),
            schema_log,
            busy: Cell::new(false),
            idle: Event::new(),
            last_schema_us: Cell::new(0),
            dropped: RefCell::default(),
            attached_keyspaces: RefCell::default(),
        })
    }

    pub fn of(shard: &Shard) -> Result<Rc<Self>, EngineError> {
        shard.local::<Self>().ok_or(EngineError::Stopped)
    }

    /// The directory of a table.
    pub fn table_dir(&self, schema: &TableSchema) -> PathBuf {
        table_dir(&self.options.data_dir, schema)
    }

    /// Creates this shard's part of a table, without SSTables.
    pub fn make_table(&self, schema: &Arc<TableSchema>) -> Rc<Table> {
        let (log, sharder) = match (&self.schema_log, is_system_keyspace(&schema.keyspace)) {
            (Some(log), true) => (log.clone(), None),
            (None, true) => unreachable!("system tables live on shard 0"),
            (_, false) => (self.engine.log().clone(), Some(self.sharder)),
        };
        let shard_id = self.engine.shard().id();
        let manifest = SSTableManifest::new(&self.options.data_dir, schema.id, shard_id);
        Table::new(schema.clone(), self.table_dir(schema), log, shard_id, sharder, manifest)
    }

    /// Later schema changes are written with timestamps above this one, even if the clock is behind.
    pub fn schema_is_of(&self, timestamp_us: i64) {
        self.last_schema_us.set(self.last_schema_us.get().max(timestamp_us));
    }

    /// Acquires the schema lock of shard 0. Schema changes, truncates, snapshots and loads run one at a time.
    pub async fn lock(&self) {
        self.idle.until(|| !self.busy.get()).await;
        self.busy.set(true);
    }

    pub fn unlock(&self) {
        self.busy.set(false);
        self.idle.signal();
    }
}

/// `<data dir>/data/<keyspace>/<table>-<id>`
pub fn table_dir(data_dir: &Path, schema: &TableSchema) -> PathBuf {
    data_dir.join("data").join(&schema.keyspace).join(format!("{}-{}", schema.name, schema.id.simple()))
}

/// The shard that owns the partition.
fn owner(node: &NodeShard, schema: &TableSchema, token: i64) -> u32 {
    if is_system_keyspace(&schema.keyspace) { 0 } else { node.sharder.shard_of(token) }
}

/// This shard's copy of the catalog.
pub fn catalog(shard: &Shard) -> Result<Catalog, EngineError> {
    Ok(NodeShard::of(shard)?.catalog.borrow().clone())
}

/// Runs `f` on all shards concurrently. Returns all results in the order of the shards, or the first error.
pub async fn on_all<T, F, Fut>(shard: &Shard, group: CpuGroup, f: F) -> Result<Vec<T>, EngineError>
where
    T: Send + 'static,
    F: Fn(Shard) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<T, EngineError>> + 'static,
{
    let calls: Vec<_> = (0..shard.shard_count()).map(|target| shard.call(target, group, f.clone())).collect();
    let mut results = vec![];
    let mut failed = None;
    for call in calls {
        match call.await.map_err(EngineError::from).and_then(|result| result) {
            Ok(result) => results.push(result),
            Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    failed.map_or(Ok(results), Err)
}

/// The results of `f` for all shards, in their order, or the first error.
pub async fn of_all<T, F>(shard: &Shard, f: F) -> Result<Vec<T>, EngineError>
where
    T: Send + 'static,
    F: Fn(&EngineShard) -> Result<T, EngineError> + Clone + Send + 'static,
{
    let ask = move |shard: Shard| {
        let f = f.clone();
        async move { f(&*EngineShard::of(&shard)?) }
    };
    on_all(shard, CpuGroup::Maintenance, ask).await
}
