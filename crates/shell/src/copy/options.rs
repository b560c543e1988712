//! The options of COPY: those of cqlsh with its defaults, and a few of ours.
//!
//! [`TABLE`] has all names. An option that cannot have an effect here is accepted with a warning that states
//! the reason; an unknown one is refused. With CONFIGFILE, options are also read from the sections `[copy]`,
//! `[copy-from]` or `[copy-to]`, `[copy:ks.table]` and `[copy-from:ks.table]` or `[copy-to:ks.table]`, later
//! ones before earlier ones, and the statement before the file.

use std::path::PathBuf;

use super::dialect::Dialect;
use super::statement::{CopyStatement, Direction};
use super::time_format::TimeFormat;

/// Where an option is accepted, and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Both,
    From,
    To,
    /// Accepted without effect, for this reason.
    Without(&'static str),
}

/// All options. `docs/copy.md` and HELP COPY are compared with it.
const TABLE: &[(&str, Use)] = &[
    ("begintoken", Use::To),
    ("boolstyle", Use::Both),
    ("checkpoint", Use::From),
    (
        "childtimeout",
        Use::Without("there are no child processes; REQUESTTIMEOUT limits the wait for an answer"),
    ),
    ("chunksize", Use::From),
    ("configfile", Use::Both),
    ("datetimeformat", Use::Both),
    ("decimalsep", Use::Both),
    ("delimiter", Use::Both),
    ("doubleprecision", Use::To),
    ("encoding", Use::Both),
    ("endtoken", Use::To),
    ("errfile", Use::From),
    ("escape", Use::Both),
    ("floatprecision", Use::To),
    ("format", Use::Both),
    ("header", Use::Both),
    ("ingestrate", Use::From),
    ("maxattempts", Use::Both),
    ("maxbackoffattempts", Use::Without("a worker that waits for the server does not read further rows")),
    ("maxbatchsize", Use::From),
    ("maxinflightmessages", Use::From),
    ("maxinserterrors", Use::From),
    ("maxoutputsize", Use::To),
    ("maxparseerrors", Use::From),
    ("maxpendingchunks", Use::Without("at most two chunks wait for each worker")),
    (
        "maxrequests",
        Use::Without("a worker requests the next page while it writes one; NUMPROCESSES sets how many work"),
    ),
    ("maxrows", Use::From),
    ("minbatchsize", Use::Without("rows are grouped by partition, and groups of any size share batches")),
    ("null", Use::Both),
    ("numprocesses", Use::Both),
    ("pagesize", Use::To),
    ("pagetimeout", Use::To),
    ("preparedstatements", Use::Without("statements are always prepared")),
    ("quote", Use::Both),
    ("ratefile", Use::Both),
    ("reportfrequency", Use::Both),
    ("requesttimeout", Use::From),
    ("skipcols", Use::From),
    ("skiprows", Use::From),
    ("textescapes", Use::Both),
    ("thousandssep", Use::Both),
    ("ttl", Use::From),
    ("unsetnulls", Use::From),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    /// A JSON object on each line.
    Json,
}

/// How values are written as text.
#[derive(Clone, Debug)]
pub struct ValueStyle {
    pub null: String,
    /// The words for true and false.
    pub booleans: [String; 2],
    pub decimal_separator: String,
    pub thousands_separator: String,
    pub float_digits: i32,
    pub double_digits: i32,
    pub times: TimeFormat,
    /// Whether backslashes in strings are doubled and control characters escaped, as cqlsh writes them.
    pub text_escapes: bool,
}

/// The options of a COPY; see `docs/copy.md`.
#[derive(Clone, Debug)]
pub struct Options {
    pub format: Format,
    pub dialect: Dialect,
    pub values: ValueStyle,
    pub has_header: bool,
    pub workers: usize,
    pub attempts_max: u32,
    pub report_period_s: f64,
    pub rate_file: Option<String>,
    pub chunk_rows: usize,
    /// Rows per second.
    pub rate_max: Option<u64>,
    pub batch_rows_max: usize,
    pub in_flight_max: usize,
    pub request_timeout_s: u64,
    pub rows_max: Option<u64>,
    pub skip_rows: u64,
    pub skip_columns: Vec<String>,
    /// `None`: any number.
    pub parse_errors_max: Option<u64>,
    pub insert_errors_max: Option<u64>,
    pub error_file: Option<String>,
    pub checkpoint: Option<String>,
    pub ttl_s: Option<i32>,
    pub unset_nulls: bool,
    pub page_rows: i32,
    pub page_timeout_s: u64,
    pub begin_token: Option<i64>,
    pub end_token: Option<i64>,
    pub output_rows_max: Option<u64>,
}

