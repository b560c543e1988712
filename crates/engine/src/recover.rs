//! Recovery: opens a directory at a start.
//!
//! 1. The directory is created if it does not exist, and locked.
//! 2. Unfinished work of a crash in table directories is removed, or completed in the case of committed
//!    replacements of SSTables.
//! 3. Shard 0 opens the system tables, replays their log, and reads the schema.
//! 4. Every shard opens its tables; SSTables covered by a truncate are removed. Attached tables are opened.
//! 5. Every shard replays the segments assigned to it; each entry goes to the shard that owns its token now.
//!    Entries that SSTables already contain are skipped.
//! 6. The replayed entries are flushed and the old segments are removed. Only then each log creates its first
//!    segment.
//!
//! If parts of the log are missing or durable entries are unreadable, the start fails (before step 1, or
//! after step 2, 3 or 5), unless the options allow it to continue without them.
//!
//! Replay is idempotent. A start that fails changes nothing that the next one needs, and leaves no segments
//! (`abandon`).

mod abandon;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use base::HashMap;
use catalog::system::{COLUMN_IDS, COLUMNS, KEYSPACES, TABLES};
use catalog::{Catalog, TableSettings, is_system_keyspace};
use model::{Mutation, TableId, TableSchema, codec};
use reader::{CompactReader, Keep, ReadSpec};
use runtime::{CpuGroup, Files, IoClass, Shard};

use crate::commitlog::archive;
use crate::commitlog::census::{self, Census};
use crate::commitlog::format::{mutations_of, split_id};
use crate::commitlog::replay::{self, Gap, OldSegment, ReplayReport, Replayed};
use crate::commitlog::{CommitLog, CommitLogOptions, LogPosition, SyncMode};
use crate::compaction::{CompactionLog, CompactionSetup, History, record};
use crate::error::EngineError;
use crate::manifest::{self, Flushed, ManifestFile};
use crate::node::{NodeShard, attach, make_dirs, on_all, publish, snapshot, table_messages};
use crate::options::{EngineOptions, OnDamagedLog};
use crate::shard::EngineShard;
use crate::table::truncation::{self, Truncation};
use crate::table::{Table, dropped, files, lost};

/// Result of a start.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// The node's id, created at the first start.
    pub host_id: uuid::Uuid,
    /// There was data and no node id, so the node has a new id now.
    pub lost_host_id: bool,
    pub replay: ReplayReport,
    /// Time for reading the logs of all shards and applying their entries to memtables.
    pub replay_us: u64,
    /// Time for flushing the replayed entries.
    pub flush_us: u64,
    /// Unfinished SSTables, which were removed.
    pub removed_sstables: Vec<PathBuf>,
    /// Directories with files of SSTables that had no TOC.txt and may be damaged; their tables are read
    /// without them.
    pub set_aside: Vec<PathBuf>,
    /// SSTables that cannot be opened, with the reason. Their tables refuse reads; all others work.
    pub unreadable_sstables: Vec<String>,
    /// SSTables that existed when the node stopped and are missing now; their tables are read without them.
    pub missing_sstables: Vec<String>,
    /// Damaged or missing components of SSTables that are not essential: filters and summaries were rebuilt
    /// in memory, a Messina.db counts as absent.
    pub rebuilt_components: Vec<String>,
    /// Directories of tables whose drop was not complete; everything in them except snapshots was removed.
    pub ended_drops: Vec<PathBuf>,
    /// Directories of tables that were missing; reads of these tables are refused.
    pub lost_dirs: Vec<PathBuf>,
    /// Directories that belong to no table of the schema and contain more than snapshots; they are left
    /// alone.
    pub unknown_dirs: Vec<PathBuf>,
}

