//! The view of a table that is passed to the strategies.

use std::rc::Rc;

use base::HashMap;
use compaction::{RunId, SSTableId, SSTableView};
use model::NO_DELETION_TIME_S;
use sstable::name::{Generation, SSTableName};
use sstable::read::SSTable;

use super::futile::Futile;
use super::read_rate::ReadRate;
use crate::table::Table;

/// First id for SSTables whose generation is not a number, or that another system wrote.
const FOREIGN_IDS: u64 = 1 << 63;

/// Data about each SSTable of a table, kept between views.
#[derive(Default)]
pub(super) struct Views {
    known: HashMap<SSTableName, Known>,
    foreign: u64,
    /// The SSTables found at the start have been seen.
    has_begun: bool,
    /// The views of the last call; the vector is reused.
    views: Vec<SSTableView>,
}

struct Known {
    view: SSTableView,
    reads: ReadRate,
}

impl Views {
    /// The views of all SSTables, in the table's order.
    pub(super) fn of(
        &mut self,
        table: &Table,
        shard_count: u32,
        now_s: u32,
        gc_before_s: u32,
        is_busy: impl Fn(SSTableName) -> bool,
        futile: &Futile,
    ) -> &[SSTableView] {
        let sstables = table.sstables();
        if self.known.len() > 2 * sstables.len() + 16 {
            let there: base::HashSet<SSTableName> = sstables.iter().map(|sstable| sstable.name()).collect();
            self.known.retain(|name, _| there.contains(name));
        }
        self.views.clear();
        for sstable in sstables.iter() {
            let name = sstable.name();
            let (foreign, is_new) = (&mut self.foreign, self.has_begun);
            let known = self.known.entry(name).or_insert_with(|| Known {
                view: view(sstable, now_s, is_new, foreign),
                reads: ReadRate::new(sstable.point_reads(), now_s),
            });
            let mut view = known.view.clone();
            view.reads_per_s = known.reads.observe(sstable.point_reads(), now_s);
            view.compacting = is_busy(name);
            view.frozen = table.sstables.is_frozen(name)
                || table.sstables.is_quarantined(name)
                || table.is_shared(sstable, shard_count);
            let ratio = droppable_ratio(sstable, gc_before_s);
            view.droppable_ratio = if ratio > 0.0 && futile.has(table, name) { 0.0 } else { ratio };
            self.views.push(view);
        }
        self.has_begun = true;
        &self.views
    }

    /// The SSTable of an id that [`Self::of`] has returned.
    pub(super) fn find(&self, table: &Table, id: SSTableId) -> Option<Rc<SSTable>> {
        let sstables = table.sstables();
        let is_it =
            |sstable: &&Rc<SSTable>| self.known.get(&sstable.name()).is_some_and(|known| known.view.id == id);
        sstables.iter().find(is_it).cloned()
    }
}

/// `is_new`: it was written just now; otherwise its age is taken from its newest write.
fn view(sstable: &SSTable, now_s: u32, is_new: bool, foreign: &mut u64) -> SSTableView {
    let id = match sstable.name().generation {
        Generation::Number(number) if sstable.messina().is_some() && number < FOREIGN_IDS => number,
        _ => {
            *foreign += 1;
            FOREIGN_IDS + *foreign
        }
    };
    let run_id = sstable.messina().and_then(|info| info.run_id);
    let newest_s = u32::try_from(sstable.max_timestamp_us() / 1_000_000).unwrap_or(0).min(now_s);
    SSTableView {
        id: SSTableId(id),
        run: RunId(run_id.map_or(u128::from(id), u128::from_be_bytes)),
        data_bytes: sstable.uncompressed_bytes(),
        disk_bytes: sstable.data_bytes() + sstable.index_bytes() + sstable.memory_bytes() as u64,
        first: sstable.first_key().clone(),
        last: sstable.last_key().clone(),
        level: sstable.level(),
        min_timestamp_us: sstable.min_timestamp_us(),
        max_timestamp_us: sstable.max_timestamp_us(),
        max_deletion_time_s: sstable.max_local_deletion_time_s().unwrap_or(NO_DELETION_TIME_S),
        written_s: if is_new { now_s } else { newest_s },
        may_delete: sstable.may_have_tombstones(),
        droppable_ratio: 0.0,
        partitions: sstable.partition_count(),
        keys: sstable.statistics().compaction.cardinality().ok().map(Rc::new),
        compacting: false,
        frozen: false,
        reads_per_s: None,
        is_repaired: sstable.stats().repaired_at_ms > 0,
    }
}

/// Tombstones droppable before `gc_before_s`, as a fraction of the cells.
fn droppable_ratio(sstable: &SSTable, gc_before_s: u32) -> f64 {
    let stats = sstable.stats();
    let cells = stats.partition_cells.mean().unwrap_or(0) as f64 * stats.partition_cells.count() as f64;
    if cells <= 0.0 { 0.0 } else { stats.tombstone_drop_times.count_until(gc_before_s) / cells }
}
