//! COPY FROM: one thread reads the files, workers write the rows, and this thread counts, reports and keeps
//! the checkpoint.
//!
//! **Guarantees.** Each record is written, or is in the error file with a message, or the command fails. The
//! timestamp of a row is the start of the load plus the ordinal of its record, in microseconds. Of rows with
//! the same key, the last one in the files therefore wins, whichever worker writes it, and a row that is
//! written twice is the same. The position in a checkpoint has no unfinished record before it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::checkpoint::{Checkpoint, Identity, Progress};
use super::columns::{TableColumns, list};
use super::loader::{self, Event, Shared};
use super::options::Options;
use super::progress::{RateMeter, interval_text};
use super::row::Plan;
use super::source::{Chunk, Position, Reader, Sources};
use super::statement::CopyStatement;
use super::{Place, time};
use crate::failure::Failure;
use crate::terminal;

const TICK: Duration = Duration::from_millis(50);
const CHECKPOINT_PERIOD_S: f64 = 1.0;
/// More messages are counted and not shown.
const MESSAGES_MAX: usize = 50;

/// # Errors
/// The statement is wrong, a file cannot be read, or not all rows could be written.
pub fn run(
    place: &mut Place<'_>,
    statement: &CopyStatement,
    table: &TableColumns,
    options: &Options,
) -> Result<(), Failure> {
    let file_columns = table.of_file(statement)?;
    let mut plan = plan(table, file_columns, options)?;
    let sources = match &statement.file {
        Some(files) => Sources::find(files, place.resolve).map_err(Failure::Command)?,
        None => Sources::default(),
    };
    let checkpoint = checkpoint(place, table, &plan, options, &sources)?;
    let begin = match &checkpoint {
        Some(checkpoint) => checkpoint.load().map_err(Failure::Command)?,
        None => None,
    };
    let progress = begin.unwrap_or_else(|| Progress { base_us: time::wall_us(), ..Progress::default() });
    plan.base_us = progress.base_us;
    let stdin: Option<Box<dyn std::io::Read + Send>> = match statement.file {
        Some(_) => None,
        None if place.stdin_is_script => {
            return Err(Failure::Command(
                "COPY FROM STDIN: standard input is the script; give the script with -e or -f".to_string(),
            ));
        }
        None => {
            place.output.message("[Use . on a line by itself to end input]\n")?;
            Some(Box::new(std::io::stdin()))
        }
    };
    let valid: Vec<String> = plan.binds.iter().map(|column| plan.file_columns[*column].clone()).collect();
    place.output.message(&format!(
        "Starting copy of {} with columns [{}].\n",
        table.name(),
        valid.join(", ")
    ))?;
    if begin.is_some() {
        let ordinal = progress.position.ordinal;
        place
            .output
            .message(&format!("Going on after record {ordinal}, where an earlier COPY stopped.\n"))?;
    }
    let errors = ErrorFile::new(place, table, options, begin.is_some());
    let bytes = sources.bytes();
    let reader = Reader::new(sources.clone(), options, progress.position, stdin).map_err(Failure::Command)?;
    let meter = RateMeter::new(options.report_period_s, options.rate_file.clone());
    let mut load = Load {
        options,
        errors,
        checkpoint,
        progress,
        begin: progress,
        meter,
        ..Load::new(options, sources, bytes)
    };
    load.run(place, &plan, reader)?;
    load.finish(place)
}

