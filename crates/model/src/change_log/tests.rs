//! Rows of the log for each kind of write.

use super::*;
use crate::clustering::ClusteringRange;

const NOW_S: u32 = 1_000;

struct Example {
    base: Arc<TableSchema>,
    plan: ChangeLog,
}

fn example(options: ChangeLogOptions) -> Example {
    let base = TableSchema::builder("ks", "t")
        .partition_key("pk", CqlType::Int)
        .clustering("a", CqlType::reversed(CqlType::Int))
        .clustering("b", CqlType::Int)
        .static_column("s", CqlType::Text)
        .regular("v", CqlType::Int)
        .regular("w", CqlType::Int)
        .regular("l", CqlType::list(CqlType::Int))
        .regular("m", CqlType::map(CqlType::Int, CqlType::Int))
        .build()
        .unwrap();
    let mut log = TableSchema::builder("ks", "t_scylla_cdc_log")
        .partition_key(STREAM_ID, CqlType::Blob)
        .clustering(TIME, CqlType::TimeUuid)
        .clustering(BATCH_SEQ_NO, CqlType::Int);
    for (name, ty) in log_columns(&base) {
        log = log.regular(name, ty);
    }
    let plan = ChangeLog::new(&base, &log.build().unwrap(), options).unwrap();
    Example { base, plan }
}

fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn row_key(a: i32, b: i32) -> ClusteringKey {
    ClusteringPrefix::new([&int(a)[..], &int(b)[..]])
}

impl Example {
    fn column(&self, name: &str) -> &Column {
        self.base.column_named(name).unwrap()
    }

    /// The rows of the log as texts: the operation, then `column=value` in hexadecimal digits. A new line of
    /// the write's time begins with its number.
    fn log(&self, before: &Partition, change: &Partition) -> Vec<String> {
        let key = PartitionKey::new(int(7));
        let mut random = 0;
        let mutation = self.plan.mutation(&key, before, change, NOW_S, &mut || {
            random += 1;
            random
        });
        let Some(mutation) = mutation else { return vec![] };
        assert_eq!(mutation.key.bytes(), Stream::of(key.token()).id);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut lines = vec![];
        for ClusteringRow { key, row } in mutation.partition.rows() {
            let number = key.values().nth(1).unwrap();
            let mut line = format!("{}:", i32::from_be_bytes(number.try_into().unwrap()));
            for (id, data) in row.cells() {
                let ColumnData::Simple(cell) = data else { panic!("all columns of a log are simple") };
                let name = &self.plan.log.column(*id).unwrap().name;
                if name == "pk" {
                    assert_eq!(cell.value[..], int(7));
                    continue;
                }
                line += &format!(" {}={}", name.trim_start_matches("cdc$"), hex(&cell.value));
            }
            lines.push(line);
        }
        lines
    }

    /// Asserts that the log has these lines, whose values may be in any order.
    #[track_caller]
    fn check<T: AsRef<str>>(
        &self,
        before: &Partition,
        change: &Partition,
        expect: impl IntoIterator<Item = T>,
    ) {
        let sorted = |line: &str| {
            let mut words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
            words[1..].sort();
            words
        };
        let lines: Vec<_> = self.log(before, change).iter().map(|line| sorted(line)).collect();
        assert_eq!(lines, expect.into_iter().map(|line| sorted(line.as_ref())).collect::<Vec<_>>());
    }
}

fn nothing() -> Partition {
    Partition::default()
}

#[test]
fn an_insert_has_its_values_and_the_end_of_the_batch() {
    let t = example(ChangeLogOptions::default());
    let mut change = nothing();
    let row = change.row_mut(&t.base, row_key(1, 2));
    row.liveness = Liveness::new(50);
    row.set(t.column("v"), Cell::live(50, int(9)));
    row.set(t.column("w"), Cell::tombstone(50, NOW_S));
    t.check(
        &nothing(),
        &change,
        ["0: operation=02 end_of_batch=01 a=00000001 b=00000002 v=00000009 deleted_w=01"],
    );
}

