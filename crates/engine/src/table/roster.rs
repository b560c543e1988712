//! Which SSTables a shard has of a table, so that one whose files are taken away is missed.
//!
//! A generation that is not there leaves no trace in the table's directory, and its rows are gone without a word. So each shard
//! keeps the names it has in `sstables/<table>-<shard>` of the data directory, which a start compares with what is there. People
//! may rightly take files away (a restored snapshot, a damaged SSTable), so what is missing is told and the table is read.
//!
//! - What is about to be removed is taken out before, durably: nothing that goes as it should is ever missed, whatever crashes. What a
//!   truncate removes is known by its record.
//! - What is new is put in afterwards, and not waited for: after a loss of power it may be unknown, or the roster unreadable,
//!   which is told too.
//! - A start tells what is missing, and forgets it when it has ended well.
//!
//! The layout is in `docs/formats/roster.md`.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::HashSet;
use base::crc::crc32;
use model::TableId;
use runtime::{FileError, Files, IoBuf, IoClass, OpenOptions};
use sstable::name::{Component, SstableName};

use super::Table;
use super::files_lock::FilesLock;

/// The first line.
const MAGIC: &str = "messina sstables 1";
const TEMPORARY_SUFFIX: &str = ".tmp";
/// A line is some tens of bytes.
const BYTES_MAX: u64 = 64 << 20;

pub fn encode(names: &[SstableName]) -> String {
    let mut text = format!("{MAGIC}\n");
    for name in names {
        let _ = writeln!(text, "{name}");
    }
    let crc = crc32(text.as_bytes());
    let _ = writeln!(text, "crc {crc:08x}");
    text
}

/// `None`: this is not what was written.
pub fn decode(bytes: &[u8]) -> Option<Vec<SstableName>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (body, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let body = &text[..body.len() + 1];
    if crc.strip_prefix("crc ")? != format!("{:08x}", crc32(body.as_bytes())) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()? != MAGIC {
        return None;
    }
    let name = |line| SstableName::parse_file_name(&format!("{line}-{}", Component::Toc)).ok();
    lines.map(|line| name(line).map(|(name, _)| name)).collect()
}

/// The directory of all rosters.
pub fn dir(data_dir: &Path) -> PathBuf {
    data_dir.join("sstables")
}

fn file_name(table: TableId, shard: u32) -> String {
    format!("{}-{shard}", table.simple())
}

fn parse_file_name(name: &str) -> Option<(TableId, u32)> {
    let (table, shard) = name.split_once('-')?;
    Some((TableId::try_parse(table).ok()?, shard.parse().ok()?))
}

/// What a file says.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Absent,
    Unreadable,
    Names(Vec<SstableName>),
}

async fn read(files: &Files, path: &Path) -> Found {
    match files.read_all(path, IoClass::Maintenance, BYTES_MAX).await {
        Ok(bytes) => decode(&bytes).map_or(Found::Unreadable, Found::Names),
        Err(error) if error.is_not_found() => Found::Absent,
        Err(_) => Found::Unreadable,
    }
}

/// The roster of one table on one shard.
pub struct Roster {
    path: PathBuf,
    /// What the file says, as far as is known.
    stored: RefCell<Option<HashSet<SstableName>>>,
    /// Missing since the start, and kept in the file until that has ended.
    missing: RefCell<Vec<SstableName>>,
    /// About to be removed.
    leaving: RefCell<Vec<SstableName>>,
    is_unreadable: Cell<bool>,
    /// So many were missing at the start.
    told: Cell<usize>,
    lock: FilesLock,
}

impl Roster {
    pub fn new(data_dir: &Path, table: TableId, shard: u32) -> Self {
        Self {
            path: dir(data_dir).join(file_name(table, shard)),
            stored: RefCell::default(),
            missing: RefCell::default(),
            leaving: RefCell::default(),
            is_unreadable: Cell::new(false),
            told: Cell::new(0),
            lock: FilesLock::default(),
        }
    }

    /// At a start: compares the file, or another shard's at `path`, with the SSTables that are `there`. `is_removed` says of which
    /// that are not there a truncate removed them.
    pub async fn compare(
        &self,
        files: &Files,
        path: Option<&Path>,
        there: &[SstableName],
        is_removed: impl Fn(&SstableName) -> bool,
    ) {
        match read(files, path.unwrap_or(&self.path)).await {
            Found::Absent => {}
            Found::Unreadable => self.is_unreadable.set(true),
            Found::Names(names) => {
                let missing = names.iter().filter(|name| !there.contains(name) && !is_removed(name));
                self.missing.borrow_mut().extend(missing);
                if path.is_none() {
                    *self.stored.borrow_mut() = Some(names.into_iter().collect());
                }
            }
        }
    }

