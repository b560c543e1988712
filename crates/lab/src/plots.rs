//! The curves over time that `lab` draws: a plot for each figure, a line for each run.

use crate::outcome::{SimulationResult, TimelinePoint};

/// Curves over time; the program draws them.
#[derive(Clone, Debug)]
pub struct Plot {
    /// For the file name.
    pub name: &'static str,
    pub title: String,
    pub x: String,
    pub y: &'static str,
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

type Figure = (&'static str, &'static str, &'static str, fn(&TimelinePoint) -> f64);

const FIGURES: &[Figure] = &[
    ("disk", "disk space", "bytes", |moment| moment.disk_bytes),
    ("written", "written by flushes and compactions", "bytes", |moment| {
        moment.flushed_bytes + moment.compacted_bytes
    }),
    ("sstables-per-read", "SSTables that a read opens", "SSTables", |moment| moment.sstables_per_read),
    ("temporary", "temporary space of compactions", "bytes", |moment| moment.temporary_bytes),
    ("backlog", "backlog of compaction", "bytes", |moment| moment.backlog_bytes),
];

/// Units of the time axis, with the seconds from which each is used.
const UNITS: [(f64, f64, &str); 4] = [
    (0.0, 1.0, "seconds"),
    (600.0, 60.0, "minutes"),
    (36_000.0, 3600.0, "hours"),
    (432_000.0, 86_400.0, "days"),
];

/// The plots of these runs. The first one also shows the live data of the first run.
pub fn plots(workload: &str, runs: &[(String, SimulationResult)]) -> Vec<Plot> {
    let longest_s = runs.iter().map(|(_, outcome)| outcome.total_s).fold(0.0, f64::max);
    let (_, unit_s, unit) =
        UNITS.into_iter().rfind(|(from_s, _, _)| longest_s >= *from_s).unwrap_or(UNITS[0]);
    let plot = |name, what: &str, y, lines| Plot {
        name,
        title: format!("{workload}: {what}"),
        x: unit.to_string(),
        y,
        lines,
    };
    let line = |outcome: &SimulationResult, of: &dyn Fn(&TimelinePoint) -> f64| {
        outcome.moments.iter().map(|moment| (moment.at_s / unit_s, of(moment))).collect::<Vec<_>>()
    };
    let mut plots: Vec<Plot> = FIGURES
        .iter()
        .copied()
        .map(|(name, what, y, of)| {
            let lines = runs.iter().map(|(run, outcome)| (run.clone(), line(outcome, &of)));
            plot(name, what, y, lines.collect())
        })
        .collect();
    if let (Some(disk), Some((_, first))) = (plots.first_mut(), runs.first()) {
        disk.lines.push(("live data".to_string(), line(first, &|moment: &TimelinePoint| moment.live_bytes)));
    }
    let io = runs.iter().map(|(run, outcome)| (run.clone(), rates(&outcome.moments, unit_s)));
    plots.push(plot("io", "disk traffic, read and written", "bytes/s", io.collect()));
    plots
}

/// Bytes per second between moments: commit log, flushes, and both directions of compactions.
fn rates(moments: &[TimelinePoint], unit_s: f64) -> Vec<(f64, f64)> {
    let total = |moment: &TimelinePoint| {
        moment.log_bytes + moment.flushed_bytes + moment.compacted_bytes + moment.compaction_read_bytes
    };
    let step = (moments.len() / 120).max(1);
    let some: Vec<&TimelinePoint> = moments.iter().step_by(step).collect();
    let rate = |pair: &[&TimelinePoint]| {
        let passed_s = (pair[1].at_s - pair[0].at_s).max(1e-9);
        (pair[1].at_s / unit_s, (total(pair[1]) - total(pair[0])) / passed_s)
    };
    some.windows(2).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_line_for_each_run() {
        let moment = |at_s: f64| TimelinePoint { at_s, log_bytes: at_s * 5.0, ..TimelinePoint::default() };
        let outcome = SimulationResult {
            total_s: 7200.0,
            moments: vec![moment(0.0), moment(3600.0), moment(7200.0)],
            ..SimulationResult::default()
        };
        let plots = plots("w", &[("a".to_string(), outcome.clone()), ("b".to_string(), outcome)]);
        assert_eq!(plots.len(), 6);
        assert!(plots.iter().all(|plot| plot.lines.len() >= 2 && plot.x == "minutes"));
        assert_eq!(plots[5].lines[0].1, [(60.0, 5.0), (120.0, 5.0)]);
    }
}
