//! What is known of one partition: its deletion, its static row, and some of its rows with what lies between them.
//!
//! Entries stand at positions, in order. An entry at a row ([`Side::At`]) says all that the SSTables have of that row;
//! without a row it says that they have none. Other entries ([`Side::Before`], [`Side::After`]) are marks: they bound
//! what is known. The [`Gap`] of an entry is what lies between it and the entry in front of it; [`Content::tail`] lies
//! behind the last one. If a gap is *continuous*, the SSTables have no row in it, and one range deletion, or none, is
//! in force all over it; else nothing is known of it. So a deletion begins and ends at marks.
//!
//! Rows are kept without what the deletions in force there delete, so nothing deleted comes back when a compaction
//! has purged the deletion and it is read again.
//!
//! [`Content::put`] and [`Content::connect`] take in what was read, [`Content::merge_row`] and [`Content::delete`] what
//! was flushed, [`Content::remove`] forgets. Cloning takes a snapshot.

use std::rc::Rc;

use model::{ClusteringKey, ClusteringPrefix, Position, Row, Side, TableSchema, Tombstone};

use super::space::{ItemNumber, NewItems};
use crate::memtable::tree::Tree;

/// What lies in front of an entry, up to the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// There is no row in it.
    pub continuous: bool,
    /// The range deletion in force all over a continuous gap, and at the entry itself in any case.
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

/// The only row that `prefix` can mean, if it is a whole key.
fn is_key(schema: &TableSchema, prefix: &ClusteringPrefix) -> bool {
    prefix.len() == schema.clustering.len()
}

/// Whether no row can lie between `a` and `b`: they are the same place, or at a row and beside it.
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

    /// What is known of the gap in which `at` lies or which ends at it.
    fn gap_at(&self, schema: &TableSchema, at: &Position) -> Gap {
        self.entries
            .first_from(|probe| schema.compare_positions(probe, at))
            .map_or(self.tail, |(_, entry)| entry.gap)
    }

    /// An entry at `at`, new ones as `make` says.
    fn upsert(
        &mut self,
        schema: &TableSchema,
        at: &Position,
        make: impl FnOnce() -> Entry,
        change: impl FnOnce(&mut Entry),
    ) {
        self.entries.upsert(at, |probe| schema.compare_positions(probe, at), make, change);
    }

    /// All that the SSTables have of the row `key`, and the range deletion in force there.
    pub fn put(
        &mut self,
        schema: &TableSchema,
        key: &ClusteringKey,
        row: Option<Rc<Row>>,
        tombstone: Tombstone,
        items: &mut NewItems<'_>,
    ) {
        let at = Position::at(key.clone());
        // What was known of the gap around it may lack a deletion that is being merged: then it begins or ends here
        // somewhere.
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

    /// Between `low` and `high`, neither of them [`Side::At`], there is no row but those put before, and `tombstone` is
    /// in force.
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
            // Of the one row between them it is known whether it is there.
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

    /// A place from which on something is known.
    fn mark_low(&mut self, schema: &TableSchema, low: &Position, items: &mut NewItems<'_>) {
        let at_row = low.side == Side::After
            && is_key(schema, &low.prefix)
            && self.entry(schema, &Position::at(low.prefix.clone())).is_some();
        if *low != Position::START && !at_row {
            self.mark(schema, low, self.gap_at(schema, low), items);
        }
    }

    /// A place up to which something is known.
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

    /// A mark at `at`, if there is none.
    fn mark(&mut self, schema: &TableSchema, at: &Position, gap: Gap, items: &mut NewItems<'_>) {
        if self.entry(schema, at).is_none() {
            let item = items.make(at);
            self.upsert(schema, at, || Entry { gap, row: None, item }, |_| ());
            items.size(item, at, 0);
        }
    }

    /// Forgets the entry at `at`. What lay on both sides of it is not known any more, unless it said nothing of its
    /// own.
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

    /// Adds a flushed row, if anything is known of its place.
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

    /// Takes over a flushed deletion of the rows between `start` and `end`, wherever something is known of them. False,
    /// and half done, if it meets more than `entries_max` entries.
    pub fn delete(
        &mut self,
        schema: &TableSchema,
        (start, end): (&Position, &Position),
        tombstone: Tombstone,
        entries_max: usize,
        items: &mut NewItems<'_>,
    ) -> bool {
        for bound in [start, end] {
            // A known gap is cut in two; where nothing is known, nothing is to be cut.
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

    /// Takes over a flushed deletion of the partition. Rows must not be there.
    pub fn delete_partition(&mut self, tombstone: Tombstone) {
        assert!(self.entries.len() == 0, "rows would have to be looked at");
        self.tombstone = self.tombstone.max(tombstone);
        shadow(&mut self.static_row, self.tombstone);
        if self.tombstone.max(self.tail.tombstone) == self.tombstone {
            self.tail.tombstone = Tombstone::LIVE;
        }
    }

    /// Adds a flushed static row.
    pub fn merge_static(&mut self, schema: &TableSchema, row: &Rc<Row>) {
        match &mut self.static_row {
            Some(mine) => Rc::make_mut(mine).merge(row, schema),
            none => *none = Some(row.clone()),
        }
        shadow(&mut self.static_row, self.tombstone);
    }
}

/// Leaves out what `deleted` deletes, the whole row if nothing is left of it.
fn shadow(row: &mut Option<Rc<Row>>, deleted: Tombstone) {
    if let Some(shared) = row.as_mut().filter(|_| !deleted.is_live()) {
        Rc::make_mut(shared).shadow(deleted);
        if shared.is_empty() {
            *row = None;
        }
    }
}

/// What a row takes beside its entry.
pub fn row_bytes(row: &Rc<Row>) -> usize {
    crate::memtable::tree::RC_BYTES + size_of::<Row>() + row.heap_bytes()
}
