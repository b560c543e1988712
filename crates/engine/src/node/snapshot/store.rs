//! Snapshots on disk: creating, listing and removing their directories.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use catalog::is_system_keyspace;
use reports::SnapshotReport;
use runtime::{CpuGroup, FileError, Files, IoClass, Shard};
use sstable::name::{Component, SSTableName};

use super::super::{NodeShard, on_all};
use super::manifest;
use crate::error::EngineError;
use crate::shard::EngineShard;
use crate::table::files::SNAPSHOTS;

/// Marks the directory of an unfinished snapshot.
const UNFINISHED: &str = "unfinished";
/// The statements that create the table again.
const SCHEMA: &str = "schema.cql";

/// Makes the snapshot `to` of a table: all SSTables of its shards, the manifest and the schema. It is durable
/// when this returns; after an error it does not exist. Returns the number of links.
pub(super) async fn make(
    shard: &Shard,
    node: &Rc<NodeShard>,
    table: &catalog::Table,
    to: &Path,
) -> Result<u64, EngineError> {
    let made = fill(shard, node, table, to).await;
    if made.is_err() {
        // If it remains, it has the mark, and the next start removes it.
        let _ = shard.files().remove_dir_all(to).await;
    }
    made
}

async fn fill(
    shard: &Shard,
    node: &Rc<NodeShard>,
    table: &catalog::Table,
    to: &Path,
) -> Result<u64, EngineError> {
    let files = shard.files();
    let dir = node.table_dir(&table.schema);
    files.create_dir_all(to).await?;
    // The mark is durable before the directory is.
    files.write_all(&to.join(UNFINISHED), &[], IoClass::Maintenance).await?;
    for dir in [to, &dir.join(SNAPSHOTS), &dir] {
        files.sync_dir(dir).await?;
    }
    let (id, target) = (table.schema.id, to.to_owned());
    let is_system = is_system_keyspace(&table.schema.keyspace);
    let link = move |shard: Shard| {
        let to = target.clone();
        async move {
            if is_system && shard.id() != 0 {
                return Ok(0);
            }
            Ok(EngineShard::of(&shard)?.table(id)?.link_sstables(shard.files(), &to).await?)
        }
    };
    let links = on_all(shard, CpuGroup::Maintenance, link).await?.into_iter().sum();
    let linked = files.read_dir(to).await?.into_iter().map(|entry| entry.name);
    let is_data = |name: &String| matches!(SSTableName::parse_file_name(name), Ok((_, Component::Data)));
    let manifest = manifest::text(linked.filter(is_data).collect(), shard.wall_us() / 1000);
    let schema = catalog::recreate_table(&node.catalog.borrow(), table);
    for (name, text) in [(manifest::FILE_NAME, manifest), (SCHEMA, schema)] {
        files.write_all(&to.join(name), text.as_bytes(), IoClass::Maintenance).await?;
    }
    files.sync_dir(to).await?;
    files.remove(&to.join(UNFINISHED)).await?;
    files.sync_dir(to).await?;
    Ok(links)
}

/// At a start: removes unfinished snapshots of the table in `dir`.
pub(crate) async fn clean_up(files: &Files, dir: &Path) -> Result<(), FileError> {
    let snapshots = dir.join(SNAPSHOTS);
    for tag in tags(files, &snapshots).await? {
        let of_tag = snapshots.join(tag);
        if files.exists(&of_tag.join(UNFINISHED)).await? {
            files.remove_dir_all(&of_tag).await?;
        }
    }
    Ok(())
}

/// The directories in `snapshots`; empty if it does not exist.
async fn tags(files: &Files, snapshots: &Path) -> Result<Vec<String>, FileError> {
    let mut tags: Vec<String> = match files.read_dir(snapshots).await {
        Ok(entries) => entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect(),
        Err(error) if error.is_not_found() => vec![],
        Err(error) => return Err(error),
    };
    tags.sort();
    Ok(tags)
}

/// The directory of a table that exists or was dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableDir {
    pub keyspace: String,
    pub table: String,
    pub path: PathBuf,
}

impl TableDir {
    /// Parses `data/<keyspace>/<table>-<id>` by the names of its last two parts.
    fn of(path: PathBuf) -> Option<Self> {
        const ID_CHARS: usize = 32;
        let (table, id) = path.file_name()?.to_str()?.rsplit_once('-')?;
        if id.len() != ID_CHARS || !id.chars().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        let keyspace = path.parent()?.file_name()?.to_str()?.to_string();
        Some(Self { keyspace, table: table.to_string(), path })
    }
}

