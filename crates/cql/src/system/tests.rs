//! Computed tables, read with the commands that statements use.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use catalog::{Catalog, virtual_tables};
use model::{
    ClusteringPrefix, ClusteringRange, ColumnData, CqlType, PartitionKey, PartitionRange, Row, TableSchema,
};
use reader::{Page, ReadCommand};
use reports::{
    CacheReport, LargeItem, LargeKind, LatencyReport, MemoryClass, PermitReport, SemaphoreReport,
    SnapshotReport,
};
use uuid::Uuid;

use super::{
    ClientInfo, GroupInfo, NodeInfo, PreparedInfo, SSTableTask, SettingInfo, ShardInside, TableEstimate,
    TableInfo, Trace, TraceEvent, is_virtual, read_virtual,
};
use crate::schema::tests::Session;

fn info() -> NodeInfo {
    let mut info = NodeInfo::new(Uuid::from_u128(7), IpAddr::V4(Ipv4Addr::LOCALHOST), 9042);
    info.tokens = vec![-5, 0, 5];
    let port = SettingInfo { value: "9042".to_string(), kind: "port".to_string() };
    info.settings.insert("native_transport_port".to_string(), port);
    info
}

fn catalog() -> Catalog {
    let mut session = Session::new();
    session.run("CREATE TYPE u (f int)");
    session.run("CREATE TABLE t (p int, k int, v u, PRIMARY KEY (p, k)) WITH CLUSTERING ORDER BY (k DESC)");
    session.catalog.with_virtual_tables()
}

fn schema(catalog: &Catalog, name: &str) -> Arc<TableSchema> {
    let (keyspace, name) = name.split_once('.').unwrap();
    catalog.schema(keyspace, name).unwrap().clone()
}

fn read(catalog: &Catalog, info: &NodeInfo, command: &ReadCommand) -> Page {
    read_virtual(command, 1_700_000_000, info, catalog).unwrap().expect("the table is computed")
}

fn read_all(catalog: &Catalog, info: &NodeInfo, table: &str) -> Page {
    read(catalog, info, &ReadCommand::new(schema(catalog, table).id, PartitionRange::all()))
}

/// Returns a column's value as text.
fn value(schema: &TableSchema, row: &Row, column: &str) -> Option<String> {
    let column = schema.column_named(column).unwrap();
    match row.cell(column.id)? {
        ColumnData::Simple(cell) => Some(column.ty.text_of(&cell.value)),
        ColumnData::Complex(cells) => {
            let element = column.ty.cell_path_type().unwrap();
            let texts: Vec<_> = cells.cells.iter().map(|cell| element.text_of(&cell.path)).collect();
            Some(texts.join(","))
        }
    }
}

#[test]
fn a_node_says_who_it_is() {
    let (catalog, info) = (catalog(), info());
    let local = schema(&catalog, "system.local");
    let command = ReadCommand::new(local.id, PartitionRange::Key(PartitionKey::new("local")));
    let page = read(&catalog, &info, &command);
    let row = &page.partitions[0].rows[0].row;
    for (column, expect) in [
        ("bootstrapped", "COMPLETED"),
        ("cluster_name", "Messina Cluster"),
        ("cql_version", "3.4.6"),
        ("data_center", "datacenter1"),
        ("host_id", "00000000-0000-0000-0000-000000000007"),
        ("native_protocol_version", "5"),
        ("partitioner", "org.apache.cassandra.dht.Murmur3Partitioner"),
        ("rack", "rack1"),
        ("release_version", "4.1.8"),
        ("rpc_address", "127.0.0.1"),
        ("rpc_port", "9042"),
        ("schema_version", &catalog.schema_version().to_string()),
    ] {
        let found = value(&local, row, column).unwrap();
        assert_eq!(found.trim_matches('\''), expect, "{column}");
    }
    assert_eq!(value(&local, row, "tokens").unwrap().replace('\'', ""), "-5,0,5");
    assert_eq!(value(&local, row, "truncated_at"), None);
    let elsewhere = ReadCommand::new(local.id, PartitionRange::Key(PartitionKey::new("other")));
    assert!(read(&catalog, &info, &elsewhere).partitions.is_empty());
}

