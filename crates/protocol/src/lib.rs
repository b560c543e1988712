//! Native protocol v3 to v5: decodes requests and encodes answers; for clients, encodes requests and decodes
//! answers.
//!
//! | question | file |
//! |---|---|
//! | where does a message end, is it complete, is it too large | `inbound.rs`, `header.rs`, `segment.rs` |
//! | what does a client request | `request.rs`, `values.rs`; decoded by `decode.rs` |
//! | how is a request answered | `reply.rs`, `rows.rs`, `supported.rs`, `event.rs`; errors: `error.rs`, written by `failure.rs` |
//! | how are answers framed and compressed | `outbound.rs`, `compression.rs` |
//! | how are types and columns named | `data_type.rs`, `column.rs` |
//! | what does a client write and read | `client/`, `response.rs` |
//!
//! A server's connection is an [`Inbound`] and an [`Outbound`]:
//!
//! ```
//! use protocol::{
//!     BODY_BYTES_MAX_DEFAULT, Inbound, Outbound, Reply, Request, RequestMessage, Side, Supported,
//! };
//!
//! let mut inbound = Inbound::new(Side::Server, BODY_BYTES_MAX_DEFAULT);
//! let mut outbound = Outbound::new();
//! inbound.feed(b"\x04\0\0\x01\x05\0\0\0\0"); // from a socket: OPTIONS
//! loop {
//!     match inbound.next() {
//!         Ok(None) => break,
//!         Ok(Some(envelope)) => {
//!             let reply = Reply::new(envelope.header.version, envelope.header.stream);
//!             outbound.envelope(|out| match RequestMessage::decode(&envelope) {
//!                 Ok(message) if message.request == Request::Options => {
//!                     reply.supported(out, &Supported::new("3.4.7"));
//!                 }
//!                 Ok(_) => reply.void(out),
//!                 Err(error) => reply.error(out, &error),
//!             });
//!         }
//!         Err(error) => {
//!             outbound.envelope(|out| error.write(out));
//!             if error.close {
//!                 break;
//!             }
//!         }
//!     }
//! }
//! assert_eq!(outbound.ready()[..5], [0x84, 0, 0, 1, 0x06]); // to the socket
//! ```
//!
//! **Guarantee:** no received bytes make this crate panic, or use more memory than a small multiple of their
//! length. Memory for a claimed length is allocated only as the bytes arrive.

#![warn(missing_docs)]

pub mod client;
mod column;
mod compression;
mod consistency;
mod data_type;
mod decode;
mod error;
mod event;
mod failure;
mod header;
mod inbound;
mod metadata;
mod outbound;
mod reply;
mod request;
mod response;
mod rows;
mod segment;
mod streamed;
mod supported;
mod values;
mod version;
mod wire;

pub use column::ColumnSpec;
pub use compression::Compression;
pub use consistency::Consistency;
pub use data_type::{put_type, take_type};
pub use decode::RequestMessage;
pub use error::{CqlError, FailureReason, WriteKind};
pub use event::{ChangeType, Event, EventType, SchemaChange, SchemaTarget, StatusChange, TopologyChange};
pub use header::{EVENT_STREAM, Envelope, HEADER_BYTES, Header, HeaderFlags, Opcode, RESPONSE_BIT};
pub use inbound::{BODY_BYTES_MAX_DEFAULT, FrameError, Inbound, Side};
pub use metadata::{ResultMetadata, SendMetadata};
pub use outbound::Outbound;
pub use reply::{PreparedReply, Reply};
pub use request::{Batch, BatchQuery, BatchStatement, BatchType, Execute, QueryParameters, Request, Startup};
pub use response::{Prepared, Response, ResponseExtras, Rows, RowsMetadata};
pub use rows::RowsWriter;
pub use streamed::{Blocks, NoBlocks};
pub use supported::{ShardingInfo, Supported};
pub use values::{Value, ValueBuffer, Values};
pub use version::ProtocolVersion;
pub use wire::CustomPayload;

#[cfg(test)]
mod tests;
