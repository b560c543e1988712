//! TLS of the node's CQL ports.
//!
//! - [`server`]: PEM files and what is demanded of clients, to a configuration of `rustls`;
//! - [`reload`]: the same files again when they change.

pub mod reload;
pub mod server;
#[cfg(test)]
#[allow(dead_code, reason = "the tests of the program use the rest")]
mod testing;

pub use reload::ReloadableTls;
pub use server::{ClientAuth, TlsFiles, TlsVersion};
