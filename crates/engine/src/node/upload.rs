//! Loads SSTables from elsewhere into a table that is being read and written: `nodetool refresh` and
//! `import`.
//!
//! 1. Every SSTable is opened; its header is compared with the schema, and its checksums and indexes are
//!    verified. If any check fails, nothing is loaded.
//! 2. Each SSTable gets a free generation and is linked (or copied) into the table's directory; TOC.txt is
//!    last, so after a crash the SSTable is complete or does not exist.
//! 3. Every shard opens those that may have partitions of its own. When all shards have done so, they add
//!    them to the table. Partitions of other shards are ignored, as after a start with another number of
//!    shards. If one shard fails, none adds them.
//! 4. A refresh then removes the files from `upload/`. After a crash in between they remain, and the next
//!    refresh loads them a second time, which does not change the result of reads.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use catalog::is_system_keyspace;
use model::{TableId, TableSchema};
use reports::LoadedSSTables;
use runtime::{CpuGroup, Files, IoClass, Shard};
use sstable::name::{Component, Generation, SSTableName};
use sstable::read::{ChunkCache, Depth, SSTable};
use sstable::tools::{Finding, Findings, check_fit};
use sstable::write::{Adoption, adopt, remove_sstable};

use super::{NodeShard, on_all};
use crate::error::EngineError;
use crate::shard::EngineShard;
use crate::table::files;

const UPLOAD: &str = "upload";
/// Cache for opening an SSTable; nothing of it is read twice.
const CACHE_BYTES: usize = 1 << 20;
/// Number of findings in an error; of the others, only their number is given.
const FINDINGS_MAX: usize = 10;

/// The directory used by `refresh`, inside the directory of a table.
pub fn upload_dir(table_dir: &Path) -> PathBuf {
    table_dir.join(UPLOAD)
}

/// Moves the SSTables of the table's `upload/` directory, which is created if missing, into the table.
///
/// # Errors
/// One of them is damaged or does not fit the table; then none is loaded.
pub async fn refresh(shard: &Shard, table: TableId) -> Result<LoadedSSTables, EngineError> {
    load(shard, table, None).await
}

/// Copies the SSTables of `dir` into the table; `dir` is left unchanged.
///
/// # Errors
/// As [`refresh`].
pub async fn import(shard: &Shard, table: TableId, dir: PathBuf) -> Result<LoadedSSTables, EngineError> {
    load(shard, table, Some(dir)).await
}

async fn load(shard: &Shard, table: TableId, dir: Option<PathBuf>) -> Result<LoadedSSTables, EngineError> {
    // The schema lock, because a truncate or a schema change would miss SSTables that are being loaded.
    let call = shard.call(0, CpuGroup::Maintenance, move |shard| async move {
        let node = NodeShard::of(&shard)?;
        node.lock().await;
        let result = Box::pin(load_locked(&shard, &node, table, dir)).await;
        node.unlock();
        result
    });
    call.await?
}

/// Refuses files of SSTables without TOC.txt: their copy was incomplete, and ignoring them would load a part
/// of a table.
async fn check_sealed(files: &Files, dir: &Path, sealed: &[SSTableName]) -> Result<(), EngineError> {
    let mut loose = vec![];
    for entry in files.read_dir(dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        match SSTableName::parse_file_name(&entry.name) {
            Ok((name, _)) if !sealed.contains(&name) => loose.push(entry.name),
            _ => {}
        }
    }
    if loose.is_empty() {
        return Ok(());
    }
    let more = loose.len().saturating_sub(FINDINGS_MAX);
    let mut names = loose[..loose.len() - more].join(", ");
    if more > 0 {
        names += &format!(" and {more} more");
    }
    let what = format!(
        "{}: no TOC.txt for {names}; nothing was loaded: copy the missing TOC.txt too, or remove these files",
        dir.display()
    );
    Err(EngineError::Invalid(what))
}

