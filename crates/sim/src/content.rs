//! The content of a table as a client reads it: joins the pages of a read, and computes the expected content
//! from the model.

use std::fmt::Write as _;
use std::sync::Arc;

use base::HashSet;
use engine::{Page, PartitionPage, ReadCommand};
use model::{
    Cell, ClusteringPrefix, ClusteringRow, ColumnData, Liveness, Mutation, Partition, PartitionKey, Purge,
    Row, TableSchema, counter,
};
use reader::{CompactReader, Fragment, Keep, MemorySource, ReadSpec, Source, block_on_ready, collect};

/// The least clustering value (or element of [`MARKS`]) of a mark; the random part of a write uses smaller
/// ones.
const FIRST_MARK: i32 = 1_000_000;

/// The column with the marks of a table without clustering columns, a `set<int>`.
pub const MARKS: &str = "marks";

/// Higher than the timestamp of every deletion that [`model::sample`] makes.
const MARK_TIMESTAMP_US: i64 = 2_000_000_000_000_000;

/// Adds the mark of write number `seq`.
pub fn mark(mutation: &mut Mutation, seq: i32) {
    let schema = mutation.schema.clone();
    let number = (FIRST_MARK + seq).to_be_bytes();
    let timestamp_us = MARK_TIMESTAMP_US + i64::from(seq);
    if schema.clustering.is_empty() {
        let column = schema.column_named(MARKS).expect("a table without clustering columns has marks");
        let row = mutation.row_mut(ClusteringPrefix::EMPTY);
        row.set_element(&schema, column, &number[..], Cell::live(timestamp_us, Vec::new()));
        return;
    }
    let further = schema.clustering.iter().skip(1).map(|_| &b"mark"[..]);
    let row = mutation.row_mut(ClusteringPrefix::new([&number[..]].into_iter().chain(further)));
    if schema.has_counters() {
        let column = schema.columns().first().expect("a counter table has a counter");
        let shard = counter::CounterShard { id: [9; 16], clock: 1, count: i64::from(seq) };
        row.set(column, Cell::live(timestamp_us, counter::encode(&[shard])));
    } else {
        row.liveness = Liveness::new(timestamp_us);
    }
}

/// The numbers of the writes whose marks are present.
pub fn marks(schema: &TableSchema, content: &[PartitionPage]) -> HashSet<i32> {
    let number = |bytes: &[u8]| {
        let number = i32::from_be_bytes(*bytes.first_chunk()?);
        (number >= FIRST_MARK).then(|| number - FIRST_MARK)
    };
    let marks = schema.column_named(MARKS).map(|column| column.id);
    let mut seen = HashSet::default();
    for row in content.iter().flat_map(|partition| &partition.rows) {
        seen.extend(row.key.values().next().and_then(number));
        if let Some(ColumnData::Complex(complex)) = marks.and_then(|id| row.row.cell(id)) {
            seen.extend(complex.cells.iter().filter_map(|element| number(&element.path)));
        }
    }
    seen
}

/// Removes columns that the table no longer has, and cells of re-created columns that were written before the
/// drop.
fn without_dropped_columns(partition: &mut Partition, schema: &TableSchema) {
    partition.static_row.retain_known(schema);
    for mut row in partition.take_rows() {
        row.row.retain_known(schema);
        if !row.row.is_empty() {
            partition.push_row(schema, row);
        }
    }
}

