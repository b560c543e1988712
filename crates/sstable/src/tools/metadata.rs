//! Prints Statistics.db: in the format of Cassandra 4.1's `sstablemetadata`, and as JSON.
//!
//! Source: Cassandra 4.1 `tools/SSTableMetadataViewer.java`. Facts that only Messina stores follow at the
//! end.

use model::PartitionKey;
use model::key::split_composite_key;
use model::types::CqlType;

use super::histogram::push_histogram;
use super::java::{bytes, date, double, duration, noted};
use crate::component::deletion_time::NO_DELETION_TIME_S;
use crate::component::statistics::{CommitLogPosition, HeaderColumn, StatsMetadata};
use crate::dump::layout::Layout;
use crate::read::SSTable;

fn type_of(class: &str) -> CqlType {
    CqlType::from_java_name(class).unwrap_or(CqlType::Blob)
}

/// The key as text: its parts separated by colons. Colons in a part are escaped by a backslash.
fn key_text(ty: &CqlType, key: &PartitionKey) -> String {
    let CqlType::Composite(components) = ty else { return ty.raw_text_of(key.bytes()) };
    let Ok(values) = split_composite_key(key.bytes()) else {
        return CqlType::Blob.raw_text_of(key.bytes());
    };
    let texts = components.iter().zip(values).map(|(ty, value)| {
        let text = ty.raw_text_of(value).replace(':', "\\:");
        if text.ends_with(['\\', '!']) { text + "!" } else { text }
    });
    texts.collect::<Vec<_>>().join(":")
}

/// A key of this SSTable as text: its parts separated by colons.
pub fn partition_key_text(sstable: &SSTable, key: &PartitionKey) -> String {
    key_text(&type_of(&sstable.statistics().header.key_type), key)
}

fn clustering_text(types: &[String], values: &[Vec<u8>]) -> String {
    let texts = types.iter().zip(values).map(|(class, value)| type_of(class).raw_text_of(value));
    format!("[{}]", texts.collect::<Vec<_>>().join(", "))
}

/// The fraction of cells that could be dropped at `now_s` if only `now_s` decided.
fn droppable_ratio(stats: &StatsMetadata, now_s: u32) -> f64 {
    let cells = stats.partition_cells.mean().unwrap_or(0).saturating_mul(stats.partition_cells.count());
    match cells {
        0 => 0.0,
        cells => stats.tombstone_drop_times.count_until(now_s) / cells as f64,
    }
}

fn uuid_text(id: Option<[u8; 16]>) -> Option<String> {
    id.map(|id| CqlType::Uuid.raw_text_of(&id))
}

fn deletion_text(time_s: i32) -> String {
    let note = match time_s {
        NO_DELETION_TIME_S => Some("no tombstones".to_owned()),
        time_s => date(i64::from(time_s)),
    };
    noted(time_s, note)
}

fn position_text(position: &CommitLogPosition) -> String {
    format!("CommitLogPosition(segmentId={}, position={})", position.segment_id, position.position)
}

fn columns_text(columns: &[HeaderColumn]) -> String {
    let texts = columns
        .iter()
        .map(|column| format!("{}:{}", String::from_utf8_lossy(&column.name), column.type_name));
    texts.collect::<Vec<_>>().join(", ")
}

/// The class name of the compressor with the package that is omitted in the file.
fn compressor_text(sstable: &SSTable) -> String {
    match sstable.compression_info() {
        None => "-".to_owned(),
        Some(info) if info.compressor.contains('.') => info.compressor.clone(),
        Some(info) => format!("org.apache.cassandra.io.compress.{}", info.compressor),
    }
}

/// Cassandra's tool prints the blank even if no date follows.
fn noted_or_blank(time_s: u64) -> String {
    match date(time_s as i64) {
        Some(date) => format!("{time_s} ({date})"),
        None => format!("{time_s} "),
    }
}

fn counts_of(histogram: &base::histogram::EstimatedHistogram) -> Vec<(u64, u64)> {
    let offsets = histogram.offsets().iter().copied();
    let counted = offsets.zip(histogram.counts().iter().copied());
    counted.filter(|(_, count)| *count > 0).collect()
}

