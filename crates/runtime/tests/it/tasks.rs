//! Tasks and timers of one shard.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use runtime::{BackendChoice, CpuGroup, Shard};

use crate::worlds::{in_every_world, start};

#[test]
fn timers_fire_in_order_and_not_early() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = (0..2000_u64)
            .map(|at| {
                let after_us = at * 7919 % 2000 * 10;
                let (shard, order, start_us) = (shard.clone(), Rc::clone(&order), shard.now_us());
                shard.clone().spawn(CpuGroup::Background, async move {
                    shard.sleep_us(after_us).await;
                    assert!(shard.now_us() >= start_us + after_us);
                    order.borrow_mut().push(shard.now_us());
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(order.borrow().len(), 2000);
        assert!(order.borrow().is_sorted());
    }
    in_every_world("timers", test);
}

#[test]
fn a_turn_settles_even_beside_endless_work() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let stops = Rc::new(Cell::new(false));
        for group in [CpuGroup::Statement, CpuGroup::Compaction] {
            let (on, stops) = (shard.clone(), Rc::clone(&stops));
            let endless = async move {
                while !stops.get() {
                    on.yield_now().await;
                }
            };
            shard.spawn(group, endless).detach();
        }
        for _ in 0..20 {
            let writer = {
                let shard = shard.clone();
                shard.clone().spawn(CpuGroup::CommitLog, async move { shard.settled().await })
            };
            for _ in 0..10 {
                shard.spawn(CpuGroup::Statement, async {}).detach();
            }
            writer.await;
        }
        stops.set(true);
    }
    in_every_world("settled", test);
}

#[test]
fn a_task_that_waits_for_the_turn_gathers_its_requests() {
    let Some(runtime) = start(BackendChoice::Threads) else { panic!("this back end works everywhere") };
    let gathered = runtime.remote().call(0, CpuGroup::Statement, |shard| async move {
        let requests = Rc::new(Cell::new(0));
        let writer = {
            let (shard, requests) = (shard.clone(), Rc::clone(&requests));
            shard.clone().spawn(CpuGroup::CommitLog, async move {
                shard.settled().await;
                requests.get()
            })
        };
        for _ in 0..10 {
            let requests = Rc::clone(&requests);
            shard.spawn(CpuGroup::Statement, async move { requests.set(requests.get() + 1) }).detach();
        }
        writer.await
    });
    assert_eq!(gathered.wait().unwrap(), 10);
    runtime.shutdown().unwrap();
}

#[test]
fn a_timer_set_for_later_does_not_delay_an_earlier_one() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let later = {
            let shard = shard.clone();
            shard.clone().spawn(CpuGroup::Background, async move { shard.sleep_us(3_600_000_000).await })
        };
        let start_us = shard.now_us();
        shard.sleep_us(5_000).await;
        assert!((5_000..2_000_000).contains(&(shard.now_us() - start_us)));
        assert_eq!(later.cancel().await, None);
    }
    in_every_world("earlier-timer", test);
}

#[test]
fn a_dropped_handle_cancels_and_a_detached_one_does_not() {
    struct OnDrop(Rc<Cell<u32>>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    async fn test(shard: Shard, _dir: PathBuf) {
        let (dropped, finished) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let make = || {
            let (guard, finished, shard) = (OnDrop(Rc::clone(&dropped)), Rc::clone(&finished), shard.clone());
            shard.clone().spawn(CpuGroup::Statement, async move {
                let _guard = guard;
                shard.sleep_us(1000).await;
                finished.set(finished.get() + 1);
            })
        };
        drop(make());
        make().detach();
        assert_eq!(make().cancel().await, None);
        make().await;
        shard.sleep_us(20_000).await;
        assert_eq!((dropped.get(), finished.get()), (4, 2));
        assert_eq!(shard.spawn(CpuGroup::Statement, async { 7 }).await, 7);
    }
    in_every_world("cancel", test);
}

#[test]
fn a_busy_group_does_not_starve_another() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let stop = Rc::new(Cell::new(false));
        let busy: Vec<_> = (0..50)
            .map(|_| {
                let (shard, stop) = (shard.clone(), Rc::clone(&stop));
                shard.clone().spawn(CpuGroup::Compaction, async move {
                    while !stop.get() {
                        shard.yield_now().await;
                    }
                })
            })
            .collect();
        for _ in 0..100 {
            shard.spawn(CpuGroup::Statement, async {}).await;
        }
        shard.sleep_us(100).await;
        stop.set(true);
        for task in busy {
            task.await;
        }
    }
    in_every_world("starve", test);
}

#[test]
fn need_preempt_comes_in_the_end() {
    async fn test(shard: Shard, _dir: PathBuf) {
        for _ in 0..10 {
            let mut asked = 0_u64;
            while !shard.need_preempt() {
                asked += 1;
                assert!(asked < 1_000_000_000, "the quota never ends");
            }
            shard.yield_now().await;
        }
    }
    in_every_world("preempt", test);
}

#[test]
fn locals_are_kept_by_type() {
    async fn test(shard: Shard, _dir: PathBuf) {
        assert!(shard.local::<String>().is_none());
        shard.set_local(Rc::new("one".to_owned()));
        shard.set_local(Rc::new(2_u32));
        shard.set_local(Rc::new("three".to_owned()));
        assert_eq!(*shard.local::<String>().unwrap(), "three");
        assert_eq!(*shard.local::<u32>().unwrap(), 2);
        assert_ne!(shard.random_u64(), shard.random_u64());
        assert!(shard.wall_us() > 1_600_000_000_000_000);
    }
    in_every_world("locals", test);
}
