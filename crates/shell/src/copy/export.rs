//! COPY TO: workers read token ranges over connections of their own and format the rows; this thread writes
//! them.
//!
//! The ring is cut into many more ranges than workers, so that all have work to the end. A worker requests
//! the next page before it formats one. A page is repeated from its paging state if it fails in a way that
//! can pass, so no row is written twice. Rows are in the order of tokens with one worker, else in the order
//! in which pages arrive.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use model::types::push_json_string;
use protocol::{ColumnSpec, Consistency, CqlError, QueryParameters, Request, Response, Rows};

use super::columns::{TableColumns, list};
use super::options::{Format, Options};
use super::progress::{RateMeter, interval_text};
use super::statement::CopyStatement;
use super::{Place, text_out, time};
use crate::connection::{Connection, Target};
use crate::failure::Failure;
use crate::terminal;

const TICK: Duration = Duration::from_millis(50);
/// Small tables are not worth more requests, large ones need enough for all workers.
const RANGES_PER_WORKER: usize = 32;

/// Rows as text.
struct Page {
    bytes: Vec<u8>,
    /// The end of each row in `bytes`.
    ends: Vec<usize>,
}

enum Event {
    Page(Page),
    RangeDone,
    Retry { why: String, attempts: u32 },
    Failed(Failure),
}

struct Shared<'a> {
    options: &'a Options,
    target: Target,
    consistency: Consistency,
    queries: Vec<String>,
    next: AtomicUsize,
    is_stopped: AtomicBool,
}

/// # Errors
/// The table cannot be read, or the file cannot be written.
pub fn run(
    place: &mut Place<'_>,
    statement: &CopyStatement,
    table: &TableColumns,
    options: &Options,
) -> Result<(), Failure> {
    let columns = table.of_file(statement)?;
    let path = statement.file.as_deref().map(|file| (place.resolve)(file));
    let is_quiet = path.is_none();
    if is_quiet && options.output_rows_max.is_some() {
        place.output.warning("MAXOUTPUTSIZE has no effect in COPY TO STDOUT");
    }
    let mut header = vec![];
    if options.has_header && options.format == Format::Csv {
        for (i, column) in columns.iter().enumerate() {
            options.dialect.write_field(&mut header, column, i == 0);
        }
        options.dialect.end_line(&mut header, 0);
    }
    let rows_max = options.output_rows_max.filter(|_| !is_quiet);
    let mut files = Files::open(path, rows_max)?;
    files.write(&header)?;
    if !is_quiet {
        let text = format!("Starting copy of {} with columns [{}].\n", table.name(), columns.join(", "));
        place.output.message(&text)?;
    }
    let mut target = place.session.target().clone();
    target.request_timeout = Duration::from_secs(options.page_timeout_s);
    let shared = Shared {
        options,
        target,
        consistency: place.session.consistency,
        queries: queries(table, &columns, options),
        next: AtomicUsize::new(0),
        is_stopped: AtomicBool::new(false),
    };
    let mut meter = RateMeter::new(options.report_period_s, options.rate_file.clone());
    let done = export(place, &shared, &mut files, &mut meter);
    meter.show(None, true);
    meter.end_line();
    let flushed = files.flush();
    if !is_quiet {
        let text = format!(
            "{} rows exported to {} files in {}.\n",
            meter.rows,
            files.count,
            interval_text(meter.elapsed_s())
        );
        place.output.message(&text)?;
    }
    match done {
        Err(Failure::Interrupted) => {
            Err(Failure::Command("COPY was interrupted; the file is not complete".to_string()))
        }
        Err(failure @ Failure::Output(_)) => Err(failure),
        Err(failure) => Err(Failure::Command(format!("{failure}; the file is not complete"))),
        Ok(()) => flushed,
    }
}

