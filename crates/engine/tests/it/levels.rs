//! A table that leaves leveled compaction and returns to it: its levels never overlap.

use std::sync::Arc;

use base::rng::Rng;
use catalog::TableSettings;
use engine::shard::EngineShard;
use engine::{Engine, EngineOptions};
use model::{PartitionKey, TableSchema};

use crate::support::*;

const LCS: &[(&str, &str)] = &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "1")];
const STCS: &[(&str, &str)] = &[("class", "SizeTieredCompactionStrategy")];

fn alter(engine: &Engine, table: &Arc<TableSchema>, options: &'static [(&'static str, &'static str)]) {
    let schema = table.clone();
    let changed = engine.change_schema(move |catalog| {
        let compaction = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        catalog.alter_table(schema, TableSettings { compaction, ..TableSettings::default() })
    });
    changed.unwrap();
}

/// Level, first and last key of every SSTable.
fn levels(engine: &Engine, table: &TableSchema) -> Vec<(u32, PartitionKey, PartitionKey)> {
    let id = table.id;
    let asked = engine.ask(0, move |shard| async move {
        let sstables = EngineShard::of(&shard)?.table(id)?.sstables();
        let of = |sstable: &std::rc::Rc<sstable::read::SSTable>| {
            (sstable.level(), sstable.first_key().clone(), sstable.last_key().clone())
        };
        let mut levels: Vec<_> = sstables.iter().map(of).collect();
        levels.sort();
        Ok(levels)
    });
    asked.wait().unwrap()
}

fn assert_disjoint(engine: &Engine, table: &TableSchema, when: &str) {
    let levels = levels(engine, table);
    for pair in levels.windows(2).filter(|pair| pair[0].0 == pair[1].0 && pair[0].0 > 0) {
        assert!(pair[0].2 < pair[1].1, "{when}: {:?} and {:?} overlap", pair[0], pair[1]);
    }
}

fn quiesce(engine: &Engine, table: &TableSchema, when: &str) {
    let id = table.id;
    for _ in 0..2000 {
        assert_disjoint(engine, table, when);
        let asked = engine.ask(0, move |shard| async move {
            shard.sleep_us(10_000).await;
            let compactions = EngineShard::of(&shard)?.compactions().clone();
            let is_idle = compactions.stats().1 == 0 && compactions.table_needs(id).pending == 0;
            Ok(is_idle)
        });
        if asked.wait().unwrap() {
            return;
        }
    }
    panic!("{when}: compactions do not end");
}

/// Writes rows all over the ring in several flushes, with checks of the levels in between.
fn write(engine: &Engine, table: &Arc<TableSchema>, round: i32, when: &str) {
    for flush in 0..6 {
        let mut rng = Rng::new((round * 100 + flush) as u64);
        let mut noise = [0; 900];
        let rows: Vec<_> = (0..700)
            .map(|i| {
                rng.fill(&mut noise);
                let value: String = noise.iter().map(|byte| char::from(b'0' + byte % 64)).collect();
                let p = format!("key{}", (i * 31 + flush * 17) % 1500);
                engine.apply(insert(table, &p, round, &value, 10))
            })
            .collect();
        rows.into_iter().for_each(|row| row.wait().unwrap());
        engine.flush(vec![table.id]).unwrap();
        assert_disjoint(engine, table, when);
    }
}

#[test]
fn levels_never_overlap_over_a_time_with_another_strategy() {
    let dir = dir("levels");
    let engine = open(EngineOptions { memory_bytes: 64 << 20, ..options(&dir) }, 1);
    let table = table(&engine);
    alter(&engine, &table, LCS);
    write(&engine, &table, 0, "at first");
    quiesce(&engine, &table, "at first");
    let top = |engine: &Engine| levels(engine, &table).last().unwrap().0;
    assert!(top(&engine) >= 1, "{:?}", levels(&engine, &table).len());
    alter(&engine, &table, STCS);
    write(&engine, &table, 1, "by sizes");
    quiesce(&engine, &table, "by sizes");
    let rows = everything(&engine, &table);
    alter(&engine, &table, LCS);
    quiesce(&engine, &table, "again");
    assert_eq!(everything(&engine, &table), rows);
    write(&engine, &table, 2, "again");
    quiesce(&engine, &table, "again");
    assert!(top(&engine) >= 1);
    engine.close().unwrap();
    let engine = open(options(&dir), 1);
    assert_disjoint(&engine, &table, "after a restart");
    assert_eq!(everything(&engine, &table).iter().filter(|(_, c, _)| *c < 2).count(), rows.len());
    engine.close().unwrap();
}
