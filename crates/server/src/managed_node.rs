//! The running node, as the admin API and the metrics see it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use catalog::{Catalog, Table};
use engine::report::{ShardReport, TableReport};
use engine::{Engine, EngineError, node};
use reports::MemoryClass;

use crate::backups::Backups;
use crate::client_listeners::ClientListeners;
use crate::config::audit::AuditConfig;
use crate::console_rights::ConsoleRights;
use crate::cql_server::{self, LevelReport, StatementReport};
use crate::start_time::StartTime;

/// Whether the node serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    Normal,
    Draining,
    /// Everything is on disk, and the node takes no requests until it is restarted.
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

/// The part of the configuration that the admin API shows or needs.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub cluster_name: String,
    pub data_center: String,
    pub rack: String,
    /// The address reported to clients.
    pub address: String,
    /// Absolute.
    pub data_dir: PathBuf,
    /// Of all shards.
    pub memory_bytes: u64,
    /// With which `nodetool enableauditlog` begins.
    pub audit: AuditConfig,
    /// Whether the admin API has a page for browsers.
    pub serves_page: bool,
    /// What the console of the page may do.
    pub console: ConsoleRights,
}

/// See the head of this file.
pub struct ManagedNode {
    pub engine: Engine,
    pub config: NodeConfig,
    pub listeners: Arc<dyn ClientListeners>,
    pub backups: Backups,
    pub started: StartTime,
    mode: AtomicU8,
    /// Signalled when the process is asked to end.
    pub stopping: tokio::sync::Notify,
    /// Held while a drain runs.
    draining: tokio::sync::Mutex<()>,
}

impl ManagedNode {
    pub fn new(
        engine: Engine,
        config: NodeConfig,
        listeners: Arc<dyn ClientListeners>,
        backups: Backups,
        started: StartTime,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            config,
            listeners,
            backups,
            started,
            mode: AtomicU8::new(Mode::Normal as u8),
            stopping: tokio::sync::Notify::new(),
            draining: tokio::sync::Mutex::new(()),
        })
    }

    /// Ends the process, as SIGTERM does.
    pub fn stop(&self) {
        self.stopping.notify_one();
    }

    pub fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            0 => Mode::Normal,
            1 => Mode::Draining,
            _ => Mode::Drained,
        }
    }

    /// Stops taking requests, flushes, and makes everything else durable in the commit log. Only the first
    /// call drains; later calls wait for it. After an error the node does not serve either: acknowledged
    /// writes are in the commit log.
    ///
    /// The future must run to its end: spawn it rather than drop it half-way.
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

    /// Starts or stops serving clients; everything else continues.
    ///
    /// # Errors
    /// The node has been drained, or a port is taken.
    pub async fn serve_clients(&self, wanted: bool) -> Result<(), String> {
        let _held = self.draining.lock().await;
        if self.mode() != Mode::Normal {
            return Err(format!("the node is {}; restart it to go on", self.mode().name()));
        }
        match wanted {
            true => self.listeners.resume().await,
            false => {
                self.listeners.stop().await;
                Ok(())
            }
        }
    }

    pub async fn catalog(&self) -> Result<Catalog, EngineError> {
        self.engine.ask(0, |shard| async move { node::catalog(&shard) }).get().await
    }

    /// The tables of a keyspace; `None`: of all keyspaces.
    pub fn tables_of(catalog: &Catalog, keyspace: Option<&str>) -> Vec<Arc<Table>> {
        match keyspace {
            Some(keyspace) => catalog.tables(keyspace).cloned().collect(),
            None => catalog.all_tables().cloned().collect(),
        }
    }

    pub async fn shard_reports(&self) -> Result<Vec<ShardReport>, EngineError> {
        self.engine.ask(0, |shard| async move { node::report(&shard).await }).get().await
    }

    /// State of the reads: a text for each semaphore of each shard.
    pub async fn read_diagnostics(&self) -> Result<Vec<Vec<String>>, EngineError> {
        self.engine.ask(0, |shard| async move { node::read_diagnostics(&shard).await }).get().await
    }

    /// Requests served by service level: a list for each shard.
    pub async fn level_reports(&self) -> Result<Vec<Vec<LevelReport>>, EngineError> {
        self.engine.ask(0, |shard| async move { Ok(cql_server::level_reports(&shard).await) }).get().await
    }

    /// Statements by operation: for each shard.
    pub async fn statement_reports(&self) -> Result<Vec<StatementReport>, EngineError> {
        self.engine.ask(0, |shard| async move { cql_server::statement_reports(&shard).await }).get().await
    }

    /// Where memory is, by class: a list for each shard.
    pub async fn memory(&self) -> Result<Vec<Vec<MemoryClass>>, EngineError> {
        self.engine.ask(0, |shard| async move { cql_server::memory(&shard).await }).get().await
    }

    /// Reports of all tables: a list for each shard.
    pub async fn table_reports(&self) -> Result<Vec<Vec<TableReport>>, EngineError> {
        self.engine.ask(0, |shard| async move { node::table_reports(&shard).await }).get().await
    }
}