#[test]
fn the_schema_has_stored_and_computed_tables() {
    let catalog = catalog();
    let keyspaces = read_all(&catalog, &info(), "system_schema.keyspaces");
    let names: Vec<_> = keyspaces.partitions.iter().map(|p| p.key.bytes().to_vec()).collect();
    for name in ["ks", "system", "system_schema", "system_auth", "system_distributed", "system_traces"] {
        assert!(names.contains(&name.as_bytes().to_vec()), "{name}");
    }
    assert_eq!(names.len(), 6);
    let virtual_keyspaces = read_all(&catalog, &info(), "system_virtual_schema.keyspaces");
    assert_eq!(virtual_keyspaces.partitions.len(), 2);

    // Every column of every table is in exactly one of the two schemas.
    let rows = |table: &str| read_all(&catalog, &info(), table).row_count();
    let columns = |table: &Arc<catalog::Table>| {
        let schema = &table.schema;
        (schema.partition_key.len() + schema.clustering.len() + schema.columns().len()) as u64
    };
    let expect: u64 = catalog.all_tables().map(columns).sum();
    assert_eq!(rows("system_schema.columns") + rows("system_virtual_schema.columns"), expect);
    let tables = catalog.all_tables().count() as u64;
    assert_eq!(rows("system_schema.tables") + rows("system_virtual_schema.tables"), tables);
    assert_eq!(rows("system_schema.types"), 1);

    let schema = schema(&catalog, "system_schema.columns");
    let mut command = ReadCommand::new(schema.id, PartitionRange::Key(PartitionKey::new("ks")));
    let of_k = ClusteringRange::of_prefix(ClusteringPrefix::new([&b"t"[..], b"k"]));
    command.ranges = Arc::new([of_k]);
    let page = read(&catalog, &info(), &command);
    assert_eq!(page.row_count(), 1);
    let row = &page.partitions[0].rows[0].row;
    let text = |column: &str| value(&schema, row, column).unwrap().trim_matches('\'').to_string();
    assert_eq!((text("clustering_order").as_str(), text("kind").as_str()), ("desc", "clustering"));
}

#[test]
fn pages_together_are_the_whole() {
    let catalog = catalog();
    for table in ["system_schema.columns", "system_schema.keyspaces"] {
        let schema = schema(&catalog, table);
        for reversed in [false, true] {
            for (limit_rows, partition_limit_rows) in
                [(u64::MAX, u64::MAX), (40, u64::MAX), (u64::MAX, 3), (17, 5)]
            {
                let whole = ReadCommand {
                    reversed,
                    limit_rows,
                    partition_limit_rows,
                    ..ReadCommand::new(schema.id, PartitionRange::all())
                };
                let flat = |page: &Page| {
                    let rows = page.partitions.iter().flat_map(|partition| {
                        let keys = partition.rows.iter().map(|row| (partition.key.clone(), row.clone()));
                        keys.collect::<Vec<_>>()
                    });
                    rows.collect::<Vec<_>>()
                };
                let expect = read(&catalog, &info(), &whole);
                assert!(expect.next.is_none());
                for page_rows in [1, 2, 7, 1000] {
                    let mut found = vec![];
                    let mut command = ReadCommand { page_rows, ..whole.clone() };
                    loop {
                        let page = read(&catalog, &info(), &command);
                        assert!(page.row_count() <= page_rows);
                        found.extend(flat(&page));
                        assert!(found.len() <= 5000, "an endless read");
                        match page.next {
                            Some(next) => command.paging = Some(next),
                            None => break,
                        }
                    }
                    assert_eq!(found, flat(&expect), "{table} {reversed} {limit_rows} {page_rows}");
                }
            }
        }
    }
}