/// The statement that writes rows.
fn plan(table: &TableColumns, file_columns: Vec<String>, options: &Options) -> Result<Plan, Failure> {
    let wrong = |text: String| Err(Failure::Command(text));
    let used: Vec<usize> =
        (0..file_columns.len()).filter(|i| !options.skip_columns.contains(&file_columns[*i])).collect();
    let keys = &table.all[..table.key_len];
    if used.is_empty() {
        return wrong("No valid column specified".to_string());
    }
    if let Some(key) = keys.iter().find(|key| !used.iter().any(|i| file_columns[*i] == **key)) {
        return wrong(format!("Primary key column '{key}' missing or skipped"));
    }
    let is_counter = used.iter().any(|i| table.counters.contains(&file_columns[*i]));
    let name = |i: &usize| list(std::slice::from_ref(&file_columns[*i]));
    let (binds, text) = if is_counter {
        if options.ttl_s.is_some() {
            return wrong("TTL: counters do not expire".to_string());
        }
        let (keys_used, counted): (Vec<usize>, Vec<usize>) =
            used.iter().partition(|i| keys.contains(&file_columns[**i]));
        let set: Vec<String> = counted.iter().map(|i| format!("{0} = {0} + ?", name(i))).collect();
        let key: Vec<String> = keys_used.iter().map(|i| format!("{} = ?", name(i))).collect();
        let text = format!("UPDATE {} SET {} WHERE {}", table.name(), set.join(", "), key.join(" AND "));
        ([counted, keys_used].concat(), text)
    } else {
        let columns: Vec<String> = used.iter().map(name).collect();
        let ttl = options.ttl_s.map_or(String::new(), |ttl_s| format!(" AND TTL {ttl_s}"));
        let text = format!(
            "INSERT INTO {} ({}) VALUES ({}) USING TIMESTAMP ?{ttl}",
            table.name(),
            columns.join(", "),
            vec!["?"; used.len()].join(", ")
        );
        (used, text)
    };
    let is_key = binds.iter().map(|i| keys.contains(&file_columns[*i])).collect();
    Ok(Plan { text, file_columns, binds, is_key, is_counter, base_us: 0 })
}

fn checkpoint(
    place: &Place<'_>,
    table: &TableColumns,
    plan: &Plan,
    options: &Options,
    sources: &Sources,
) -> Result<Option<Checkpoint>, Failure> {
    let Some(path) = &options.checkpoint else { return Ok(None) };
    if sources.0.is_empty() {
        return Err(Failure::Command(
            "CHECKPOINT: standard input cannot be read again; name a file".to_string(),
        ));
    }
    if plan.is_counter {
        let text = "CHECKPOINT: increments of counters that were in flight would be written twice after an \
                    interruption; load counters without CHECKPOINT";
        return Err(Failure::Command(text.to_string()));
    }
    let identity = Identity::new(&table.keyspace, &table.table, &plan.file_columns, sources);
    Ok(Some(Checkpoint::new((place.resolve)(path), identity.map_err(Failure::Command)?)))
}

/// The file of records that could not be loaded, as they were. An earlier file is renamed.
struct ErrorFile {
    path: PathBuf,
    file: Option<File>,
    appends: bool,
}

impl ErrorFile {
    fn new(place: &Place<'_>, table: &TableColumns, options: &Options, appends: bool) -> Self {
        let name = options.error_file.clone();
        let name = name.unwrap_or_else(|| format!("import_{}_{}.err", table.keyspace, table.table));
        Self { path: (place.resolve)(&name), file: None, appends }
    }

    fn add(&mut self, record: &[u8]) -> Result<(), Failure> {
        let fail = |path: &PathBuf, error: std::io::Error| {
            Failure::Command(format!("cannot write the error file {}: {error}", path.display()))
        };
        if self.file.is_none() {
            if self.path.exists() && !self.appends {
                let at = jiff::Timestamp::from_microsecond(time::wall_us()).unwrap_or_default();
                let mut old = self.path.clone().into_os_string();
                old.push(at.strftime(".%Y%m%d_%H%M%S").to_string());
                std::fs::rename(&self.path, old).map_err(|error| fail(&self.path, error))?;
            }
            let opened = OpenOptions::new().create(true).append(true).open(&self.path);
            self.file = Some(opened.map_err(|error| fail(&self.path, error))?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = file.write_all(&[record, b"\n"].concat());
        written.map_err(|error| fail(&self.path, error))
    }
}

/// A running COPY FROM.
struct Load<'a> {
    options: &'a Options,
    sources: Sources,
    bytes: u64,
    errors: ErrorFile,
    checkpoint: Option<Checkpoint>,
    begin: Progress,
    progress: Progress,
    meter: RateMeter,
    /// Finished chunks that follow an unfinished one, by number: their end, and their rows.
    finished: BTreeMap<u64, Position>,
    next_chunk: u64,
    written: u64,
    unreadable: u64,
    refused: u64,
    messages: usize,
    files: usize,
    skipped: u64,
    last_checkpoint_s: f64,
    failure: Option<Failure>,
}

impl<'a> Load<'a> {
    fn new(options: &'a Options, sources: Sources, bytes: u64) -> Self {
        Self {
            options,
            sources,
            bytes,
            errors: ErrorFile { path: PathBuf::new(), file: None, appends: false },
            checkpoint: None,
            begin: Progress::default(),
            progress: Progress::default(),
            meter: RateMeter::new(options.report_period_s, None),
            finished: BTreeMap::new(),
            next_chunk: 0,
            written: 0,
            unreadable: 0,
            refused: 0,
            messages: 0,
            files: 0,
            skipped: 0,
            last_checkpoint_s: 0.0,
            failure: None,
        }
    }

