//! Reads all data of a reader into memory, for tests, tools and small system tables.

use std::rc::Rc;
use std::sync::Arc;

use model::{
    ClusteringRange, ClusteringRow, Partition, PartitionKey, RangeTombstone, RangeTombstoneChange,
    TableSchema,
};

use crate::ReadError;
use crate::fragment::{Fragment, Reader, RowFragment, Step};

/// All fragments, in order.
pub async fn collect(reader: &mut dyn Reader) -> Result<Vec<Fragment>, ReadError> {
    let mut fragments = vec![];
    loop {
        match reader.next()? {
            Step::Ready(fragment) => fragments.push(fragment),
            Step::Load => reader.load().await?,
            Step::End => return Ok(fragments),
        }
    }
}

/// All partitions, complete. `reversed` is the direction of the reader; the result does not depend on it.
pub async fn collect_partitions(
    reader: &mut dyn Reader,
    schema: &Arc<TableSchema>,
    reversed: bool,
) -> Result<Vec<(PartitionKey, Partition)>, ReadError> {
    let mut partitions: Vec<(PartitionKey, Partition)> = vec![];
    let mut rows = vec![];
    let mut open: Option<RangeTombstoneChange> = None;
    for fragment in collect(reader).await? {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                partitions.push((key, Partition::default()));
                last(&mut partitions).tombstone = tombstone;
            }
            Fragment::Static(row) => last(&mut partitions).static_row = (*row).clone(),
            Fragment::Row(RowFragment { key, row }) => {
                rows.push(ClusteringRow { key, row: Rc::unwrap_or_clone(row) });
            }
            Fragment::Change(change) => {
                if let Some(begun) = open.take() {
                    let (start, end) = match reversed {
                        false => (begun.position, change.position.clone()),
                        true => (change.position.clone(), begun.position),
                    };
                    let range = ClusteringRange { start, end };
                    let deletion = RangeTombstone { range, tombstone: begun.tombstone };
                    last(&mut partitions).delete_range(schema, &deletion);
                }
                if !change.tombstone.is_live() {
                    open = Some(change);
                }
            }
            Fragment::PartitionEnd => {
                assert!(open.is_none(), "a range deletion is ended before its partition");
                if reversed {
                    rows.reverse();
                }
                rows.drain(..).for_each(|row| last(&mut partitions).push_row(schema, row));
            }
        }
    }
    Ok(partitions)
}

fn last(partitions: &mut [(PartitionKey, Partition)]) -> &mut Partition {
    &mut partitions.last_mut().expect("a partition starts before anything in it").1
}
