//! From keys to partitions and from rows to blocks, by Index.db or by tries.

pub(crate) mod entries;
pub(crate) mod index_db;
pub(crate) mod partition_index;
pub(crate) mod promoted;
pub(crate) mod row_index;
pub(crate) mod secondary;
pub(crate) mod trie;
