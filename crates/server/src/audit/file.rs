//! The files of the audit log: one for each cycle, named by the cycle's begin in UTC, such as
//! `audit-20261125-2200.log`. Only shard 0 writes them.

use std::cell::RefCell;
use std::path::Path;

use runtime::{File, FileError, Files, IoBuf, IoClass, OpenOptions};

use super::rules::{AuditOptions, RollCycle};

/// The file of the current cycle.
struct Current {
    cycle: (RollCycle, u64),
    file: File,
    len_bytes: u64,
}

/// See the head of this file. Its functions are not called concurrently.
#[derive(Default)]
pub struct AuditFiles {
    current: RefCell<Option<Current>>,
}

impl AuditFiles {
    /// Appends lines to the file of this time; in a new cycle, begins its file and removes the oldest files
    /// beyond the limit.
    ///
    /// # Errors
    /// Of the file system. The next call opens the file anew.
    pub async fn append(
        &self,
        files: &Files,
        options: &AuditOptions,
        wall_s: u64,
        lines: Vec<u8>,
    ) -> Result<(), FileError> {
        let cycle = (options.roll_cycle, options.roll_cycle.number(wall_s));
        let of_cycle = self.current.take().filter(|current| current.cycle == cycle);
        let mut current = match of_cycle {
            Some(current) if current.file.path().parent() == Some(&options.dir) => current,
            _ => begin(files, options, cycle).await?,
        };
        let len_bytes = lines.len() as u64;
        let mut buf = IoBuf::new();
        buf.extend_from_slice(&lines);
        current.file.write_at(current.len_bytes, buf, IoClass::Maintenance).await?;
        current.len_bytes += len_bytes;
        *self.current.borrow_mut() = Some(current);
        Ok(())
    }

    /// Writes what the system still has in memory, and closes the file.
    ///
    /// # Errors
    /// Of the file system.
    pub async fn close(&self) -> Result<(), FileError> {
        let Some(current) = self.current.take() else { return Ok(()) };
        current.file.sync_data().await
    }
}

async fn begin(files: &Files, options: &AuditOptions, cycle: (RollCycle, u64)) -> Result<Current, FileError> {
    files.create_dir_all(&options.dir).await?;
    let name = name_of(cycle);
    remove_oldest(files, &options.dir, &name, options.log_bytes_max).await?;
    let path = options.dir.join(&name);
    let file = files.open(&path, OpenOptions { create: true, ..OpenOptions::read_write() }).await?;
    let len_bytes = file.len_bytes().await?;
    Ok(Current { cycle, file, len_bytes })
}

/// Removes the oldest files until all have at most `bytes_max`; never the file `current`.
async fn remove_oldest(files: &Files, dir: &Path, current: &str, bytes_max: u64) -> Result<(), FileError> {
    let entries = files.read_dir(dir).await?;
    let named = entries.into_iter().filter(|entry| !entry.is_dir).map(|entry| (entry.name, entry.len_bytes));
    for name in beyond(named.collect(), current, bytes_max) {
        files.remove(&dir.join(name)).await?;
    }
    Ok(())
}

/// The oldest files whose removal leaves at most `bytes_max`. Names sort by time.
fn beyond(named: Vec<(String, u64)>, current: &str, bytes_max: u64) -> Vec<String> {
    let is_ours = |name: &str| name.starts_with("audit-") && name.ends_with(".log");
    let mut ours: Vec<(String, u64)> = named.into_iter().filter(|(name, _)| is_ours(name)).collect();
    ours.sort();
    let mut bytes: u64 = ours.iter().map(|(_, bytes)| bytes).sum();
    let mut removed = vec![];
    for (name, len_bytes) in ours {
        if bytes <= bytes_max {
            break;
        }
        if name != current {
            bytes -= len_bytes;
            removed.push(name);
        }
    }
    removed
}

fn name_of((cycle, number): (RollCycle, u64)) -> String {
    let begin = jiff::Timestamp::from_second((number * cycle.length_s()) as i64).unwrap_or_default();
    begin.strftime("audit-%Y%m%d-%H%M.log").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_begin_of_the_cycle() {
        let wall_s = 1_795_645_805; // 2026-11-25 22:30:05
        let name = |cycle: RollCycle| name_of((cycle, cycle.number(wall_s)));
        assert_eq!(name(RollCycle::Hourly), "audit-20261125-2200.log");
        assert_eq!(name(RollCycle::Minutely), "audit-20261125-2230.log");
        assert_eq!(name(RollCycle::Daily), "audit-20261125-0000.log");
    }

    #[test]
    fn the_oldest_are_removed() {
        let named = |names: &[&str]| names.iter().map(|name| (name.to_string(), 10)).collect::<Vec<_>>();
        let all =
            ["audit-20261125-2100.log", "audit-20261125-2000.log", "notes.txt", "audit-20261125-2200.log"];
        let gone = |bytes_max| beyond(named(&all), "audit-20261125-2200.log", bytes_max);
        assert!(gone(30).is_empty());
        assert_eq!(gone(29), ["audit-20261125-2000.log"]);
        assert_eq!(gone(0).len(), 2, "the current file and foreign files stay");
    }
}
