//! The rows returned by a conditional write: whether it was applied and, if not, the stored values.
//!
//! The format is Cassandra's. The only column is `[applied]` if the write was applied or there is no row to
//! show. Otherwise the columns of the conditions follow, or all columns for IF EXISTS and IF NOT EXISTS. In
//! batches the primary key comes before the columns of the conditions.

use std::sync::Arc;

use model::key::split_composite_key;
use model::types::CqlType;
use model::{ClusteringRow, Column, ColumnId, ColumnKind, TableSchema};
use protocol::{ColumnSpec, ResultMetadata};
use reader::{Page, PartitionPage};

use super::change::Change;
use super::condition::{BoundCondition, Condition};
use super::existing;
use super::target::Named;
use super::write::RowAt;
use crate::outcome::ResultRows;

/// The columns of a conditional write's answer.
#[derive(Clone, Debug)]
pub struct Reply {
    schema: Arc<TableSchema>,
    applied: Arc<ResultMetadata>,
    refused: Arc<ResultMetadata>,
    shown: Vec<Shown>,
    /// The static columns that are read: all of them if the statement writes one, otherwise those in
    /// conditions. A partition without any of these columns and without a row has nothing to show.
    static_read: Vec<ColumnId>,
    /// Whether the statement writes regular columns and therefore reads them. If not, a row without row
    /// liveness is not visible.
    reads_rows: bool,
}

#[derive(Clone, Debug)]
enum Shown {
    Partition(usize),
    Clustering(usize),
    Column(Column),
    /// A column that the statement does not read, because the statement writes no column of this kind and has
    /// no condition on the column. As in Cassandra, its value is null.
    Unread(Column),
}

impl Reply {
    /// Builds the reply for changes of one table. `changes` must not be empty.
    pub fn new(changes: &[&Change], is_batch: bool) -> Self {
        let schema = changes[0].schema.clone();
        let keys = (0..schema.partition_key.len())
            .map(Shown::Partition)
            .chain((0..schema.defined_clustering().len()).map(Shown::Clustering));
        let conditions = || changes.iter().filter_map(|change| change.condition.as_ref());
        let mut shown: Vec<Shown> = Vec::new();
        let is_of_existence = conditions().any(|condition| !matches!(condition, Condition::Columns(_)));
        if is_of_existence {
            shown.extend(keys);
            for kind in [ColumnKind::Static, ColumnKind::Regular] {
                let mut columns: Vec<&Column> =
                    schema.columns_of(kind).filter(|column| !schema.is_hidden(column)).collect();
                columns.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
                shown.extend(columns.into_iter().cloned().map(Shown::Column));
            }
        } else {
            if is_batch {
                shown.extend(keys);
            }
            // Regular columns come first for each statement.
            let columns = conditions().flat_map(|condition| {
                let of_kind = |kind| condition.columns().iter().filter(move |it| it.column.kind == kind);
                of_kind(ColumnKind::Regular).chain(of_kind(ColumnKind::Static))
            });
            for column in columns.map(|condition| &condition.column) {
                if !shown.iter().any(|known| matches!(known, Shown::Column(known) if known.id == column.id)) {
                    shown.push(Shown::Column(column.clone()));
                }
            }
        }
        let is_in_condition =
            |column: &Column| conditions().any(|it| it.columns().iter().any(|it| it.column.id == column.id));
        // As in Cassandra, the unconditional statements of a batch count for rows, but not for static
        // columns.
        let mut conditional = changes.iter().filter(|change| change.condition.is_some());
        let writes_static = conditional.any(|change| !change.static_ops.is_empty());
        let writes_rows = schema.clustering.is_empty() || changes.iter().any(|it| it.named != Named::Nothing);
        let is_read = |column: &Column| {
            let is_written = if column.kind == ColumnKind::Static { writes_static } else { writes_rows };
            is_written || is_in_condition(column)
        };
        for shown in &mut shown {
            if let Shown::Column(column) = shown
                && !is_read(column)
            {
                *shown = Shown::Unread(column.clone());
            }
        }
        let static_read = schema.columns_of(ColumnKind::Static).filter(|column| is_read(column));
        let static_read = static_read.map(|column| column.id).collect();
        let spec = |name: &str, ty: &CqlType| {
            ColumnSpec::new(&schema.keyspace, &schema.name, name, ty.without_reversed().clone())
        };
        let applied = spec("[applied]", &CqlType::Boolean);
        let specs = shown.iter().map(|shown| match shown {
            Shown::Partition(at) => spec(&schema.partition_key[*at].name, &schema.partition_key[*at].ty),
            Shown::Clustering(at) => spec(&schema.clustering[*at].name, &schema.clustering[*at].ty),
            Shown::Column(column) | Shown::Unread(column) => spec(&column.name, &column.ty),
        });
        let refused: Vec<ColumnSpec> = [applied.clone()].into_iter().chain(specs).collect();
        Self {
            applied: ResultMetadata::new(&[applied]).into(),
            refused: ResultMetadata::new(&refused).into(),
            schema,
            shown,
            static_read,
            reads_rows: writes_rows,
        }
    }