#[test]
fn every_table_can_be_read_and_stored_ones_are_not_ours() {
    let catalog = catalog();
    let mut info = info();
    let table = catalog.schema("ks", "t").unwrap();
    info.estimates.insert(table.id, TableEstimate { partitions: 30, mean_partition_bytes: 100 });
    info.clients.push(ClientInfo {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 5000,
        protocol_version: 4,
        requests: 3,
        username: "anonymous".to_string(),
        driver_name: Some("a driver".to_string()),
        driver_version: None,
        shard: 3,
        stage: "ready",
        options: [("CQL_VERSION".to_string(), "3.0.0".to_string())].into(),
        keyspace: Some("ks".to_string()),
        tls: Some(("TLSv1.3".to_string(), "TLS_AES_256_GCM_SHA384".to_string())),
    });
    let mut filled = vec![];
    for schema in virtual_tables() {
        assert!(is_virtual(&schema));
        let command = ReadCommand::new(schema.id, PartitionRange::all());
        let rows = read(&catalog, &info, &command).row_count();
        if rows > 0 {
            filled.push((schema.full_name(), rows));
        }
    }
    let columns = |name: &str| filled.iter().find(|(table, _)| table == name).unwrap().1;
    assert_eq!(columns("system.local"), 1);
    assert_eq!(columns("system.size_estimates"), 4);
    assert_eq!(columns("system.table_estimates"), 8);
    assert_eq!((columns("system_views.clients"), columns("system_views.settings")), (1, 1));
    assert_eq!(filled.len(), 15, "{filled:?}");
    let clients = schema(&catalog, "system.clients");
    let page = read_all(&catalog, &info, "system.clients");
    let shown = |column: &str| value(&clients, &page.partitions[0].rows[0].row, column);
    assert_eq!(
        (shown("shard_id").as_deref(), shown("connection_stage").as_deref()),
        (Some("3"), Some("'ready'"))
    );

    let estimates = schema(&catalog, "system.size_estimates");
    let page = read_all(&catalog, &info, "system.size_estimates");
    let ranges: Vec<Vec<String>> = page.partitions[0]
        .rows
        .iter()
        .map(|row| row.key.values().map(|value| CqlType::Text.text_of(value)).collect())
        .collect();
    let counts = page.partitions[0].rows.iter().map(|row| value(&estimates, &row.row, "partitions_count"));
    let found: Vec<_> = ranges.iter().map(|key| format!("{} {}", key[1], key[2])).zip(counts).collect();
    for (range, count) in [
        ("'-9223372036854775808' '-5'", "15"),
        ("'-5' '0'", "0"),
        ("'0' '5'", "0"),
        ("'5' '-9223372036854775808'", "15"),
    ] {
        assert!(found.contains(&(range.to_string(), Some(count.to_string()))), "{found:?}");
    }

    let stored = ReadCommand::new(table.id, PartitionRange::all());
    assert_eq!(read_virtual(&stored, 0, &info, &catalog), Ok(None));
    let unknown = ReadCommand::new(Uuid::from_u128(99), PartitionRange::all());
    assert!(read_virtual(&unknown, 0, &info, &catalog).is_err());
}

#[test]
fn traces_are_sessions_with_their_events_in_order() {
    let (catalog, mut info) = (catalog(), info());
    let event = |activity: &str, elapsed_us| TraceEvent {
        activity: activity.to_string(),
        elapsed_us,
        thread: "shard 1".to_string(),
    };
    let id = Trace::id_of(1_700_000_000_000_000, u64::MAX);
    assert_eq!((id.get_version_num(), id.get_variant()), (1, uuid::Variant::RFC4122));
    info.traces.push(Arc::new(Trace {
        id,
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        command: "QUERY".to_string(),
        request: "Execute CQL3 query".to_string(),
        parameters: [("page_size", "100"), ("query", "SELECT")].map(|(a, b)| (a.into(), b.into())).into(),
        started_us: 1_700_000_000_123_456,
        duration_us: 70,
        // Two events are in the same microsecond. The third comes after a carry out of the low 32 bits of the
        // time.
        events: vec![event("a", 1), event("b", 1), event("c", 500_000_000)],
    }));
    let sessions = schema(&catalog, "system_traces.sessions");
    let page = read_all(&catalog, &info, "system_traces.sessions");
    let row = &page.partitions[0].rows[0].row;
    assert_eq!(page.partitions[0].key.bytes(), id.as_bytes());
    assert_eq!(value(&sessions, row, "duration").unwrap(), "70");
    assert_eq!(value(&sessions, row, "parameters").unwrap().replace('\'', ""), "page_size,query");
    assert_eq!(value(&sessions, row, "coordinator").unwrap().trim_matches('\''), "127.0.0.1");
    let events = schema(&catalog, "system_traces.events");
    let page = read_all(&catalog, &info, "system_traces.events");
    let activities = page.partitions[0].rows.iter().map(|row| value(&events, &row.row, "activity").unwrap());
    assert_eq!(activities.collect::<String>().replace('\'', ""), "abc");
}

