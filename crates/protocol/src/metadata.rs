//! Metadata of a result: the column specifications of each version, encoded once and ready to be copied to
//! the start of every page.

use std::sync::Arc;

use base::murmur3::hash128;

use super::data_type::put_type;
use super::wire::put_string;
use super::{ColumnSpec, ProtocolVersion};

pub(super) mod flag {
    pub const GLOBAL_TABLE: u32 = 0x01;
    pub const HAS_MORE_PAGES: u32 = 0x02;
    pub const NO_METADATA: u32 = 0x04;
    pub const METADATA_CHANGED: u32 = 0x08;
}

/// Encoded columns of a result or bind markers of a statement; cheap to clone.
#[derive(Clone, Debug)]
pub struct ResultMetadata {
    columns_count: u32,
    of_one_table: bool,
    id: [u8; 16],
    /// For v3, v4 and v5. Versions in which the types have the same numbers share their bytes.
    encoded: [Arc<[u8]>; 3],
}

impl ResultMetadata {
    /// Encodes the metadata of these columns for all versions.
    pub fn new(columns: &[ColumnSpec]) -> Self {
        let of_one_table = ColumnSpec::are_of_one_table(columns);
        let mut encoded: [Arc<[u8]>; 3] =
            ProtocolVersion::ALL.map(|version| encode_columns(columns, of_one_table, version).into());
        for older in 0..2 {
            if encoded[older] == encoded[2] {
                encoded[older] = Arc::clone(&encoded[2]);
            }
        }
        let (high, low) = hash128(&encoded[2]);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high.to_be_bytes());
        id[8..].copy_from_slice(&low.to_be_bytes());
        Self { columns_count: columns.len() as u32, of_one_table, id, encoded }
    }

    /// Metadata of a statement that returns no rows.
    pub fn none() -> Self {
        Self::new(&[])
    }

    /// The number of columns.
    pub fn columns_count(&self) -> usize {
        self.columns_count as usize
    }

    /// v5's result metadata id. Equal columns have the same id on every node and after every restart.
    pub fn id(&self) -> &[u8; 16] {
        &self.id
    }

    pub(super) fn encoded(&self, version: ProtocolVersion) -> &[u8] {
        &self.encoded[usize::from(version.number() - ProtocolVersion::V3.number())]
    }

    pub(super) fn full_flags(&self) -> u32 {
        if self.of_one_table { flag::GLOBAL_TABLE } else { 0 }
    }

    /// The flags of the result metadata in PREPARE's answer: NO_METADATA for statements that return no rows.
    pub(super) fn flags_in_prepared(&self) -> u32 {
        if self.columns_count == 0 { flag::NO_METADATA } else { self.full_flags() }
    }
}

fn encode_columns(columns: &[ColumnSpec], of_one_table: bool, version: ProtocolVersion) -> Vec<u8> {
    let mut out = Vec::new();
    if of_one_table {
        put_string(&mut out, &columns[0].keyspace);
        put_string(&mut out, &columns[0].table);
    }
    for column in columns {
        if !of_one_table {
            put_string(&mut out, &column.keyspace);
            put_string(&mut out, &column.table);
        }
        put_string(&mut out, &column.name);
        put_type(&mut out, &column.column_type, version);
    }
    out
}

/// The amount of metadata that a page of rows carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMetadata {
    /// With the columns.
    Full,
    /// NO_METADATA: the client asked to skip the metadata and knows the current columns.
    Skip,
    /// v5: the client's result metadata id differs from this result's. Before v5 the same as `Full`.
    Changed,
}

impl SendMetadata {
    /// The metadata to send in answer to EXECUTE, by Cassandra's rule: in v5 the ids decide. Before v5,
    /// `skip_metadata` is honoured if the columns are still those returned by PREPARE (`prepared`).
    ///
    /// `client_id` is [`super::Execute::result_metadata_id`].
    pub fn for_execute(
        version: ProtocolVersion,
        skip_metadata: bool,
        client_id: Option<&[u8]>,
        prepared: &ResultMetadata,
        current: &ResultMetadata,
    ) -> Self {
        let known = match client_id {
            Some(id) if version >= ProtocolVersion::V5 => id == current.id,
            _ => prepared.id == current.id,
        };
        match (known, skip_metadata) {
            (true, true) => Self::Skip,
            (true, false) => Self::Full,
            (false, _) if version >= ProtocolVersion::V5 => Self::Changed,
            (false, _) => Self::Full,
        }
    }
}
