//! Results as tables: one row for each run, and the matrix of workloads and strategies.
//!
//! Tables are Markdown, aligned, so that they read well in a terminal and can be pasted into a page.

use crate::outcome::Outcome;
use crate::quantity::{bytes_text, count_text, duration_text};
use crate::workload::Workload;

/// A column of the table of runs.
pub struct Column {
    pub head: &'static str,
    /// What it means, for the HTML page.
    pub help: &'static str,
    of: fn(&Outcome) -> String,
}

const fn column(head: &'static str, help: &'static str, of: fn(&Outcome) -> String) -> Column {
    Column { head, help, of }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The columns of the table of runs.
pub const COLUMNS: &[Column] = &[
    column("written", "bytes written to disk: commit log, flushes and compactions", |outcome| {
        bytes_text(outcome.written_bytes())
    }),
    column("by compaction", "bytes written by compactions", |outcome| bytes_text(outcome.compacted_bytes)),
    column("write amp", "bytes written by flushes and compactions for each byte flushed", |outcome| {
        format!("{:.2}", outcome.write_amplification())
    }),
    column("peak disk", "largest space of all SSTables, complete or not", |outcome| {
        bytes_text(outcome.peak_disk_bytes)
    }),
    column("peak/live", "largest space for each byte that was live at the same time", |outcome| {
        format!("{:.2}", outcome.peak_space())
    }),
    column("mean/live", "mean space, for each byte of live data", |outcome| {
        format!("{:.2}", outcome.mean_space())
    }),
    column("temporary", "largest space that compactions took until they ended", |outcome| {
        bytes_text(outcome.peak_temporary_bytes)
    }),
    column("SSTables/read", "SSTables that a read opens, on average", |outcome| {
        format!("{:.2}", outcome.sstables_per_read)
    }),
    column("bytes/read", "bytes from disk of a read that no cache answers", |outcome| {
        bytes_text(outcome.bytes_per_read)
    }),
    column("at the end", "SSTables that a read opens when compaction has nothing left to do", |outcome| {
        format!("{:.2}", outcome.end_sstables_per_read)
    }),
    column("backlog", "largest backlog of compaction", |outcome| bytes_text(outcome.peak_backlog_bytes)),
    column("SSTables", "number of SSTables at the end", |outcome| format!("{:.0}", outcome.end_sstables)),
    column("jobs", "compactions", |outcome| outcome.jobs.to_string()),
    column("writes/s", "writes that the node did in a second", |outcome| {
        count_text(outcome.writes / outcome.load_s.max(1e-9))
    }),
    column("of load", "part of the wanted operations that was done", |outcome| percent(outcome.kept_up())),
    column("waited", "part of the time in which writes waited for a flush", |outcome| {
        percent(outcome.writes_waited)
    }),
];

/// An aligned Markdown table; the first column is aligned to the left.
pub fn table(heads: &[String], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).chain(heads.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            let pad = " ".repeat(width - cell.chars().count());
            if at == 0 { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().enumerate().map(|(at, width)| {
        if at == 0 { "-".repeat(width + 2) } else { format!("{}:", "-".repeat(width + 1)) }
    });
    let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    line(heads) + &rule + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// The heads and rows of the table of runs. `label` names each run.
pub fn rows(label: &str, runs: &[(String, Outcome)]) -> (Vec<String>, Vec<Vec<String>>) {
    let heads = std::iter::once(label).chain(COLUMNS.iter().map(|column| column.head));
    let row = |(name, outcome): &(String, Outcome)| {
        std::iter::once(name.clone()).chain(COLUMNS.iter().map(|column| (column.of)(outcome))).collect()
    };
    (heads.map(str::to_string).collect(), runs.iter().map(row).collect())
}

/// What was simulated, in one line.
pub fn scope(workload: &Workload, runs: &[(String, Outcome)]) -> String {
    let Some((_, first)) = runs.first() else { return String::new() };
    format!(
        "{} writes, {} reads in {} on {} shards; {} sampled rows a shard stand for {} each; seed {}",
        count_text(first.writes),
        count_text(first.reads),
        duration_text(first.load_s),
        workload.node.shards,
        count_text(first.sampled_rows as f64),
        count_text(first.rows_per_sampled_row),
        first.seed
    )
}

/// The text that `lab run`, `compare` and `sweep` print.
pub fn text(name: &str, workload: &Workload, label: &str, runs: &[(String, Outcome)]) -> String {
    let (heads, cells) = rows(label, runs);
    let mut text =
        format!("{name}: {}\n{}\n\n{}", workload.about, scope(workload, runs), table(&heads, &cells));
    for (name, outcome) in runs.iter().filter(|(_, outcome)| !outcome.is_settled) {
        text += &format!(
            "{name}: compaction did not come to an end within the limit of events; it had {} jobs\n",
            outcome.jobs
        );
    }
    text
}

/// The workloads of the matrix: the rows of the talk's summary.
pub const MATRIX: [&str; 5] = ["write-only", "overwrite", "read-mostly", "read-update", "time-series"];

/// A cell of the matrix: write amplification, peak space over live data, and SSTables a read.
pub fn cell(outcome: &Outcome) -> String {
    let lagging = if outcome.kept_up() < 0.95 {
        format!(", {} of the load", percent(outcome.kept_up()))
    } else {
        String::new()
    };
    format!(
        "{:.1} / {:.2} / {:.2}{lagging}",
        outcome.write_amplification(),
        outcome.peak_space(),
        outcome.sstables_per_read
    )
}

/// The matrix as a table: a row for each workload, a column for each strategy.
pub fn matrix(results: &[(String, Vec<(String, Outcome)>)]) -> String {
    let strategies =
        results.first().map_or(vec![], |(_, runs)| runs.iter().map(|(name, _)| name.clone()).collect());
    let heads: Vec<String> = std::iter::once("workload".to_string()).chain(strategies).collect();
    let row = |(name, runs): &(String, Vec<(String, Outcome)>)| {
        std::iter::once(name.clone()).chain(runs.iter().map(|(_, outcome)| cell(outcome))).collect()
    };
    let rows: Vec<Vec<String>> = results.iter().map(row).collect();
    format!("write amplification / peak space over live data / SSTables a read\n\n{}", table(&heads, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let text = |cells: &[&str]| cells.iter().map(|cell| cell.to_string()).collect::<Vec<_>>();
        let table = table(&text(&["a", "bytes"]), &[text(&["long", "1"]), text(&["b", "22 kB"])]);
        assert_eq!(table, "| a    | bytes |\n|------|------:|\n| long |     1 |\n| b    | 22 kB |\n");
    }
}
