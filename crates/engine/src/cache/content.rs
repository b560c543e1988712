//! The cached content of one partition: its tombstone, its static row, and some of its rows with the gaps
//! between them.
//!
//! Entries have positions and are kept in order. An entry at a row ([`Side::At`]) holds everything that the
//! SSTables have of the row, or the fact that they have nothing of it. Other entries ([`Side::Before`],
//! [`Side::After`]) are marks that bound the known ranges. The [`Gap`] of an entry is the range between it
//! and the previous entry; [`Content::tail`] is the range after the last entry. If a gap is *continuous*, the
//! SSTables have no row in it, and one range tombstone, or none, is in force in all of it; otherwise nothing
//! is known about it. So a range tombstone begins and ends at marks.
//!
//! Rows are kept without the data that the tombstones in force delete. So no deleted data returns when a
//! compaction has purged the tombstone and the range is read again.
//!
//! [`Content::put`] and [`Content::connect`] add data read from SSTables, [`Content::merge_row`] and
//! [`Content::delete`] add flushed data, [`Content::remove`] removes an entry. A clone is a snapshot.

use std::rc::Rc;

use model::{ClusteringKey, ClusteringPrefix, Position, Row, Side, TableSchema, Tombstone};

use super::space::{ItemNumber, NewItems};
use crate::memtable::tree::Tree;

/// The range between an entry and the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// The range is known and has no row.
    pub continuous: bool,
    /// The range tombstone in force in all of a continuous gap; in any case the one in force at the entry
    /// itself.
    pub tombstone: Tombstone,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub gap: Gap,
    pub row: Option<Rc<Row>>,
    pub item: ItemNumber,
}

/// See the head of this file.
#[derive(Clone, Default)]
pub struct Content {
    pub tombstone: Tombstone,
    pub static_row: Option<Rc<Row>>,
    pub entries: Tree<Position, Entry>,
    pub tail: Gap,
}

/// Whether `prefix` is a whole clustering key, so that only one row matches it.
fn is_key(schema: &TableSchema, prefix: &ClusteringPrefix) -> bool {
    prefix.len() == schema.clustering.len()
}

/// Whether no row can lie between `a` and `b`: they are the same position, or the position of a row and one
/// next to it.
pub fn touch(schema: &TableSchema, a: &Position, b: &Position) -> bool {
    let at_row = is_key(schema, &a.prefix) && (a.side == Side::At || b.side == Side::At);
    let order = schema.compare_positions(a, b);
    order.is_eq()
        || at_row && a.prefix.len() == b.prefix.len() && schema.compare_values(&a.prefix, &b.prefix).is_eq()
}

impl Content {
    fn entry(&self, schema: &TableSchema, at: &Position) -> Option<&Entry> {
        self.entries.get(|probe| schema.compare_positions(probe, at))
    }

    /// The gap that contains `at` or ends at it.
    fn gap_at(&self, schema: &TableSchema, at: &Position) -> Gap {
        self.entries
            .first_from(|probe| schema.compare_positions(probe, at))
            .map_or(self.tail, |(_, entry)| entry.gap)
    }

    /// Changes the entry at `at`, which `make` creates if there is none.
    fn upsert(
        &mut self,
        schema: &TableSchema,
        at: &Position,
        make: impl FnOnce() -> Entry,
        change: impl FnOnce(&mut Entry),
    ) {
        self.entries.upsert(at, |probe| schema.compare_positions(probe, at), make, change);
    }

    /// Adds all data of the row `key` in the SSTables, and the range tombstone in force there.
    pub fn put(
        &mut self,
        schema: &TableSchema,
        key: &ClusteringKey,
        row: Option<Rc<Row>>,
        tombstone: Tombstone,
        items: &mut NewItems<'_>,
    ) {
        let at = Position::at(key.clone());
        // The gap around it may lack a range tombstone that is being merged and that begins or ends here.
        let around = self.gap_at(schema, &at);
        let gap = Gap { continuous: around.continuous && around.tombstone == tombstone, tombstone };
        let bytes = row.as_ref().map_or(0, row_bytes);
        let mut item = ItemNumber::NONE;
        let new = || Entry { gap, row: None, item: items.make(&at) };
        self.upsert(schema, &at, new, |entry| {
            entry.gap = gap;
            entry.row = row;
            item = entry.item;
        });
        items.size(item, &at, bytes);
    }