    /// Number of rows to read for conditions that need no row. The answer shows the first visible row. If
    /// rows without row liveness are not visible, it is searched among the first hundred: a table has such
    /// rows if it is written by UPDATE, and then they are all alike as a rule.
    pub fn first_rows(&self) -> u64 {
        if self.reads_rows { 1 } else { 100 }
    }

    /// Builds the row of an applied write.
    pub fn applied(&self) -> ResultRows {
        alone(&self.applied, true)
    }

    /// Builds the rows of a refused write. `page` is the page that was read from the partition.
    pub fn refused(&self, conditions: &[BoundCondition], page: &Page) -> ResultRows {
        let Some(partition) = page.partitions.first() else { return alone(&self.applied, false) };
        let mut rows = ResultRows::new(self.refused.clone());
        let is_asked = |row: &&ClusteringRow| {
            conditions.iter().any(|condition| {
                matches!(&condition.at, RowAt::Key(key) if self.schema.compare_keys(key, &row.key).is_eq())
            })
        };
        for row in partition.rows.iter().filter(is_asked) {
            self.row(&mut rows, partition, Some(row));
        }
        // If all conditions are of static columns, the first row represents the partition. This distinguishes
        // null static columns from a missing partition.
        let is_of_partition = conditions.iter().all(|condition| condition.at == RowAt::Static);
        let mut seen = partition.rows.iter().filter(|row| self.reads_rows || !row.row.liveness.is_none());
        if let (true, Some(first)) = (is_of_partition, seen.next()) {
            self.row(&mut rows, partition, Some(first));
        }
        let is_static_seen = || self.static_read.iter().any(|id| partition.static_row.cell(*id).is_some());
        if rows.count() == 0 && is_static_seen() {
            self.row(&mut rows, partition, None);
        }
        if rows.count() == 0 { alone(&self.applied, false) } else { rows }
    }

    fn row(&self, out: &mut ResultRows, partition: &PartitionPage, row: Option<&ClusteringRow>) {
        out.cell(Some(&[0]));
        let key = match self.schema.partition_key.len() {
            1 => vec![partition.key.bytes()],
            _ => split_composite_key(partition.key.bytes()).unwrap_or_default(),
        };
        for shown in &self.shown {
            match shown {
                Shown::Partition(at) => out.cell(key.get(*at).copied()),
                Shown::Clustering(at) => out.cell(row.and_then(|row| row.key.values().nth(*at))),
                Shown::Unread(_) => out.cell(None),
                Shown::Column(column) => {
                    let row = match column.kind {
                        ColumnKind::Static => Some(&partition.static_row),
                        ColumnKind::Regular => row.map(|row| &row.row),
                    };
                    out.cell(existing::value(column, row).as_deref());
                }
            }
        }
        out.end_row();
    }
}

fn alone(columns: &Arc<ResultMetadata>, applied: bool) -> ResultRows {
    let mut rows = ResultRows::new(columns.clone());
    rows.cell(Some(&[u8::from(applied)]));
    rows.end_row();
    rows
}
