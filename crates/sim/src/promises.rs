//! The engine's promises that can be broken on purpose, each with the checker that must detect it: `sim
//! --break`.
//!
//! A checker that never fails may guard nothing. For each promise one place in the code, named by
//! `base::broken::is`, breaks it; seeds run until that checker fails. A failure of another checker does not
//! count. The server's promises are in [`crate::serving::promises`].

use crate::failure::Checker;

/// A promise. `C`: the checkers of the simulation that runs the seeds.
#[derive(Clone, Copy, Debug)]
pub struct Promise<C> {
    /// The name that the code passes to `broken`.
    pub name: &'static str,
    pub checker: C,
    /// The fault when it is broken.
    pub how: &'static str,
}

impl<C> Promise<C> {
    pub const fn new(name: &'static str, checker: C, how: &'static str) -> Self {
        Self { name, checker, how }
    }
}

/// At least one for each checker.
pub const PROMISES: &[Promise<Checker>] = &[
    Promise::new("log_sync", Checker::Restart, "the commit log acknowledges without a sync"),
    Promise::new(
        "batch_whole",
        Checker::Batches,
        "a batch over several shards is logged by each shard alone",
    ),
    Promise::new("compaction_input", Checker::Running, "a compaction leaves one of its inputs out"),
    Promise::new(
        "tombstone_purge",
        Checker::Running,
        "a compaction drops tombstones of data that it does not have",
    ),
    Promise::new("sealed_memtable", Checker::Meanwhile, "a read leaves out memtables that are being flushed"),
    Promise::new(
        "page_restart",
        Checker::Pages,
        "a page without parked readers loses the rest of its partition",
    ),
    Promise::new("index_candidates", Checker::Indexes, "a read by index leaves out a candidate"),
    Promise::new("chunk_checksum", Checker::Decay, "checksums of chunks are not compared"),
    Promise::new("partition_lock", Checker::Linear, "conditional writes and counters take no lock"),
    Promise::new("schema_whole", Checker::Schema, "a change of the schema is stored without its last part"),
    Promise::new("sstable_manifest", Checker::Opens, "the list of SSTables is not brought up to date"),
    Promise::new(
        "write_accepted",
        Checker::Errors,
        "a write is refused for want of space when there is space",
    ),
    Promise::new("data_digest", Checker::Undamaged, "SSTables are written with a wrong digest"),
    Promise::new("compaction_record", Checker::Strays, "the record of a compaction stays when it is over"),
    Promise::new("flush_retry", Checker::Resumes, "a flush that found no space is not tried again"),
    Promise::new("log_wake", Checker::Ends, "no task is woken when the commit log was written"),
    Promise::new("assertion", Checker::Panics, "an assertion fails in each flush"),
    Promise::new(
        "same_schedule",
        Checker::Same,
        "writes wait or not, by a random number from outside the seed",
    ),
];

/// Breaks promises; only in builds with debug assertions.
#[cfg(debug_assertions)]
pub mod breaking {
    use std::fmt::Debug;

    use base::broken;

    use super::Promise;
    use crate::batch;

    /// Limit of the seeds until a checker must have detected its broken promise.
    const SEEDS_MAX: u64 = 400;

    /// Breaks the promise and runs seeds with `trial` until its checker fails. Returns the checker's text, or
    /// an error if it never failed. A failed trial returns its checker and text. `again`: each seed is run
    /// twice.
    pub fn check<C: Copy + Debug + PartialEq + Send + Sync>(
        promise: &Promise<C>,
        jobs: usize,
        again: bool,
        trial: impl Fn(u64, bool) -> Result<(), (C, String)> + Sync,
    ) -> Result<String, String> {
        let Promise { name, checker, how } = promise;
        let seeds: Vec<u64> = (0..SEEDS_MAX).collect();
        broken::set(name);
        let mut seen = None;
        let mut others: Vec<(C, u64)> = vec![];
        let run = |seed: u64| match trial(seed, again) {
            Err((failed, text)) if failed == *checker => Err(text),
            Err((failed, _)) => Ok(Some(failed)),
            Ok(()) => Ok(None),
        };
        batch::run(&seeds, jobs, false, run, |seed, outcome| match outcome {
            Err(text) => seen = Some((seed, text)),
            Ok(Some(other)) => match others.iter_mut().find(|(checker, _)| *checker == other) {
                Some((_, count)) => *count += 1,
                None => others.push((other, 1)),
            },
            Ok(None) => {}
        });
        let times = broken::times();
        broken::clear();
        let others: Vec<String> =
            others.iter().map(|(checker, count)| format!("{checker:?} {count}")).collect();
        let others = if others.is_empty() { "no other".to_string() } else { others.join(", ") };
        match seen {
            Some((seed, text)) => {
                let first: String = text.lines().next().unwrap_or_default().chars().take(100).collect();
                Ok(format!(
                    "{name}: {checker:?} failed at seed {seed}, after {others}, broken {times} times: {first}"
                ))
            }
            None => Err(format!(
                "{name}: {checker:?} did not fail in {SEEDS_MAX} seeds ({others} failed; the promise was broken {times} times): \
                 {how}"
            )),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use std::fmt::Debug;

    use super::*;

    /// Checks that each checker has a promise, and that no name occurs twice. Several checkers may have the
    /// same promise.
    pub fn check_names<C: Debug + PartialEq>(promises: &[Promise<C>], checkers: &[C]) {
        for checker in checkers {
            let has_one = promises.iter().any(|promise| promise.checker == *checker);
            assert!(has_one, "{checker:?} has no promise in PROMISES: no promise shows that it can fail");
        }
        for (at, promise) in promises.iter().enumerate() {
            let is_same = |other: &Promise<C>| other.name == promise.name && other.checker == promise.checker;
            assert!(!promises[..at].iter().any(is_same), "{} twice for {:?}", promise.name, promise.checker);
        }
    }

    #[test]
    fn each_checker_has_a_promise_and_none_is_there_twice() {
        check_names(PROMISES, &Checker::ALL);
    }
}
