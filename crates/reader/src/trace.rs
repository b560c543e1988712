//! What a read does, step by step, for a client that asked to know.
//!
//! A [`ReadTrace`] goes with the command from shard to shard: the one thing that several shards write to, and only for
//! reads that are traced. On a shard a [`Tracer`] writes to it, which knows where and when. Without one nothing is made:
//! what is noted is given as a function.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// Notes of a trace: the first.
const NOTES_MAX: usize = 200;

/// Something that happened in the course of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub shard: u32,
    /// On the shards' monotonic clock.
    pub at_us: u64,
    pub text: String,
}

#[derive(Debug, Default)]
struct Notes {
    first: Vec<Note>,
    left_off: u64,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct ReadTrace(Mutex<Notes>);

impl ReadTrace {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn note(&self, shard: u32, at_us: u64, text: String) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.first.len() < NOTES_MAX {
            notes.first.push(Note { shard, at_us, text });
        } else {
            notes.left_off += 1;
        }
    }

    /// What was noted, in the order of time, and how much more would have been.
    pub fn take(&self) -> (Vec<Note>, u64) {
        let Notes { mut first, left_off } =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        first.sort_by_key(|note| note.at_us);
        (first, left_off)
    }
}

/// Notes what happens on one shard.
#[derive(Clone)]
pub struct Tracer(Rc<dyn Fn(String)>);

impl Tracer {
    pub fn new(note: impl Fn(String) + 'static) -> Self {
        Self(Rc::new(note))
    }

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
