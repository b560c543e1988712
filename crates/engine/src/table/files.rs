//! The files of a table's directory: finding, opening, linking and removing SSTables.

use std::path::Path;
use std::rc::Rc;

use base::HashSet;
use model::{PartitionKey, PartitionRange};
use reader::{ReadSpec, Reader, Source, Step};
use runtime::{FileError, Files, IoClass};
use sstable::name::{Component, Generation, SstableName};
use sstable::read::{ChunkCache, SSTable, SSTableError, SSTableSource};
use sstable::write::remove_sstable;

use super::flushed::Flushed;
use super::roster::{Content, Listed, Roster};
use super::{Table, lost};
use crate::error::EngineError;

/// The sealed SSTables in `dir`, by name. Files that belong to none are left alone.
pub async fn list(files: &Files, dir: &Path) -> Result<Vec<SstableName>, FileError> {
    let mut names: Vec<SstableName> = vec![];
    for entry in files.read_dir(dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        if let Ok((name, Component::Toc)) = SstableName::parse_file_name(&entry.name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The process, or the system, has as many files open as it may.
fn is_too_many(error: &FileError) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.source.raw_os_error(), Some(EMFILE | ENFILE))
}

/// The number of an SSTable this node wrote; foreign ones may have UUIDs.
pub fn number(name: &SstableName) -> Option<u64> {
    match name.generation {
        Generation::Number(number) => Some(number),
        Generation::Uuid(_) => None,
    }
}

impl Table {
    /// Opens the SSTables that may hold partitions of this shard. One that cannot be opened makes the table
    /// unreadable ([`Table::check_readable`]); what is wrong with it is nobody else's trouble.
    pub async fn open_sstables(
        &self,
        files: &Files,
        cache: &Rc<ChunkCache>,
        shard_count: u32,
    ) -> Result<(), EngineError> {
        let mut opened = vec![];
        let mut last_number = 0;
        let lost = lost::look(files, &self.dir).await?;
        self.unreadable.borrow_mut().extend(lost.map(|why| (None, why)));
        for name in list(files, &self.dir).await? {
            last_number = last_number.max(number(&name).unwrap_or(0));
            match SSTable::open(files, &self.dir, name, cache, IoClass::Maintenance).await {
                Ok(sstable) => {
                    let why = sstable.rebuilt().iter().map(|(component, why)| format!("{component}: {why}"));
                    self.rebuilt.borrow_mut().extend(why);
                    if self.may_own(&sstable, shard_count) {
                        opened.push(sstable);
                    }
                }
                // Nothing is wrong with it, and every other one would end so.
                Err(SSTableError::File(error)) if is_too_many(&error) => return Err(error.into()),
                Err(error) => self.unreadable.borrow_mut().push((Some(name), error.to_string())),
            }
        }
        self.next_generation.set(self.first_generation_from(last_number + 1, shard_count));
        self.set_sstables(opened);
        self.clear_cache();
        Ok(())
    }

    /// At a start: notes which SSTables are missing that were there when the node stopped, by the table's own roster or another
    /// shard's at `path`.
    pub async fn compare_roster(&self, files: &Files, path: Option<&Path>) -> Result<(), FileError> {
        let Some(roster) = &self.roster else { return Ok(()) };
        // Of one whose directory is gone all is told.
        if lost::look(files, &self.dir).await?.is_none() {
            let there = list(files, &self.dir).await?;
            let first_kept = self.truncation().first_generation;
            let is_removed = |name: &SstableName| number(name).is_some_and(|number| number < first_kept);
            let opened: Vec<Listed> = self.sstables().iter().map(|it| Listed::of(it)).collect();
            roster.compare(files, path, &there, &opened, is_removed).await;
        }
        Ok(())
    }

    /// At a start: which entries of earlier runs' logs are in SSTables that this shard had and still has.
    pub(crate) fn flushed_earlier(&self) -> Flushed {
        self.roster.as_ref().map_or_else(Flushed::default, Roster::flushed_earlier)
    }

    /// What the roster misses, for people.
    pub fn missing(&self) -> Vec<String> {
        self.roster.as_ref().map_or(vec![], |roster| roster.complaints(&self.full_name, &self.dir))
    }

    /// How many SSTables were missing at the start.
    pub fn missing_count(&self) -> usize {
        self.roster.as_ref().map_or(0, Roster::missing_count)
    }

    /// The start has ended, and what was missing has been told.
    pub async fn accept_missing(&self, files: &Files) {
        if let Some(roster) = &self.roster {
            roster.accept();
            self.store_roster(files, false).await;
        }
    }

    /// Makes the roster say what the table has now; see [`Roster::store`].
    pub async fn store_roster(&self, files: &Files, is_durable: bool) {
        if let Some(roster) = &self.roster
            && !self.is_dropped()
        {
            let content = || {
                let sstables = self.sstables();
                Content {
                    sstables: sstables.iter().map(|it| Listed::of(it)).collect(),
                    flushed: self.flushed(),
                }
            };
            roster.store(files, is_durable, content).await;
        }
    }

    /// Makes the roster say that these are not needed any more, durably, before they are removed. To be followed by
    /// [`Self::have_left`] when the table has given them up, or keeps them.
    pub async fn let_leave(&self, files: &Files, names: &[SstableName]) {
        if let Some(roster) = &self.roster {
            roster.leave(names, true);
            self.store_roster(files, true).await;
        }
    }

    pub async fn have_left(&self, files: &Files, names: &[SstableName]) {
        if let Some(roster) = &self.roster {
            roster.leave(names, false);
            self.store_roster(files, false).await;
        }
    }

    /// Opens SSTables that have come into the table's directory since the start, and holds those that may have partitions of
    /// this shard ready for [`Self::take_loading`]. Gives how many.
    pub async fn open_loading(
        &self,
        files: &Files,
        cache: &Rc<ChunkCache>,
        names: &[SstableName],
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
        *self.loading.borrow_mut() = opened;
        Ok(count)
    }

    /// Takes what was held ready into the table, all in one step. No job takes any of it before `thaw`: other shards
    /// may not have it yet.
    pub fn take_loading(&self) {
        let opened = self.loading.take();
        self.freeze(opened.iter().map(|sstable| sstable.name()));
        opened.into_iter().for_each(|sstable| self.add_sstable(sstable));
        self.clear_cache();
    }

    /// A file written by one shard of as many as there are now holds that shard's partitions only.
    fn may_own(&self, sstable: &SSTable, shard_count: u32) -> bool {
        match (self.sharder, sstable.messina()) {
            (Some(_), Some(by)) if by.shard_count == Some(shard_count) => by.shard_id == Some(self.shard_id),
            _ => true,
        }
    }

    /// The first number from `from` on that is this shard's turn.
    fn first_generation_from(&self, from: u64, shard_count: u32) -> u64 {
        let (count, shard) = (u64::from(shard_count), u64::from(self.shard_id));
        from + (shard + count - from % count) % count
    }

    /// The SSTables that have something of the partition; a bloom filter alone would name too many.
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

    /// The number of the next SSTable that this shard would write.
    pub fn next_generation(&self) -> u64 {
        self.next_generation.get()
    }

    /// From now on SSTables have numbers of at least `from`.
    pub fn raise_generation(&self, from: u64, shard_count: u32) {
        let from = from.max(self.next_generation.get());
        self.next_generation.set(self.first_generation_from(from, shard_count));
    }

    pub fn take_generation(&self, shard_count: u32) -> u64 {
        let number = self.next_generation.get();
        self.next_generation.set(number + u64::from(shard_count));
        number
    }

    fn set_sstables(&self, sstables: Vec<Rc<SSTable>>) {
        self.parked.clear();
        sstables.iter().for_each(|sstable| sstable.count_fetched_in(&self.counters.fetched_bytes));
        *self.sstables.borrow_mut() = Rc::new(sstables);
    }

    /// One more SSTable. What it holds is to be made known to the row cache afterwards.
    pub(super) fn add_sstable(&self, sstable: Rc<SSTable>) {
        let mut sstables = (**self.sstables.borrow()).clone();
        sstables.push(sstable);
        self.set_sstables(sstables);
        if let Some(cache) = self.cache() {
            cache.raise_phase();
        }
    }

    /// In one step, `inputs` are not in the table any more and `outputs` are. They say the same, but for what was purged, so
    /// the row cache stays as it is.
    pub(crate) fn replace_sstables(&self, inputs: &[Rc<SSTable>], outputs: &[Rc<SSTable>]) {
        let goes = |sstable: &&Rc<SSTable>| inputs.iter().any(|input| Rc::ptr_eq(input, sstable));
        let mut sstables: Vec<_> =
            self.sstables.borrow().iter().filter(|sstable| !goes(sstable)).cloned().collect();
        sstables.extend(outputs.iter().cloned());
        self.set_sstables(sstables);
    }

    /// Whether only partitions of this shard are in it, since this shard wrote it, one of as many as there are now.
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

    /// Takes SSTables numbered below `first_kept` out of the table, unreadable ones included; readers that use
    /// them go on.
    pub fn take_sstables_below(&self, first_kept: u64) {
        self.unreadable.borrow_mut().clear();
        self.forget_flushed();
        let goes = |sstable: &Rc<SSTable>| number(&sstable.name()).is_none_or(|number| number < first_kept);
        let kept: Vec<_> = self.sstables.borrow().iter().filter(|sstable| !goes(sstable)).cloned().collect();
        self.set_sstables(kept);
        self.clear_cache();
    }

    /// Links every SSTable of this shard into `to`, which exists.
    pub async fn link_sstables(&self, files: &Files, to: &Path) -> Result<u64, FileError> {
        let _files = self.files_lock.lock().await;
        let sstables = self.sstables();
        let names: HashSet<SstableName> = sstables.iter().map(|sstable| sstable.name()).collect();
        let mut links = 0;
        for entry in files.read_dir(&self.dir).await?.into_iter().filter(|entry| !entry.is_dir) {
            match SstableName::parse_file_name(&entry.name) {
                Ok((name, _)) if names.contains(&name) => {
                    let linked = files.hard_link(&self.dir.join(&entry.name), &to.join(&entry.name)).await;
                    match linked {
                        // A file that two shards share has been linked by the other one.
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

/// Removes the SSTables in `dir` that a truncate covers: those numbered below `first_kept`.
pub async fn remove_below(files: &Files, dir: &Path, first_kept: u64) -> Result<(), FileError> {
    let covered = |name: &SstableName| number(name).is_some_and(|number| number < first_kept);
    let gone: Vec<SstableName> = list(files, dir).await?.into_iter().filter(covered).collect();
    remove(files, dir, &gone).await
}

/// Removes the files of SSTables; ones that another shard has removed already are no error.
pub async fn remove(files: &Files, dir: &Path, names: &[SstableName]) -> Result<(), FileError> {
    for name in names {
        if files.exists(&dir.join(name.file_name(&Component::Toc))).await? {
            remove_sstable(files, dir, name).await?;
        }
    }
    Ok(())
}
