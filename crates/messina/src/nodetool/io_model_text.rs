//! The rates of the disk, as text and as a heat map.

use std::fmt::Write;

use iosched::BUSY_WINDOWS_MIN;
use server::api::answers::{IoModel, LearnedRate, PlaneCell};

use super::text::aligned;
use crate::plot::HeatMap;

/// Percentiles of fewer reads are not shown.
const CELL_READS_MIN: u64 = 20;

/// The four rates of the model, and the plane of reads × writes.
pub fn text(model: &IoModel) -> String {
    let mut out = format!("Disk of {}\n\n", model.data_dir);
    let configured = |of: fn(&server::api::answers::DiskRates) -> u64, unit: f64| match &model.configured {
        Some(rates) => rate(of(rates) as f64 / unit),
        None => "-".to_string(),
    };
    let row = |name: &str, configured: String, learned: &LearnedRate, unit: f64| {
        vec![
            name.to_string(),
            configured,
            learned.fitted_s.map_or("-".to_string(), |fitted_s| rate(fitted_s / unit)),
            rate(learned.greatest_s / unit),
        ]
    };
    let head = ["", "Configured", "Learned", "Most seen"].map(str::to_string).to_vec();
    let rows = [
        head,
        row("Reads per second", configured(|rates| rates.read_iops, 1.0), &model.read_iops, 1.0),
        row("Writes per second", configured(|rates| rates.write_iops, 1.0), &model.write_iops, 1.0),
        row(
            "Read bandwidth, MB/s",
            configured(|rates| rates.read_bandwidth, 1e6),
            &model.read_bandwidth,
            1e6,
        ),
        row(
            "Write bandwidth, MB/s",
            configured(|rates| rates.write_bandwidth, 1e6),
            &model.write_bandwidth,
            1e6,
        ),
    ];
    out.push_str(&aligned(&rows, "  "));
    let why = match model.busy_windows {
        0 if model.windows == 0 => ": no request has bypassed the page cache yet".to_string(),
        0 => ": the disk was never busy, so its rates are unknown".to_string(),
        few if few < BUSY_WINDOWS_MIN => {
            format!(": too few to determine the disk's rates, at least {BUSY_WINDOWS_MIN} are needed")
        }
        _ => "; a dash marks a rate that they do not determine".to_string(),
    };
    let (busy, window_ms, all) = (model.busy_windows, model.window_ms, model.windows);
    writeln!(out, "\nLearned from {busy} busy windows of {window_ms} ms, out of {all} windows{why}")
        .expect("a string takes everything");
    out.push_str("Most seen: the most that the node's own requests moved in one window, which may be far below the disk's \
                  rates\n");
    if model.cells.is_empty() {
        out.push_str("No read of up to 64 KiB has reached the disk yet\n");
        return out;
    }
    out.push_str("\nLatency of reads of up to 64 KiB, p50/p95 in us, by reads per second (down) and MB/s written (across)\n\n");
    let column_head =
        |column: usize| format!("<{}", rate((column + 1) as f64 * model.write_bytes_s_step / 1e6));
    let mut plane =
        vec![std::iter::once(String::new()).chain((0..model.columns).map(column_head)).collect::<Vec<_>>()];
    for at in (0..model.rows).rev() {
        let mut line = vec![format!("<{}", rate((at + 1) as f64 * model.reads_s_step))];
        for column in 0..model.columns {
            let cell = model.cells.iter().find(|cell| (cell.row, cell.column) == (at, column));
            line.push(cell.map_or(".".to_string(), latencies));
        }
        plane.push(line);
    }
    out.push_str(&aligned(&plane, "  "));
    out
}

/// The percentiles of a cell, or the number of its reads if they are too few.
fn latencies(cell: &PlaneCell) -> String {
    match cell.reads {
        1 => "1 read".to_string(),
        few if few < CELL_READS_MIN => format!("{few} reads"),
        _ => format!("{:.0}/{:.0}", cell.p50_us, cell.p95_us),
    }
}

/// p95 over the plane, with the model's line: of the learned model, else of the configured one.
pub fn heat_map(model: &IoModel) -> HeatMap {
    let mut cells = vec![vec![None; model.columns.max(1)]; model.rows.max(1)];
    for cell in model.cells.iter().filter(|cell| cell.reads >= CELL_READS_MIN) {
        cells[cell.row][cell.column] = Some(cell.p95_us);
    }
    let configured = |of: fn(&server::api::answers::DiskRates) -> u64| {
        model.configured.as_ref().map(|rates| of(rates) as f64)
    };
    let reads = model.read_iops.fitted_s.or(configured(|rates| rates.read_iops));
    let writes = model.write_bandwidth.fitted_s.or(configured(|rates| rates.write_bandwidth));
    let (x_end, y_end) = (
        model.write_bytes_s_step / 1e6 * model.columns.max(1) as f64,
        model.reads_s_step * model.rows.max(1) as f64,
    );
    HeatMap {
        title: "Latency of reads, p95".to_string(),
        x: "written, MB/s".to_string(),
        y: "reads, 1/s".to_string(),
        x_end,
        y_end,
        cells,
        unit: "us".to_string(),
        line: reads.zip(writes).and_then(|(reads, writes)| within((writes / 1e6, reads), (x_end, y_end))),
    }
}

