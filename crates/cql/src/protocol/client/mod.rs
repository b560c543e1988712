//! The client's side: requests to bytes, responses to owned values. For the shell, for tests and load.

mod encode;
mod read;

pub use encode::{RequestHead, write_request};
pub use read::ResponseMessage;
