//! Table schema: columns, their types and order, options.
//!
//! A schema is an immutable value, shared as `Arc<TableSchema>`: `ALTER TABLE` creates a new one. Each column
//! has a [`ColumnId`] that no other column of the table ever gets, even after a drop. Rows in memory and in
//! the commit log identify columns by id, so data written under an older schema needs no translation: a cell
//! with an id that the schema does not know belongs to a dropped column. A column that is created again with
//! the same name, kind and type is the same column and gets its id again, so cells newer than the drop
//! reappear.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::clustering::{ClusteringPrefix, ClusteringRange, Position, Side};
use crate::index_definition::IndexDefinition;
use crate::options::TableOptions;
use crate::types::CqlType;
use crate::view_definition::{HIDDEN_COLUMN, ViewDefinition};

/// The table's UUID, as in its directory name and in `system_schema.tables`.
pub type TableId = Uuid;

/// A column's number in its table, never reused for another column. Also the order of cells in a
/// [`crate::Row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

/// Whether a table has COMPACT STORAGE, and its shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactStorage {
    /// An ordinary table.
    #[default]
    No,
    /// No clustering columns in the definition.
    Static,
    /// Clustering columns, and one regular column.
    Dense,
}

/// The kind of a column that is not part of the primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// One cell for the partition.
    Static,
    /// A cell for each row.
    Regular,
}

/// A key column, which has no cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The name, in the case in which it is stored.
    pub name: String,
    /// A reversed type for a clustering column in descending order.
    pub ty: CqlType,
}

/// A static or regular column, which has cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The id, unique among all columns that the table has or had.
    pub id: ColumnId,
    /// The name, in the case in which it is stored.
    pub name: String,
    /// The type of its values.
    pub ty: CqlType,
    /// Static or regular.
    pub kind: ColumnKind,
}

impl Column {
    /// Whether it is a collection or UDT whose elements are separate cells.
    pub fn is_complex(&self) -> bool {
        self.ty.is_multi_cell()
    }
}

/// A dropped column. Its cells written up to `dropped_time_us` are not returned, even if a column of the same
/// name exists again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    /// The name that it had.
    pub name: String,
    /// The type that it had. Cells of SSTables are decoded by it.
    pub ty: CqlType,
    /// Static or regular.
    pub kind: ColumnKind,
    /// The time of the DROP: its cells with this timestamp or an older one are dead.
    pub dropped_time_us: i64,
    /// The id that it had, while no column of its name exists; see [`TableSchema::with_dropped`]. `None`
    /// otherwise, or if the id is unknown.
    pub id: Option<ColumnId>,
}

/// The schema of one table. See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// The id. A table that is dropped and created again has another one.
    pub id: TableId,
    /// The keyspace, in the case in which it is stored.
    pub keyspace: String,
    /// The name, in the case in which it is stored.
    pub name: String,
    /// Columns of the partition key, in order; at least one.
    pub partition_key: Vec<KeyColumn>,
    /// Clustering columns, in order; may be empty.
    pub clustering: Vec<KeyColumn>,
    /// Static and regular columns in disk order: simple before complex, then by the bytes of the name.
    columns: Vec<Column>,
    /// Index into `columns` by column id; `None` for dropped ids.
    by_id: Vec<Option<u16>>,
    /// Records of dropped columns.
    pub dropped: Vec<DroppedColumn>,
    /// Columns with the name of a dropped one, as pairs of id and drop time.
    recreated: Vec<(ColumnId, i64)>,
    /// The options that affect how data are stored.
    pub options: TableOptions,
    /// Secondary indexes, in the order of their creation.
    pub indexes: Vec<Arc<IndexDefinition>>,
    /// Whether the table is `WITH COMPACT STORAGE`, and which kind.
    pub compact: CompactStorage,
    /// The definition of a materialized view; `None` for a table.
    pub view: Option<Arc<ViewDefinition>>,
    has_counters: bool,
}

