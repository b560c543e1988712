//! A secondary index of a memtable: the terms of every write, sorted by term and then in the order of the
//! table.
//!
//! A write adds the terms of its own cells, whether they win against existing cells or not: a cell that loses
//! is a candidate that a read finds not to match. Entries are never removed; the SSTable of the memtable has
//! only the terms of cells that won. A memtable that had content when an index was created lacks that index
//! until it is flushed.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use model::index::{IndexId, Posting, stored_term};
use model::{ClusteringKey, IndexTerms, PartitionKey, SmallBytes, TableSchema};

use super::tree::{Cursor, Tree, TreeKey};

/// A term and one of its postings.
#[derive(Clone, Debug)]
pub struct MemIndexEntry {
    pub term: SmallBytes,
    pub posting: Posting,
}

/// Terms are compared, and then keys by type.
impl TreeKey for MemIndexEntry {
    const IS_CHEAP: bool = false;
}

/// See the head of this file.
pub struct MemIndex {
    schema: Arc<TableSchema>,
    terms: IndexTerms,
    tree: RefCell<Tree<MemIndexEntry, ()>>,
    /// Memory that the entries own.
    below_bytes: Cell<usize>,
}

impl MemIndex {
    /// Empty ones for all indexes of the table.
    pub fn of(schema: &Arc<TableSchema>) -> Vec<Self> {
        let new = |index| {
            let terms = IndexTerms::new(schema, index).expect("a schema has only indexes that fit it");
            Self { schema: schema.clone(), terms, tree: RefCell::default(), below_bytes: Cell::new(0) }
        };
        schema.indexes.iter().map(new).collect()
    }

    pub fn id(&self) -> IndexId {
        self.terms.index().id
    }

    pub fn posting_count(&self) -> usize {
        self.tree.borrow().len()
    }

    /// Bytes asked of the allocator and still held.
    pub fn charged_bytes(&self) -> usize {
        self.tree.borrow().heap_bytes() + self.below_bytes.get()
    }

    /// Adds what the write has.
    pub fn add(&self, key: &PartitionKey, partition: &model::Partition) {
        if partition.rows().is_empty() && partition.static_row.is_empty() {
            return;
        }
        self.terms.of_partition_key(key, &mut |term| self.insert(&term, key, None));
        self.terms.of_static_row(&partition.static_row, &mut |term| self.insert(&term, key, None));
        for row in partition.rows() {
            self.terms.of_row(&row.key, &row.row, &mut |term| self.insert(&term, key, Some(&row.key)));
        }
    }

    fn insert(&self, term: &[u8], key: &PartitionKey, row: Option<&ClusteringKey>) {
        let posting = Posting { key: key.clone(), row: row.cloned() };
        let entry = MemIndexEntry { term: stored_term(term).into(), posting };
        let order = |other: &MemIndexEntry| {
            let by_term = other.term.cmp(&entry.term);
            by_term.then_with(|| other.posting.compare(&entry.posting, &self.schema))
        };
        let (is_new, ()) = self.tree.borrow_mut().upsert(&entry, order, || (), |()| ());
        if is_new {
            let bytes = entry.term.heap_bytes() + entry.posting.heap_bytes();
            self.below_bytes.set(self.below_bytes.get() + bytes);
        }
    }

    /// A cursor before the first entry whose term is within the bound, and, if the bound includes its
    /// term, whose token is not less. Later writes do not change what it passes.
    pub fn cursor(&self, lower: Bound<&[u8]>, token: i64) -> Cursor<MemIndexEntry, ()> {
        let order = |entry: &MemIndexEntry| match lower {
            Bound::Unbounded => Ordering::Greater,
            Bound::Excluded(term) => entry.term.as_slice().cmp(term).then(Ordering::Less),
            Bound::Included(term) => {
                (entry.term.as_slice(), entry.posting.key.token()).cmp(&(term, token)).then(Ordering::Greater)
            }
        };
        self.tree.borrow().cursor(order)
    }

