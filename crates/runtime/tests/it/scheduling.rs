//! CPU groups and stalls: which tasks run, for how long, and what is reported.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use runtime::log_capture::LogCapture;
use runtime::sim::{SimOptions, SimWorld};
use runtime::{BackendChoice, CpuGroup, GroupStats, IoClass, Runtime, RuntimeOptions, Shard, StallOptions};

use crate::worlds::in_every_world;

fn of(shard: &Shard, group: CpuGroup) -> GroupStats {
    shard.group_stats().into_iter().find(|stats| stats.group == group).unwrap()
}

/// Keeps the CPU busy in steps and yields between them, until `stop` is set.
async fn hog(shard: Shard, step_us: u64, stop: Rc<Cell<bool>>) {
    while !stop.get() {
        let end_us = shard.now_us() + step_us;
        while shard.now_us() < end_us {
            std::hint::spin_loop();
        }
        shard.yield_now().await;
    }
}

#[test]
fn busy_groups_get_the_cpu_by_their_shares() {
    let runtime = Runtime::start(RuntimeOptions::default(), |_| async {}).unwrap();
    let ran = runtime.remote().call(0, CpuGroup::Background, |shard| async move {
        let groups = [
            (CpuGroup::Statement, 1000, 20),
            (CpuGroup::Compaction, 200, 150),
            (CpuGroup::Maintenance, 100, 40),
        ];
        let stop = Rc::new(Cell::new(false));
        for (group, shares, step_us) in groups {
            shard.groups().set_shares(group, shares);
            shard.spawn(group, hog(shard.clone(), step_us, Rc::clone(&stop))).detach();
        }
        shard.sleep_us(20_000).await;
        let ran_ns = |group| of(&shard, group).counters.ran_ns;
        let before = groups.map(|(group, ..)| ran_ns(group));
        shard.sleep_us(1_500_000).await;
        stop.set(true);
        let mut at = 0;
        groups.map(|(group, ..)| {
            at += 1;
            ran_ns(group) - before[at - 1]
        })
    });
    let ran = ran.wait().unwrap();
    let all: u64 = ran.iter().sum();
    for (ran_ns, shares) in ran.iter().zip([1000, 200, 100]) {
        let due_ns = all * shares / 1300;
        // The system may take the thread off its core in the middle of a poll, for at most this time.
        let slack_ns = due_ns / 6 + 60_000_000;
        assert!(ran_ns.abs_diff(due_ns) < slack_ns, "{ran:?}: not as 10 to 2 to 1");
    }
    runtime.shutdown().unwrap();
}

#[test]
fn groups_are_created_for_all_shards() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let group = shard.groups().create("sl:olap", 300).unwrap();
        assert_eq!(shard.groups().by_name("sl:olap"), Some(group));
        for target in 0..shard.shard_count() {
            let seen = shard.call(target, group, move |there| async move {
                // A shard applies the new group at its next turn, and starts to count then.
                there.sleep_us(2_000).await;
                there.yield_now().await;
                (there.current_group(), of(&there, group))
            });
            let (running, stats) = seen.await.unwrap();
            assert_eq!(running, group);
            assert_eq!((stats.name.as_str(), stats.shares), ("sl:olap", 300));
            assert!(stats.counters.polls > 0);
        }
        shard.set_shares(CpuGroup::Compaction, 50);
        shard.groups().set_shares(group, 700);
        assert_eq!((of(&shard, group).shares, of(&shard, CpuGroup::Compaction).shares), (700, 50));
        let io = shard.io_stats();
        assert!(io.iter().any(|io| io.class == group.io_class() && io.shares == 700 && io.name == "sl:olap"));
        assert!(io.iter().any(|io| io.class == IoClass::Compaction && io.shares == 50));
        shard.groups().remove(group).unwrap();
        assert!(shard.group_stats().iter().all(|stats| stats.group != group));
    }
    in_every_world("groups", test);
}

#[test]
fn stalls_are_counted_and_logged() {
    let log = LogCapture::of_all_threads();
    let stalls = StallOptions { threshold_us: 5_000, reports_per_minute: 2 };
    let options = RuntimeOptions { stalls, backend: BackendChoice::Threads, ..RuntimeOptions::default() };
    let runtime = Runtime::start(options, |_| async {}).unwrap();
    let asked_at = line!() + 1;
    let stalled = runtime.remote().call(0, CpuGroup::Compaction, |shard| async move {
        for _ in 0..3 {
            let end_us = shard.now_us() + 6_000;
            while shard.now_us() < end_us {}
            shard.yield_now().await;
        }
        let stats = of(&shard, CpuGroup::Compaction);
        (stats.stalls_us.count(), stats.counters.overrun_ns, shard.stats().stalls_reported)
    });
    let (stalls, overrun_ns, told_count) = stalled.wait().unwrap();
    assert!(stalls >= 3 && overrun_ns >= 3 * 5_000_000, "{stalls} stalls, {overrun_ns} ns");
    assert_eq!(told_count, 2);
    runtime.shutdown().unwrap();
    // Other tests may stall too.
    let place = format!("scheduling.rs:{asked_at}:");
    let lines: Vec<_> = log.lines().into_iter().filter(|line| line.text.contains(&place)).collect();
    assert!(!lines.is_empty() && lines.len() <= 2, "{lines:?}");
    for line in lines {
        assert_eq!(
            (line.level, &*line.target, line.shard),
            (log::Level::Warn, "reactor", Some(0)),
            "{line:?}"
        );
        let text = line.text.strip_prefix("Reactor stalled for ").unwrap();
        let (ms, text) = text.split_once(" ms on shard 0, in scheduling group compaction, ").unwrap();
        assert!(ms.parse::<f64>().unwrap() >= 5.0, "{ms}: {text}");
    }
}

#[test]
fn the_same_shares_hold_in_virtual_time() {
    for seed in 0..5 {
        let world = SimWorld::new(SimOptions { seed, by_shares: true, ..SimOptions::default() });
        let node = world.start_node(|_| async {}).unwrap();
        let clock = world.clock();
        let ran = world.block_on(&node, 0, |shard| async move {
            let olap = shard.groups().create("sl:olap", 250).unwrap();
            let stop = Rc::new(Cell::new(false));
            for (group, step_us) in [(CpuGroup::Statement, 30), (olap, 400)] {
                let (clock, stop, busy) = (clock.clone(), Rc::clone(&stop), shard.clone());
                let task = async move {
                    while !stop.get() {
                        clock.pass_us(step_us);
                        busy.yield_now().await;
                    }
                };
                shard.spawn(group, task).detach();
            }
            shard.sleep_us(2_000_000).await;
            stop.set(true);
            [CpuGroup::Statement, olap].map(|group| of(&shard, group).counters.ran_ns)
        });
        let [statements, olap] = ran.unwrap();
        let ratio = statements as f64 / olap as f64;
        assert!((3.9..4.1).contains(&ratio), "seed {seed}: {ratio}");
    }
}
