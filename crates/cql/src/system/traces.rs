//! The tables of `system_traces`: traces of requests, which the clients asked for.
//!
//! A [`Trace`] is a row of `sessions` and a partition of `events`. The ids of events are UUIDs of version 1
//! that ascend in the order of the events.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::types::CqlValue;
use uuid::Uuid;

use super::node_info::NodeInfo;
use super::rows::{Rows, inet, int, text, uuid};

/// Steps of 100 ns from the start of the Gregorian calendar to the Unix epoch.
const GREGORIAN_TICKS: u64 = 0x01B2_1DD2_1381_4000;
const TICKS_PER_US: u64 = 10;

/// A traced request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The id that the client received.
    pub id: Uuid,
    pub client: IpAddr,
    /// Kind of the message, such as `QUERY`.
    pub command: String,
    /// Description of the request, such as `Execute CQL3 query`.
    pub request: String,
    /// Statement, consistency level and page size, by name.
    pub parameters: BTreeMap<String, String>,
    /// Microseconds since the Unix epoch.
    pub started_us: i64,
    pub duration_us: u64,
    /// Events in the order of their time.
    pub events: Vec<TraceEvent>,
}

/// An event during a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    pub activity: String,
    /// Microseconds since the start of the request.
    pub elapsed_us: u64,
    /// Name of the thread, such as `shard 1`.
    pub thread: String,
}

impl Trace {
    /// Returns an id for a trace that starts at `started_us`. `random` distinguishes traces that start at the
    /// same time.
    pub fn id_of(started_us: i64, random: u64) -> Uuid {
        time_uuid(ticks(started_us, 0), random)
    }
}

fn ticks(unix_us: i64, elapsed_us: u64) -> u64 {
    let us = u64::try_from(unix_us).unwrap_or(0).saturating_add(elapsed_us);
    GREGORIAN_TICKS.saturating_add(us.saturating_mul(TICKS_PER_US))
}

/// Builds a UUID of version 1 from the time and 62 bits that distinguish equal times.
fn time_uuid(ticks: u64, rest: u64) -> Uuid {
    let high = (ticks & 0xffff_ffff) << 32 | (ticks >> 32 & 0xffff) << 16 | 0x1000 | (ticks >> 48 & 0x0fff);
    let low = rest & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
    Uuid::from_u64_pair(high, low)
}

pub(super) fn sessions(rows: &mut Rows, info: &NodeInfo) {
    for trace in &info.traces {
        let parameters = trace.parameters.iter().map(|(name, value)| (text(name), text(value))).collect();
        rows.push(
            vec![uuid(trace.id)],
            [
                ("client", Some(inet(trace.client))),
                ("command", Some(text(&trace.command))),
                ("coordinator", Some(inet(info.broadcast_address))),
                ("coordinator_port", Some(int(info.broadcast_port))),
                ("duration", Some(microseconds(trace.duration_us))),
                ("parameters", Some(CqlValue::Map(parameters))),
                ("request", Some(text(&trace.request))),
                ("started_at", Some(CqlValue::Timestamp(trace.started_us / 1000))),
            ],
        );
    }
}

pub(super) fn events(rows: &mut Rows, info: &NodeInfo) {
    for trace in &info.traces {
        let mut last_ticks = 0;
        for event in &trace.events {
            last_ticks = ticks(trace.started_us, event.elapsed_us).max(last_ticks + 1);
            rows.push(
                vec![uuid(trace.id), uuid(time_uuid(last_ticks, trace.id.as_u64_pair().1))],
                [
                    ("activity", Some(text(&event.activity))),
                    ("source", Some(inet(info.broadcast_address))),
                    ("source_elapsed", Some(microseconds(event.elapsed_us))),
                    ("source_port", Some(int(info.broadcast_port))),
                    ("thread", Some(text(&event.thread))),
                ],
            );
        }
    }
}

fn microseconds(us: u64) -> CqlValue {
    int(i32::try_from(us).unwrap_or(i32::MAX))
}