    /// These are about to be removed, or are not after all.
    pub fn leave(&self, names: &[SstableName], is_leaving: bool) {
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|name| !names.contains(name));
        if is_leaving {
            leaving.extend(names);
        }
    }

    /// How many SSTables were missing at the start.
    pub fn missing_count(&self) -> usize {
        self.told.get()
    }

    /// What is wrong, for people.
    pub fn complaints(&self, full_name: &str, table_dir: &Path) -> Vec<String> {
        let missing = self.missing.borrow();
        let mut all: Vec<String> = missing.iter().map(|name| complaint(full_name, table_dir, name)).collect();
        if self.is_unreadable.get() {
            all.push(unreadable(full_name, &self.path));
        }
        all
    }

    /// The start has ended, and what was missing has been told.
    pub fn accept(&self) {
        self.told.set(self.missing.take().len());
        self.is_unreadable.set(false);
    }

    /// Makes the file say `names()`, if it says anything else. `is_durable`: it does so after a loss of power too. If it cannot
    /// be written it goes, so that nothing is missed in vain; that it says nothing costs no data.
    pub async fn store(&self, files: &Files, is_durable: bool, names: impl Fn() -> Vec<SstableName>) {
        let _held = self.lock.lock().await;
        let mut names = names();
        names.retain(|name| !self.leaving.borrow().contains(name));
        names.extend(self.missing.borrow().iter());
        names.sort();
        names.dedup();
        let set: HashSet<SstableName> = names.iter().copied().collect();
        if self.stored.borrow().as_ref() == Some(&set) {
            return;
        }
        *self.stored.borrow_mut() = None;
        match write(files, &self.path, &encode(&names), is_durable).await {
            Ok(()) => *self.stored.borrow_mut() = Some(set),
            Err(_) => remove_file(files, &self.path).await,
        }
    }

    /// The table is gone.
    pub async fn remove(&self, files: &Files) {
        let _held = self.lock.lock().await;
        *self.stored.borrow_mut() = None;
        remove_file(files, &self.path).await;
    }
}

fn complaint(full_name: &str, table_dir: &Path, name: &SstableName) -> String {
    format!(
        "{} of {full_name} was there when the node stopped and is not now: its rows are missing unless that was wanted; to have them \
         again, stop the node and restore its files to {}",
        name,
        table_dir.display()
    )
}

fn unreadable(full_name: &str, path: &Path) -> String {
    format!(
        "{} cannot be read, so nobody knows whether SSTables of {full_name} are missing; a loss of power may do that",
        path.display()
    )
}

async fn write(files: &Files, path: &Path, text: &str, is_durable: bool) -> Result<(), FileError> {
    let temporary = PathBuf::from(format!("{}{TEMPORARY_SUFFIX}", path.display()));
    let parent = path.parent().expect("it is in a directory");
    let written = async {
        let file = files.open(&temporary, OpenOptions::create_truncate()).await?;
        file.write_at(0, IoBuf::copy_from(text.as_bytes()), IoClass::Maintenance).await?;
        if is_durable {
            file.sync_data().await?;
        }
        files.rename(&temporary, path).await?;
        if is_durable { files.sync_dir(parent).await } else { Ok(()) }
    };
    let result = written.await;
    if result.is_err() {
        let _ = files.remove(&temporary).await;
    }
    result
}

async fn remove_file(files: &Files, path: &Path) {
    let _ = files.remove(path).await;
    let _ = files.sync_dir(path.parent().expect("it is in a directory")).await;
}

/// At a start, on the first shard: what rosters of shards say that there are no more is missed by the table here. Gives the files
/// that are not needed when the start has ended: those, and those of tables that there are no more.
pub async fn adopt(
    files: &Files,
    data_dir: &Path,
    shard_count: u32,
    table: impl Fn(TableId) -> Option<Rc<Table>>,
) -> Result<Vec<PathBuf>, FileError> {
    let dir = dir(data_dir);
    let mut adopted = vec![];
    for entry in files.read_dir(&dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        let path = dir.join(&entry.name);
        let Some((id, shard)) = parse_file_name(&entry.name) else {
            if entry.name.ends_with(TEMPORARY_SUFFIX) {
                adopted.push(path);
            }
            continue;
        };
        match table(id) {
            Some(_) if shard < shard_count => continue,
            Some(table) => table.compare_roster(files, Some(&path)).await?,
            None => {}
        }
        adopted.push(path);
    }
    Ok(adopted)
}

#[cfg(test)]
mod tests {
    use sstable::name::Generation;
    use sstable::version::Version;

    use super::*;

    #[test]
    fn the_worked_example_of_the_format_page() {
        let page = include_str!("../../../../docs/formats/roster.md");
        let (_, example) = page.split_once("```text\n").expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        let names = [3, 12].map(|number| SstableName::big(Version::Me, Generation::Number(number)));
        assert_eq!(encode(&names), example);
        assert_eq!(decode(example.as_bytes()), Some(names.to_vec()));
        assert_eq!(decode(encode(&[]).as_bytes()), Some(vec![]));
        for cut in 0..example.len() {
            assert_eq!(decode(&example.as_bytes()[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn names_of_files() {
        let id = TableId::from_u128(77);
        assert_eq!(parse_file_name(&file_name(id, 12)), Some((id, 12)));
        assert_eq!(parse_file_name(&format!("{}{TEMPORARY_SUFFIX}", file_name(id, 12))), None);
    }
}
