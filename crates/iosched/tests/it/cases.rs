//! Scheduling decisions as text: requests to a queue, and the order in which they start.
//!
//! ```text
//! push 10us a 1: read 4K     request `a` of class 1 arrives
//! done 20us a                the disk completes it and has moved all bytes
//! done 20us a: 1K            the disk completes it and has moved 1 KiB
//! gone 20us a                it is cancelled and never reached the disk
//! look 30us                  which requests may start now?
//! ```
//!
//! The disk serves 100k requests of either kind per second at 1 GB/s, so a read of 4 KiB costs 14.096 us; 750
//! us may be given in advance.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use iosched::{Completion, Direction, Disk, DiskModel, DiskOptions, IoQueue};

const MODEL: DiskModel = DiskModel {
    read_bandwidth_bytes_s: 1_000_000_000,
    write_bandwidth_bytes_s: 1_000_000_000,
    ..DiskModel::NOMINAL
};

fn play(model: Option<DiskModel>, script: &str) -> String {
    let disk = Arc::new(Disk::new(DiskOptions { model, ..DiskOptions::default() }));
    let mut queue: IoQueue<String> = IoQueue::new(Arc::clone(&disk));
    let mut tickets = BTreeMap::new();
    let mut said = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split([' ', ':']).filter(|word| !word.is_empty()).collect();
        let us = |word: &str| word.strip_suffix("us").unwrap().parse::<u64>().unwrap() * 1000;
        let mut now_ns = 0;
        match words[..] {
            ["shares", class, shares] => queue.set_shares(class.parse().unwrap(), shares.parse().unwrap()),
            ["cap", class, mb] => {
                disk.set_cap(class.parse().unwrap(), Some(mb.parse::<u64>().unwrap() << 20));
            }
            ["push", at, name, class, way, kib] => {
                now_ns = us(at);
                let way = if way == "read" { Direction::Read } else { Direction::Write };
                let bytes = kib.strip_suffix('K').unwrap().parse::<u64>().unwrap() << 10;
                let class = class.parse().unwrap();
                match queue.start(class, way, bytes, now_ns) {
                    Some(ticket) => {
                        tickets.insert(name.to_owned(), ticket);
                        writeln!(said, "{name} at once").unwrap();
                    }
                    None => queue.push(class, way, bytes, now_ns, name.to_owned()),
                }
            }
            ["done", at, name] => {
                now_ns = us(at);
                queue.complete(
                    tickets.remove(name).unwrap(),
                    Completion::Moved { bytes: u64::MAX, is_direct: true },
                    now_ns,
                );
            }
            ["done", at, name, kib] => {
                now_ns = us(at);
                let moved_bytes = kib.strip_suffix('K').unwrap().parse::<u64>().unwrap() << 10;
                let completion = Completion::Moved { bytes: moved_bytes, is_direct: true };
                queue.complete(tickets.remove(name).unwrap(), completion, now_ns);
            }
            ["gone", at, name] => {
                now_ns = us(at);
                queue.complete(tickets.remove(name).unwrap(), Completion::Cancelled, now_ns);
            }
            ["look", at] => now_ns = us(at),
            _ => panic!("{line}"),
        }
        if words[0] != "look" {
            continue;
        }
        while let Some((name, ticket)) = queue.next(now_ns) {
            writeln!(said, "{name} at {}us", now_ns / 1000).unwrap();
            tickets.insert(name, ticket);
        }
        if let Some(at_ns) = queue.wake_at_ns() {
            writeln!(said, "look again at {}us", at_ns.div_ceil(1000)).unwrap();
        }
    }
    said
}

