//! The prepared statements of a shard (LRU).
//!
//! A statement is prepared once, on the shard of the connection, and then stored on all shards, so that any
//! connection can execute it. Bounded in bytes: the least recently used statement is evicted. A client that
//! executes an evicted statement gets UNPREPARED and prepares it again.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use base::HashMap;
use cql::Prepared;

/// MD5 of keyspace and text, as Cassandra and ScyllaDB compute it.
pub(crate) type StatementId = [u8; 16];

struct Entry {
    prepared: Arc<Prepared>,
    last_use: Cell<u64>,
    /// Whether it is served at the level `driver`; decided when it is prepared.
    is_control: bool,
}

/// See the head of this file.
pub(crate) struct Statements {
    by_id: RefCell<HashMap<StatementId, Entry>>,
    bytes: Cell<usize>,
    bytes_max: usize,
    /// Number of uses: the clock for `last_use`.
    uses: Cell<u64>,
}

impl Statements {
    pub fn new(bytes_max: usize) -> Self {
        Self { by_id: RefCell::default(), bytes: Cell::new(0), bytes_max, uses: Cell::new(0) }
    }

    /// Memory of the statements, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    #[inline]
    pub fn get(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        let id: &StatementId = id.try_into().ok()?;
        let by_id = self.by_id.borrow();
        let entry = by_id.get(id)?;
        entry.last_use.set(self.tick());
        Some(entry.prepared.clone())
    }

    /// Whether the statement is known and is a driver's query about nodes or schema.
    #[inline]
    pub fn is_control(&self, id: &[u8]) -> bool {
        let Ok(id) = id.try_into() else { return false };
        let id: &StatementId = id;
        self.by_id.borrow().get(id).is_some_and(|entry| entry.is_control)
    }

    /// Stores a statement, replacing an earlier one with its id.
    pub fn insert(&self, prepared: Arc<Prepared>) {
        let mut by_id = self.by_id.borrow_mut();
        let bytes = prepared.memory_bytes();
        let is_control = prepared.is_control();
        let entry = Entry { last_use: Cell::new(self.tick()), is_control, prepared };
        if let Some(earlier) = by_id.insert(entry.prepared.id, entry) {
            self.bytes.set(self.bytes.get() - earlier.prepared.memory_bytes());
        }
        self.bytes.set(self.bytes.get() + bytes);
        while self.bytes.get() > self.bytes_max && by_id.len() > 1 {
            let oldest = by_id.iter().min_by_key(|(_, entry)| entry.last_use.get()).map(|(id, _)| *id);
            let gone = oldest.and_then(|id| by_id.remove(&id)).expect("there are several");
            self.bytes.set(self.bytes.get() - gone.prepared.memory_bytes());
        }
    }

    /// All statements, in no order.
    pub fn all(&self) -> Vec<Arc<Prepared>> {
        self.by_id.borrow().values().map(|entry| entry.prepared.clone()).collect()
    }

    fn tick(&self) -> u64 {
        self.uses.set(self.uses.get() + 1);
        self.uses.get()
    }
}
