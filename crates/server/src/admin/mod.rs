//! The admin API: JSON over HTTP, for `nodetool` and for scripts. [`guard`] controls access.
//!
//! | request | does |
//! |---|---|
//! | `GET /` | the page of the node, for browsers |
//! | `GET /metrics` | the metrics, for the page |
//! | `GET /v1/console`, `POST …` | what the console of the page may do; runs a CQL statement |
//! | `GET /v1/version`, `GET /v1/info` | version and state of the node |
//! | `GET /v1/tables?keyspace=&table=` | statistics of tables |
//! | `GET /v1/reads` | running and waiting reads of each shard, as text |
//! | `GET /v1/iomodel` | rates of the disk, configured and learned |
//! | `GET /v1/memory` | memory in use, by shard and class |
//! | `POST /v1/flush?keyspace=&tables=a,b` | memtables to SSTables |
//! | `POST /v1/compact?keyspace=&tables=&split=` or `?files=` | merges all SSTables of tables, or these files |
//! | `POST /v1/verify?…&all=` | checks SSTables; `all`: every row too |
//! | `POST /v1/scrub?…&skip_corrupted=&no_snapshot=&no_validate=&jobs=` | rewrites SSTables with their readable content |
//! | `POST /v1/upgradesstables?…&all=`, `/v1/cleanup` | rewrites SSTables one by one |
//! | `POST /v1/garbagecollect?…&granularity=ROW` or `CELL` | the same, without data that others delete |
//! | `GET /v1/compactions`, `GET …/history` | running and pending compactions; ended ones |
//! | `POST /v1/compactions/stop?kind=` or `?id=` | ends running compactions |
//! | `GET` and `POST /v1/compactions/throughput?mib_per_s=`, `…/concurrent?jobs=` | their limits |
//! | `GET` and `POST /v1/compactions/auto?keyspace=&tables=&enabled=` | whether tables compact by themselves |
//! | `GET` and `POST /v1/loggers?logger=&level=` | levels of the log; without parameters those of the configuration |
//! | `GET /v1/binary`, `POST …`, `DELETE …` | whether clients are served; begins, ends serving them |
//! | `POST /v1/drain` | stops serving, flushes; the process stays |
//! | `POST /v1/stop` | ends the process, as SIGTERM does |
//! | `GET /v1/cluster` | name, ring, schema version and keyspaces |
//! | `GET /v1/endpoints?keyspace=&table=&key=` | the nodes that have a partition: this one |
//! | `GET /v1/datapaths?keyspace=&tables=`, `GET /v1/sstableinfo?…` | directories of tables; their SSTables |
//! | `GET /v1/rangekeysample` | tokens of a sample of the keys in SSTables |
//! | `GET /v1/compactions/explain?keyspace=&table=` | why compactions of a table run or wait |
//! | `GET /v1/tombstones?keyspace=&table=` | how many tombstones a table has, and why they are still there |
//! | `GET /v1/compactions/thresholds?keyspace=&table=` | `min_threshold` and `max_threshold` |
//! | `GET /v1/viewbuildstatus?keyspace=&view=` | whether a view is built |
//! | `POST /v1/indexes/rebuild?keyspace=&table=&indexes=a,b` | builds secondary indexes again |
//! | `POST /v1/certificates` | uses certificates that have changed |
//! | `POST /v1/caches/invalidate?cache=rows` or `keys` | empties a cache |
//! | `GET /v1/histograms/tables?keyspace=&table=`, `GET /v1/histograms/requests` | distributions of sizes and latencies |
//! | `GET /v1/pools` | work in progress, waiting and done; requests that timed out |
//! | `GET /v1/clients` | connections of clients |
//! | `GET /v1/slow` | statements that took longer than `slow_query_log_timeout` |
//! | `GET /v1/largedata` | the largest partitions, rows and cells above their thresholds |
//! | `GET` and `POST /v1/timeouts?kind=&ms=` | timeouts of requests |
//! | `GET` and `POST /v1/tracing?probability=` | the fraction of requests that is traced |
//! | `POST /v1/toppartitions?keyspace=&tables=&duration_ms=&capacity=&count=` | the partitions that are used most |
//! | `GET /v1/sstables?keyspace=&table=&key=` | the SSTables that have a partition |
//! | `GET /v1/backups?target=`, `POST …` | the backups of a target; makes one |
//! | `GET /v1/backups/status` | the schedule of backups, and the last one |
//! | `POST /v1/backups/verify?target=&backup=` | reads and checks every object of a backup, or of all |
//! | `POST /v1/backups/restore?target=&backup=&keyspace=&table=&as=&merge=` | restores tables into this node |
//! | `POST /v1/backups/prune?target=&keep=&older_than_ms=&dry_run=` | removes old backups |
//! | `GET /v1/snapshots`, `POST …?tag=&keyspace=&table=`, `DELETE …?tag=&keyspace=` | snapshots |
//!
//! Answers are the types of [`crate::api::answers`]. Errors are `{"error": "…"}` with a status that tells a
//! wrong request from a failed node. Requests that change something need the header `X-Requested-By`.

