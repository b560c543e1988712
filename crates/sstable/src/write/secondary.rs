//! Writes the component of one secondary index: from the fragments of the SSTable to a sorted file.
//!
//! 1. Terms and postings are kept sorted in memory. When they take about 8 MiB ([`RUN_BYTES`]), they become a
//!    sorted run in a temporary file, so that memory is bounded for SSTables of any size.
//! 2. At the end the runs are merged into the component; a single run is written without the detour.
//! 3. Postings arrive in the order of the table, so for equal terms an earlier run comes first, and no
//!    clustering keys have to be compared.
//!
//! [`build_index`] builds the component of an SSTable that exists. The component gets its name when it is
//! complete and durable, so a crash leaves only a temporary file.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use model::index::{IndexId, Posting, stored_term};
use model::{IndexDefinition, IndexTerms, PartitionKey, PartitionRange, SmallBytes, TableSchema};
use reader::{Fragment, ReadSpec, Reader, Source, Step};
use runtime::{File, FileError, Files, IoClass, OpenOptions, Shard};

use super::error::WriteError;
use super::output_file::OutputFile;
use crate::component::secondary_index::{
    self, Block, Header, IndexEntry, TreeBuilder, block_len, component, decode_block, temporary,
};
use crate::component::toc;
use crate::name::{Component, SSTableName};
use crate::read::{SSTable, SSTableSource};

/// A sorted run has about this number of bytes of memory ([`super::WriteOptions::index_run_bytes`]).
pub(super) const RUN_BYTES: usize = 8 << 20;
/// Content of a block of a run.
const RUN_BLOCK_BYTES: usize = 32 * 1024;
/// Entries that are encoded between two yields.
const ENTRIES_A_TURN: usize = 256;
/// Memory of an entry beyond its heap memory: key and value of the map, and the map's nodes.
const ENTRY_BYTES: usize = (size_of::<(SmallBytes, u32)>() + size_of::<Posting>()) * 3 / 2;
/// Fragments between two checks whether the task should yield.
const FRAGMENTS_A_CHECK: u64 = 16;

/// Postings by term; the number keeps those of a term in the order of their arrival.
type Entries = BTreeMap<(SmallBytes, u32), Posting>;

/// See the head of this file.
pub struct SecondaryIndexWriter {
    files: Files,
    class: IoClass,
    /// The file of the component.
    path: PathBuf,
    /// The file of the runs.
    runs_path: PathBuf,
    header: Header,
    clustering_columns: u32,
    terms: IndexTerms,
    /// The current partition, and whether it is among the postings of its partition key.
    key: Option<PartitionKey>,
    has_key_posting: bool,
    entries: Entries,
    entries_bytes: usize,
    arrived: u32,
    /// Entries that are to become runs.
    full: VecDeque<Entries>,
    runs: Option<OutputFile>,
    /// The offsets in the file of runs at which runs end.
    run_ends: Vec<u64>,
    run_bytes: usize,
}

impl SecondaryIndexWriter {
    pub(super) fn new(
        files: &Files,
        dir: &Path,
        name: &SSTableName,
        schema: &TableSchema,
        index: &Arc<IndexDefinition>,
        class: IoClass,
        run_bytes: usize,
    ) -> Self {
        let terms = IndexTerms::new(schema, index).expect("a schema has only indexes that fit it");
        Self {
            files: files.clone(),
            class,
            path: dir.join(name.file_name(&component(index.id))),
            runs_path: dir.join(name.file_name(&temporary(index.id))),
            header: Header { table: schema.id, index: index.id },
            clustering_columns: schema.clustering.len() as u32,
            terms,
            key: None,
            has_key_posting: false,
            entries: Entries::new(),
            entries_bytes: 0,
            arrived: 0,
            full: VecDeque::new(),
            runs: None,
            run_ends: vec![],
            run_bytes,
        }
    }

    /// Adds the terms of the next fragment.
    pub(super) fn push(&mut self, fragment: &Fragment) {
        match fragment {
            Fragment::PartitionStart { key, .. } => {
                self.key = Some(key.clone());
                self.has_key_posting = false;
            }
            Fragment::Static(row) => {
                self.push_key();
                let mut found = vec![];
                self.terms.of_static_row(row, &mut |term| found.push(term));
                found.into_iter().for_each(|term| self.insert(&term, None));
            }
            Fragment::Row(row) => {
                self.push_key();
                let mut found = vec![];
                self.terms.of_row(&row.key, &row.row, &mut |term| found.push(term));
                found.into_iter().for_each(|term| self.insert(&term, Some(&row.key)));
            }
            Fragment::Change(_) | Fragment::PartitionEnd => (),
        }
    }

