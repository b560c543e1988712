//! Traces of requests: recording while they run, and the latest traces.
//!
//! A finished trace is stored on every shard before the request is answered, so that the client finds it by
//! any connection. Bounded: [`TRACES_MAX`] traces of [`EVENTS_MAX`] events, texts cut at [`TEXT_BYTES_MAX`].

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use cql::system::{Trace, TraceEvent};
use protocol::{BatchQuery, Header, Opcode, QueryParameters, Request};
use reader::trace::{Note, ReadTrace};
use runtime::Shard;
use uuid::Uuid;

use super::on_all_shards;

/// Limit of traces that a node keeps: the latest.
const TRACES_MAX: usize = 128;
/// Limit of events of one trace: the first.
const EVENTS_MAX: usize = 256;
/// Limit of a statement's text, in bytes.
const TEXT_BYTES_MAX: usize = 2048;

/// The latest traces, oldest first; each shard has all of them.
#[derive(Default)]
pub(crate) struct Traces(RefCell<VecDeque<Arc<Trace>>>);

impl Traces {
    pub fn all(&self) -> Vec<Arc<Trace>> {
        self.0.borrow().iter().cloned().collect()
    }

    fn keep(&self, trace: Arc<Trace>) {
        let mut kept = self.0.borrow_mut();
        if kept.len() == TRACES_MAX {
            kept.pop_front();
        }
        kept.push_back(trace);
    }
}

/// The text up to the word PASSWORD, because readers of traces must not see passwords. As in Cassandra.
fn without_password(text: &str) -> String {
    const WORD: &str = "password";
    match text.to_ascii_lowercase().find(WORD) {
        Some(at) => format!("{} *******", &text[..at + WORD.len()]),
        None => text.to_string(),
    }
}

/// Records the trace of a running request.
pub(crate) struct Recorder {
    shard: Shard,
    /// On the monotonic clock.
    began_us: u64,
    trace: RefCell<Trace>,
    /// Records of its reads, of all shards.
    reads: RefCell<Vec<Arc<ReadTrace>>>,
}

impl Recorder {
    pub fn new(shard: &Shard, client: IpAddr, header: Header) -> Self {
        let started_us = shard.wall_us();
        let (command, request) = match header.opcode {
            Opcode::Prepare => ("PREPARE", "Preparing CQL3 query"),
            Opcode::Execute => ("EXECUTE", "Execute CQL3 prepared query"),
            Opcode::Batch => ("BATCH", "Execute batch of CQL3 queries"),
            _ => ("QUERY", "Execute CQL3 query"),
        };
        let trace = Trace {
            id: Trace::id_of(started_us, shard.random_u64()),
            client,
            command: command.to_string(),
            request: request.to_string(),
            parameters: BTreeMap::new(),
            started_us,
            duration_us: 0,
            events: vec![],
        };
        Self {
            shard: shard.clone(),
            began_us: shard.now_us(),
            trace: RefCell::new(trace),
            reads: RefCell::default(),
        }
    }

    pub fn id(&self) -> Uuid {
        self.trace.borrow().id
    }

    /// Records an event at the current time.
    pub fn event(&self, activity: impl Into<String>) {
        let mut trace = self.trace.borrow_mut();
        if trace.events.len() < EVENTS_MAX {
            let elapsed_us = self.shard.now_us() - self.began_us;
            let thread = format!("shard {}", self.shard.id());
            trace.events.push(TraceEvent { activity: activity.into(), elapsed_us, thread });
        }
    }

    /// The record for a read to write to.
    pub fn begin_read(&self) -> Arc<ReadTrace> {
        let read = ReadTrace::new();
        self.reads.borrow_mut().push(read.clone());
        read
    }

    /// Merges the records of reads into the events, ordered by time.
    fn merge_reads(&self) {
        let mut trace = self.trace.borrow_mut();
        for read in self.reads.take() {
            let (notes, left_off) = read.take();
            let last = notes.last().map_or((self.shard.id(), self.began_us), |note| (note.shard, note.at_us));
            let more = (left_off > 0).then(|| Note {
                shard: last.0,
                at_us: last.1,
                text: format!("{left_off} more steps are left out here"),
            });
            trace.events.extend(notes.into_iter().chain(more).map(|Note { shard, at_us, text }| {
                TraceEvent {
                    activity: text,
                    elapsed_us: at_us.saturating_sub(self.began_us),
                    thread: format!("shard {shard}"),
                }
            }));
        }
        trace.events.sort_by_key(|event| event.elapsed_us);
        trace.events.truncate(EVENTS_MAX);
    }

    fn parameter(&self, name: &str, value: String) {
        self.trace.borrow_mut().parameters.insert(name.to_string(), value);
    }

    /// Records the request.
    pub fn request(&self, request: &Request<'_>) {
        match request {
            Request::Query { text, parameters } => {
                self.statement(text);
                self.parameters(parameters);
            }
            Request::Prepare { text, .. } => self.statement(text),
            Request::Execute(execute) => self.parameters(&execute.parameters),
            Request::Batch(batch) => {
                let texts = batch.statements.iter().filter_map(|statement| match statement.query {
                    BatchQuery::Text(text) => Some(text),
                    BatchQuery::Prepared(_) => None,
                });
                if let Some(first) = texts.into_iter().next() {
                    self.statement(first);
                }
                self.parameter("statements", batch.statements.len().to_string());
                self.parameters(&batch.parameters);
            }
            _ => {}
        }
    }

    /// Records the text of the statement, up to a password.
    pub fn statement(&self, text: &str) {
        self.parameter("query", without_password(&text[..text.floor_char_boundary(TEXT_BYTES_MAX)]));
    }

    fn parameters(&self, parameters: &QueryParameters<'_>) {
        self.parameter("consistency_level", parameters.consistency.to_string());
        if let Some(rows) = parameters.page_size_rows {
            self.parameter("page_size", rows.to_string());
        }
    }

    /// Ends the trace before the request is answered. Completes when every shard has it.
    pub async fn finish(&self) {
        self.merge_reads();
        let trace = {
            let mut trace = self.trace.borrow_mut();
            trace.duration_us = self.shard.now_us() - self.began_us;
            Arc::new(trace.clone())
        };
        on_all_shards(&self.shard, move |cql| cql.traces.keep(trace.clone())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn passwords_are_not_kept() {
        let found = without_password("ALTER ROLE ann WITH Password = 'secret' AND LOGIN = true");
        assert_eq!(found, "ALTER ROLE ann WITH Password *******");
        assert_eq!(without_password("SELECT v FROM t"), "SELECT v FROM t");
    }
}