struct Given {
    values: Vec<(String, String)>,
}

impl Given {
    fn take(&mut self, name: &str) -> Option<String> {
        debug_assert!(TABLE.iter().any(|(known, _)| *known == name), "{name} is missing in TABLE");
        let at = self.values.iter().rposition(|(given, _)| given == name)?;
        Some(self.values.remove(at).1)
    }

    fn number<T>(&mut self, name: &str, least: T) -> Result<Option<T>, String>
    where
        T: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(text) = self.take(name) else { return Ok(None) };
        match text.trim().replace(' ', "").parse::<T>() {
            Ok(number) if number >= least => Ok(Some(number)),
            _ => {
                Err(format!("{} = {text}: a number of at least {least} is needed", name.to_ascii_uppercase()))
            }
        }
    }

    /// A limit, where a negative number means that there is none.
    fn limit(&mut self, name: &str, default: Option<u64>) -> Result<Option<u64>, String> {
        match self.number::<i64>(name, i64::MIN)? {
            None => Ok(default),
            Some(number) => Ok(u64::try_from(number).ok()),
        }
    }

    fn switch(&mut self, name: &str, default: bool) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(format!("{} = {text}: true or false is needed", name.to_ascii_uppercase())),
        }
    }

    fn byte(&mut self, name: &str, default: u8) -> Result<u8, String> {
        match self.take(name).as_deref() {
            None => Ok(default),
            Some("\\t") => Ok(b'\t'),
            Some(text) => match text.as_bytes() {
                [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(*byte),
                _ => Err(format!(
                    "{} = '{text}': one ASCII character is needed, or '\\t' for a tab",
                    name.to_ascii_uppercase()
                )),
            },
        }
    }
}

/// Reads the options of a statement. Returns the warnings too.
///
/// # Errors
/// An option is unknown, or its value is invalid.
pub fn read(
    statement: &CopyStatement,
    keyspace: &str,
    workers_default: usize,
    resolve: &dyn Fn(&str) -> PathBuf,
) -> Result<(Options, Vec<String>), String> {
    let mut values = vec![];
    if let Some((_, path)) = statement.options.iter().rev().find(|(name, _)| name == "configfile") {
        let text =
            std::fs::read_to_string(resolve(path)).map_err(|error| format!("cannot read {path}: {error}"))?;
        values = from_file(&text, keyspace, &statement.table, statement.direction);
        values.retain(|(name, _)| statement.options.iter().all(|(given, _)| given != name));
    }
    values.extend(statement.options.iter().filter(|(name, _)| name != "configfile").cloned());
    let mut warnings = vec![];
    for (name, _) in &values {
        let upper = name.to_ascii_uppercase();
        let (verb, other) = match statement.direction {
            Direction::From => ("FROM", Use::To),
            Direction::To => ("TO", Use::From),
        };
        match TABLE.iter().find(|(known, _)| known == name) {
            None => {
                let hint = base::suggest::nearest(name, TABLE.iter().map(|(known, _)| *known))
                    .map_or(String::new(), |known| format!("; did you mean {}?", known.to_ascii_uppercase()));
                return Err(format!("Unrecognized COPY {verb} options: {upper}{hint}"));
            }
            // cqlsh accepts options of the other direction too, because they may come from a file.
            Some((_, kind)) if *kind == other => {
                warnings.push(format!("{upper} has no effect in COPY {verb}"));
            }
            Some((_, Use::Without(reason))) => warnings.push(format!("{upper} has no effect: {reason}")),
            Some(_) => {}
        }
    }
    let options = of(&mut Given { values }, statement, workers_default)?;
    Ok((options, warnings))
}

