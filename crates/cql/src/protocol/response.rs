//! What a server answers, as a client reads it: owned values.
//!
//! A server does not build these: it writes straight into its output (`write.rs`, `rows.rs`).

use super::{ColumnSpec, Event, SchemaChange};
use crate::CqlError;

/// A message of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    Error(CqlError),
    Ready,
    Authenticate {
        class: String,
    },
    AuthChallenge {
        token: Option<Vec<u8>>,
    },
    AuthSuccess {
        token: Option<Vec<u8>>,
    },
    /// In the order sent.
    Supported {
        options: Vec<(String, Vec<String>)>,
    },
    Void,
    Rows(Rows),
    SetKeyspace(String),
    Prepared(Prepared),
    SchemaChange(SchemaChange),
    Event(Event),
}

/// What a client knows of a result's columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowsMetadata {
    pub columns_count: usize,
    /// `None` with NO_METADATA: the client knows them from PREPARE.
    pub columns: Option<Vec<ColumnSpec>>,
    /// There are more pages, and the next one begins here.
    pub paging_state: Option<Vec<u8>>,
    /// v5 with METADATA_CHANGED: what to send with the next EXECUTE.
    pub new_metadata_id: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub metadata: RowsMetadata,
    /// `columns_count` cells in each; `None` is null.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    pub id: Vec<u8>,
    /// v5.
    pub result_metadata_id: Option<Vec<u8>>,
    /// Bind markers.
    pub variables: Vec<ColumnSpec>,
    /// v4 and later: which marker is which column of the partition key; empty if one has none.
    pub partition_key_indexes: Vec<u16>,
    pub result: RowsMetadata,
}

/// What may come in front of a response's body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseExtras {
    pub tracing_id: Option<[u8; 16]>,
    pub warnings: Vec<String>,
    pub custom_payload: Vec<(String, Option<Vec<u8>>)>,
}
