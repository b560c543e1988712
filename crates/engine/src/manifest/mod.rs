//! SSTable manifest: the durable list of a table's SSTables on a shard, so that a removed SSTable is
//! detected.
//!
//! A removed generation leaves no trace in the table's directory, and its rows would be missing silently. So
//! each shard stores the names of its SSTables in `sstables/<table>-<shard>` of the data directory, and a
//! start compares them with the files. Users may remove files for good reasons (a restored snapshot, a
//! damaged SSTable), so missing SSTables are reported and the table stays readable.
//!
//! - An SSTable is durably removed from the manifest before its files are removed, so regular operation never
//!   causes a report, even with crashes. SSTables removed by a truncate are known from its record.
//! - A new SSTable is added afterwards, without waiting for durability: after a loss of power it may be
//!   absent from the manifest, or the manifest may be unreadable, which is reported too.
//! - A start reports missing SSTables, and forgets them when it is complete.
//!
//! The manifest also lists the commit log entries that these SSTables contain ([`Flushed`]). If a start finds
//! every SSTable unchanged, it does not replay these entries; otherwise it replays all.
//!
//! The layout is in `docs/formats/sstable-manifest.md`.

mod flushed;

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base::broken;
use base::crc::crc32;
use model::TableId;
use runtime::{FileError, Files, IoBuf, IoClass, Mutex, OpenOptions};
use sstable::name::{Component, SSTableName};
use sstable::read::SSTable;

use crate::commitlog::LogPosition;
use crate::commitlog::format::split_id;

pub use flushed::Flushed;

/// The first line.
const MAGIC: &str = "messina sstables 2";
/// The previous version, without checksums and positions.
const MAGIC_1: &str = "messina sstables 1";
const FLUSHED: &str = "flushed ";
const TEMPORARY_SUFFIX: &str = ".tmp";
/// Limit for the length of the file. A line has some tens of bytes.
const BYTES_MAX: u64 = 64 << 20;

/// An SSTable by name and content, since another node's SSTables have the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    pub name: SSTableName,
    /// Checksum of Statistics.db according to Messina.db; `None` if it is unknown.
    pub crc: Option<u32>,
}

impl Listed {
    pub fn of(sstable: &SSTable) -> Self {
        let crc = sstable.messina().and_then(|messina| messina.crc_of(&Component::Statistics));
        Self { name: sstable.name(), crc }
    }
}

/// Content of an SSTable manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub sstables: Vec<Listed>,
    pub flushed: Flushed,
}

pub fn encode(content: &Content) -> String {
    let mut text = format!("{MAGIC}\n");
    for Listed { name, crc } in &content.sstables {
        let _ = match crc {
            Some(crc) => writeln!(text, "{name} {crc:08x}"),
            None => writeln!(text, "{name}"),
        };
    }
    for (from, until) in content.flushed.iter() {
        let (a, b) = (from.segment, from.offset_bytes);
        let _ = writeln!(text, "{FLUSHED}{a}:{b} {}:{}", until.segment, until.offset_bytes);
    }
    let crc = crc32(text.as_bytes());
    let _ = writeln!(text, "crc {crc:08x}");
    text
}

/// `None` if the bytes are not a complete, unchanged manifest.
pub fn decode(bytes: &[u8]) -> Option<Content> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (body, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let body = &text[..body.len() + 1];
    if crc.strip_prefix("crc ")? != format!("{:08x}", crc32(body.as_bytes())) {
        return None;
    }
    let mut lines = body.lines();
    if ![MAGIC, MAGIC_1].contains(&lines.next()?) {
        return None;
    }
    let mut content = Content::default();
    for line in lines {
        match line.strip_prefix(FLUSHED) {
            Some(interval) => {
                let (from, until) = interval.split_once(' ')?;
                content.flushed.add(position(from)?, position(until)?);
            }
            None => content.sstables.push(listed(line)?),
        }
    }
    Some(content)
}