/// Keeps the directory locked by this process until the node has stopped.
struct Held(#[expect(dead_code, reason = "held, not read")] runtime::DirLock);

/// Opens the node. Runs on shard 0; when it returns, every shard is operational.
pub async fn open(shard: &Shard, options: EngineOptions) -> Result<OpenReport, EngineError> {
    assert_eq!(shard.id(), 0, "a node is opened on shard 0");
    let mut progress = StartProgress::default();
    let opened = start(shard, options, &mut progress).await;
    if opened.is_err() {
        abandon::abandon(shard, &progress).await;
    }
    opened
}

/// Progress of a start, as far as undoing it depends on it.
#[derive(Default)]
struct StartProgress {
    /// Files of earlier runs in the log of users' tables.
    old: Census,
    /// The log of the system tables, or that of users' tables, may have released the files of earlier runs.
    schema_given_up: bool,
    given_up: bool,
}

async fn start(
    shard: &Shard,
    options: EngineOptions,
    progress: &mut StartProgress,
) -> Result<OpenReport, EngineError> {
    let files = shard.files().clone();
    let is_first = !files.exists(&options.data_dir.join(HOST_ID)).await?;
    let mut report = OpenReport::default();
    if !is_first {
        report.replay.damaged = refuse_losses(&files, &options).await?;
    }
    prepare_dirs(&files, &options.data_dir).await?;
    let lock = files.lock_dir(&options.data_dir).await.map_err(|error| {
        let data_dir = options.data_dir.clone();
        if error.is_locked() {
            EngineError::Locked { data_dir, detail: error.to_string() }
        } else {
            error.into()
        }
    })?;
    shard.set_local(Rc::new(Held(lock)));
    let system_tables = catalog::stored_tables();
    // Before the id is created: a directory with an id must have these directories.
    make_dirs(shard, &options.data_dir, system_tables.iter().map(|schema| &**schema)).await?;
    report.lost_host_id = is_first && has_schema(&files, &options.data_dir).await?;
    let host_id = host_id(shard, &options.data_dir).await?;
    report.host_id = uuid::Uuid::from_bytes(host_id);
    clean_up(&files, &options.data_dir, &mut report).await?;
    let old_schema = census::take(&files, &schema_log_dir(&options)).await?;
    let old = census::take(&files, &log_dir(&options)).await?;
    prepare_archives(&files, &options, [&old_schema, &old]).await?;
    report.replay.damaged.extend(census::missing(&old, &old_schema));
    refuse_damage(&options, &report.replay)?;
    let truncated = truncated_base(&files, &options.data_dir).await?;
    let flushed = manifest::last_segment_number(&files, &options.data_dir).await?;
    let left = old.last_number().max(old_schema.last_number());
    let first_base = first_base(shard, left, truncated.max(flushed));

    progress.old = old.clone();
    start_shards(shard, &options, host_id, first_base).await?;
    let node = NodeShard::of(shard)?;
    for schema in system_tables {
        let table = node.make_table(&schema);
        table.open_sstables(&files, node.engine.cache(), shard.shard_count()).await?;
        table.compare_manifest(&files, None).await?;
        // Without its schema the node would treat every table as unknown.
        if schema.name != catalog::system::COMPACTION_HISTORY {
            table.check_readable()?;
        }
        node.engine.add_table(table, &TableSettings::default());
    }
    let flushed = flushed_earlier(&node.engine);
    report.replay.merge(replay_segments(shard, &old_schema.segments, true, &flushed).await?);
    refuse_damage(&options, &report.replay)?;
    let system: Vec<TableId> = catalog::stored_tables().iter().map(|schema| schema.id).collect();
    node.engine.flush(&system).await?;
    let schema_log = node.schema_log.as_ref().expect("the first shard has it");
    progress.schema_given_up = true;
    give_up(&files, schema_log, &old_schema).await?;

    let stored = load_catalog(shard, &node).await?;
    let catalog = stored.with_system_tables();
    if catalog != stored {
        // At the first start of this build, the system tables are added to the schema, where drivers look
        // them up. The change is durable in the log of the system tables.
        let mutations = catalog::mutations_for(&stored, &catalog, 0, shard.wall_s());
        node.engine.apply_batch(mutations, true).await?;
    }
    report.ended_drops = end_drops(&files, &options.data_dir, &catalog).await?;
    let users = || catalog.all_tables().filter(|table| !is_system_keyspace(&table.schema.keyspace));
    report.lost_dirs = make_lost_dirs(shard, &options.data_dir, users().map(|table| &*table.schema)).await?;
    let users: Vec<TableId> = users().map(|table| table.schema.id).collect();
    report.unknown_dirs = unknown_dirs(&files, &options.data_dir, &catalog).await?;
    finish_truncations(&files, &options.data_dir, &catalog).await?;
    publish(shard, catalog).await?;
    attach::open_all(shard, &options.attachments).await?;
    report.unreadable_sstables = table_messages(shard, |table| table.sstables.unreadable()).await?;
    let old_manifests = compare_manifests(shard, &options.data_dir).await?;
    report.missing_sstables = table_messages(shard, Table::missing).await?;
    report.rebuilt_components = table_messages(shard, |table| table.sstables.rebuilt()).await?;

    let mine = old.segments.clone();
    options.progress.replays(mine.iter().map(|segment| segment.len_bytes).sum());
    let replay_started_us = shard.now_us();
    let flushed = Arc::new(flushed_on_all(shard).await?);
    let replays = on_all(shard, CpuGroup::Maintenance, move |shard| {
        let count = shard.shard_count();
        let turn = move |segment: &OldSegment| split_id(segment.id).0 % count;
        let segments: Vec<OldSegment> = mine.iter().filter(|s| turn(s) == shard.id()).cloned().collect();
        let flushed = flushed.clone();
        async move { replay_segments(&shard, &segments, false, &flushed).await }
    });
    replays.await?.into_iter().for_each(|replay| report.replay.merge(replay));
    refuse_damage(&options, &report.replay)?;
    let flush_started_us = shard.now_us();
    report.replay_us = flush_started_us - replay_started_us;
    options.progress.flushes();
    if !old.segments.is_empty() && !users.is_empty() {
        crate::node::flush(shard, users).await?;
    }
    report.flush_us = shard.now_us() - flush_started_us;
    progress.given_up = true;
    give_up(&files, node.engine.log(), &old).await?;
    let begin = |shard: Shard| async move {
        let node = NodeShard::of(&shard)?;
        node.engine.log().begin().await?;
        match &node.schema_log {
            Some(schema_log) => Ok(schema_log.begin().await?),
            None => Ok(()),
        }
    };
    on_all(shard, CpuGroup::Maintenance, begin).await?;
    node.engine.load_compaction_history(node.engine.compactions().history()).await;
    accept_missing(shard, &old_manifests).await?;
    crate::node::resume_view_builds(shard, &node).await?;
    // Earlier, a purge could not have considered the data in the old segments.
    if options.compaction.is_automatic {
        crate::node::compaction::start(shard).await?;
    }
    Ok(report)
}

fn log_dir(options: &EngineOptions) -> PathBuf {
    options.data_dir.join("commitlog")
}

fn schema_log_dir(options: &EngineOptions) -> PathBuf {
    log_dir(options).join("schema")
}

async fn prepare_dirs(files: &Files, data_dir: &Path) -> Result<(), EngineError> {
    let schema_log = data_dir.join("commitlog").join("schema");
    files.create_dir_all(&schema_log).await?;
    files.create_dir_all(&data_dir.join("data")).await?;
    files.create_dir_all(&manifest::dir(data_dir)).await?;
    for dir in schema_log.ancestors().skip(1).take_while(|dir| *dir != Path::new("")) {
        match files.sync_dir(dir).await {
            // Directories above ours may belong to other users. An I/O error is different: the name of our
            // directory, with everything in it, may be lost after a loss of power.
            Err(error) if !dir.starts_with(data_dir) && error.source.raw_os_error() != Some(EIO) => break,
            synced => synced?,
        }
    }
    Ok(())
}

/// The directories of segments to be archived. Without the option they go, with what was not archived: the
/// archive would have a gap.
async fn prepare_archives(
    files: &Files,
    options: &EngineOptions,
    logs: [&Census; 2],
) -> Result<(), EngineError> {
    for log in logs {
        let dir = log.dir.join(archive::DIR);
        match (options.archives_commitlog, log.has_archive) {
            (true, true) | (false, false) => continue,
            (true, false) => files.create_dir_all(&dir).await?,
            (false, true) => files.remove_dir_all(&dir).await?,
        }
        files.sync_dir(&log.dir).await?;
    }
    Ok(())
}

/// Name of the file with the node's id.
const HOST_ID: &str = "host_id";

/// Checks the directories that must exist after the first start: those of the schema, without which every
/// table would be unknown, and those of the log. Returns missing ones that the options allow to be missing.
async fn refuse_losses(files: &Files, options: &EngineOptions) -> Result<Vec<Gap>, EngineError> {
    let names = [TABLES, KEYSPACES, COLUMNS, COLUMN_IDS];
    let of_schema = catalog::system_tables().into_iter().filter(|schema| names.contains(&&schema.name[..]));
    for schema in of_schema {
        let dir = crate::node::table_dir(&options.data_dir, &schema);
        if !files.exists(&dir).await? {
            return Err(EngineError::Invalid(format!(
                "{} is missing, and without it no table is known; restore it from a backup, or move all of {} away to start \
                 with an empty node",
                dir.display(),
                options.data_dir.display()
            )));
        }
    }
    let mut lost = vec![];
    for dir in [log_dir(options), schema_log_dir(options)] {
        if !files.exists(&dir).await? {
            let detail = "the directory is missing, with the writes that were not flushed".to_string();
            lost.push(Gap { file: dir, offset_bytes: 0, len_bytes: 0, detail });
        }
    }
    if lost.is_empty() || options.on_damaged_log == OnDamagedLog::Skip {
        return Ok(lost);
    }
    Err(EngineError::DamagedLog(lost))
}

/// Whether there are SSTables of the schema.
async fn has_schema(files: &Files, data_dir: &Path) -> Result<bool, EngineError> {
    for schema in catalog::system_tables() {
        if !files::list(files, &crate::node::table_dir(data_dir, &schema)).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The node's id, created at the first start.
async fn host_id(shard: &Shard, data_dir: &Path) -> Result<[u8; 16], EngineError> {
    let path = data_dir.join(HOST_ID);
    let files = shard.files();
    if files.exists(&path).await? {
        let text = files.read_all(&path, IoClass::Maintenance, 4096).await?;
        let id = std::str::from_utf8(&text).ok().and_then(|text| uuid::Uuid::parse_str(text.trim()).ok());
        let what =
            || EngineError::Invalid(format!("{} does not hold a UUID; restore or remove it", path.display()));
        return id.map(uuid::Uuid::into_bytes).ok_or_else(what);
    }
    let random = u128::from(shard.random_u64()) << 64 | u128::from(shard.random_u64());
    let id = uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid();
    let temporary = data_dir.join("host_id.tmp");
    files.write_all(&temporary, id.to_string().as_bytes(), IoClass::Maintenance).await?;
    files.rename(&temporary, &path).await?;
    files.sync_dir(data_dir).await?;
    Ok(id.into_bytes())
}

/// The directories of tables, known or not, and any other directories beside them.
async fn table_dirs(files: &Files, data_dir: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let data = data_dir.join("data");
    let mut dirs = vec![];
    for keyspace in files.read_dir(&data).await?.into_iter().filter(|entry| entry.is_dir) {
        let keyspace = data.join(&keyspace.name);
        let tables = files.read_dir(&keyspace).await?.into_iter().filter(|entry| entry.is_dir);
        dirs.extend(tables.map(|table| keyspace.join(&table.name)));
    }
    Ok(dirs)
}

async fn clean_up(files: &Files, data_dir: &Path, report: &mut OpenReport) -> Result<(), EngineError> {
    for dir in table_dirs(files, data_dir).await? {
        record::recover(files, &dir).await?;
        truncation::clean_up(files, &dir).await?;
        snapshot::store::clean_up(files, &dir).await?;
        let done = sstable::write::clean_up(files, &dir).await?;
        report.removed_sstables.extend(done.removed.into_iter().map(|name| dir.join(name.to_string())));
        report.set_aside.extend(done.set_aside);
    }
    Ok(())
}

/// Creates missing directories of tables, and returns them: their content was lost.
async fn make_lost_dirs<'a>(
    shard: &Shard,
    data_dir: &Path,
    schemas: impl Iterator<Item = &'a TableSchema>,
) -> Result<Vec<PathBuf>, EngineError> {
    let mut lost_dirs = vec![];
    for schema in schemas {
        let dir = crate::node::table_dir(data_dir, schema);
        if !shard.files().exists(&dir).await? {
            make_dirs(shard, data_dir, [schema]).await?;
            lost::mark(shard.files(), &dir).await?;
            lost_dirs.push(dir);
        }
    }
    Ok(lost_dirs)
}

/// Completes drops that a crash or an error has interrupted. Returns the directories that were removed, or
/// emptied except for snapshots.
async fn end_drops(files: &Files, data_dir: &Path, catalog: &Catalog) -> Result<Vec<PathBuf>, EngineError> {
    let known: Vec<PathBuf> =
        catalog.all_tables().map(|table| crate::node::table_dir(data_dir, &table.schema)).collect();
    let mut ended = vec![];
    for dir in table_dirs(files, data_dir).await? {
        if dropped::settle(files, &dir, known.contains(&dir)).await? {
            ended.push(dir);
        }
    }
    Ok(ended)
}

async fn unknown_dirs(
    files: &Files,
    data_dir: &Path,
    catalog: &Catalog,
) -> Result<Vec<PathBuf>, EngineError> {
    let known = catalog.all_tables().map(|table| crate::node::table_dir(data_dir, &table.schema));
    let known: Vec<PathBuf> = known.collect();
    let mut dirs = vec![];
    for dir in table_dirs(files, data_dir).await?.into_iter().filter(|dir| !known.contains(dir)) {
        if !snapshot::store::has_only_snapshots(files, &dir).await? {
            dirs.push(dir);
        }
    }
    Ok(dirs)
}

/// Removes SSTables that a truncate had covered and not yet removed.
async fn finish_truncations(files: &Files, data_dir: &Path, catalog: &Catalog) -> Result<(), EngineError> {
    for table in catalog.all_tables() {
        let dir = crate::node::table_dir(data_dir, &table.schema);
        let record = truncation::load(files, &dir).await?;
        files::remove_below(files, &dir, record.first_generation).await?;
        if record != Truncation::default() {
            lost::forget(files, &dir).await?;
        }
    }
    Ok(())
}

/// Lets every shard detect missing SSTables. Returns the SSTable manifests that are not needed after the
/// start.
async fn compare_manifests(shard: &Shard, data_dir: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let compare = |shard: Shard| async move {
        for table in EngineShard::of(&shard)?.tables() {
            // Those of system tables have been compared.
            if !table.is_system() {
                table.compare_manifest(shard.files(), None).await?;
            }
        }
        Ok(())
    };
    on_all(shard, CpuGroup::Maintenance, compare).await?;
    let engine = EngineShard::of(shard)?;
    let mut old = vec![];
    for ManifestFile { path, of } in manifest::list(shard.files(), data_dir).await? {
        match of.map(|(id, of_shard)| (engine.table(id), of_shard)) {
            Some((Ok(_), of_shard)) if of_shard < shard.shard_count() => continue,
            // The manifest of a shard that does not exist any more: the table on this shard reports its
            // missing SSTables.
            Some((Ok(table), _)) => table.compare_manifest(shard.files(), Some(&path)).await?,
            Some((Err(_), _)) | None => {}
        }
        old.push(path);
    }
    Ok(old)
}

/// Forgets missing SSTables, which are in the report; the next start reports only those missing since.
async fn accept_missing(shard: &Shard, old_manifests: &[PathBuf]) -> Result<(), EngineError> {
    let accept = |shard: Shard| async move {
        for table in EngineShard::of(&shard)?.tables() {
            table.accept_missing(shard.files()).await;
        }
        Ok(())
    };
    on_all(shard, CpuGroup::Maintenance, accept).await?;
    for path in old_manifests {
        // A manifest that stays is reported again.
        let _ = shard.files().remove(path).await;
    }
    Ok(())
}

/// A number above every segment number of earlier runs that is recorded: in the segments and their manifests
/// (`left`), and in truncation records and SSTable manifests (`named`). The clock may have been set back
/// since.
fn first_base(shard: &Shard, left: u64, named: u64) -> u64 {
    let now_ms = u64::try_from(shard.wall_us() / 1000).unwrap_or(0);
    now_ms.max(left).max(named) + 1
}

/// The last segment number in any truncation record. Entries in segments with lower numbers would be taken
/// for truncated.
async fn truncated_base(files: &Files, data_dir: &Path) -> Result<u64, EngineError> {
    let mut last = 0;
    for dir in table_dirs(files, data_dir).await? {
        // An unreadable record is reported by its table, if there is one.
        let Ok(record) = truncation::load(files, &dir).await else { continue };
        last = record.positions.iter().map(|position| split_id(position.segment).1).fold(last, u64::max);
    }
    Ok(last)
}

/// Minimum size of the schema log's segments. A schema change may have half of it; that of a keyspace with
/// many tables needs it, even if users configure small segments for their data.
const SCHEMA_SEGMENT_BYTES_MIN: u64 = 256 * 1024;

async fn start_shards(
    shard: &Shard,
    options: &EngineOptions,
    host_id: [u8; 16],
    first_base: u64,
) -> Result<(), EngineError> {
    let options = options.clone();
    let history = History::default();
    let compaction_log = CompactionLog::new(options.data_dir.clone());
    let start = move |shard: Shard| {
        let (options, history) = (options.clone(), history.clone());
        let compaction_log = compaction_log.clone();
        async move {
            let shards = u64::from(shard.shard_count());
            let segment_bytes = options.commitlog_segment_bytes;
            let log_options = CommitLogOptions {
                dir: log_dir(&options),
                segment_bytes,
                total_bytes_max: (options.commitlog_total_bytes / shards).max(4 * segment_bytes),
                sync: options.commitlog_sync,
                is_archived: options.archives_commitlog,
            };
            let log = CommitLog::open(&shard, log_options, first_base).await?;
            let schema_log = if shard.id() == 0 {
                let segment_bytes = segment_bytes.max(SCHEMA_SEGMENT_BYTES_MIN);
                let log_options = CommitLogOptions {
                    dir: schema_log_dir(&options),
                    segment_bytes,
                    total_bytes_max: 4 * segment_bytes,
                    sync: SyncMode::Batch,
                    is_archived: options.archives_commitlog,
                };
                Some(CommitLog::open(&shard, log_options, first_base).await?)
            } else {
                None
            };
            let memory_bytes = options.memory_bytes / shards;
            let compactions = CompactionSetup {
                options: options.compaction.clone(),
                history: history.clone(),
                log: compaction_log.clone(),
            };
            let engine = EngineShard::start(&shard, log, host_id, memory_bytes, &options, compactions);
            shard.set_local(NodeShard::new(options, engine.clone(), schema_log));
            shard.set_local(engine);
            Ok(())
        }
    };
    on_all(shard, CpuGroup::Maintenance, start).await.map(drop)
}

/// Linux's error number for an I/O error.
const EIO: i32 = 5;

/// Number of mutations that are sent to another shard at once.
const LOT: usize = 256;

/// For each table, the entries of earlier runs' logs that SSTables contain.
type FlushedByTable = HashMap<TableId, Flushed>;

fn flushed_earlier(engine: &EngineShard) -> FlushedByTable {
    engine.tables().iter().map(|table| (table.schema().id, table.flushed_earlier())).collect()
}

/// The same for all shards, with entries of any shard's log: the number of shards may have changed.
async fn flushed_on_all(shard: &Shard) -> Result<FlushedByTable, EngineError> {
    let of_shard = |shard: Shard| async move { Ok(flushed_earlier(&*EngineShard::of(&shard)?)) };
    let mut all = FlushedByTable::default();
    for (id, flushed) in on_all(shard, CpuGroup::Maintenance, of_shard).await?.into_iter().flatten() {
        all.entry(id).or_default().merge(&flushed);
    }
    Ok(all)
}

/// Replays segments in order, except for entries in `flushed`. `here`: all entries belong to this shard.
async fn replay_segments(
    shard: &Shard,
    segments: &[OldSegment],
    here: bool,
    flushed: &FlushedByTable,
) -> Result<ReplayReport, EngineError> {
    let node = NodeShard::of(shard)?;
    let files = shard.files().clone();
    let mut report = ReplayReport::default();
    // Each shard of the earlier run recorded what was synced in its own log only.
    let mut by_maker: HashMap<u32, Vec<OldSegment>> = HashMap::default();
    segments
        .iter()
        .for_each(|segment| by_maker.entry(split_id(segment.id).0).or_default().push(segment.clone()));
    let nothing = FlushedByTable::default();
    let mut makers: Vec<u32> = by_maker.keys().copied().collect();
    makers.sort_unstable();
    let mut lots: Vec<Vec<Mutation>> = (0..shard.shard_count()).map(|_| vec![]).collect();
    for maker in makers {
        let segments = &by_maker[&maker];
        let known = replay::synced_whole(&files, segments).await?;
        for (segment, synced_whole) in segments.iter().zip(known) {
            let (mut skipped, mut flushed_count) = (0, 0);
            let (mut failed, mut wanted) = (None, vec![]);
            let apply = async |replayed: Replayed<'_>| {
                wanted.clear();
                let (is_batch, mutations) = mutations_of(replayed.entry);
                // The positions of flushed entries are about the memtables of one shard; a batch has
                // mutations of several.
                let flushed = if is_batch { &nothing } else { flushed };
                // All are decoded before one is applied: a batch with an unreadable part is damaged as a
                // whole.
                for encoded in mutations {
                    match decode(&node, flushed, replayed.position, encoded?)? {
                        Wanted::Yes(mutation) => wanted.push(mutation),
                        Wanted::Gone => skipped += 1,
                        Wanted::Flushed => flushed_count += 1,
                    }
                }
                for mutation in wanted.drain(..) {
                    let target = if here { shard.id() } else { node.sharder.shard_of(mutation.key.token()) };
                    let lot = &mut lots[target as usize];
                    lot.push(mutation);
                    if lot.len() >= LOT && failed.is_none() {
                        failed = send(shard, target, std::mem::take(lot)).await.err();
                    }
                }
                Ok(())
            };
            let read = replay::read_segment(&files, segment, synced_whole, apply).await?;
            report.merge(read);
            if !here {
                node.options.progress.has_replayed(segment.len_bytes);
            }
            report.skipped += skipped;
            report.flushed += flushed_count;
            if let Some(error) = failed {
                return Err(error);
            }
        }
    }
    for (target, lot) in lots.into_iter().enumerate() {
        send(shard, target as u32, lot).await?;
    }
    Ok(report)
}

/// Whether an entry is to be applied.
enum Wanted {
    Yes(Mutation),
    /// Its table was dropped, or truncated later.
    Gone,
    /// An SSTable contains it.
    Flushed,
}

fn decode(
    node: &NodeShard,
    flushed: &FlushedByTable,
    position: LogPosition,
    encoded: &[u8],
) -> Result<Wanted, String> {
    let id = codec::table_of(encoded).map_err(|error| error.to_string())?;
    let table = match node.engine.table(id) {
        Ok(table) if !table.truncation().covers(position) => table,
        _ => return Ok(Wanted::Gone),
    };
    if flushed.get(&id).is_some_and(|flushed| flushed.covers(position)) {
        return Ok(Wanted::Flushed);
    }
    // Cells of a dropped column that are newer than the drop are kept, because they reappear if the column is
    // added again.
    codec::decode(encoded, &table.schema().with_dropped()).map(Wanted::Yes).map_err(|error| error.to_string())
}

async fn send(shard: &Shard, target: u32, lot: Vec<Mutation>) -> Result<(), EngineError> {
    let call = shard.call(target, CpuGroup::Maintenance, |shard| async move {
        let engine = EngineShard::of(&shard)?;
        for mutation in lot {
            engine.apply_replayed(mutation).await?;
            if shard.need_preempt() {
                shard.yield_now().await;
            }
        }
        Ok(())
    });
    call.await?
}

fn refuse_damage(options: &EngineOptions, replay: &ReplayReport) -> Result<(), EngineError> {
    if replay.damaged.is_empty() || options.on_damaged_log == OnDamagedLog::Skip {
        return Ok(());
    }
    Err(EngineError::DamagedLog(replay.damaged.clone()))
}

/// Releases the files of earlier runs: records it in the log's own manifest, and removes the files.
async fn give_up(files: &Files, log: &CommitLog, old: &Census) -> Result<(), EngineError> {
    log.release_earlier_files().await?;
    let segments = old.segments.iter().map(|segment| &segment.path);
    for path in segments.chain(old.manifests.iter().map(|manifest| &manifest.path)) {
        match files.remove(path).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _removed => (),
        }
    }
    files.sync_dir(&old.dir).await?;
    Ok(())
}

/// Reads the schema from the system tables.
async fn load_catalog(shard: &Shard, node: &NodeShard) -> Result<Catalog, EngineError> {
    let mut stored = vec![];
    for schema in catalog::system_tables() {
        let table = node.engine.table(schema.id)?;
        // The clock may have been set back; later schema changes must have newer timestamps.
        table.sstables().iter().for_each(|sstable| node.schema_is_of(sstable.max_timestamp_us()));
        let spec = ReadSpec::new(schema.clone(), model::PartitionRange::all());
        let merged = reader::MergeReader::of(&spec, table.readers(&spec, true, IoClass::Statement));
        let mut live = CompactReader::new(merged, model::Purge::nothing(shard.wall_s()), Keep::Live);
        let partitions = reader::collect_partitions(&mut live, &schema, false).await?;
        stored.extend(partitions.into_iter().map(|(key, partition)| (schema.id, key, partition)));
    }
    Ok(catalog::load(stored)?)
}