#[test]
fn parts_with_other_times_and_ttls_are_rows_of_their_own() {
    let t = example(ChangeLogOptions::default());
    let mut change = nothing();
    let row = change.row_mut(&t.base, row_key(1, 2));
    row.liveness = Liveness::expiring(50, 10, NOW_S);
    row.set(t.column("v"), Cell::expiring(50, 10, NOW_S, int(9)));
    row.set(t.column("w"), Cell::live(60, int(8)));
    change.static_row.set(t.column("s"), Cell::live(50, b"x".to_vec()));
    t.check(
        &nothing(),
        &change,
        [
            "0: operation=01 s=78",
            "1: operation=02 ttl=000000000000000a end_of_batch=01 a=00000001 b=00000002 v=00000009",
            "0: operation=01 end_of_batch=01 a=00000001 b=00000002 w=00000008",
        ],
    );
}

#[test]
fn deletions_of_rows_ranges_and_partitions() {
    let t = example(ChangeLogOptions::default());
    let mut change = nothing();
    change.row_mut(&t.base, row_key(1, 2)).deletion = Tombstone::new(50, NOW_S);
    let prefix = || ClusteringPrefix::new([&int(5)[..]]);
    let range = ClusteringRange { start: Position::after(prefix()), end: Position::END };
    change.delete_range(&t.base, &crate::RangeTombstone { range, tombstone: Tombstone::new(50, NOW_S) });
    change.tombstone = Tombstone::new(40, NOW_S);
    t.check(
        &nothing(),
        &change,
        [
            "0: operation=04 end_of_batch=01",
            "0: operation=03 a=00000001 b=00000002",
            "1: operation=06 a=00000005",
            "2: operation=07 end_of_batch=01",
        ],
    );
}

#[test]
fn an_assigned_collection_deletes_and_writes_in_one_row() {
    let t = example(ChangeLogOptions::default());
    let mut change = nothing();
    let row = change.row_mut(&t.base, row_key(1, 2));
    row.delete_elements(t.column("m"), Tombstone::new(49, NOW_S));
    row.set_element(&t.base, t.column("m"), int(3), Cell::live(50, int(4)));
    let map = "00000001000000040000000300000004 00000004".replace(' ', "");
    t.check(
        &nothing(),
        &change,
        [format!("0: operation=01 end_of_batch=01 a=00000001 b=00000002 m={map} deleted_m=01")],
    );
    let mut change = nothing();
    let row = change.row_mut(&t.base, row_key(1, 2));
    row.set_element(&t.base, t.column("m"), int(3), Cell::tombstone(50, NOW_S));
    row.set_element(&t.base, t.column("l"), [1; 16], Cell::live(50, int(4)));
    let (one, set) = ("01".repeat(16), "000000010000000400000003");
    t.check(
        &nothing(),
        &change,
        [format!(
            "0: operation=01 end_of_batch=01 a=00000001 b=00000002 deleted_elements_m={set} \
             l=0000000100000010{one}0000000400000004"
        )],
    );
}

