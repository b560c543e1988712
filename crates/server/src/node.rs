//! The running node, as the admin API and the metrics see it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use catalog::{Catalog, Table};
use engine::report::{MemoryUse, ShardReport, TableReport};
use engine::{Engine, EngineError, node};

use crate::cql_server::{self, LevelReport};
use crate::serve::ClientListeners;

/// What the node does for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    Normal,
    Draining,
    /// Everything is on disk, and nothing more is taken. Only a restart ends it.
    Drained,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Draining => "DRAINING",
            Self::Drained => "DRAINED",
        }
    }
}

/// The part of the configuration that the admin API shows and needs.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub cluster_name: String,
    pub data_center: String,
    pub rack: String,
    /// The address that clients are told.
    pub address: String,
    /// Absolute.
    pub data_dir: PathBuf,
    /// Of all shards.
    pub memory_bytes: u64,
}

/// See the head of this file.
pub struct Node {
    pub engine: Engine,
    pub config: NodeConfig,
    pub listeners: Arc<dyn ClientListeners>,
    pub started: Instant,
    /// Seconds since 1970 at the start.
    pub generation: u64,
    mode: AtomicU8,
    /// Held by who drains.
    draining: tokio::sync::Mutex<()>,
}

impl Node {
    #[allow(clippy::disallowed_methods, reason = "uptime and generation are of the real world")]
    pub fn new(engine: Engine, config: NodeConfig, listeners: Arc<dyn ClientListeners>) -> Arc<Self> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Arc::new(Self {
            engine,
            config,
            listeners,
            started: Instant::now(),
            generation: since.unwrap_or_default().as_secs(),
            mode: AtomicU8::new(Mode::Normal as u8),
            draining: tokio::sync::Mutex::new(()),
        })
    }

    pub fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            0 => Mode::Normal,
            1 => Mode::Draining,
            _ => Mode::Drained,
        }
    }

    /// Stops taking requests, flushes, and makes the rest durable in the log. Once is enough; later calls wait for the
    /// first one. After an error the node does not serve either: what was acknowledged is in the log.
    ///
    /// Must run to its end: spawn it rather than drop it half-way.
    pub async fn drain(&self) -> Result<(), EngineError> {
        let _held = self.draining.lock().await;
        if self.mode() != Mode::Normal {
            return Ok(());
        }
        self.mode.store(Mode::Draining as u8, Ordering::Release);
        self.listeners.stop().await;
        let drained = self.engine.drain().get().await;
        self.mode.store(Mode::Drained as u8, Ordering::Release);
        drained
    }

    pub async fn catalog(&self) -> Result<Catalog, EngineError> {
        self.engine.ask(0, |shard| async move { node::catalog(&shard) }).get().await
    }

    /// The tables of a keyspace, or of all.
    pub fn tables_of(catalog: &Catalog, keyspace: Option<&str>) -> Vec<Arc<Table>> {
        match keyspace {
            Some(keyspace) => catalog.tables(keyspace).cloned().collect(),
            None => catalog.all_tables().cloned().collect(),
        }
    }

    pub async fn shard_reports(&self) -> Result<Vec<ShardReport>, EngineError> {
        self.engine.ask(0, |shard| async move { node::report(&shard).await }).get().await
    }

    /// What reads are doing: a text for each semaphore of each shard.
    pub async fn read_diagnostics(&self) -> Result<Vec<Vec<String>>, EngineError> {
        self.engine.ask(0, |shard| async move { node::read_diagnostics(&shard).await }).get().await
    }

    /// What was served at each service level: a list for each shard.
    pub async fn level_reports(&self) -> Result<Vec<Vec<LevelReport>>, EngineError> {
        self.engine.ask(0, |shard| async move { Ok(cql_server::level_reports(&shard).await) }).get().await
    }

    /// Where memory is, by class: a list for each shard.
    pub async fn memory(&self) -> Result<Vec<Vec<MemoryUse>>, EngineError> {
        self.engine.ask(0, |shard| async move { cql_server::memory(&shard).await }).get().await
    }

    /// What every table has and does.
    pub async fn table_reports(&self) -> Result<Vec<Vec<TableReport>>, EngineError> {
        self.engine.ask(0, |shard| async move { node::table_reports(&shard).await }).get().await
    }
}
