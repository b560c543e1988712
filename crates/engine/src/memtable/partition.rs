//! One partition in a memtable. A clone is a snapshot.

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
    /// Applies a write. Returns the heap bytes of the changed parts, before and after.
    ///
    /// Data that the write deletes is not removed; reads leave it out. Counters are an exception, because
    /// they are summed (`Row::merge`).
    pub fn apply(&mut self, schema: &TableSchema, mut write: Partition) -> (usize, usize) {
        let (mut before, mut after) = (0, 0);
        let counters = schema.has_counters();
        self.tombstone = self.tombstone.max(write.tombstone);
        if !write.range_tombstones().is_empty() {
            let mine = self.range_tombstones.get_or_insert_default();
            // A new one was not charged before; an existing one was.
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
            // `make` takes the row unchanged; `update` merges it if `make` did not run.
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

    /// Whether one of these columns has a cell written after the column's time.
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

    /// [`touch`] for the first row.
    #[inline]
    pub fn touch(&self) -> u64 {
        self.rows.near_first().map_or(0, |row| touch(row))
    }

    fn deletes_any(&self, write: &Partition) -> bool {
        !write.tombstone.is_live() || !write.range_tombstones().is_empty()
    }

    /// The tombstone that covers the row `key`, apart from its row tombstone.
    pub fn tombstone_at(&self, schema: &TableSchema, key: &ClusteringKey) -> Tombstone {
        match &self.range_tombstones {
            Some(ranges) => self.tombstone.max(ranges.at(schema, &model::Position::at(key.clone()))),
            None => self.tombstone,
        }
    }

    /// Removes deleted data. Visits all rows, so it is only used for tombstones in tables of counters.
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

    /// Recomputes the bytes charged for this partition.
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
