//! The lines of a run: one for each interval, a summary with the labels of cassandra-stress, and JSON.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::measurement::{Measurement, Measurements};

/// The heading of the lines of intervals.
pub const HEADING: &str = "type,      total ops,    op/s,    pk/s,   row/s,    mean,     med,     .95,     .99,    \
                           .999,     max,   time, errors";

/// A figure of a histogram, in milliseconds.
type Latency = fn(&Histogram<u64>) -> f64;

/// A line for an operation, or for `total`. `so_far`: operations since the start; `measured`: of the
/// interval.
pub fn line(
    name: &str,
    so_far: u64,
    measured: &Measurement,
    interval: Duration,
    since_start: Duration,
) -> String {
    let seconds = interval.as_secs_f64().max(1e-9);
    let of = &measured.response_us;
    format!(
        "{name:<10}{so_far:>10}, {:>7.0}, {:>7.0}, {:>7.0}, {:>7.1}, {:>7.1}, {:>7.1}, {:>7.1}, {:>7.1}, {:>7.1}, {:>6.1}, \
         {:>6}",
        measured.operations() as f64 / seconds,
        measured.partitions as f64 / seconds,
        measured.rows as f64 / seconds,
        of.mean() / 1000.0,
        at(of, 0.5),
        at(of, 0.95),
        at(of, 0.99),
        at(of, 0.999),
        if of.is_empty() { 0.0 } else { of.max() as f64 / 1000.0 },
        since_start.as_secs_f64(),
        measured.errors
    )
}

/// Milliseconds.
fn at(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1000.0
}

/// The summary of a run. With a rate, latencies are counted from the moment an operation was due, and service
/// times, which begin when it was sent, come in lines of their own.
pub fn summary(names: &[&str], measured: &Measurements, time: Duration, rate: Option<f64>) -> String {
    let seconds = time.as_secs_f64().max(1e-9);
    let total = measured.total();
    let mut out = "\nResults:\n".to_string();
    let mut row = |label: &str, of: &dyn Fn(&Measurement) -> String| {
        let parts: Vec<String> = names
            .iter()
            .zip(&measured.operations)
            .map(|(name, operation)| format!("{}: {}", name.to_uppercase(), of(operation)))
            .collect();
        writeln!(out, "{label:<26}: {} [{}]", of(&total), parts.join(", ")).expect("a String takes all");
    };
    let a_second = |count: u64| format!("{:>8} ", thousands((count as f64 / seconds).round() as u64));
    row("Op rate", &|of| format!("{}op/s", a_second(of.operations())));
    row("Partition rate", &|of| format!("{}pk/s", a_second(of.partitions)));
    row("Row rate", &|of| format!("{}row/s", a_second(of.rows)));
    let latencies: [(&str, Latency); 6] = [
        ("mean", |of| of.mean() / 1000.0),
        ("median", |of| at(of, 0.5)),
        ("95th percentile", |of| at(of, 0.95)),
        ("99th percentile", |of| at(of, 0.99)),
        ("99.9th percentile", |of| at(of, 0.999)),
        ("max", |of| if of.is_empty() { 0.0 } else { of.max() as f64 / 1000.0 }),
    ];
    for (name, of) in latencies {
        row(&format!("Latency {name}"), &|measured| format!("{:>6.1} ms", of(&measured.response_us)));
    }
    if rate.is_some() {
        for (name, of) in latencies {
            row(&format!("Service time {name}"), &|measured| format!("{:>6.1} ms", of(&measured.service_us)));
        }
    }
    row("Total partitions", &|of| format!("{:>9}", thousands(of.partitions)));
    row("Total errors", &|of| format!("{:>9}", thousands(of.errors)));
    row("Total retries", &|of| format!("{:>9}", thousands(of.retries)));
    let whole_s = time.as_secs();
    writeln!(
        out,
        "{:<26}: {:02}:{:02}:{:02}\n\nEND",
        "Total operation time",
        whole_s / 3600,
        whole_s / 60 % 60,
        whole_s % 60
    )
    .expect("a String takes all");
    out
}

/// `1234567` as `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The figures of a run as a JSON object; latencies in microseconds.
pub fn json(names: &[&str], measured: &Measurements, time: Duration, rate: Option<f64>) -> Value {
    let histogram = |of: &Histogram<u64>| {
        json!({
            "mean": of.mean(),
            "p50": of.value_at_quantile(0.5),
            "p95": of.value_at_quantile(0.95),
            "p99": of.value_at_quantile(0.99),
            "p999": of.value_at_quantile(0.999),
            "max": if of.is_empty() { 0 } else { of.max() },
        })
    };
    let one = |of: &Measurement| {
        json!({
            "operations": of.operations(),
            "operations_per_s": of.operations() as f64 / time.as_secs_f64().max(1e-9),
            "partitions": of.partitions,
            "rows": of.rows,
            "errors": of.errors,
            "retries": of.retries,
            "response_us": histogram(&of.response_us),
            "service_us": histogram(&of.service_us),
        })
    };
    let operations: serde_json::Map<String, Value> =
        names.iter().zip(&measured.operations).map(|(name, of)| (name.to_string(), one(of))).collect();
    json!({
        "time_s": time.as_secs_f64(),
        "wanted_operations_per_s": rate,
        "total": one(&measured.total()),
        "operations": operations,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_the_labels_that_scripts_look_for() {
        let mut measured = Measurements::new(2);
        for us in [1_000, 2_000, 3_000, 100_000] {
            measured.operations[0].add(us, us / 2, 1, 1);
        }
        measured.operations[1].errors = 1;
        let text = summary(&["insert", "read"], &measured, Duration::from_secs(2), Some(2.0));
        for line in [
            "Op rate                   :        2 op/s [INSERT:        2 op/s, READ:        0 op/s]",
            "Latency median            :    2.0 ms [INSERT:    2.0 ms, READ:    0.0 ms]",
            "Latency max               :  100.0 ms [INSERT:  100.0 ms, READ:    0.0 ms]",
            "Service time median       :    1.0 ms [INSERT:    1.0 ms, READ:    0.0 ms]",
            "Total errors              :         1 [INSERT:         0, READ:         1]",
            "Total operation time      : 00:00:02",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(json(&["insert", "read"], &measured, Duration::from_secs(2), None)["total"]["errors"], 1);
    }
}
