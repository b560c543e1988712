//! `sim`: runs seeds of the simulated world and reports failures.
//!
//! `sim --seeds 0..500`, `sim --seed 17 --verbose`, `sim --twice --seed 17`. Seeds are spread over threads
//! (`--jobs`) and reported in order. The first failure is the last report, unless `--keep-going`. The exit
//! code is 1 if any seed failed.

use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::Parser;
use sim::client::Counts;
use sim::{batch, serving, trial};

/// One seed of this number in a range is run twice, to check that it ends the same.
const ONE_TWICE_OF: u64 = 50;

/// Number of operations that are shown when a seed fails; with `--verbose`, all that are kept.
const SHOWN: usize = 80;

#[derive(Parser)]
#[command(about = "Random operations, faults and crashes against a model, each world from a seed")]
struct Args {
    /// Seeds A..B, B not included.
    #[arg(long, value_parser = parse_range, default_value = "0..500")]
    seeds: std::ops::Range<u64>,
    /// One seed, instead of a range.
    #[arg(long)]
    seed: Option<u64>,
    /// Also run this number of random seeds.
    #[arg(long, default_value_t = 0)]
    fresh: u64,
    /// Run every seed twice: both runs must end the same.
    #[arg(long)]
    twice: bool,
    /// Threads that run seeds [default: one for each core]. Seeds are reported in order.
    #[arg(long)]
    jobs: Option<usize>,
    /// Continue after a seed that failed.
    #[arg(long)]
    keep_going: bool,
    /// Run worlds with a CQL server and its clients, instead of an engine alone.
    #[arg(long)]
    server: bool,
    /// Report how each seed ended.
    #[arg(long)]
    verbose: bool,
    /// Break a promise on purpose (its name, or all) and run seeds until its checker fails; fails if it does
    /// not. Only in development builds.
    #[cfg(debug_assertions)]
    #[arg(long = "break")]
    broken: Option<String>,
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

/// Breaks the promise of this name, or each in turn. `same`: the checker that needs each seed to run twice.
#[cfg(debug_assertions)]
fn break_promises<C: Copy + std::fmt::Debug + PartialEq + Send + Sync>(
    name: &str,
    promises: &[sim::promises::Promise<C>],
    same: C,
    jobs: usize,
    trial: impl Fn(u64, bool) -> Result<(), (C, String)> + Sync,
) -> ExitCode {
    let chosen = promises.iter().filter(|promise| name == "all" || promise.name == name);
    let begun = clock();
    let (mut broken, mut unseen) = (0, 0);
    // Panics of the node are expected here; only the failed checker matters.
    std::panic::set_hook(Box::new(|_| {}));
    for promise in chosen {
        broken += 1;
        match sim::promises::breaking::check(promise, jobs, promise.checker == same, &trial) {
            Ok(text) => println!("{:>6.1} s  {text}", begun.elapsed().as_secs_f64()),
            Err(text) => {
                unseen += 1;
                println!("{:>6.1} s  NOT SEEN  {text}", begun.elapsed().as_secs_f64());
            }
        }
    }
    if broken == 0 {
        let names: Vec<&str> = promises.iter().map(|promise| promise.name).collect();
        println!("there is no promise {name}; there are: {}", names.join(" "));
        return ExitCode::from(2);
    }
    println!("{broken} promises broken, {} seen", broken - unseen);
    if unseen == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let jobs = args.jobs.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
    #[cfg(debug_assertions)]
    if let Some(name) = &args.broken {
        if args.server {
            let (promises, same) = (serving::promises::PROMISES, serving::Checker::Same);
            return break_promises(name, promises, same, jobs, |seed, again| {
                let ran = serving::trial(seed, again);
                ran.map(drop).map_err(|(failure, _)| (failure.checker, failure.text))
            });
        }
        let (promises, same) = (sim::promises::PROMISES, sim::failure::Checker::Same);
        return break_promises(name, promises, same, jobs, |seed, again| {
            let ran = trial::run(seed, again);
            ran.map(drop).map_err(|failed| (failed.failure.checker, failed.failure.text))
        });
    }
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
    if args.server {
        let options = serving::Options {
            jobs,
            keep_going: args.keep_going,
            is_verbose: args.verbose,
            twice: args.twice,
            one_twice_of: ONE_TWICE_OF,
        };
        let failed = serving::run(&seeds, &options);
        let took_s = begun.elapsed().as_secs_f64();
        println!("{took_s:.1} s, {:.1} seeds a second on {jobs} threads", seeds.len() as f64 / took_s);
        return if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let is_twice = |seed: u64| args.twice || (args.seed.is_none() && seed.is_multiple_of(ONE_TWICE_OF));
    let mut counts = Counts::default();
    let (mut passed, mut twice) = (0, 0);
    let mut failed: Vec<u64> = vec![];
    let run = |seed| trial::run(seed, is_twice(seed));
    batch::run(&seeds, jobs, args.keep_going, run, |seed, outcome| {
        twice += u64::from(is_twice(seed));
        match outcome {
            Ok((outcome, lines)) => {
                passed += 1;
                counts.add(&outcome.counts);
                if args.verbose && args.seed.is_some() {
                    println!("{}", lines.join("\n"));
                }
                if args.verbose {
                    println!("seed {seed}: {outcome:?}");
                }
            }
            Err(trial::Failed { failure, lines }) => {
                failed.push(seed);
                let skipped = if args.verbose { 0 } else { lines.len().saturating_sub(SHOWN) };
                println!("seed {seed} FAILED, last operations:\n{}", lines[skipped..].join("\n"));
                println!("{failure}\nagain: sim --seed {seed}");
            }
        }
    });
    let took_s = begun.elapsed().as_secs_f64();
    let rate = (passed + failed.len()) as f64 / took_s;
    println!("{counts:?}");
    println!("{twice} seeds run twice, {took_s:.1} s, {rate:.1} seeds a second on {jobs} threads");
    if !failed.is_empty() {
        println!("failed seeds: {failed:?}");
    }
    let not_run = seeds.len() - passed - failed.len();
    println!("{passed} passed, {} failed, {not_run} not run", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
