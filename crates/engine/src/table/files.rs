//! The files of a table's directory: lists, opens, links and removes SSTables.

use std::path::Path;
use std::rc::Rc;

use base::HashSet;
use model::{PartitionKey, PartitionRange};
use reader::{ReadSpec, Reader, Source, Step};
use runtime::{FileError, Files, IoClass};
use sstable::component::secondary_index;
use sstable::name::{Component, Generation, SSTableName};
use sstable::read::{ChunkCache, SSTable, SSTableError, SSTableSource};
use sstable::write::remove_sstable;

use super::{Table, lost};
use crate::error::EngineError;
use crate::manifest::{Content, Flushed, Listed, SSTableManifest};

/// The directory of snapshots in a table's directory.
pub const SNAPSHOTS: &str = "snapshots";

/// The sealed SSTables in `dir`, by name. Files that belong to none are ignored.
pub async fn list(files: &Files, dir: &Path) -> Result<Vec<SSTableName>, FileError> {
    let mut names: Vec<SSTableName> = vec![];
    for entry in files.read_dir(dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        if let Ok((name, Component::Toc)) = SSTableName::parse_file_name(&entry.name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Whether the process or the system has reached its limit of open files.
fn is_too_many(error: &FileError) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.source.raw_os_error(), Some(EMFILE | ENFILE))
}

/// The generation of an SSTable if it is a number; SSTables from elsewhere may have UUIDs.
pub fn number(name: &SSTableName) -> Option<u64> {
    match name.generation {
        Generation::Number(number) => Some(number),
        Generation::Uuid(_) => None,
    }
}

impl Table {
    /// Opens the SSTables that may hold partitions of this shard. One that cannot be opened makes this table
    /// unreadable ([`Table::check_readable`]), without effect on other tables.
    pub async fn open_sstables(
        &self,
        files: &Files,
        cache: &Rc<ChunkCache>,
        shard_count: u32,
    ) -> Result<(), EngineError> {
        let mut opened = vec![];
        let mut last_number = 0;
        let lost = lost::problem(files, &self.dir).await?;
        lost.into_iter().for_each(|why| self.sstables.add_unreadable(None, why));
        for name in list(files, &self.dir).await? {
            last_number = last_number.max(number(&name).unwrap_or(0));
            match SSTable::open(files, &self.dir, name, cache, IoClass::Maintenance).await {
                Ok(sstable) => {
                    self.sstables.add_rebuilt(&sstable);
                    if self.may_own(&sstable, shard_count) {
                        opened.push(sstable);
                    }
                }
                // The SSTable is not at fault, and every further one would fail too.
                Err(SSTableError::File(error)) if is_too_many(&error) => return Err(error.into()),
                Err(error) => self.sstables.add_unreadable(Some(name), error.to_string()),
            }
        }
        self.sstables.begin_generations(last_number + 1, shard_count);
        self.set_sstables(opened);
        self.clear_cache();
        Ok(())
    }

    /// At a start: detects SSTables that existed when the node stopped and are missing now, by the table's
    /// own manifest or by another shard's at `path`.
    pub async fn compare_manifest(&self, files: &Files, path: Option<&Path>) -> Result<(), FileError> {
        let Some(manifest) = &self.sstables.manifest else { return Ok(()) };
        // If the directory was lost, all SSTables are reported as lost.
        if lost::problem(files, &self.dir).await?.is_none() {
            let there = list(files, &self.dir).await?;
            let first_kept = self.truncation().first_generation;
            let is_removed = |name: &SSTableName| number(name).is_some_and(|number| number < first_kept);
            let opened: Vec<Listed> = self.sstables().iter().map(|it| Listed::of(it)).collect();
            manifest.compare(files, path, &there, &opened, is_removed).await;
        }
        Ok(())
    }

    /// At a start: entries of earlier runs' logs in SSTables that this shard had and still has.
    pub(crate) fn flushed_earlier(&self) -> Flushed {
        self.sstables.manifest.as_ref().map_or_else(Flushed::default, SSTableManifest::flushed_earlier)
    }

    /// Human-readable descriptions of missing SSTables.
    pub fn missing(&self) -> Vec<String> {
        self.sstables
            .manifest
            .as_ref()
            .map_or(vec![], |manifest| manifest.complaints(&self.full_name, &self.dir))
    }

    /// Number of SSTables that were missing at the start.
    pub fn missing_count(&self) -> usize {
        self.sstables.manifest.as_ref().map_or(0, SSTableManifest::missing_count)
    }

    /// Forgets missing SSTables, which have been reported, when the start is complete.
    pub async fn accept_missing(&self, files: &Files) {
        if let Some(manifest) = &self.sstables.manifest {
            manifest.accept();
            self.store_manifest(files).await;
        }
    }

    /// Updates the manifest to the table's current SSTables, not durably; see [`SSTableManifest::store`].
    pub async fn store_manifest(&self, files: &Files) {
        // Fails only if it is to be durable.
        let _ = self.store_manifest_as(files, false).await;
    }

    async fn store_manifest_as(&self, files: &Files, is_durable: bool) -> Result<(), FileError> {
        if let Some(manifest) = &self.sstables.manifest
            && !self.is_dropped()
        {
            let content = || {
                let sstables = self.sstables();
                Content {
                    sstables: sstables.iter().map(|it| Listed::of(it)).collect(),
                    flushed: self.memtables.flushed(),
                }
            };
            return manifest.store(files, is_durable, content).await;
        }
        Ok(())
    }

    /// Removes these SSTables from the manifest, durably, before their files are removed. To be followed by
    /// [`Self::commit_removal`] when the table has dropped them, or keeps them. After an error they must
    /// stay: a start after a loss of power would report them as missing.
    pub async fn begin_removal(&self, files: &Files, names: &[SSTableName]) -> Result<(), FileError> {
        if let Some(manifest) = &self.sstables.manifest {
            manifest.set_removing(names, true);
            let stored = self.store_manifest_as(files, true).await;
            if stored.is_err() {
                manifest.set_removing(names, false);
            }
            return stored;
        }
        Ok(())
    }

    /// Updates the manifest after the table has dropped these SSTables, or has kept them.
    pub async fn commit_removal(&self, files: &Files, names: &[SSTableName]) {
        if let Some(manifest) = &self.sstables.manifest {
            manifest.set_removing(names, false);
            self.store_manifest(files).await;
        }
    }

    /// Opens SSTables that were added to the table's directory since the start, and keeps those that may have
    /// partitions of this shard for [`Self::take_loading`]. Returns their number.
    pub async fn open_loading(
        &self,
        files: &Files,
        cache: &Rc<ChunkCache>,
        names: &[SSTableName],
        shard_count: u32,
    ) -> Result<usize, EngineError> {
        let mut opened = vec![];
        for name in names {
            let sstable = SSTable::open(files, &self.dir, *name, cache, IoClass::Maintenance).await;
            let sstable = sstable.map_err(|error| EngineError::SSTable(error.to_string()))?;
            if self.may_own(&sstable, shard_count) {
                opened.push(sstable);
            }
        }
        let count = opened.len();
        *self.sstables.loading.borrow_mut() = opened;
        Ok(count)
    }

    /// Adds the opened SSTables to the table, in one step. No job takes them before `thaw`, since other
    /// shards may not have added them yet.
    pub fn take_loading(&self) {
        let opened = self.sstables.loading.take();
        self.sstables.freeze(opened.iter().map(|sstable| sstable.name()));
        opened.into_iter().for_each(|sstable| self.add_sstable(sstable));
        self.clear_cache();
    }

    /// Whether the SSTable may have partitions of this shard. One written by a shard with the same number of
    /// shards has only that shard's partitions.
    fn may_own(&self, sstable: &SSTable, shard_count: u32) -> bool {
        match (self.sharder, sstable.messina()) {
            (Some(_), Some(by)) if by.shard_count == Some(shard_count) => by.shard_id == Some(self.shard_id),
            _ => true,
        }
    }

    /// The SSTables that contain the partition; the bloom filter alone would return too many.
    pub async fn sstables_with(&self, key: &PartitionKey) -> Result<Vec<Rc<SSTable>>, EngineError> {
        let spec = ReadSpec::new(self.schema(), PartitionRange::Key(key.clone()));
        let mut found = vec![];
        for sstable in self.sstables().iter().filter(|sstable| sstable.may_contain(key)) {
            let mut reader = SSTableSource::new(sstable.clone(), IoClass::Maintenance).reader(&spec);
            loop {
                match reader.next()? {
                    Step::Load => reader.load().await?,
                    Step::Ready(_) => break found.push(sstable.clone()),
                    Step::End => break,
                }
            }
        }
        Ok(found)
    }

    fn set_sstables(&self, sstables: Vec<Rc<SSTable>>) {
        self.parked.clear();
        for sstable in &sstables {
            sstable.count_fetched_in(&self.counters.fetched_bytes);
            sstable.count_false_positives_in(&self.counters.false_positives);
        }
        self.sstables.set_live(sstables);
    }

    /// Adds an SSTable. The caller then merges its data into the row cache.
    pub(crate) fn add_sstable(&self, sstable: Rc<SSTable>) {
        let mut sstables = (*self.sstables()).clone();
        sstables.push(sstable);
        self.set_sstables(sstables);
        if let Some(cache) = self.cache() {
            cache.raise_phase();
        }
    }

    /// Replaces `inputs` by `outputs` in one step. Except for purged tombstones their content is the same, so
    /// the row cache stays valid.
    pub(crate) fn replace_sstables(&self, inputs: &[Rc<SSTable>], outputs: &[Rc<SSTable>]) {
        let goes = |sstable: &&Rc<SSTable>| inputs.iter().any(|input| Rc::ptr_eq(input, sstable));
        let mut sstables: Vec<_> = self.sstables().iter().filter(|sstable| !goes(sstable)).cloned().collect();
        sstables.extend(outputs.iter().cloned());
        self.set_sstables(sstables);
    }

    /// Whether it has only partitions of this shard, because this shard wrote it with the same number of
    /// shards.
    pub fn is_written_here(&self, sstable: &SSTable, shard_count: u32) -> bool {
        match (self.sharder, sstable.messina()) {
            (None, _) => true,
            (Some(_), Some(by)) => by.shard_count == Some(shard_count) && by.shard_id == Some(self.shard_id),
            (Some(_), None) => shard_count == 1,
        }
    }

    /// Whether other shards read it too.
    pub fn is_shared(&self, sstable: &SSTable, shard_count: u32) -> bool {
        shard_count > 1 && !self.is_written_here(sstable, shard_count)
    }

    /// Removes SSTables with generations below `first_kept` from the table, including unreadable ones; open
    /// readers continue.
    pub fn take_sstables_below(&self, first_kept: u64) {
        self.sstables.remove_unreadable(None);
        self.forget_flushed();
        let goes = |sstable: &Rc<SSTable>| number(&sstable.name()).is_none_or(|number| number < first_kept);
        let kept: Vec<_> = self.sstables().iter().filter(|sstable| !goes(sstable)).cloned().collect();
        self.set_sstables(kept);
        self.clear_cache();
    }

    /// Links every SSTable of this shard into `to`, which exists, including those that cannot be opened.
    /// Returns the number of links.
    pub async fn link_sstables(&self, files: &Files, to: &Path) -> Result<u64, FileError> {
        let _files = self.files_lock.lock().await;
        let sstables = self.sstables();
        let mut names: HashSet<SSTableName> = sstables.iter().map(|sstable| sstable.name()).collect();
        names.extend(self.sstables.unreadable_names());
        let mut links = 0;
        for entry in files.read_dir(&self.dir).await?.into_iter().filter(|entry| !entry.is_dir) {
            match SSTableName::parse_file_name(&entry.name) {
                // An index that is being built is not part of its SSTable yet.
                Ok((_, component)) if secondary_index::is_temporary(&component) => {}
                Ok((name, _)) if names.contains(&name) => {
                    let linked = files.hard_link(&self.dir.join(&entry.name), &to.join(&entry.name)).await;
                    match linked {
                        // A file shared by two shards was already linked by the other one.
                        Err(error) if error.is_already_exists() => {}
                        linked => linked?,
                    }
                    links += 1;
                }
                _ => {}
            }
        }
        files.sync_dir(to).await?;
        Ok(links)
    }
}

/// Removes the SSTables in `dir` that a truncate covers: those with generations below `first_kept`.
pub async fn remove_below(files: &Files, dir: &Path, first_kept: u64) -> Result<(), FileError> {
    let covered = |name: &SSTableName| number(name).is_some_and(|number| number < first_kept);
    let gone: Vec<SSTableName> = list(files, dir).await?.into_iter().filter(covered).collect();
    remove(files, dir, &gone).await
}

/// Removes the files of SSTables; those that another shard has already removed are ignored.
pub async fn remove(files: &Files, dir: &Path, names: &[SSTableName]) -> Result<(), FileError> {
    for name in names {
        if files.exists(&dir.join(name.file_name(&Component::Toc))).await? {
            remove_sstable(files, dir, name).await?;
        }
    }
    Ok(())
}
