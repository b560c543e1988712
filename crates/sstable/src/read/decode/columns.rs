//! Maps each column of an SSTable to a column of a given schema.
//!
//! Data.db is parsed with the columns and types in the SSTable's own header ([`DiskColumns`]), whatever the
//! current schema is. A [`ColumnMap`] gives for each of these columns the column of a given schema: none if
//! the column was dropped (its bytes are parsed and skipped), and the time of the drop if a column of the
//! same name was dropped and added again.

use std::rc::Rc;
use std::sync::Arc;

use model::{ColumnId, ColumnKind, CqlType, TableSchema};

use crate::component::statistics::{HeaderColumn, SerializationHeader};

/// A column as stored in Data.db.
#[derive(Debug)]
pub(in crate::read) struct DiskColumn {
    name: Vec<u8>,
    ty: CqlType,
}

/// The columns of Data.db: its header with parsed class names.
#[derive(Debug)]
pub(in crate::read) struct DiskColumns {
    /// Types of the clustering columns.
    pub(in crate::read) clustering: Vec<CqlType>,
    /// Fixed lengths of the clustering columns, in the form that the clustering codec takes.
    pub(in crate::read) clustering_lengths: Vec<Option<usize>>,
    /// Static columns in the order in which rows store their cells: simple columns, then complex ones.
    statics: Vec<DiskColumn>,
    regulars: Vec<DiskColumn>,
}

impl DiskColumns {
    /// Fails if a class name is not a type that this build supports; returns the name and the reason.
    pub(in crate::read) fn new(
        header: &SerializationHeader,
    ) -> Result<Self, (String, model::types::TypeError)> {
        let parse = |name: &String| CqlType::from_java_name(name).map_err(|error| (name.clone(), error));
        let clustering: Vec<CqlType> = header.clustering_types.iter().map(parse).collect::<Result<_, _>>()?;
        let columns = |columns: &[HeaderColumn]| {
            let parse = |column: &HeaderColumn| {
                let ty = parse(&column.type_name)?;
                Ok(DiskColumn { name: column.name.clone(), ty })
            };
            let mut parsed: Vec<DiskColumn> = columns.iter().map(parse).collect::<Result<_, _>>()?;
            // The header may list columns in any order; rows store simple cells first. A stable sort keeps
            // the order within each kind.
            parsed.sort_by_key(|column| column.ty.is_multi_cell());
            Ok(parsed)
        };
        Ok(Self {
            clustering_lengths: clustering.iter().map(CqlType::sstable_fixed_len).collect(),
            clustering,
            statics: columns(&header.static_columns)?,
            regulars: columns(&header.regular_columns)?,
        })
    }

    /// A schema with these clustering columns, for comparing rows.
    pub(in crate::read) fn to_schema(&self) -> Result<Arc<TableSchema>, model::schema::SchemaError> {
        let builder = TableSchema::builder("sstable", "rows").partition_key("key", CqlType::Blob);
        let columns = self.clustering.iter().enumerate();
        let builder =
            columns.fold(builder, |builder, (number, ty)| builder.clustering(number.to_string(), ty.clone()));
        builder.build()
    }

    pub(in crate::read) fn has_static(&self) -> bool {
        !self.statics.is_empty()
    }
}

/// A column of the file, mapped to a certain schema.
#[derive(Debug)]
pub(in crate::read) struct MappedColumn {
    /// `None`: the schema does not have the column any more.
    pub(in crate::read) target: Option<ColumnId>,
    /// Cells with this timestamp or an older one belong to a dropped column of the same name. In
    /// microseconds.
    pub(in crate::read) dropped_us: i64,
    pub(in crate::read) is_complex: bool,
    /// The length of every value that is not empty; `None` if each value stores its length. Elements of
    /// collections and fields of user-defined types always store their lengths: the format uses the column's
    /// type, not the element's.
    pub(in crate::read) value_len: Option<usize>,
}