#[test]
fn large_data_is_in_scylladbs_tables_the_largest_first() {
    let item = |bytes: u64, kind: LargeKind| LargeItem {
        keyspace: "ks".to_string(),
        table: "t".to_string(),
        sstable: "me-7-big-Data.db".to_string(),
        written_ms: 1_600_000_000_000,
        partition_key: "ada".to_string(),
        bytes,
        kind,
    };
    let partition = |rows| LargeKind::Partition { rows, dead_rows: 2, range_tombstones: 3 };
    let cell = |clustering: &str, elements| LargeKind::Cell {
        clustering_key: clustering.to_string(),
        column: "v".to_string(),
        elements,
    };
    let info = NodeInfo {
        large_data: vec![
            item(10, partition(1)),
            item(30, partition(100_001)),
            item(20, LargeKind::Row { clustering_key: "7:x".to_string() }),
            item(40, cell("7:x", None)),
            item(50, cell("", Some(10_001))),
        ],
        ..info()
    };
    let catalog = catalog();
    let rows = |table: &str| {
        let schema = schema(&catalog, table);
        let page = read_all(&catalog, &info, table);
        assert_eq!(page.partitions.len(), 1, "a partition for each table");
        let rows = page.partitions[0].rows.iter().map(|row| {
            let keys = schema.clustering.iter().zip(row.key.values());
            let mut texts: Vec<String> = keys.map(|(column, value)| column.ty.text_of(value)).collect();
            let cells = schema.columns().iter().filter(|column| column.name != "compaction_time");
            texts.extend(cells.map(|it| value(&schema, &row.row, &it.name).unwrap_or("null".to_string())));
            texts.join(" ").replace('\'', "")
        });
        rows.collect::<Vec<_>>()
    };
    assert_eq!(
        rows("system.large_partitions"),
        ["me-7-big-Data.db 30 ada 2 3 100001", "me-7-big-Data.db 10 ada 2 3 1"]
    );
    assert_eq!(rows("system.large_rows"), ["me-7-big-Data.db 20 ada 7:x"]);
    assert_eq!(
        rows("system.large_cells"),
        ["me-7-big-Data.db 50 ada  v 10001", "me-7-big-Data.db 40 ada 7:x v null"]
    );
}

#[test]
fn indexes_are_shown_with_their_state() {
    let mut session = crate::schema::tests::Session::new();
    session.run("CREATE TABLE t (k int PRIMARY KEY, v int, w text)");
    session.run("CREATE INDEX first ON t (v)");
    session.run("CREATE INDEX sai ON t (w) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}");
    let catalog = session.catalog.with_virtual_tables();
    let ids = |name: &str| {
        let table = catalog.indexed_table("ks", name).unwrap();
        table.schema.indexes.iter().find(|index| index.name == name).unwrap().id
    };
    let rows = |info: &NodeInfo, table: &str, columns: &[&str]| {
        let (page, schema) = (read_all(&catalog, info, table), schema(&catalog, table));
        let text = |row: &model::ClusteringRow| {
            let name = String::from_utf8(row.key.values().last().unwrap().to_vec()).unwrap();
            let cells = columns.iter().map(|column| value(&schema, &row.row, column).unwrap_or_default());
            std::iter::once(name).chain(cells).collect::<Vec<_>>().join(" ").replace('\'', "")
        };
        page.partitions.iter().flat_map(|partition| partition.rows.iter().map(text)).collect::<Vec<_>>()
    };
    let stored = rows(&info(), "system_schema.indexes", &["kind", "options"]);
    let expect = "sai CUSTOM {case_sensitive: false, class_name: sai, target: w}";
    assert_eq!(stored, ["first COMPOSITES {target: v}", expect]);
    let columns = ["table_name", "column_name", "is_building", "is_queryable", "is_string", "analyzer"];
    for table in ["system_views.sai_column_indexes", "system_views.indexes"] {
        let shown = rows(&info(), table, &columns);
        assert_eq!(shown, ["sai t w false true true NonTokenizingAnalyzer"], "{table}");
    }
    assert_eq!(rows(&info(), "system.IndexInfo", &[]), ["first", "sai"]);
    let info = NodeInfo { unbuilt_indexes: vec![ids("sai")], ..info() };
    assert_eq!(rows(&info, "system.IndexInfo", &[]), ["first"]);
    assert_eq!(rows(&info, "system_views.indexes", &["is_building"]), ["sai true"]);
}