#[test]
fn images_show_the_row_before_and_after() {
    let options = ChangeLogOptions { preimage: Preimage::Changed, postimage: true, ..Default::default() };
    let t = example(options);
    let mut before = nothing();
    let row = before.row_mut(&t.base, row_key(1, 2));
    row.set(t.column("v"), Cell::live(10, int(1)));
    row.set(t.column("w"), Cell::live(10, int(2)));
    let mut change = nothing();
    change.row_mut(&t.base, row_key(1, 2)).set(t.column("v"), Cell::live(50, int(3)));
    change.row_mut(&t.base, row_key(1, 3)).set(t.column("v"), Cell::live(50, int(4)));
    let key = |b: i32| format!("a=00000001 b={b:08x}");
    t.check(
        &before,
        &change,
        [
            format!("0: operation=00 {} v=00000001", key(2)),
            format!("1: operation=01 {} v=00000003", key(2)),
            format!("2: operation=09 {} v=00000003 w=00000002", key(2)),
            format!("3: operation=01 {} v=00000004", key(3)),
            format!("4: operation=09 end_of_batch=01 {} v=00000004", key(3)),
        ],
    );
    // A deleted row: all values before it, none after it.
    let mut change = nothing();
    change.row_mut(&t.base, row_key(1, 2)).deletion = Tombstone::new(50, NOW_S);
    t.check(
        &before,
        &change,
        [
            format!("0: operation=00 {} v=00000001 w=00000002", key(2)),
            format!("1: operation=03 end_of_batch=01 {}", key(2)),
        ],
    );
    // Full: columns that the write does not change, too; keys: no values of the write.
    let t = example(ChangeLogOptions { preimage: Preimage::Full, keys_only: true, ..Default::default() });
    let mut change = nothing();
    change.row_mut(&t.base, row_key(1, 2)).set(t.column("v"), Cell::live(50, int(3)));
    t.check(
        &before,
        &change,
        [
            format!("0: operation=00 {} v=00000001 w=00000002", key(2)),
            format!("1: operation=01 end_of_batch=01 {}", key(2)),
        ],
    );
}

#[test]
fn a_second_part_of_a_write_sees_the_first() {
    let t = example(ChangeLogOptions { preimage: Preimage::Full, ..Default::default() });
    let mut change = nothing();
    let row = change.row_mut(&t.base, row_key(1, 2));
    row.set(t.column("v"), Cell::live(50, int(3)));
    row.set(t.column("w"), Cell::live(60, int(4)));
    let key = "a=00000001 b=00000002";
    t.check(
        &nothing(),
        &change,
        [
            format!("0: operation=01 end_of_batch=01 {key} v=00000003"),
            format!("0: operation=00 {key} v=00000003"),
            format!("1: operation=01 end_of_batch=01 {key} w=00000004"),
        ],
    );
}

#[test]
fn entries_expire_by_the_option() {
    let t = example(ChangeLogOptions { ttl_s: 60, ..Default::default() });
    let mut change = nothing();
    change.tombstone = Tombstone::new(40, NOW_S);
    let key = PartitionKey::new(int(7));
    let mutation = t.plan.mutation(&key, &nothing(), &change, NOW_S, &mut || 0).unwrap();
    let row = &mutation.partition.rows()[0].row;
    assert!(row.is_live_at(NOW_S + 59) && !row.is_live_at(NOW_S + 60));
}

#[test]
fn streams_divide_the_ring() {
    let all: Vec<Stream> = Stream::all().collect();
    assert_eq!(all.len() as u64, STREAM_COUNT);
    assert_eq!(all.last().unwrap().range_end, i64::MAX);
    let mut start = i64::MIN;
    for stream in &all {
        assert_eq!([Stream::of(start), Stream::of(stream.range_end)], [*stream; 2]);
        assert_eq!(stream.id[15] & 15, 1, "version");
        start = stream.range_end.wrapping_add(1);
    }
    let ids: std::collections::BTreeSet<_> = all.iter().map(|stream| stream.id).collect();
    assert_eq!(ids.len(), all.len());
}

#[test]
fn times_are_uuids_of_version_1_in_the_order_of_timestamps() {
    let ids: Vec<[u8; 16]> = [0, 1, 1_700_000_000_000_000].map(|time_us| time_uuid(time_us, u64::MAX)).into();
    for id in &ids {
        assert_eq!((id[6] >> 4, id[8] >> 6), (1, 2), "version and variant");
    }
    assert!(ids.is_sorted_by(|a, b| CqlType::TimeUuid.compare(a, b).is_lt()));
    let uuid = uuid::Uuid::from_bytes(ids[2]);
    assert_eq!(uuid.get_timestamp().unwrap().to_unix(), (1_700_000_000, 0));
}
