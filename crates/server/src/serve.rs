//! `messina serve`: runs a node from its start to its end.
//!
//! 1. The configuration is read. The admin sockets are bound early, so that a port in use is reported before
//!    anything else happens.
//! 2. The engine opens the directory; its findings are logged.
//! 3. The clients' listeners start ([`StartListeners`]), and the admin API and the metrics answer.
//! 4. SIGTERM or SIGINT: listeners stop, memtables are flushed, the commit log is closed, and the process
//!    ends with status 0. A second signal, at least a second after the first, ends it at once; acknowledged
//!    writes are not lost. SIGHUP never ends the process: it reloads changed certificates.
//!
//! The main thread does only this and is the only tokio thread of the process. Data are on the shards'
//! threads.

#![deny(unused_variables)]

use std::net::{TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use engine::commitlog::{LogError, SyncMode};
use engine::{Attachment, Engine, EngineError, EngineOptions, OpenReport, ShardOptions};
use log::{error, info, warn};
use runtime::{CpuGroup, FileError};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::admin;
use crate::admin::listener::Listener;
use crate::attach;
use crate::backups::{BackupOptions, Backups};
use crate::client_listeners::{ClientParts, StartListeners};
use crate::config::flags::OptionFlags;
use crate::config::storage::{EngineParts, Machine, Resources};
use crate::config::{self, BackupConfig, Config, HttpConfig, HttpProtection, PlaceConfig, Setting};
use crate::console_rights::ConsoleRights;
use crate::disk_model;
use crate::disk_use::{self, DiskUse};
use crate::disk_watch;
use crate::logging;
use crate::managed_node::{ManagedNode, Mode, NodeConfig};
use crate::memory_dir::MemoryDir;
use crate::memory_governor;
use crate::production::{self, Facts, Weight};
use crate::serve_error::ServeError;
use crate::service_manager::ServiceManager;
use crate::start_log;
use crate::start_time::StartTime;
use crate::table_restore;

/// Fewer allowed open files are worth a warning.
const OPEN_FILES_WANTED: u64 = 10_000;

/// Interval at which certificate files are checked for changes.
const CERTIFICATES_LOOK: std::time::Duration = std::time::Duration::from_secs(5);

#[derive(Args, Clone, Debug, Default)]
pub struct ServeArguments {
    /// The configuration file [default: messina.yaml, if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The directory that holds all data [default: messina-data].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Keep all data in memory and nothing after the end: for tests.
    #[arg(long)]
    in_memory: bool,
    /// The address for CQL clients [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS")]
    listen_address: Option<String>,
    /// The port for CQL clients [default: 9042].
    #[arg(long, value_name = "PORT")]
    native_transport_port: Option<String>,
    /// The port of the admin API, which nodetool uses [default: 10000].
    #[arg(long, value_name = "PORT")]
    api_port: Option<String>,
    /// The port of the metrics; 0: no metrics [default: 9180].
    #[arg(long, value_name = "PORT")]
    prometheus_port: Option<String>,
    /// The number of shards, each a thread [default: one for each core].
    #[arg(long, value_name = "N")]
    smp: Option<String>,
    /// Limit for memtables and caches [default: an eighth of the machine's memory, at most 2G].
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Read the SSTables of this directory (of a table, a keyspace or a data directory) as tables. Nothing is
    /// written there. Can be given several times.
    #[arg(long, value_name = "[KEYSPACE.TABLE=]DIR", action = clap::ArgAction::Append)]
    attach: Vec<String>,
    /// A file of CREATE TABLE statements that name the columns of attached tables.
    #[arg(long, value_name = "FILE.cql", requires = "attach")]
    attach_schema: Option<PathBuf>,
    /// error, warn, info, debug or trace [default: info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Set any option of messina.yaml: --set commitlog_sync=batch.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    options: OptionFlags,
}

impl ServeArguments {
    /// The flags as settings. Each flag sets the option of the same name.
    fn settings(&self) -> Result<Vec<Setting>, String> {
        let flags = [
            ("--data-dir", "data_dir", &self.data_dir),
            ("--listen-address", "listen_address", &self.listen_address),
            ("--native-transport-port", "native_transport_port", &self.native_transport_port),
            ("--api-port", "api_port", &self.api_port),
            ("--prometheus-port", "prometheus_port", &self.prometheus_port),
            ("--smp", "smp", &self.smp),
            ("--memory", "memory", &self.memory),
            ("--log-level", "log_level", &self.log_level),
        ];
        let mut settings = vec![];
        for (flag, name, value) in flags {
            settings.extend(value.as_ref().map(|value| Setting::flag(flag, name, value)));
        }
        if self.listen_address.is_some() {
            // The flag overrides `rpc_address` of the file, so that clients connect to this address.
            settings.push(Setting::flag("--listen-address", "rpc_address", "auto"));
        }
        if self.in_memory {
            settings.push(Setting::flag("--in-memory", "in_memory", "true"));
        }
        settings.extend(self.options.0.iter().cloned());
        for text in &self.set {
            let Some((name, value)) = text.split_once('=') else {
                return Err(format!("--set {text}: expected NAME=VALUE"));
            };
            settings.push(Setting::flag(&format!("--set {text}"), name.trim(), value));
        }
        Ok(settings)
    }
}

/// Serves until a signal ends the process.
///
/// # Errors
/// The node cannot start, or did not end well; the text says what to do.
pub fn run(arguments: &ServeArguments, start: StartListeners) -> Result<(), ServeError> {
    let began = StartTime::now();
    let loaded = config::load(arguments.config.as_deref(), arguments.settings()?)
        .map_err(|errors| ServeError(errors.to_string()))?;
    let facts = Facts::measure(&loaded.config);
    let mut shown = loaded.config.clone();
    // Without `..`: an unused part does not compile; see `config::parts`.
    let Config {
        identity,
        place,
        machine,
        commitlog,
        compaction,
        sstables,
        backup,
        large_data,
        reads,
        listen,
        security,
        requests,
        timeouts,
        results,
        batches,
        schema,
        http,
        log,
    } = loaded.config;
    logging::start(log.levels());
    info!(target: "init", "Messina {}, process {}", crate::VERSION, std::process::id());
    match &loaded.file {
        Some(file) => info!(target: "config", "read {}", file.display()),
        None => {
            info!(target: "config", "there is no {}; defaults, environment and flags", config::DEFAULT_FILE)
        }
    }
    for note in loaded.notes {
        if note.is_warning {
            warn!(target: "config", "{}", note.text);
        } else {
            info!(target: "config", "{}", note.text);
        }
    }
    raise_open_files();
    if let Some(line) = production::line(&production::findings(&facts)) {
        info!(target: "init", "{line}");
    }
    // Files of the node are for its user alone.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    // SAFETY: installs no handler of this program. Closing the terminal while the node opens its directory
    // does not end it.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    let PlaceConfig { data_dir, in_memory } = place;
    let memory_dir = if in_memory { Some(make_memory_dir()?) } else { None };
    let data_dir = memory_dir.as_ref().map_or(data_dir, |dir| dir.path().to_owned());
    let HttpConfig {
        api_address,
        api_port,
        api_page,
        api_page_console,
        prometheus_address,
        prometheus_port,
        protection,
    } = http;
    let api = bind(&api_address, api_port, "api_port")?;
    let metrics = match prometheus_port {
        0 => None,
        port => Some(bind(&prometheus_address, port, "prometheus_port")?),
    };
    let guards = guards(protection, (&api_address, &api), (&prometheus_address, metrics.as_ref()))?;
    let api_ip = api.local_addr().ok().map(|address| address.ip());
    let console = ConsoleRights::of(api_page_console, guards.api.passwords.is_some(), api_ip);
    // The admin API returns file names, and its client may have another working directory.
    let data_dir = std::path::absolute(&data_dir)
        .map_err(|error| ServeError(format!("data_dir {}: {error}", data_dir.display())))?;
    shown.place.data_dir.clone_from(&data_dir);
    let Resources { memory_bytes, shards, io_properties_file } = machine.resources(Machine::measure());
    let attachments = attach::attachments(&arguments.attach, arguments.attach_schema.as_deref())?;
    let backups = backups(backup)?;
    let options = EngineParts {
        data_dir: data_dir.clone(),
        in_memory,
        memory_bytes,
        shards: shards.shards,
        commitlog,
        archives_commitlog: backups.options.is_archived(),
        compaction,
        sstables,
        large_data,
        reads,
        read_timeout_us: timeouts.read_ms.saturating_mul(1000),
        range_timeout_us: timeouts.range_ms.saturating_mul(1000),
        attachments,
    };
    let manager = ServiceManager::new(&config::service_variables(), std::process::id());
    table_restore::remove_left(&data_dir).map_err(|error| ServeError(error.to_string()))?;
    let engine = open(options.options(), shards, io_properties_file.as_deref(), &manager)?;
    let resident =
        memory_governor::start(&engine, memory_bytes).map_err(|error| ServeError(error.to_string()))?;
    let config = NodeConfig {
        cluster_name: identity.cluster_name.clone(),
        data_center: identity.data_center.clone(),
        rack: identity.rack.clone(),
        address: identity.address(&listen).to_string(),
        data_dir,
        memory_bytes,
        audit: security.audit.clone(),
        serves_page: api_page,
        console,
    };
    let started = StartTime::now();
    let clients = ClientParts {
        identity,
        listen,
        security,
        requests,
        timeouts,
        results,
        batches,
        schema,
        memory_bytes,
        shown,
        started,
    };
    let listeners = start(&engine, clients)?;
    let node = ManagedNode::new(engine, config, listeners, backups, started);
    let served = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ServeError(format!("cannot start the admin thread: {error}")))?
        .block_on(async {
            tokio::spawn(memory_governor::watch(resident));
            serve(&node, api, metrics, guards, &Outside { memory_dir: memory_dir.as_ref(), manager, began })
                .await
        });
    // Dropping the last owner stops the shards.
    drop(node);
    info!(target: "init", "stopped");
    served
}

