//! Counts the tombstones of SSTables. The SSTables of one directory are taken for a table: one of them may
//! have older data that a tombstone of another deletes, and then a compaction of both is needed to drop it.

use std::rc::Rc;

use runtime::Shard;
use serde_json::json;
use sstable::read::SSTable;
use sstable::tools::{Finding, TombstoneCount, TombstoneCounter, partition_key_text};

use super::arguments::{Format, TombstonesArguments};
use super::progress::Progress;
use super::run::{CLASS, End, FRAGMENTS_A_CHECK, Out, complain, label, open, places, schema_of};

/// Other SSTables and partitions that the text lists.
const LISTED_MAX: usize = 5;

pub async fn run(shard: &Shard, arguments: &TombstonesArguments) -> Result<End, String> {
    let mut end = End::Well;
    let mut tables = vec![];
    for place in places(shard, &arguments.show.files, &mut end).await {
        match open(shard, &place).await {
            Ok(Some(table)) => tables.push(table),
            Ok(None) => {}
            Err(error) => {
                complain(&Finding::from(&error).to_string());
                end = End::Failed;
            }
        }
    }
    let mut out = Out::new();
    for table in &tables {
        let others: Vec<&Rc<SSTable>> = tables
            .iter()
            .filter(|other| other.dir() == table.dir() && other.name() != table.name())
            .collect();
        match count(shard, table, &others, arguments.gc_grace).await {
            Ok(count) => out.write(&match arguments.show.format {
                Format::Text => text(table, &others, &count, arguments.gc_grace),
                Format::Json => format!("{}\n", json_of(table, &others, &count)),
            }),
            Err(error) => {
                complain(&format!("{}: {error}", label(table)));
                end = End::Failed;
            }
        }
    }
    Ok(end)
}

async fn count(
    shard: &Shard,
    table: &Rc<SSTable>,
    others: &[&Rc<SSTable>],
    gc_grace_s: u32,
) -> Result<TombstoneCount, String> {
    let schema = schema_of(&table.statistics().header)?;
    let mut counter = TombstoneCounter::new(shard.wall_s(), gc_grace_s, others.len());
    let mut progress = Progress::new(label(table));
    let mut scan = table.positioned_scan(&schema, CLASS).map_err(|error| error.to_string())?;
    let mut fragments = 0u64;
    while let Some((fragment, position)) = scan.next().await.map_err(|error| error.to_string())? {
        counter.push(&fragment, |other, key, timestamp_us| {
            let other = others[other];
            other.statistics().stats.min_timestamp_us <= timestamp_us && other.may_contain(key)
        });
        fragments += 1;
        if fragments.is_multiple_of(FRAGMENTS_A_CHECK) {
            progress.at(position, table.uncompressed_bytes());
        }
    }
    Ok(counter.finish())
}

/// A time in UTC, to the second.
fn time(time_s: u32) -> String {
    jiff::Timestamp::from_second(i64::from(time_s))
        .map_or_else(|_| time_s.to_string(), |time| time.to_string())
}

fn text(table: &SSTable, others: &[&Rc<SSTable>], count: &TombstoneCount, gc_grace_s: u32) -> String {
    let mut lines = vec![label(table)];
    let kinds = [
        ("partitions", count.kinds.partitions),
        ("ranges", count.kinds.ranges),
        ("rows", count.kinds.rows),
        ("collections", count.kinds.collections),
        ("cells", count.kinds.cells),
        ("expired rows", count.kinds.expired_rows),
        ("expired cells", count.kinds.expired_cells),
    ];
    let kinds = kinds.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}"));
    let kinds: Vec<String> = kinds.collect();
    lines.push(match kinds.is_empty() {
        true => format!("  no tombstones, {} live rows", count.live_rows),
        false => {
            format!(
                "  {} tombstones, {} live rows: {}",
                count.kinds.total(),
                count.live_rows,
                kinds.join(", ")
            )
        }
    });
    if let Some((oldest_s, newest_s)) = count.times_s {
        lines.push(format!("  written from {} to {}", time(oldest_s), time(newest_s)));
        lines.push(format!("  {} are older than {gc_grace_s} s and may be dropped", count.droppable));
    }
    if count.blocked > 0 {
        let mut by: Vec<(&Rc<SSTable>, u64)> = others
            .iter()
            .zip(&count.blocked_by)
            .filter(|(_, blocked)| **blocked > 0)
            .map(|(other, blocked)| (*other, *blocked))
            .collect();
        by.sort_by_key(|(_, blocked)| std::cmp::Reverse(*blocked));
        let more = match by.len().saturating_sub(LISTED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let by = by.iter().take(LISTED_MAX).map(|(other, blocked)| format!("{} ({blocked})", other.name()));
        lines.push(format!(
            "  {} of these only together with SSTables that may have older data of the partition: {}{more}",
            count.blocked,
            by.collect::<Vec<_>>().join(", ")
        ));
    }
    if !count.partitions.is_empty() {
        let most = count.partitions.iter().take(LISTED_MAX);
        let most = most.map(|(key, tombstones)| format!("{} ({tombstones})", partition_key_text(table, key)));
        lines.push(format!("  most in the partitions {}", most.collect::<Vec<_>>().join(", ")));
    }
    lines.join("\n") + "\n"
}

fn json_of(table: &SSTable, others: &[&Rc<SSTable>], count: &TombstoneCount) -> serde_json::Value {
    let kinds = &count.kinds;
    let blocked_by = others.iter().zip(&count.blocked_by).filter(|(_, blocked)| **blocked > 0);
    json!({
        "sstable": label(table),
        "tombstones": kinds.total(),
        "partitions": kinds.partitions,
        "ranges": kinds.ranges,
        "rows": kinds.rows,
        "collections": kinds.collections,
        "cells": kinds.cells,
        "expired_rows": kinds.expired_rows,
        "expired_cells": kinds.expired_cells,
        "live_rows": count.live_rows,
        "oldest_s": count.times_s.map(|(oldest_s, _)| oldest_s),
        "newest_s": count.times_s.map(|(_, newest_s)| newest_s),
        "droppable": count.droppable,
        "blocked": count.blocked,
        "blocked_by": blocked_by
            .map(|(other, blocked)| json!({ "sstable": other.name().to_string(), "tombstones": blocked }))
            .collect::<Vec<_>>(),
        "largest_partitions": count.partitions.iter()
            .map(|(key, tombstones)| json!({ "key": partition_key_text(table, key), "tombstones": tombstones }))
            .collect::<Vec<_>>(),
    })
}
