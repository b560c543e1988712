//! (see ARCHITECTURE.md)

pub mod types;