/// `messina doctor`: the checks before production for the node that these arguments would start. Returns the
/// report, and whether it has no problem.
///
/// # Errors
/// The configuration is wrong.
pub fn doctor(arguments: &ServeArguments) -> Result<(String, bool), ServeError> {
    let loaded = config::load(arguments.config.as_deref(), arguments.settings()?)
        .map_err(|errors| ServeError(errors.to_string()))?;
    let found = production::findings(&Facts::measure(&loaded.config));
    let report: String = found.iter().map(|finding| format!("{finding}\n")).collect();
    Ok((report, found.iter().all(|finding| finding.weight < Weight::Problem)))
}

/// Raises the limit of open files and connections to the allowed maximum; shells set a low limit by default.
fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // An absent limit is the largest number.
    let [before, most] = [current, maximum].map(|limit| limit.unwrap_or(u64::MAX));
    let raised = before < most && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let now = if raised { most } else { before };
    info!(target: "init", "at most {now} open files and connections (RLIMIT_NOFILE; {before} before)");
    if now < OPEN_FILES_WANTED {
        warn!(
            target: "init",
            "that is few: ulimit -n, LimitNOFILE of systemd, or --ulimit nofile of docker raises it"
        );
    }
}

/// The backups of the node, by its configuration.
fn backups(config: BackupConfig) -> Result<Backups, ServeError> {
    let BackupConfig { target, interval_ms, keep, io_throughput_bytes_s, archive_interval_ms } = config;
    let io_bytes_per_s = io_throughput_bytes_s;
    let options = BackupOptions { target, interval_ms, keep, io_bytes_per_s, archive_interval_ms };
    match &options.target {
        Some(url) => {
            backup::open_target(url).map_err(|error| ServeError(format!("backup_target: {error}")))?;
        }
        None if options.interval_ms > 0 || options.is_archived() => {
            let option = if options.interval_ms > 0 { "backup_interval" } else { "backup_archive_interval" };
            return Err(ServeError(format!("{option} needs backup_target, which is not set")));
        }
        None => {}
    }
    Ok(Backups::new(options))
}