fn listed(line: &str) -> Option<Listed> {
    let (name, crc) = match line.split_once(' ') {
        Some((name, crc)) => (name, Some(u32::from_str_radix(crc, 16).ok()?)),
        None => (line, None),
    };
    let (name, _) = SSTableName::parse_file_name(&format!("{name}-{}", Component::Toc)).ok()?;
    Some(Listed { name, crc })
}

fn position(text: &str) -> Option<LogPosition> {
    let (segment, offset_bytes) = text.split_once(':')?;
    Some(LogPosition { segment: segment.parse().ok()?, offset_bytes: offset_bytes.parse().ok()? })
}

/// The directory of all SSTable manifests.
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

/// Result of reading a file.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Absent,
    Unreadable,
    Content(Content),
}

async fn read(files: &Files, path: &Path) -> Found {
    match files.read_all(path, IoClass::Maintenance, BYTES_MAX).await {
        Ok(bytes) => decode(&bytes).map_or(Found::Unreadable, Found::Content),
        Err(error) if error.is_not_found() => Found::Absent,
        Err(_) => Found::Unreadable,
    }
}

/// The content of a manifest's file.
#[derive(Debug)]
struct Stored {
    content: Content,
    /// It survives a loss of power.
    is_durable: bool,
}

/// The SSTable manifest of one table on one shard.
pub struct SSTableManifest {
    path: PathBuf,
    /// The content of the file, if known.
    stored: RefCell<Option<Stored>>,
    /// Entries of earlier runs' logs in SSTables that the start found unchanged; kept in the file until the
    /// start is complete.
    flushed_earlier: RefCell<Flushed>,
    /// An SSTable is missing or was replaced, so these entries are unknown.
    is_doubtful: Cell<bool>,
    /// SSTables missing at the start; kept in the file until the start is complete.
    missing: RefCell<Vec<SSTableName>>,
    /// SSTables about to be removed.
    removing: RefCell<Vec<SSTableName>>,
    is_unreadable: Cell<bool>,
    /// Number of SSTables that were missing at the start.
    missing_at_start: Cell<usize>,
    lock: Mutex,
}

impl SSTableManifest {
    pub fn new(data_dir: &Path, table: TableId, shard: u32) -> Self {
        Self {
            path: dir(data_dir).join(file_name(table, shard)),
            stored: RefCell::default(),
            flushed_earlier: RefCell::default(),
            is_doubtful: Cell::new(false),
            missing: RefCell::default(),
            removing: RefCell::default(),
            is_unreadable: Cell::new(false),
            missing_at_start: Cell::new(0),
            lock: Mutex::default(),
        }
    }

    /// At a start: compares the file, or that of another shard at `path`, with the SSTables that exist
    /// (`there`) and those that this shard has opened. `is_removed` returns whether a truncate has removed an
    /// SSTable.
    pub async fn compare(
        &self,
        files: &Files,
        path: Option<&Path>,
        there: &[SSTableName],
        opened: &[Listed],
        is_removed: impl Fn(&SSTableName) -> bool,
    ) {
        match read(files, path.unwrap_or(&self.path)).await {
            Found::Absent => {}
            Found::Unreadable => self.is_unreadable.set(true),
            Found::Content(content) => {
                let names = || content.sstables.iter().map(|listed| listed.name);
                let missing = names().filter(|name| !there.contains(name) && !is_removed(name));
                self.missing.borrow_mut().extend(missing);
                // An SSTable that cannot be opened, or one of another node with the same name, does not count
                // as unchanged.
                let is_same = |listed: &Listed| is_removed(&listed.name) || opened.contains(listed);
                if !content.sstables.iter().all(is_same) {
                    self.is_doubtful.set(true);
                }
                self.flushed_earlier.borrow_mut().merge(&content.flushed);
                if path.is_none() {
                    // The process before may have been killed before the content was durable.
                    *self.stored.borrow_mut() = Some(Stored { content, is_durable: false });
                }
            }
        }
        if self.is_doubtful.get() {
            self.flushed_earlier.take();
        }
    }

    /// Entries of earlier runs' logs that SSTables contain; empty if an SSTable is missing or was replaced.
    pub fn flushed_earlier(&self) -> Flushed {
        self.flushed_earlier.borrow().clone()
    }

