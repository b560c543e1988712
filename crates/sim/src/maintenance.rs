//! Operations other than reads and writes: SSTables are loaded, rewritten, merged by name and verified,
//! caches shrink and are turned off; and reads of several pages meanwhile.

use std::path::PathBuf;

use base::rng::Rng;
use engine::EngineError;
use engine::node::compaction as compaction_node;
use engine::node::upload;
use engine::node::verify::verify;
use engine::shard::EngineShard;
use model::{Mutation, PartitionRange, Purge, TableId};
use reader::{CompactReader, Keep, MemorySource, ReadError, ReadSpec, Source};
use runtime::{FileError, IoClass, Shard};
use sstable::name::{Component, Generation, SSTableName};
use sstable::version::Version;
use sstable::write::{WriteError, WriteOptions, write_reader};

use crate::client::{SharedClient, on_some_shard};
use crate::failure::Checker;
use crate::reads::{NoPage, random_read, read_next};
use crate::table_model::TableModel;

/// Directory of SSTables to be imported; each import has a subdirectory.
const IMPORT_DIR: &str = "/node/import";

/// One random operation.
pub async fn one(shard: &Shard, client: &SharedClient, table: TableId) {
    let (what, seed) = {
        let client = &mut *client.borrow_mut();
        (client.rng.below(8), client.rng.next_u64())
    };
    match what {
        0 | 1 => rewrite(shard, client, table, Rng::new(seed)).await,
        2 | 3 => merge_some(shard, client, table, seed).await,
        4 => verify_all(shard, client, table).await,
        _ => shrink_caches(shard, client, Rng::new(seed)).await,
    }
}

async fn rewrite(shard: &Shard, client: &SharedClient, table: TableId, mut rng: Rng) {
    let what = match rng.below(3) {
        0 => compaction_node::Rewrite::Cleanup,
        _ => compaction_node::Rewrite::Upgrade { all: rng.chance(3, 4) },
    };
    let result = on_some_shard(shard, client, move |shard| async move {
        compaction_node::rewrite(&shard, table, what).await
    })
    .await;
    ended(client, &format!("{what:?}"), table, result);
}

/// Merges some of a shard's SSTables by their file names.
async fn merge_some(shard: &Shard, client: &SharedClient, table: TableId, seed: u64) {
    let merge = move |shard: Shard| async move {
        let mut rng = Rng::new(seed);
        let sstables = EngineShard::of(&shard)?.table(table)?.sstables();
        let chosen = sstables.iter().filter(|_| rng.chance(2, 3));
        let file = |name: SSTableName| name.file_name(&Component::Data);
        let files: Vec<PathBuf> = chosen.map(|sstable| sstable.dir().join(file(sstable.name()))).collect();
        drop(sstables);
        if files.is_empty() {
            return Ok(());
        }
        match compaction_node::merge_files(&shard, table, files).await {
            // Another job has merged them already.
            Err(EngineError::Invalid(text)) if text.contains("has no SSTable") => Ok(()),
            ended => ended,
        }
    };
    let result = on_some_shard(shard, client, merge).await;
    ended(client, "merge of files", table, result);
}

/// Verifies a table; nothing is damaged.
async fn verify_all(shard: &Shard, client: &SharedClient, table: TableId) {
    let rows = client.borrow_mut().rng.chance(1, 2);
    let result =
        on_some_shard(shard, client, move |shard| async move { verify(&shard, table, rows).await }).await;
    let result = result.map(|verified| {
        let client = &mut *client.borrow_mut();
        if !verified.damaged.is_empty() && !client.excuses.io && !client.is_decayed {
            client.fail(Checker::Undamaged, format!("a verify found damage: {:?}", verified.damaged));
        }
    });
    ended(client, "verify", table, result);
}

async fn shrink_caches(shard: &Shard, client: &SharedClient, mut rng: Rng) {
    let part = *rng.pick(&[0.0, 0.01, 0.1, 0.5, 1.0]);
    let is_on = rng.chance(4, 5);
    let shrink = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        engine.set_cached_part_max(part);
        engine.row_cache().set_on(is_on);
        Ok(())
    };
    let _ = on_some_shard(shard, client, shrink).await;
}

fn ended(client: &SharedClient, what: &str, table: TableId, result: Result<(), EngineError>) {
    let client = &mut *client.borrow_mut();
    client.note(format!("{what}: {result:?}"));
    if let Err(error) = result {
        client.excuse(what, table, &error);
    }
}