/// The part of the line from (0, `ends.1`) to (`ends.0`, 0) that is within a sheet of this size; `None` if
/// there is none.
fn within(ends: (f64, f64), sheet: (f64, f64)) -> Option<[(f64, f64); 2]> {
    let y_at = |x: f64| ends.1 * (1.0 - x / ends.0);
    let x_at = |y: f64| ends.0 * (1.0 - y / ends.1);
    let from = if ends.1 <= sheet.1 { (0.0, ends.1) } else { (x_at(sheet.1), sheet.1) };
    let to = if ends.0 <= sheet.0 { (ends.0, 0.0) } else { (sheet.0, y_at(sheet.0)) };
    (from.0 < to.0).then_some([from, to])
}

/// At least three digits, and at most one after the point.
fn rate(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::api::answers::DiskRates;

    fn model() -> IoModel {
        let cell = |row, column, p50_us, p95_us| PlaneCell {
            row,
            column,
            windows: 1,
            reads: 20,
            in_flight: 1.0,
            p50_us,
            p95_us,
        };
        IoModel {
            data_dir: "/d".to_string(),
            configured: Some(DiskRates {
                read_iops: 50_000,
                read_bandwidth: 1_000_000_000,
                write_iops: 20_000,
                write_bandwidth: 400_000_000,
            }),
            window_ms: 100,
            windows: 40,
            busy_windows: 30,
            read_iops: LearnedRate { greatest_s: 40_000.0, fitted_s: Some(45_000.0) },
            read_bandwidth: LearnedRate { greatest_s: 2e8, fitted_s: None },
            write_iops: LearnedRate::default(),
            write_bandwidth: LearnedRate { greatest_s: 3e6, fitted_s: None },
            reads_s_step: 4000.0,
            write_bytes_s_step: 1048576.0,
            rows: 2,
            columns: 3,
            cells: vec![cell(0, 0, 80.0, 120.0), cell(1, 2, 90.4, 1500.0)],
        }
    }

    #[test]
    fn the_plane_is_a_table() {
        let expect = "\
Disk of /d

                       Configured  Learned  Most seen
Reads per second       50000       45000    40000
Writes per second      20000       -        0.0
Read bandwidth, MB/s   1000        -        200
Write bandwidth, MB/s  400         -        3.0

Learned from 30 busy windows of 100 ms, out of 40 windows; a dash marks a rate that they do not determine
Most seen: the most that the node's own requests moved in one window, which may be far below the disk's rates

Latency of reads of up to 64 KiB, p50/p95 in us, by reads per second (down) and MB/s written (across)

       <1.0    <2.1  <3.1
<8000  .       .     90/1500
<4000  80/120  .     .
";
        assert_eq!(text(&model()), expect);
        let idle = IoModel { cells: vec![], busy_windows: 0, configured: None, ..model() };
        assert!(text(&idle).contains("never busy") && text(&idle).contains("No read"));
        let cached = IoModel { windows: 0, ..idle };
        assert!(text(&cached).contains("no request has bypassed the page cache yet"));
        let short = IoModel { busy_windows: 9, ..model() };
        assert!(text(&short).contains("too few to determine the disk's rates, at least 10 are needed"));
        let mut few = model();
        few.cells[0].reads = 19;
        assert!(text(&few).contains("<4000  19 reads  .     ."), "{}", text(&few));
        assert_eq!(heat_map(&few).cells[0][0], None);
    }

    #[test]
    fn the_line_is_cut_at_the_sheet() {
        let map = heat_map(&model());
        assert_eq!((map.cells[1][2], map.cells[1][0]), (Some(1500.0), None));
        // 45,000 reads or 400 MB/s are far beyond 8,000 and 3.1.
        assert_eq!(map.line, None);
        assert_eq!(within((10.0, 100.0), (20.0, 200.0)), Some([(0.0, 100.0), (10.0, 0.0)]));
        assert_eq!(within((10.0, 100.0), (5.0, 75.0)), Some([(2.5, 75.0), (5.0, 50.0)]));
        assert!(map.svg().contains("reads, 1/s"));
    }
}
