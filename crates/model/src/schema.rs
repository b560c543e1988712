//! What a table looks like: its columns, their types and order, its options.
//!
//! A schema is a value, shared as `Arc<TableSchema>` and never changed in place: `ALTER TABLE` makes a new
//! one. Each column has a [`ColumnId`] that is never used again in its table, also after a drop; rows in
//! memory and in the commit log name columns by id, so data of different ages of a table need no
//! translation: a cell whose id the schema does not know belongs to a dropped column.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::clustering::{ClusteringPrefix, ClusteringRange, Position, Side};
use crate::options::TableOptions;
use crate::types::CqlType;

/// The table's UUID, as in its directory name and in `system_schema.tables`.
pub type TableId = Uuid;

/// A column's number in its table, never reused. Also the order of cells in a [`crate::Row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    Static,
    Regular,
}

/// A key column; it has no cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    pub name: String,
    /// For a clustering column in descending order, a reversed type.
    pub ty: CqlType,
}

/// A column that has cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub id: ColumnId,
    pub name: String,
    pub ty: CqlType,
    pub kind: ColumnKind,
}

impl Column {
    /// A collection or UDT whose elements are cells of their own.
    pub fn is_complex(&self) -> bool {
        self.ty.is_multi_cell()
    }
}

/// A column that is no more. Its cells written up to `dropped_time_us` are not returned, even if a column
/// of the same name exists again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    pub name: String,
    pub ty: CqlType,
    pub kind: ColumnKind,
    pub dropped_time_us: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    pub id: TableId,
    pub keyspace: String,
    pub name: String,
    pub partition_key: Vec<KeyColumn>,
    pub clustering: Vec<KeyColumn>,
    /// Static and regular columns in disk order: simple before complex, then by the bytes of the name.
    columns: Vec<Column>,
    /// `columns` index by column id; `None` for dropped ids.
    by_id: Vec<Option<u16>>,
    pub dropped: Vec<DroppedColumn>,
    /// Columns with the name of a dropped one, by id, each with the time of the drop.
    made_again: Vec<(ColumnId, i64)>,
    pub options: TableOptions,
    has_counters: bool,
}

impl TableSchema {
    pub fn builder(keyspace: impl Into<String>, name: impl Into<String>) -> TableBuilder {
        TableBuilder {
            id: None,
            keyspace: keyspace.into(),
            name: name.into(),
            partition_key: vec![],
            clustering: vec![],
            columns: vec![],
            dropped: vec![],
            options: TableOptions::default(),
        }
    }

    /// A builder that starts from this schema, for ALTER: columns keep their ids.
    pub fn to_builder(&self) -> TableBuilder {
        TableBuilder {
            id: Some(self.id),
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
            partition_key: self.partition_key.clone(),
            clustering: self.clustering.clone(),
            columns: self.columns.clone(),
            dropped: self.dropped.clone(),
            options: self.options.clone(),
        }
    }

