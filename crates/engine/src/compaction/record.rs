//! The record of a replacement: the single point at which SSTables replace others.
//!
//! Before the record exists, the outputs are files without a seal, which a start removes. Once it exists, the
//! outputs count and the inputs do not: a start that finds it seals the outputs and removes the inputs, even
//! if it is interrupted several times. So no crash removes the file of a tombstone and leaves the file of the
//! data that it deletes, or the reverse. The record is removed when the seals and removals are durable, and
//! before any output may be replaced by another job.
//!
//! The layout is in `docs/formats/compaction-record.md`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base::broken;
use base::crc::crc32;
use runtime::{FileError, Files, IoClass};
use sstable::name::{Component, SSTableName};
use sstable::write::{remove_sstables, seal_all};

/// The first line of the file.
const MAGIC: &str = "messina compaction 1";
const PREFIX: &str = "compaction-";
const SUFFIX: &str = ".log";
const TEMPORARY_SUFFIX: &str = ".log.tmp";
/// Limit for the size of a record. A line has some tens of bytes.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub outputs: Vec<SSTableName>,
    pub inputs: Vec<SSTableName>,
}

impl Record {
    pub fn encode(&self) -> String {
        let mut text = format!("{MAGIC}\n");
        for (word, names) in [("out", &self.outputs), ("in", &self.inputs)] {
            for name in names {
                let _ = writeln!(text, "{word} {name}");
            }
        }
        let crc = crc32(text.as_bytes());
        let _ = writeln!(text, "crc {crc:08x}");
        text
    }

    /// `None` if the bytes are not a complete, unchanged record.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (body, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let body = &text[..body.len() + 1];
        if crc.strip_prefix("crc ")? != format!("{:08x}", crc32(body.as_bytes())) {
            return None;
        }
        let mut record = Self::default();
        let mut lines = body.lines();
        if lines.next()? != MAGIC {
            return None;
        }
        for line in lines {
            let (word, name) = line.split_once(' ')?;
            let (name, _) = SSTableName::parse_file_name(&format!("{name}-{}", Component::Toc)).ok()?;
            match word {
                "out" => record.outputs.push(name),
                "in" => record.inputs.push(name),
                _ => return None,
            }
        }
        Some(record)
    }
}

/// The reason why a record was not stored.
#[derive(Debug)]
pub enum NotStored {
    /// The record does not exist, and will not after a restart.
    Absent(FileError),
    /// The record may or may not exist after a loss of power. Outputs and inputs must stay as they are; the
    /// next start decides.
    InDoubt(FileError),
}

fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number}{SUFFIX}"))
}

/// Makes the record durable: from then on the outputs count. `number` is a generation that no other file has.
pub async fn store(files: &Files, dir: &Path, number: u64, record: &Record) -> Result<(), NotStored> {
    let temporary = dir.join(format!("{PREFIX}{number}{TEMPORARY_SUFFIX}"));
    let final_path = path(dir, number);
    let written = async {
        files.write_all(&temporary, record.encode().as_bytes(), IoClass::Compaction).await?;
        files.rename(&temporary, &final_path).await
    };
    if let Err(error) = written.await {
        let _ = files.remove(&temporary).await;
        return Err(NotStored::Absent(error));
    }
    let Err(error) = files.sync_dir(dir).await else { return Ok(()) };
    let undone = async {
        files.remove(&final_path).await?;
        files.sync_dir(dir).await
    };
    match undone.await {
        Ok(()) => Err(NotStored::Absent(error)),
        Err(_) => Err(NotStored::InDoubt(error)),
    }
}

/// Applies a durable record and removes it. May be repeated after an error.
pub async fn finish(files: &Files, dir: &Path, number: u64, record: &Record) -> Result<(), FileError> {
    apply(files, dir, record).await?;
    if broken::is("compaction_record") {
        return Ok(());
    }
    match files.remove(&path(dir, number)).await {
        Err(error) if !error.is_not_found() => return Err(error),
        _removed => (),
    }
    files.sync_dir(dir).await
}

async fn apply(files: &Files, dir: &Path, record: &Record) -> Result<(), FileError> {
    if !record.outputs.is_empty() {
        seal_all(files, dir, &record.outputs).await?;
    }
    remove_sstables(files, dir, &record.inputs).await
}

/// Applies the records in `dir`. To be called at a start, before unsealed files are removed and before
/// anything is written. Returns the number of records.
pub async fn recover(files: &Files, dir: &Path) -> Result<usize, FileError> {
    let mut records = 0;
    let mut is_changed = false;
    for entry in files.read_dir(dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        let Some(rest) = entry.name.strip_prefix(PREFIX) else { continue };
        let path = dir.join(&entry.name);
        if rest.ends_with(TEMPORARY_SUFFIX) {
            files.remove(&path).await?;
            is_changed = true;
        } else if rest.ends_with(SUFFIX) {
            let bytes = files.read_all(&path, IoClass::Maintenance, BYTES_MAX).await?;
            let record = Record::decode(&bytes).ok_or_else(|| {
                let detail = "not the record of a compaction; without it deleted data may come back: restore it, \
                              or remove the file if that does not matter";
                FileError::new("read", &path, std::io::Error::new(std::io::ErrorKind::InvalidData, detail))
            })?;
            apply(files, dir, &record).await?;
            files.remove(&path).await?;
            is_changed = true;
            records += 1;
        }
    }
    if is_changed {
        // From here on generations may be reused, and the record must not reappear then.
        files.sync_dir(dir).await?;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use sstable::name::Generation;
    use sstable::version::Version;

    use super::*;

    fn sample() -> Record {
        let name = |number| SSTableName::big(Version::Me, Generation::Number(number));
        Record { outputs: vec![name(12), name(14)], inputs: vec![name(3), name(9)] }
    }

    #[test]
    fn the_worked_example_of_the_format_page() {
        let page = include_str!("../../../../docs/formats/compaction-record.md");
        let (_, example) = page.split_once("```text\n").expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        assert_eq!(sample().encode(), example);
        assert_eq!(Record::decode(example.as_bytes()), Some(sample()));
    }

    #[test]
    fn what_is_torn_or_changed_is_no_record() {
        let bytes = sample().encode().into_bytes();
        for cut in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..cut]), None, "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert_eq!(Record::decode(&wrong), None, "wrong at {at}");
        }
        assert_eq!(Record::decode(Record::default().encode().as_bytes()), Some(Record::default()));
    }
}
