//! Output of `nodetool` about statements and clients, in Cassandra's layouts.

use std::collections::BTreeMap;

use server::api::request_answers::{
    ClientConnection, Percentiles, Pools, RequestHistograms, SlowStatements, TableHistograms, TopPartition,
    TopPartitions,
};

use super::compaction_text::at;
use super::text::aligned;

/// The rows of Cassandra's histograms.
const ROWS: [&str; 7] = ["50%", "75%", "95%", "98%", "99%", "Min", "Max"];

/// A value of a histogram. Those beyond its largest bucket are unknown.
fn cell(value: u64, decimals: usize) -> String {
    match value {
        u64::MAX => "NaN".to_string(),
        value => format!("{:.decimals$}", value as f64),
    }
}

pub fn table_histograms(tables: &[TableHistograms]) -> String {
    let mut text = String::new();
    let line = |cells: [&str; 8]| {
        let [first, rest @ ..] = cells;
        let rest: String = rest.iter().map(|cell| format!("{cell:>18}")).collect();
        format!("{first:<10}{rest}\n")
    };
    for table in tables {
        if table.sstable_count == 0 {
            text.push_str(
                "No SSTables exists, unable to calculate 'Partition Size' and 'Cell Count' percentiles\n",
            );
        }
        text.push_str(&format!("{}/{} histograms\n", table.keyspace, table.table));
        text.push_str(&line([
            "Percentile",
            "Read Latency",
            "Write Latency",
            "SSTables",
            "Partition Size",
            "Cell Count",
            "Live Rows",
            "Tombstones",
        ]));
        text.push_str(&line(["", "(micros)", "(micros)", "", "(bytes)", "", "(page)", "(page)"]));
        let of_partitions = |percentiles: &Percentiles, at: usize| match table.sstable_count {
            0 => "NaN".to_string(),
            _ => cell(percentiles.rows()[at], 0),
        };
        for (at, name) in ROWS.iter().enumerate() {
            text.push_str(&line([
                name,
                &cell(table.read_latency_us.rows()[at], 2),
                &cell(table.write_latency_us.rows()[at], 2),
                &cell(table.sstables_per_read.rows()[at], 2),
                &of_partitions(&table.partition_bytes, at),
                &of_partitions(&table.partition_cells, at),
                &cell(table.live_rows.rows()[at], 0),
                &cell(table.tombstones.rows()[at], 0),
            ]));
        }
        text.push('\n');
    }
    text
}

/// Updates of views are part of the writes, so their latency alone is unknown.
pub fn proxy_histograms(all: &RequestHistograms) -> String {
    let line = |cells: [&str; 7]| {
        let [first, rest @ ..] = cells;
        let rest: String = rest.iter().map(|cell| format!("{cell:>19}")).collect();
        format!("{first:<10}{rest}\n")
    };
    let mut text = "proxy histograms\n".to_string();
    text.push_str(&line([
        "Percentile",
        "Read Latency",
        "Write Latency",
        "Range Latency",
        "CAS Read Latency",
        "CAS Write Latency",
        "View Write Latency",
    ]));
    let unit = "(micros)";
    text.push_str(&line(["", unit, unit, unit, unit, unit, unit]));
    for (at, name) in ROWS.iter().enumerate() {
        let of = |percentiles: &Percentiles| cell(percentiles.rows()[at], 2);
        text.push_str(&line([
            name,
            &of(&all.read),
            &of(&all.write),
            &of(&all.range),
            &of(&all.cas_read),
            &of(&all.cas_write),
            "NaN",
        ]));
    }
    text + "\n"
}

pub fn tp_stats(pools: &Pools) -> String {
    let title = ["Pool Name", "Active", "Pending", "Completed", "Blocked", "All time blocked"];
    let mut rows = vec![title.map(str::to_string).to_vec()];
    for pool in &pools.pools {
        let numbers = [pool.active, pool.pending, pool.completed, pool.blocked, pool.all_time_blocked];
        rows.push([pool.name.clone()].into_iter().chain(numbers.map(|number| number.to_string())).collect());
    }
    let mut text = aligned(&rows, " ");
    text.push_str("\nLatencies waiting in queue (micros) per dropped message types\n");
    let title = ["Message type", "Dropped    ", "50%     ", "95%     ", "99%     ", "Max"];
    let mut rows = vec![title.map(str::to_string).to_vec()];
    for dropped in &pools.dropped {
        let unknown = ["N/A"; 4].map(str::to_string);
        rows.push([dropped.kind.clone(), dropped.count.to_string()].into_iter().chain(unknown).collect());
    }
    text + &aligned(&rows, " ")
}

pub fn concurrency(pools: &Pools, only: &[String]) -> String {
    let line = |cells: [&str; 3]| format!("{:<25}{:>16}{:>16}\n", cells[0], cells[1], cells[2]);
    let mut text = line(["Stage", "CorePoolSize", "MaximumPoolSize"]);
    let wanted = pools.pools.iter().filter(|pool| only.is_empty() || only.contains(&pool.name));
    for pool in wanted {
        let Some(limit) = pool.limit else { continue };
        text.push_str(&line([&pool.name, &limit.to_string(), &limit.to_string()]));
    }
    text
}

