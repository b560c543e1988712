//! Output of `nodetool` about compactions, in Cassandra's layouts. Reasons of running jobs follow the last
//! line of Cassandra's layout.

use reports::EndedCompaction;
use server::api::answers::{AutoCompaction, Compactions};

use super::text::{aligned, size};

/// `compactionstats`; `human`: sizes with units.
pub fn stats(compactions: &Compactions, human: bool) -> String {
    let bytes = |bytes: u64| if human { size(bytes) } else { bytes.to_string() };
    let pending: u64 = compactions.pending.iter().map(|pending| pending.jobs).sum();
    let mut text = format!("pending tasks: {pending}\n");
    for pending in &compactions.pending {
        text.push_str(&format!("- {}.{}: {}\n", pending.keyspace, pending.table, pending.jobs));
    }
    text.push('\n');
    if compactions.running.is_empty() && compactions.view_builds.is_empty() {
        return text;
    }
    let title = ["id", "compaction type", "keyspace", "table", "completed", "total", "unit", "progress"];
    let mut rows = vec![title.map(str::to_string).to_vec()];
    for running in &compactions.running {
        let progress = if running.total_bytes == 0 {
            "n/a".to_string()
        } else {
            format!("{:.2}%", running.read_bytes as f64 * 100.0 / running.total_bytes as f64)
        };
        rows.push(vec![
            running.task_id(),
            running.kind.to_string(),
            running.keyspace.clone(),
            running.table.clone(),
            bytes(running.read_bytes),
            bytes(running.total_bytes),
            "bytes".to_string(),
            progress,
        ]);
    }
    for build in &compactions.view_builds {
        rows.push(vec![
            "-".to_string(),
            "View build".to_string(),
            build.keyspace.clone(),
            build.view.clone(),
            build.keys.to_string(),
            "n/a".to_string(),
            "keys".to_string(),
            format!("{:.2}%", build.progress * 100.0),
        ]);
    }
    text.push_str(&aligned(&rows, " "));
    let remaining_us = compactions.running.iter().map(|running| running.remaining_us()).max().flatten();
    let remaining_s = remaining_us.map(|us| us.div_ceil(1_000_000));
    let remaining = remaining_s.map_or("n/a".to_string(), |seconds| {
        format!("{}h{:02}m{:02}s", seconds / 3600, seconds / 60 % 60, seconds % 60)
    });
    text.push_str(&format!("Active compaction remaining time : {remaining:>10}\n"));
    for running in &compactions.running {
        text.push_str(&format!("- {}: {}\n", running.task_id(), running.reason));
    }
    text
}

/// `compactionhistory`, the latest first.
pub fn history(ended: &[EndedCompaction]) -> String {
    let mut text = String::from("Compaction History: \n");
    let title = [
        "id",
        "keyspace_name",
        "columnfamily_name",
        "compacted_at",
        "bytes_in",
        "bytes_out",
        "rows_merged",
        "compaction_properties",
    ];
    let mut rows = vec![title.map(str::to_string).to_vec()];
    let merged = |(sstables, partitions): &(u32, u64)| format!("{sstables}:{partitions}");
    for ended in ended.iter().rev() {
        rows.push(vec![
            ended.id.to_string(),
            ended.keyspace.clone(),
            ended.table.clone(),
            at(ended.ended_ms),
            ended.input_bytes.to_string(),
            ended.output_bytes.to_string(),
            format!("{{{}}}", ended.merged.iter().map(merged).collect::<Vec<_>>().join(", ")),
            format!("{{compaction_type: {}, reason: {}}}", ended.kind, ended.reason),
        ]);
    }
    text.push_str(&aligned(&rows, " "));
    text
}

/// `2026-11-22T02:00:00.000`, UTC.
pub fn at(ms: i64) -> String {
    let text = model::CqlType::Timestamp.text_of(&ms.to_be_bytes());
    text.trim_matches('\'').trim_end_matches('Z').to_string()
}

/// `statusautocompaction`.
pub fn auto(tables: &[AutoCompaction]) -> String {
    let title = ["keyspace", "table", "status"].map(str::to_string).to_vec();
    let row = |table: &AutoCompaction| {
        let status = if table.running { "running" } else { "not running" };
        vec![table.keyspace.clone(), table.table.clone(), status.to_string()]
    };
    let rows: Vec<Vec<String>> = [title].into_iter().chain(tables.iter().map(row)).collect();
    aligned(&rows, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use reports::RunningCompaction;
    use server::api::answers::{PendingCompactions, RunningViewBuild};

    #[test]
    fn the_layout_of_compactionstats() {
        assert_eq!(stats(&Compactions::default(), true), "pending tasks: 0\n\n");
        let running = RunningCompaction {
            id: 7,
            kind: "Compaction".into(),
            keyspace: "shop".into(),
            table: "orders".into(),
            read_bytes: 512,
            total_bytes: 2048,
            running_us: 20_300_000,
            reason: "4 of about 1.0 MB".into(),
            ..RunningCompaction::default()
        };
        let pending = PendingCompactions { keyspace: "shop".into(), table: "orders".into(), jobs: 2 };
        let build =
            RunningViewBuild { keyspace: "shop".into(), view: "by_item".into(), keys: 12, progress: 0.5 };
        let all = Compactions {
            pending: vec![pending],
            running: vec![running],
            view_builds: vec![build],
            ..Compactions::default()
        };
        let expected = "\
pending tasks: 2
- shop.orders: 2

id  compaction type keyspace table   completed total unit  progress
0-7 Compaction      shop     orders  512       2048  bytes 25.00%
-   View build      shop     by_item 12        n/a   keys  50.00%
Active compaction remaining time :   0h01m01s
- 0-7: 4 of about 1.0 MB
";
        assert_eq!(stats(&all, false), expected);
        assert!(stats(&all, true).contains("512 bytes 2.00 KiB bytes 25.00%"));
    }

    #[test]
    fn the_layout_of_compactionhistory() {
        let ended = EndedCompaction {
            keyspace: "shop".into(),
            table: "orders".into(),
            kind: "Compaction".into(),
            reason: "4 of about 1.0 MB".into(),
            ended_ms: 1_700_000_000_123,
            input_bytes: 4_000_000,
            output_bytes: 1_000_000,
            input_sstables: 4,
            merged: vec![(1, 8), (4, 10)],
            ..EndedCompaction::default()
        };
        let text = history(&[ended]);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("Compaction History: "));
        let title: Vec<&str> = lines.next().unwrap().split_whitespace().take(4).collect();
        assert_eq!(title, ["id", "keyspace_name", "columnfamily_name", "compacted_at"]);
        let row: Vec<&str> = lines.next().unwrap().split_whitespace().take(8).collect();
        let id = "00000000-0000-0000-0000-000000000000";
        let expect =
            [id, "shop", "orders", "2023-11-14T22:13:20.123", "4000000", "1000000", "{1:8,", "4:10}"];
        assert_eq!(row, expect);
    }
}
