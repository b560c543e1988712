//! Results as tables: one column for each run, and the matrix of workloads and strategies.
//!
//! Tables are Markdown, aligned, so that they read well in a terminal and can be pasted into a page.

use crate::outcome::SimulationResult;
use crate::quantity::{bytes_text, count_text, duration_text};
use crate::workload::Workload;

/// A row of the table of runs.
pub struct Figure {
    pub name: &'static str,
    /// The meaning of the figure, for the HTML page.
    pub help: &'static str,
    of: fn(&SimulationResult) -> String,
}

const fn figure(name: &'static str, help: &'static str, of: fn(&SimulationResult) -> String) -> Figure {
    Figure { name, help, of }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The rows of the table of runs.
pub const FIGURES: &[Figure] = &[
    figure(
        "write amplification",
        "bytes written by flushes and compactions, for each byte flushed",
        |outcome| format!("{:.2}", outcome.write_amplification()),
    ),
    figure("written by compactions", "bytes written to disk by compactions", |outcome| {
        bytes_text(outcome.compacted_bytes)
    }),
    figure("written in all", "bytes written to disk by the commit log, flushes and compactions", |outcome| {
        bytes_text(outcome.written_bytes())
    }),
    figure("peak space / live data", "largest disk space, for each byte live at the same time", |outcome| {
        format!("{:.2}", outcome.peak_space())
    }),
    figure("mean space / live data", "mean disk space, for each byte of the mean live data", |outcome| {
        format!("{:.2}", outcome.mean_space())
    }),
    figure("peak space", "largest disk space of all SSTables, unfinished outputs included", |outcome| {
        bytes_text(outcome.peak_disk_bytes)
    }),
    figure("peak temporary space", "largest space that compactions took until they ended", |outcome| {
        bytes_text(outcome.peak_temporary_bytes)
    }),
    figure("SSTables per read", "SSTables that a read opens, mean over the load", |outcome| {
        format!("{:.2}", outcome.sstables_per_read)
    }),
    figure("SSTables per read, settled", "the same, after the last compaction", |outcome| {
        format!("{:.2}", outcome.end_sstables_per_read)
    }),
    figure("bytes per read", "bytes from disk for a read that no cache answers", |outcome| {
        bytes_text(outcome.bytes_per_read)
    }),
    figure("SSTables, settled", "SSTables of the node after the last compaction", |outcome| {
        format!("{:.0}", outcome.end_sstables)
    }),
    figure("compactions", "number of compactions", |outcome| outcome.jobs.to_string()),
    figure("peak backlog", "largest backlog: bytes that compactions are behind with", |outcome| {
        bytes_text(outcome.peak_backlog_bytes)
    }),
    figure("writes/s, mean", "writes per second that the node did, mean over all phases", |outcome| {
        count_text(outcome.writes / outcome.load_s.max(1e-9))
    }),
    figure("load done", "part of the wanted reads and writes that the node did", |outcome| {
        percent(outcome.kept_up())
    }),
    figure("writes stood still", "part of the time in which writes waited for a flush", |outcome| {
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

/// The heads and rows of the table of runs: a column for each run, a row for each figure. `label` says what
/// distinguishes the runs.
pub fn rows(label: &str, runs: &[(String, SimulationResult)]) -> (Vec<String>, Vec<Vec<String>>) {
    let heads = std::iter::once(label.to_string()).chain(runs.iter().map(|(name, _)| name.clone()));
    let row = |figure: &Figure| {
        let values = runs.iter().map(|(_, outcome)| (figure.of)(outcome));
        std::iter::once(figure.name.to_string()).chain(values).collect()
    };
    (heads.collect(), FIGURES.iter().map(row).collect())
}

/// What was simulated, in one line.
pub fn scope(workload: &Workload, runs: &[(String, SimulationResult)]) -> String {
    let Some((_, first)) = runs.first() else { return String::new() };
    format!(
        "{} writes and {} reads in {} on {}; {} sampled rows of a shard stand for {} each; seed {}",
        count_text(first.writes),
        count_text(first.reads),
        duration_text(first.load_s),
        if workload.node.shards == 1 {
            "1 shard".to_string()
        } else {
            format!("{} shards", workload.node.shards)
        },
        count_text(first.sampled_rows as f64),
        count_text(first.rows_per_sampled_row),
        first.seed
    )
}

/// The text that `lab run`, `compare` and `sweep` print.
pub fn text(name: &str, workload: &Workload, label: &str, runs: &[(String, SimulationResult)]) -> String {
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

/// The parts of a cell of the matrix.
pub const CELL: &str =
    "write amplification / peak space for each byte of live data / SSTables that a read opens";

fn cell(outcome: &SimulationResult) -> String {
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

/// The heads and rows of the matrix: a row for each workload, a column for each strategy.
pub fn matrix(results: &[(&str, &[(String, SimulationResult)])]) -> (Vec<String>, Vec<Vec<String>>) {
    let strategies = results.first().map_or(&[][..], |(_, runs)| runs).iter().map(|(name, _)| name.clone());
    let heads = std::iter::once("workload".to_string()).chain(strategies).collect();
    let row = |(name, runs): &(&str, &[(String, SimulationResult)])| {
        std::iter::once((*name).to_string()).chain(runs.iter().map(|(_, outcome)| cell(outcome))).collect()
    };
    (heads, results.iter().map(row).collect())
}

/// The text that `lab table` prints.
pub fn matrix_text(results: &[(&str, &[(String, SimulationResult)])]) -> String {
    let (heads, rows) = matrix(results);
    format!("Each cell: {CELL}.\n\n{}", table(&heads, &rows))
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

    #[test]
    fn a_run_is_a_column_and_a_load_that_was_not_done_is_in_the_matrix() {
        let outcome =
            SimulationResult { writes: 9.0, writes_wanted: 10.0, jobs: 7, ..SimulationResult::default() };
        let runs = [("A".to_string(), outcome), ("B".to_string(), SimulationResult::default())];
        let (heads, rows) = rows("strategy", &runs);
        assert_eq!(heads, ["strategy", "A", "B"]);
        assert!(rows.contains(&["compactions", "7", "0"].map(str::to_string).to_vec()));
        let (heads, rows) = matrix(&[("w", &runs)]);
        assert_eq!((heads.len(), rows[0][0].as_str()), (3, "w"));
        assert_eq!(rows[0][1], "0.0 / 0.00 / 0.00, 90 % of the load");
        assert_eq!(rows[0][2], "0.0 / 0.00 / 0.00");
    }
}
