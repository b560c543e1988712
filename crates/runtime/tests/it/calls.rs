//! Calls between shards.

use std::path::PathBuf;
use std::rc::Rc;

use runtime::{CpuGroup, Shard};

use crate::worlds::{SHARDS, in_every_world};

#[test]
fn a_call_runs_there_and_answers_here() {
    async fn test(shard: Shard, _dir: PathBuf) {
        assert_eq!((shard.id(), shard.shard_count()), (0, SHARDS));
        for target in 0..SHARDS {
            let there = shard.call(target, CpuGroup::Statement, |there| async move {
                there.sleep_us(10).await;
                there.id()
            });
            assert_eq!(there.await, Ok(target));
        }
        let sent: Vec<_> = (0..3000_u32)
            .map(|at| shard.call(at % SHARDS, CpuGroup::Statement, move |_| async move { at }))
            .collect();
        for (at, reply) in sent.into_iter().enumerate() {
            assert_eq!(reply.await, Ok(at as u32));
        }
    }
    in_every_world("calls", test);
}

#[test]
fn a_call_continues_without_a_waiting_caller() {
    async fn test(shard: Shard, _dir: PathBuf) {
        drop(shard.call(1, CpuGroup::Statement, |there| async move {
            there.sleep_us(100).await;
            there.set_local(Rc::new(42_u8));
        }));
        loop {
            let seen =
                shard.call(1, CpuGroup::Statement, |there| async move { there.local::<u8>().is_some() });
            if seen.await.unwrap() {
                break;
            }
            shard.sleep_us(50).await;
        }
    }
    in_every_world("unawaited", test);
}

#[test]
fn shards_call_each_other_in_a_ring() {
    async fn test(shard: Shard, _dir: PathBuf) {
        async fn hop(shard: Shard, left: u32) -> u32 {
            if left == 0 {
                return shard.id();
            }
            let next = (shard.id() + 1) % shard.shard_count();
            let rest = move |there| -> std::pin::Pin<Box<dyn Future<Output = u32>>> {
                Box::pin(hop(there, left - 1))
            };
            shard.call(next, CpuGroup::Statement, rest).await.unwrap()
        }
        assert_eq!(hop(shard, 100).await, 100 % SHARDS);
    }
    in_every_world("ring", test);
}
