//! Laws for any disk, any shares and any load.

use iosched::{Direction, DiskModel, FORGIVEN_NS};
use proptest::prelude::*;

use crate::lab::{Lab, Load};

const S: u64 = 1_000_000_000;

fn model() -> impl Strategy<Value = DiskModel> {
    let rates = (50..4000_u64, 50..4000_u64, 5..500_u64, 5..500_u64, any::<bool>());
    rates.prop_map(|(read_mb, write_mb, read_k, write_k, duplex)| DiskModel {
        read_bandwidth_bytes_s: read_mb << 20,
        write_bandwidth_bytes_s: write_mb << 20,
        read_iops: read_k * 1000,
        write_iops: write_k * 1000,
        duplex,
        ..DiskModel::NOMINAL
    })
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Read), Just(Direction::Write)]
}

/// A workload of requests up to 64 KiB, which no disk splits.
fn load(classes: usize) -> impl Strategy<Value = Load> {
    (0..classes, direction(), 1..=128_u64, 1..40_usize)
        .prop_map(|(class, direction, sectors, depth)| Load::new(class, direction, sectors * 512, depth))
}

/// A workload with a depth that keeps any of these disks busy.
fn saturating(class: usize, direction: Direction, bytes: u64) -> Load {
    Load::new(class, direction, bytes, 200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_rate_is_never_above_the_model(
        model in model(),
        loads in prop::collection::vec((load(4), 0..3_usize, 0..S / 20), 1..8),
        shards in 1..4_usize,
    ) {
        let mut lab = Lab::new(model, model, shards);
        let loads: Vec<Load> = (loads.into_iter())
            .map(|(load, shard, from_ns)| Load { shard: shard % shards, from_ns, ..load })
            .collect();
        lab.run(&loads, S / 10);
        let allowed_ns = lab.disk.latency_goal_ns() * if shards == 1 { 1 } else { 2 };
        for lane in [Direction::Read, Direction::Write] {
            let (mut level_ns, mut at_ns) = (0_u64, 0);
            for started in &lab.started {
                if model.duplex && loads.iter().any(|load| load.direction != lane) {
                    break;
                }
                level_ns = level_ns.saturating_sub(started.at_ns - at_ns) + started.cost_ns;
                at_ns = started.at_ns;
                prop_assert!(level_ns <= allowed_ns + 2, "{level_ns} of {allowed_ns} at {at_ns}");
            }
        }
    }

    #[test]
    fn a_disk_that_is_wanted_is_not_idle(model in model(), load in load(4), shards in 1..4_usize) {
        let mut lab = Lab::new(model, model, shards);
        let loads: Vec<Load> =
            (0..shards).map(|shard| Load { shard, depth: 200, ..load }).collect();
        lab.run(&loads, S / 10);
        let used_ns = lab.cost_ns(load.class, 0, S / 10);
        prop_assert!(used_ns >= S / 10 * 97 / 100, "{used_ns} of {}", S / 10);
    }

    #[test]
    fn shares_are_honoured(
        model in model(),
        shares in prop::collection::vec(50..1000_u32, 2..5),
        directions in prop::collection::vec((direction(), 1..=128_u64), 5),
        shards in 1..4_usize,
    ) {
        let model = DiskModel { duplex: false, ..model };
        let mut lab = Lab::new(model, model, shards);
        let mut loads = vec![];
        for (class, shares) in shares.iter().enumerate() {
            lab.set_shares(class, *shares);
            let (direction, sectors) = directions[class];
            loads.extend((0..shards).map(|shard| Load { shard, ..saturating(class, direction, sectors * 512) }));
        }
        lab.run(&loads, S);
        let all: u32 = shares.iter().sum();
        for (class, shares) in shares.iter().enumerate() {
            let got_ns = lab.cost_ns(class, 0, S) as f64;
            let due_ns = S as f64 * f64::from(*shares) / f64::from(all);
            prop_assert!((got_ns / due_ns - 1.0).abs() < 0.1, "class {class} got {got_ns} of {due_ns}");
        }
    }

    #[test]
    fn nobody_waits_for_ever(
        model in model(),
        small in load(1),
        shares in 1..1000_u32,
        others in prop::collection::vec(direction(), 1..4),
    ) {
        let model = DiskModel { duplex: false, ..model };
        let mut lab = Lab::new(model, model, 1);
        lab.set_shares(0, shares);
        let small = Load { depth: 1, ..small };
        let mut loads = vec![small];
        loads.extend(others.iter().enumerate().map(|(at, way)| saturating(at + 1, *way, 65536)));
        let others_shares = 1000 * others.len() as u64;
        lab.run(&loads, S);
        let cost_ns = model.cost_ns(small.direction, small.bytes);
        let turn_ns = cost_ns * (others_shares + u64::from(shares)) / u64::from(shares);
        let slack_ns = lab.disk.latency_goal_ns() * 4 * others.len() as u64;
        let waits = lab.started.iter().filter(|started| started.class == 0);
        let longest_ns = waits.map(|started| started.waited_ns).max().unwrap_or(S);
        prop_assert!(longest_ns <= turn_ns + slack_ns, "{longest_ns}: more than {turn_ns} + {slack_ns}");
    }

    #[test]
    fn an_idle_class_has_bounded_credit(model in model(), busy in direction(), shares in 10..1000_u32) {
        let model = DiskModel { duplex: false, ..model };
        let mut lab = Lab::new(model, model, 1);
        lab.set_shares(1, shares);
        let woken_at_ns = S / 5;
        let late = Load { from_ns: woken_at_ns, ..saturating(1, Direction::Read, 4096) };
        lab.run(&[saturating(0, busy, 65536), late], S / 2);
        let other = lab.started.iter().find(|started| started.class == 0 && started.at_ns > woken_at_ns);
        let other_at_ns = other.map_or(S, |started| started.at_ns);
        let alone_ns = lab.cost_ns(1, woken_at_ns, other_at_ns);
        let bound_ns = FORGIVEN_NS + 2 * lab.disk.latency_goal_ns();
        prop_assert!(alone_ns <= bound_ns, "{alone_ns} of {bound_ns}");
    }

    #[test]
    fn a_slow_disk_is_not_buried(model in model(), percent in 10..90_u64, loads in prop::collection::vec(load(3), 1..4)) {
        let mut lab = Lab::new(model, model.scaled(percent as f64 / 100.0), 1);
        let loads: Vec<Load> = loads.into_iter().map(|load| Load { depth: 500, ..load }).collect();
        lab.run(&loads, S / 2);
        let lanes = if model.duplex { 2 } else { 1 };
        prop_assert!(lab.inflight_max_ns <= lab.disk.latency_goal_ns() * 4 * lanes);
        let used_ns: u64 = (0..3).map(|class| lab.cost_ns(class, 0, S / 2)).sum();
        let could_ns = S / 2 * percent / 100;
        prop_assert!(used_ns >= could_ns * 95 / 100, "{used_ns} of {could_ns}");
    }

    #[test]
    fn a_cap_holds_and_others_have_the_rest(model in model(), cap_mb in 2..40_u64, shards in 1..4_usize) {
        let model = DiskModel { duplex: false, ..model };
        let mut lab = Lab::new(model, model, shards);
        let cap = cap_mb << 20;
        lab.disk.set_cap(0, Some(cap));
        let mut loads: Vec<Load> = (0..shards)
            .map(|shard| Load { shard, ..saturating(0, Direction::Write, 65536) })
            .collect();
        loads.push(saturating(1, Direction::Read, 4096));
        lab.run(&loads, S);
        let bytes: u64 = lab.started.iter().filter(|started| started.class == 0).map(|started| started.bytes).sum();
        let allowed = cap + cap.min(10 << 20) + 65536 * shards as u64;
        prop_assert!(bytes <= allowed, "{bytes} of {allowed}");
        let used_ns = lab.cost_ns(0, 0, S) + lab.cost_ns(1, 0, S);
        prop_assert!(used_ns >= S * 95 / 100, "{used_ns}");
    }
}