/// Makes backups by the schedule, and archives the commit log, until the node stops.
fn schedule_backups(node: &Arc<ManagedNode>) {
    let options = &node.backups.options;
    let Some(target) = &options.target else { return };
    if options.interval_ms > 0 {
        let kept = if options.keep == 0 { "all".to_string() } else { format!("the newest {}", options.keep) };
        let interval = config::units::show_millis(options.interval_ms);
        info!(target: "backup", "a backup to {target} every {interval}, of which {kept} are kept");
        repeat(node.clone(), options.interval_ms, |node| {
            node.backups.run_schedule(&node.engine, &node.config.data_dir);
        });
    }
    if options.is_archived() {
        let interval = config::units::show_millis(options.archive_interval_ms);
        info!(target: "backup", "the commit log is archived to {target} every {interval}");
        repeat(node.clone(), options.archive_interval_ms, |node| {
            node.backups.archive_pass(&node.engine, &node.config.data_dir);
        });
    }
}

/// Runs `f` after each interval on a thread that may block, while the node serves.
fn repeat(node: Arc<ManagedNode>, interval_ms: u64, f: fn(&ManagedNode)) {
    let mut ticks = tokio::time::interval(Duration::from_millis(interval_ms));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tokio::spawn(async move {
        // The first tick is at once.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if node.mode() != Mode::Normal {
                return;
            }
            let node = node.clone();
            // A panic of one round is logged by its thread, and the next one is tried.
            let _ = tokio::task::spawn_blocking(move || f(&node)).await;
        }
    });
}

