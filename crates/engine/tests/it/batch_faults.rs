//! Batches over several shards, when a part of the node lags or fails: single shards flush, tables are
//! dropped, the log fails, the disk is full, an entry is damaged, entries are replayed again.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::crc::crc32;
use base::rng::Rng;
use engine::commitlog::{LogError, SyncMode, format};
use engine::node::{self, Deadline, NodeShard};
use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions, OnDamagedLog, ReadCommand};
use model::{ColumnData, Mutation, PartitionRange, TableId, TableSchema};
use runtime::sim::{SimNode, SimWorld};
use runtime::{CpuGroup, Shard};

use crate::batches::{KEYS, apply, batch, flush, on, rows_of, start, world};
use crate::support::{self, clustering, files, insert};

/// The rows of each table that a batch has.
fn whole(world: &SimWorld, node: &SimNode, tables: &[Arc<TableSchema>], c: i32) -> bool {
    let rows: Vec<usize> = tables.iter().map(|table| rows_of(world, node, table, c)).collect();
    assert!(rows.iter().all(|rows| *rows == 0) || rows.iter().all(|rows| *rows == 8), "batch {c}: {rows:?}");
    rows[0] == 8
}

/// The values of row `c`, by key.
fn values(world: &SimWorld, node: &SimNode, table: &Arc<TableSchema>, c: i32) -> BTreeMap<Vec<u8>, String> {
    let id = table.id;
    on(world, node, move |shard| async move {
        let page = node::read(&shard, ReadCommand::new(id, PartitionRange::all()), Deadline::NONE).await;
        let mut values = BTreeMap::new();
        for partition in page.unwrap().partitions {
            for row in partition.rows.iter().filter(|row| row.key == clustering(c)) {
                let Some((_, ColumnData::Simple(cell))) = row.row.cells().first() else { continue };
                let text = String::from_utf8(cell.value.to_vec()).unwrap();
                values.insert(partition.key.bytes().to_vec(), text);
            }
        }
        values
    })
}

/// Flushes tables on one shard only.
fn flush_on(world: &SimWorld, node: &SimNode, target: u32, tables: &[Arc<TableSchema>]) {
    let ids: Vec<TableId> = tables.iter().map(|table| table.id).collect();
    let done = world.block_on(node, target, move |shard| async move {
        EngineShard::of(&shard).unwrap().flush(&ids).await.unwrap();
    });
    done.unwrap_or_else(|stop| panic!("{stop}"));
}

fn log_bytes(world: &SimWorld, node: &SimNode) -> u64 {
    on(world, node, |shard| async move { EngineShard::of(&shard).unwrap().log().disk_bytes() })
}

/// The shard that coordinated the batch has flushed everything and used many segments since: the entry is
/// still in its log while another shard needs it, and not longer.
#[test]
fn the_entry_stays_until_every_shard_has_flushed_its_part() {
    for lagging in 0..3 {
        let (world, node, tables) = world(u64::from(lagging), 3, SyncMode::Batch);
        apply(&world, &node, &tables, 1);
        let t = tables[0].clone();
        // 50 segments' worth of single writes to the shard that coordinated the batch.
        on(&world, &node, move |shard| async move {
            let sharder = NodeShard::of(&shard).unwrap().sharder;
            let value = "v".repeat(2000);
            let mine = |c| {
                let writes = KEYS.map(|key| insert(&t, key, 1000 + c, &value, 1));
                writes.into_iter().find(|write| sharder.shard_of(write.key.token()) == 0).unwrap()
            };
            for c in 0..400 {
                node::apply(&shard, mine(c), Deadline::NONE).await.unwrap();
                if c % 20 == 19 && lagging != 0 {
                    EngineShard::of(&shard).unwrap().flush(&[t.id]).await.unwrap();
                }
            }
        });
        for shard in (0..3).filter(|shard| *shard != lagging) {
            flush_on(&world, &node, shard, &tables);
        }
        world.run_for_us(1_000_000).unwrap();
        world.kill();
        let (node, report) = start(&world, SyncMode::Batch);
        assert!(whole(&world, &node, &tables, 1), "shard {lagging} has lost its part");
        assert!(report.replay.entries > 0, "{:?}", report.replay);
    }
    let (world, node, tables) = world(9, 3, SyncMode::Batch);
    apply(&world, &node, &tables, 1);
    (0..3).for_each(|shard| flush_on(&world, &node, shard, &tables));
    world.kill();
    let (node, _) = start(&world, SyncMode::Batch);
    assert!(whole(&world, &node, &tables, 1), "flushed parts are in SSTables");
}

