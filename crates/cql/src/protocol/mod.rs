//! Native protocol v3 to v5: bytes to requests, answers to bytes, and the other way round for clients.

mod column;
mod consistency;
mod event;
mod header;
mod request;
mod response;
mod values;
mod version;

pub use column::ColumnSpec;
pub use consistency::Consistency;
pub use event::{ChangeType, Event, EventType, SchemaChange, SchemaTarget, StatusChange, TopologyChange};
pub use header::{EVENT_STREAM, Envelope, HEADER_BYTES, Header, HeaderFlags, Opcode, RESPONSE_BIT};
pub use request::{
    Batch, BatchQuery, BatchStatement, BatchType, CustomPayload, Execute, QueryParameters, Request, Startup,
};
pub use response::{Prepared, Response, ResponseExtras, Rows, RowsMetadata};
pub use values::{Value, Values};
pub use version::ProtocolVersion;