/// The directories of all tables under the data directory, by keyspace, table and id.
pub(crate) async fn table_dirs(files: &Files, data_dir: &Path) -> Result<Vec<TableDir>, FileError> {
    let data = data_dir.join("data");
    let mut found = vec![];
    for keyspace in files.read_dir(&data).await?.into_iter().filter(|entry| entry.is_dir) {
        let of_keyspace = data.join(&keyspace.name);
        let tables = files.read_dir(&of_keyspace).await?.into_iter().filter(|entry| entry.is_dir);
        found.extend(tables.filter_map(|table| TableDir::of(of_keyspace.join(&table.name))));
    }
    found.sort();
    Ok(found)
}

/// The snapshots of all tables, dropped ones too, by keyspace, table and tag.
pub async fn list(shard: &Shard) -> Result<Vec<SnapshotReport>, EngineError> {
    let node = NodeShard::of(shard)?;
    let files = shard.files();
    let mut found = vec![];
    for TableDir { keyspace, table, path } in table_dirs(files, &node.options.data_dir).await? {
        let snapshots = path.join(SNAPSHOTS);
        for tag in tags(files, &snapshots).await? {
            let dir = snapshots.join(&tag);
            let entries = match files.read_dir(&dir).await {
                // Cleared meanwhile.
                Err(error) if error.is_not_found() => continue,
                entries => entries?,
            };
            if entries.iter().any(|entry| entry.name == UNFINISHED) {
                continue;
            }
            let disk_bytes = entries.iter().map(|file| file.len_bytes).sum();
            found.push(SnapshotReport {
                keyspace: keyspace.clone(),
                table: table.clone(),
                tag,
                dir,
                disk_bytes,
            });
        }
    }
    found.sort_by(|a, b| (&a.keyspace, &a.table, &a.tag).cmp(&(&b.keyspace, &b.table, &b.tag)));
    Ok(found)
}

/// Selects the snapshots to be removed. `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clear {
    pub keyspace: Option<String>,
    pub table: Option<String>,
    pub tag: Option<String>,
}

/// Removes snapshots, including those of dropped tables, and the directories of dropped tables without
/// further snapshots. Returns the number of removed snapshots.
pub async fn clear(shard: &Shard, which: Clear) -> Result<u64, EngineError> {
    // The schema lock, because a table created with the id of a dropped one has the same directory.
    let call = shard.call(0, CpuGroup::Maintenance, move |shard| async move {
        let node = NodeShard::of(&shard)?;
        node.lock().await;
        let result = clear_locked(&shard, &node, &which).await;
        node.unlock();
        result
    });
    call.await?
}

async fn clear_locked(shard: &Shard, node: &Rc<NodeShard>, which: &Clear) -> Result<u64, EngineError> {
    let files = shard.files();
    let mut count = 0;
    let is_asked = |asked: &Option<String>, name: &str| asked.as_ref().is_none_or(|asked| asked == name);
    for dir in table_dirs(files, &node.options.data_dir).await? {
        if !is_asked(&which.keyspace, &dir.keyspace) || !is_asked(&which.table, &dir.table) {
            continue;
        }
        let snapshots = dir.path.join(SNAPSHOTS);
        let mut is_changed = false;
        for tag in tags(files, &snapshots).await?.into_iter().filter(|tag| is_asked(&which.tag, tag)) {
            files.remove_dir_all(&snapshots.join(&tag)).await?;
            count += 1;
            is_changed = true;
        }
        let is_known = |catalog: &catalog::Catalog| {
            catalog.tables(&dir.keyspace).any(|table| node.table_dir(&table.schema) == dir.path)
        };
        if is_changed && !is_known(&node.catalog.borrow()) {
            remove_empty(files, &dir.path).await?;
        }
    }
    Ok(count)
}

/// Removes the directory of a dropped table if it has nothing but an empty `snapshots`.
async fn remove_empty(files: &Files, dir: &Path) -> Result<(), FileError> {
    let has_only_snapshots = has_only_snapshots(files, dir).await?;
    if has_only_snapshots && files.read_dir(&dir.join(SNAPSHOTS)).await?.is_empty() {
        files.remove_dir_all(dir).await?;
    }
    Ok(())
}

/// Whether the directory contains only snapshots, as that of a dropped table does.
pub(crate) async fn has_only_snapshots(files: &Files, dir: &Path) -> Result<bool, FileError> {
    let entries = files.read_dir(dir).await?;
    Ok(!entries.is_empty() && entries.iter().all(|entry| entry.is_dir && entry.name == SNAPSHOTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_name_their_table() {
        let of = |path: &str| TableDir::of(PathBuf::from(path)).map(|dir| (dir.keyspace, dir.table));
        let found = of("/d/data/ks/a-b-00000000000000000000000000000003");
        assert_eq!(found, Some(("ks".to_string(), "a-b".to_string())));
        assert_eq!(of("/d/data/ks/lost+found"), None);
        assert_eq!(of("/d/data/ks/t-0000000000000000000000000000000x"), None);
    }
}