    /// A partition is found by its key if it has rows.
    fn push_key(&mut self) {
        if self.has_key_posting {
            return;
        }
        self.has_key_posting = true;
        let Some(key) = &self.key else { return };
        let mut found = vec![];
        self.terms.of_partition_key(key, &mut |term| found.push(term));
        found.into_iter().for_each(|term| self.insert(&term, None));
    }

    fn insert(&mut self, term: &[u8], row: Option<&model::ClusteringKey>) {
        let Some(key) = &self.key else { return };
        let term = SmallBytes::from(stored_term(term));
        let posting = Posting { key: key.clone(), row: row.cloned() };
        self.entries_bytes += ENTRY_BYTES + term.heap_bytes() + posting.heap_bytes();
        self.arrived += 1;
        self.entries.insert((term, self.arrived), posting);
        if self.entries_bytes >= self.run_bytes {
            self.full.push_back(std::mem::take(&mut self.entries));
            self.entries_bytes = 0;
            self.arrived = 0;
        }
    }

    pub(super) fn wants_write(&self) -> bool {
        !self.full.is_empty()
    }

    /// Writes the full runs.
    pub(super) async fn write_out(&mut self) -> Result<(), FileError> {
        while let Some(entries) = self.full.pop_front() {
            self.write_run(entries).await?;
        }
        Ok(())
    }

    async fn write_run(&mut self, entries: Entries) -> Result<(), FileError> {
        let runs = match &mut self.runs {
            Some(runs) => runs,
            none => none.insert(OutputFile::create(&self.files, &self.runs_path, self.class).await?),
        };
        let mut builder = TreeBuilder::of_run(RUN_BLOCK_BYTES, runs.len_bytes());
        for (at, ((term, _), posting)) in entries.into_iter().enumerate() {
            builder.push(&term, &posting);
            if at % ENTRIES_A_TURN == ENTRIES_A_TURN - 1 {
                runs.append(&builder.take_bytes());
                runs.write_full().await?;
                super::writer::yield_now().await;
            }
        }
        let (last, end) = builder.finish_run();
        runs.append(&last);
        self.run_ends.push(end);
        Ok(())
    }

    /// Writes the component. `data_bytes` is the length of Data.db. Returns the file, which the caller has to
    /// sync, and its length.
    pub(super) async fn finish(self, data_bytes: u64) -> Result<(File, u64), FileError> {
        let path = self.path.clone();
        self.finish_as(&path, data_bytes).await
    }

    async fn finish_as(mut self, path: &Path, data_bytes: u64) -> Result<(File, u64), FileError> {
        self.write_out().await?;
        let mut out = OutputFile::create(&self.files, path, self.class).await?;
        let mut builder = TreeBuilder::new(&self.header);
        let entries = std::mem::take(&mut self.entries);
        if self.runs.is_none() {
            for (at, ((term, _), posting)) in entries.into_iter().enumerate() {
                builder.push(&term, &posting);
                if at % ENTRIES_A_TURN == ENTRIES_A_TURN - 1 {
                    out.append(&builder.take_bytes());
                    out.write_full().await?;
                    super::writer::yield_now().await;
                }
            }
        } else {
            self.write_run(entries).await?;
            let runs = self.runs.take().expect("a run was written");
            runs.finish().await?;
            self.merge(&mut builder, &mut out).await?;
            self.files.remove(&self.runs_path).await?;
        }
        out.append(&builder.finish(data_bytes, self.clustering_columns));
        let bytes = out.len_bytes();
        Ok((out.finish().await?, bytes))
    }

