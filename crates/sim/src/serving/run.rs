//! `sim --server`: many worlds of a served node, on several threads, reported in the order of the seeds.

use std::panic::AssertUnwindSafe;

use super::notes::{Checker, Counts, Failure};
use super::seed::{self, Outcome};
use crate::batch;
use crate::client::History;
use crate::failure::panic_text;

/// Number of operations that are shown when a seed fails, unless all are requested.
const SHOWN: usize = 120;

/// What to run, and how much to report.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub jobs: usize,
    pub keep_going: bool,
    pub is_verbose: bool,
    /// Every seed is run twice, and both runs must end the same; otherwise only some seeds are.
    pub twice: bool,
    pub one_twice_of: u64,
}

/// Runs the seeds and reports how they ended; returns the failed ones.
pub fn run(seeds: &[u64], options: &Options) -> Vec<u64> {
    let is_twice =
        |seed: u64| options.twice || (seeds.len() > 1 && seed.is_multiple_of(options.one_twice_of));
    let mut counts = Counts::default();
    let (mut passed, mut twice) = (0, 0);
    let mut failed: Vec<u64> = vec![];
    let one = |seed| trial(seed, is_twice(seed));
    batch::run(seeds, options.jobs, options.keep_going, one, |seed, outcome| {
        twice += u64::from(is_twice(seed));
        match outcome {
            Ok((outcome, lines)) => {
                passed += 1;
                counts.add(&outcome.counts);
                if options.is_verbose && seeds.len() == 1 {
                    println!("{}", lines.join("\n"));
                }
                if options.is_verbose {
                    println!("seed {seed}: {outcome:?}");
                }
            }
            Err((failure, lines)) => {
                failed.push(seed);
                let skipped = if options.is_verbose { 0 } else { lines.len().saturating_sub(SHOWN) };
                println!("seed {seed} FAILED, last operations:\n{}", lines[skipped..].join("\n"));
                println!("{failure}\nagain: sim --server --seed {seed}");
            }
        }
    });
    println!("{counts:?}");
    let not_run = seeds.len() - passed - failed.len();
    println!("{passed} passed, {} failed, {not_run} not run, {twice} of them twice", failed.len());
    failed
}

/// Runs a seed; `again`: twice, and both runs must end the same. Returns the operations of the first run.
///
/// # Errors
/// The failure, and the latest operations.
pub fn trial(seed: u64, again: bool) -> Result<(Outcome, Vec<String>), (Failure, Vec<String>)> {
    let (first, lines) = once(seed)?;
    if again {
        let (second, lines) = once(seed)?;
        if first != second {
            let text = format!("it ended otherwise the second time\n  {first:?}\n  {second:?}");
            return Err((Failure::new(Checker::Same, text), lines));
        }
    }
    Ok((first, lines))
}

fn once(seed: u64) -> Result<(Outcome, Vec<String>), (Failure, Vec<String>)> {
    let history = History::default();
    let failure = match std::panic::catch_unwind(AssertUnwindSafe(|| seed::run(seed, &history))) {
        Ok(Ok(outcome)) => return Ok((outcome, history.lines())),
        Ok(Err(failure)) => failure,
        // A panic of the node is a failure like any other.
        Err(panic) => Failure::new(Checker::Panics, panic_text(&*panic)),
    };
    Err((failure, history.lines()))
}
