//! Commands about the cluster, which is one node: its ring, its schema, its directories and SSTables.

use clap::Subcommand;
use server::api::answers::{CommandResult, Info};
use server::api::cluster_answers::{
    Cluster, CompactionThresholds, DataPaths, Endpoints, KeySample, TableSSTables, ViewBuild,
};

use super::call::{Call, Tables, one_or_two};
use super::cluster_text as text;
use super::http::query;

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Shows name, partitioner, schema version and keyspaces of the cluster
    #[command(name = "describecluster")]
    DescribeCluster,
    /// Shows the tokens of the ring
    Ring {
        /// A keyspace; one node owns all of each
        keyspace: Option<String>,
        /// Shows names of hosts; the address is shown as clients use it
        #[arg(short, long)]
        resolve_ip: bool,
    },
    /// Shows the token ranges of a keyspace and their replicas
    #[command(name = "describering")]
    DescribeRing {
        /// The keyspace
        keyspace: String,
    },
    /// Shows the facts that the node would gossip to others
    #[command(name = "gossipinfo")]
    GossipInfo,
    /// Shows the traffic with other nodes
    #[command(name = "netstats")]
    NetStats {
        /// Shows sizes with units; there is no traffic
        #[arg(short = 'H', long)]
        human_readable: bool,
    },
    /// Shows the failure detection of other nodes
    #[command(name = "failuredetector")]
    FailureDetector,
    /// Shows the seed nodes
    #[command(name = "getseeds")]
    GetSeeds,
    /// Shows the nodes that have a partition
    #[command(name = "getendpoints", visible_alias = "getreplicas")]
    GetEndpoints {
        /// Keyspace of the table
        keyspace: String,
        /// Name of the table
        table: String,
        /// The partition key; `:` between the values of several columns
        #[arg(allow_hyphen_values = true)]
        key: String,
    },
    /// Shows the directories of tables
    #[command(name = "datapaths")]
    DataPaths {
        /// Only this keyspace or table
        #[arg(value_name = "KEYSPACE[.TABLE]")]
        of: Option<String>,
    },
    /// Shows tokens of a sample of the keys in SSTables
    #[command(name = "rangekeysample")]
    RangeKeySample,
    /// Shows the SSTables of tables
    #[command(name = "sstableinfo")]
    SSTableInfo(Tables),
    /// Shows whether a materialized view is built; fails if it is not
    #[command(name = "viewbuildstatus")]
    ViewBuildStatus {
        /// Keyspace and view
        #[arg(value_name = "KEYSPACE.VIEW or KEYSPACE VIEW", num_args = 1..=2, required = true)]
        of: Vec<String>,
    },
    /// Shows the pauses of a garbage collector, of which there is none
    #[command(name = "gcstats")]
    GcStats,
    /// Shows min_threshold and max_threshold of a table's compaction
    #[command(name = "getcompactionthreshold")]
    GetCompactionThreshold {
        /// Keyspace of the table
        keyspace: String,
        /// Name of the table
        table: String,
    },
    /// Builds secondary indexes again
    #[command(name = "rebuild_index")]
    RebuildIndex {
        /// Keyspace of the table
        keyspace: String,
        /// Name of the table
        table: String,
        /// Names of indexes
        #[arg(required = true)]
        indexes: Vec<String>,
    },
    /// Rewrites SSTables with the compression that their table has now
    #[command(name = "recompress_sstables")]
    RecompressSSTables(Tables),
    /// Empties the row cache
    #[command(name = "invalidaterowcache")]
    InvalidateRowCache,
    /// Empties the cache of index pages
    #[command(name = "invalidatekeycache")]
    InvalidateKeyCache,
    /// Uses certificates that have changed, for new connections
    #[command(name = "reloadssl")]
    ReloadSsl,
    /// Ends the node as SIGTERM does
    #[command(name = "stopdaemon")]
    StopDaemon,
}