pub fn clients_by_protocol(clients: &[ClientConnection]) -> String {
    let mut addresses: BTreeMap<u8, BTreeMap<&str, u64>> = BTreeMap::new();
    for client in clients {
        *addresses.entry(client.protocol_version).or_default().entry(&client.address).or_default() += 1;
    }
    let mut rows = vec![["Protocol-Version", "IP-Address", "Connections"].map(str::to_string).to_vec()];
    for (version, of_version) in addresses {
        for (address, count) in of_version {
            rows.push(vec![format!("{version}/v{version}"), address.to_string(), count.to_string()]);
        }
    }
    match rows.len() {
        1 => "Clients by protocol version\n\n".to_string(),
        _ => format!("Clients by protocol version\n\n{}\n", aligned(&rows, " ")),
    }
}

pub fn client_stats(clients: &[ClientConnection], all: bool, options: bool) -> String {
    let mut text = String::new();
    if (all || options) && !clients.is_empty() {
        let mut title: Vec<String> = [
            "Address",
            "SSL",
            "Cipher",
            "Protocol",
            "Version",
            "User",
            "Keyspace",
            "Requests",
            "Driver-Name",
            "Driver-Version",
        ]
        .map(str::to_string)
        .to_vec();
        if options {
            title.push("Client-Options".to_string());
        }
        let mut rows = vec![title];
        for client in clients {
            let or_undefined = |value: &Option<String>| value.clone().unwrap_or("undefined".to_string());
            let (protocol, cipher) = client.tls.clone().unwrap_or(("undefined".into(), "undefined".into()));
            let mut row = vec![
                format!("/{}:{}", client.address, client.port),
                client.tls.is_some().to_string(),
                cipher,
                protocol,
                client.protocol_version.to_string(),
                client.user.clone(),
                client.keyspace.clone().unwrap_or_default(),
                client.requests.to_string(),
                or_undefined(&client.driver_name),
                or_undefined(&client.driver_version),
            ];
            if options {
                let options = client.options.iter().map(|(name, value)| format!("{name}={value}"));
                row.push(format!("{{{}}}", options.collect::<Vec<_>>().join(", ")));
            }
            rows.push(row);
        }
        text.push_str(&aligned(&rows, " "));
        text.push('\n');
    }
    let mut by_user: BTreeMap<&str, u64> = BTreeMap::new();
    clients.iter().for_each(|client| *by_user.entry(&client.user).or_default() += 1);
    text.push_str(&format!("Total connected clients: {}\n\n", clients.len()));
    let mut rows = vec![vec!["User".to_string(), "Connections".to_string()]];
    rows.extend(by_user.iter().map(|(user, count)| vec![user.to_string(), count.to_string()]));
    text + &aligned(&rows, " ")
}

pub fn top_partitions(top: &TopPartitions, reads: bool, writes: bool) -> String {
    let list = |title: &str, partitions: &[TopPartition]| {
        if partitions.is_empty() {
            return format!("{title}:\n   Nothing recorded during sampling period...\n");
        }
        let mut rows = vec![["  ", "Table", "Partition", "Count", "+/-"].map(str::to_string).to_vec()];
        rows.extend(partitions.iter().map(|hot| {
            vec![
                "  ".to_string(),
                format!("{}.{}", hot.keyspace, hot.table),
                hot.partition.clone(),
                hot.count.to_string(),
                hot.error.to_string(),
            ]
        }));
        format!("{title}:\n{}", aligned(&rows, " "))
    };
    let mut parts = vec![];
    if reads {
        parts.push(list("Frequency of reads by partition", &top.reads));
    }
    if writes {
        parts.push(list("Frequency of writes by partition", &top.writes));
    }
    parts.join("\n")
}

pub fn slow_statements(slow: &SlowStatements) -> String {
    if slow.limit_us == 0 {
        return "slow_query_log_timeout is 0: slow statements are not recorded\n".to_string();
    }
    let ms = |us: u64| format!("{:.3}", us as f64 / 1000.0);
    let mut text =
        format!("{} statements took longer than {} ms since the start\n", slow.count, slow.limit_us / 1000);
    if slow.statements.is_empty() {
        return text;
    }
    let title = ["Last end", "Shard", "Count", "Last (ms)", "Mean (ms)", "Max (ms)", "Statement"];
    let mut rows = vec![title.map(str::to_string).to_vec()];
    rows.extend(slow.statements.iter().map(|it| {
        let line = it.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let times = [ms(it.last_us), ms(it.mean_us), ms(it.max_us)];
        let [last, mean, max] = times;
        vec![at(it.last_ms), it.shard.to_string(), it.count.to_string(), last, mean, max, line]
    }));
    text.push_str(&aligned(&rows, " "));
    text
}