impl TableSchema {
    /// A builder of a new table.
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
            indexes: vec![],
            compact: CompactStorage::No,
            view: None,
        }
    }

    /// A builder with the content of this schema, for ALTER: columns keep their ids.
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
            indexes: self.indexes.clone(),
            compact: self.compact,
            view: self.view.clone(),
        }
    }

    /// Static and regular columns in disk order: simple before complex, then by the bytes of the name.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns of one kind, in disk order.
    pub fn columns_of(&self, kind: ColumnKind) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(move |column| column.kind == kind)
    }

    /// The column with this id; `None` if it does not exist or was dropped.
    #[inline]
    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        let index = (*self.by_id.get(id.0 as usize)?)?;
        Some(&self.columns[usize::from(index)])
    }

    /// Columns that were created again under the name of a dropped one, as pairs of id and drop time. Cells
    /// written at this time or before are not returned, because in an SSTable they cannot be distinguished
    /// from cells of the dropped column.
    pub fn recreated(&self) -> &[(ColumnId, i64)] {
        &self.recreated
    }

    /// The same table with each dropped column whose cells may reappear, as if it had been created again.
    /// Memtables and the commit log are read with this schema, so that cells newer than the drop are kept. If
    /// there is no such column, it is the schema itself.
    pub fn with_dropped(self: &Arc<Self>) -> Arc<Self> {
        let is_key =
            |name: &str| self.partition_key.iter().chain(&self.clustering).any(|key| key.name == name);
        let mut builder = self.to_builder();
        let mut is_same = true;
        for DroppedColumn { name, ty, kind, id, .. } in &self.dropped {
            // A dropped counter cannot be created again, nor a column with the name of a key column.
            if let Some(id) = *id
                && !ty.is_counter()
                && !is_key(name)
            {
                builder = builder.column(Column { id, name: name.clone(), ty: ty.clone(), kind: *kind });
                is_same = false;
            }
        }
        if is_same {
            return self.clone();
        }
        builder.build_with_ids_from(self.column_id_bound()).unwrap_or_else(|_| self.clone())
    }

    /// The static or regular column with this name.
    pub fn column_named(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Whether a row exists only while it has a live row marker, whatever its cells are: in views with a
    /// column that is not part of the base table's key.
    #[inline]
    pub fn needs_row_marker(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.added_key.is_some())
    }

    /// The column with the times of cells that a view does not select.
    pub fn hidden_view_column(&self) -> Option<&Column> {
        self.view.as_ref().and_then(|_| self.column_named(HIDDEN_COLUMN))
    }

    fn check_index(&self, index: &IndexDefinition) -> Result<(), String> {
        let keys = self.partition_key.iter().chain(&self.clustering).map(|key| (&key.name, &key.ty));
        let mut columns = keys.chain(self.columns.iter().map(|column| (&column.name, &column.ty)));
        match columns.find(|(name, _)| **name == index.column) {
            Some((_, ty)) => index.term_type(ty).map(drop),
            None => Err(format!("the table has no column {}", index.column)),
        }
    }

    /// One more than the highest column id ever used.
    pub fn column_id_bound(&self) -> u32 {
        self.by_id.len() as u32
    }

    /// Whether the table has static columns.
    pub fn has_static(&self) -> bool {
        self.columns.iter().any(|column| column.kind == ColumnKind::Static)
    }

    /// Whether the table contains counters; if so, all its columns are counters.
    pub fn has_counters(&self) -> bool {
        self.has_counters
    }

    /// The name as `keyspace.table`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }

    /// Compares the values of two prefixes, over the columns that both have.
    #[inline]
    pub fn compare_values(&self, a: &ClusteringPrefix, b: &ClusteringPrefix) -> Ordering {
        for ((a, b), column) in a.values().zip(b.values()).zip(&self.clustering) {
            let order = column.ty.compare(a, b);
            if order.is_ne() {
                return order;
            }
        }
        if a.has_nulls() || b.has_nulls() { a.compare_nulls(b) } else { Ordering::Equal }
    }

    /// The order of rows. Both must be whole keys.
    #[inline]
    pub fn compare_keys(&self, a: &ClusteringPrefix, b: &ClusteringPrefix) -> Ordering {
        debug_assert!(a.len() == b.len());
        self.compare_values(a, b)
    }

    /// The order of positions, in which the stream of a partition rises.
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
        // All values of the shorter prefix are equal. By its side, it is before or after all positions that
        // extend it.
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

    /// Whether the row `key` is in `range`.
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

