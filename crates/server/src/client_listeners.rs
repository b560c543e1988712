//! The interface between a node and the program part that serves its clients: what it gets, what it offers.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use engine::Engine;

use crate::config::{
    BatchConfig, Config, IdentityConfig, ListenConfig, RequestConfig, ResultConfig, SchemaConfig,
    SecurityConfig, TimeoutConfig,
};
use crate::serve_error::ServeError;
use crate::start_time::StartTime;

/// Where the console of the page reaches the node as a client.
#[derive(Clone, Copy, Debug)]
pub struct ConsoleDoor {
    /// A CQL port that takes connections without TLS.
    pub address: SocketAddr,
    /// Whether clients log in with a role.
    pub asks_role: bool,
}

/// The listeners for clients of a running node.
pub trait ClientListeners: Send + Sync {
    fn is_listening(&self) -> bool;
    /// `None`: no port takes connections without TLS.
    fn console(&self) -> Option<ConsoleDoor>;
    /// Open connections.
    fn connections(&self) -> u64;
    /// Looks whether the files of certificates have changed; connections from now on get the new ones.
    fn reload_certificates(&self) {}
    /// Stops taking connections and requests; ends when those under way have been answered, or soon after.
    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// Takes connections again after [`Self::stop`], on the same ports.
    ///
    /// # Errors
    /// A port cannot be opened.
    fn resume(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Starts to serve clients on a node that is open, and says so in the log. Runs on the main thread.
pub type StartListeners = fn(&Engine, ClientParts) -> Result<Arc<dyn ClientListeners>, ServeError>;

/// The parts of the configuration that are about clients, and what they depend on.
#[derive(Clone, Debug)]
pub struct ClientParts {
    pub identity: IdentityConfig,
    pub listen: ListenConfig,
    pub security: SecurityConfig,
    pub requests: RequestConfig,
    pub timeouts: TimeoutConfig,
    pub results: ResultConfig,
    pub batches: BatchConfig,
    pub schema: SchemaConfig,
    /// Of all shards.
    pub memory_bytes: u64,
    /// The whole configuration, for the system tables that show it.
    pub shown: Config,
    pub started: StartTime,
}