    /// Static and regular columns, in disk order (simple before complex, then by name).
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns of one kind, in disk order.
    pub fn columns_of(&self, kind: ColumnKind) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(move |column| column.kind == kind)
    }

    #[inline]
    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        let index = (*self.by_id.get(id.0 as usize)?)?;
        Some(&self.columns[usize::from(index)])
    }

    /// Columns that were made again under the name of a dropped one, by id: what was written to them at this time or before is not
    /// returned, since in an SSTable nobody could tell it from what the dropped one had.
    pub fn made_again(&self) -> &[(ColumnId, i64)] {
        &self.made_again
    }

    pub fn column_named(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// One more than the highest column id ever used.
    pub fn column_id_bound(&self) -> u32 {
        self.by_id.len() as u32
    }

    pub fn has_static(&self) -> bool {
        self.columns.iter().any(|column| column.kind == ColumnKind::Static)
    }

    /// Counter tables hold nothing but counters.
    pub fn has_counters(&self) -> bool {
        self.has_counters
    }

    /// `keyspace.table`
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }

    /// How the values of two prefixes compare, over the columns that both have.
    #[inline]
    pub fn compare_values(&self, a: &ClusteringPrefix, b: &ClusteringPrefix) -> Ordering {
        for ((a, b), column) in a.values().zip(b.values()).zip(&self.clustering) {
            let order = column.ty.compare(a, b);
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    /// The order of rows. Both must be whole keys.
    #[inline]
    pub fn compare_keys(&self, a: &ClusteringPrefix, b: &ClusteringPrefix) -> Ordering {
        debug_assert!(a.len() == b.len());
        self.compare_values(a, b)
    }

    /// The order of positions, in which a stream of a partition rises.
    #[inline]
    pub fn compare_positions(&self, a: &Position, b: &Position) -> Ordering {
        self.compare_parts((&a.prefix, a.side), (&b.prefix, b.side))
    }

    /// [`Self::compare_positions`] without building the positions.
    #[inline]
    pub fn compare_parts(&self, a: (&ClusteringPrefix, Side), b: (&ClusteringPrefix, Side)) -> Ordering {
        let order = self.compare_values(a.0, b.0);
        if order.is_ne() {
            return order;
        }
        // All values of the shorter prefix are equal: it stands before or after everything that extends it.
        match a.0.len().cmp(&b.0.len()) {
            Ordering::Equal => a.1.cmp(&b.1),
            Ordering::Less => {
                if a.1 == Side::After {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            Ordering::Greater => {
                if b.1 == Side::After {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }

    /// Whether the row `key` is inside `range`.
    #[inline]
    pub fn range_contains(&self, range: &ClusteringRange, key: &ClusteringPrefix) -> bool {
        let at = (key, Side::At);
        self.compare_parts((&range.start.prefix, range.start.side), at).is_lt()
            && self.compare_parts(at, (&range.end.prefix, range.end.side)).is_lt()
    }

    /// The order of the elements of a complex column.
    #[inline]
    pub fn compare_paths(&self, column: &Column, a: &[u8], b: &[u8]) -> Ordering {
        match column.ty.cell_path_type() {
            Some(ty) => ty.compare(a, b),
            None => a.cmp(b),
        }
    }
}

/// Why a schema is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(pub String);

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SchemaError {}

/// Puts a schema together and checks it. Columns get ids in disk order unless they already have one.
#[derive(Clone, Debug)]
pub struct TableBuilder {
    id: Option<TableId>,
    keyspace: String,
    name: String,
    partition_key: Vec<KeyColumn>,
    clustering: Vec<KeyColumn>,
    columns: Vec<Column>,
    dropped: Vec<DroppedColumn>,
    options: TableOptions,
}

const UNASSIGNED: ColumnId = ColumnId(u32::MAX);

impl TableBuilder {
    #[must_use]
    pub fn id(mut self, id: TableId) -> Self {
        self.id = Some(id);
        self
    }

    #[must_use]
    pub fn partition_key(mut self, name: impl Into<String>, ty: CqlType) -> Self {
        self.partition_key.push(KeyColumn { name: name.into(), ty });
        self
    }

    /// For descending order, give a reversed type.
    #[must_use]
    pub fn clustering(mut self, name: impl Into<String>, ty: CqlType) -> Self {
        self.clustering.push(KeyColumn { name: name.into(), ty });
        self
    }

    #[must_use]
    pub fn regular(self, name: impl Into<String>, ty: CqlType) -> Self {
        self.column(Column { id: UNASSIGNED, name: name.into(), ty, kind: ColumnKind::Regular })
    }

    #[must_use]
    pub fn static_column(self, name: impl Into<String>, ty: CqlType) -> Self {
        self.column(Column { id: UNASSIGNED, name: name.into(), ty, kind: ColumnKind::Static })
    }

    /// A column with the id it has always had.
    #[must_use]
    pub fn column(mut self, column: Column) -> Self {
        self.columns.push(column);
        self
    }

    /// Takes a column out and remembers it as dropped at `dropped_time_us`. No such column: an error on build.
    #[must_use]
    pub fn drop_column(mut self, name: &str, dropped_time_us: i64) -> Self {
        if let Some(at) = self.columns.iter().position(|column| column.name == name) {
            let Column { name, ty, kind, .. } = self.columns.remove(at);
            self.dropped.retain(|dropped| dropped.name != name);
            self.dropped.push(DroppedColumn { name, ty, kind, dropped_time_us });
        }
        self
    }

    #[must_use]
    pub fn dropped(mut self, dropped: DroppedColumn) -> Self {
        self.dropped.push(dropped);
        self
    }

    #[must_use]
    pub fn options(mut self, options: TableOptions) -> Self {
        self.options = options;
        self
    }

    /// `id_bound` is one more than the highest column id this table ever used (0 for a new table); new
    /// columns get ids from there on.
    pub fn build_with_ids_from(mut self, id_bound: u32) -> Result<Arc<TableSchema>, SchemaError> {
        let table = format!("{}.{}", self.keyspace, self.name);
        let fail = |what: String| Err(SchemaError(format!("table {table}: {what}")));
        if self.partition_key.is_empty() {
            return fail("no partition key column; a table needs at least one".to_string());
        }
        let mut names = base::HashSet::default();
        let all_names = self.partition_key.iter().chain(&self.clustering).map(|column| &column.name);
        for name in all_names.chain(self.columns.iter().map(|column| &column.name)) {
            if !names.insert(name.clone()) {
                return fail(format!("two columns are named {name}"));
            }
        }
        for key in self.partition_key.iter().chain(&self.clustering) {
            if key.ty.is_multi_cell()
                || key.ty.is_counter()
                || matches!(key.ty.without_reversed(), CqlType::Duration)
            {
                return fail(format!(
                    "{} of type {} cannot be part of the key",
                    key.name,
                    key.ty.to_java_name()
                ));
            }
        }
        if self.clustering.is_empty() && self.columns.iter().any(|column| column.kind == ColumnKind::Static) {
            return fail("static columns need a clustering column".to_string());
        }
        let counters = self.columns.iter().filter(|column| column.ty.is_counter()).count();
        if counters > 0 && counters < self.columns.len() {
            return fail("counters and other columns cannot be mixed".to_string());
        }
        self.columns
            .sort_by(|a, b| (a.is_complex(), a.name.as_bytes()).cmp(&(b.is_complex(), b.name.as_bytes())));
        let used = self.columns.iter().filter(|column| column.id != UNASSIGNED).map(|column| column.id.0 + 1);
        let mut next = used.max().unwrap_or(0).max(id_bound);
        for column in self.columns.iter_mut().filter(|column| column.id == UNASSIGNED) {
            column.id = ColumnId(next);
            next += 1;
        }
        if self.columns.len() > usize::from(u16::MAX) {
            return fail(format!("{} columns; at most {} are possible", self.columns.len(), u16::MAX));
        }
        let mut by_id = vec![None; next as usize];
        for (index, column) in self.columns.iter().enumerate() {
            let slot = &mut by_id[column.id.0 as usize];
            if slot.replace(index as u16).is_some() {
                return fail(format!("column id {} is used twice", column.id.0));
            }
        }
        let dropped_time_us = |column: &Column| {
            let of_name = self.dropped.iter().filter(|dropped| dropped.name == column.name);
            Some((column.id, of_name.map(|dropped| dropped.dropped_time_us).max()?))
        };
        let mut made_again: Vec<_> = self.columns.iter().filter_map(dropped_time_us).collect();
        made_again.sort_unstable();
        Ok(Arc::new(TableSchema {
            // Made from the name, so that the same definition has the same id everywhere; whoever creates a
            // table at run time gives it an id of its own.
            id: self.id.unwrap_or_else(|| Uuid::from_u128(name_hash(&self.keyspace, &self.name))),
            keyspace: self.keyspace,
            name: self.name,
            partition_key: self.partition_key,
            clustering: self.clustering,
            columns: self.columns,
            by_id,
            dropped: self.dropped,
            made_again,
            options: self.options,
            has_counters: counters > 0,
        }))
    }

    pub fn build(self) -> Result<Arc<TableSchema>, SchemaError> {
        self.build_with_ids_from(0)
    }
}

fn name_hash(keyspace: &str, name: &str) -> u128 {
    let (h1, h2) = base::murmur3::hash128(format!("{keyspace}\0{name}").as_bytes());
    u128::from(h1) << 64 | u128::from(h2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Arc<TableSchema> {
        TableSchema::builder("ks", "t")
            .partition_key("p", CqlType::Int)
            .clustering("a", CqlType::Int)
            .clustering("b", CqlType::reversed(CqlType::Text))
            .static_column("s", CqlType::Int)
            .regular("m", CqlType::map(CqlType::Int, CqlType::Text))
            .regular("z", CqlType::Int)
            .build()
            .unwrap()
    }

    #[test]
    fn columns_are_in_disk_order_and_keep_their_ids() {
        let old = table();
        let names: Vec<_> = old.columns().iter().map(|column| (column.name.as_str(), column.id.0)).collect();
        assert_eq!(names, [("s", 0), ("z", 1), ("m", 2)]);
        let new = old.to_builder().drop_column("z", 5).regular("b2", CqlType::Int);
        let new = new.build_with_ids_from(old.column_id_bound()).unwrap();
        let names: Vec<_> = new.columns().iter().map(|column| (column.name.as_str(), column.id.0)).collect();
        assert_eq!(names, [("b2", 3), ("s", 0), ("m", 2)]);
        assert!(new.column(ColumnId(1)).is_none() && new.column(ColumnId(9)).is_none());
        assert_eq!(new.dropped[0].name, "z");
    }

    #[test]
    fn positions_order_as_bounds_do() {
        let table = table();
        let int = |i: i32| i.to_be_bytes();
        let prefix = |i: i32| ClusteringPrefix::new([&int(i)[..]]);
        let key = |i: i32, s: &str| ClusteringPrefix::new([&int(i)[..], s.as_bytes()]);
        let rising = [
            Position::START,
            Position::at(key(0, "x")),
            Position::before(prefix(1)),
            Position::before(key(1, "z")),
            Position::at(key(1, "z")),
            Position::after(key(1, "z")),
            Position::at(key(1, "a")),
            Position::after(prefix(1)),
            Position::before(prefix(2)),
            Position::END,
        ];
        for (i, a) in rising.iter().enumerate() {
            for (j, b) in rising.iter().enumerate() {
                assert_eq!(table.compare_positions(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn what_is_not_a_table_says_why() {
        let check = |builder: TableBuilder, expect: &str| {
            let error = builder.build().unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        let builder = || TableSchema::builder("ks", "t");
        check(builder(), "no partition key");
        check(
            builder().partition_key("a", CqlType::Int).regular("a", CqlType::Int),
            "two columns are named a",
        );
        check(builder().partition_key("a", CqlType::Counter), "cannot be part of the key");
        check(builder().partition_key("a", CqlType::Int).static_column("s", CqlType::Int), "static");
        let mixed = builder().partition_key("a", CqlType::Int).regular("c", CqlType::Counter);
        check(mixed.regular("d", CqlType::Int), "cannot be mixed");
    }
}
