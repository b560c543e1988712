//! Storm: a thousand clients read whole partitions of 100 MB from a server with 512 MiB of memory. Measures
//! the effect on the server and on small reads.
//!
//! An engine in this process writes the data. Then the program starts itself as a server on the directory,
//! and threads of this process are its clients over CQL. One more connection continuously reads single rows.
//! The parts are: calm, the storm by pages, the storm without paging (each result is larger than the server's
//! memory), calm again. The resident set of the server is measured by the kernel; the peak of each part is
//! reported.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::storm_client::{Client, Outcomes, kind, read_wholes};
use super::wide::{self, ROW_BYTES};
use super::{Bench, percentile};
use crate::BenchError;
use crate::report::number;
use crate::stopwatch::Stopwatch;

const MEMORY: &str = "512M";
const MEMORY_BYTES: f64 = 512.0 * 1024.0 * 1024.0;
const PARTITIONS: u64 = 10;
const PARTITION_BYTES: u64 = 100_000_000;
const CONNECTIONS: usize = 250;
const READERS_A_CONNECTION: usize = 4;
const PAGE_ROWS: i32 = 5000;
/// Number of the first partition with one row.
const SMALL_FROM: u64 = 1_000_000;
const SMALL: u64 = 1000;
const START_WITHIN_S: f64 = 60.0;

pub(super) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let rows = bench.scaled(PARTITION_BYTES / ROW_BYTES, 1000);
    bench.empty_dir()?;
    let world = wide::open(bench, wide::options(bench, 1 << 30))?;
    let large: Vec<(u64, u64)> = (0..PARTITIONS).map(|number| (number, rows)).collect();
    let small: Vec<(u64, u64)> = (0..SMALL).map(|number| (SMALL_FROM + number, 1)).collect();
    let written = wide::fill(&world, &large)?;
    wide::fill(&world, &small)?;
    world.close()?;
    println!(
        "{PARTITIONS} partitions of {} MB; {} readers; a server of {MEMORY} on one shard",
        number(written as f64 / 1e6 / PARTITIONS as f64),
        CONNECTIONS * READERS_A_CONNECTION
    );
    let server = Server::start(&bench.dir)?;
    let seconds = bench.arguments.seconds;
    let parts: [(&str, Option<Option<i32>>, f64); 4] = [
        ("calm", None, seconds / 4.0),
        ("paged", Some(Some(PAGE_ROWS)), seconds),
        ("unpaged", Some(None), seconds),
        // Parked reads are dropped after 10 s; then no memory may be charged.
        ("calm-again", None, (seconds / 4.0).max(12.0)),
    ];
    for (name, storm, seconds) in parts {
        server.forget_peak();
        let part = part(server.port, storm, seconds)?;
        let peak_mb = server.status("VmHWM:")? / 1024.0;
        add(bench, name, part, peak_mb);
    }
    let diagnostics = server.get("/v1/reads")?;
    let idle = diagnostics.lines().filter(|line| line.contains("Semaphore "));
    let (all, at_rest) =
        idle.fold((0, 0), |(all, at_rest), line| (all + 1, at_rest + u32::from(line.contains(" with 0/"))));
    println!("afterwards {at_rest} of {all} semaphores hold nothing");
    let most_mb = ["calm", "paged", "unpaged", "calm-again"]
        .map(|part| bench.value_of(&format!("resident/{part}")))
        .into_iter()
        .fold(0.0, f64::max);
    let budget_mb = MEMORY_BYTES / 1e6;
    bench.add("resident/of-budget", "", most_mb / budget_mb);
    println!(
        "resident at most {most_mb:.0} MB of {budget_mb:.0} MB: {}",
        if most_mb <= budget_mb { "within the budget" } else { "ABOVE the budget" }
    );
    if all == 0 || at_rest != all {
        return Err(format!("reads are still charged after the storm:\n{diagnostics}").into());
    }
    server.stop()
}

/// The results of a part.
struct Part {
    outcomes: Outcomes,
    /// Latency of each small read in milliseconds, including refused reads.
    small_ms: Vec<f64>,
    small_errors: Vec<String>,
    seconds: f64,
}