#[test]
fn what_the_node_does_is_in_cassandras_views() {
    let reads = LatencyReport { count: 100, total_us: 200_000, p50_us: 1500, p99_us: 2000, max_us: 3000 };
    let table = TableInfo {
        keyspace: "ks".to_string(),
        table: "t".to_string(),
        disk_bytes: (3 << 20) + 1,
        reads,
        ..TableInfo::default()
    };
    let task = SSTableTask {
        id: Trace::id_of(5, 1),
        keyspace: "ks".to_string(),
        table: "t".to_string(),
        kind: "Compaction".to_string(),
        read_bytes: 25,
        total_bytes: 100,
    };
    let rows = CacheReport { name: "rows".to_string(), hits: 3, misses: 1, ..CacheReport::default() };
    let group = GroupInfo { name: "statement".to_string(), shards: 2, ready_tasks: 1 };
    let snapshot = SnapshotReport {
        tag: "tag".to_string(),
        keyspace: "ks".to_string(),
        table: "t".to_string(),
        disk_bytes: 5,
        ..SnapshotReport::default()
    };
    let prepared = PreparedInfo { id: [7; 16], keyspace: Some("ks".into()), text: "SELECT".into() };
    let info = NodeInfo {
        uptime_s: 10,
        tables: vec![table],
        sstable_tasks: vec![task],
        caches: vec![rows],
        groups: vec![group],
        snapshots: vec![snapshot],
        prepared: vec![prepared],
        ..info()
    };
    let catalog = catalog();
    let only = |table: &str, column: &str| {
        let page = read_all(&catalog, &info, table);
        assert_eq!((page.partitions.len(), page.partitions[0].rows.len()), (1, 1), "{table}");
        let found = value(&schema(&catalog, table), &page.partitions[0].rows[0].row, column);
        found.map(|text| text.trim_matches('\'').to_string())
    };
    for (table, column, expect) in [
        ("system_views.disk_usage", "mebibytes", "4"),
        ("system_views.max_partition_size", "mebibytes", "0"),
        ("system_views.local_read_latency", "p99th_ms", "2.0"),
        ("system_views.local_read_latency", "per_second", "10.0"),
        ("system_views.local_write_latency", "count", "0"),
        ("system_views.sstable_tasks", "completion_ratio", "0.25"),
        ("system_views.sstable_tasks", "kind", "Compaction"),
        ("system_views.caches", "hit_ratio", "0.75"),
        ("system_views.thread_pools", "active_tasks_limit", "2"),
        ("system_views.thread_pools", "pending_tasks", "1"),
        ("system_views.snapshots", "size_on_disk", "5"),
        ("system_views.cql_metrics", "value", "1.0"),
        ("system.prepared_statements", "query_string", "SELECT"),
        ("system.prepared_statements", "logged_keyspace", "ks"),
    ] {
        assert_eq!(only(table, column).as_deref(), Some(expect), "{table}.{column}");
    }
    // Tables for features that the node does not have exist and are empty.
    for table in ["system_views.repairs", "system_views.streaming", "system_schema.column_masks"] {
        assert!(read_all(&catalog, &info, table).partitions.is_empty(), "{table}");
    }
}

