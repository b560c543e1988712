//! Formats figures as a table for users and as lines of JSON for programs.
//!
//! A figure has a value for each run. The table shows the median, the smallest and the largest value, and the
//! fraction of the figure's limits that is reached. A line of JSON contains the values of all runs for later
//! analysis.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Serialize, Serializer};
use serde_json::{Number, Value};

use super::machine::Machine;
use super::stopwatch::Spent;

/// How this program was compiled, for the settings of a line.
pub const PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "optimized" };

/// One value of one run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// In the figure's unit.
    pub value: f64,
    /// CPU time of the whole process in microseconds per operation, or per MB if the unit is MB/s.
    pub cpu_us: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct Figure {
    pub name: String,
    pub unit: &'static str,
    pub samples: Vec<Sample>,
    /// Names of figures in the same unit that are limits of this one.
    limits: Vec<String>,
}

impl Figure {
    fn sorted(&self) -> Vec<f64> {
        let mut values: Vec<f64> = self.samples.iter().map(|sample| sample.value).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The smallest value, the median and the largest value. For an even number of values the median is the
    /// larger of the middle two.
    pub fn spread(&self) -> (f64, f64, f64) {
        let sorted = self.sorted();
        assert!(!sorted.is_empty(), "a figure that was never measured is not in the report");
        (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1])
    }

    pub fn cpu_us(&self) -> Option<f64> {
        let mut values: Vec<f64> = self.samples.iter().filter_map(|sample| sample.cpu_us).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }
}

/// All figures of a benchmark, in the order of their first measurement.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub figures: Vec<Figure>,
}

impl Report {
    /// Adds the value of a run.
    pub fn add(&mut self, name: &str, unit: &'static str, sample: Sample) {
        match self.figures.iter_mut().find(|figure| figure.name == name) {
            Some(figure) => figure.samples.push(sample),
            None => {
                let name = name.to_string();
                self.figures.push(Figure { name, unit, samples: vec![sample], limits: vec![] });
            }
        }
    }

    /// Adds a rate: `count` operations, or MB, that took `spent`.
    pub fn add_rate(&mut self, name: &str, unit: &'static str, count: f64, spent: Spent) {
        let cpu_us = Some(spent.cpu_s * 1e6 / count);
        self.add(name, unit, Sample { value: count / spent.wall_s, cpu_us });
    }

    /// Sets the limits of a figure; the table shows the fraction that was reached.
    pub fn bound(&mut self, name: &str, limits: &[&str]) {
        if let Some(figure) = self.figures.iter_mut().find(|figure| figure.name == name) {
            figure.limits = limits.iter().map(|limit| (*limit).to_string()).collect();
        }
    }

    pub fn get(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// The limits of a figure, each with the fraction that the figure reaches.
    fn shares<'a>(&self, figure: &'a Figure) -> Vec<(&'a str, f64)> {
        let share = |limit: &'a String| {
            let of = self.get(limit)?;
            assert_eq!(of.unit, figure.unit, "{} is measured by {limit}", figure.name);
            Some((limit.as_str(), figure.spread().1 / of.spread().1))
        };
        figure.limits.iter().filter_map(share).collect()
    }

    /// The table for users.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let head = ["figure", "median", "least", "greatest", "unit", "CPU us", "of the limit"];
        let mut rows: Vec<[String; 7]> = vec![head.map(str::to_string)];
        for figure in &self.figures {
            let (least, median, greatest) = figure.spread();
            let shares = self.shares(figure);
            let shares: Vec<String> =
                shares.iter().map(|(limit, share)| format!("{:.0}% {limit}", share * 100.0)).collect();
            rows.push([
                figure.name.clone(),
                number(median),
                number(least),
                number(greatest),
                figure.unit.to_string(),
                figure.cpu_us().map_or(String::new(), |us| format!("{us:.2}")),
                shares.join(", "),
            ]);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let is_text = matches!(column, 0 | 4 | 6);
                let cell = if is_text { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
                line.push_str(&cell);
                line.push_str("  ");
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// The lines for programs: one JSON object per figure.
    pub fn lines(&self, bench: &str, commit: &str, machine: &Machine, settings: &[(&str, Value)]) -> String {
        let mut out = String::new();
        for figure in &self.figures {
            let (least, median, greatest) = figure.spread();
            let shares = self.shares(figure);
            let line = Line {
                bench: format!("{bench}/{}", figure.name),
                commit,
                unit: figure.unit,
                min: json_number(least),
                median: json_number(median),
                max: json_number(greatest),
                runs: figure.samples.iter().map(|sample| json_number(sample.value)).collect(),
                cpu_us: figure.cpu_us().map(json_number),
                of_limit: shares.iter().map(|(limit, share)| (*limit, json_number(*share))).collect(),
                settings,
                machine: MachineOfLine {
                    cpu: &machine.cpu,
                    cores: machine.cores,
                    memory_mib: machine.memory_mib,
                    kernel: &machine.kernel,
                    load: json_number(machine.load),
                },
            };
            out += &serde_json::to_string(&line).expect("every field is valid JSON");
            out.push('\n');
        }
        out
    }
}

/// A line of a results file.
#[derive(Serialize)]
struct Line<'a> {
    bench: String,
    commit: &'a str,
    unit: &'a str,
    min: Number,
    median: Number,
    max: Number,
    runs: Vec<Number>,
    cpu_us: Option<Number>,
    #[serde(serialize_with = "as_object")]
    of_limit: Vec<(&'a str, Number)>,
    #[serde(serialize_with = "as_object")]
    settings: &'a [(&'a str, Value)],
    machine: MachineOfLine<'a>,
}

