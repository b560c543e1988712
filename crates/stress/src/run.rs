//! Runs of a load: the schema, the workers, a line for each interval, the summary.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use shell::{Connection, Credentials, Target, TlsClient};

use crate::arguments::{Command, Settings, Threads, Truncate};
use crate::clock;
use crate::distribution::Distribution;
use crate::measurement::{Measurement, Measurements};
use crate::population::Population;
use crate::profile::{self, Checks, Document};
use crate::report;
use crate::schedule::{Amount, Schedule};
use crate::setup::{self, Making, Plan};
use crate::worker::{Manner, Shared, Worker};

/// The keyspace of cassandra-stress's tables.
const KEYSPACE: &str = "keyspace1";
/// A warm-up has at most this many operations.
const WARM_UP_OPERATIONS_MAX: u64 = 50_000;
/// A worker looks for the end of a run this often; so does the thread that reports.
const STEP_MS: u64 = 20;
/// `-rate auto` continues while 50 % more threads raise the rate at least by this factor.
const GAIN: f64 = 1.05;
/// Requests in flight on one connection, far from the 32,768 that the protocol has.
const IN_FLIGHT_MAX: usize = 8_192;

/// A document, and the shares of its operations.
struct WorkloadMix {
    document: Document,
    shares: Vec<(String, f64)>,
    /// Whether all operations read what must be there.
    only_reads: bool,
    read_checks: Checks,
}

/// # Errors
/// As `StressCommand::run`.
pub fn run(settings: &Settings) -> Result<(), String> {
    let work = work_of(settings)?;
    let targets = targets(settings)?;
    let mut connection = Connection::open(&targets[0]).map_err(|failure| failure.to_string())?;
    let keyspace = &work.document.keyspace;
    let mut quoted = String::new();
    model::types::push_identifier(&mut quoted, keyspace);
    let mut making = Making {
        creates: !work.only_reads,
        keyspace_definition: format!("CREATE KEYSPACE {quoted} WITH replication = {}", settings.replication),
        truncates: settings.truncate != Truncate::Never,
        read_checks: if settings.has_checks { work.read_checks } else { Checks::Nothing },
    };
    let plan = setup::prepare(&mut connection, &work.document, &work.shares, &making)?;
    let population = population(settings, &work, &plan)?;
    println!("{}", heading(&work, &plan));
    if settings.has_warm_up {
        let operations = match settings.amount {
            Amount::Operations(all) => (all / 4).min(WARM_UP_OPERATIONS_MAX),
            Amount::Time(_) => WARM_UP_OPERATIONS_MAX,
        };
        let threads = match settings.threads {
            Threads::Fixed(count) | Threads::Auto(count, _) => count,
        };
        if operations > 0 {
            println!("Warming up with {operations} operations");
            one(settings, &plan, &targets, &population, Amount::Operations(operations), threads, false)?;
        }
    }
    match settings.threads {
        Threads::Fixed(threads) => {
            measured(settings, &plan, &targets, &population, threads)?;
        }
        Threads::Auto(low, high) => {
            let (mut threads, mut best, mut without_gain) = (low, 0.0, 0);
            while threads <= high && without_gain < 2 {
                if settings.truncate == Truncate::Always {
                    making.truncates = true;
                    setup::prepare(&mut connection, &work.document, &work.shares, &making)?;
                }
                println!("\nRunning with {threads} operations in flight");
                let rate = measured(settings, &plan, &targets, &population, threads)?;
                without_gain = if rate < best * GAIN { without_gain + 1 } else { 0 };
                best = f64::max(best, rate);
                threads = (threads * 3 / 2).max(threads + 1);
            }
        }
    }
    Ok(())
}

/// Describes the run.
fn heading(work: &WorkloadMix, plan: &Plan) -> String {
    let shares: Vec<String> =
        plan.operations.iter().zip(&plan.shares).map(|(of, share)| format!("{}={share}", of.name)).collect();
    let profile = work.document.specname.as_ref().map_or(String::new(), |name| format!(", profile {name}"));
    format!("Running {} on {}.{}{profile}", shares.join(", "), plan.keyspace, work.document.table)
}

