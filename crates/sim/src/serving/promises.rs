//! The server's promises that can be broken on purpose, each with the checker that must detect it: `sim
//! --server --break`.
//!
//! Some are promises of the engine that clients of the server must detect too. See [`crate::promises`].

use super::notes::Checker;
use crate::promises::Promise;

/// At least one for each checker.
pub const PROMISES: &[Promise<Checker>] = &[
    Promise::new("answer_sent", Checker::Answers, "one of sixteen answers is not sent"),
    Promise::new("idle_closed", Checker::Connections, "idle connections stay open"),
    Promise::new(
        "write_accepted",
        Checker::Errors,
        "a write is refused for want of space when there is space",
    ),
    Promise::new("write_applied", Checker::Reads, "one of eight writes is acknowledged and not applied"),
    Promise::new("log_sync", Checker::Restart, "the commit log acknowledges without a sync"),
    Promise::new(
        "batch_whole",
        Checker::Batches,
        "a batch over several shards is logged by each shard alone",
    ),
    Promise::new("decision_youngest", Checker::Linear, "a decided write keeps the timestamp of its arrival"),
    Promise::new("counter_once", Checker::Counters, "an addition to a counter is made twice"),
    Promise::new("page_whole", Checker::Pages, "a page that is not the last loses its last partition"),
    Promise::new(
        "schema_changed",
        Checker::Schema,
        "one of eight changes of the schema is answered and not made",
    ),
    Promise::new("password_checked", Checker::Access, "each password is accepted"),
    Promise::new("room_returned", Checker::Leftovers, "bytes of a request are not given back when it ends"),
    Promise::new("keepalive_set", Checker::Leftovers, "idle connections of vanished clients stay open"),
    Promise::new("log_sync", Checker::Starts, "the commit log acknowledges without a sync"),
    Promise::new("log_wake", Checker::Ends, "no task is woken when the commit log was written"),
    Promise::new("assertion", Checker::Panics, "an assertion fails in each flush"),
    Promise::new(
        "same_schedule",
        Checker::Same,
        "writes wait or not, by a random number from outside the seed",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_checker_has_a_promise_and_none_is_there_twice() {
        crate::promises::tests::check_names(PROMISES, &Checker::ALL);
    }
}