/// `storm`: whole partitions by pages of this number of rows, or without paging; `None`: only the small
/// reads.
fn part(port: u16, storm: Option<Option<i32>>, seconds: f64) -> Result<Part, BenchError> {
    let (started, is_over) = (Stopwatch::start(), AtomicBool::new(false));
    let (watch, is_over) = (&started, &is_over);
    std::thread::scope(|scope| {
        let small = scope.spawn(|| small_reads(port, watch, seconds, is_over));
        let readers: Vec<_> = storm.map_or(vec![], |page_rows| {
            let read = move || read_wholes(port, READERS_A_CONNECTION, PARTITIONS, page_rows, watch, seconds);
            (0..CONNECTIONS).map(|_| scope.spawn(read)).collect()
        });
        let mut outcomes = Outcomes::default();
        let mut failed = None;
        for reader in readers {
            match reader.join().map_err(|_| "a client panicked")? {
                Ok(more) => outcomes.add(more),
                Err(error) => failed = Some(error),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let (small_ms, small_errors) = small.join().map_err(|_| "the client of small reads panicked")??;
        match failed {
            Some(error) => Err(error),
            None => Ok(Part { outcomes, small_ms, small_errors, seconds: watch.spent().wall_s }),
        }
    })
}

/// Reads one row after another until the time is over and the storm has ended.
fn small_reads(
    port: u16,
    watch: &Stopwatch,
    seconds: f64,
    is_over: &AtomicBool,
) -> Result<(Vec<f64>, Vec<String>), BenchError> {
    let mut client = Client::open(port)?;
    let (mut times_ms, mut errors) = (vec![], vec![]);
    let mut number = 0;
    while watch.spent().wall_s < seconds || !is_over.load(Ordering::Relaxed) {
        number = (number + 7) % SMALL;
        let text =
            format!("SELECT value FROM bench.wide WHERE partition = {} AND at = 0", SMALL_FROM + number);
        let took = Stopwatch::start();
        match client.ask(&text)? {
            Ok(rows) if rows.rows.len() == 1 => {}
            Ok(rows) => return Err(format!("{} rows where one was written", rows.rows.len()).into()),
            Err(error) => errors.push(kind(&error)),
        }
        times_ms.push(took.spent().wall_s * 1e3);
    }
    Ok((times_ms, errors))
}

fn add(bench: &mut Bench, name: &str, mut part: Part, peak_mb: f64) {
    let Outcomes { pages, rows, wholes, errors } = &part.outcomes;
    println!(
        "\n{name}, {:.0} s: {pages} answers, {} rows, {wholes} whole partitions",
        part.seconds,
        number(*rows as f64)
    );
    for (error, count) in errors {
        println!("  {count} times {error}");
    }
    let refused: u64 = errors.values().sum();
    let small = part.small_ms.len() as f64;
    let small_failed = part.small_errors.len() as f64;
    for (what, part_of) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        bench.add(&format!("small-reads-{what}/{name}"), "ms", percentile(&mut part.small_ms, part_of));
    }
    bench.add(&format!("small-reads/{name}"), "/s", small / part.seconds);
    bench.add(&format!("small-reads-refused/{name}"), "", small_failed);
    if let Some(error) = part.small_errors.first() {
        println!("  {small_failed} small reads were refused, like: {error}");
    }
    if *pages + refused > 0 {
        bench.add(&format!("answers/{name}"), "/s", *pages as f64 / part.seconds);
        bench.add(&format!("refused/{name}"), "/s", refused as f64 / part.seconds);
    }
    bench.add(&format!("resident/{name}"), "MB", peak_mb * 1.048_576);
    println!("  resident at most {peak_mb:.0} MiB");
}

/// A server process, killed when dropped.
struct Server {
    process: Child,
    port: u16,
    api_port: u16,
}

impl Server {
    fn start(data_dir: &Path) -> Result<Self, BenchError> {
        let (port, api_port) = (free_port()?, free_port()?);
        let log = File::create(data_dir.join("server.log"))?;
        let process = Command::new(std::env::current_exe()?)
            .args(["serve", "--memory", MEMORY, "--smp", "1", "--prometheus-port", "0"])
            .args(["--listen-address", "127.0.0.1", "--native-transport-port", &port.to_string()])
            .args(["--api-port", &api_port.to_string(), "--data-dir"])
            .arg(data_dir)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let mut server = Self { process, port, api_port };
        let watch = Stopwatch::start();
        while Client::open(port).is_err() {
            if let Some(status) = server.process.try_wait()? {
                let log = fs::read_to_string(data_dir.join("server.log")).unwrap_or_default();
                return Err(format!("the server ended at once ({status}): {log}").into());
            }
            if watch.spent().wall_s > START_WITHIN_S {
                return Err(format!("the server did not start within {START_WITHIN_S} s").into());
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// A line of the kernel's status of the process, in kB.
    fn status(&self, name: &str) -> Result<f64, BenchError> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
        Ok(kib.ok_or_else(|| format!("the kernel does not say {name}"))?)
    }

    /// Resets the peak of the resident set.
    fn forget_peak(&self) {
        // If this fails, the peak is that of all parts so far, which is at least as large.
        let _ = fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5");
    }

    /// The body of an answer of the admin API.
    fn get(&self, path: &str) -> Result<String, BenchError> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.api_port))?;
        write!(socket, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string()).unwrap_or_default())
    }

    /// Stops the server with SIGTERM, like an operator, and checks its exit status.
    fn stop(mut self) -> Result<(), BenchError> {
        // The process has not been waited for, so the id still belongs to it.
        kill_process(Pid::from_child(&self.process), Signal::TERM).map_err(std::io::Error::from)?;
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}").into()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> Result<u16, BenchError> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