fn make_memory_dir() -> Result<MemoryDir, ServeError> {
    let dir = MemoryDir::make(&config::temporary_dir())
        .map_err(|error| ServeError(format!("in_memory: cannot make a temporary directory: {error}")))?;
    warn!(target: "init", "in_memory: everything is in {} and is removed at the end", dir.path().display());
    Ok(dir)
}

fn bind(address: &str, port: u16, option: &str) -> Result<TcpListener, ServeError> {
    let flag = option.replace('_', "-");
    let wrong = |error: std::io::Error| {
        let what = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("another process listens there; stop it, or choose another port with --{flag}")
            }
            std::io::ErrorKind::PermissionDenied => {
                format!("{error}; ports below 1024 need root; choose another with --{flag}")
            }
            _ => format!("{error}; is it an address of this machine?"),
        };
        ServeError(format!("cannot listen on {address}:{port} ({option}): {what}"))
    };
    let addresses: Vec<_> = (address, port).to_socket_addrs().map_err(wrong)?.collect();
    let listener = TcpListener::bind(&addresses[..]).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    Ok(listener)
}

/// The guards of the HTTP listeners; `metrics`: `None` if everyone may read the metrics.
struct Guards {
    api: admin::guard::Guard,
    metrics: Option<admin::guard::Guard>,
}

/// `api` and `metrics`: the configured address, and the socket bound to it.
fn guards(
    protection: HttpProtection,
    api: (&str, &TcpListener),
    metrics: (&str, Option<&TcpListener>),
) -> Result<Guards, ServeError> {
    let address = |listener: &TcpListener| listener.local_addr().ok().map(|address| address.ip());
    let bound = |listener: Option<&TcpListener>| listener.and_then(address).into_iter().collect::<Vec<_>>();
    protection.check(&bound(Some(api.1)), &bound(metrics.1))?;
    let HttpProtection { password_file, api_allow_anonymous, prometheus_allow_anonymous } = protection;
    let passwords = password_file.as_deref().map(admin::guard::passwords).transpose()?;
    let of = |name: &str| admin::guard::Guard { passwords: passwords.clone(), names: vec![name.to_string()] };
    Ok(Guards {
        api: admin::guard::Guard {
            passwords: passwords.clone().filter(|_| !api_allow_anonymous),
            ..of(api.0)
        },
        metrics: (!prometheus_allow_anonymous).then(|| of(metrics.0)),
    })
}

