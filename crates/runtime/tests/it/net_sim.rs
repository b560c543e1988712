//! The simulated network: the same seed gives the same transcript, and each fault has its documented effect.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use base::HashSet;
use runtime::sim::{FaultPlan, SimOptions, SimWorld};
use runtime::{CpuGroup, ListenOptions, Shard};

use crate::net::{echo_server, listen, pair, read_exactly};

const GROUP: CpuGroup = CpuGroup::Statement;

fn world(seed: u64, faults: FaultPlan) -> SimWorld {
    SimWorld::new(SimOptions { seed, shards: 2, faults, ..SimOptions::default() })
}

/// The reads of three connections to an echo server, with client number, time and result.
async fn transcript(shard: Shard) -> Vec<String> {
    let lines = Rc::new(RefCell::new(Vec::new()));
    let listener = Rc::new(listen(&shard));
    let server = echo_server(&shard, Rc::clone(&listener));
    let clients: Vec<_> = (0..3_u8)
        .map(|number| {
            let (shard, lines, addr) = (shard.clone(), Rc::clone(&lines), listener.local_addr());
            shard.clone().spawn(GROUP, async move {
                let stream = shard.net().connect(addr).await.unwrap();
                let mut bytes = Vec::new();
                let sent = stream.write_all(&[number; 5000]).await;
                lines.borrow_mut().push(format!("{} {number} sent {sent:?}", shard.now_us()));
                while bytes.len() < 5000 {
                    let got = stream.read(&mut bytes, 1000).await;
                    lines.borrow_mut().push(format!("{} {number} {got:?}", shard.now_us()));
                    if !matches!(got, Ok(1..)) {
                        break;
                    }
                }
                assert!(bytes.iter().all(|byte| *byte == number));
            })
        })
        .collect();
    for client in clients {
        client.await;
    }
    listener.close();
    server.await;
    lines.take()
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    let mut different = HashSet::default();
    for seed in 0..60 {
        let run = || {
            let faults = FaultPlan {
                short_transfer: if seed % 3 == 0 { 0.2 } else { 0.0 },
                net_reset: if seed % 2 == 0 { 0.05 } else { 0.0 },
                ..FaultPlan::default()
            };
            let world = world(seed, faults);
            let node = world.start_node(|_| async {}).unwrap();
            let lines = world.block_on(&node, 0, transcript).unwrap();
            (lines, world.schedule_hash())
        };
        let first = run();
        assert_eq!(first, run(), "seed {seed}");
        different.insert(first.0);
    }
    assert_eq!(different.len(), 60, "each seed has a transcript of its own");
}