fn export(
    place: &mut Place<'_>,
    shared: &Shared<'_>,
    files: &mut Files,
    meter: &mut RateMeter,
) -> Result<(), Failure> {
    let workers = shared.options.workers.min(shared.queries.len());
    let (events, received) = mpsc::sync_channel(4 * workers);
    let mut failure = None;
    thread::scope(|scope| {
        for _ in 0..workers {
            let events = events.clone();
            scope.spawn(move || work(shared, &events));
        }
        drop(events);
        let mut ranges = 0;
        loop {
            let taken = match received.recv_timeout(TICK) {
                Ok(Event::Page(page)) if failure.is_none() => {
                    meter.rows += page.ends.len() as u64;
                    files.write_page(&page)
                }
                Ok(Event::Page(_)) => Ok(()),
                Ok(Event::RangeDone) => {
                    ranges += 1;
                    Ok(())
                }
                Ok(Event::Retry { why, attempts }) => {
                    meter.end_line();
                    let most = shared.options.attempts_max;
                    place.output.error(&format!("{why} (will try again, attempt {attempts} of {most})"));
                    Ok(())
                }
                Ok(Event::Failed(failure)) => Err(failure),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(why) = taken {
                failure.get_or_insert(why);
            }
            if terminal::take_interrupted() {
                failure.get_or_insert(Failure::Interrupted);
            }
            if failure.is_some() {
                shared.is_stopped.store(true, Ordering::Relaxed);
            }
            meter.show(Some(ranges as f64 / shared.queries.len() as f64), false);
        }
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// A query for each range of the ring.
fn queries(table: &TableColumns, columns: &[String], options: &Options) -> Vec<String> {
    let select = format!("SELECT {} FROM {}", list(columns), table.name());
    let key = list(&table.all[..table.partition_key_len]);
    let ranges = ranges(options.begin_token, options.end_token, options.workers * RANGES_PER_WORKER);
    let query = |Range { start, end }: Range<Option<i64>>| {
        let mut conditions = vec![];
        conditions.extend(start.map(|token| format!("token({key}) > {token}")));
        conditions.extend(end.map(|token| format!("token({key}) <= {token}")));
        let and = if conditions.is_empty() { "" } else { " WHERE " };
        format!("{select}{and}{}", conditions.join(" AND "))
    };
    ranges.into_iter().map(query).collect()
}

/// Cuts the tokens after `begin` up to `end` into ranges of about the same size. `None` is the end of the
/// ring.
fn ranges(begin: Option<i64>, end: Option<i64>, count: usize) -> Vec<Range<Option<i64>>> {
    let first = i128::from(begin.unwrap_or(i64::MIN));
    let last = i128::from(end.unwrap_or(i64::MAX));
    if last < first {
        return vec![];
    }
    let count = (count as i128).clamp(1, (last - first).max(1));
    let token = |i: i128| i64::try_from(first + (last - first) * i / count).expect("between two tokens");
    let bound = |i: i128| match i {
        0 => begin,
        i if i == count => end,
        i => Some(token(i)),
    };
    (0..count).map(|i| bound(i)..bound(i + 1)).collect()
}

fn work(shared: &Shared<'_>, events: &SyncSender<Event>) {
    let mut connection = match Connection::open_without_events(&shared.target) {
        Ok(connection) => connection,
        Err(failure) => {
            let _ = events.send(Event::Failed(failure));
            return;
        }
    };
    while let Some(query) = shared.queries.get(shared.next.fetch_add(1, Ordering::Relaxed)) {
        if shared.is_stopped.load(Ordering::Relaxed) {
            return;
        }
        match read_range(shared, &mut connection, query, events) {
            Ok(()) => drop(events.send(Event::RangeDone)),
            Err(failure) => {
                let _ = events.send(Event::Failed(failure));
                return;
            }
        }
    }
}

fn read_range(
    shared: &Shared<'_>,
    connection: &mut Connection,
    query: &str,
    events: &SyncSender<Event>,
) -> Result<(), Failure> {
    let mut columns: Option<Vec<ColumnSpec>> = None;
    let mut state: Option<Vec<u8>> = None;
    let mut stream = ask(shared, connection, query, None);
    let mut attempts = 1;
    loop {
        let answer = stream.and_then(|stream| answer_of(connection, stream));
        let mut rows = match answer {
            Ok(rows) => rows,
            Err(failure) if can_pass(&failure) && attempts < shared.options.attempts_max => {
                let _ = events.send(Event::Retry { why: failure.to_string(), attempts });
                time::pause(Duration::from_millis(100 << attempts.min(6)));
                attempts += 1;
                if !matches!(failure, Failure::Refused(_)) {
                    *connection = Connection::open_without_events(&shared.target)?;
                }
                stream = ask(shared, connection, query, state.as_deref());
                continue;
            }
            Err(failure) => return Err(failure),
        };
        attempts = 1;
        state = rows.metadata.paging_state.take();
        if shared.is_stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        let next = state.as_deref().map(|state| ask(shared, connection, query, Some(state)));
        // Later pages may come without the columns.
        if let Some(found) = rows.metadata.columns.take() {
            columns = Some(found);
        }
        let columns = columns.as_deref().unwrap_or_default();
        if !rows.rows.is_empty() && events.send(Event::Page(page(shared.options, columns, &rows))).is_err() {
            return Ok(());
        }
        match next {
            Some(next) => stream = next,
            None => return Ok(()),
        }
    }
}

fn ask(
    shared: &Shared<'_>,
    connection: &mut Connection,
    query: &str,
    state: Option<&[u8]>,
) -> Result<i16, Failure> {
    let parameters = QueryParameters {
        page_size_rows: Some(shared.options.page_rows),
        paging_state: state,
        ..QueryParameters::new(shared.consistency)
    };
    let stream = connection.submit(&Request::Query { text: query, parameters })?;
    connection.flush()?;
    Ok(stream)
}

fn answer_of(connection: &mut Connection, stream: i16) -> Result<Rows, Failure> {
    loop {
        let (answers, response) = connection.answer()?;
        if answers == stream {
            return match response.map_err(Failure::Refused)?.response {
                Response::Rows(rows) => Ok(rows),
                other => Err(Failure::Connection(format!("SELECT was answered with {other:?}"))),
            };
        }
    }
}

/// Whether the same request may succeed later.
fn can_pass(failure: &Failure) -> bool {
    match failure {
        Failure::Connection(_) | Failure::Timeout { .. } => true,
        Failure::Refused(error) => matches!(
            error,
            CqlError::Overloaded(_)
                | CqlError::Unavailable { .. }
                | CqlError::Bootstrapping(_)
                | CqlError::ReadTimeout { .. }
                | CqlError::ReadFailure { .. }
                | CqlError::Server(_)
        ),
        _ => false,
    }
}

fn page(options: &Options, columns: &[ColumnSpec], rows: &Rows) -> Page {
    let mut page = Page { bytes: vec![], ends: Vec::with_capacity(rows.rows.len()) };
    let mut text = String::new();
    for row in &rows.rows {
        match options.format {
            Format::Csv => {
                let start = page.bytes.len();
                for (i, (column, value)) in columns.iter().zip(row).enumerate() {
                    text.clear();
                    text_out::write(&mut text, &column.column_type, value.as_deref(), &options.values);
                    options.dialect.write_field(&mut page.bytes, &text, i == 0);
                }
                options.dialect.end_line(&mut page.bytes, start);
            }
            Format::Json => {
                text.clear();
                push_json_row(&mut text, columns, row);
                page.bytes.extend_from_slice(text.as_bytes());
            }
        }
        page.ends.push(page.bytes.len());
    }
    page
}

/// Appends an object and a line feed. A number that JSON does not have, such as infinity, is a string, which
/// COPY FROM reads.
fn push_json_row(out: &mut String, columns: &[ColumnSpec], row: &[Option<Vec<u8>>]) {
    for (i, (column, value)) in columns.iter().zip(row).enumerate() {
        out.push_str(if i > 0 { ", " } else { "{" });
        push_json_string(out, &column.name);
        out.push_str(": ");
        let start = out.len();
        match value {
            Some(bytes) => column.column_type.write_json(bytes, out),
            None => out.push_str("null"),
        }
        if let (Some(bytes), "null") = (value, &out[start..]) {
            out.truncate(start);
            push_json_string(out, column.column_type.text_of(bytes).trim_matches('\''));
        }
    }
    out.push_str("}\n");
}

/// The output: a file, several of at most `rows_max` rows, or standard output.
struct Files {
    path: Option<PathBuf>,
    out: BufWriter<Box<dyn Write>>,
    rows_max: Option<u64>,
    rows: u64,
    count: usize,
}

impl Files {
    fn open(path: Option<PathBuf>, rows_max: Option<u64>) -> Result<Self, Failure> {
        let out: Box<dyn Write> = match &path {
            None => Box::new(io::stdout()),
            Some(path) => Box::new(create(path)?),
        };
        Ok(Self { path, out: BufWriter::with_capacity(256 << 10, out), rows_max, rows: 0, count: 1 })
    }

    fn failed(&self, error: io::Error) -> Failure {
        match &self.path {
            None => Failure::Output(error),
            Some(path) => Failure::Command(format!("cannot write {}: {error}", path.display())),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(|error| self.failed(error))
    }

    fn write_page(&mut self, page: &Page) -> Result<(), Failure> {
        let (Some(rows_max), Some(path)) = (self.rows_max, self.path.clone()) else {
            return self.write(&page.bytes);
        };
        let mut start = 0;
        for &end in &page.ends {
            if self.rows == rows_max {
                self.flush()?;
                let mut name = path.clone().into_os_string();
                name.push(format!(".{}", self.count));
                self.out = BufWriter::new(Box::new(create(&PathBuf::from(name))?));
                self.count += 1;
                self.rows = 0;
            }
            self.write(&page.bytes[start..end])?;
            self.rows += 1;
            start = end;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| self.failed(error))
    }
}

fn create(path: &PathBuf) -> Result<File, Failure> {
    File::create(path)
        .map_err(|error| Failure::Command(format!("Can't open '{}' for writing: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_numbers_that_it_does_not_have() {
        let columns = ["double", "float", "text"].map(|cql_type| {
            ColumnSpec::new("ks", "t", &cql_type[..1], model::CqlType::from_cql(cql_type, &|_| None).unwrap())
        });
        let row = [Some(f64::NAN.to_be_bytes().to_vec()), Some(1f32.to_be_bytes().to_vec()), None];
        let mut out = String::new();
        push_json_row(&mut out, &columns, &row);
        assert_eq!(out, "{\"d\": \"NaN\", \"f\": 1.0, \"t\": null}\n");
        let infinite =
            columns[0].column_type.bytes_of_json(&model::types::Json::String("-Infinity".to_string()));
        assert_eq!(infinite.unwrap(), f64::NEG_INFINITY.to_be_bytes());
    }

    #[test]
    fn ranges_cover_the_ring_without_overlap() {
        for count in [1, 2, 7, 256] {
            let found = ranges(None, None, count);
            assert_eq!(found.len(), count);
            assert_eq!((found[0].start, found[count - 1].end), (None, None));
            for pair in found.windows(2) {
                assert!(pair[0].end.is_some() && pair[0].end == pair[1].start);
                assert!(pair[0].end < pair[1].end || pair[1].end.is_none());
            }
        }
        assert_eq!(ranges(Some(5), Some(7), 9), [Some(5)..Some(6), Some(6)..Some(7)]);
        assert_eq!(ranges(None, Some(i64::MIN), 4), [None..Some(i64::MIN)]);
        assert_eq!(ranges(Some(7), Some(5), 4), []);
    }
}