fn of(given: &mut Given, statement: &CopyStatement, workers_default: usize) -> Result<Options, String> {
    let is_from = statement.direction == Direction::From;
    let format = match given.take("format").map(|text| text.to_ascii_lowercase()).as_deref() {
        None | Some("csv") => Format::Csv,
        Some("json") => Format::Json,
        Some(other) => {
            return Err(format!("FORMAT = {other}: there are csv and json (an object on each line)"));
        }
    };
    if let Some(encoding) = given.take("encoding") {
        let plain = encoding.to_ascii_lowercase().replace(['-', '_'], "");
        if !matches!(plain.as_str(), "utf8" | "ascii") {
            return Err(format!(
                "ENCODING = {encoding}: only UTF-8 is read and written; iconv converts files"
            ));
        }
    }
    let quote = given.byte("quote", b'"')?;
    let escape = given.byte("escape", b'\\')?;
    let delimiter = given.byte("delimiter", b',')?;
    if delimiter == quote || delimiter == escape {
        return Err("DELIMITER must differ from QUOTE and ESCAPE".to_string());
    }
    let booleans = given.take("boolstyle").unwrap_or_else(|| "True, False".to_string());
    let booleans: Vec<String> = booleans.split(',').map(|word| word.trim().to_string()).collect();
    let booleans: [String; 2] = match <[String; 2]>::try_from(booleans) {
        Ok(words) if words[0] != words[1] && words.iter().all(|word| !word.is_empty()) => words,
        _ => return Err("BOOLSTYLE needs two different words, such as 'yes,no'".to_string()),
    };
    let times = TimeFormat::new(given.take("datetimeformat").as_deref())?;
    let page_rows = given.number("pagesize", 1)?.unwrap_or(1_000);
    let batch_rows_max = given.number("maxbatchsize", 1)?.unwrap_or(20);
    let ttl_s = match given.number::<i32>("ttl", -1)? {
        Some(ttl_s) if ttl_s >= 0 => Some(ttl_s),
        _ => None,
    };
    let skipped = given.take("skipcols").unwrap_or_default();
    Ok(Options {
        format,
        dialect: Dialect { delimiter, quote, escape: (quote != escape).then_some(escape) },
        values: ValueStyle {
            null: given.take("null").unwrap_or_default(),
            booleans,
            decimal_separator: given.take("decimalsep").unwrap_or_else(|| ".".to_string()),
            thousands_separator: given.take("thousandssep").unwrap_or_default(),
            float_digits: given.number("floatprecision", 1)?.unwrap_or(5),
            double_digits: given.number("doubleprecision", 1)?.unwrap_or(12),
            times,
            text_escapes: given.switch("textescapes", !is_from)?,
        },
        has_header: given.switch("header", false)?,
        workers: given.number("numprocesses", 1)?.unwrap_or(workers_default).min(64),
        attempts_max: given.number("maxattempts", 1)?.unwrap_or(5),
        report_period_s: given.number("reportfrequency", 0.0)?.unwrap_or(0.25),
        rate_file: given.take("ratefile").filter(|path| !path.is_empty()),
        chunk_rows: given.number("chunksize", 1)?.unwrap_or(5_000),
        rate_max: given.number("ingestrate", 1)?,
        batch_rows_max,
        in_flight_max: given.number("maxinflightmessages", 1)?.unwrap_or(256).min(8_192),
        request_timeout_s: given.number("requesttimeout", 1)?.unwrap_or(60),
        rows_max: given.limit("maxrows", None)?,
        skip_rows: given.number("skiprows", 0)?.unwrap_or(0),
        skip_columns: skipped
            .split(',')
            .map(|name| name.trim().to_string())
            .filter(|n| !n.is_empty())
            .collect(),
        parse_errors_max: given.limit("maxparseerrors", None)?,
        insert_errors_max: given.limit("maxinserterrors", Some(1_000))?,
        error_file: given.take("errfile").filter(|path| !path.is_empty()),
        checkpoint: given.take("checkpoint").filter(|path| !path.is_empty()),
        ttl_s,
        unset_nulls: given.switch("unsetnulls", false)?,
        page_rows,
        page_timeout_s: given.number("pagetimeout", 1)?.unwrap_or((page_rows as u64 / 100).max(10)),
        begin_token: token(given, "begintoken")?,
        end_token: token(given, "endtoken")?,
        output_rows_max: given.limit("maxoutputsize", None)?.filter(|rows| *rows > 0),
    })
}

