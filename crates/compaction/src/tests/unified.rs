use super::{check, check_on};
use crate::testing::{Cell, MB, Table, World};
use crate::unified::scaling::{Scaling, parse_bytes, parse_list};
use crate::unified::shards::Sharding;
use crate::unified::{Inclusion, Unified};
use crate::{Split, Strategy};

/// A strategy with flushes of 10 MB that are not split.
fn ucs(scaling: &str) -> Unified {
    Unified {
        scaling: parse_list(scaling).expect("scaling parameters"),
        flush_bytes_override: Some(10 * MB),
        sharding: Sharding { base_shards: 1, growth: 1.0, ..Sharding::default() },
        ..Unified::default()
    }
}

#[test]
fn scaling_parameters_and_sizes_are_parsed() {
    let of = |text: &str| Scaling::parse(text).map(|w| (w.0, w.fanout(), w.threshold()));
    assert_eq!(of("T4"), Some((2, 4, 4)));
    assert_eq!(of("L10"), Some((-8, 10, 2)));
    assert_eq!(of("n"), Some((0, 2, 2)));
    assert_eq!(of(" -2"), Some((-2, 4, 2)));
    assert_eq!([of("T1"), of("L"), of("x"), of("-2147483648")], [None; 4]);
    assert_eq!(parse_list("T4, N,L4"), Some(vec![Scaling(2), Scaling(0), Scaling(-2)]));
    assert_eq!(parse_list("T4,"), None);
    assert_eq!(parse_bytes("100MiB"), Some(100 << 20));
    assert_eq!(parse_bytes("1.5 GB"), Some(1_500_000_000));
    assert_eq!(parse_bytes("7"), Some(7));
    assert_eq!([parse_bytes("-1"), parse_bytes("1 mile"), parse_bytes(""), parse_bytes("infB")], [None; 4]);
}

#[test]
fn as_many_of_similar_density_as_overlap() {
    check(&mut ucs("T4"), "10, 10, 10, 10", "merge a b c d: up to 4 overlap at level 0 of density");
    check(&mut ucs("T4"), "10, 10, 10", "nothing");
    check(&mut ucs("T4"), "10, 10, 10, 40", "nothing");
    check(&mut ucs("T4"), "10, 10, 10, 10 busy", "nothing");
    check(&mut ucs("L4"), "10, 10", "merge a b: up to 2 overlap at level 0 of density");
    check(&mut ucs("L4"), "10, 40", "nothing");
    check(&mut ucs("N"), "10, 10, 40", "merge a b");
    // The last parameter applies to all higher levels: from 31 MB on, two SSTables are enough.
    check(&mut ucs("T4, L4"), "10, 10, 10, 40, 40", "merge d e: up to 2 overlap at level 1 of density");
}

#[test]
fn density_counts_not_size() {
    check(&mut ucs("T4"), "5 0-49, 5 0-49, 5 0-49, 5 0-49, 5 50-99", "merge a b c d");
    check(&mut ucs("T4"), "10 0-9, 10 0-9, 10 0-9, 10", "nothing");
    check(&mut ucs("T4"), "10, 10, 10, 10 disk1", "merge a b c d");
}

#[test]
fn the_level_where_most_overlap_and_of_equals_the_lowest() {
    check(&mut ucs("T4"), "10, 10, 10, 10, 40, 40, 40, 40, 40", "merge e f g h i");
    check(&mut ucs("T4"), "40, 40, 40, 40, 10, 10, 10, 10", "merge e f g h");
}

#[test]
fn overlapping_sstables_are_included_by_the_option() {
    let table = "10 0-99, 10 0-99, 8 0-79, 5 0-49, 4 60-99, 3 70-99";
    let mut strategy = ucs("T4");
    strategy.scaling = vec![Scaling(3)];
    check(&mut strategy, table, "merge a b c d e f");
    strategy.inclusion = Inclusion::None;
    check(&mut strategy, table, "merge a b c e f");
    let chain = "4 0-30, 4 0-30, 3 25-50, 3 45-60, 3 55-70, 2 80-99";
    for (inclusion, expect) in [
        (Inclusion::None, "merge a b c"),
        (Inclusion::Single, "merge a b c d"),
        (Inclusion::Transitive, "merge a b c d e"),
    ] {
        let mut strategy = Unified { inclusion, ..ucs("T3") };
        check(&mut strategy, chain, expect);
    }
}

#[test]
fn one_of_the_fullest_places_by_the_seed() {
    let mut table = Table::new("1 0-9, 1 0-9, 1 20-29, 1 20-29, 1 40-49");
    let mut strategy = ucs("N");
    let mut said = vec![];
    for seed in 0..3 {
        table.seed = seed;
        said.push(table.say(strategy.next(&table.view()).as_ref()));
    }
    assert_eq!(said, ["merge a b", "merge c d", "merge a b"]);
}

