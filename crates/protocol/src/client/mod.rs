//! The client's side: encodes requests and decodes responses to owned values. Used by the shell, tests and
//! load generators.

mod encode;
mod read;

pub use encode::{RequestHead, write_request};
pub use read::ResponseMessage;