    async fn merge(&self, builder: &mut TreeBuilder, out: &mut OutputFile) -> Result<(), FileError> {
        let file = self.files.open(&self.runs_path, OpenOptions::read()).await?;
        let mut starts = vec![0];
        starts.extend_from_slice(&self.run_ends);
        let mut runs = vec![];
        // The heads of the runs by term; of a term the earliest run comes first.
        let mut heads: BTreeMap<(SmallBytes, usize), Posting> = BTreeMap::new();
        for (number, ends) in starts.windows(2).enumerate() {
            let columns = self.clustering_columns;
            let mut run = Run { at: ends[0], end: ends[1], columns, entries: VecDeque::new() };
            if let Some(IndexEntry { term, posting }) = run.next(&file, self.class).await? {
                heads.insert((term, number), posting);
            }
            runs.push(run);
        }
        let mut merged = 0;
        while let Some(((term, number), posting)) = heads.pop_first() {
            builder.push(&term, &posting);
            if let Some(IndexEntry { term, posting }) = runs[number].next(&file, self.class).await? {
                heads.insert((term, number), posting);
            }
            merged += 1;
            if merged % ENTRIES_A_TURN == 0 {
                out.append(&builder.take_bytes());
                out.write_full().await?;
                super::writer::yield_now().await;
            }
        }
        Ok(())
    }
}

/// A sorted run that is read back.
struct Run {
    at: u64,
    end: u64,
    columns: u32,
    entries: VecDeque<IndexEntry>,
}

impl Run {
    async fn next(&mut self, file: &File, class: IoClass) -> Result<Option<IndexEntry>, FileError> {
        if self.entries.is_empty() && self.at < self.end {
            let damaged = |detail: String| {
                FileError::new("read", file.path(), io::Error::new(io::ErrorKind::InvalidData, detail))
            };
            let head = file.read_at(self.at, secondary_index::BLOCK_HEAD_BYTES, class).await?;
            let len = block_len(&head).map_err(|error| damaged(error.to_string()))?;
            let bytes = file.read_at(self.at, len, class).await?;
            match decode_block(&bytes, self.at, self.columns) {
                Ok(Block::Leaf(entries)) => self.entries = entries.into(),
                Ok(Block::Node(_)) => return Err(damaged("a run has only leaves".to_owned())),
                Err(error) => return Err(damaged(error.shifted(self.at).to_string())),
            }
            self.at += len as u64;
        }
        Ok(self.entries.pop_front())
    }
}

/// Builds the component of an index for an SSTable that has none, under a temporary name. [`publish_index`]
/// gives it its name. A temporary file of an earlier attempt is replaced.
///
/// `progress` counts the uncompressed bytes that were read. `still_wanted` is asked now and then; if it
/// returns false, the build ends without a result.
pub async fn build_index(
    sstable: &Rc<SSTable>,
    schema: &Arc<TableSchema>,
    index: &Arc<IndexDefinition>,
    class: IoClass,
    shard: &Shard,
    progress: Rc<Cell<u64>>,
    still_wanted: &dyn Fn() -> bool,
) -> Result<bool, WriteError> {
    let (files, dir, name) = (shard.files(), sstable.dir(), sstable.name());
    remove_temporary(files, dir, &name, index.id).await?;
    let mut writer = SecondaryIndexWriter::new(files, dir, &name, schema, index, class, RUN_BYTES);
    writer.runs_path = dir.join(name.file_name(&sorted_runs(index.id)));
    let temporary = dir.join(name.file_name(&temporary(index.id)));
    let source = SSTableSource::new(sstable.clone(), class).bypass_cache(true).progress(progress);
    let built = match feed(&mut writer, &source, schema, shard, still_wanted).await {
        Ok(true) => match writer.finish_as(&temporary, sstable.data_bytes()).await {
            Ok((file, _)) => file.sync_data().await.map(|()| true).map_err(WriteError::from),
            Err(error) => Err(error.into()),
        },
        other => other,
    };
    if !matches!(built, Ok(true)) {
        remove_temporary(files, dir, &name, index.id).await?;
    }
    built
}

async fn feed(
    writer: &mut SecondaryIndexWriter,
    source: &SSTableSource,
    schema: &Arc<TableSchema>,
    shard: &Shard,
    still_wanted: &dyn Fn() -> bool,
) -> Result<bool, WriteError> {
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
    let mut reader = source.reader(&spec);
    let mut fragments = 0u64;
    loop {
        match reader.next()? {
            Step::Ready(fragment) => writer.push(&fragment),
            Step::Load => reader.load().await?,
            Step::End => return Ok(true),
        }
        writer.write_out().await?;
        fragments += 1;
        if fragments.is_multiple_of(FRAGMENTS_A_CHECK) && shard.need_preempt() {
            shard.yield_now().await;
            if !still_wanted() {
                return Ok(false);
            }
        }
    }
}