fn work_of(settings: &Settings) -> Result<WorkloadMix, String> {
    let keyspace = settings.keyspace.as_deref().unwrap_or(KEYSPACE);
    let standard = || profile::standard(keyspace, &settings.columns, &settings.table_options);
    let counter = || profile::counter(keyspace, &settings.columns, &settings.table_options);
    let one = |name: &str| vec![(name.to_string(), 1.0)];
    let (document, shares, read_checks) = match &settings.command {
        Command::Write => (standard(), one("insert"), Checks::Values),
        Command::Read => (standard(), one("read"), Checks::Values),
        // With deletions, a partition that is not there is no error.
        Command::Mixed(shares) => {
            let deletes = shares.iter().any(|(name, share)| name == "delete" && *share > 0.0);
            (standard(), shares.clone(), if deletes { Checks::Nothing } else { Checks::Values })
        }
        Command::CounterWrite => (counter(), one("insert"), Checks::Exists),
        Command::CounterRead => (counter(), one("read"), Checks::Exists),
        Command::User { profile, operations } => {
            if settings.keyspace.is_some() || !settings.table_options.is_empty() {
                return Err("-schema: the profile defines keyspace and table".to_string());
            }
            let text = match std::fs::read_to_string(profile) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    profile::shipped(profile)?.to_string()
                }
                Err(error) => return Err(format!("cannot read {profile}: {error}")),
            };
            (Document::parse(profile, &text)?, operations.clone(), Checks::Nothing)
        }
    };
    let shares = profile::shares(&shares, &document)?;
    let only_reads = matches!(settings.command, Command::Read | Command::CounterRead);
    Ok(WorkloadMix { document, shares, only_reads, read_checks })
}

/// `-pop`, or as cassandra-stress: all partitions in order for writes, Gaussian for others.
fn population(settings: &Settings, work: &WorkloadMix, plan: &Plan) -> Result<Population, String> {
    if let Some(population) = &settings.population {
        return Ok(population.clone());
    }
    let count = match settings.amount {
        Amount::Operations(all) => all,
        Amount::Time(_) => 1_000_000,
    };
    let only_inserts = plan.operations.iter().all(|operation| operation.name == "insert");
    Ok(match only_inserts && !work.only_reads {
        true => Population::sequence(1, count),
        false => {
            let last = i64::try_from(count).map_err(|_| "n is too large".to_string())?;
            Population::Random(Distribution::gaussian(1, last))
        }
    })
}

fn targets(settings: &Settings) -> Result<Vec<Target>, String> {
    let tls = match settings.is_encrypted {
        true => Some(TlsClient::new(settings.ssl_ca.as_deref())?),
        false => None,
    };
    let credentials = match (&settings.user, &settings.password) {
        (Some(user), Some(password)) => Some(Credentials { user: user.clone(), password: password.clone() }),
        (None, None) => None,
        _ => return Err("-mode: user= and password= belong together".to_string()),
    };
    let target = |host: &String| Target {
        host: host.clone(),
        port: settings.port,
        tls: tls.clone(),
        credentials: credentials.clone(),
        connect_timeout: Duration::from_secs(5),
        request_timeout: settings.timeout,
    };
    Ok(settings.nodes.iter().map(target).collect())
}