mod audit;
mod backup_metrics;
mod backups;
mod cluster;
mod compactions;
mod console;
mod console_client;
mod disk;
mod error;
mod explain;
pub mod guard;
mod io_model;
pub mod listener;
mod loggers;
pub mod metrics;
mod page;
mod requests;
mod snapshots;
mod statement_metrics;
mod tables;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use engine::report::Caches;

use crate::api::answers::{Binary, CommandResult, Info, Memory, Version};
use crate::managed_node::{ManagedNode, Mode};
use crate::memory_governor::resident_bytes;
use crate::process_use::ProcessUse;
use error::ApiError;
use guard::Guard;

/// A single node owns the whole ring with one token.
pub const TOKENS: u64 = 1;

type Answer<T> = Result<Json<T>, ApiError>;
type OfNode = State<Arc<ManagedNode>>;

/// The admin API of a node, with its page if the configuration says so.
pub fn router(node: Arc<ManagedNode>, guard: Guard) -> Router {
    let page = if node.config.serves_page { page::routes() } else { Router::new() };
    page.route("/v1/version", get(version))
        .route("/v1/info", get(info))
        .route("/v1/tables", get(tables::stats))
        .route("/v1/reads", get(reads))
        .route("/v1/iomodel", get(io_model::io_model))
        .route("/v1/memory", get(memory))
        .route("/v1/flush", post(tables::flush))
        .route("/v1/compact", post(compactions::compact))
        .route("/v1/upgradesstables", post(compactions::upgrade))
        .route("/v1/garbagecollect", post(compactions::garbage_collect))
        .route("/v1/cleanup", post(compactions::cleanup))
        .route("/v1/verify", post(compactions::verify))
        .route("/v1/scrub", post(compactions::scrub))
        .route("/v1/compactions", get(compactions::list))
        .route("/v1/compactions/history", get(compactions::history))
        .route("/v1/compactions/stop", post(compactions::stop))
        .route("/v1/compactions/throughput", get(compactions::throughput).post(compactions::set_throughput))
        .route("/v1/compactions/concurrent", get(compactions::concurrent).post(compactions::set_concurrent))
        .route("/v1/compactions/auto", get(compactions::show_auto).post(compactions::auto))
        .route("/v1/refresh", post(tables::refresh))
        .route("/v1/import", post(tables::import))
        .route("/v1/sstables", get(tables::sstables))
        .route("/v1/loggers", get(loggers::list).post(loggers::set_level))
        .route("/v1/binary", get(binary).post(enable_binary).delete(disable_binary))
        .route("/v1/drain", post(drain))
        .route("/v1/stop", post(cluster::stop))
        .route("/v1/cluster", get(cluster::cluster))
        .route("/v1/endpoints", get(cluster::endpoints))
        .route("/v1/datapaths", get(cluster::data_paths))
        .route("/v1/rangekeysample", get(cluster::range_key_sample))
        .route("/v1/sstableinfo", get(cluster::sstable_info))
        .route("/v1/compactions/explain", get(explain::explain))
        .route("/v1/tombstones", get(explain::tombstones))
        .route("/v1/compactions/thresholds", get(cluster::thresholds))
        .route("/v1/viewbuildstatus", get(cluster::view_build_status))
        .route("/v1/indexes/rebuild", post(cluster::rebuild_indexes))
        .route("/v1/certificates", post(cluster::reload_certificates))
        .route("/v1/caches/invalidate", post(cluster::invalidate))
        .route("/v1/histograms/tables", get(requests::table_histograms))
        .route("/v1/histograms/requests", get(requests::request_histograms))
        .route("/v1/pools", get(requests::pools))
        .route("/v1/clients", get(requests::clients))
        .route("/v1/slow", get(requests::slow))
        .route("/v1/largedata", get(requests::large_data))
        .route("/v1/timeouts", get(requests::timeouts).post(requests::set_timeout))
        .route("/v1/tracing", get(requests::trace_probability).post(requests::set_trace_probability))
        .route("/v1/audit", get(audit::show).post(audit::enable).delete(audit::disable))
        .route("/v1/toppartitions", post(requests::top_partitions))
        .route("/v1/backups", get(backups::list).post(backups::create))
        .route("/v1/backups/status", get(backups::status))
        .route("/v1/backups/verify", post(backups::verify))
        .route("/v1/backups/restore", post(backups::restore))
        .route("/v1/backups/prune", post(backups::prune))
        .route("/v1/snapshots", get(snapshots::list).post(snapshots::take).delete(snapshots::clear))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(Arc::new(guard), guarded))
        .with_state(node)
}

/// The metrics of a node, at `/metrics`. `guard`: `None` if everyone may read them.
pub fn metrics_router(node: Arc<ManagedNode>, guard: Option<Guard>) -> Router {
    let router = Router::new().route("/metrics", get(metrics_text)).fallback(unknown);
    let router = match guard {
        Some(guard) => router.layer(middleware::from_fn_with_state(Arc::new(guard), guarded)),
        None => router,
    };
    router.with_state(node)
}