/// The component of the runs of [`build_index`].
fn sorted_runs(id: IndexId) -> Component {
    Component::Other(format!("MessinaIndex_{}.runs.db.tmp", id.simple()))
}

/// Removes what an interrupted [`build_index`] has left.
async fn remove_temporary(
    files: &Files,
    dir: &Path,
    name: &SSTableName,
    id: IndexId,
) -> Result<(), FileError> {
    for component in [temporary(id), sorted_runs(id)] {
        match files.remove(&dir.join(name.file_name(&component))).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _removed => (),
        }
    }
    Ok(())
}

/// Makes the component that [`build_index`] has built a part of the SSTable: first TOC.txt lists it, then it
/// gets its name, so that no removal of the SSTable forgets it. The caller keeps others from removing the
/// SSTable meanwhile.
pub async fn publish_index(files: &Files, sstable: &SSTable, id: IndexId) -> Result<(), FileError> {
    let (dir, name) = (sstable.dir(), sstable.name());
    change_toc(files, dir, &name, &component(id), true).await?;
    let temporary = dir.join(name.file_name(&temporary(id)));
    files.rename(&temporary, &dir.join(name.file_name(&component(id)))).await?;
    files.sync_dir(dir).await
}

/// Removes what [`build_index`] has built, if it is not to be published.
pub async fn discard_index(files: &Files, sstable: &SSTable, id: IndexId) -> Result<(), FileError> {
    remove_temporary(files, sstable.dir(), &sstable.name(), id).await
}

/// Removes the component of an index that was dropped, or is damaged. Readers that have it open go on.
pub async fn remove_index(files: &Files, sstable: &SSTable, id: IndexId) -> Result<(), FileError> {
    let (dir, name) = (sstable.dir(), sstable.name());
    match files.remove(&dir.join(name.file_name(&component(id)))).await {
        Err(error) if !error.is_not_found() => return Err(error),
        _removed => (),
    }
    remove_temporary(files, dir, &name, id).await?;
    change_toc(files, dir, &name, &component(id), false).await?;
    files.sync_dir(dir).await
}

/// Beginning of the name of a TOC.txt that is about to replace another.
const NEW_TOC: &str = "toc-of-";

/// Removes what builds have left that were interrupted by a crash.
pub(super) async fn clean_up(files: &Files, dir: &Path) -> Result<(), FileError> {
    for entry in files.read_dir(dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        let is_toc = entry.name.starts_with(NEW_TOC) && entry.name.ends_with(".tmp");
        let component = SSTableName::parse_file_name(&entry.name).map(|(_, component)| component);
        if is_toc || component.is_ok_and(|component| secondary_index::is_temporary(&component)) {
            files.remove(&dir.join(&entry.name)).await?;
        }
    }
    Ok(())
}

/// Longest TOC.txt in bytes that is read.
const TOC_BYTES_MAX: u64 = 64 * 1024;

/// Replaces TOC.txt by one that lists the component, or does not list it.
async fn change_toc(
    files: &Files,
    dir: &Path,
    name: &SSTableName,
    component: &Component,
    is_listed: bool,
) -> Result<(), FileError> {
    let path = dir.join(name.file_name(&Component::Toc));
    let bytes = files.read_all(&path, IoClass::Maintenance, TOC_BYTES_MAX).await?;
    let mut listed = toc::decode(&bytes).map_err(|error| {
        FileError::new("read", &path, io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
    })?;
    if listed.contains(component) == is_listed {
        return Ok(());
    }
    listed.retain(|other| other != component);
    if is_listed {
        listed.push(component.clone());
    }
    // A name that is no component's, so that a crash leaves nothing that looks like an SSTable.
    let new = dir.join(format!("{NEW_TOC}{name}.tmp"));
    let replaced = async {
        files.write_all(&new, &toc::encode(&listed), IoClass::Maintenance).await?;
        files.rename(&new, &path).await
    };
    if let Err(error) = replaced.await {
        // If it cannot be removed either, the next start does it.
        let _ = files.remove(&new).await;
        return Err(error);
    }
    files.sync_dir(dir).await
}
