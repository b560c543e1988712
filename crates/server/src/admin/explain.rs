//! Requests about why compactions of a table run or wait, and why its tombstones are still there.

use axum::Json;
use axum::extract::{Query, State};
use engine::compaction::explain::{CompactionExplanation, SSTableTombstones, TombstonesReport};
use engine::compaction::report::KeptCounts;
use engine::node::compaction as compactions;
use serde::Deserialize;

use super::error::ApiError;
use super::tables::select;
use super::{Answer, OfNode};
use crate::api::compaction_answers::{
    ExplainedCompactions, ExplainedJob, ExplainedRunning, KeptTombstones, Tombstones, TombstonesOfSSTable,
};

#[derive(Deserialize)]
pub struct TableQuery {
    keyspace: String,
    table: String,
}

pub async fn explain(
    State(node): OfNode,
    Query(query): Query<TableQuery>,
) -> Answer<Vec<ExplainedCompactions>> {
    let catalog = node.catalog().await?;
    let id = select(&catalog, Some(&query.keyspace), &[&query.table])?.remove(0).schema.id;
    let asked = node.engine.ask(0, move |shard| async move { compactions::explain(&shard, id).await });
    let shards = asked.get().await?;
    if shards.is_empty() {
        return Err(ApiError::bad_request("the table is only read: nothing compacts it"));
    }
    Ok(Json((0u32..).zip(shards).map(|(shard, of)| explained(shard, of)).collect()))
}

fn explained(shard: u32, of: CompactionExplanation) -> ExplainedCompactions {
    let rate: f64 = of.running.iter().map(|running| running.bytes_per_s()).sum();
    ExplainedCompactions {
        shard,
        explanation: of.text,
        next: of.next.map(|next| ExplainedJob {
            sstables: next.sstables as u64,
            bytes: next.bytes,
            needs_bytes: next.needs_bytes,
            reason: next.reason,
        }),
        waits: of.waits,
        pending: of.pending,
        backlog_bytes: of.backlog_bytes,
        backlog_ends_s: (rate > 0.0).then(|| (of.backlog_bytes as f64 / rate).ceil() as u64),
        running: of
            .running
            .into_iter()
            .map(|running| ExplainedRunning {
                id: format!("{shard}-{}", running.id),
                bytes_per_s: running.bytes_per_s() as u64,
                kind: running.kind.to_string(),
                reason: running.reason,
                completed_bytes: running.read_bytes,
                total_bytes: running.total_bytes,
            })
            .collect(),
        throughput_bytes_per_s: of.throughput_bytes_per_s,
    }
}

pub async fn tombstones(State(node): OfNode, Query(query): Query<TableQuery>) -> Answer<Tombstones> {
    let catalog = node.catalog().await?;
    let id = select(&catalog, Some(&query.keyspace), &[&query.table])?.remove(0).schema.id;
    let asked = node
        .engine
        .ask(0, move |shard| async move { Ok((shard.wall_s(), compactions::tombstones(&shard, id).await?)) });
    let (now_s, shards) = asked.get().await?;
    let Some(first) = shards.first() else {
        return Err(ApiError::bad_request("the table is only read: nothing compacts it"));
    };
    let mut answer = Tombstones {
        gc_grace_s: first.gc_grace_s,
        mode: first.mode.to_string(),
        now_s,
        gc_before_s: first.gc_before_s,
        ..Tombstones::default()
    };
    let mut kept = KeptCounts::default();
    for (shard, report) in (0u32..).zip(&shards) {
        kept.merge(&report.kept_on_shard);
        let of = |sstable: &SSTableTombstones| of_sstable(shard, report, now_s, sstable);
        answer.sstables.extend(report.sstables.iter().map(of));
    }
    answer.sstables.sort_by(|a, b| b.droppable.cmp(&a.droppable).then_with(|| a.sstable.cmp(&b.sstable)));
    let reasons = [
        ("younger than the grace period", kept.young),
        ("tombstone_gc is disabled", kept.disabled),
        ("only_purge_repaired_tombstones", kept.not_repaired),
        ("a memtable has the partition", kept.memtable),
        ("the commit log would be replayed", kept.commit_log),
        ("another SSTable overlaps", kept.sstable),
    ];
    let counted = reasons.into_iter().filter(|(_, count)| *count > 0);
    answer.kept_since_start =
        counted.map(|(reason, count)| KeptTombstones { reason: reason.to_string(), count }).collect();
    Ok(Json(answer))
}

/// `in 3 h`, or `since …`: a time relative to now.
fn time_text(at_s: u64, now_s: u64) -> String {
    let text = |seconds: u64| match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    };
    if at_s >= now_s { format!("in {}", text(at_s - now_s)) } else { format!("{} ago", text(now_s - at_s)) }
}