#[test]
fn reads_and_memory_are_shown_for_each_shard() {
    let permit = PermitReport {
        keyspace: "ks".to_string(),
        table: "t".to_string(),
        operation: "data-query".to_string(),
        state: "active/await".to_string(),
        permits: 3,
        admitted: 2,
        memory_bytes: 50_000,
    };
    let semaphore = SemaphoreReport {
        name: "sl:default".to_string(),
        admitted: 2,
        admitted_limit: 100,
        memory_bytes: 50_000,
        memory_limit_bytes: 60_000,
        queued: 1,
        stats: vec![("reads_admitted".to_string(), 9)],
        permits: vec![permit],
    };
    let shard = ShardInside {
        semaphores: vec![semaphore],
        memory: vec![MemoryClass::new("memtables", 5, Some(6)), MemoryClass::new("sstables", 7, None)],
    };
    let info = NodeInfo { shards: vec![ShardInside::default(), shard], ..info() };
    let catalog = catalog();
    let page = read_all(&catalog, &info, "system.reader_permits");
    let permits = schema(&catalog, "system.reader_permits");
    let row = &page.partitions[0].rows[0];
    let key: Vec<&[u8]> = row.key.values().collect();
    assert_eq!(page.partitions[0].key.bytes(), 1i32.to_be_bytes());
    assert_eq!(key, [&b"sl:default"[..], b"ks", b"t", b"data-query", b"active/await"]);
    assert_eq!(value(&permits, &row.row, "memory").unwrap(), "50000");
    let page = read_all(&catalog, &info, "system.reader_semaphores");
    let semaphores = schema(&catalog, "system.reader_semaphores");
    let row = &page.partitions[0].rows[0].row;
    for (column, expect) in [("admitted", "2"), ("memory_limit", "60000"), ("queued", "1")] {
        assert_eq!(value(&semaphores, row, column).unwrap(), expect, "{column}");
    }
    let page = read_all(&catalog, &info, "system.memory");
    let memory = schema(&catalog, "system.memory");
    let limits = page.partitions[0].rows.iter().map(|row| value(&memory, &row.row, "bytes_limit"));
    assert_eq!(limits.collect::<Vec<_>>(), [Some("6".to_string()), None]);
}

#[test]
fn tables_of_scylladb_tell_of_the_node() {
    let shard = |bytes| ShardInside {
        memory: vec![MemoryClass::new("memtables", bytes, None)],
        ..ShardInside::default()
    };
    let rows = CacheReport { name: "rows".to_string(), hits: 3, misses: 1, ..CacheReport::default() };
    let table = TableInfo { disk_bytes: 77, ..TableInfo::default() };
    let info = NodeInfo {
        tokens: vec![-5, 7],
        shards: vec![shard(5), shard(6)],
        caches: vec![rows],
        tables: vec![table],
        ..info()
    };
    let catalog = catalog();
    let all = |table: &str, columns: &[&str]| {
        let schema = schema(&catalog, table);
        let mut lines = vec![];
        for partition in read_all(&catalog, &info, table).partitions {
            for row in &partition.rows {
                let key = String::from_utf8_lossy(partition.key.bytes()).to_string();
                let item = row.key.values().next().map(|item| String::from_utf8_lossy(item).to_string());
                let values =
                    columns.iter().map(|column| value(&schema, &row.row, column).unwrap_or_default());
                lines.push([key].into_iter().chain(item).chain(values).collect::<Vec<_>>().join(" "));
            }
        }
        lines.sort();
        lines
    };
    let version = format!("local '{}' ", env!("CARGO_PKG_VERSION"));
    assert_eq!(all("system.versions", &["version", "build_id"]), [version]);
    let ring = all("system.token_ring", &["end_token", "dc", "rack"]);
    let place = format!("'{}' '{}'", info.data_center, info.rack);
    for expect in [format!("system 7 '-5' {place}"), format!("system -5 '7' {place}")] {
        assert!(ring.contains(&expect), "{ring:?}");
    }
    assert!(!ring.iter().any(|line| line.starts_with("system_views")), "{ring:?}");
    assert_eq!(all("system.config", &["type", "value", "source"]), ["native_transport_port 'port' '9042' "]);
    let runtime = all("system.runtime_info", &["value"]);
    for expect in ["generic load '77'", "memory memtables '11'", "memory used '11'", "cache.rows hits '3'"] {
        assert!(runtime.contains(&expect.to_string()), "{expect}: {runtime:?}");
    }
}