    fn run(&mut self, place: &mut Place<'_>, plan: &Plan, reader: Reader) -> Result<(), Failure> {
        let mut target = place.session.target().clone();
        target.request_timeout = Duration::from_secs(self.options.request_timeout_s);
        let (to_workers, chunks) = mpsc::sync_channel(2 * self.options.workers);
        let shared = Shared {
            plan,
            options: self.options,
            target,
            consistency: place.session.consistency,
            chunks: Mutex::new(chunks),
            is_stopped: AtomicBool::new(false),
        };
        let (events, received) = mpsc::channel();
        let limits = Limits { rate_max: self.options.rate_max, is_stopped: &shared.is_stopped };
        thread::scope(|scope| {
            let to_main = events.clone();
            let limits = &limits;
            scope.spawn(move || read(reader, &to_workers, &to_main, limits));
            for _ in 0..self.options.workers {
                let (shared, events) = (&shared, events.clone());
                scope.spawn(move || loader::work(shared, events));
            }
            drop(events);
            loop {
                let handled = match received.recv_timeout(TICK) {
                    Ok(event) => self.take(place, event),
                    Err(RecvTimeoutError::Timeout) => Ok(()),
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if terminal::take_interrupted() {
                    self.failure.get_or_insert(Failure::Interrupted);
                }
                if let Err(failure) = handled.and_then(|()| self.tick()) {
                    self.failure.get_or_insert(failure);
                }
                if self.failure.is_some() {
                    shared.is_stopped.store(true, Ordering::Relaxed);
                    // A worker that has ended takes no chunks; the reader must not wait for it.
                    if let Ok(chunks) = shared.chunks.try_lock() {
                        while chunks.try_recv().is_ok() {}
                    }
                }
            }
            if shared.is_stopped.load(Ordering::Relaxed) {
                self.failure.get_or_insert(Failure::Interrupted);
            }
        });
        Ok(())
    }

    fn take(&mut self, place: &mut Place<'_>, event: Event) -> Result<(), Failure> {
        match event {
            Event::Written(rows) => {
                self.written += rows;
                self.meter.rows += rows;
            }
            Event::Unreadable { chunk, records, why } => {
                let rows = records.len();
                self.say(place, &format!("Failed to import {rows} rows: {why},  given up without retries"));
                self.unreadable += rows as u64;
                records.iter().try_for_each(|record| self.errors.add(chunk.record(*record)))?;
            }
            Event::Refused { rows, why, attempts } => {
                let count = rows.len();
                self.say(
                    place,
                    &format!("Failed to import {count} rows: {why},  given up after {attempts} attempts"),
                );
                self.refused += count as u64;
                rows.iter().try_for_each(|(chunk, record)| self.errors.add(chunk.record(*record)))?;
            }
            Event::Retry { rows, why, attempts } => {
                let most = self.options.attempts_max;
                self.say(
                    place,
                    &format!(
                        "Failed to import {rows} rows: {why},  will retry later, attempt {attempts} of {most}"
                    ),
                );
            }
            Event::Finished(chunk) => self.finish_chunk(&chunk),
            Event::Read { files, skipped } => (self.files, self.skipped) = (files, skipped),
            Event::Failed(failure) => return Err(failure),
        }
        let exceeds = |count: u64, most: Option<u64>| most.is_some_and(|most| count > most);
        for (count, most, kind) in [
            (self.refused, self.options.insert_errors_max, "insert"),
            (self.unreadable, self.options.parse_errors_max, "parse"),
        ] {
            if exceeds(count, most) {
                let most = most.unwrap_or_default();
                return Err(Failure::Command(format!("Exceeded maximum number of {kind} errors {most}")));
            }
        }
        Ok(())
    }

    fn say(&mut self, place: &mut Place<'_>, text: &str) {
        self.messages += 1;
        if self.messages > MESSAGES_MAX {
            return;
        }
        self.meter.end_line();
        place.output.error(text);
        if self.messages == MESSAGES_MAX {
            place.output.error("Further messages of this COPY are not shown.");
        }
    }

    fn finish_chunk(&mut self, chunk: &Arc<Chunk>) {
        self.finished.insert(chunk.number, chunk.end);
        while let Some(end) = self.finished.remove(&self.next_chunk) {
            self.progress.position = end;
            self.next_chunk += 1;
        }
    }

    fn failed(&self) -> u64 {
        self.unreadable + self.refused
    }

    /// Shows the rate and stores the checkpoint, if it is time.
    fn tick(&mut self) -> Result<(), Failure> {
        let done = match self.bytes {
            0 => None,
            bytes => Some(self.sources.bytes_before(self.progress.position) as f64 / bytes as f64),
        };
        self.meter.show(done, false);
        if self.meter.elapsed_s() - self.last_checkpoint_s >= CHECKPOINT_PERIOD_S {
            self.last_checkpoint_s = self.meter.elapsed_s();
            self.store()?;
        }
        Ok(())
    }

    fn store(&mut self) -> Result<(), Failure> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(()) };
        if let Some(file) = &self.errors.file {
            file.sync_all()?;
        }
        let imported = self.begin.imported + self.written;
        let failed = self.begin.failed + self.failed();
        checkpoint.store(&Progress { imported, failed, ..self.progress }).map_err(Failure::Command)
    }

