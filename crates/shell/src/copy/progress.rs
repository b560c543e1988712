//! Rate, remaining time, and their line on the terminal.

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use super::time;

/// Counts rows; see the head of this file.
#[derive(Debug)]
pub struct RateMeter {
    start: Instant,
    period_s: f64,
    last: Instant,
    last_rows: u64,
    pub rows: u64,
    rate_file: Option<String>,
    has_terminal: bool,
    has_line: bool,
}

impl RateMeter {
    /// Shows a line at most once per period if standard error is a terminal. `rate_file` gets the same lines.
    pub fn new(period_s: f64, rate_file: Option<String>) -> Self {
        let now = time::now();
        if let Some(path) = &rate_file {
            // A file of an earlier run is replaced, as by cqlsh.
            let _ = std::fs::remove_file(path);
        }
        let has_terminal = std::io::stderr().is_terminal();
        Self {
            start: now,
            period_s,
            last: now,
            last_rows: 0,
            rows: 0,
            rate_file,
            has_terminal,
            has_line: false,
        }
    }

    pub fn elapsed_s(&self) -> f64 {
        time::now().duration_since(self.start).as_secs_f64()
    }

    /// Shows the line if it is time. `done` is the finished part of the work, from 0 to 1, if it is known.
    pub fn show(&mut self, done: Option<f64>, is_end: bool) {
        let now = time::now();
        let period_s = now.duration_since(self.last).as_secs_f64();
        if !is_end && period_s < self.period_s.max(0.05) {
            return;
        }
        let elapsed_s = self.elapsed_s();
        let line = line(self.rows, (self.rows - self.last_rows) as f64 / period_s.max(1e-9), elapsed_s, done);
        self.last = now;
        self.last_rows = self.rows;
        if self.has_terminal {
            eprint!("\r{line}\x1b[K");
            self.has_line = true;
        }
        if let Some(path) = &self.rate_file {
            let file = OpenOptions::new().create(true).append(true).open(path);
            if file.and_then(|mut file| writeln!(file, "{line}")).is_err() {
                eprintln!("RATEFILE: cannot write {path}; no more rates are written to it");
                self.rate_file = None;
            }
        }
    }

    /// Ends the line, so that a message may follow.
    pub fn end_line(&mut self) {
        if std::mem::take(&mut self.has_line) {
            eprintln!();
        }
    }
}

fn line(rows: u64, rate: f64, elapsed_s: f64, done: Option<f64>) -> String {
    let average = rows as f64 / elapsed_s.max(1e-9);
    let mut line =
        format!("Processed: {rows} rows; Rate: {rate:7.0} rows/s; Avg. rate: {average:7.0} rows/s");
    if let Some(done) = done.filter(|done| *done > 0.0) {
        let left_s = (elapsed_s / done - elapsed_s).max(0.0).round() as u64;
        line += &format!(
            "; {:3.0} %, {}:{:02}:{:02} left",
            done * 100.0,
            left_s / 3600,
            left_s / 60 % 60,
            left_s % 60
        );
    }
    line
}

/// Such as `1 minute and 2.345 seconds`.
pub fn interval_text(seconds: f64) -> String {
    let mut parts = vec![];
    let mut rest = seconds;
    for (length, unit) in [(86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute")] {
        let count = (rest / length).floor();
        rest -= count * length;
        if count >= 1.0 {
            parts.push(format!("{count} {unit}{}", if count > 1.0 { "s" } else { "" }));
        }
    }
    let end = format!("{rest:.3} seconds");
    match parts.as_slice() {
        [] => end,
        [one] => format!("{one} and {end}"),
        _ => format!("{}, and {end}", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(interval_text(1.5), "1.500 seconds");
        assert_eq!(interval_text(62.0), "1 minute and 2.000 seconds");
        assert_eq!(interval_text(90_061.0), "1 day, 1 hour, 1 minute, and 1.000 seconds");
        assert_eq!(
            line(100, 50.0, 10.0, Some(0.25)),
            "Processed: 100 rows; Rate:      50 rows/s; Avg. rate:      10 rows/s;  25 %, 0:00:30 left"
        );
        assert_eq!(
            line(0, 0.0, 0.0, None),
            "Processed: 0 rows; Rate:       0 rows/s; Avg. rate:       0 rows/s"
        );
    }
}
