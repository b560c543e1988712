//! `sim`: runs seeds of the simulated world and says which failed.
//!
//! `sim --seeds 0..500`, `sim --seed 17 --verbose`, `sim --twice --seed 17`. The exit code is 1 if any seed failed.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use clap::Parser;
use sim::client::{Counts, History};
use sim::seed::{self, Outcome};

/// One of so many seeds of a range is run twice, to see that it ends the same.
const ONE_TWICE_OF: u64 = 50;

/// So many of the last operations are shown when a seed fails; with `--verbose`, all that are remembered.
const SHOWN: usize = 80;

#[derive(Parser)]
#[command(about = "Random operations, faults and crashes against a model, each world from a seed")]
struct Args {
    /// Seeds A..B, B not included.
    #[arg(long, value_parser = parse_range, default_value = "0..500")]
    seeds: std::ops::Range<u64>,
    /// One seed, in place of a range.
    #[arg(long)]
    seed: Option<u64>,
    /// So many seeds more that nobody has seen before.
    #[arg(long, default_value_t = 0)]
    fresh: u64,
    /// Run every seed twice: both must end the same.
    #[arg(long)]
    twice: bool,
    /// Say how each seed ended.
    #[arg(long)]
    verbose: bool,
}

fn parse_range(text: &str) -> Result<std::ops::Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("a range is written A..B")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    Ok(number(from)?..number(to)?)
}

#[allow(clippy::disallowed_methods, reason = "fresh seeds are to differ from run to run; they are printed")]
fn fresh_base() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_micros() as u64) << 8
}

#[allow(clippy::disallowed_methods, reason = "how long the run took, for its last line")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut seeds: Vec<u64> = match args.seed {
        Some(seed) => vec![seed],
        None => args.seeds.clone().collect(),
    };
    if args.fresh > 0 {
        let base = fresh_base();
        println!("fresh seeds {base}..{}", base + args.fresh);
        seeds.extend(base..base + args.fresh);
    }
    if let (Some(first), Some(last)) = (seeds.first(), seeds.last()) {
        println!("seeds {first} to {last}");
    }
    let begun = clock();
    let mut counts = Counts::default();
    let mut failed: Vec<u64> = vec![];
    let mut twice = 0;
    for seed in &seeds {
        let again = args.twice || (args.seed.is_none() && seed % ONE_TWICE_OF == 0);
        twice += u64::from(again);
        match run(*seed, again, args.verbose && args.seed.is_some()) {
            Ok(outcome) => {
                counts.add(&outcome.counts);
                if args.verbose {
                    println!("seed {seed}: {outcome:?}");
                }
            }
            Err(what) => {
                failed.push(*seed);
                println!("seed {seed} FAILED\n{what}\nagain: sim --seed {seed}");
            }
        }
    }
    println!("{counts:?}");
    println!("{twice} seeds run twice, {:.1} s", begun.elapsed().as_secs_f64());
    if !failed.is_empty() {
        println!("failed seeds: {failed:?}");
    }
    println!("{} passed, {} failed", seeds.len() - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(seed: u64, again: bool, is_verbose: bool) -> Result<Outcome, String> {
    let first = run_once(seed, is_verbose)?;
    if again {
        let second = run_once(seed, false)?;
        if first != second {
            return Err(format!("it ended otherwise the second time\n  {first:?}\n  {second:?}"));
        }
    }
    Ok(first)
}

/// A panic in the node is a failure of the seed as any other.
fn run_once(seed: u64, is_verbose: bool) -> Result<Outcome, String> {
    let history = History::default();
    let ran = std::panic::catch_unwind(AssertUnwindSafe(|| seed::run(seed, &history)));
    let failure = match ran {
        Ok(Ok(outcome)) => {
            if is_verbose {
                println!("{}", history.lines().join("\n"));
            }
            return Ok(outcome);
        }
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
            format!("panic: {}", text.unwrap_or_default())
        }
    };
    let lines = history.lines();
    let shown = if is_verbose { &lines[..] } else { &lines[lines.len().saturating_sub(SHOWN)..] };
    Err(format!("last operations:\n{}\n{failure}", shown.join("\n")))
}