    /// Marks SSTables as about to be removed, or takes the mark back.
    pub fn set_removing(&self, names: &[SSTableName], is_removing: bool) {
        let mut removing = self.removing.borrow_mut();
        removing.retain(|name| !names.contains(name));
        if is_removing {
            removing.extend(names);
        }
    }

    /// Number of SSTables that were missing at the start.
    pub fn missing_count(&self) -> usize {
        self.missing_at_start.get()
    }

    /// Descriptions of missing SSTables and of an unreadable manifest, for users.
    pub fn complaints(&self, full_name: &str, table_dir: &Path) -> Vec<String> {
        let missing = self.missing.borrow();
        let mut all: Vec<String> = missing.iter().map(|name| complaint(full_name, table_dir, name)).collect();
        if self.is_unreadable.get() {
            all.push(unreadable(full_name, &self.path));
        }
        all
    }

    /// Forgets missing SSTables, which have been reported, when the start is complete.
    pub fn accept(&self) {
        self.missing_at_start.set(self.missing.take().len());
        self.is_unreadable.set(false);
        // The old segments are not needed any more.
        self.flushed_earlier.take();
    }

    /// Writes `content()` to the file, if it differs. `is_durable`: the update must survive a loss of power.
    /// A file that cannot be written is removed, so that it causes no false report; this loses no data. Fails
    /// if `is_durable` and after a loss of power the file may be as before.
    pub async fn store(
        &self,
        files: &Files,
        is_durable: bool,
        content: impl Fn() -> Content,
    ) -> Result<(), FileError> {
        let _held = self.lock.lock().await;
        let Content { mut sstables, mut flushed } = content();
        sstables.retain(|listed| !self.removing.borrow().contains(&listed.name));
        sstables.extend(self.missing.borrow().iter().map(|name| Listed { name: *name, crc: None }));
        sstables.sort();
        sstables.dedup_by_key(|listed| listed.name);
        flushed.merge(&self.flushed_earlier.borrow());
        let content = Content { sstables, flushed };
        let is_stored = (self.stored.borrow().as_ref())
            .is_some_and(|stored| stored.content == content && (stored.is_durable || !is_durable));
        if is_stored || (self.stored.borrow().is_some() && broken::is("sstable_manifest")) {
            return Ok(());
        }
        *self.stored.borrow_mut() = None;
        match write(files, &self.path, &encode(&content), is_durable).await {
            Ok(()) => *self.stored.borrow_mut() = Some(Stored { content, is_durable }),
            Err(_) => {
                let removed = remove_file(files, &self.path).await;
                if is_durable {
                    removed?;
                }
            }
        }
        Ok(())
    }

    /// Removes the manifest of a dropped table.
    pub async fn remove(&self, files: &Files) {
        let _held = self.lock.lock().await;
        *self.stored.borrow_mut() = None;
        // One that stays belongs to no table, and the next start removes it.
        let _ = remove_file(files, &self.path).await;
    }
}

fn complaint(full_name: &str, table_dir: &Path, name: &SSTableName) -> String {
    format!(
        "{} of {full_name} existed when the node stopped and is missing now: its rows are lost unless it was removed on \
         purpose; to get them back, stop the node and restore its files to {}",
        name,
        table_dir.display()
    )
}