#[test]
fn bytes_arrive_in_pieces_and_late() {
    let mut pieces = HashSet::default();
    for seed in 0..40 {
        let world = world(seed, FaultPlan::default());
        let node = world.start_node(|_| async {}).unwrap();
        let got = world.block_on(&node, 0, |shard| async move {
            let (client, server) = pair(&shard).await;
            client.write_all(&[1; 1000]).await.unwrap();
            let sent_us = shard.now_us();
            assert_eq!(server.try_read(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            let first = server.read(&mut Vec::new(), 1000).await.unwrap();
            assert!(shard.now_us() >= sent_us + FaultPlan::default().latency_us_min);
            read_exactly(&server, 1000 - first).await;
            first
        });
        pieces.insert(got.unwrap());
    }
    assert!(pieces.contains(&1000) && pieces.len() > 10, "{pieces:?}");
}

#[test]
fn connections_break_by_plan_and_only_by_plan() {
    let mut broken = 0;
    for seed in 0..40 {
        let world = world(seed, FaultPlan { net_reset: 0.2, ..FaultPlan::default() });
        let node = world.start_node(|_| async {}).unwrap();
        let lines = world.block_on(&node, 0, transcript).unwrap();
        broken += lines.iter().filter(|line| line.contains("ConnectionReset")).count();
        world.set_faults(|faults| faults.net_reset = 0.0);
        let lines = world.block_on(&node, 0, transcript).unwrap();
        assert!(!lines.iter().any(|line| line.contains("Err")), "seed {seed}: {lines:?}");
    }
    assert!(broken > 20, "{broken} of 120");
}

#[test]
fn a_vanished_peer_sends_nothing() {
    let world = world(1, FaultPlan::default());
    let node = world.start_node(|_| async {}).unwrap();
    let (client, server) = world.block_on(&node, 0, |shard| async move { pair(&shard).await }).unwrap();
    world.set_faults(|faults| faults.net_silent_close = 1.0);
    drop(server);
    world.set_faults(|faults| faults.net_silent_close = 0.0);
    let outcome = world.block_on(&node, 0, move |shard| async move {
        let client = Rc::new(client);
        let (reader, writer) = (Rc::clone(&client), Rc::clone(&client));
        let reading = shard.spawn(GROUP, async move { reader.read(&mut Vec::new(), 1).await.is_ok() });
        let writing = shard.spawn(GROUP, async move { writer.write_all(&[0; 1 << 20]).await.is_ok() });
        shard.sleep_us(3_600_000_000).await;
        let waiting = (reading.is_finished(), writing.is_finished());
        let wrote = shard.stats().socket_written_bytes;
        (waiting, wrote, reading.cancel().await, writing.cancel().await)
    });
    assert_eq!(outcome.unwrap(), ((false, false), 64 << 10, None, None));
}

/// Idle connections after a probe and four more, others when the system no longer sends the bytes again.
#[test]
fn a_peer_that_vanished_is_noticed_by_keepalive() {
    for (writes, expected_s) in [(false, 300), (true, 1224)] {
        let world = world(2, FaultPlan::default());
        let node = world.start_node(|_| async {}).unwrap();
        let (client, server) = world.block_on(&node, 0, |shard| async move { pair(&shard).await }).unwrap();
        let kept = world.block_on(&node, 0, move |shard| async move {
            server.set_keepalive(Some(60)).unwrap();
            // A peer that is there answers the probes.
            shard.sleep_us(3_600_000_000).await;
            server.write_all(b"still here").await.unwrap();
            // Arrives before the peer vanishes.
            shard.sleep_us(1_000_000).await;
            server
        });
        let server = kept.unwrap();
        world.set_faults(|faults| faults.net_vanish = 1.0);
        client.shutdown().unwrap();
        assert_eq!(client.try_write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        drop(client);
        let noticed_s = world.block_on(&node, 0, move |shard| async move {
            let began_us = shard.now_us();
            if writes {
                server.write_all(b"x").await.unwrap();
            }
            let error = server.read(&mut Vec::new(), 1).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
            (shard.now_us() - began_us) / 1_000_000
        });
        assert_eq!(noticed_s.unwrap(), expected_s, "writes: {writes}");
    }
}

#[test]
fn nodes_talk_and_a_killed_one_frees_its_address() {
    let world = world(9, FaultPlan::default());
    let addr = SocketAddr::from(([10, 0, 0, 1], 9042));
    let serve = move |shard: Shard| async move {
        if shard.id() == 1 {
            let anywhere = SocketAddr::from(([0, 0, 0, 0], addr.port()));
            let listener = shard.net().listen(anywhere, ListenOptions::default()).unwrap();
            echo_server(&shard, Rc::new(listener)).detach();
        }
    };
    for _ in 0..2 {
        world.start_node(serve).unwrap();
        let client = world.start_node(|_| async {}).unwrap();
        let answer = client.remote().call(0, GROUP, move |shard| async move {
            let stream = shard.net().connect(addr).await.unwrap();
            stream.write_all(b"to another node").await.unwrap();
            read_exactly(&stream, 15).await
        });
        assert_eq!(world.run_until(answer).unwrap(), b"to another node");
        world.kill();
    }
}
