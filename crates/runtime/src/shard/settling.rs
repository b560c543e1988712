//! The points of a turn at which tasks gather what the requests of the turn have left.
//!
//! A task that works for many requests at once, such as the writer of the commit log, should run once a turn
//! and not once a request. It waits here until no request that is ready remains, or the turn ends, whichever
//! is first. A request that has yielded counts as ready no more: it is a long one.
//!
//! The stages of a turn follow each other: tasks of the first stage may make requests ready, and those run
//! before the tasks of the second stage do.

use crate::event::Event;

/// A point of the turn; see [`Shard::settled`](crate::Shard::settled).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The requests have appended to the commit log.
    Log,
    /// The requests have been answered.
    Answers,
}

/// The tasks that wait for the stages of the turn.
#[derive(Default)]
pub(crate) struct Settling {
    log: Event,
    answers: Event,
}

impl Settling {
    pub(crate) fn of(&self, stage: Stage) -> &Event {
        match stage {
            Stage::Log => &self.log,
            Stage::Answers => &self.answers,
        }
    }

    /// Whether a task waits.
    pub(crate) fn is_awaited(&self) -> bool {
        self.log.is_awaited() || self.answers.is_awaited()
    }

    /// Wakes the tasks of the first stage for which some wait; false if none waits.
    pub(crate) fn wake_next(&self) -> bool {
        let next = [&self.log, &self.answers].into_iter().find(|stage| stage.is_awaited());
        next.inspect(|stage| stage.signal()).is_some()
    }

    /// Wakes all tasks, because the turn has ended.
    pub(crate) fn wake_all(&self) {
        while self.wake_next() {}
    }
}