/// A part that an SSTable contains is replayed as long as its entry exists; timestamps decide, and neither the
/// order of the log nor that of the shards.
#[test]
fn a_part_that_is_applied_again_changes_nothing() {
    for (seed, is_flushed) in [(1, true), (2, false)] {
        let (mut world, node, tables) = world(seed, 3, SyncMode::Batch);
        let of = |c, value: &str, timestamp_us| -> Vec<Mutation> {
            let rows = |table| KEYS.map(|key| insert(table, key, c, value, timestamp_us));
            tables.iter().flat_map(rows).collect()
        };
        // The newer batch is in the log first.
        for (value, timestamp_us) in [("second", 20), ("first", 10), ("third", 30)] {
            let batch = of(1, value, timestamp_us);
            on(&world, &node, |shard| async move {
                node::apply_batch(&shard, batch, Deadline::NONE).await.unwrap();
            });
        }
        let single = of(1, "single", 25);
        let last = insert(&tables[0], KEYS[3], 1, "last", 40);
        on(&world, &node, |shard| async move {
            for write in single.into_iter().chain([last]) {
                node::apply(&shard, write, Deadline::NONE).await.unwrap();
            }
        });
        if is_flushed {
            flush(&world, &node, &tables[..1]);
        }
        for restart in 0..3 {
            world.set_shards(3 - restart);
            world.kill();
            let (node, report) = start(&world, SyncMode::Batch);
            assert!(restart > 0 || report.replay.entries >= 3, "{:?}", report.replay);
            for table in &tables {
                let values = values(&world, &node, table, 1);
                assert_eq!(values.len(), 8);
                for (key, value) in values {
                    let is_last = table.name == "t" && key == KEYS[3].as_bytes();
                    assert_eq!(value, if is_last { "last" } else { "third" }, "{}: {key:?}", table.name);
                }
            }
        }
    }
}

/// The number of rows of each batch in a table.
fn rows_by_batch(world: &SimWorld, node: &SimNode, table: &Arc<TableSchema>) -> BTreeMap<i32, usize> {
    let id = table.id;
    on(world, node, move |shard| async move {
        let mut command = ReadCommand::new(id, PartitionRange::all());
        let mut counts = BTreeMap::new();
        loop {
            let page = node::read(&shard, command.clone(), Deadline::NONE).await.unwrap();
            for row in page.partitions.iter().flat_map(|partition| &partition.rows) {
                let c = i32::from_be_bytes(row.key.values().next().unwrap().try_into().unwrap());
                *counts.entry(c).or_default() += 1;
            }
            match page.next {
                Some(next) => command.paging = Some(next),
                None => return counts,
            }
        }
    })
}