fn of_sstable(
    shard: u32,
    report: &TombstonesReport,
    now_s: u32,
    sstable: &SSTableTombstones,
) -> TombstonesOfSSTable {
    let droppable = sstable.droppable.round() as u64;
    let young = sstable.tombstones.saturating_sub(droppable);
    let at =
        |written_s: u32| time_text(u64::from(written_s) + u64::from(report.gc_grace_s), u64::from(now_s));
    let mut because = vec![];
    if report.gc_before_s == 0 {
        because.push(match report.mode {
            "disabled" => "tombstone_gc is disabled: none is ever dropped".to_string(),
            _ => {
                "some SSTables of the table cannot be opened: what a tombstone deletes is unknown".to_string()
            }
        });
    } else if young > 0 {
        because.push(format!(
            "{young} are younger than gc_grace_seconds ({} s): the last of them may go {}",
            report.gc_grace_s,
            at(sstable.newest_s)
        ));
    }
    if droppable > 0 {
        if sstable.memtable {
            because.push("a memtable has writes as old as its newest: nodetool flush".to_string());
        }
        if sstable.commit_log {
            because.push(
                "the commit log has writes as old as its newest, which a crash would replay".to_string(),
            );
        }
        if !sstable.overlapping.is_empty() {
            let more = match sstable.more_overlapping {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            because.push(format!("older data may be in {}{more}", sstable.overlapping.join(", ")));
        }
        if sstable.is_futile {
            because.push(
                "the last job that rewrote it could free nothing, and the reason is still there".to_string(),
            );
        }
        if sstable.is_taken {
            because.push("a job has the SSTable, or it is in quarantine".to_string());
        }
    }
    let freed_by = match () {
        () if droppable == 0 && report.gc_before_s == 0 => "nothing, until the reason is removed".to_string(),
        () if droppable == 0 => format!("time: the first of them may go {}", at(sstable.oldest_s)),
        () if !sstable.overlapping.is_empty() => {
            "a merge with the SSTables that it overlaps: nodetool compact".to_string()
        }
        () if sstable.memtable => {
            "a flush, and then a compaction: nodetool flush, nodetool garbagecollect".to_string()
        }
        () if sstable.commit_log => {
            "the end of these segments of the commit log, which are removed when they are \
             full and flushed; and then a compaction: nodetool garbagecollect"
                .to_string()
        }
        () => "a compaction of this SSTable alone: nodetool garbagecollect".to_string(),
    };
    TombstonesOfSSTable {
        shard,
        sstable: sstable.sstable.clone(),
        tombstones: sstable.tombstones,
        droppable,
        oldest_s: sstable.oldest_s,
        newest_s: sstable.newest_s,
        kept_because: because,
        freed_by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sstable() -> SSTableTombstones {
        SSTableTombstones {
            sstable: "me-7-big".into(),
            tombstones: 10,
            droppable: 4.2,
            oldest_s: 1_000,
            newest_s: 90_000,
            overlapping: vec![],
            more_overlapping: 0,
            memtable: false,
            commit_log: false,
            is_futile: false,
            is_taken: false,
        }
    }

    fn report() -> TombstonesReport {
        TombstonesReport {
            gc_grace_s: 3_600,
            mode: "timeout",
            gc_before_s: 86_400,
            sstables: vec![],
            kept_on_shard: KeptCounts::default(),
        }
    }

    #[test]
    fn why_tombstones_stay() {
        let found = of_sstable(1, &report(), 90_000, &sstable());
        assert_eq!(found.droppable, 4);
        assert_eq!(
            found.kept_because,
            ["6 are younger than gc_grace_seconds (3600 s): the last of them may go in 60 min"]
        );
        assert!(found.freed_by.contains("garbagecollect"), "{}", found.freed_by);
        let overlapped = SSTableTombstones {
            overlapping: vec!["me-3-big".into()],
            more_overlapping: 2,
            memtable: true,
            ..sstable()
        };
        let found = of_sstable(1, &report(), 90_000, &overlapped);
        assert_eq!(found.kept_because.len(), 3);
        assert!(found.kept_because.contains(&"older data may be in me-3-big and 2 more".to_string()));
        assert!(found.freed_by.contains("nodetool compact"), "{}", found.freed_by);
        let young = SSTableTombstones { droppable: 0.0, ..sstable() };
        assert_eq!(
            of_sstable(0, &report(), 2_000, &young).freed_by,
            "time: the first of them may go in 43 min"
        );
        let disabled = TombstonesReport { mode: "disabled", gc_before_s: 0, ..report() };
        assert_eq!(
            of_sstable(0, &disabled, 90_000, &young).kept_because,
            ["tombstone_gc is disabled: none is ever dropped"]
        );
    }

    #[test]
    fn times_for_people() {
        let check = |at_s: u64, text: &str| assert_eq!(time_text(at_s, 1_000_000), text);
        check(1_000_000, "in 0 s");
        check(1_000_600, "in 10 min");
        check(1_010_000, "in 2 h");
        check(1_864_000, "in 10 days");
        check(999_000, "16 min ago");
    }
}
