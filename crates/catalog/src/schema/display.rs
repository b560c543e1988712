//! Formats tables, types and keyspaces as CQL statements, in the layout of Cassandra 4.1's `DESCRIBE`.

use std::fmt::Write;

use model::types::{UserType, push_identifier};
use model::{ColumnKind, CqlType, KeyColumn, TableSchema};

use crate::options::compression::compression_to_map;
use crate::options::other_options::{map_literal, quoted};
use crate::options::settings::TableSettings;
use crate::schema::keyspace::Keyspace;

fn identifier(name: &str) -> String {
    let mut out = String::new();
    push_identifier(&mut out, name);
    out
}

fn double(value: f64) -> String {
    CqlType::Double.text_of(&value.to_be_bytes())
}

/// `CREATE KEYSPACE … ;`
pub fn describe_keyspace(keyspace: &Keyspace) -> String {
    let mut replication = format!("{{'class': {}", quoted(keyspace.strategy()));
    for (key, value) in keyspace.replication.iter().filter(|(key, _)| *key != "class") {
        write!(replication, ", {}: {}", quoted(key), quoted(value)).expect("a String takes all");
    }
    // Two spaces, as in Cassandra.
    let mut out = format!(
        "CREATE KEYSPACE {} WITH replication = {replication}}}  AND durable_writes = {}",
        identifier(&keyspace.name),
        keyspace.durable_writes
    );
    for (name, value) in &keyspace.others {
        write!(out, " AND {name} = {value}").expect("a String takes all");
    }
    out.push(';');
    out
}

/// `CREATE TYPE … ;`
pub fn describe_type(user: &UserType) -> String {
    let field = |name: &str, ty: &CqlType| format!("    {} {}", identifier(name), ty.to_cql());
    let fields: Vec<_> = user.fields.iter().map(|f| field(&f.name, &f.field_type)).collect();
    format!(
        "CREATE TYPE {}.{} (\n{}\n);",
        identifier(&user.keyspace),
        identifier(&user.name),
        fields.join(",\n")
    )
}

/// Whether a description contains details that are needed only for a copy of the same data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Internals {
    /// The table without these details.
    Hidden,
    /// Its id, and the statements that restore the dropped columns: each column is created, dropped with its
    /// original time, and added again if the table has it again.
    Shown,
}

/// [`describe_table_with`] the default settings and internals.
pub fn describe_table(schema: &TableSchema) -> String {
    describe_table_with(schema, &TableSettings::default(), Internals::Shown)
}

/// `CREATE TABLE … ;`
pub fn describe_table_with(schema: &TableSchema, settings: &TableSettings, internals: Internals) -> String {
    let records = match internals {
        Internals::Hidden => &[][..],
        Internals::Shown => &schema.dropped,
    };
    let table = format!("{}.{}", identifier(&schema.keyspace), identifier(&schema.name));
    let (partition_key, clustering) = (&schema.partition_key, schema.defined_clustering());
    let inline_key = partition_key.len() == 1 && clustering.is_empty();
    let is_dropped = |name: &str| records.iter().any(|dropped| dropped.name == name);
    let column = |name: &str, ty: &CqlType, kind: ColumnKind| {
        let is_static = kind == ColumnKind::Static && !schema.is_static_compact();
        let suffix = if is_static { " static" } else { "" };
        let mask =
            settings.masks.get(name).map_or(String::new(), |mask| format!(" MASKED WITH {}", mask.cql()));
        format!("{} {}{suffix}{mask}", identifier(name), ty.to_cql())
    };

    let mut lines = Vec::new();
    for key in partition_key.iter().chain(clustering) {
        let suffix = if inline_key { " PRIMARY KEY" } else { "" };
        lines.push(format!("{}{suffix}", column(&key.name, &key.ty, ColumnKind::Regular)));
    }
    for kind in [ColumnKind::Static, ColumnKind::Regular] {
        let columns = schema.columns_of(kind);
        let columns = columns.filter(|column| !is_dropped(&column.name) && !schema.is_hidden(column));
        lines.extend(columns.map(|c| column(&c.name, &c.ty, c.kind)));
    }
    lines.extend(records.iter().map(|dropped| column(&dropped.name, &dropped.ty, dropped.kind)));
    if !inline_key {
        let names: Vec<_> = partition_key.iter().map(|key| identifier(&key.name)).collect();
        let mut key = names.join(", ");
        if names.len() > 1 {
            key = format!("({key})");
        }
        for column in clustering {
            key.push_str(", ");
            push_identifier(&mut key, &column.name);
        }
        lines.push(format!("PRIMARY KEY ({key})"));
    }

    let mut out = format!("CREATE TABLE {table} (\n    {}\n) WITH ", lines.join(",\n    "));
    out.push_str(&options(schema, settings, internals).join("\n    AND "));
    out.push(';');

    for dropped in records {
        let (name, time_us) = (identifier(&dropped.name), dropped.dropped_time_us);
        write!(out, "\nALTER TABLE {table} DROP {name} USING TIMESTAMP {time_us};")
            .expect("a String takes all");
        if let Some(again) = schema.column_named(&dropped.name) {
            let again = column(&again.name, &again.ty, again.kind);
            write!(out, "\nALTER TABLE {table} ADD {again};").expect("a String takes all");
        }
    }
    out
}