async fn load_locked(
    shard: &Shard,
    node: &Rc<NodeShard>,
    id: TableId,
    import_dir: Option<PathBuf>,
) -> Result<LoadedSSTables, EngineError> {
    let schema = node.catalog.borrow().table_by_id(id).map(|table| table.schema.clone());
    let schema = schema.ok_or(EngineError::UnknownTable(id))?;
    if is_system_keyspace(&schema.keyspace) {
        let what = format!("{} is a system table; SSTables cannot be loaded into it", schema.full_name());
        return Err(EngineError::Invalid(what));
    }
    if node.views.of(id).is_some() || schema.view.is_some() {
        let what = format!(
            "{} has materialized views or is one; SSTables cannot be loaded into it: load them into a table without \
             views and copy the rows, or drop the views and create them again",
            schema.full_name()
        );
        return Err(EngineError::Invalid(what));
    }
    let table = node.engine.table(id)?;
    table.check_writable()?;
    let files = shard.files();
    let copies = import_dir.is_some();
    let dir = match import_dir {
        Some(dir) => dir,
        None => {
            let dir = upload_dir(&table.dir);
            files.create_dir_all(&dir).await?;
            dir
        }
    };
    let sealed = files::list(files, &dir).await?;
    check_sealed(files, &dir, &sealed).await?;
    let mut checked = vec![];
    for name in sealed {
        checked.push(check(shard, &dir, name, &schema).await?);
    }
    let mut loaded: Vec<(SSTableName, SSTableName)> = vec![];
    let mut data_bytes = 0;
    for sstable in &checked {
        let from = sstable.name();
        let number = table.sstables.take_generation(shard.shard_count());
        let to = SSTableName { generation: Generation::Number(number), ..from };
        let adoption = Adoption {
            from_dir: &dir,
            from,
            to_dir: &table.dir,
            to,
            components: sstable.components(),
            copies,
        };
        if let Err(error) = adopt(files, &adoption, IoClass::Maintenance).await {
            // Earlier ones are not in the table yet; this one's TOC.txt may already exist.
            for taken in loaded.iter().map(|(_, taken)| taken).chain([&to]) {
                remove_sstable(files, &table.dir, taken).await?;
            }
            return Err(error.into());
        }
        loaded.push((from, to));
        data_bytes += sstable.data_bytes();
    }
    drop(checked);
    let names: Vec<SSTableName> = loaded.iter().map(|(_, to)| *to).collect();
    if let Err(error) = open_all(shard, id, &names).await {
        // No shard has added them to its table.
        for name in &names {
            remove_sstable(files, &table.dir, name).await?;
        }
        return Err(error);
    }
    take_all(shard, id, names).await?;
    if !copies {
        for (from, _) in &loaded {
            remove_sstable(files, &dir, from).await?;
        }
        files.sync_dir(&dir).await?;
    }
    let sstables = loaded.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect();
    Ok(LoadedSSTables { dir: dir.display().to_string(), sstables, data_bytes })
}

/// Lets every shard open the SSTables that may have partitions of its own; after an error no shard keeps any
/// open.
async fn open_all(shard: &Shard, id: TableId, names: &[SSTableName]) -> Result<(), EngineError> {
    let names = names.to_vec();
    let open = move |shard: Shard| {
        let names = names.clone();
        async move {
            let engine = EngineShard::of(&shard)?;
            let table = engine.table(id)?;
            table.open_loading(shard.files(), engine.cache(), &names, shard.shard_count()).await
        }
    };
    let opened = on_all(shard, CpuGroup::Maintenance, open).await;
    if opened.is_err() {
        let close = move |shard: Shard| async move {
            EngineShard::of(&shard)?.table(id).iter().for_each(|table| drop(table.sstables.loading.take()));
            Ok(())
        };
        on_all(shard, CpuGroup::Maintenance, close).await?;
    }
    opened.map(drop)
}

/// Lets every shard add its opened SSTables to the table. Only when all have done so may jobs use them: a
/// reshard job could otherwise replace an SSTable before a shard adds it, and that shard would add one whose
/// files were removed.
async fn take_all(shard: &Shard, id: TableId, names: Vec<SSTableName>) -> Result<(), EngineError> {
    let take = move |shard: Shard| async move {
        let table = EngineShard::of(&shard)?.table(id)?;
        table.take_loading();
        table.store_manifest(shard.files()).await;
        Ok(())
    };
    on_all(shard, CpuGroup::Maintenance, take).await?;
    let thaw = move |shard: Shard| {
        let names = names.clone();
        async move {
            let engine = EngineShard::of(&shard)?;
            engine.table(id)?.sstables.thaw(&names);
            engine.compactions().loaded(id, &names)
        }
    };
    on_all(shard, CpuGroup::Maintenance, thaw).await.map(drop)
}

/// Opens an SSTable and verifies everything except its rows.
async fn check(
    shard: &Shard,
    dir: &Path,
    name: SSTableName,
    schema: &TableSchema,
) -> Result<Rc<SSTable>, EngineError> {
    let path = dir.join(name.file_name(&Component::Data));
    let cache = ChunkCache::new(CACHE_BYTES);
    let opened = SSTable::open(shard.files(), dir, name, &cache, IoClass::Maintenance).await;
    let sstable = opened.map_err(|error| EngineError::Invalid(Finding::from(&error).to_string()))?;
    for component in sstable.components() {
        let file = name.file_name(component);
        if !shard.files().exists(&dir.join(&file)).await? {
            return Err(EngineError::Invalid(format!(
                "{} lists {component}, and there is no file {file}; nothing was loaded: copy the missing file too, or take its \
                 line out of TOC.txt",
                dir.join(name.file_name(&Component::Toc)).display()
            )));
        }
    }
    check_fit(schema, &sstable.statistics().header).map_err(|misfit| {
        EngineError::Invalid(format!(
            "{} is not an SSTable of {}: {misfit}",
            path.display(),
            schema.full_name()
        ))
    })?;
    let mut reported = vec![];
    let mut findings = Findings::new(
        |finding: &Finding| {
            if reported.len() < FINDINGS_MAX {
                reported.push(finding.to_string());
            }
        },
        |_, _| {},
    );
    let verified = sstable.verify(Depth::Components, IoClass::Maintenance, &mut findings).await;
    let count = findings.count;
    drop(findings);
    if let Err(error) = verified {
        return Err(EngineError::Invalid(Finding::from(&error).to_string()));
    }
    if count > 0 {
        return Err(EngineError::Invalid(format!(
            "{} is damaged, nothing was loaded ({count} findings): {}; `messina sstable scrub` keeps the readable data",
            path.display(),
            reported.join("; ")
        )));
    }
    Ok(sstable)
}
