//! Prints a histogram with bars and percentiles in the format of Cassandra's tools. Source:
//! `tools/Util.java`, `TermHistogram`.

use base::histogram::EstimatedHistogram;

/// Number of buckets of the histogram from which percentiles are computed.
const PERCENTILE_OFFSETS: usize = 165;
const BAR_COLUMNS: f64 = 30.0;

/// Appends the table of `(value, count)` pairs, which rise by value.
pub(super) fn push_histogram(
    out: &mut String,
    title: &str,
    counts: &[(u64, u64)],
    name: impl Fn(u64) -> String,
) {
    let sum: f64 = counts.iter().map(|(_, count)| *count as f64).sum();
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let width = counts.iter().map(|(value, _)| name(*value).len()).max().unwrap_or(0).max(title.len());
    let count_width = counts.iter().map(|(_, count)| count.to_string().len()).max().unwrap_or(0).max(5);
    *out += &format!("   {title:<width$} | {:<count_width$}  (%)  Histogram \n", "Count");
    let mut of_all = EstimatedHistogram::new(PERCENTILE_OFFSETS);
    for (value, count) in counts {
        of_all.add_many(*value, *count);
        let percent = (100.0 * (*count as f64 / sum)) as u64;
        let name = name(*value);
        *out += &format!("   {name:<width$} | {count:>count_width$} ({percent:>3}) {}\n", bar(*count, most));
    }
    out.push_str("   Percentiles\n");
    let percentiles = [("50th", 0.5), ("75th", 0.75), ("95th", 0.95), ("98th", 0.98), ("99th", 0.99)];
    for (label, fraction) in percentiles {
        *out += &format!("   {label:<10}{}\n", name(of_all.percentile(fraction)));
    }
    *out += &format!("   {:<10}{}\n", "Min", name(of_all.min()));
    *out += &format!("   {:<10}{}\n", "Max", name(of_all.max()));
}

fn bar(count: u64, most: u64) -> String {
    let columns = count as f64 / most as f64 * BAR_COLUMNS;
    let mut bar = "O".repeat(columns as usize);
    let rest = columns - columns.floor();
    if rest >= 0.75 {
        bar.push('o');
    } else if rest >= 0.3 {
        bar.push('.');
    }
    bar
}
