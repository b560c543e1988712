//! Compares the tables of figures in bench/README.md with the records in bench/results/.
//!
//! Above each table stands its source, `<!-- rests on FILE.ndjson @ COMMIT PREFIX -->`: the lines of one
//! commit whose `bench` has this prefix (no prefix: all lines). Every number of the table, except in the
//! first column, must be a number of those lines, rounded as in the table; factors (`1.5x`) are ignored. The
//! commit must be of a committed tree (no `+`), and no line may be of a run that missed its rate. A table
//! without such a source begins with a line `*Not on record: WHY*`.

use crate::text;

const PAGE: &str = "bench/README.md";
/// A run keeps its rate if it reaches this part of it.
const RATE_KEPT: f64 = 0.95;

/// The source line of a table, and its rows without the head.
struct Figures<'a> {
    line: usize,
    above: &'a str,
    rows: Vec<&'a str>,
}

fn tables(page: &str) -> Vec<Figures<'_>> {
    let lines: Vec<&str> = page.lines().collect();
    let rules = (0..lines.len()).filter(|at| lines[*at].starts_with("|---"));
    let table = |at: usize| Figures {
        line: at,
        above: lines[..at - 1].iter().rev().find(|line| !line.trim().is_empty()).unwrap_or(&""),
        rows: lines[at + 1..].iter().take_while(|line| line.starts_with('|')).copied().collect(),
    };
    rules.map(table).collect()
}

/// Numbers with their count of decimal places; numbers within words and factors are left out.
fn numbers(text: &str) -> Vec<(f64, usize)> {
    let mut found = vec![];
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let len = rest.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '.').unwrap_or(rest.len());
        let word = rest[..len].trim_end_matches([',', '.']);
        if !first.is_ascii_digit() || word.is_empty() {
            before = first;
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let after = rest[word.len()..].chars().next();
        if !before.is_alphanumeric() && after != Some('x') {
            let digits = word.replace(',', "");
            let decimals = digits.split_once('.').map_or(0, |(_, behind)| behind.len());
            found.extend(digits.parse().map(|value| (value, decimals)));
        }
        before = '0';
        rest = &rest[word.len()..];
    }
    found
}

/// The value of a key in a line of JSON, as text.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.split_once(&format!("\"{key}\":"))?.1.trim_start();
    match rest.strip_prefix('"') {
        Some(rest) => rest.split('"').next(),
        None => rest.split([',', '}', ']']).next(),
    }
}

/// The errors of a table. `record` returns the text of the file that the table names.
fn faults(table: &Figures<'_>, record: impl Fn(&str) -> String) -> Vec<String> {
    if table.above.starts_with("*Not on record: ") && table.above.ends_with('*') {
        return vec![];
    }
    let named = table.above.strip_prefix("<!-- rests on ").and_then(|rest| rest.strip_suffix(" -->"));
    let Some((file, (commit, prefix))) = named
        .and_then(|named| named.split_once(" @ "))
        .map(|(file, rest)| (file, rest.split_once(' ').unwrap_or((rest, ""))))
    else {
        return vec!["it does not say which lines of bench/results it rests on".to_string()];
    };
    if commit.ends_with('+') {
        return vec![format!("{commit} is of a tree that was not committed")];
    }
    let text = record(file);
    let is_of_it = |line: &&str| {
        value(line, "commit") == Some(commit) && value(line, "bench").unwrap_or("").starts_with(prefix)
    };
    let lines: Vec<&str> = text.lines().filter(is_of_it).collect();
    if lines.is_empty() {
        return vec![format!("{file} has no lines of {commit} {prefix:?}")];
    }
    let mut faults = vec![];
    for line in &lines {
        let number = |key: &str| value(line, key).and_then(|text| text.parse::<f64>().ok());
        let bench = value(line, "bench").unwrap_or("");
        let (rate, had) = (number("writes_per_s").unwrap_or(0.0), number("median").unwrap_or(0.0));
        if bench.contains("/writes/") && had < rate * RATE_KEPT {
            faults.push(format!("{bench}: {had} writes a second, at {rate} it was to be"));
        }
    }
    // Numbers of lists follow a bracket, numbers of keys a colon.
    let on_record: Vec<f64> = lines
        .iter()
        .flat_map(|line| line.split([':', '[', ',', '}', ']']))
        .filter_map(|word| word.trim().parse().ok())
        .collect();
    for row in &table.rows {
        let cells = row.trim_matches('|').split_once('|').map_or("", |(_, cells)| cells);
        for (number, decimals) in numbers(cells) {
            let unit = 10f64.powi(-(decimals as i32));
            if !on_record.iter().any(|value| (value - number).abs() <= unit * 0.501) {
                faults.push(format!("{number} of {row:?} is in no line of {file} @ {commit} {prefix}"));
            }
        }
    }
    faults
}

#[test]
fn every_table_of_figures_rests_on_one_committed_run() {
    let page = text(PAGE);
    let (_, reached) = page.split_once("## What was reached").expect("the page has its figures there");
    let tables = tables(reached);
    assert!(tables.len() >= 8, "{} tables", tables.len());
    let first = page.lines().count() - reached.lines().count();
    let faults: Vec<String> = tables
        .iter()
        .flat_map(|table| {
            let faults = faults(table, |file| text(&format!("bench/results/{file}")));
            faults.into_iter().map(move |fault| format!("{PAGE}:{}: {fault}", first + table.line))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(tables.iter().any(|table| table.above.starts_with("<!-- rests on ")), "none is on record");
}

#[test]
fn tables_that_mix_or_miss_are_found() {
    let record = "{\"bench\":\"a/writes/X\",\"commit\":\"c1\",\"median\":900.4,\"settings\":{\"writes_per_s\":1000}}\n\
                  {\"bench\":\"b/p99/X\",\"commit\":\"c1\",\"median\":1.25}\n\
                  {\"bench\":\"b/p99/X\",\"commit\":\"c2\",\"median\":7.5}\n\
                  {\"bench\":\"b/p99/X\",\"commit\":\"c3+\",\"median\":8}\n";
    let found = |above: &str, row: &str| {
        let page = format!("text\n\n{above}\n\n| h | i |\n|---|---|\n{row}\n");
        faults(&tables(&page)[0], |_| record.to_string())
    };
    let rests = |on: &str| format!("<!-- rests on r.ndjson @ {on} -->");
    assert_eq!(found(&rests("c1 b"), "| 5 | 1.3 ms, 2.0x, p99 1.25 |"), Vec::<String>::new());
    assert_eq!(found(&rests("c1 b"), "| 5 | 1.25 and 7.5 |").len(), 1, "two commits are mixed");
    assert_eq!(found(&rests("c3+ b"), "| 5 | 8 |").len(), 1, "not committed");
    assert!(found(&rests("c1"), "| 5 | 900 |")[0].contains("900.4 writes a second"), "missed its rate");
    assert_eq!(found(&rests("c4"), "| 5 | 1.25 |").len(), 1, "no such lines");
    assert_eq!(found("no word", "| 5 | 1.25 |").len(), 1);
    assert_eq!(found("*Not on record: lost*", "| 5 | 1.25 |"), Vec::<String>::new());
}
