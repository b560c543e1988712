//! Commands about statements and clients: histograms, pools, connections, timeouts, tracing, hot partitions.

use clap::{Args, Subcommand, ValueEnum};
use server::api::request_answers::{
    ClientConnection, Pools, RequestHistograms, SlowStatements, TableHistograms, TimeoutSetting,
    TopPartitions, TraceProbability,
};

use super::call::{Call, one_or_two};
use super::http::query;
use super::request_text as text;

#[derive(Debug, Subcommand)]
pub enum RequestCommand {
    /// Shows latencies, SSTables a read, partition sizes and cells of tables
    #[command(name = "tablehistograms", visible_alias = "cfhistograms")]
    TableHistograms {
        /// A table; without it all
        #[arg(value_name = "KEYSPACE.TABLE or KEYSPACE TABLE", num_args = 0..=2)]
        of: Vec<String>,
    },
    /// Shows latencies of statements from their arrival to their answer
    #[command(name = "proxyhistograms")]
    ProxyHistograms,
    /// Shows work in progress, waiting and done, and requests that timed out
    #[command(name = "tpstats")]
    TpStats,
    /// Shows the limits of concurrent work
    #[command(name = "getconcurrency")]
    GetConcurrency {
        /// Only these stages, as the output names them
        #[arg(value_name = "STAGE")]
        stages: Vec<String>,
    },
    /// Shows connected clients
    #[command(name = "clientstats")]
    ClientStats {
        /// Lists all connections
        #[arg(long)]
        all: bool,
        /// Counts connections by version of the protocol
        #[arg(long)]
        by_protocol: bool,
        /// Lists all connections and the options that their clients sent
        #[arg(long)]
        client_options: bool,
    },
    /// Shows statements that took longer than slow_query_log_timeout
    #[command(name = "slowstatements")]
    SlowStatements,
    /// Shows the partitions that are read and written most, while it samples
    #[command(name = "toppartitions")]
    TopPartitions(Sampling),
    /// Samples the load of tables for a while
    #[command(name = "profileload")]
    ProfileLoad(Sampling),
    /// Shows a timeout of requests
    #[command(name = "gettimeout")]
    GetTimeout {
        /// read, range, write, counterwrite, cascontention or truncate
        #[arg(value_name = "TYPE")]
        kind: String,
    },
    /// Sets a timeout of requests until the next start
    #[command(name = "settimeout")]
    SetTimeout {
        /// read, range, write, counterwrite, cascontention or truncate
        #[arg(value_name = "TYPE")]
        kind: String,
        /// Milliseconds
        ms: String,
    },
    /// Shows the fraction of requests that is traced
    #[command(name = "gettraceprobability")]
    GetTraceProbability,
    /// Traces a fraction of all requests until the next start
    #[command(name = "settraceprobability")]
    SetTraceProbability {
        /// 0: none, 1: all
        probability: String,
    },
}

