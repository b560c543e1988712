//! What the `messina` program is made of, for itself and for programs that measure it beside others.
//!
//! So far: the benchmarks ([`mod@bench`]). The program's subcommands are in `main.rs`.

pub mod bench;
pub mod cql_server;
