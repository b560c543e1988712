//! The checkpoint of a COPY FROM: up to where its files are loaded.
//!
//! A checkpoint is a small text file, replaced as a whole. It names the table, the columns, and the files
//! with size and modification time; a COPY is resumed only if all of them are unchanged. The rows after the
//! position may have been written before the interruption. They are written again with the same timestamps,
//! so the result is the same.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::source::{Position, Sources};

const FIRST_LINE: &str = "messina copy checkpoint 1";

/// The facts that must be unchanged when a load is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    lines: Vec<String>,
}

impl Identity {
    /// # Errors
    /// A file cannot be examined.
    pub fn new(keyspace: &str, table: &str, columns: &[String], sources: &Sources) -> Result<Self, String> {
        let mut lines = vec![format!("table {keyspace}.{table}"), format!("columns {}", columns.join(","))];
        for path in &sources.0 {
            let fail = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
            let about = path.metadata().map_err(fail)?;
            let modified = about.modified().map_err(fail)?.duration_since(UNIX_EPOCH).unwrap_or_default();
            lines.push(format!("file {} {} {}", about.len(), modified.as_nanos(), path.display()));
        }
        Ok(Self { lines })
    }
}

/// The progress of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records before it are written or are in the error file.
    pub position: Position,
    /// The timestamp of the record with ordinal 0, in microseconds.
    pub base_us: i64,
    pub imported: u64,
    pub failed: u64,
}

/// A file that keeps the progress.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    identity: Identity,
}

impl Checkpoint {
    pub fn new(path: PathBuf, identity: Identity) -> Self {
        Self { path, identity }
    }

    /// The progress of an interrupted load; `None` if there was none.
    ///
    /// # Errors
    /// The file cannot be read, or belongs to another load.
    pub fn load(&self) -> Result<Option<Progress>, String> {
        if !self.path.exists() {
            return Ok(None);
        }
        let name = self.path.display();
        let text = fs::read_to_string(&self.path).map_err(|error| format!("cannot read {name}: {error}"))?;
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(format!("{name} is not a checkpoint of COPY; name another file or remove it"));
        }
        let numbers: Option<Vec<i64>> = lines.next().and_then(|line| {
            line.strip_prefix("progress ")?.split(' ').map(|number| number.parse().ok()).collect()
        });
        let Some([source, offset, ordinal, base_us, imported, failed]) = numbers.as_deref() else {
            return Err(format!("{name} is damaged; remove it to load from the beginning"));
        };
        let lines: Vec<String> = lines.map(str::to_string).collect();
        if lines != self.identity.lines {
            let other = lines.iter().zip(&self.identity.lines).find(|(there, here)| there != here);
            let (there, here) = other.map_or(("", ""), |(there, here)| (there.as_str(), here.as_str()));
            return Err(format!(
                "{name} belongs to another load (there: {there}; here: {here}). Remove it to load from the beginning"
            ));
        }
        let unsigned = |number: &i64| u64::try_from(*number).unwrap_or_default();
        let source = unsigned(source) as usize;
        let position = Position { source, offset: unsigned(offset), ordinal: unsigned(ordinal) };
        let (imported, failed) = (unsigned(imported), unsigned(failed));
        Ok(Some(Progress { position, base_us: *base_us, imported, failed }))
    }

    /// # Errors
    /// The file cannot be written.
    pub fn store(&self, progress: &Progress) -> Result<(), String> {
        let Position { source, offset, ordinal } = progress.position;
        let mut text = format!(
            "{FIRST_LINE}\nprogress {source} {offset} {ordinal} {} {} {}\n",
            progress.base_us, progress.imported, progress.failed
        );
        for line in &self.identity.lines {
            let _ = writeln!(text, "{line}");
        }
        let fresh = self.path.with_extension("new");
        write_synced(&fresh, &text)
            .and_then(|()| fs::rename(&fresh, &self.path))
            .map_err(|error| format!("cannot write the checkpoint {}: {error}", self.path.display()))
    }

    /// Removes the file after the end of the load.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> Result<(), String> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("cannot remove the checkpoint {}: {error}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

fn write_synced(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_kept_for_its_own_load() {
        #[allow(clippy::disallowed_methods, reason = "a test needs a directory of its own")]
        let dir = std::env::temp_dir().join(format!("messina-checkpoint-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let data = dir.join("a.csv");
        fs::write(&data, "1\n").unwrap();
        let sources = Sources(vec![data.clone()]);
        let of = |table: &str| Identity::new("ks", table, &["a".to_string()], &sources).unwrap();
        let checkpoint = Checkpoint::new(dir.join("load"), of("t"));
        assert_eq!(checkpoint.load(), Ok(None));
        let position = Position { source: 1, offset: 2, ordinal: 3 };
        let progress = Progress { position, base_us: 4, imported: 5, failed: 6 };
        checkpoint.store(&progress).unwrap();
        assert_eq!(checkpoint.load(), Ok(Some(progress)));
        let other = Checkpoint::new(dir.join("load"), of("u")).load().unwrap_err();
        assert!(other.contains("there: table ks.t; here: table ks.u"), "{other}");
        fs::write(&data, "12\n").unwrap();
        let changed = Checkpoint::new(dir.join("load"), of("t")).load().unwrap_err();
        assert!(changed.contains("belongs to another load"), "{changed}");
        checkpoint.remove().unwrap();
        assert!(!dir.join("load").exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
