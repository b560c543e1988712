//! Trace of a read, step by step, for a client that requested tracing.
//!
//! A [`ReadTrace`] travels with the command from shard to shard. It is the only data of a read to which
//! several shards write, and exists only for traced reads. On a shard a [`Tracer`] writes to it and adds the
//! shard and the time. An untraced read creates no notes: their texts are given as functions.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The most notes of a trace; later ones are only counted.
const NOTES_MAX: usize = 200;

/// An event during a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The shard on which the activity happened.
    pub shard: u32,
    /// Time on the shards' monotonic clock.
    pub at_us: u64,
    /// The activity, as `system_traces.events` shows it.
    pub text: String,
}

#[derive(Debug, Default)]
struct Notes {
    first: Vec<Note>,
    left_off: u64,
}

/// The notes of one read, from all its shards. See the head of this file.
#[derive(Debug, Default)]
pub struct ReadTrace(Mutex<Notes>);

impl ReadTrace {
    /// A trace without notes.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds a note; only counts it if the trace is full.
    pub fn note(&self, shard: u32, at_us: u64, text: String) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.first.len() < NOTES_MAX {
            notes.first.push(Note { shard, at_us, text });
        } else {
            notes.left_off += 1;
        }
    }

    /// The notes in order of time, and the number of notes that were dropped.
    pub fn take(&self) -> (Vec<Note>, u64) {
        let Notes { mut first, left_off } =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        first.sort_by_key(|note| note.at_us);
        (first, left_off)
    }
}

/// Writes the notes of one shard.
#[derive(Clone)]
pub struct Tracer(Rc<dyn Fn(String)>);

impl Tracer {
    /// A tracer that passes each activity to `note`, on the thread of the read.
    pub fn new(note: impl Fn(String) + 'static) -> Self {
        Self(Rc::new(note))
    }

    /// Records an activity.
    pub fn note(&self, text: String) {
        (self.0)(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_bounded_and_come_in_the_order_of_time() {
        let trace = ReadTrace::new();
        for at_us in (0..NOTES_MAX as u64 + 3).rev() {
            trace.note(1, at_us, String::new());
        }
        let (notes, left_off) = trace.take();
        assert!(notes.is_sorted_by_key(|note| note.at_us) && notes.len() == NOTES_MAX);
        assert_eq!(left_off, 3);
        assert_eq!(trace.take(), (vec![], 0));
    }
}
