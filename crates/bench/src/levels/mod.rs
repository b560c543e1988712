//! `messina-bench levels`: measures whether an important workload keeps its latency next to another one, and
//! its goodput under overload.
//!
//! A server with one shard runs on one core, the clients on another. `web` reads partitions of 100 rows at a
//! fixed rate; it is interactive and has 1000 shares and a timeout. `olap` scans the whole table as fast as
//! possible, with 200 shares.
//!
//! 1. Each workload alone; both together, with levels and without.
//! 2. `web` at half to ten times the server's maximum rate, with its level and without. The benchmark
//!    measures the answers within the timeout (goodput), the latency of refusals, and the latency one second
//!    after the load.
//! 3. A batch level with ten times its maximum number of requests; no request may fail.

mod load;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::Args;
use load::{Arrivals, Client, Load, Outcome, percentile_ms};
use messina::plot::{Line, Lines};

use super::BenchError;
use super::engine::Scratch;
use super::machine::{self, Machine};
use super::report::{self, PROFILE, Report, Sample};

const ROWS: u64 = 100;
const READ: &str = "SELECT c, v FROM bench.t WHERE k = ?";
const SCAN: &str = "SELECT count(v) FROM bench.t";
const TIMEOUT_MS: u64 = 30;
/// Rate of `web` when it shares the server, as a fraction of the server's maximum.
const USUAL: f64 = 0.3;
const OVERLOADS: [f64; 6] = [0.5, 0.8, 1.5, 3.0, 6.0, 10.0];

#[derive(Args, Clone, Debug)]
pub struct LevelsArguments {
    /// Number of partitions of 100 rows of 100 bytes.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub partitions: u64,
    /// Duration of each load, in seconds.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Directory for data; created if it does not exist. Files of the benchmark are removed at the end.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core of the server; clients run on the others. Without it, no process is pinned.
    #[arg(long)]
    pub core: Option<usize>,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/levels.ndjson")]
    pub results: PathBuf,
    /// File of the plot of goodput by load.
    #[arg(long, default_value = "bench/results/levels.svg")]
    pub plot: PathBuf,
}