fn open(
    options: EngineOptions,
    mut shards: ShardOptions,
    io_properties_file: Option<&Path>,
    manager: &ServiceManager,
) -> Result<Engine, ServeError> {
    if let Some(path) = io_properties_file {
        shards.disk.model = disk_model::in_file(path, &options.data_dir).map_err(ServeError)?;
    }
    if shards.disk.model.is_some() {
        shards.disk.inflight_goals = 1;
    }
    match &shards.disk.model {
        None => info!(target: "engine", "the disk was not measured: see io_properties_file"),
        Some(model) => info!(target: "engine", "disk: {}", disk_model::show(model)),
    }
    info!(
        target: "engine",
        "opening {} with {} shards, {} for memtables and caches, commit log synced {} and of {} at most",
        options.data_dir.display(),
        shards.shards,
        config::units::show_bytes(options.memory_bytes),
        show_sync(options.commitlog_sync),
        config::units::show_bytes(options.commitlog_total_bytes),
    );
    for Attachment { keyspace, table, dir, .. } in &options.attachments {
        info!(target: "engine", "attaching {} as {keyspace}.{table}, to read only", dir.display());
    }
    let (dir, segment_bytes) = (options.data_dir.clone(), options.commitlog_segment_bytes);
    let progress = options.progress.clone();
    let engine = start_log::while_opening(progress, manager, || Engine::open_with(options, shards))
        .map_err(|error| open_error(&dir, segment_bytes, &error))?;
    info!(target: "engine", "I/O by {}", engine.backend());
    report(engine.open_report());
    Ok(engine)
}

fn show_sync(mode: SyncMode) -> String {
    match mode {
        SyncMode::Periodic { period_us } => format!("every {} ms", period_us / 1000),
        SyncMode::Batch => "before each write is acknowledged".to_string(),
        SyncMode::Group { window_us } => {
            format!("for groups of writes that gather for {} ms", window_us as f64 / 1000.0)
        }
    }
}

/// With this much free space and less than two segments, smaller segments would let the node start.
const NEEDED_WITHOUT_SEGMENTS_BYTES: u64 = 1 << 20;

fn open_error(data_dir: &Path, segment_bytes: u64, error: &EngineError) -> ServeError {
    let dir = data_dir.display();
    let hint_of_segments = match disk_use::file_system(data_dir) {
        Some(of) if of.free_bytes >= NEEDED_WITHOUT_SEGMENTS_BYTES && of.free_bytes < 2 * segment_bytes => {
            format!(
                ", or use smaller segments of the commit log: commitlog_segment_size is {}",
                config::units::show_bytes(segment_bytes)
            )
        }
        _ => String::new(),
    };
    let of_file = |file: &FileError| match file.source.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => format!(
            "{dir} cannot be used: {file}; make it writable for this user, or choose another with --data-dir"
        ),
        _ if file.is_no_space() => format!(
            "{dir} cannot be opened: {file}; {}; free disk space and start again{}",
            DiskUse::of(data_dir),
            hint_of_segments
        ),
        _ if matches!(Errno::from_io_error(&file.source), Some(Errno::MFILE | Errno::NFILE)) => {
            format!(
                "{dir} cannot be opened: {file}; raise the limit with ulimit -n or LimitNOFILE of systemd"
            )
        }
        _ => format!("{dir} cannot be opened: {file}"),
    };
    ServeError(match error {
        EngineError::DamagedLog(_) => {
            format!("{error}: --set on_damaged_commitlog=skip")
        }
        EngineError::File(file) => of_file(file),
        EngineError::Log(LogError::NoSpace(file)) => of_file(file),
        EngineError::NoSpace(what) => format!(
            "{dir} cannot be opened: a start flushes the entries of the commit log, and there is no space on the disk: {what}; \
             {}; free disk space and start again",
            DiskUse::of(data_dir)
        ),
        EngineError::Start(_) => format!("{error}; or use fewer shards with --smp"),
        _ => error.to_string(),
    })
}

