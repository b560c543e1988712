//! Output of `nodetool` about the cluster, in Cassandra's layouts.

use server::api::cluster_answers::{Cluster, DataPaths, KeySample, TableSSTables, ViewBuild};

use super::text::{aligned, size};

/// The output of `show`, if the cluster has this keyspace.
pub fn checked(
    cluster: &Cluster,
    keyspace: Option<&str>,
    show: fn(&Cluster) -> String,
) -> Result<String, String> {
    match keyspace.filter(|name| !cluster.keyspaces.iter().any(|keyspace| keyspace.name == *name)) {
        Some(name) => Err(format!("The keyspace {name}, does not exist")),
        None => Ok(show(cluster)),
    }
}

pub fn describe_cluster(cluster: &Cluster) -> String {
    let down = if cluster.mode == "NORMAL" { 0 } else { 1 };
    let mut text = format!(
        "Cluster Information:\n\tName: {}\n\tSnitch: {}\n\tDynamicEndPointSnitch: disabled\n\tPartitioner: {}\n\t\
         Schema versions:\n\t\t{}: [{}]\n\n",
        cluster.cluster_name, cluster.snitch, cluster.partitioner, cluster.schema_version, cluster.address
    );
    text.push_str(&format!(
        "Stats for all nodes:\n\tLive: {}\n\tJoining: 0\n\tMoving: 0\n\tLeaving: 0\n\tUnreachable: {down}\n\n",
        1 - down
    ));
    text.push_str(&format!("Data Centers: \n\t{} #Nodes: 1 #Down: {down}\n\n", cluster.data_center));
    text.push_str(&format!(
        "Database versions:\n\t{}: [{}:{}]\n\nKeyspaces:\n",
        cluster.release_version, cluster.address, cluster.storage_port
    ));
    for keyspace in &cluster.keyspaces {
        let class = keyspace.replication.get("class").map_or("", |class| class);
        let class = class.rsplit('.').next().unwrap_or(class);
        let options: Vec<String> = keyspace
            .replication
            .iter()
            .filter(|(name, _)| *name != "class")
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        text.push_str(&format!(
            "\t{} -> Replication class: {class} {{{}}}\n",
            keyspace.name,
            options.join(", ")
        ));
    }
    text
}

pub fn ring(cluster: &Cluster) -> String {
    let width = cluster.address.len().max("Address".len());
    let line = |cells: [&str; 7]| {
        let [address, rack, status, state, load, owns, token] = cells;
        format!("{address:<width$}  {rack:<12}{status:<7}{state:<8}{load:<16}{owns:<20}{token:<44}\n")
    };
    let mut text = format!("\nDatacenter: {}\n==========\n", cluster.data_center);
    text.push_str(&line(["Address", "Rack", "Status", "State", "Load", "Owns", "Token"]));
    text.push('\n');
    let status = if cluster.mode == "NORMAL" { "Up" } else { "Down" };
    for token in &cluster.tokens {
        text.push_str(&line([
            &cluster.address,
            &cluster.rack,
            status,
            "Normal",
            &size(cluster.load_bytes),
            "100.00%",
            &token.to_string(),
        ]));
    }
    text + "\n  \n"
}

pub fn describe_ring(cluster: &Cluster) -> String {
    let mut text = format!("Schema Version:{}\nTokenRange: \n", cluster.schema_version);
    let address = &cluster.address;
    for (at, end) in cluster.tokens.iter().enumerate() {
        let start = cluster.tokens[(at + cluster.tokens.len() - 1) % cluster.tokens.len()];
        text.push_str(&format!(
            "\tTokenRange(start_token:{start}, end_token:{end}, endpoints:[{address}], rpc_endpoints:[{address}], \
             endpoint_details:[EndpointDetails(host:{address}, datacenter:{}, rack:{})])\n",
            cluster.data_center, cluster.rack
        ));
    }
    text
}

/// The states that Cassandra's gossip has and this node knows. Each was set once, at the start.
pub fn gossip_info(cluster: &Cluster) -> String {
    let tokens: Vec<String> = cluster.tokens.iter().map(i64::to_string).collect();
    let states = [
        ("STATUS", format!("{},{}", cluster.mode, tokens.join(","))),
        ("LOAD", cluster.load_bytes.to_string()),
        ("SCHEMA", cluster.schema_version.clone()),
        ("DC", cluster.data_center.clone()),
        ("RACK", cluster.rack.clone()),
        ("RELEASE_VERSION", cluster.release_version.clone()),
        ("RPC_ADDRESS", cluster.address.clone()),
        ("NATIVE_ADDRESS_AND_PORT", format!("{}:{}", cluster.address, cluster.port)),
        ("HOST_ID", cluster.host_id.clone()),
        ("RPC_READY", (cluster.mode == "NORMAL").to_string()),
    ];
    let mut text = format!(
        "/{}\n  generation:{}\n  heartbeat:{}\n",
        cluster.address, cluster.generation, cluster.uptime_s
    );
    for (state, value) in states {
        text.push_str(&format!("  {state}:1:{value}\n"));
    }
    text + "  TOKENS:1:<hidden>\n\n"
}