/// The reason why a schema is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(pub String);

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SchemaError {}

/// Builds and validates a schema. Columns without an id get one in disk order.
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
    indexes: Vec<Arc<IndexDefinition>>,
    compact: CompactStorage,
    view: Option<Arc<ViewDefinition>>,
}

const UNASSIGNED: ColumnId = ColumnId(u32::MAX);

impl TableBuilder {
    /// Sets the table's id. Without it, the id is derived from the name.
    #[must_use]
    pub fn id(mut self, id: TableId) -> Self {
        self.id = Some(id);
        self
    }

    /// Appends a column to the partition key.
    #[must_use]
    pub fn partition_key(mut self, name: impl Into<String>, ty: CqlType) -> Self {
        self.partition_key.push(KeyColumn { name: name.into(), ty });
        self
    }

    /// Adds a clustering column; for descending order, `ty` is a reversed type.
    #[must_use]
    pub fn clustering(mut self, name: impl Into<String>, ty: CqlType) -> Self {
        self.clustering.push(KeyColumn { name: name.into(), ty });
        self
    }

    /// Adds a regular column of type `ty`, with the next free id.
    #[must_use]
    pub fn regular(self, name: impl Into<String>, ty: CqlType) -> Self {
        self.column(Column { id: UNASSIGNED, name: name.into(), ty, kind: ColumnKind::Regular })
    }

    /// Adds a static column of type `ty`, with the next free id.
    #[must_use]
    pub fn static_column(self, name: impl Into<String>, ty: CqlType) -> Self {
        self.column(Column { id: UNASSIGNED, name: name.into(), ty, kind: ColumnKind::Static })
    }

    /// Adds a column with the id that it already has.
    #[must_use]
    pub fn column(mut self, column: Column) -> Self {
        self.columns.push(column);
        self
    }

    /// Removes a column and records it as dropped at `dropped_time_us`. An unknown name has no effect.
    #[must_use]
    pub fn drop_column(mut self, name: &str, dropped_time_us: i64) -> Self {
        if let Some(at) = self.columns.iter().position(|column| column.name == name) {
            let Column { id, name, ty, kind } = self.columns.remove(at);
            let id = Some(id).filter(|id| *id != UNASSIGNED);
            self.dropped.retain(|dropped| dropped.name != name);
            self.dropped.push(DroppedColumn { name, ty, kind, dropped_time_us, id });
        }
        self
    }

    /// Adds the record of a dropped column.
    #[must_use]
    pub fn dropped(mut self, dropped: DroppedColumn) -> Self {
        self.dropped.push(dropped);
        self
    }

