//! ScyllaDB's `system.versions`, `runtime_info`, `token_ring` and `config`, for tools of its users.
//!
//! Names of tables and columns follow its documentation. Unknown values are null: the source of a setting,
//! and the id of the build.

use std::collections::BTreeMap;

use catalog::Catalog;
use catalog::virtual_tables::is_virtual_keyspace;
use reports::MemoryClass;

use super::node_info::NodeInfo;
use super::rows::{Rows, inet, text};

pub(super) fn versions(rows: &mut Rows, info: &NodeInfo) {
    let mode = if cfg!(debug_assertions) { "debug" } else { "release" };
    rows.push(
        vec![text("local")],
        [("build_mode", Some(text(mode))), ("version", Some(text(&info.program_version)))],
    );
}

/// Rows of `runtime_info`. Values are bytes, or counts since the start of the node, over all shards.
pub(super) fn runtime_info(rows: &mut Rows, info: &NodeInfo) {
    let mut push = |group: &str, item: &str, value: String| {
        rows.push(vec![text(group), text(item)], [("value", Some(text(value)))]);
    };
    let load: u64 = info.tables.iter().map(|table| table.disk_bytes).sum();
    push("generic", "gossip_active", "false".to_string());
    push("generic", "load", load.to_string());
    push("generic", "uptime_seconds", info.uptime_s.to_string());
    let mut memory: BTreeMap<&str, u64> = BTreeMap::new();
    for MemoryClass { class, bytes, .. } in info.shards.iter().flat_map(|shard| &shard.memory) {
        *memory.entry(class).or_default() += bytes;
    }
    push("memory", "used", memory.values().sum::<u64>().to_string());
    for (class, bytes) in memory {
        push("memory", class, bytes.to_string());
    }
    for cache in &info.caches {
        let group = format!("cache.{}", cache.name);
        for (item, number) in [
            ("capacity", cache.capacity_bytes),
            ("entries", cache.entries),
            ("hits", cache.hits),
            ("requests", cache.requests()),
            ("size", cache.bytes),
        ] {
            push(&group, item, number.to_string());
        }
    }
}

/// Rows of `token_ring`. One node owns all ranges. The start of a range is exclusive and the end is
/// inclusive.
pub(super) fn token_ring(rows: &mut Rows, info: &NodeInfo, catalog: &Catalog) {
    for keyspace in catalog.keyspaces().filter(|keyspace| !is_virtual_keyspace(&keyspace.name)) {
        for (at, end) in info.tokens.iter().enumerate() {
            let start = info.tokens[at.checked_sub(1).unwrap_or(info.tokens.len() - 1)];
            rows.push(
                vec![text(&keyspace.name), text(start.to_string()), inet(info.rpc_address)],
                [
                    ("dc", Some(text(&info.data_center))),
                    ("end_token", Some(text(end.to_string()))),
                    ("rack", Some(text(&info.rack))),
                ],
            );
        }
    }
}

pub(super) fn config(rows: &mut Rows, info: &NodeInfo) {
    for (name, setting) in &info.settings {
        let cells = [("type", Some(text(&setting.kind))), ("value", Some(text(&setting.value)))];
        rows.push(vec![text(name)], cells);
    }
}