/// The metadata as text. `now_s` is the time for which droppable tombstones are counted.
pub fn metadata_text(sstable: &SSTable, now_s: u32) -> String {
    let mut out = String::new();
    let mut field = |name: &str, value: &str| out += &format!("{name}: {value}\n");
    let statistics = sstable.statistics();
    let (stats, header) = (&statistics.stats, &statistics.header);
    let key_type = type_of(&header.key_type);
    let timestamp = |us: i64| noted(us, date(us / 1_000_000));
    let ttl = |ttl_s: i32| noted(ttl_s, duration(i64::from(ttl_s)));
    field("SSTable", &sstable.dir().join(sstable.name().to_string()).display().to_string());
    field("Partitioner", &statistics.validation.partitioner);
    field("Bloom Filter FP chance", &double(statistics.validation.bloom_filter_fp_chance));
    field("Minimum timestamp", &timestamp(stats.min_timestamp_us));
    field("Maximum timestamp", &timestamp(stats.max_timestamp_us));
    field("SSTable min local deletion time", &deletion_text(stats.min_local_deletion_time_s));
    field("SSTable max local deletion time", &deletion_text(stats.max_local_deletion_time_s));
    field("Compressor", &compressor_text(sstable));
    if sstable.compression_info().is_some() {
        field("Compression ratio", &double(stats.compression_ratio));
    }
    field("TTL min", &ttl(stats.min_ttl_s));
    field("TTL max", &ttl(stats.max_ttl_s));
    let token = |key: &PartitionKey| format!("{} ({})", key.token(), key_text(&key_type, key));
    field("First token", &token(sstable.first_key()));
    field("Last token", &token(sstable.last_key()));
    field("minClusteringValues", &clustering_text(&header.clustering_types, &stats.min_clustering));
    field("maxClusteringValues", &clustering_text(&header.clustering_types, &stats.max_clustering));
    field("Estimated droppable tombstones", &double(droppable_ratio(stats, now_s)));
    field("SSTable Level", &stats.sstable_level.to_string());
    field("Repaired at", &noted(stats.repaired_at_ms, date(stats.repaired_at_ms / 1000)));
    field("Originating host id", &uuid_text(stats.originating_host_id).unwrap_or("--".to_owned()));
    field("Pending repair", &uuid_text(stats.pending_repair).unwrap_or("--".to_owned()));
    let intervals = stats.commit_log_intervals.iter();
    let intervals = intervals.map(|(from, to)| format!("{}={}", position_text(from), position_text(to)));
    field("Replay positions covered", &format!("{{{}}}", intervals.collect::<Vec<_>>().join(", ")));
    field("totalColumnsSet", &stats.total_columns_set.to_string());
    field("totalRows", &stats.total_rows.to_string());
    out.push_str("Estimated tombstone drop times: \n");
    let bins: Vec<(u64, u64)> =
        stats.tombstone_drop_times.bins().iter().map(|bin| (u64::from(bin.time_s), bin.count)).collect();
    push_histogram(&mut out, "Drop Time", &bins, noted_or_blank);
    out.push_str("Partition Size: \n");
    push_histogram(&mut out, "Size (bytes)", &counts_of(&stats.partition_bytes), |size| {
        noted(size, Some(bytes(size as i64)))
    });
    out.push_str("Column Count: \n");
    push_histogram(&mut out, "Columns", &counts_of(&stats.partition_cells), |count| count.to_string());
    let mut field = |name: &str, value: &str| out += &format!("{name}: {value}\n");
    if let Ok(keys) = statistics.compaction.cardinality() {
        field("Estimated cardinality", &keys.cardinality().to_string());
    }
    let bases = &header.bases;
    field("EncodingStats minTTL", &ttl(bases.min_ttl_s));
    let deletion_s = i64::from(bases.min_local_deletion_time_s);
    field("EncodingStats minLocalDeletionTime", &noted(deletion_s, date(deletion_s)));
    field("EncodingStats minTimestamp", &timestamp(bases.min_timestamp_us));
    field("KeyType", &header.key_type);
    field("ClusteringTypes", &format!("[{}]", header.clustering_types.join(", ")));
    field("StaticColumns", &columns_text(&header.static_columns));
    field("RegularColumns", &columns_text(&header.regular_columns));
    field("IsTransient", if stats.is_transient { "true" } else { "false" });
    if let Some(messina) = sstable.messina() {
        let number = |number: Option<u64>| number.map_or("--".to_owned(), |number| number.to_string());
        field("Origin", messina.origin.as_deref().unwrap_or("--"));
        field("Partitions", &number(messina.partition_count));
        field("Rows", &number(messina.row_count));
        field("Shard", &number(messina.shard_id.map(u64::from)));
        field("Shards", &number(messina.shard_count.map(u64::from)));
        field("Run", &uuid_text(messina.run_id).unwrap_or("--".to_owned()));
        let yes_or_no = |has: Option<bool>| has.map_or("--", |has| if has { "true" } else { "false" });
        let contents = messina.contents;
        field("Partition deletions", yes_or_no(contents.map(|it| it.has_partition_deletions)));
        field("Static rows", yes_or_no(contents.map(|it| it.has_static_rows)));
    }
    out
}

