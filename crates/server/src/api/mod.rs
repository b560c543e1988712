//! What the two sides of the admin API share: the node, which answers, and `nodetool`, which asks.

pub mod answers;
pub mod login;