/// The content of `source` that a read returns, all pages of it.
pub fn expected(
    source: &MemorySource,
    schema: &Arc<TableSchema>,
    command: &ReadCommand,
) -> Vec<PartitionPage> {
    let mut source = source.clone();
    source.partitions_mut().values_mut().for_each(|partition| without_dropped_columns(partition, schema));
    let spec = ReadSpec::new(schema.clone(), command.partitions.clone())
        .ranges(command.ranges.clone())
        .reversed(command.reversed);
    let purge = Purge::nothing(command.now_s.expect("the simulation says what time it is"));
    let mut reader = CompactReader::new(source.reader(&spec), purge, Keep::Live);
    let fragments = block_on_ready(collect(&mut reader)).expect("memory can be read");
    let mut out: Vec<PartitionPage> = vec![];
    for fragment in fragments {
        match fragment {
            Fragment::PartitionStart { key, .. } => {
                out.push(PartitionPage { key, static_row: Row::new(), rows: vec![] });
            }
            Fragment::Static(row) => last(&mut out).static_row = (*row).clone(),
            Fragment::Row(row) => {
                last(&mut out).rows.push(ClusteringRow { key: row.key, row: (*row.row).clone() });
            }
            Fragment::PartitionEnd => {}
            Fragment::Change(_) => unreachable!("what is live has no deletions"),
        }
    }
    limit(out, command)
}

fn last(pages: &mut [PartitionPage]) -> &mut PartitionPage {
    pages.last_mut().expect("a partition starts before anything in it")
}

fn limit(content: Vec<PartitionPage>, command: &ReadCommand) -> Vec<PartitionPage> {
    let mut left = command.limit_rows;
    let mut out = vec![];
    for mut partition in content {
        if left == 0 {
            break;
        }
        partition.rows.truncate(command.partition_limit_rows.min(left) as usize);
        left -= partition.row_count();
        out.push(partition);
    }
    out
}

/// Appends a page to the earlier ones.
pub fn add_page(content: &mut Vec<PartitionPage>, page: Page) -> Result<(), String> {
    for partition in page.partitions {
        match content.last_mut() {
            Some(open) if open.key == partition.key => {
                if open.static_row != partition.static_row {
                    return Err(format!("{} has another static row on its next page", name(&open.key)));
                }
                if partition.rows.is_empty() {
                    return Err(format!("{} appears again without rows", name(&open.key)));
                }
                open.rows.extend(partition.rows);
            }
            _ => content.push(partition),
        }
    }
    Ok(())
}

fn name(key: &PartitionKey) -> String {
    String::from_utf8_lossy(key.bytes()).into_owned()
}

/// The first difference, as text.
pub fn difference(
    schema: &TableSchema,
    expected: &[PartitionPage],
    found: &[PartitionPage],
) -> Option<String> {
    if expected == found {
        return None;
    }
    let keys = |content: &[PartitionPage]| {
        content.iter().map(|p| format!("{}({})", name(&p.key), p.rows.len())).collect::<Vec<_>>().join(" ")
    };
    let mut text = format!("{}: ", schema.full_name());
    for (expected, found) in expected.iter().zip(found) {
        if expected.key != found.key {
            break;
        }
        if expected.static_row != found.static_row {
            let (expected, found) = (&expected.static_row, &found.static_row);
            let _ = write!(text, "static row\n  expected {expected:?}\n  found    {found:?}\n");
        }
        let at = expected.rows.iter().zip(&found.rows).take_while(|(a, b)| a == b).count();
        if at < expected.rows.len().max(found.rows.len()) {
            let _ = write!(
                text,
                "{} row {at}\n  expected {:?}\n  found    {:?}\n",
                name(&found.key),
                expected.rows.get(at),
                found.rows.get(at)
            );
            break;
        }
    }
    let _ = write!(text, "partitions (rows)\n  expected {}\n  found    {}", keys(expected), keys(found));
    let (wanted, seen) = (marks(schema, expected), marks(schema, found));
    let without = |a: &HashSet<i32>, b: &HashSet<i32>| {
        let mut missing: Vec<i32> = a.difference(b).copied().collect();
        missing.sort_unstable();
        missing
    };
    let _ = write!(
        text,
        "\n  lost writes {:?}, writes from nowhere {:?}",
        without(&wanted, &seen),
        without(&seen, &wanted)
    );
    Some(text)
}