fn histogram_json(layout: &mut Layout, name: &str, value_name: &str, counts: &[(u64, u64)]) {
    layout.name(name);
    layout.begin_array();
    for (value, count) in counts {
        layout.compact_objects = true;
        layout.begin_object();
        layout.raw_field(value_name, value);
        layout.raw_field("count", count);
        layout.end_object();
        layout.compact_objects = false;
    }
    layout.end_array();
}

fn strings_json<'a>(layout: &mut Layout, name: &str, texts: impl Iterator<Item = &'a str>) {
    layout.name(name);
    layout.compact_arrays = true;
    layout.begin_array();
    texts.for_each(|text| layout.string(text));
    layout.end_array();
    layout.compact_arrays = false;
}

fn columns_json(layout: &mut Layout, name: &str, columns: &[HeaderColumn]) {
    layout.name(name);
    layout.begin_array();
    for column in columns {
        layout.compact_objects = true;
        layout.begin_object();
        layout.text_field("name", &String::from_utf8_lossy(&column.name));
        layout.text_field("type", &column.type_name);
        layout.end_object();
        layout.compact_objects = false;
    }
    layout.end_array();
}

fn optional_json(layout: &mut Layout, name: &str, text: Option<&str>) {
    match text {
        Some(text) => layout.text_field(name, text),
        None => layout.raw_field(name, "null"),
    }
}