/// The static or the regular columns.
#[derive(Debug)]
pub(in crate::read) struct MappedColumns {
    pub(in crate::read) columns: Vec<MappedColumn>,
    /// Whether column ids rise in file order, so that rows need no sorting.
    pub(in crate::read) rises: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub(in crate::read) struct ColumnMap {
    pub(in crate::read) statics: MappedColumns,
    pub(in crate::read) regulars: MappedColumns,
}

impl ColumnMap {
    pub(in crate::read) fn new(disk: &DiskColumns, schema: &TableSchema) -> Self {
        Self {
            statics: map(&disk.statics, schema, ColumnKind::Static),
            regulars: map(&disk.regulars, schema, ColumnKind::Regular),
        }
    }
}

impl ColumnMap {
    /// Maps every column to itself, with its number in the file as its id: for reads that are independent of
    /// a schema.
    pub(in crate::read) fn identity(disk: &DiskColumns) -> Self {
        let columns = |disk: &[DiskColumn]| MappedColumns {
            columns: (0..)
                .zip(disk)
                .map(|(number, column)| MappedColumn {
                    target: Some(ColumnId(number)),
                    dropped_us: i64::MIN,
                    is_complex: column.ty.is_multi_cell(),
                    value_len: column.ty.sstable_fixed_len(),
                })
                .collect(),
            rises: true,
        };
        Self { statics: columns(&disk.statics), regulars: columns(&disk.regulars) }
    }
}

fn map(disk: &[DiskColumn], schema: &TableSchema, kind: ColumnKind) -> MappedColumns {
    let columns: Vec<MappedColumn> = disk.iter().map(|column| map_column(column, schema, kind)).collect();
    let mut targets = columns.iter().filter_map(|column| column.target);
    let rises = targets.try_fold(None, |last, id| (last < Some(id)).then_some(Some(id))).is_some();
    MappedColumns { columns, rises }
}

fn map_column(disk: &DiskColumn, schema: &TableSchema, kind: ColumnKind) -> MappedColumn {
    let is_complex = disk.ty.is_multi_cell();
    let mut of_kind = schema.columns_of(kind);
    // A column that is complex in only one of file and schema was dropped and added again with another type.
    let today = of_kind
        .find(|column| column.name.as_bytes() == disk.name)
        .filter(|column| column.is_complex() == is_complex);
    let dropped = schema.dropped.iter().filter(|dropped| dropped.name.as_bytes() == disk.name);
    MappedColumn {
        target: today.map(|column| column.id),
        dropped_us: dropped.map(|dropped| dropped.dropped_time_us).max().unwrap_or(i64::MIN),
        is_complex,
        value_len: disk.ty.sstable_fixed_len(),
    }
}

/// The column maps of the most recently used schemas; almost always one.
#[derive(Default)]
pub(in crate::read) struct ColumnMaps(Vec<(Arc<TableSchema>, Rc<ColumnMap>)>);

/// After an ALTER, readers of at most two schemas coexist for a while.
const MAPS_MAX: usize = 2;

impl ColumnMaps {
    pub(in crate::read) fn get(&mut self, disk: &DiskColumns, schema: &Arc<TableSchema>) -> Rc<ColumnMap> {
        if let Some((_, map)) = self.0.iter().find(|(known, _)| Arc::ptr_eq(known, schema)) {
            return Rc::clone(map);
        }
        let map = Rc::new(ColumnMap::new(disk, schema));
        self.0.truncate(MAPS_MAX - 1);
        self.0.insert(0, (Arc::clone(schema), Rc::clone(&map)));
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::statistics::DeltaBases;

    fn header(regulars: &[(&str, CqlType)]) -> SerializationHeader {
        let column = |(name, ty): &(&str, CqlType)| HeaderColumn {
            name: name.as_bytes().to_vec(),
            type_name: ty.to_java_name(),
        };
        SerializationHeader {
            bases: DeltaBases::NONE,
            key_type: CqlType::Int.to_java_name(),
            clustering_types: vec![],
            static_columns: vec![],
            regular_columns: regulars.iter().map(column).collect(),
        }
    }

    #[test]
    fn columns_are_found_by_name_kind_and_shape() {
        let old = TableSchema::builder("ks", "t")
            .partition_key("p", CqlType::Int)
            .regular("b", CqlType::Int)
            .regular("d", CqlType::Text)
            .regular("m", CqlType::set(CqlType::Int))
            .build()
            .unwrap();
        let altered = old.to_builder().drop_column("d", 77).regular("a", CqlType::Int);
        let altered = altered.regular("d", CqlType::Text).build_with_ids_from(old.column_id_bound()).unwrap();
        let disk = DiskColumns::new(&header(&[
            ("m", CqlType::set(CqlType::Int)),
            ("a", CqlType::Int),
            ("b", CqlType::Int),
            ("d", CqlType::Text),
            ("gone", CqlType::Text),
        ]))
        .unwrap();
        let map = ColumnMap::new(&disk, &altered);
        let id = |name: &str| altered.column_named(name).map(|column| column.id);
        let targets: Vec<_> = map.regulars.columns.iter().map(|c| (c.target, c.dropped_us)).collect();
        let expect =
            [(id("a"), i64::MIN), (id("b"), i64::MIN), (id("d"), 77), (None, i64::MIN), (id("m"), i64::MIN)];
        assert_eq!(targets, expect);
        assert!(!map.regulars.rises, "a was added after b and m");
        assert!(DiskColumns::new(&header(&[("x", CqlType::Int)])).is_ok());
        let mut unknown = header(&[]);
        unknown.clustering_types.push("org.example.MyType".into());
        assert_eq!(DiskColumns::new(&unknown).unwrap_err().0, "org.example.MyType");
    }
}
