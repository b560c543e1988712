//! CQL types: the meaning of a column's bytes, their order, names of types, and text forms of values.
//!
//! A value is always represented by its serialized bytes (the native protocol's form, v3 and later), which a
//! [`CqlType`] interprets. Each aspect has a file of its own:
//!
//! | question | file |
//! |---|---|
//! | the types and the properties of their values | `cql_type.rs` |
//! | how does an SSTable header or a schema table name a type | `java_name.rs`, `cql_name.rs` |
//! | which of two values sorts first | `order.rs` (numbers: `decimal.rs`, `varint.rs`) |
//! | are these bytes a value of the type | `validate.rs` |
//! | the order in which a client's sets and maps are stored | `normal.rs` |
//! | how is a collection, tuple or vector laid out | `collection.rs` |
//! | text to bytes and back | `text_in.rs`, `text_out.rs`; scalars: `scalar_text.rs`, `civil.rs`, `duration.rs`, `float_text.rs` |
//! | the text of keys as `sstabledump` prints and takes it | `raw_text.rs` |
//! | JSON text as a tree | `json.rs` |
//! | a value as JSON and back | `json_out.rs`, `json_in.rs` |
//! | a value as a Rust enum | `value.rs` |
//!
//! **Guarantee:** no function here panics on bytes or text from outside, recurses deeper than [`MAX_DEPTH`],
//! or allocates more than a small multiple of its input.

mod civil;
mod collection;
mod cql_name;
mod cql_type;
pub(crate) mod decimal;
mod duration;
mod error;
mod float_text;
mod java_name;
mod json;
mod json_in;
mod json_out;
mod normal;
pub(crate) mod order;
mod raw_text;
mod scalar_text;
mod text_in;
mod text_out;
mod validate;
mod value;
pub(crate) mod varint;

pub use collection::{
    CollectionBuilder, CollectionIter, CompositeIter, MapIter, TupleIter, VectorIter, build_composite,
    build_tuple, build_vector,
};
pub use cql_name::push_identifier;
pub use cql_type::{CqlType, MAX_DEPTH, UdtField, UserType};
pub use duration::Duration;
pub use error::TypeError;
pub use json::Json;
pub use json_in::json_name;
pub use json_out::push_json_string;
pub use value::CqlValue;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod laws;