/// Which requests to sample, and for how long.
#[derive(Args, Debug)]
pub struct Sampling {
    /// Keyspace, table and milliseconds, or only milliseconds [default: all tables, 10000]
    #[arg(value_name = "KEYSPACE TABLE DURATION", num_args = 0..=3)]
    of: Vec<String>,
    /// Counters of the sampler on each shard; more are more accurate
    #[arg(short = 's', value_name = "CAPACITY", default_value_t = 256)]
    capacity: u32,
    /// The number of partitions to show
    #[arg(short = 'k', value_name = "COUNT", default_value_t = 10)]
    count: u32,
    /// Only this sampler [default: both]
    #[arg(short = 'a', value_name = "SAMPLERS", value_delimiter = ',', ignore_case = true)]
    samplers: Vec<Sampler>,
    /// A table, as ScyllaDB's nodetool takes it: keyspace:table
    #[arg(long = "cf-filters", value_name = "KEYSPACE:TABLE")]
    table_filter: Option<String>,
    /// Milliseconds, as ScyllaDB's nodetool takes them
    #[arg(short = 'd', long = "duration", value_name = "MILLISECONDS")]
    duration: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sampler {
    Reads,
    Writes,
}

impl RequestCommand {
    pub fn run(&self, call: &Call) -> Result<String, String> {
        match self {
            Self::TableHistograms { of } => {
                let (keyspace, table) = match &of[..] {
                    [] => (None, None),
                    [one] => one_or_two(Some(one)),
                    [keyspace, table, ..] => (Some(&keyspace[..]), Some(&table[..])),
                };
                if keyspace.is_some() && table.is_none() {
                    return Err("tablehistograms requires keyspace and table name arguments".to_string());
                }
                let path = query("/v1/histograms/tables", &[("keyspace", keyspace), ("table", table)]);
                call.get(&path, |tables: Vec<TableHistograms>| text::table_histograms(&tables))
            }
            Self::ProxyHistograms => {
                call.get("/v1/histograms/requests", |it: RequestHistograms| text::proxy_histograms(&it))
            }
            Self::TpStats => call.get("/v1/pools", |pools: Pools| text::tp_stats(&pools)),
            Self::GetConcurrency { stages } => {
                call.get("/v1/pools", |pools: Pools| text::concurrency(&pools, stages))
            }
            Self::ClientStats { all, by_protocol, client_options } => {
                call.get("/v1/clients", |clients: Vec<ClientConnection>| match () {
                    () if *by_protocol => text::clients_by_protocol(&clients),
                    () => text::client_stats(&clients, *all, *client_options),
                })
            }
            Self::SlowStatements => call.get("/v1/slow", |slow: SlowStatements| text::slow_statements(&slow)),
            Self::TopPartitions(sampling) | Self::ProfileLoad(sampling) => sampling.run(call),
            Self::GetTimeout { kind } => {
                let found = call.get("/v1/timeouts", |all: Vec<TimeoutSetting>| {
                    let wanted = kind.to_ascii_lowercase();
                    let found = all.iter().find(|setting| setting.kind == wanted);
                    let names: Vec<&str> = all.iter().map(|setting| &setting.kind[..]).collect();
                    match found {
                        Some(it) => Ok(format!("Current timeout for type {kind}: {} ms\n", it.ms)),
                        None => Err(format!("there is no timeout {kind}; there are: {}", names.join(", "))),
                    }
                });
                found?
            }
            Self::SetTimeout { kind, ms } => {
                call.post(&query("/v1/timeouts", &[("kind", Some(kind)), ("ms", Some(ms))]))
            }
            Self::GetTraceProbability => call.get("/v1/tracing", |it: TraceProbability| {
                format!("Current trace probability: {}\n", it.probability)
            }),
            Self::SetTraceProbability { probability } => {
                call.post(&query("/v1/tracing", &[("probability", Some(probability))]))
            }
        }
    }
}

impl Sampling {
    fn run(&self, call: &Call) -> Result<String, String> {
        let (mut keyspace, mut table, mut duration) = match &self.of[..] {
            [] => (None, None, None),
            [duration] => (None, None, Some(&duration[..])),
            [keyspace, table] => (Some(&keyspace[..]), Some(&table[..]), None),
            [keyspace, table, duration, ..] => (Some(&keyspace[..]), Some(&table[..]), Some(&duration[..])),
        };
        if let Some((of, name)) = self.table_filter.as_deref().and_then(|filter| filter.split_once(':')) {
            (keyspace, table) = (Some(of), Some(name));
        }
        duration = self.duration.as_deref().or(duration);
        let (capacity, count) = (self.capacity.to_string(), self.count.to_string());
        let any = |name: &&str| *name != "*";
        let asked = [
            ("keyspace", keyspace.filter(any)),
            ("tables", table.filter(any)),
            ("duration_ms", Some(duration.unwrap_or("10000"))),
            ("capacity", Some(&capacity[..])),
            ("count", Some(&count[..])),
        ];
        let wants = |sampler| self.samplers.is_empty() || self.samplers.contains(&sampler);
        let (reads, writes) = (wants(Sampler::Reads), wants(Sampler::Writes));
        call.ask("POST", &query("/v1/toppartitions", &asked), |top: TopPartitions| {
            text::top_partitions(&top, reads, writes)
        })
    }
}