    /// Sets the options; without this call they are the defaults.
    #[must_use]
    pub fn options(mut self, options: TableOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds a secondary index.
    #[must_use]
    pub fn index(mut self, index: Arc<IndexDefinition>) -> Self {
        self.indexes.push(index);
        self
    }

    /// Removes the index with this name. An unknown name has no effect.
    #[must_use]
    pub fn remove_index(mut self, name: &str) -> Self {
        self.indexes.retain(|index| index.name != name);
        self
    }

    /// Sets the shape of a table with COMPACT STORAGE.
    #[must_use]
    pub fn compact(mut self, compact: CompactStorage) -> Self {
        self.compact = compact;
        self
    }

    /// Makes the table a materialized view.
    #[must_use]
    pub fn view(mut self, view: Arc<ViewDefinition>) -> Self {
        self.view = Some(view);
        self
    }

    /// Renames a column of the primary key. An unknown name has no effect.
    #[must_use]
    pub fn rename_key(mut self, from: &str, to: &str) -> Self {
        let keys = self.partition_key.iter_mut().chain(&mut self.clustering);
        keys.filter(|key| key.name == from).for_each(|key| key.name = to.to_string());
        self
    }

    /// Builds the schema. `id_bound` is one more than the highest column id that this table ever used (0 for
    /// a new table). New columns get ids from there on, except for dropped columns that are created again.
    ///
    /// Errors: no partition key column, duplicate names, static columns without a clustering column, a mix of
    /// counters and other columns, too many columns, duplicate ids, an index of a column that does not exist
    /// or does not have the indexed part.
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
        let regular = self.columns.iter().filter(|column| column.kind == ColumnKind::Regular).count();
        if self.compact != CompactStorage::No && (self.clustering.is_empty() || regular != 1) {
            return fail(format!("COMPACT STORAGE with {regular} regular columns"));
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
        for column in self.columns.iter_mut().filter(|column| column.id == UNASSIGNED) {
            let is_it = |gone: &&DroppedColumn| {
                gone.name == column.name && gone.kind == column.kind && gone.ty.has_same_values(&column.ty)
            };
            // A dropped counter cannot be created again.
            let mut records = self.dropped.iter().filter(|_| !column.ty.is_counter());
            column.id = records.find(is_it).and_then(|gone| gone.id).unwrap_or(UNASSIGNED);
        }
        for gone in &mut self.dropped {
            if self.columns.iter().any(|column| column.name == gone.name || Some(column.id) == gone.id) {
                gone.id = None;
            }
        }
        let used = self.columns.iter().map(|column| column.id).filter(|id| *id != UNASSIGNED);
        let used = used.chain(self.dropped.iter().filter_map(|gone| gone.id)).map(|id| id.0 + 1);
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
        let mut recreated: Vec<_> = self.columns.iter().filter_map(dropped_time_us).collect();
        recreated.sort_unstable();
        let schema = TableSchema {
            // The id is derived from the name, so that the same definition has the same id everywhere. A
            // caller that creates a table at run time sets its own id.
            id: self.id.unwrap_or_else(|| Uuid::from_u128(name_hash(&self.keyspace, &self.name))),
            keyspace: self.keyspace,
            name: self.name,
            partition_key: self.partition_key,
            clustering: self.clustering,
            columns: self.columns,
            by_id,
            dropped: self.dropped,
            recreated,
            options: self.options,
            indexes: self.indexes,
            compact: self.compact,
            view: self.view,
            has_counters: counters > 0,
        };
        for (at, index) in schema.indexes.iter().enumerate() {
            if let Err(why) = schema.check_index(index) {
                let table = schema.full_name();
                return Err(SchemaError(format!("table {table}: index {}: {why}", index.name)));
            }
            if schema.indexes[..at].iter().any(|other| other.id == index.id || other.name == index.name) {
                return Err(SchemaError(format!(
                    "table {}: two indexes have the name or the id of {}",
                    schema.full_name(),
                    index.name
                )));
            }
        }
        Ok(Arc::new(schema))
    }

    /// Builds the schema of a new table; see [`Self::build_with_ids_from`].
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
    fn a_column_made_again_as_it_was_has_its_id_again() {
        let old = table();
        let gone = old.to_builder().drop_column("z", 5).build_with_ids_from(3).unwrap();
        assert_eq!((gone.dropped[0].id, gone.column_id_bound()), (Some(ColumnId(1)), 3));
        let seen = gone.with_dropped();
        assert_eq!(seen.column(ColumnId(1)).unwrap().name, "z");
        assert_eq!(seen.recreated(), [(ColumnId(1), 5)]);
        let again = |builder: TableBuilder| builder.build_with_ids_from(3).unwrap();
        let same = again(gone.to_builder().regular("z", CqlType::Int));
        assert_eq!((same.column_named("z").unwrap().id, same.dropped[0].id), (ColumnId(1), None));
        assert!(Arc::ptr_eq(&same.with_dropped(), &same));
        for other in [
            gone.to_builder().regular("z", CqlType::Blob),
            gone.to_builder().static_column("z", CqlType::Int),
            gone.to_builder().regular("y", CqlType::Int),
        ] {
            let other = again(other);
            assert!(other.column(ColumnId(1)).is_none() && other.column(ColumnId(3)).is_some());
        }
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
    fn an_error_names_what_is_not_a_table() {
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