async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.check(request.method(), request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err((status, text)) => {
            let mut response = ApiError::new(status, text).into_response();
            if status == StatusCode::UNAUTHORIZED {
                let realm = header::HeaderValue::from_static("Basic realm=\"messina\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
            }
            response
        }
    }
}

async fn unknown(request: Request) -> ApiError {
    ApiError::not_found(format!("there is nothing at {}", request.uri().path()))
}

async fn wrong_method(request: Request) -> ApiError {
    let text = format!("{} is not allowed at {}", request.method(), request.uri().path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, text)
}

async fn version() -> Json<Version> {
    Json(Version { release_version: crate::VERSION.to_string() })
}

async fn info(State(node): OfNode) -> Answer<Info> {
    let shards = node.shard_reports().await?;
    let tables = tables::gather(&node, None, None).await?;
    let config = &node.config;
    let caches = Caches::of(&shards);
    let sum = |of: fn(&engine::report::ShardReport) -> u64| shards.iter().map(of).sum::<u64>();
    Ok(Json(Info {
        cluster_name: config.cluster_name.clone(),
        release_version: crate::VERSION.to_string(),
        host_id: node.engine.open_report().host_id.to_string(),
        address: config.address.clone(),
        data_center: config.data_center.clone(),
        rack: config.rack.clone(),
        tokens: TOKENS,
        mode: node.mode().name().to_string(),
        shards: shards.len() as u32,
        io_backend: node.engine.backend(),
        data_dir: config.data_dir.display().to_string(),
        generation: node.started.unix_s(),
        uptime_s: node.started.uptime().as_secs(),
        load_bytes: tables.iter().map(|table| table.space_used_live).sum(),
        resident_bytes: resident_bytes(),
        memory_budget_bytes: config.memory_bytes,
        memtable_bytes: sum(|shard| shard.dirty_bytes as u64),
        commitlog_bytes: sum(|shard| shard.log_bytes),
        chunk_cache: caches.chunks,
        row_cache: caches.rows,
        native_transport: node.mode() == Mode::Normal && node.listeners.is_listening(),
        connections: node.listeners.connections(),
    }))
}

async fn reads(State(node): OfNode) -> Result<String, ApiError> {
    let mut text = String::new();
    for (shard, dumps) in node.read_diagnostics().await?.iter().enumerate() {
        for dump in dumps {
            text.push_str(&format!("[shard {shard}] {dump}\n"));
        }
    }
    Ok(text)
}

async fn memory(State(node): OfNode) -> Answer<Memory> {
    Ok(Json(Memory {
        resident_bytes: resident_bytes(),
        budget_bytes: node.config.memory_bytes,
        shards: node.memory().await?,
    }))
}

/// Refuses a request that a draining or drained node cannot serve.
fn check_serving(node: &ManagedNode) -> Result<(), ApiError> {
    match node.mode() {
        Mode::Normal => Ok(()),
        mode => {
            let text = format!("the node is {}; restart it to go on", mode.name());
            Err(ApiError::new(StatusCode::CONFLICT, text))
        }
    }
}

async fn binary(State(node): OfNode) -> Json<Binary> {
    Json(Binary { running: node.mode() == Mode::Normal && node.listeners.is_listening() })
}

async fn enable_binary(State(node): OfNode) -> Answer<CommandResult> {
    log::info!(target: "admin", "clients are served again, asked by the admin API");
    serve_clients(node, true).await
}

async fn disable_binary(State(node): OfNode) -> Answer<CommandResult> {
    log::info!(target: "admin", "clients are no longer served, asked by the admin API");
    serve_clients(node, false).await
}

async fn serve_clients(node: Arc<ManagedNode>, wanted: bool) -> Answer<CommandResult> {
    // A client that goes away must not leave it half done.
    match tokio::spawn(async move { node.serve_clients(wanted).await }).await {
        Ok(Ok(())) => Ok(Json(CommandResult { count: 0 })),
        Ok(Err(text)) => Err(ApiError::new(StatusCode::CONFLICT, text)),
        Err(panic) => Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, panic.to_string())),
    }
}

async fn drain(State(node): OfNode) -> Answer<CommandResult> {
    log::info!(target: "admin", "draining, asked by the admin API");
    // A client that goes away must not leave it half done.
    let drained = tokio::spawn(async move { node.drain().await }).await;
    match drained {
        Ok(result) => result?,
        Err(panic) => {
            return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()));
        }
    }
    log::info!(target: "admin", "drained; only a restart makes the node serve again");
    Ok(Json(CommandResult { count: 0 }))
}

async fn metrics_text(State(node): OfNode) -> Result<Response, ApiError> {
    let shards = node.shard_reports().await?;
    let tables = node.table_reports().await?;
    let levels = node.level_reports().await?;
    let statements = node.statement_reports().await?;
    let memory = node.memory().await?;
    let process = metrics::Process {
        used: ProcessUse::now(),
        memory_budget_bytes: node.config.memory_bytes,
        uptime_s: node.started.uptime().as_secs_f64(),
        resident_bytes: resident_bytes(),
        connections: node.listeners.connections(),
        mode: node.mode(),
        backups: node.backups.status(),
    };
    let text = metrics::text(&process, &shards, &tables, &levels, &statements, &memory);
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