impl ClusterCommand {
    pub fn run(&self, call: &Call) -> Result<String, String> {
        let cluster = |show: fn(&Cluster) -> String| call.get("/v1/cluster", |it: Cluster| show(&it));
        match self {
            Self::DescribeCluster => cluster(text::describe_cluster),
            Self::Ring { keyspace, resolve_ip: _ } => {
                let show = |it: Cluster| text::checked(&it, keyspace.as_deref(), text::ring);
                call.get("/v1/cluster", show)?
            }
            Self::DescribeRing { keyspace } => {
                let show = |it: Cluster| text::checked(&it, Some(keyspace), text::describe_ring);
                call.get("/v1/cluster", show)?
            }
            Self::GossipInfo => cluster(text::gossip_info),
            Self::NetStats { human_readable: _ } => {
                call.get("/v1/info", |info: Info| text::net_stats(&info.mode))
            }
            Self::FailureDetector => {
                call.get("/v1/version", |_: serde_json::Value| format!("{:>10},{:>16}\n", "Endpoint", "Phi"))
            }
            Self::GetSeeds => call.get("/v1/version", |_: serde_json::Value| {
                "Seed node list does not contain any remote node IPs\n".to_string()
            }),
            Self::GetEndpoints { keyspace, table, key } => {
                let asked = [("keyspace", Some(&keyspace[..])), ("table", Some(table)), ("key", Some(key))];
                call.get(&query("/v1/endpoints", &asked), |found: Endpoints| {
                    found.endpoints.iter().map(|address| format!("{address}\n")).collect()
                })
            }
            Self::DataPaths { of } => {
                let (keyspace, table) = one_or_two(of.as_deref());
                let path = query("/v1/datapaths", &[("keyspace", keyspace), ("tables", table)]);
                call.get(&path, |paths: Vec<DataPaths>| text::data_paths(&paths))
            }
            Self::RangeKeySample => {
                call.get("/v1/rangekeysample", |samples: Vec<KeySample>| text::range_key_sample(&samples))
            }
            Self::SSTableInfo(of) => {
                let tables = of.joined();
                let asked = [("keyspace", of.keyspace.as_deref()), ("tables", tables.as_deref())];
                call.get(&query("/v1/sstableinfo", &asked), |tables: Vec<TableSSTables>| {
                    text::sstable_info(&tables)
                })
            }
            Self::ViewBuildStatus { of } => view_build_status(call, of),
            Self::GcStats => call.get("/v1/info", |info: Info| text::gc_stats(info.uptime_s)),
            Self::GetCompactionThreshold { keyspace, table } => {
                let asked = [("keyspace", Some(&keyspace[..])), ("table", Some(table))];
                call.get(&query("/v1/compactions/thresholds", &asked), |it: CompactionThresholds| {
                    format!(
                        "Current compaction thresholds for {keyspace}/{table}: \n min = {},  max = {}\n",
                        it.min, it.max
                    )
                })
            }
            Self::RebuildIndex { keyspace, table, indexes } => {
                let indexes = indexes.join(",");
                let asked =
                    [("keyspace", Some(&keyspace[..])), ("table", Some(table)), ("indexes", Some(&indexes))];
                call.post(&query("/v1/indexes/rebuild", &asked))
            }
            Self::RecompressSSTables(of) => {
                call.of_tables("/v1/upgradesstables", of, &[("all", Some("true"))])
            }
            Self::InvalidateRowCache => call.post("/v1/caches/invalidate?cache=rows"),
            Self::InvalidateKeyCache => call.post("/v1/caches/invalidate?cache=keys"),
            Self::ReloadSsl => call.post("/v1/certificates"),
            Self::StopDaemon => call
                .ask("POST", "/v1/stop", |_: CommandResult| "Messina has been asked to stop.\n".to_string()),
        }
    }
}

fn view_build_status(call: &Call, of: &[String]) -> Result<String, String> {
    let (keyspace, view) = match of {
        [keyspace, view] => (Some(&keyspace[..]), Some(&view[..])),
        [one] => one_or_two(Some(one)),
        _ => (None, None),
    };
    let (Some(keyspace), Some(view)) = (keyspace, view) else {
        return Err("viewbuildstatus requires keyspace and view name arguments".to_string());
    };
    let path = query("/v1/viewbuildstatus", &[("keyspace", Some(keyspace)), ("view", Some(view))]);
    let body = call.client.ask("GET", &path)?;
    let hosts: Vec<ViewBuild> = serde_json::from_str(&body).map_err(|error| error.to_string())?;
    let is_built = hosts.iter().all(|host| host.status == "SUCCESS");
    let text = call.show(&body, |_: Vec<ViewBuild>| text::view_build(keyspace, view, &hosts))?;
    if is_built { Ok(text) } else { Err(text) }
}