/// Logs what the start found and did.
fn report(report: &OpenReport) {
    let replay = &report.replay;
    if replay.segments > 0 {
        info!(
            target: "engine",
            "replayed {} entries of {} commit log segments ({} bytes) in {} ms, flushed them in {} ms; {} more were in SSTables already, {} \
             are of tables that were dropped or truncated",
            replay.entries - replay.flushed - replay.skipped,
            replay.segments,
            replay.bytes,
            report.replay_us / 1000,
            report.flush_us / 1000,
            replay.flushed,
            replay.skipped,
        );
    }
    for gap in &replay.truncated {
        info!(target: "engine", "commit log: cut off, was never synced: {gap}");
    }
    for gap in &replay.damaged {
        warn!(target: "engine", "commit log: lost: {gap}");
    }
    if report.lost_host_id {
        warn!(target: "engine", "the file host_id was missing: the node has another id now, {}", report.host_id);
    }
    for path in &report.removed_sstables {
        info!(target: "engine", "removed {}, which was never finished", path.display());
    }
    for dir in &report.set_aside {
        error!(
            target: "engine",
            "an SSTable without TOC.txt is not sound, so its table is read without it; its files are in {}: they may be damaged, or what a \
             loss of power left of one that was being written",
            dir.display()
        );
    }
    for dir in &report.ended_drops {
        info!(target: "engine", "removed {}, whose table had been dropped", dir.display());
    }
    for dir in &report.lost_dirs {
        error!(target: "engine", "{} is missing, with all SSTables of its table; it is made anew", dir.display());
    }
    for text in &report.unreadable_sstables {
        error!(target: "engine", "an SSTable cannot be opened, reads of its table fail: {text}");
    }
    for text in &report.missing_sstables {
        warn!(target: "engine", "an SSTable is missing: {text}");
    }
    for text in &report.rebuilt_components {
        warn!(
            target: "engine",
            "a component of an SSTable is damaged or missing and is done without, a scrub of its table writes it anew: {text}"
        );
    }
    for dir in &report.unknown_dirs {
        warn!(target: "engine", "{} belongs to no table and is left alone", dir.display());
    }
}

/// What surrounds the node.
struct Outside<'a> {
    memory_dir: Option<&'a MemoryDir>,
    manager: ServiceManager,
    began: StartTime,
}

/// From the first answer of the admin API to the end of the drain.
async fn serve(
    node: &Arc<ManagedNode>,
    api: TcpListener,
    metrics: Option<TcpListener>,
    guards: Guards,
    outside: &Outside<'_>,
) -> Result<(), ServeError> {
    let Outside { memory_dir, manager, began } = outside;
    let failed = |what: &str, error: std::io::Error| ServeError(format!("cannot {what}: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| failed("take signals", error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| failed("take signals", error))?;
    let hangup = signal(SignalKind::hangup()).map_err(|error| failed("take signals", error))?;
    reload_on_hangup(hangup, node.clone());
    start_server("admin API", api, admin::router(node.clone(), guards.api))?;
    if let Some(metrics) = metrics {
        start_server("Prometheus metrics", metrics, admin::metrics_router(node.clone(), guards.metrics))?;
    }
    info!(target: "init", "initialization completed in {} ms", began.uptime().as_millis());
    manager.ready(&format!("serving clients on {}", node.config.address));
    manager.watch(&node.engine);
    let mut gone = watch_shards(&node.engine);
    disk_watch::start(&node.engine, &node.config.data_dir);
    schedule_backups(node);
    let reloading = node.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(CERTIFICATES_LOOK).await;
            reloading.listeners.reload_certificates();
        }
    });
    let name = tokio::select! {
        name = next_signal(&mut terminate, &mut interrupt) => name,
        () = node.stopping.notified() => "stopdaemon",
        Some(shard) = gone.recv() => return Err(ServeError(format!(
            "shard {shard} stopped by a panic, which is a defect of Messina; acknowledged writes are in the commit log"
        ))),
    };
    info!(target: "init", "{name}: stopping; a second signal stops at once");
    let notifying = manager.stopping("flushing memtables");
    let draining = tokio::spawn({
        let node = node.clone();
        async move { node.drain().await }
    });
    let ended = tokio::select! {
        drained = draining => match drained {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(ServeError(format!("not all memtables could be flushed; their writes are in the commit log: \
                                                      {error}"))),
            Err(panic) => Err(ServeError(panic.to_string())),
        },
        name = second_signal(&mut terminate, &mut interrupt) => {
            warn!(target: "init", "{name} again: stopping at once");
            if let Some(dir) = memory_dir {
                dir.remove();
            }
            std::process::exit(1);
        }
    };
    notifying.abort();
    ended
}

