//! Statements through the engine and through a storage in memory, compared.

mod paged_scans;
