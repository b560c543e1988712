//! TLS of the node's CQL ports and of the programs that knock there.
//!
//! - [`server`]: PEM files and what is demanded of clients, to a configuration of `rustls`;
//! - [`reload`]: the same files again when they change;
//! - [`client`]: the other side, for `messina shell` and `messina nodetool`.

pub mod client;
pub mod reload;
pub mod server;
#[cfg(test)]
#[path = "../../tests/it/certificates.rs"]
#[allow(dead_code, reason = "the tests of the program use the rest")]
mod testing;

pub use client::TlsClient;
pub use reload::ReloadableTls;
pub use server::{ClientAuth, TlsFiles, TlsVersion};