fn start_server(what: &str, listener: TcpListener, router: axum::Router) -> Result<(), ServeError> {
    let address = listener.local_addr();
    let listener = tokio::net::TcpListener::from_std(listener);
    let (Ok(address), Ok(listener)) = (address, listener) else {
        return Err(ServeError(format!("cannot serve the {what}")));
    };
    tokio::spawn(async move { axum::serve(Listener::new(listener), router).await });
    info!(target: "admin", "Starting listening for the {what} on {address}");
    Ok(())
}

/// A receiver that gets the number of a shard that has stopped.
fn watch_shards(engine: &Engine) -> mpsc::Receiver<u32> {
    let (sender, receiver) = mpsc::channel(1);
    let remote = engine.remote();
    for shard in 0..remote.shard_count() {
        // The call never answers; it ends with an error when its shard stops.
        let watch = remote.call(shard, CpuGroup::Background, |_| std::future::pending::<()>());
        let sender = sender.clone();
        tokio::spawn(async move {
            let _ = watch.await;
            let _ = sender.send(shard).await;
        });
    }
    receiver
}

async fn next_signal(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

/// A signal this soon after the first counts as the same: `timeout` sends SIGTERM to the process and to its
/// group.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// Waits for a signal that is not a part of the one that came just now.
async fn second_signal(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    let first = tokio::time::Instant::now();
    loop {
        let name = next_signal(terminate, interrupt).await;
        if first.elapsed() >= SAME_SIGNAL {
            return name;
        }
    }
}

/// SIGHUP never ends the node: closing a terminal sends it too. It reloads changed certificates.
fn reload_on_hangup(mut hangup: Signal, node: Arc<ManagedNode>) {
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            info!(
                target: "init",
                "SIGHUP: looking for changed certificates; options are read at the next start, SIGTERM stops the node"
            );
            node.listeners.reload_certificates();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_panics_is_noticed() {
        let dir = config::temporary_dir().join(format!("messina-watch-test-{}", std::process::id()));
        let engine = Engine::open(engine::EngineOptions::new(&dir)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let gone = runtime.block_on(async {
            let mut gone = watch_shards(&engine);
            tokio::task::yield_now().await;
            assert!(gone.try_recv().is_err(), "it runs");
            let panics = engine.ask(0, |_| async { panic!("as the test wants it") });
            let answer: Result<(), EngineError> = panics.get().await;
            assert!(matches!(answer, Err(EngineError::Stopped)));
            gone.recv().await
        });
        assert_eq!(gone, Some(0));
        drop(engine);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn flags_are_settings() {
        let arguments = ServeArguments {
            listen_address: Some("10.0.0.1".into()),
            memory: Some("1G".into()),
            in_memory: true,
            set: vec!["commitlog_sync=batch".into()],
            ..ServeArguments::default()
        };
        let (config, _) = config::layers::apply(arguments.settings().unwrap()).unwrap();
        assert_eq!((config.listen.address(), config.machine.memory_bytes), ("10.0.0.1", Some(1 << 30)));
        assert_eq!((config.place.in_memory, config.commitlog.sync), (true, config::CommitlogSync::Batch));
        let wrong = ServeArguments { set: vec!["smp".into()], ..ServeArguments::default() };
        assert_eq!(wrong.settings().unwrap_err(), "--set smp: expected NAME=VALUE");
    }
}