/// `CREATE MATERIALIZED VIEW … ;`
pub fn describe_view(schema: &TableSchema, settings: &TableSettings, internals: Internals) -> String {
    let Some(view) = &schema.view else { return describe_table_with(schema, settings, internals) };
    let names = |keys: &[KeyColumn]| keys.iter().map(|key| identifier(&key.name)).collect::<Vec<_>>();
    let (partition_key, clustering) = (names(&schema.partition_key), names(&schema.clustering));
    let columns = match view.selects_all {
        true => "*".to_string(),
        false => {
            let regular = schema.columns_of(ColumnKind::Regular).filter(|column| !schema.is_hidden(column));
            let mut regular: Vec<&str> = regular.map(|column| column.name.as_str()).collect();
            regular.sort_unstable();
            let regular = regular.into_iter().map(identifier);
            let all: Vec<String> = partition_key.iter().chain(&clustering).cloned().chain(regular).collect();
            all.join(", ")
        }
    };
    let mut key = partition_key.join(", ");
    if partition_key.len() > 1 {
        key = format!("({key})");
    }
    for column in &clustering {
        key.push_str(", ");
        key.push_str(column);
    }
    format!(
        "CREATE MATERIALIZED VIEW {keyspace}.{} AS\n    SELECT {columns}\n    FROM {keyspace}.{}\n    WHERE {}\n    \
         PRIMARY KEY ({key})\n WITH {};",
        identifier(&schema.name),
        identifier(&view.base_name),
        view.where_clause,
        options(schema, settings, internals).join("\n    AND "),
        keyspace = identifier(&schema.keyspace),
    )
}

/// The options after `WITH`, in Cassandra's order.
fn options(schema: &TableSchema, settings: &TableSettings, internals: Internals) -> Vec<String> {
    let options = &schema.options;
    let mut out = vec![];
    if schema.is_compact() {
        out.push("COMPACT STORAGE".to_string());
    }
    if internals == Internals::Shown {
        out.push(format!("ID = {}", schema.id));
    }
    if !schema.defined_clustering().is_empty() {
        let order = |ty: &CqlType| if ty.is_reversed() { "DESC" } else { "ASC" };
        let columns: Vec<_> = schema
            .defined_clustering()
            .iter()
            .map(|column| format!("{} {}", identifier(&column.name), order(&column.ty)))
            .collect();
        out.push(format!("CLUSTERING ORDER BY ({})", columns.join(", ")));
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let extensions: Vec<_> = settings
        .extensions
        .iter()
        .map(|(name, bytes)| format!("{}: 0x{}", quoted(name), hex(bytes)))
        .collect();
    let or_true = |name: &str| settings.others.get(name).cloned().unwrap_or_else(|| "true".to_string());
    for (name, value) in [
        ("additional_write_policy", quoted(&settings.additional_write_policy)),
        ("allow_auto_snapshot", or_true("allow_auto_snapshot")),
        ("bloom_filter_fp_chance", double(options.bloom_filter_fp_chance)),
        ("caching", map_literal(&settings.caching)),
        ("cdc", settings.others.get("cdc").cloned().unwrap_or_else(|| settings.cdc.to_string())),
        ("comment", quoted(&options.comment)),
        ("compaction", map_literal(&settings.compaction)),
        ("compression", map_literal(&compression_to_map(&options.compression, &settings.compression))),
        ("memtable", quoted(&settings.memtable)),
        ("crc_check_chance", double(options.crc_check_chance)),
        ("default_time_to_live", options.default_ttl_s.to_string()),
        ("extensions", format!("{{{}}}", extensions.join(", "))),
        ("gc_grace_seconds", options.gc_grace_s.to_string()),
        ("incremental_backups", or_true("incremental_backups")),
        ("max_index_interval", options.max_index_interval.to_string()),
        ("memtable_flush_period_in_ms", options.memtable_flush_period_ms.to_string()),
        ("min_index_interval", options.min_index_interval.to_string()),
        ("read_repair", quoted(&settings.read_repair)),
        ("speculative_retry", quoted(&settings.speculative_retry)),
    ] {
        // Views have no TTL of their own.
        if schema.view.is_none() || name != "default_time_to_live" {
            out.push(format!("{name} = {value}"));
        }
    }
    let others = settings
        .others
        .iter()
        .filter(|(name, _)| !["cdc", "allow_auto_snapshot", "incremental_backups"].contains(&name.as_str()));
    out.extend(others.map(|(name, value)| format!("{name} = {value}")));
    out
}