#[test]
fn too_many_are_cut_to_the_oldest() {
    let table = |count: u32| {
        let one = |n: u32| format!("s{n} 10 t{}", 1000 - n);
        Table::new(&(0..count).map(one).collect::<Vec<_>>().join(", "))
    };
    let picked = |strategy: &mut Unified, count: u32| {
        let table = table(count);
        let plan = strategy.next(&table.view()).expect("a plan");
        let oldest = (count - plan.inputs.len() as u32..count).map(|n| format!("s{n}"));
        assert_eq!(table.names(&plan.inputs), oldest.collect::<Vec<_>>().join(" "));
        plan.inputs.len()
    };
    let mut free = ucs("T4");
    assert_eq!([4, 15, 16, 17, 70].map(|count| picked(&mut free, count)), [4, 15, 16, 16, 64]);
    let mut bound = Unified { sstables_max: Some(10), ..ucs("T4") };
    assert_eq!([4, 9, 15, 17].map(|count| picked(&mut bound, count)), [4, 9, 10, 4]);
    let mut leveled = Unified { sstables_max: Some(11), ..ucs("L4") };
    assert_eq!([4, 15, 17].map(|count| picked(&mut leveled, count)), [4, 11, 8]);
}

#[test]
fn shards_by_density() {
    let sharding = Sharding { growth: 0.0, ..Sharding::default() };
    let gb = |gb: f64| gb * (1u64 << 30) as f64;
    let count = |sharding: &Sharding, sizes: &[f64]| -> Vec<u64> {
        sizes.iter().map(|size| sharding.shards(gb(*size))).collect()
    };
    // Below the base count while SSTables would be smaller than the minimum; then the base count; then by the
    // target size.
    assert_eq!(
        count(&sharding, &[0.0, 0.05, 0.2, 0.39, 0.4, 4.0, 5.7, 11.0, 12.0]),
        [1, 1, 2, 2, 4, 4, 8, 8, 16]
    );
    let grows = Sharding::default();
    assert_eq!(count(&grows, &[1.0, 4.0, 8.0, 32.0, 256.0]), [4, 4, 8, 16, 64]);
    let fixed = Sharding { growth: 1.0, ..Sharding::default() };
    assert_eq!(count(&fixed, &[1.0, 1000.0]), [4, 4]);
    let three = Sharding { base_shards: 3, ..Sharding::default() };
    assert_eq!(count(&three, &[0.25, 1.0]), [1, 3]);
}

#[test]
fn outputs_and_flushes_are_cut_at_the_same_tokens() {
    let mut strategy = ucs("N");
    strategy.sharding = Sharding { min_sstable_bytes: 0, ..Sharding::default() };
    let table = Table::new("10, 10");
    check_on(&mut strategy, &table, "merge a b into a run into 4 parts");
    let quarter = 1i64 << 62;
    let Split::Tokens(tokens) = strategy.layout(0).split else { panic!("no tokens") };
    assert_eq!(tokens, [-quarter, 0, quarter]);
    check(&mut strategy, "1 30-60, 1 30-60", "merge a b into a run into 2 parts");
}

#[test]
fn what_has_expired_goes_with_the_next_job() {
    check(&mut ucs("N"), "10 dies5 t1-2, 10 t3-4, 10 t3-4", "merge b c, drop a");
    check(&mut ucs("N"), "10 dies5 t1-2", "drop a: all in 1 has expired");
    check(
        &mut ucs("T4"),
        "10 dead0.5, 10 0-9 t3-4",
        "merge a: 50 % of it may be dropped; the threshold is 20 %",
    );
}

#[test]
fn major_by_parts_of_the_ring() {
    let table = Table::new("1 0-9, 1 5-20, 1 40-50, 1 60-70 busy");
    let said: Vec<String> =
        ucs("N").major(&table.view(), false).iter().map(|plan| table.say(Some(plan))).collect();
    assert_eq!(said, ["merge a b", "merge c"]);
    assert_eq!(ucs("N").pending(&table.view()), 1);
    assert_eq!(ucs("N").backlog_bytes(&table.view()), (4 * MB) as f64);
}

#[test]
fn parts_are_merged_by_themselves() {
    let mut world = World::new(MB);
    let mut strategy = ucs("T4");
    strategy.sharding = Sharding { min_sstable_bytes: 0, ..Sharding::default() };
    strategy.next(&Table::new("1").view());
    for flush in 0..16i64 {
        let writes = (0..64).map(|n| ((n * 1024, 0), Cell::write(flush, n.into())));
        world.flush(&strategy, writes);
        world.run_until_quiet(&mut strategy);
    }
    assert_eq!(world.sstables().len() % 4, 0);
    world.check_disjoint();
}
