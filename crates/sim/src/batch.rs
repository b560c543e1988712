//! Runs many seeds on several threads and reports them in the order of the seeds.
//!
//! A simulated world lives on one thread and shares nothing with others, so the result of a seed does not
//! depend on other threads. Threads take seeds in order. After a failure only earlier seeds still run, so the
//! reported failure is the first of the range for any number of threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Stack of a thread in bytes, as large as the main thread's on Linux: worlds need deep stacks.
const STACK_BYTES: usize = 8 << 20;

/// Runs `seeds` on `jobs` threads and reports each outcome, in order. Ends after the first failure unless
/// `keep_going`.
pub fn run<T: Send, E: Send>(
    seeds: &[u64],
    jobs: usize,
    keep_going: bool,
    run: impl Fn(u64) -> Result<T, E> + Sync,
    mut describe: impl FnMut(u64, Result<T, E>),
) {
    let next = AtomicUsize::new(0);
    let end = AtomicUsize::new(seeds.len());
    let (ended, outcomes) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, seeds.len().max(1)) {
            let (ended, next, end, run) = (ended.clone(), &next, &end, &run);
            let work = move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= end.load(Ordering::Relaxed) {
                        return;
                    }
                    let outcome = run(seeds[index]);
                    if outcome.is_err() && !keep_going {
                        end.fetch_min(index + 1, Ordering::Relaxed);
                    }
                    if ended.send((index, outcome)).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, work).expect("the system starts a thread for each job");
        }
        drop(ended);
        let mut waiting = BTreeMap::new();
        let mut reported = 0;
        for (index, outcome) in outcomes {
            waiting.insert(index, outcome);
            while let Some(outcome) = waiting.remove(&reported) {
                let is_last = outcome.is_err() && !keep_going;
                describe(seeds[reported], outcome);
                reported += 1;
                if is_last {
                    return;
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(jobs: usize, keep_going: bool, failing: &[u64]) -> Vec<(u64, bool)> {
        let seeds: Vec<u64> = (10..40).collect();
        let mut reported = vec![];
        let one = |seed: u64| if failing.contains(&seed) { Err(()) } else { Ok(()) };
        run(&seeds, jobs, keep_going, one, |seed, outcome| reported.push((seed, outcome.is_ok())));
        reported
    }

    #[test]
    fn seeds_are_reported_in_order_with_any_number_of_jobs() {
        for jobs in [1, 2, 7, 100] {
            let all: Vec<(u64, bool)> = (10..40).map(|seed| (seed, true)).collect();
            assert_eq!(reported(jobs, false, &[]), all, "{jobs} jobs");
        }
    }

    #[test]
    fn the_first_failure_of_the_range_is_the_last_that_is_reported() {
        for jobs in [1, 3, 8] {
            let reported = reported(jobs, false, &[21, 17, 30]);
            assert_eq!(reported.last(), Some(&(17, false)), "{jobs} jobs");
            assert_eq!(reported.len(), 8, "{jobs} jobs");
        }
        let reported = reported(4, true, &[21, 17]);
        assert_eq!(reported.len(), 30);
        assert_eq!(reported.iter().filter(|(_, is_ok)| !is_ok).count(), 2);
    }
}