    fn finish(mut self, place: &mut Place<'_>) -> Result<(), Failure> {
        self.meter.show(None, true);
        self.meter.end_line();
        match (&self.failure, &self.checkpoint) {
            (None, Some(checkpoint)) => checkpoint.remove().map_err(Failure::Command)?,
            _ => self.store()?,
        }
        let rows = self.begin.imported + self.written;
        place.output.message(&format!(
            "{rows} rows imported from {} files in {} ({} skipped).\n",
            self.files,
            interval_text(self.meter.elapsed_s()),
            self.skipped
        ))?;
        let failed = self.begin.failed + self.failed();
        let file = self.errors.path.display();
        let lost = format!("Failed to process {failed} rows; failed rows written to {file}");
        let goes_on = match &self.checkpoint {
            Some(_) => "the same command goes on from the checkpoint",
            None => "with CHECKPOINT = 'file' the same command would go on where this one stopped",
        };
        match self.failure {
            Some(Failure::Interrupted) => Err(Failure::Command(format!("COPY was interrupted; {goes_on}"))),
            Some(failure) if failed > 0 => Err(Failure::Command(format!("{failure}. {lost}"))),
            Some(failure) => Err(Failure::Command(format!("{failure} ({goes_on})"))),
            None if failed > 0 => Err(Failure::Command(lost)),
            None => Ok(()),
        }
    }
}

struct Limits<'a> {
    /// Rows per second.
    rate_max: Option<u64>,
    is_stopped: &'a AtomicBool,
}

/// The thread that reads the files.
fn read(mut reader: Reader, to: &SyncSender<Arc<Chunk>>, events: &Sender<Event>, limits: &Limits<'_>) {
    let start = time::now();
    let mut rows = 0;
    while !limits.is_stopped.load(Ordering::Relaxed) {
        match reader.next_chunk() {
            Ok(Some(chunk)) => {
                rows += chunk.records.len() as u64;
                if to.send(chunk).is_err() {
                    break;
                }
            }
            Ok(None) => break,
            Err(text) => {
                let _ = events.send(Event::Failed(Failure::Command(text)));
                break;
            }
        }
        let Some(rate_max) = limits.rate_max else { continue };
        let due = Duration::from_secs_f64(rows as f64 / rate_max as f64);
        while time::now().duration_since(start) < due && !limits.is_stopped.load(Ordering::Relaxed) {
            time::pause(TICK.min(due.saturating_sub(time::now().duration_since(start))));
        }
    }
    let (files, skipped) = reader.counts();
    let _ = events.send(Event::Read { files, skipped });
}