pub fn net_stats(mode: &str) -> String {
    let mut text = format!(
        "Mode: {mode}\nNot sending any streams.\nRead Repair Statistics:\nAttempted: 0\nMismatch (Blocking): 0\n\
         Mismatch (Background): 0\n"
    );
    let line = |cells: [&str; 5]| {
        format!("{:<25}{:>10}{:>10}{:>15}{:>10}\n", cells[0], cells[1], cells[2], cells[3], cells[4])
    };
    text.push_str(&line(["Pool Name", "Active", "Pending", "Completed", "Dropped"]));
    for pool in ["Large messages", "Small messages", "Gossip messages"] {
        text.push_str(&line([pool, "n/a", "0", "0", "0"]));
    }
    text
}

pub fn gc_stats(uptime_s: u64) -> String {
    let titles = [
        "Interval (ms)",
        "Max GC Elapsed (ms)",
        "Total GC Elapsed (ms)",
        "Stdev GC Elapsed (ms)",
        "GC Reclaimed (MB)",
        "Collections",
    ];
    let values = [uptime_s * 1000, 0, 0, 0, 0, 0];
    let titles: String = titles.iter().map(|title| format!("{title:>20}")).collect();
    let values: String = values.iter().map(|value| format!("{value:>20}")).collect();
    // -1 is unknown, as in Cassandra.
    format!("{titles}{:>25}\n{values}{:>25}\n", "Direct Memory Bytes", -1)
}

pub fn data_paths(paths: &[DataPaths]) -> String {
    let mut text = String::new();
    let mut keyspace = None;
    for of_table in paths {
        if keyspace.replace(&of_table.keyspace) != Some(&of_table.keyspace) {
            text.push_str(&format!("Keyspace: {}\n", of_table.keyspace));
        }
        text.push_str(&format!("\tTable: {}\n\tPaths:\n", of_table.table));
        of_table.paths.iter().for_each(|path| text.push_str(&format!("\t\t{path}\n")));
        text.push('\n');
    }
    text
}

pub fn range_key_sample(samples: &[KeySample]) -> String {
    let mut tokens: Vec<i64> = samples.iter().flat_map(|sample| &sample.tokens).copied().collect();
    tokens.sort_unstable();
    tokens.dedup();
    let mut text = "RangeKeySample: \n".to_string();
    tokens.iter().for_each(|token| text.push_str(&format!("\t{token}\n")));
    text
}

/// In ScyllaDB's layout: a table's SSTables with a number each.
pub fn sstable_info(tables: &[TableSSTables]) -> String {
    let mut text = String::new();
    for of_table in tables {
        text.push_str(&format!(
            "\nkeyspace : {}\n   table : {}\nsstables :\n",
            of_table.keyspace, of_table.table
        ));
        for (at, sstable) in of_table.sstables.iter().enumerate() {
            let written = model::CqlType::Timestamp.text_of(&sstable.max_timestamp_ms.to_be_bytes());
            let lines = [
                ("data size", sstable.data_size.to_string()),
                ("filter size", sstable.filter_size.to_string()),
                ("index size", sstable.index_size.to_string()),
                ("level", sstable.level.to_string()),
                ("size", sstable.size.to_string()),
                ("generation", sstable.generation.clone()),
                ("version", sstable.version.clone()),
                ("timestamp", written.trim_matches('\'').to_string()),
                ("partitions", sstable.partitions.to_string()),
                ("tombstones", sstable.tombstones.to_string()),
                ("droppable tombstones", format!("{:.0}", sstable.droppable_tombstones)),
            ];
            text.push_str(&format!("{at:>10} :\n"));
            lines.iter().for_each(|(name, value)| text.push_str(&format!("{name:>29} : {value}\n")));
        }
    }
    text
}

pub fn view_build(keyspace: &str, view: &str, hosts: &[ViewBuild]) -> String {
    if hosts.iter().all(|host| host.status == "SUCCESS") {
        return format!("{keyspace}.{view} has finished building\n");
    }
    let mut rows = vec![vec!["Host".to_string(), "Info".to_string()]];
    rows.extend(hosts.iter().map(|host| vec![host.host.clone(), host.status.clone()]));
    format!("{keyspace}.{view} has not finished building; node status is below.\n\n{}", aligned(&rows, " "))
}
