//! Queues of several shards before a disk that serves first come, first served.

mod cases;
mod lab;
mod laws;
mod learned;
mod rooms;