    /// Records that between `low` and `high`, neither of them [`Side::At`], there is no row except those put
    /// before, and that `tombstone` is in force.
    pub fn connect(
        &mut self,
        schema: &TableSchema,
        low: &Position,
        high: &Position,
        tombstone: Tombstone,
        items: &mut NewItems<'_>,
    ) {
        if !schema.compare_positions(low, high).is_lt() {
            return;
        }
        let is_one_row = is_key(schema, &low.prefix) && low.prefix.len() == high.prefix.len();
        if is_one_row && schema.compare_values(&low.prefix, &high.prefix).is_eq() {
            // The only possible row between them is known to exist or not.
            if self.entry(schema, &Position::at(low.prefix.clone())).is_none() {
                self.put(schema, &low.prefix, None, tombstone, items);
            }
            return;
        }
        let known = Gap { continuous: true, tombstone };
        self.mark_low(schema, low, items);
        self.entries.for_each_mut(
            |probe| schema.compare_positions(probe, low),
            |probe| schema.compare_positions(probe, high),
            &mut |at, entry| {
                if schema.compare_positions(at, low).is_gt() {
                    entry.gap = known;
                }
                true
            },
        );
        self.mark_high(schema, high, known, items);
    }

    /// Marks the beginning of a known range.
    fn mark_low(&mut self, schema: &TableSchema, low: &Position, items: &mut NewItems<'_>) {
        let at_row = low.side == Side::After
            && is_key(schema, &low.prefix)
            && self.entry(schema, &Position::at(low.prefix.clone())).is_some();
        if *low != Position::START && !at_row {
            self.mark(schema, low, self.gap_at(schema, low), items);
        }
    }

    /// Marks the end of a known range.
    fn mark_high(&mut self, schema: &TableSchema, high: &Position, known: Gap, items: &mut NewItems<'_>) {
        if *high == Position::END {
            self.tail = known;
            return;
        }
        if high.side == Side::Before && is_key(schema, &high.prefix) {
            let at = Position::at(high.prefix.clone());
            if self.entry(schema, &at).is_some_and(|entry| entry.gap.tombstone == known.tombstone) {
                let unreachable = || unreachable!("it is there");
                return self.upsert(schema, &at, unreachable, |entry| entry.gap = known);
            }
        }
        if self.entry(schema, high).is_some_and(|entry| entry.gap == known) {
            return;
        }
        let mut made = None;
        let new = || Entry { gap: known, row: None, item: *made.insert(items.make(high)) };
        self.upsert(schema, high, new, |entry| entry.gap = known);
        made.into_iter().for_each(|item| items.size(item, high, 0));
    }

    /// Creates a mark at `at`, if there is no entry.
    fn mark(&mut self, schema: &TableSchema, at: &Position, gap: Gap, items: &mut NewItems<'_>) {
        if self.entry(schema, at).is_none() {
            let item = items.make(at);
            self.upsert(schema, at, || Entry { gap, row: None, item }, |_| ());
            items.size(item, at, 0);
        }
    }

    /// Removes the entry at `at`. The gaps on both sides become unknown, unless the entry was a mark or an
    /// absent row inside a known range.
    pub fn remove(&mut self, schema: &TableSchema, at: &Position) -> Option<Entry> {
        let removed = self.entries.remove(|probe| schema.compare_positions(probe, at))?;
        let says_nothing = removed.row.is_none() && removed.gap.continuous;
        let widen = |gap: &mut Gap| {
            gap.continuous &= says_nothing && removed.gap.tombstone == gap.tombstone;
        };
        let next = self.entries.first_from(|probe| schema.compare_positions(probe, at));
        match next.map(|(next, entry)| (next.clone(), entry.gap.continuous)) {
            None => widen(&mut self.tail),
            Some((next, true)) => {
                self.upsert(schema, &next, || unreachable!("it is there"), |entry| widen(&mut entry.gap));
            }
            Some((_, false)) => {}
        }
        Some(removed)
    }

