//! Native protocol v3 to v5: bytes to requests, answers to bytes, and the other way round for clients.

pub mod client;
mod column;
mod compression;
mod consistency;
mod data_type;
mod decode;
mod event;
mod failure;
mod header;
mod inbound;
mod outbound;
mod reply;
mod request;
mod response;
mod rows;
mod segment;
mod supported;
mod values;
mod version;
mod wire;

pub use column::ColumnSpec;
pub use compression::Compression;
pub use consistency::Consistency;
pub use data_type::{put_type, take_type};
pub use decode::RequestMessage;
pub use event::{ChangeType, Event, EventType, SchemaChange, SchemaTarget, StatusChange, TopologyChange};
pub use header::{EVENT_STREAM, Envelope, HEADER_BYTES, Header, HeaderFlags, Opcode, RESPONSE_BIT};
pub use inbound::{BODY_BYTES_MAX_DEFAULT, FrameError, Inbound, Side};
pub use outbound::Outbound;
pub use reply::{PreparedReply, Reply};
pub use request::{
    Batch, BatchQuery, BatchStatement, BatchType, CustomPayload, Execute, QueryParameters, Request, Startup,
};
pub use response::{Prepared, Response, ResponseExtras, Rows, RowsMetadata};
pub use rows::{ResultMetadata, RowsWriter, SendMetadata};
pub use supported::{ShardingInfo, Supported};
pub use values::{Value, ValueBuffer, Values};
pub use version::ProtocolVersion;

#[cfg(test)]
mod tests;
