//! Output of `nodetool explain` and `nodetool tombstones`.

use server::api::compaction_answers::{ExplainedCompactions, Tombstones};

use super::text::{aligned, size};

/// Why compactions run or wait, for each shard.
pub fn explained(shards: &[ExplainedCompactions]) -> String {
    let mut text = String::new();
    for of in shards {
        text.push_str(&format!("Shard {}\n{}\n", of.shard, of.explanation));
        match &of.next {
            Some(next) => text.push_str(&format!(
                "  next: {} SSTables, {}, and {} of disk space in addition: {}\n",
                next.sstables,
                size(next.bytes),
                size(next.needs_bytes),
                next.reason
            )),
            None => text.push_str("  next: nothing\n"),
        }
        for running in &of.running {
            text.push_str(&format!(
                "  running: {} {}: {} of {}, {}/s: {}\n",
                running.id,
                running.kind,
                size(running.completed_bytes),
                size(running.total_bytes),
                size(running.bytes_per_s),
                running.reason
            ));
        }
        if of.waits.is_empty() {
            text.push_str("  waits for: nothing\n");
        }
        of.waits.iter().for_each(|wait| text.push_str(&format!("  waits: {wait}\n")));
        let limit = match of.throughput_bytes_per_s {
            0 => "no limit of the rate".to_string(),
            rate => format!("at most {}/s", size(rate)),
        };
        let ends = match of.backlog_ends_s {
            _ if of.backlog_bytes == 0 => String::new(),
            Some(seconds) => format!(", which take about {seconds} s at the rate of the running jobs"),
            None => ", and no job runs".to_string(),
        };
        text.push_str(&format!(
            "  pending: {} jobs; backlog: {}{ends}; {limit}\n\n",
            of.pending,
            size(of.backlog_bytes)
        ));
    }
    text
}

/// A row for each SSTable with tombstones, and the reasons below.
pub fn tombstones(found: &Tombstones) -> String {
    let all: u64 = found.sstables.iter().map(|sstable| sstable.tombstones).sum();
    let droppable: u64 = found.sstables.iter().map(|sstable| sstable.droppable).sum();
    let mut text = format!(
        "{all} tombstones and expiring cells in {} SSTables; {droppable} of them are older than gc_grace_seconds ({} s)\n",
        found.sstables.len(),
        found.gc_grace_s
    );
    if found.mode != "timeout" {
        text.push_str(&format!("tombstone_gc: {}\n", found.mode));
    }
    if !found.sstables.is_empty() {
        let title = ["SSTable", "Shard", "Tombstones", "Droppable", "Oldest", "Newest"];
        let mut rows = vec![title.map(str::to_string).to_vec()];
        rows.extend(found.sstables.iter().map(|sstable| {
            vec![
                sstable.sstable.clone(),
                sstable.shard.to_string(),
                sstable.tombstones.to_string(),
                sstable.droppable.to_string(),
                at(sstable.oldest_s),
                at(sstable.newest_s),
            ]
        }));
        text.push_str(&format!("\n{}\n", aligned(&rows, "  ")));
    }
    for sstable in &found.sstables {
        text.push_str(&format!("{}\n", sstable.sstable));
        sstable.kept_because.iter().for_each(|why| text.push_str(&format!("  kept: {why}\n")));
        text.push_str(&format!("  freed by: {}\n", sstable.freed_by));
    }
    if !found.kept_since_start.is_empty() {
        text.push_str("\nKept by compactions of all tables since the start:\n");
        for kept in &found.kept_since_start {
            text.push_str(&format!("  {}: {}\n", kept.count, kept.reason));
        }
    }
    text
}

/// `2026-11-22T02:00:00.000Z`
fn at(seconds: u32) -> String {
    let ms = i64::from(seconds) * 1000;
    model::CqlType::Timestamp.text_of(&ms.to_be_bytes()).trim_matches('\'').to_string()
}

#[cfg(test)]
mod tests {
    use server::api::compaction_answers::{ExplainedJob, TombstonesOfSSTable};

    use super::*;

    #[test]
    fn the_layout_of_explain() {
        let next =
            ExplainedJob { sstables: 4, bytes: 4096, needs_bytes: 4096, reason: "4 of about 0.0 MB".into() };
        let of = ExplainedCompactions {
            shard: 1,
            explanation: "SizeTieredCompactionStrategy: 4 SSTables, 0.0 MB\n  result: 4 SSTables are merged"
                .into(),
            next: Some(next),
            waits: vec!["automatic compaction is off".into()],
            pending: 1,
            backlog_bytes: 2048,
            ..ExplainedCompactions::default()
        };
        let expect = "\
Shard 1
SizeTieredCompactionStrategy: 4 SSTables, 0.0 MB
  result: 4 SSTables are merged
  next: 4 SSTables, 4.00 KiB, and 4.00 KiB of disk space in addition: 4 of about 0.0 MB
  waits: automatic compaction is off
  pending: 1 jobs; backlog: 2.00 KiB, and no job runs; no limit of the rate

";
        assert_eq!(explained(&[of]), expect);
    }

    #[test]
    fn the_layout_of_tombstones() {
        let sstable = TombstonesOfSSTable {
            shard: 0,
            sstable: "me-7-big".into(),
            tombstones: 10,
            droppable: 4,
            kept_because: vec!["6 are younger".into()],
            freed_by: "time".into(),
            ..TombstonesOfSSTable::default()
        };
        let found = Tombstones {
            gc_grace_s: 60,
            mode: "timeout".into(),
            sstables: vec![sstable],
            ..Tombstones::default()
        };
        let text = tombstones(&found);
        assert!(
            text.starts_with("10 tombstones and expiring cells in 1 SSTables; 4 of them are older"),
            "{text}"
        );
        assert!(text.contains("me-7-big  0      10          4          1970-01-01T"), "{text}");
        assert!(text.contains("me-7-big\n  kept: 6 are younger\n  freed by: time\n"), "{text}");
    }
}