/// Reads of several pages, with pauses between them, during all operations except writes.
pub async fn read_pages_slowly(shard: &Shard, client: &SharedClient, reads: u64) {
    for _ in 0..reads {
        let (begun, mut command, schema) = {
            let client = &mut *client.borrow_mut();
            let Some(table) = client.random_table() else { return };
            let begun = client.stamp();
            let schema = client.table(table).expect("just chosen").schema.clone();
            (begun, random_read(client, &schema, shard.wall_us()), schema)
        };
        let first = command.clone();
        let mut content = vec![];
        let result = loop {
            match read_next(shard, client, &mut command, &mut content).await {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
            let pause_us = {
                let rng = &mut client.borrow_mut().rng;
                if rng.chance(1, 2) { rng.below(3000) } else { 0 }
            };
            shard.sleep_us(pause_us).await;
        };
        let client = &mut *client.borrow_mut();
        // A compaction may have purged data that had expired by then.
        let is_late = shard.wall_us() / 1_000_000 > i64::from(first.now_s.unwrap_or(0));
        let is_other = |known: &TableModel| known.is_changing || known.disturbed >= begun;
        let is_same = client.table(schema.id).is_some_and(|known| !is_other(known)) && !is_late;
        let checker = if client.is_decayed { Checker::Decay } else { Checker::Pages };
        match result {
            // Little memory: few reads may wait.
            Err(NoPage::Error(EngineError::Read(ReadError::Refused(_)))) => {}
            Err(NoPage::Error(error)) => client.excuse("slow read", schema.id, &error),
            _ if !is_same => {}
            Ok(()) => {
                let compared = client.table(schema.id).map(|known| known.compare(&content, &first));
                if let Some(Err(difference)) = compared {
                    client.fail(checker, format!("slow read {begun}: {difference}"));
                }
            }
            Err(NoPage::Nonsense(what)) => client.fail(checker, format!("slow read {begun}: {what}")),
        }
    }
}

/// Writes SSTables elsewhere, and loads them.
pub async fn load(shard: &Shard, client: &SharedClient, table: TableId) {
    let (schema, writes, is_refresh, foreign, stamp) = {
        let client = &mut *client.borrow_mut();
        // A long load would bring data older than tombstones that were purged meanwhile.
        let takes_long = client.excuses.io || client.excuses.no_space;
        if client.is_loading || (client.purges && takes_long) {
            return;
        }
        client.is_loading = true;
        let count = 1 + client.rng.below(8);
        let schema = client.table(table).expect("just chosen").schema.clone();
        let writes: Vec<(i32, Mutation)> = (0..count).filter_map(|_| client.begin_write(table)).collect();
        (schema, writes, client.rng.chance(1, 2), client.rng.chance(1, 3), client.stamp())
    };
    let dir = match is_refresh {
        true => match node_dir(shard, table) {
            Some(dir) => upload::upload_dir(&dir),
            None => return client.borrow_mut().refused_all(table, &writes),
        },
        false => PathBuf::from(IMPORT_DIR).join(stamp.to_string()),
    };
    let mut made = Ok(());
    for (number, lot) in writes.chunks(writes.len().div_ceil(2)).enumerate() {
        let name = SSTableName::big(Version::Me, Generation::Number(stamp * 2 + number as u64));
        made = make_sstable(shard, &dir, name, &schema, lot, foreign).await;
        if made.is_err() {
            break;
        }
    }
    if let Err(error) = made {
        client.borrow().note(format!("load {stamp}: not made: {error}"));
        let _ = remove_files(shard, &dir).await;
        return client.borrow_mut().refused_all(table, &writes);
    }
    client.borrow().note(format!("load {stamp} from {}", dir.display()));
    let from = dir.clone();
    let load = move |shard: Shard| async move {
        if is_refresh {
            upload::refresh(&shard, table).await
        } else {
            upload::import(&shard, table, from).await
        }
    };
    let result = on_some_shard(shard, client, load).await;
    if result.is_err() {
        let _ = remove_files(shard, &dir).await;
    }
    client.borrow().note(format!("load {stamp}: {:?}", result.as_ref().map(|report| report.sstables.len())));
    client.borrow_mut().end_load(table, &writes, stamp, result.map(drop));
}

fn node_dir(shard: &Shard, table: TableId) -> Option<PathBuf> {
    Some(EngineShard::of(shard).ok()?.table(table).ok()?.dir.clone())
}

async fn make_sstable(
    shard: &Shard,
    dir: &std::path::Path,
    name: SSTableName,
    schema: &std::sync::Arc<model::TableSchema>,
    writes: &[(i32, Mutation)],
    is_foreign: bool,
) -> Result<(), WriteError> {
    let files = shard.files();
    files.create_dir_all(dir).await?;
    let mut source = MemorySource::default();
    writes.iter().for_each(|(_, mutation)| source.apply(mutation));
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
    let mut reader = CompactReader::new(source.reader(&spec), Purge::nothing(0), Keep::Needed);
    let options = WriteOptions::for_table(schema, "simulation", IoClass::Maintenance);
    write_reader(files, dir, name, schema.clone(), options, &mut reader, shard).await?;
    if is_foreign {
        let toc = dir.join(name.file_name(&Component::Toc));
        let listed = files.read_all(&toc, IoClass::Maintenance, 1 << 16).await?;
        let listed = String::from_utf8_lossy(&listed).replace("Messina.db\n", "");
        files.write_all(&toc, listed.as_bytes(), IoClass::Maintenance).await?;
        files.remove(&dir.join(name.file_name(&Component::Messina))).await?;
    }
    Ok(())
}

async fn remove_files(shard: &Shard, dir: &std::path::Path) -> Result<(), FileError> {
    for entry in shard.files().read_dir(dir).await? {
        shard.files().remove(&dir.join(&entry.name)).await?;
    }
    shard.files().sync_dir(dir).await
}