/// A run with lines and a summary; returns the rate it reached.
fn measured(
    settings: &Settings,
    plan: &Plan,
    targets: &[Target],
    population: &Population,
    threads: usize,
) -> Result<f64, String> {
    if settings.has_lines {
        println!("{}", report::HEADING);
    }
    let (measured, time) =
        one(settings, plan, targets, population, settings.amount, threads, settings.has_lines)?;
    let names: Vec<&str> = plan.operations.iter().map(|operation| operation.name.as_str()).collect();
    print!("{}", report::summary(&names, &measured, time, settings.rate));
    if let Some(path) = &settings.json {
        let mut figures = report::json(&names, &measured, time, settings.rate);
        figures["threads"] = threads.into();
        let file = OpenOptions::new().create(true).append(true).open(path);
        let written = file.and_then(|mut file| writeln!(file, "{figures}"));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(measured.total().operations() as f64 / time.as_secs_f64().max(1e-9))
}

/// A run.
fn one(
    settings: &Settings,
    plan: &Plan,
    targets: &[Target],
    population: &Population,
    amount: Amount,
    threads: usize,
    has_lines: bool,
) -> Result<(Measurements, Duration), String> {
    let manner = Manner {
        consistency: settings.consistency,
        serial_consistency: settings.serial_consistency,
        attempts: settings.attempts,
        ignores_errors: settings.ignores_errors,
        timeout: settings.timeout,
    };
    let workers = threads.min(settings.connections * targets.len()).max(1);
    let in_flight_max = threads.div_ceil(workers);
    if in_flight_max > IN_FLIGHT_MAX {
        return Err(format!(
            "{threads} operations in flight on {workers} connections are more than {IN_FLIGHT_MAX} on each; use \
             -mode connectionsPerHost="
        ));
    }
    let count = plan.operations.len();
    let measured: Vec<Mutex<Measurements>> =
        (0..workers).map(|_| Mutex::new(Measurements::new(count))).collect();
    let mut connections = vec![];
    for index in 0..workers {
        let target = &targets[index % targets.len()];
        connections.push(Connection::open_without_events(target).map_err(|failure| failure.to_string())?);
    }
    let population = population.restarted();
    let shared = Shared::new();
    let mut all_workers = vec![];
    for (index, (connection, measured)) in connections.into_iter().zip(&measured).enumerate() {
        // The remainder of the threads goes to the first workers.
        let in_flight = threads / workers + usize::from(index < threads % workers);
        let schedule = Schedule::of_worker(amount, settings.rate, index, workers);
        let population = population.clone();
        let seed = index as u64 + 1;
        all_workers.push(Worker::new(
            plan, &manner, &shared, measured, connection, schedule, population, in_flight, seed,
        )?);
    }
    let mut reporter =
        Reporter { plan, measured: &measured, sum: Measurements::new(count), so_far: vec![0; count] };
    // The clock of the run begins when all workers are ready.
    let shared = &shared;
    let start = shared.start;
    let end = thread::scope(|scope| {
        let handles: Vec<_> =
            all_workers.into_iter().map(|worker| scope.spawn(move || worker.run())).collect();
        let mut last = start;
        while !handles.iter().all(thread::ScopedJoinHandle::is_finished) {
            clock::sleep(Duration::from_millis(STEP_MS));
            let now = clock::now();
            if now - last >= settings.interval {
                reporter.take(has_lines, now - last, now - start);
                last = now;
            }
        }
        let now = clock::now();
        reporter.take(has_lines && !shared.stop.load(Ordering::Relaxed), now - last, now - start);
        now
    });
    if let Some(failure) = shared.failure.lock().expect("no holder panics").take() {
        return Err(failure);
    }
    Ok((reporter.sum, end - start))
}

/// Collects what the workers have measured.
struct Reporter<'a> {
    plan: &'a Plan,
    measured: &'a [Mutex<Measurements>],
    /// Since the start.
    sum: Measurements,
    /// Operations since the start, for each operation.
    so_far: Vec<u64>,
}

impl Reporter<'_> {
    fn take(&mut self, has_lines: bool, interval: Duration, since_start: Duration) {
        let count = self.plan.operations.len();
        let mut of_interval = Measurements::new(count);
        for worker in self.measured {
            let taken =
                std::mem::replace(&mut *worker.lock().expect("no holder panics"), Measurements::new(count));
            of_interval.merge(&taken);
        }
        self.sum.merge(&of_interval);
        for (so_far, measured) in self.so_far.iter_mut().zip(&of_interval.operations) {
            *so_far += measured.operations();
        }
        if !has_lines {
            return;
        }
        let print = |name: &str, so_far: u64, measured: &Measurement| {
            println!("{}", report::line(name, so_far, measured, interval, since_start));
        };
        if count > 1 {
            for (index, operation) in self.plan.operations.iter().enumerate() {
                print(&operation.name, self.so_far[index], &of_interval.operations[index]);
            }
        }
        print("total,", self.so_far.iter().sum(), &of_interval.total());
    }
}
