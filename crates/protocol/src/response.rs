//! A server's answers as a client decodes them: owned values.
//!
//! A server does not use these types: it writes directly into its output (`reply.rs`, `rows.rs`).

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
    /// Options in the order sent.
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

/// Metadata of a result's columns, as received by a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowsMetadata {
    pub columns_count: usize,
    /// `None` with NO_METADATA: the client knows the columns from PREPARE.
    pub columns: Option<Vec<ColumnSpec>>,
    /// Position of the next page; `None` on the last page.
    pub paging_state: Option<Vec<u8>>,
    /// v5 with METADATA_CHANGED: the id to send with the next EXECUTE.
    pub new_metadata_id: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub metadata: RowsMetadata,
    /// Each row has `columns_count` cells; `None` is null.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    pub id: Vec<u8>,
    /// Only in v5.
    pub result_metadata_id: Option<Vec<u8>>,
    /// Bind markers.
    pub variables: Vec<ColumnSpec>,
    /// v4 and later: for each column of the partition key, the index of its bind marker. Empty if a column
    /// has none.
    pub partition_key_indexes: Vec<u16>,
    pub result: RowsMetadata,
}

/// The optional fields that precede a response's body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseExtras {
    pub tracing_id: Option<[u8; 16]>,
    pub warnings: Vec<String>,
    pub custom_payload: Vec<(String, Option<Vec<u8>>)>,
}
