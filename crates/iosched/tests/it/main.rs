//! Tests of the queues of several shards with a simulated disk that serves requests in order of arrival.

mod cases;
mod lab;
mod laws;
mod learned;
mod quota;