#[track_caller]
fn check(model: Option<DiskModel>, script: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(play(model, script).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn without_waiters_a_request_starts_at_once() {
    check(Some(MODEL), "push 1000us a 0: read 4K\n push 1000us b 1: write 64K", "a at once\n b at once");
}

#[test]
fn what_is_too_much_at_once_waits_for_the_disks_time() {
    let script = "
        push 1000us a 0: write 512K
        push 1000us b 0: write 512K
        push 1000us c 0: write 64K
        look 1000us
        look 1318us
        look 1319us
        look 1395us";
    // 750 us were available and `a` took 534.288. `b` takes as much, and `c`, which takes 75.536 us, comes
    // after `b`.
    check(
        Some(MODEL),
        script,
        "a at once
         look again at 1319us
         look again at 1319us
         b at 1319us
         look again at 1395us
         c at 1395us",
    );
}

#[test]
fn a_late_read_is_served_before_waiting_writes() {
    let script = "
        push 1000us w1 1: write 512K
        push 1000us w2 1: write 512K
        push 1000us w3 1: write 512K
        look 1000us
        push 1200us r 0: read 4K
        look 1200us
        look 1400us";
    check(
        Some(MODEL),
        script,
        "w1 at once
         look again at 1319us
         r at 1200us
         look again at 1333us
         w2 at 1400us
         look again at 1535us",
    );
}

#[test]
fn beside_other_readers_a_class_has_its_part_of_the_inflight_limit() {
    // The quota is a quarter of 3 ms, since the disk is not measured: one request of 512 KiB at a time once
    // there was a read. 100 ms after that read the quota is the whole limit again.
    let script = "
        shares 1 333
        push 1000us w1 1: write 512K
        push 1000us w2 1: write 512K
        push 1100us r 0: read 4K
        push 1200us w3 1: write 512K
        look 1200us
        push 101200us w4 1: write 512K
        look 101200us";
    check(
        None,
        script,
        "w1 at once
         w2 at once
         r at once
         look again at 1950us
         w3 at 101200us
         w4 at 101200us",
    );
}

#[test]
fn shares_decide_between_those_that_wait() {
    let script = "
        shares 0 1000
        shares 1 250
        push 1000us big 2: write 512K
        push 1000us a1 0: read 256K
        push 1000us b1 1: read 256K
        push 1000us a2 0: read 256K
        push 1000us b2 1: read 256K
        push 1000us a3 0: read 256K
        push 1000us a4 0: read 256K
        push 1000us a5 0: read 256K
        look 1000us
        look 1057us
        look 1330us
        look 1602us
        look 1874us
        look 2146us
        look 2419us
        look 2691us";
    check(
        Some(MODEL),
        script,
        "big at once
         look again at 1057us
         a1 at 1057us
         look again at 1329us
         b1 at 1330us
         look again at 1535us
         a2 at 1602us
         look again at 1873us
         a3 at 1874us
         look again at 2146us
         a4 at 2146us
         look again at 2351us
         a5 at 2419us
         look again at 2690us
         b2 at 2691us",
    );
}

#[test]
fn a_cap_holds_though_the_disk_is_idle() {
    let script = "
        cap 1 1
        push 1000000us a 1: write 512K
        push 1000000us b 1: write 512K
        push 1000000us c 1: write 512K
        push 1000000us d 1: write 4K
        look 1100000us
        look 1101000us
        push 1200000us r 0: read 4K
        look 1200000us
        look 1500001us";
    // The cap is 1 MiB per second with a burst of 1 MiB. `c` exceeds it by half a MiB, for which `d` waits.
    // The other class does not wait.
    check(
        Some(MODEL),
        script,
        "a at once
         b at 1100000us
         look again at 1100319us
         c at 1101000us
         look again at 1500001us
         r at 1200000us
         look again at 1500001us
         d at 1500001us",
    );
}

#[test]
fn a_disk_that_does_not_answer_gets_no_more() {
    let mut script = String::from("push 1000us x 0: write 16384K\n");
    (0..30).for_each(|_| script.push_str("push 1000us w 0: write 512K\n"));
    script.push_str("look 1000us\n done 3000us x\n look 3000us\n");
    let said = play(None, &script);
    let started = said.lines().filter(|line| line.starts_with("w at")).count();
    assert!((4..=6).contains(&started), "four latency goals are 3 MB: {said}");
}

#[test]
fn no_result_waits_for_memory_for_ever() {
    let disk = Arc::new(Disk::new(DiskOptions::default()));
    let mut queue = IoQueue::new(disk);
    let bytes = iosched::REQUEST_BYTES_MAX;
    let mut held = vec![];
    while let Some(ticket) = queue.start(0, Direction::Read, bytes, 0) {
        held.push(ticket);
    }
    queue.push(1, Direction::Write, bytes, 0, "write");
    assert!(queue.next(iosched::STUCK_NS - 1).is_none(), "there is no room");
    assert!(queue.wake_at_ns().is_some());
    let (who, ticket) = queue.next(iosched::STUCK_NS).expect("it has waited long enough");
    assert_eq!(who, "write");
    let moved = Completion::Moved { bytes, is_direct: true };
    queue.complete(ticket, moved, iosched::STUCK_NS);
    held.into_iter().for_each(|ticket| queue.complete(ticket, moved, iosched::STUCK_NS));
}

#[test]
fn what_a_request_did_not_move_goes_back_to_the_disk_and_to_the_cap() {
    let script = |end: &str| {
        format!(
            "cap 0 1
             push 1000000us a 0: read 512K
             {end}
             push 1000011us b 0: read 512K
             look 1000011us"
        )
    };
    // The second request may use the remainder of the burst of 1 MiB, but of the disk's 750 us only 215.712
    // are left.
    check(Some(MODEL), &script("done 1000010us a"), "a at once\n look again at 1000319us");
    check(Some(MODEL), &script("done 1000010us a: 4K"), "a at once\n b at once");
    check(Some(MODEL), &script("gone 1000010us a"), "a at once\n b at once");
}

#[test]
fn a_cap_counts_moved_bytes() {
    let disk = Arc::new(Disk::new(DiskOptions::default()));
    disk.set_cap(0, Some(1 << 20));
    let mut queue: IoQueue<()> = IoQueue::new(disk);
    // At one instant: a hundred requests that ask for 1 MiB each and get 1 KiB.
    for _ in 0..100 {
        let ticket = queue.start(0, Direction::Read, 1 << 20, 1_000_000_000).expect("the cap has room");
        queue.complete(ticket, Completion::Moved { bytes: 1 << 10, is_direct: true }, 1_000_000_010);
    }
    let ticket = queue.start(0, Direction::Read, 1 << 20, 1_000_000_000).expect("the cap has room");
    queue.complete(ticket, Completion::Cancelled, 1_000_000_010);
    let stats = *queue.stats(0);
    assert_eq!((stats.reads, stats.read_bytes), (100, 100 << 10));
    assert_eq!(stats.consumed_ns, 100 * DiskModel::NOMINAL.cost_ns(Direction::Read, 1 << 10));
    assert_eq!(queue.disk().traffic().read_bytes, 100 << 10);
    assert_eq!((stats.executing, queue.disk().inflight_ns()), (0, 0));
}
