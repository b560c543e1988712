//! Tests which SSTables a garbagecollect rewrites, in which order, and with which others.

use crate::garbage::{self, Granularity, candidates, plan, shadows_of};
use crate::testing::Table;
use crate::{Layout, SSTableId};

/// `expect`: the rewritten SSTables in order, each with the SSTables that may shadow its data.
#[track_caller]
fn check(granularity: Granularity, table: &str, expect: &str) {
    let table = Table::new(table);
    let view = table.view();
    let said = candidates(&view, granularity).into_iter().map(|id| {
        assert_eq!(
            table.say(plan(&view, id, |_| Layout::whole()).as_ref()),
            format!("merge {}", table.name(id))
        );
        format!("{}({})", table.name(id), table.names(&shadows_of(&view, id, granularity)))
    });
    assert_eq!(said.collect::<Vec<_>>().join(" "), expect);
}

#[test]
fn rows_go_where_a_deletion_that_is_as_new_overlaps_them() {
    use Granularity::Row;
    check(Row, "9 t1-5, 9 t4-9", "");
    check(Row, "9 t1-5, 9 t4-9 deletes", "a(b) b()");
    check(Row, "9 t5-9, 9 t1-4 deletes", "b()");
    check(Row, "9 t5-9, 9 t1-5 deletes", "b() a(b)");
    check(Row, "9 t1-5 0-49, 9 t4-9 deletes 50-99", "b()");
    check(Row, "9 t7-8, 9 t1-5, 9 t4-9 deletes", "b(c) a(c) c()");
    check(Row, "9 t1-5 deletes, 9 t4-9 deletes", "a(b) b(a)");
}

#[test]
fn cells_go_where_anything_newer_overlaps_them() {
    use Granularity::Cell;
    check(Cell, "9 t1-5, 9 t4-9", "a(b) b(a)");
    check(Cell, "9 t1-3, 9 t4-9", "a(b)");
    check(Cell, "9 t1-3 0-49, 9 t4-9 50-99", "");
    check(Cell, "9 t1-3, 9 t4-5, 9 t6-7 busy", "a(b c) b(c)");
}

#[test]
fn an_irreplaceable_file_is_kept_and_still_checked() {
    check(Granularity::Row, "9 t1-5, 9 t4-9 deletes frozen", "a(b)");
    check(Granularity::Row, "9 t1-5 frozen, 9 t4-9 deletes", "b()");
    let table = Table::new("9 busy");
    assert_eq!(plan(&table.view(), SSTableId(1), |_| Layout::whole()), None);
    assert_eq!(plan(&table.view(), SSTableId(2), |_| Layout::whole()), None);
    assert_eq!(shadows_of(&table.view(), SSTableId(2), Granularity::Cell), []);
}

#[test]
fn a_merge_is_shadowed_by_what_stays() {
    let shadows = |table: &str, granularity| {
        let table = Table::new(table);
        let inputs = ["a", "b"].map(|name| {
            let at = table.names.iter().position(|other| other == name).expect("there is one");
            table.sstables[at].id
        });
        let reason = crate::Reason::Asked("test");
        let (expired, layout) = (vec![], crate::Layout::whole());
        let plan = crate::Plan { inputs: inputs.to_vec(), expired, layout, reason, release_early: false };
        table.names(&garbage::shadows_of_plan(&table.view(), &plan, granularity))
    };
    let table = "1 t1 0-9, 1 t5 10-19 deletes, c 1 t5 0-9 deletes, d 1 t5 10-19, e 1 t5 20-99 deletes, \
                 f 1 t0 0-9 deletes, g 1 t5 0-9 deletes busy, h 1 t5 0-9 deletes frozen";
    assert_eq!(shadows(table, Granularity::Row), "c h");
    assert_eq!(shadows(table, Granularity::Cell), "c d h");
}