/// All metadata as one JSON object. Names of times include their unit; ids and keys are strings.
pub fn metadata_json(sstable: &SSTable, now_s: u32) -> String {
    let statistics = sstable.statistics();
    let (stats, header) = (&statistics.stats, &statistics.header);
    let key_type = type_of(&header.key_type);
    let mut layout = Layout::new();
    let out = &mut layout;
    out.begin_object();
    out.text_field("sstable", &sstable.dir().join(sstable.name().to_string()).display().to_string());
    out.text_field("version", sstable.name().version.letters());
    out.text_field("generation", &sstable.name().generation.to_string());
    out.text_field("partitioner", &statistics.validation.partitioner);
    out.raw_field("bloom_filter_fp_chance", statistics.validation.bloom_filter_fp_chance);
    out.raw_field("data_bytes", sstable.data_bytes());
    out.raw_field("uncompressed_bytes", sstable.uncompressed_bytes());
    out.raw_field("index_bytes", sstable.index_bytes());
    out.raw_field("min_timestamp_us", stats.min_timestamp_us);
    out.raw_field("max_timestamp_us", stats.max_timestamp_us);
    for (name, time_s) in [
        ("min_local_deletion_time_s", stats.min_local_deletion_time_s),
        ("max_local_deletion_time_s", stats.max_local_deletion_time_s),
    ] {
        match time_s {
            NO_DELETION_TIME_S => out.raw_field(name, "null"),
            time_s => out.raw_field(name, time_s as u32),
        }
    }
    out.raw_field("min_ttl_s", stats.min_ttl_s);
    out.raw_field("max_ttl_s", stats.max_ttl_s);
    optional_json(out, "compressor", sstable.compression_info().map(|info| info.compressor.as_str()));
    out.raw_field("compression_ratio", stats.compression_ratio);
    out.raw_field("first_token", sstable.first_key().token());
    out.text_field("first_key", &key_text(&key_type, sstable.first_key()));
    out.raw_field("last_token", sstable.last_key().token());
    out.text_field("last_key", &key_text(&key_type, sstable.last_key()));
    for (name, values) in
        [("min_clustering", &stats.min_clustering), ("max_clustering", &stats.max_clustering)]
    {
        let texts = header.clustering_types.iter().zip(values);
        let texts: Vec<String> = texts.map(|(class, value)| type_of(class).raw_text_of(value)).collect();
        strings_json(out, name, texts.iter().map(String::as_str));
    }
    out.raw_field("droppable_tombstones", droppable_ratio(stats, now_s));
    out.raw_field("level", stats.sstable_level);
    out.raw_field("repaired_at_ms", stats.repaired_at_ms);
    optional_json(out, "originating_host_id", uuid_text(stats.originating_host_id).as_deref());
    optional_json(out, "pending_repair", uuid_text(stats.pending_repair).as_deref());
    out.raw_field("is_transient", stats.is_transient);
    out.raw_field("has_legacy_counter_shards", stats.has_legacy_counter_shards);
    out.raw_field("columns_set", stats.total_columns_set);
    out.raw_field("rows", stats.total_rows);
    out.raw_field("partitions_estimate", sstable.partition_count());
    match statistics.compaction.cardinality() {
        Ok(keys) => out.raw_field("cardinality_estimate", keys.cardinality()),
        Err(_) => out.raw_field("cardinality_estimate", "null"),
    }
    let bins: Vec<(u64, u64)> =
        stats.tombstone_drop_times.bins().iter().map(|bin| (u64::from(bin.time_s), bin.count)).collect();
    histogram_json(out, "tombstone_drop_times", "time_s", &bins);
    histogram_json(out, "partition_bytes", "at_most", &counts_of(&stats.partition_bytes));
    histogram_json(out, "partition_cells", "at_most", &counts_of(&stats.partition_cells));
    out.name("encoding");
    out.begin_object();
    out.raw_field("min_timestamp_us", header.bases.min_timestamp_us);
    out.raw_field("min_local_deletion_time_s", header.bases.min_local_deletion_time_s);
    out.raw_field("min_ttl_s", header.bases.min_ttl_s);
    out.end_object();
    out.text_field("key_type", &header.key_type);
    strings_json(out, "clustering_types", header.clustering_types.iter().map(String::as_str));
    columns_json(out, "static_columns", &header.static_columns);
    columns_json(out, "regular_columns", &header.regular_columns);
    strings_json(out, "components", sstable.components().iter().map(|component| component.suffix()));
    if let Some(messina) = sstable.messina() {
        out.name("messina");
        out.begin_object();
        optional_json(out, "origin", messina.origin.as_deref());
        let numbers = [
            ("partitions", messina.partition_count),
            ("rows", messina.row_count),
            ("shard", messina.shard_id.map(u64::from)),
            ("shards", messina.shard_count.map(u64::from)),
        ];
        for (name, number) in numbers {
            out.raw_field(name, number.map_or("null".to_owned(), |number| number.to_string()));
        }
        optional_json(out, "run", uuid_text(messina.run_id).as_deref());
        let flags = [
            ("has_partition_deletions", messina.contents.map(|it| it.has_partition_deletions)),
            ("has_static_rows", messina.contents.map(|it| it.has_static_rows)),
        ];
        for (name, flag) in flags {
            out.raw_field(name, flag.map_or("null".to_owned(), |flag| flag.to_string()));
        }
        out.end_object();
    }
    out.end_object();
    out.end_line();
    layout.take()
}
