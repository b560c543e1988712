//! Bytes of files: chunks, verified and decompressed, cached, and the window that a reader parses.

pub(crate) mod cache;
pub(crate) mod chunked;
pub(crate) mod loading_cache;
pub(crate) mod room;
pub(crate) mod window;