#[derive(Serialize)]
struct MachineOfLine<'a> {
    cpu: &'a str,
    cores: usize,
    memory_mib: u64,
    kernel: &'a str,
    load: Number,
}

/// Serializes pairs as an object with the fields in the given order.
fn as_object<'a, V: Serialize + 'a, S: Serializer>(
    pairs: &impl AsRef<[(&'a str, V)]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.as_ref().iter().map(|(name, value)| (name, value)))
}

/// Appends lines to a results file and creates it if necessary.
pub fn append(path: &Path, lines: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    OpenOptions::new().create(true).append(true).open(path)?.write_all(lines.as_bytes())
}

/// Formats a number with at least three significant digits and separated thousands.
pub fn number(value: f64) -> String {
    let decimals = if value.abs() >= 100.0 { 0 } else { 2 };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.find('.').map_or((text.as_str(), ""), |dot| text.split_at(dot));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && !out.ends_with('-') {
            out.push(' ');
        }
        out.push(digit);
    }
    out + rest
}

/// Rounds a number to four significant digits, the precision of a measurement.
fn json_number(value: f64) -> Number {
    assert!(value.is_finite(), "{value} was measured");
    if value == 0.0 || value.abs() >= 1000.0 {
        return Number::from(value.round() as i64);
    }
    let decimals = (3 - value.abs().log10().floor() as i32).max(0) as usize;
    format!("{value:.decimals$}").parse().expect("a decimal number is one of JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        for value in [30.0, 10.0, 20.0] {
            report.add("scan", "MB/s", Sample { value, cpu_us: Some(value / 2.0) });
        }
        report.add("disk", "MB/s", Sample { value: 80.0, cpu_us: None });
        report.bound("scan", &["disk", "not measured"]);
        report
    }

    #[test]
    fn the_table_shows_the_median_and_its_share_of_the_limit() {
        let table = report().table();
        let scan = table.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(scan, "scan 20.00 10.00 30.00 MB/s 10.00 25% disk");
    }

    #[test]
    fn a_line_holds_every_run() {
        let machine = Machine {
            cpu: "a \"cpu\"".to_string(),
            cores: 2,
            memory_mib: 1,
            kernel: "6".to_string(),
            load: 0.5,
        };
        let lines = report().lines("engine", "abc", &machine, &[("rows", 7.into())]);
        assert_eq!(
            lines.lines().next().unwrap(),
            r#"{"bench":"engine/scan","commit":"abc","unit":"MB/s","min":10.0,"median":20.0,"max":30.0,"runs":[30.0,10.0,20.0],"cpu_us":10.0,"of_limit":{"disk":0.25},"settings":{"rows":7},"machine":{"cpu":"a \"cpu\"","cores":2,"memory_mib":1,"kernel":"6","load":0.5}}"#
        );
    }

    #[test]
    fn numbers_are_legible() {
        assert_eq!(
            [1_234_567.0, 999.0, 12.345, 0.0, -1234.0].map(number),
            ["1 234 567", "999", "12.35", "0.00", "-1 234"]
        );
        let written = [1234.56, 1.0, 0.012345, 0.0].map(|value| json_number(value).to_string());
        assert_eq!(written, ["1235", "1.0", "0.01235", "0"]);
    }
}
