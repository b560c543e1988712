//! TLS of the node's CQL ports.
//!
//! - [`server`]: builds a `rustls` configuration from PEM files and from the requirements on clients;
//! - [`reload`]: builds it again when the files change.

pub mod reload;
pub mod server;
#[cfg(test)]
#[allow(dead_code, reason = "the tests of the program use the rest")]
mod testing;

pub use reload::ReloadableTls;
pub use server::{ClientAuth, TlsFiles, TlsVersion};
