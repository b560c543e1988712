//! One partition in a memtable. Cloning it takes a snapshot.

use std::rc::Rc;

use model::{ClusteringKey, ColumnId, Partition, RangeTombstones, Row, TableSchema, Tombstone};

use super::reader::touch;
use super::tree::{RC_BYTES, Tree};

#[derive(Clone, Default)]
pub struct MemPartition {
    pub tombstone: Tombstone,
    pub static_row: Option<Rc<Row>>,
    pub rows: Tree<ClusteringKey, Rc<Row>>,
    pub range_tombstones: Option<Rc<RangeTombstones>>,
}

impl MemPartition {
    /// Takes a write over; the heap bytes this may have changed, before and after.
    ///
    /// What the write deletes is not taken out: it is left out when read. Only counters are, because they are
    /// added up (`Row::merge`).
    pub fn apply(&mut self, schema: &TableSchema, mut write: Partition) -> (usize, usize) {
        let (mut before, mut after) = (0, 0);
        let counters = schema.has_counters();
        self.tombstone = self.tombstone.max(write.tombstone);
        if !write.range_tombstones().is_empty() {
            let mine = self.range_tombstones.get_or_insert_default();
            // A new one was not charged before; an old one was.
            let charged =
                if mine.is_empty() { 0 } else { RC_BYTES + size_of_val(&**mine) + mine.heap_bytes() };
            before += charged;
            let mine = Rc::make_mut(mine);
            write.range_tombstones().ranges().for_each(|deletion| mine.add(schema, &deletion));
            after += RC_BYTES + size_of_val(mine) + mine.heap_bytes();
        }
        if counters && self.deletes_any(&write) {
            self.shadow_rows(schema, &mut before, &mut after);
        }
        if !write.static_row.is_empty() {
            let row = std::mem::take(&mut write.static_row);
            match &mut self.static_row {
                Some(mine) => {
                    before += mine.heap_bytes();
                    let mine = Rc::make_mut(mine);
                    mine.merge(&row, schema);
                    after += mine.heap_bytes();
                }
                None => {
                    after += RC_BYTES + size_of::<Row>() + row.heap_bytes();
                    self.static_row = Some(Rc::new(row));
                }
            }
        }
        before += self.rows.heap_bytes();
        for mut row in write.take_rows() {
            if counters {
                row.row.shadow(self.tombstone_at(schema, &row.key));
            }
            let model::ClusteringRow { key, row } = row;
            let mut new = Some(row);
            // `make` takes the row as it is; `update` finds it taken, or merges it.
            let slot = std::cell::RefCell::new(&mut new);
            let (inserted, changed) = self.rows.upsert(
                &key,
                |probe| schema.compare_keys(probe, &key),
                || Rc::new(slot.borrow_mut().take().expect("made at most once")),
                |mine| {
                    let Some(row) = slot.borrow_mut().take() else { return (0, mine.heap_bytes()) };
                    let before = mine.heap_bytes();
                    let mine = Rc::make_mut(mine);
                    mine.merge(&row, schema);
                    (before, mine.heap_bytes())
                },
            );
            before += changed.0;
            after += changed.1;
            if inserted {
                after += RC_BYTES + size_of::<Row>() + key.heap_bytes();
            }
        }
        after += self.rows.heap_bytes();
        (before, after)
    }

    /// Whether there is a cell of one of these columns that was written after the time beside it.
    pub fn has_cells_after(&self, columns: &[(ColumnId, i64)]) -> bool {
        let has = |row: &Row| {
            let mut cells = row.cells().iter();
            cells
                .any(|(id, data)| columns.iter().any(|(other, us)| other == id && data.is_written_after(*us)))
        };
        let mut cursor = self.rows.clone().cursor(|_| std::cmp::Ordering::Greater);
        let mut found = self.static_row.as_ref().is_some_and(|row| has(row));
        while let Some((_, row)) = cursor.next().filter(|_| !found) {
            found = has(row);
        }
        found
    }

    /// [`touch`] of the first row.
    #[inline]
    pub fn touch(&self) -> u64 {
        self.rows.near_first().map_or(0, |row| touch(row))
    }

    fn deletes_any(&self, write: &Partition) -> bool {
        !write.tombstone.is_live() || !write.range_tombstones().is_empty()
    }

    /// What deletes the row `key`, beside its own deletion.
    pub fn tombstone_at(&self, schema: &TableSchema, key: &ClusteringKey) -> Tombstone {
        match &self.range_tombstones {
            Some(ranges) => self.tombstone.max(ranges.at(schema, &model::Position::at(key.clone()))),
            None => self.tombstone,
        }
    }

    /// Takes out what is deleted. Walks all rows: for deletions in counter tables only.
    fn shadow_rows(&mut self, schema: &TableSchema, before: &mut usize, after: &mut usize) {
        let mut cursor = self.rows.clone().cursor(|_| std::cmp::Ordering::Greater);
        let mut deleted = vec![];
        while let Some((key, _)) = cursor.next() {
            let tombstone = self.tombstone_at(schema, key);
            if !tombstone.is_live() {
                deleted.push((key.clone(), tombstone));
            }
        }
        drop(cursor);
        *before += self.rows.heap_bytes();
        for (key, tombstone) in deleted {
            let order = |probe: &ClusteringKey| schema.compare_keys(probe, &key);
            let (_, changed) = self.rows.upsert(
                &key,
                order,
                || unreachable!("the row is there"),
                |row| {
                    let before = row.heap_bytes();
                    let row = Rc::make_mut(row);
                    row.shadow(tombstone);
                    (before, row.heap_bytes())
                },
            );
            *before += changed.0;
            *after += changed.1;
        }
        *after += self.rows.heap_bytes();
    }

    /// The bytes that were charged for this partition, counted again.
    #[cfg(test)]
    pub fn recount(&self) -> usize {
        let row = |row: &Rc<Row>| RC_BYTES + size_of::<Row>() + row.heap_bytes();
        let ranges =
            self.range_tombstones.as_ref().map_or(0, |r| RC_BYTES + size_of_val(&**r) + r.heap_bytes());
        let mut rows = self.rows.recount();
        let mut cursor = self.rows.cursor(|_| std::cmp::Ordering::Greater);
        while let Some((key, content)) = cursor.next() {
            rows += key.heap_bytes() + row(content);
        }
        rows + ranges + self.static_row.as_ref().map_or(0, row)
    }
}
