//! Native protocol v3 to v5: bytes to requests, answers to bytes, and the other way round for clients.

mod column;
mod consistency;
mod data_type;
mod decode;
mod event;
mod failure;
mod header;
mod reply;
mod request;
mod response;
mod rows;
mod supported;
mod values;
mod version;
mod wire;

pub use column::ColumnSpec;
pub use consistency::Consistency;
pub use data_type::{put_type, take_type};
pub use decode::RequestMessage;
pub use event::{ChangeType, Event, EventType, SchemaChange, SchemaTarget, StatusChange, TopologyChange};
pub use header::{EVENT_STREAM, Envelope, HEADER_BYTES, Header, HeaderFlags, Opcode, RESPONSE_BIT};
pub use reply::{PreparedReply, Reply};
pub use request::{
    Batch, BatchQuery, BatchStatement, BatchType, CustomPayload, Execute, QueryParameters, Request, Startup,
};
pub use response::{Prepared, Response, ResponseExtras, Rows, RowsMetadata};
pub use rows::{ResultMetadata, RowsWriter, SendMetadata};
pub use supported::{ShardingInfo, Supported};
pub use values::{Value, Values};
pub use version::ProtocolVersion;