/// A server process, killed when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(dir: &Path, core: Option<usize>) -> Result<Self, BenchError> {
        let sockets = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
        let mut ports = vec![];
        for socket in sockets {
            ports.push(socket?.local_addr()?.port());
        }
        let program = std::env::current_exe()?;
        let mut command = match core {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.arg("-c").arg(core.to_string()).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(["serve", "--smp", "1", "--memory", "512MiB", "--log-level", "warn"]);
        command.arg("--data-dir").arg(dir.join("data"));
        for (flag, port) in ["--native-transport-port", "--api-port", "--prometheus-port"].iter().zip(&ports)
        {
            command.arg(flag).arg(port.to_string());
        }
        for setting in [
            "authenticator=PasswordAuthenticator",
            "native_shard_aware_transport_port=0",
            // The log line at this level shows that the server is ready.
            "log_level=info",
        ] {
            command.args(["--set", setting]);
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().ok_or("no stderr")?;
        let server = Self { child, port: ports[0] };
        let mut lines = BufReader::new(stderr).lines();
        let mut log = String::new();
        for line in lines.by_ref() {
            let line = line?;
            if line.contains("initialization completed") {
                // Read the server's later log lines, so that its pipe does not fill up.
                std::thread::Builder::new().spawn(move || lines.map_while(Result::ok).for_each(drop))?;
                return Ok(server);
            }
            log.push_str(&format!("{line}\n"));
        }
        Err(format!("the server did not start:\n{log}").into())
    }

    fn resident_mb(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fill(port: u16, partitions: u64) -> Result<(), BenchError> {
    let mut admin = Client::log_in(port, "cassandra")?;
    admin.query(
        "CREATE KEYSPACE bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    admin.query("CREATE TABLE bench.t (k int, c int, v text, PRIMARY KEY (k, c))")?;
    let value = "x".repeat(100);
    for k in 0..partitions {
        let inserts: Vec<String> = (0..ROWS)
            .map(|c| format!("INSERT INTO bench.t (k, c, v) VALUES ({k}, {c}, '{value}');"))
            .collect();
        admin.query(&format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", inserts.join(" ")))?;
    }
    for (role, level) in [
        (
            "web",
            Some(format!("shares = 1000 AND workload_type = 'interactive' AND timeout = {TIMEOUT_MS}ms")),
        ),
        ("olap", Some("shares = 200".to_string())),
        ("jobs", Some("shares = 200 AND workload_type = 'batch'".to_string())),
        ("plain", None),
    ] {
        admin.query(&format!(
            "CREATE ROLE {role} WITH PASSWORD = '{}' AND LOGIN = true",
            load::password(role)
        ))?;
        if let Some(level) = level {
            admin.query(&format!("CREATE SERVICE LEVEL {role} WITH {level}"))?;
            admin.query(&format!("ATTACH SERVICE LEVEL {role} TO {role}"))?;
        }
    }
    Ok(())
}

/// Runs the benchmark and prints the results.
pub fn run(arguments: &LevelsArguments) -> Result<(), BenchError> {
    let machine = Machine::read();
    let dir = Scratch::make(&arguments.dir)?;
    let server = Server::start(&dir.0, arguments.core)?;
    let port = server.port;
    fill(port, arguments.partitions)?;
    let reads = |role: &'static str, arrivals: Arrivals, seconds: f64| Load {
        role,
        text: READ,
        keys: arguments.partitions,
        arrivals,
        connections: 4,
        seconds,
        seed: 7,
    };
    let scans = |role: &'static str, seconds: f64| Load {
        role,
        text: SCAN,
        keys: 0,
        arrivals: Arrivals::Closed(4),
        connections: 1,
        seconds,
        seed: 7,
    };
    let seconds = arguments.seconds;
    let one = |load: Load| -> Result<Outcome, BenchError> { Ok(load::run(port, &[load])?.remove(0)) };
    let mut report = Report::default();
    let mut add = |name: &str, unit: &'static str, value: f64| {
        println!("{name}: {} {unit}", report::number(value));
        report.add(name, unit, Sample { value, cpu_us: None });
    };

    // Measure the maximum rate after a warm-up, without a level and with one.
    one(reads("plain", Arrivals::Closed(32), seconds / 2.0))?;
    let peak_of_plain = one(reads("plain", Arrivals::Closed(32), seconds))?.per_s();
    add("peak/plain", "/s", peak_of_plain);
    let peak = one(reads("web", Arrivals::Closed(32), seconds))?.per_s();
    add("peak", "/s", peak);

    let usual = Arrivals::Open(peak * USUAL);
    let alone = one(reads("web", usual, seconds))?;
    let scans_alone = one(scans("olap", seconds))?;
    add("alone/web/p50", "ms", alone.percentile_ms(0.5));
    add("alone/web/p99", "ms", alone.percentile_ms(0.99));
    add("alone/olap", "scans/s", scans_alone.per_s());
    for (name, roles) in [("levels", ["web", "olap"]), ("no-levels", ["plain", "plain"])] {
        let both = load::run(port, &[reads(roles[0], usual, seconds), scans(roles[1], seconds)])?;
        add(&format!("together/{name}/web/p50"), "ms", both[0].percentile_ms(0.5));
        add(&format!("together/{name}/web/p99"), "ms", both[0].percentile_ms(0.99));
        add(&format!("together/{name}/web/answered"), "/s", both[0].per_s());
        add(&format!("together/{name}/web/refused"), "", both[0].refused as f64);
        add(&format!("together/{name}/web/timed-out"), "", both[0].timed_out as f64);
        add(&format!("together/{name}/olap"), "scans/s", both[1].per_s());
    }

    let mut lines = vec![];
    for (name, role) in [("interactive level", "web"), ("no level", "plain")] {
        let mut goods = vec![];
        for times in OVERLOADS {
            let found = one(reads(role, Arrivals::Open(peak * times), seconds))?;
            let good = found.good_per_s(TIMEOUT_MS * 1000);
            let at = format!("overload/{role}/{times}x");
            add(&format!("{at}/sent"), "/s", found.sent as f64 / found.elapsed_s);
            add(&format!("{at}/good"), "/s", good);
            add(&format!("{at}/p99"), "ms", found.percentile_ms(0.99));
            add(&format!("{at}/refused"), "/s", found.refused as f64 / found.elapsed_s);
            add(&format!("{at}/refused/p99"), "ms", percentile_ms(&found.refused_us, 0.99));
            add(&format!("{at}/timed-out"), "/s", found.timed_out as f64 / found.elapsed_s);
            add(&format!("{at}/failed"), "", found.failed as f64);
            goods.push((times, good));
        }
        let after = one(reads(role, usual, 1.0))?;
        add(&format!("overload/{role}/after/p99"), "ms", after.percentile_ms(0.99));
        // On a shared machine the speed may have changed since the first measurement.
        let peak_after = one(reads(role, Arrivals::Closed(32), seconds))?.per_s();
        add(&format!("peak/{role}/after"), "/s", peak_after);
        let peak_of_role = (peak_after + if role == "web" { peak } else { peak_of_plain }) / 2.0;
        let points: Vec<(f64, f64)> =
            goods.iter().map(|(times, good)| (*times, good / peak_of_role * 100.0)).collect();
        for (times, percent) in &points {
            add(&format!("overload/{role}/{times}x/of-peak"), "%", *percent);
        }
        lines.push(Line { name: name.to_string(), points });
    }
    let flood = one(Load { connections: 8, ..reads("jobs", Arrivals::Closed(4096), seconds) })?;
    add("batch/answered", "/s", flood.per_s());
    add("batch/refused", "", flood.refused as f64);
    add("batch/failed", "", (flood.failed + flood.timed_out) as f64);
    add("memory", "MB", server.resident_mb());
    drop(server);

    println!("\n{}", report.table());
    let plot = Lines {
        title: format!("Answers within {TIMEOUT_MS} ms, one shard"),
        x: "load, times what the server can do".to_string(),
        y: "% of what it can do".to_string(),
        lines,
        log_y: false,
        dots: true,
    };
    if let Some(parent) = arguments.plot.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&arguments.plot, plot.svg())?;
    if arguments.results.as_os_str() != "none" {
        let settings = [
            ("partitions", arguments.partitions.into()),
            ("seconds", seconds.into()),
            ("core", arguments.core.into()),
            ("profile", PROFILE.into()),
        ];
        let lines = report.lines("levels", &machine::commit(), &machine, &settings);
        report::append(&arguments.results, &lines)?;
        println!("appended to {}", arguments.results.display());
    }
    Ok(())
}
