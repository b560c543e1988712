//! The option `log_all`: compactions of a table as lines of JSON in `compaction.log` of the data directory.
//!
//! Each line is an object in the form of Cassandra's log of the same name: `enable` and `disable` when the
//! option changes, `compaction` for each job that ended well. Jobs append lines to a list shared by all
//! shards; shard 0 writes the gathered lines periodically and at shutdown. A file of [`FILE_BYTES_MAX`] is
//! renamed to `compaction-1.log` and replaces the one before it.
//!
//! The file is not synced: a crash may lose the last second and may leave half a line. While the file cannot
//! be written, the last [`GATHERED_MAX`] lines are kept for another attempt.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::types::push_json_string;
use runtime::{File, FileError, Files, IoBuf, IoClass, OpenOptions};
use sstable::name::SSTableName;

const FILE_BYTES_MAX: u64 = 16 << 20;
const GATHERED_MAX: usize = 10_000;

/// One log for all shards.
#[derive(Clone, Debug)]
pub struct CompactionLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    gathered: Mutex<VecDeque<String>>,
}

/// An SSTable and its bytes on disk.
pub(super) type Sized = (SSTableName, u64);

/// A job that ended well.
pub(super) struct LoggedJob<'a> {
    pub(super) keyspace: &'a str,
    pub(super) table: &'a str,
    pub(super) shard: u32,
    pub(super) kind: &'a str,
    pub(super) strategy: &'a str,
    pub(super) reason: &'a str,
    pub(super) started_ms: i64,
    pub(super) ended_ms: i64,
    pub(super) inputs: &'a [Sized],
    pub(super) outputs: &'a [Sized],
}

impl CompactionLog {
    /// `dir` is the data directory.
    pub fn new(dir: PathBuf) -> Self {
        Self(Arc::new(Inner { dir, gathered: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: String) {
        let mut gathered = self.lock();
        if gathered.len() == GATHERED_MAX {
            gathered.pop_front();
        }
        gathered.push_back(line);
    }

    /// Logs that the option of a table was set or removed.
    pub(super) fn switched(
        &self,
        (keyspace, table): (&str, &str),
        strategy: &str,
        time_ms: i64,
        is_on: bool,
    ) {
        let event = if is_on { "enable" } else { "disable" };
        self.push(format!(
            "{{\"type\":\"{event}\",\"keyspace\":{},\"table\":{},\"time\":{time_ms},\"strategies\":[{{\"strategyId\":\"0\",\
             \"type\":{}}}]}}",
            quoted(keyspace),
            quoted(table),
            quoted(strategy)
        ));
    }

    pub(super) fn ended(&self, job: &LoggedJob<'_>) {
        self.push(format!(
            "{{\"type\":\"compaction\",\"keyspace\":{},\"table\":{},\"time\":{},\"start\":\"{}\",\"end\":\"{}\",\
             \"shard\":{},\"kind\":{},\"strategy\":{},\"reason\":{},\"input\":{},\"output\":{}}}",
            quoted(job.keyspace),
            quoted(job.table),
            job.ended_ms,
            job.started_ms,
            job.ended_ms,
            job.shard,
            quoted(job.kind),
            quoted(job.strategy),
            quoted(job.reason),
            sstables(job.inputs),
            sstables(job.outputs)
        ));
    }

    pub(crate) fn has_unsaved(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Appends the gathered lines to the file. Called on shard 0 only, and never concurrently.
    pub(crate) async fn save(&self, files: &Files) {
        let lines = std::mem::take(&mut *self.lock());
        if lines.is_empty() {
            return;
        }
        let mut text = String::new();
        lines.iter().for_each(|line| text.extend([line.as_str(), "\n"]));
        if self.append(files, text.as_bytes()).await.is_err() {
            let since = std::mem::take(&mut *self.lock());
            lines.into_iter().chain(since).for_each(|line| self.push(line));
        }
    }

    async fn append(&self, files: &Files, bytes: &[u8]) -> Result<(), FileError> {
        let path = self.0.dir.join("compaction.log");
        let mut file = open(files, &path).await?;
        let mut len_bytes = file.len_bytes().await?;
        if len_bytes > 0 && len_bytes + bytes.len() as u64 > FILE_BYTES_MAX {
            drop(file);
            files.rename(&path, &self.0.dir.join("compaction-1.log")).await?;
            file = open(files, &path).await?;
            len_bytes = 0;
        }
        let mut buf = IoBuf::new();
        buf.extend_from_slice(bytes);
        file.write_at(len_bytes, buf, IoClass::Maintenance).await.map(drop)
    }
}

async fn open(files: &Files, path: &std::path::Path) -> Result<File, FileError> {
    files.open(path, OpenOptions { create: true, ..OpenOptions::read_write() }).await
}

/// A list of SSTables in Cassandra's form.
fn sstables(sstables: &[Sized]) -> String {
    let one = |(name, bytes): &Sized| {
        format!(
            "{{\"strategyId\":\"0\",\"table\":{{\"generation\":\"{}\",\"version\":\"{}\",\"size\":{bytes}}}}}",
            name.generation, name.version
        )
    };
    format!("[{}]", sstables.iter().map(one).collect::<Vec<_>>().join(","))
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    push_json_string(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept() {
        let log = CompactionLog::new(PathBuf::from("/"));
        (0..GATHERED_MAX + 2).for_each(|line| log.push(line.to_string()));
        let gathered = log.lock();
        assert_eq!((gathered.len(), gathered[0].as_str()), (GATHERED_MAX, "2"));
    }
}