fn token(given: &mut Given, name: &str) -> Result<Option<i64>, String> {
    let Some(text) = given.take(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = text.replace(' ', "").parse();
    number
        .map(Some)
        .map_err(|_| format!("{} = {text}: a token of 64 bits is needed", name.to_ascii_uppercase()))
}

/// The options in the sections of a file that concern this table, the most special last.
fn from_file(text: &str, keyspace: &str, table: &str, direction: Direction) -> Vec<(String, String)> {
    let verb = if direction == Direction::From { "from" } else { "to" };
    let wanted = [
        "copy".to_string(),
        format!("copy-{verb}"),
        format!("copy:{keyspace}.{table}"),
        format!("copy-{verb}:{keyspace}.{table}"),
    ];
    let mut found = vec![];
    for section in &wanted {
        let mut is_inside = false;
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                is_inside = name == section;
            } else if is_inside && !line.starts_with(['#', ';']) {
                let at = line.find(['=', ':']);
                let Some((name, value)) = at.map(|at| (&line[..at], &line[at + 1..])) else { continue };
                found.push((name.trim().to_ascii_lowercase(), value.trim().to_string()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::statement;
    use super::*;

    fn options(with: &str) -> Result<(Options, Vec<String>), String> {
        read(&statement::parse(&format!("COPY t FROM 'x' {with}")).unwrap(), "ks", 3, &|name| name.into())
    }

    #[test]
    fn defaults_are_those_of_cqlsh() {
        let (options, warnings) = options("").unwrap();
        assert_eq!(options.dialect, Dialect::default());
        assert_eq!((options.values.null.as_str(), options.has_header, options.workers), ("", false, 3));
        assert_eq!((options.chunk_rows, options.batch_rows_max, options.attempts_max), (5_000, 20, 5));
        assert_eq!((options.parse_errors_max, options.insert_errors_max), (None, Some(1_000)));
        assert_eq!((options.rows_max, options.ttl_s, options.skip_rows), (None, None, 0));
        assert!(warnings.is_empty());
    }

    #[test]
    fn the_page_and_help_name_all_options() {
        let page = include_str!("../../../../docs/copy.md");
        let help = crate::help::help(Some("copy"));
        for (name, kind) in TABLE {
            let name = name.to_ascii_uppercase();
            assert!(page.contains(&format!("`{name}`")), "docs/copy.md: {name}");
            let is_in_help = help.split_whitespace().any(|word| word == name);
            assert_eq!(is_in_help, !matches!(kind, Use::Without(_)), "HELP COPY: {name}");
        }
    }

    #[test]
    fn values_are_read() {
        let (options, warnings) = options(
            "WITH HEADER = true AND DELIMITER = '\\t' AND QUOTE = '''' AND ESCAPE = '''' AND MAXROWS = 7 AND \
             MAXINSERTERRORS = -1 AND MAXPARSEERRORS = 0 AND SKIPCOLS = 'a, b' AND BOOLSTYLE = 'yes, no' AND TTL = 60",
        )
        .unwrap();
        assert_eq!(options.dialect, Dialect { delimiter: b'\t', quote: b'\'', escape: None });
        assert_eq!((options.rows_max, options.insert_errors_max), (Some(7), None));
        assert_eq!(options.parse_errors_max, Some(0));
        assert_eq!(options.skip_columns, ["a", "b"]);
        assert_eq!(options.values.booleans, ["yes", "no"]);
        assert_eq!(options.ttl_s, Some(60));
        assert!(options.has_header && warnings.is_empty());
    }

    #[test]
    fn wrong_options_are_refused_and_useless_ones_are_told() {
        let error = |with: &str| options(with).unwrap_err();
        assert_eq!(
            error("WITH HAEDER = true"),
            "Unrecognized COPY FROM options: HAEDER; did you mean HEADER?"
        );
        assert_eq!(error("WITH HEADER = yes"), "HEADER = yes: true or false is needed");
        assert_eq!(error("WITH CHUNKSIZE = 0"), "CHUNKSIZE = 0: a number of at least 1 is needed");
        assert!(error("WITH DELIMITER = 'ab'").contains("one ASCII character"));
        assert!(error("WITH BOOLSTYLE = 'a'").contains("two different words"));
        assert!(error("WITH ENCODING = 'latin1'").contains("iconv"));
        let warnings = options("WITH MINBATCHSIZE = 5 AND PAGESIZE = 10").unwrap().1;
        assert_eq!(
            warnings,
            [
                "MINBATCHSIZE has no effect: rows are grouped by partition, and groups of any size share batches",
                "PAGESIZE has no effect in COPY FROM"
            ]
        );
    }

    #[test]
    fn special_sections_of_a_file_come_before_general_ones() {
        let text = "[copy]\nheader = true\nnull = a\n[copy-to]\nnull=b\n[copy-from]\n# no\nnull: c\n[copy:ks.t]\nchunksize=9\n\
                    [copy-from:ks.t]\nnull=d\n[copy-from:ks.other]\nnull=e\n";
        let found = from_file(text, "ks", "t", Direction::From);
        let mut given = Given { values: found };
        assert_eq!(given.take("null").unwrap(), "d");
        assert_eq!(given.take("chunksize").unwrap(), "9");
        assert_eq!(given.take("header").unwrap(), "true");
    }
}