/// A table is dropped while batches are between their entry and the memtables of other shards.
#[test]
fn a_drop_during_batches_takes_only_its_own_part_along() {
    let mut late = 0;
    for seed in 0..40 {
        let (world, node, tables) = world(seed, 3, SyncMode::Batch);
        let sent = tables.clone();
        let pause_us = Rng::new(seed).below(6000);
        // Three writers, until a batch is refused: the number of acknowledged batches of each.
        let acknowledged: Vec<i32> = on(&world, &node, move |shard| async move {
            let writers = (0..3).map(|target| {
                let sent = sent.clone();
                shard.call(target, CpuGroup::Statement, move |shard| async move {
                    for c in 0.. {
                        let batch = batch(&sent, target as i32 * 1000 + c);
                        match node::apply_batch(&shard, batch, Deadline::NONE).await {
                            Ok(()) => {}
                            Err(EngineError::UnknownTable(_)) => return c,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    unreachable!("the table is dropped")
                })
            });
            let writers: Vec<_> = writers.collect();
            shard.sleep_us(pause_us).await;
            node::change_schema(&shard, |catalog| catalog.drop_table("ks", "t")).await.unwrap();
            let mut all = vec![];
            for writer in writers {
                all.push(writer.await.unwrap());
            }
            all
        });
        let check = |node: &SimNode| -> usize {
            let rows = rows_by_batch(&world, node, &tables[1]);
            assert!(rows.values().all(|rows| *rows == 8), "seed {seed}: {rows:?}");
            for (writer, count) in (0..).zip(&acknowledged) {
                let missing = (0..*count).find(|c| !rows.contains_key(&(writer * 1000 + c)));
                assert_eq!(missing, None, "seed {seed}: a batch of writer {writer} is lost");
            }
            rows.len() - acknowledged.iter().sum::<i32>() as usize
        };
        let late_here = check(&node);
        late += late_here;
        if seed % 2 == 0 {
            // No entry of the dropped table stays counted.
            flush(&world, &node, &tables[1..]);
            world.run_for_us(1_000_000).unwrap();
            let bytes = log_bytes(&world, &node);
            assert!(bytes <= 6 * (16 << 10), "only the open segment, the next, and recycled ones: {bytes}");
        }
        world.kill();
        let (node, _) = start(&world, SyncMode::Batch);
        assert_eq!(check(&node), late_here, "seed {seed}");
    }
    assert!(late > 0, "no batch was logged before the drop and met it on another shard");
}

/// The log of the coordinator fails while it stores an entry: its own part is in its memtable, and must not
/// be flushed alone.
#[test]
fn a_failed_log_tears_no_batch() {
    let (mut absent, mut present) = (0, 0);
    for seed in 0..40 {
        let sync = if seed % 2 == 0 { SyncMode::Batch } else { SyncMode::Group { window_us: 300 } };
        let (world, node, tables) = world(seed, 1 + seed as u32 % 3, sync);
        apply(&world, &node, &tables, 1);
        world.set_faults(|faults| {
            if seed % 4 < 2 {
                faults.sync_error = 1.0;
            } else {
                let is_log = |path: &std::path::Path| path.to_string_lossy().contains("commitlog/CommitLog-");
                faults.write_error_paths = Some(std::rc::Rc::new(is_log));
            }
        });
        let failing = batch(&tables, 2);
        let failed = on(&world, &node, |shard| async move {
            node::apply_batch(&shard, failing, Deadline::NONE).await.expect_err("the log has failed")
        });
        assert!(matches!(failed, EngineError::Log(LogError::Failed(_))), "seed {seed}: {failed}");
        world.set_faults(|faults| (faults.sync_error, faults.write_error_paths) = (0.0, None));
        let ids = vec![tables[0].id];
        // Nothing is flushed, or nothing of this batch.
        on(&world, &node, |shard| async move { drop(node::flush(&shard, ids).await) });
        let later = batch(&tables, 3);
        let refused =
            on(&world, &node, |shard| async move { node::apply_batch(&shard, later, Deadline::NONE).await });
        assert!(matches!(refused, Err(EngineError::Log(LogError::Failed(_)))), "seed {seed}: {refused:?}");
        if seed % 3 == 0 {
            world.power_loss();
        } else {
            world.kill();
        }
        let (node, _) = start(&world, sync);
        assert!(whole(&world, &node, &tables, 1), "seed {seed}: an acknowledged batch");
        if whole(&world, &node, &tables, 2) {
            present += 1;
        } else {
            absent += 1;
        }
        assert!(!whole(&world, &node, &tables, 3), "seed {seed}: a refused batch");
    }
    assert!(absent > 5 && present > 5, "{absent} absent, {present} present");
}

/// Batches until one is refused; returns the number of acknowledged ones, and the error.
async fn fill(shard: &Shard, tables: &[Arc<TableSchema>]) -> (i32, EngineError) {
    let value = "v".repeat(300);
    for c in 0.. {
        let rows = |table| KEYS.map(|key| insert(table, key, c, &value, 1));
        let batch = tables.iter().flat_map(rows).collect();
        if let Err(error) = node::apply_batch(shard, batch, Deadline::NONE).await {
            return (c, error);
        }
    }
    unreachable!("the disk is finite")
}

#[test]
fn a_full_disk_refuses_batches_as_a_whole() {
    for seed in 0..12 {
        let (world, node, tables) = world(seed, 1 + seed as u32 % 3, SyncMode::Batch);
        let room = world.disk().used_bytes() + 200_000 + seed * 23_000;
        world.set_faults(|faults| faults.capacity_bytes = Some(room));
        let sent = tables.clone();
        let (written, error) = on(&world, &node, move |shard| async move { fill(&shard, &sent).await });
        let is_full = matches!(error, EngineError::NoSpace(_) | EngineError::Log(LogError::NoSpace(_)));
        assert!(is_full && written > 5, "seed {seed}: {written} batches, then {error}");
        let check = |node: &SimNode| {
            for c in 0..=written {
                assert_eq!(
                    whole(&world, node, &tables, c),
                    c < written,
                    "seed {seed}: batch {c} of {written}"
                );
            }
        };
        check(&node);
        world.set_faults(|faults| faults.capacity_bytes = Some(room + 40_000_000));
        if seed % 2 == 0 {
            // Batches are accepted again without a restart.
            let late = tables.clone();
            on(&world, &node, move |shard| async move {
                for attempt in 0.. {
                    match node::apply_batch(&shard, batch(&late, 100_000), Deadline::NONE).await {
                        Ok(()) => break,
                        Err(error) => assert!(attempt < 60, "still refused after a minute: {error}"),
                    }
                    shard.sleep_us(1_000_000).await;
                }
            });
            assert!(whole(&world, &node, &tables, 100_000));
        }
        world.kill();
        let (node, _) = start(&world, SyncMode::Batch);
        check(&node);
    }
}

/// The entry has a right checksum, and its last mutation cannot be read.
#[test]
fn a_batch_with_an_unreadable_part_is_damaged_as_a_whole() {
    let dir = support::dir("unreadable-part");
    let engine = support::open(support::options(&dir), 3);
    let table = support::table(&engine);
    engine.apply(insert(&table, "single", 1, "value", 1)).wait().unwrap();
    engine.apply_batch(KEYS.map(|key| insert(&table, key, 2, "value", 1)).to_vec()).wait().unwrap();
    drop(engine);
    let changed = files(&dir.join("commitlog"), ".log").iter().filter(|path| spoil_batch(path)).count();
    assert_eq!(changed, 1, "one segment has the entry");
    let error = engine::Engine::open(support::options(&dir)).err().expect("it must not open");
    assert!(matches!(error, EngineError::DamagedLog(_)), "{error}");
    let skip = EngineOptions { on_damaged_log: OnDamagedLog::Skip, ..support::options(&dir) };
    let engine = support::open(skip, 2);
    assert_eq!(engine.open_report().replay.damaged.len(), 1);
    let rows = support::everything(&engine, &table);
    assert_eq!(rows.len(), 1, "only the single write: {rows:?}");
    engine.close().unwrap();
}

/// Gives the last mutation of the batch in this segment an unknown version. Whether there is a batch.
fn spoil_batch(path: &std::path::Path) -> bool {
    let mut bytes = std::fs::read(path).unwrap();
    let id = format::id_of_file_name(&path.file_name().unwrap().to_string_lossy()).unwrap();
    let mut offset = format::FIRST_CHUNK_BYTES as usize;
    while let Some(header) = bytes[offset..].first_chunk() {
        let Some(mut header) = format::ChunkHeader::decode(header, id, offset as u64) else { return false };
        let begin = offset + format::HEADER_BYTES;
        let end = begin + header.payload_bytes as usize;
        let mut spoiled = None;
        for (at, entry) in format::entries(&bytes[begin..end]).flatten() {
            if let (true, mutations) = format::mutations_of(entry) {
                let last = mutations.last().unwrap().unwrap().len();
                spoiled = Some(begin + at + 4 + entry.len() - last);
            }
        }
        if let Some(at) = spoiled {
            bytes[at] = 0x7f;
            header.payload_crc = crc32(&bytes[begin..end]);
            bytes[offset..begin].copy_from_slice(&header.encode(id, offset as u64));
            std::fs::write(path, &bytes).unwrap();
            return true;
        }
        offset = format::next_chunk_offset(end as u64) as usize;
    }
    false
}