fn unreadable(full_name: &str, path: &Path) -> String {
    format!(
        "{} cannot be read, so it is unknown whether SSTables of {full_name} are missing; a power failure can cause this",
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

async fn remove_file(files: &Files, path: &Path) -> Result<(), FileError> {
    match files.remove(path).await {
        Err(error) if !error.is_not_found() => return Err(error),
        _removed => (),
    }
    files.sync_dir(path.parent().expect("it is in a directory")).await
}

/// A file in the directory of manifests, with its table and shard; `None` for a temporary file left by a
/// crash.
pub struct ManifestFile {
    pub path: PathBuf,
    pub of: Option<(TableId, u32)>,
}

/// All manifests, and temporary files left by crashes.
pub async fn list(files: &Files, data_dir: &Path) -> Result<Vec<ManifestFile>, FileError> {
    let dir = dir(data_dir);
    let mut found = vec![];
    for entry in files.read_dir(&dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        let of = parse_file_name(&entry.name);
        if of.is_some() || entry.name.ends_with(TEMPORARY_SUFFIX) {
            found.push(ManifestFile { path: dir.join(&entry.name), of });
        }
    }
    Ok(found)
}

/// The highest log segment number in any SSTable manifest. A new log must not reuse it, or its entries would
/// be taken for flushed.
pub async fn last_segment_number(files: &Files, data_dir: &Path) -> Result<u64, FileError> {
    let dir = dir(data_dir);
    let mut last = 0;
    for entry in files.read_dir(&dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        if parse_file_name(&entry.name).is_none() {
            continue;
        }
        if let Found::Content(content) = read(files, &dir.join(&entry.name)).await {
            let numbers = content.flushed.iter().map(|(_, until)| split_id(until.segment).1);
            last = numbers.fold(last, u64::max);
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use runtime::Shard;
    use runtime::sim::{SimOptions, SimWorld};
    use sstable::name::Generation;
    use sstable::version::Version;

    use super::*;

    #[test]
    fn the_worked_example_of_the_format_page() {
        let page = include_str!("../../../../docs/formats/sstable-manifest.md");
        let (_, example) = page.split_once("```text\n").expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        let listed = |number, crc| {
            let name = SSTableName::big(Version::Me, Generation::Number(number));
            Listed { name, crc }
        };
        let at = |segment, offset_bytes| LogPosition { segment, offset_bytes };
        let mut content =
            Content { sstables: vec![listed(3, None), listed(12, Some(0xa1b2c3))], ..Content::default() };
        content.flushed.add(at(1_763_000_000_000, 96), at(1_763_000_000_004, 31_600));
        assert_eq!(encode(&content), example);
        assert_eq!(decode(example.as_bytes()), Some(content));
        assert_eq!(decode(encode(&Content::default()).as_bytes()), Some(Content::default()));
        // As the previous version wrote it.
        let before = b"messina sstables 1\nme-3-big\nme-12-big\ncrc c62f9f78\n";
        let names = vec![listed(3, None), listed(12, None)];
        assert_eq!(decode(before), Some(Content { sstables: names, ..Content::default() }));
        for cut in 0..example.len() {
            assert_eq!(decode(&example.as_bytes()[..cut]), None, "cut at {cut}");
        }
    }

    /// A flush stores what a removal is about to store; the removal must make it durable all the same.
    #[test]
    fn content_that_is_stored_becomes_durable() {
        let world = SimWorld::new(SimOptions::default());
        let node = world.start_node(|_| async {}).unwrap();
        let path = Path::new("/data");
        let listed = |number| {
            let name = SSTableName::big(Version::Me, Generation::Number(number));
            Listed { name, crc: None }
        };
        let of = move |numbers: &[u64]| Content {
            sstables: numbers.iter().map(|number| listed(*number)).collect(),
            ..Content::default()
        };
        let id = TableId::from_u128(77);
        let store = |shard: Shard| async move {
            shard.files().create_dir_all(&dir(path)).await.unwrap();
            let manifest = SSTableManifest::new(path, id, 0);
            manifest.store(shard.files(), true, || of(&[1, 2])).await.unwrap();
            for is_durable in [false, true] {
                manifest.store(shard.files(), is_durable, || of(&[2])).await.unwrap();
            }
        };
        world.block_on(&node, 0, store).unwrap();
        drop(node);
        world.power_loss();
        let bytes = world.disk().read(&dir(path).join(file_name(id, 0))).unwrap();
        assert_eq!(decode(&bytes), Some(of(&[2])));
    }

    #[test]
    fn names_of_files() {
        let id = TableId::from_u128(77);
        assert_eq!(parse_file_name(&file_name(id, 12)), Some((id, 12)));
        assert_eq!(parse_file_name(&format!("{}{TEMPORARY_SUFFIX}", file_name(id, 12))), None);
    }
}
