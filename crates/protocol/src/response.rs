//! A server's answers as a client decodes them: owned values.
//!
//! A server does not use these types: it writes directly into its output (`reply.rs`, `rows.rs`).

use super::{ColumnSpec, Event, SchemaChange};
use crate::CqlError;

/// A message of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// The request failed.
    Error(CqlError),
    /// The connection may send statements.
    Ready,
    /// The server wants a login.
    Authenticate {
        /// The authenticator's class, by which drivers choose the mechanism.
        class: String,
    },
    /// The login continues.
    AuthChallenge {
        /// The server's token; `None`: null.
        token: Option<Vec<u8>>,
    },
    /// The login has succeeded.
    AuthSuccess {
        /// The server's last token; `None`: null.
        token: Option<Vec<u8>>,
    },
    /// Options in the order sent.
    Supported {
        /// Each option's name and values.
        options: Vec<(String, Vec<String>)>,
    },
    /// A statement without rows has succeeded.
    Void,
    /// A page of rows.
    Rows(Rows),
    /// USE has succeeded; the keyspace in use.
    SetKeyspace(String),
    /// A prepared statement.
    Prepared(Prepared),
    /// A schema statement has changed this.
    SchemaChange(SchemaChange),
    /// An event, pushed to the client.
    Event(Event),
}

/// Metadata of a result's columns, as received by a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowsMetadata {
    /// The number of columns, known even if they are left out.
    pub columns_count: usize,
    /// `None` with NO_METADATA: the client knows the columns from PREPARE.
    pub columns: Option<Vec<ColumnSpec>>,
    /// Position of the next page; `None` on the last page.
    pub paging_state: Option<Vec<u8>>,
    /// v5 with METADATA_CHANGED: the id to send with the next EXECUTE.
    pub new_metadata_id: Option<Vec<u8>>,
}

/// A page of rows, as it was received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The columns and the state for the next page.
    pub metadata: RowsMetadata,
    /// Each row has `columns_count` cells; `None` is null.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

/// A prepared statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The id by which EXECUTE names it.
    pub id: Vec<u8>,
    /// Only in v5.
    pub result_metadata_id: Option<Vec<u8>>,
    /// Bind markers.
    pub variables: Vec<ColumnSpec>,
    /// v4 and later: for each column of the partition key, the index of its bind marker. Empty if a column
    /// has none.
    pub partition_key_indexes: Vec<u16>,
    /// The columns of its result; none for statements without rows.
    pub result: RowsMetadata,
}

/// The optional fields that precede a response's body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseExtras {
    /// The id of the trace, if the request wanted one.
    pub tracing_id: Option<[u8; 16]>,
    /// Texts for the user.
    pub warnings: Vec<String>,
    /// Pairs of names and bytes for extensions.
    pub custom_payload: Vec<(String, Option<Vec<u8>>)>,
}