    /// Gives the memory back in small lots, one for each step of the iterator.
    pub fn drain_in_steps(self) -> impl Iterator<Item = ()> {
        self.tree.into_inner().drain_in_steps().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use model::index::{IndexDefinition, IndexKind};
    use model::{Cell as ColumnCell, CqlType, Mutation};

    use super::*;
    use crate::memtable::Memtable;

    fn schema() -> Arc<TableSchema> {
        let index = |id: u128, column: &str| {
            let id = IndexId::from_u128(id);
            Arc::new(IndexDefinition::new(id, column, IndexKind::Secondary, column))
        };
        let table = TableSchema::builder("ks", "t").partition_key("p", CqlType::Text);
        let table = table.clustering("c", CqlType::Text).regular("v", CqlType::Text);
        table.index(index(1, "v")).index(index(2, "p")).build().unwrap()
    }

    fn write(schema: &Arc<TableSchema>, p: &str, c: &str, v: &str) -> Mutation {
        let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(p));
        let row = mutation.row_mut(ClusteringKey::new([c.as_bytes()]));
        row.set(schema.column_named("v").unwrap(), ColumnCell::live(1, v));
        mutation
    }

    /// The entries from `lower` on, as `term key row`.
    fn entries(index: &MemIndex, lower: Bound<&str>, token: i64) -> Vec<String> {
        let mut cursor = index.cursor(lower.map(str::as_bytes), token);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut found = vec![];
        while let Some((entry, ())) = cursor.next() {
            let Posting { key, row } = &entry.posting;
            let row = row.as_ref().map_or("*".to_string(), |row| text(row.values().next().unwrap()));
            found.push(format!("{} {} {row}", text(&entry.term), text(key.bytes())));
        }
        found
    }

    #[test]
    fn entries_are_sorted_and_a_cursor_begins_at_a_given_position() {
        let schema = schema();
        let memtable = Memtable::new(schema.clone());
        for (p, c, v) in [("a", "2", "x"), ("a", "1", "x"), ("a", "1", "x"), ("b", "1", "w"), ("b", "3", "x")]
        {
            memtable.apply(write(&schema, p, c, v));
        }
        let index = memtable.index(IndexId::from_u128(1)).unwrap();
        let mut of_x = vec!["x a 1", "x a 2", "x b 3"];
        let (a, b) = (PartitionKey::new("a"), PartitionKey::new("b"));
        if b < a {
            of_x.rotate_right(1);
        }
        assert_eq!(entries(&index, Bound::Unbounded, 0), [&["w b 1"][..], &of_x].concat());
        assert_eq!(entries(&index, Bound::Excluded("w"), i64::MIN), of_x);
        let last = a.clone().max(b.clone());
        let of_last: Vec<_> =
            of_x.iter().copied().filter(|it| it[2..3] == *str::from_utf8(last.bytes()).unwrap()).collect();
        assert_eq!(entries(&index, Bound::Included("x"), last.token()), of_last);
        let keys = memtable.index(IndexId::from_u128(2)).unwrap();
        assert_eq!(entries(&keys, Bound::Unbounded, 0), ["a a *", "b b *"]);
        assert!(memtable.charged_bytes() > index.charged_bytes() && index.charged_bytes() > 0);
        // An index that is created later lacks the entries of this memtable.
        let bare = schema.to_builder().remove_index("v").build().unwrap();
        let later = Memtable::new(bare.clone());
        later.set_schema(schema.clone());
        assert!(later.index(IndexId::from_u128(1)).is_some(), "nothing was there");
        let later = Memtable::new(bare.clone());
        later.apply(write(&bare, "a", "1", "x"));
        later.set_schema(schema.clone());
        assert!(later.index(IndexId::from_u128(1)).is_none());
        assert!(later.index(IndexId::from_u128(2)).is_some());
        later.set_schema(bare);
        assert!(later.index(IndexId::from_u128(2)).is_some());
    }
}