    /// Merges a flushed row, if its position is known.
    pub fn merge_row(
        &mut self,
        schema: &TableSchema,
        key: &ClusteringKey,
        row: &Rc<Row>,
        items: &mut NewItems<'_>,
    ) {
        let at = Position::at(key.clone());
        let partition = self.tombstone;
        let gap = self.gap_at(schema, &at);
        let known = self.entry(schema, &at).map(|entry| entry.gap.tombstone);
        if known.is_none() && !gap.continuous {
            return;
        }
        let deleted = partition.max(known.unwrap_or(gap.tombstone));
        let mut after = None;
        let new = || Entry { gap, row: None, item: items.make(&at) };
        self.upsert(schema, &at, new, |entry| {
            match &mut entry.row {
                Some(mine) => Rc::make_mut(mine).merge(row, schema),
                none => *none = Some(row.clone()),
            }
            shadow(&mut entry.row, deleted);
            after = Some((entry.item, entry.row.as_ref().map_or(0, row_bytes)));
        });
        let (item, bytes) = after.expect("set above");
        items.size(item, &at, bytes);
    }

    /// Merges a flushed range tombstone between `start` and `end` into the known ranges. Returns false, with
    /// the merge incomplete, if it covers more than `entries_max` entries.
    pub fn delete(
        &mut self,
        schema: &TableSchema,
        (start, end): (&Position, &Position),
        tombstone: Tombstone,
        entries_max: usize,
        items: &mut NewItems<'_>,
    ) -> bool {
        for bound in [start, end] {
            // A known gap is split in two; an unknown one is not.
            let gap = self.gap_at(schema, bound);
            if gap.continuous && *bound != Position::START && *bound != Position::END {
                self.mark(schema, bound, gap, items);
            }
        }
        let partition = self.tombstone;
        let mut met = 0;
        let mut resized = vec![];
        self.entries.for_each_mut(
            |probe| schema.compare_positions(probe, start),
            |probe| schema.compare_positions(probe, end).then(std::cmp::Ordering::Less),
            &mut |at, entry| {
                if schema.compare_positions(at, start).is_eq() {
                    return true;
                }
                met += 1;
                entry.gap.tombstone = entry.gap.tombstone.max(tombstone);
                if entry.row.is_some() {
                    shadow(&mut entry.row, partition.max(entry.gap.tombstone));
                    resized.push((entry.item, at.clone(), entry.row.as_ref().map_or(0, row_bytes)));
                }
                met <= entries_max
            },
        );
        if *end == Position::END && self.tail.continuous {
            self.tail.tombstone = self.tail.tombstone.max(tombstone);
        }
        resized.into_iter().for_each(|(item, at, bytes)| items.size(item, &at, bytes));
        met <= entries_max
    }

    /// Merges a flushed partition tombstone. The partition must have no entries.
    pub fn delete_partition(&mut self, tombstone: Tombstone) {
        assert!(self.entries.len() == 0, "rows would have to be looked at");
        self.tombstone = self.tombstone.max(tombstone);
        shadow(&mut self.static_row, self.tombstone);
        if self.tombstone.max(self.tail.tombstone) == self.tombstone {
            self.tail.tombstone = Tombstone::LIVE;
        }
    }

    /// Merges a flushed static row.
    pub fn merge_static(&mut self, schema: &TableSchema, row: &Rc<Row>) {
        match &mut self.static_row {
            Some(mine) => Rc::make_mut(mine).merge(row, schema),
            none => *none = Some(row.clone()),
        }
        shadow(&mut self.static_row, self.tombstone);
    }
}

/// Removes the data that `deleted` deletes, and the row if it becomes empty.
fn shadow(row: &mut Option<Rc<Row>>, deleted: Tombstone) {
    if let Some(shared) = row.as_mut().filter(|_| !deleted.is_live()) {
        Rc::make_mut(shared).shadow(deleted);
        if shared.is_empty() {
            *row = None;
        }
    }
}

/// Bytes of a row without its entry.
pub fn row_bytes(row: &Rc<Row>) -> usize {
    crate::memtable::tree::RC_BYTES + size_of::<Row>() + row.heap_bytes()
}
