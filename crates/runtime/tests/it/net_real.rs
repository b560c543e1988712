//! Sockets on real back ends: sleeping and waking, thousands of idle connections, exhausted descriptors.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc;

use runtime::{BackendChoice, CpuGroup, ListenOptions, Listener, Runtime, RuntimeOptions, Shard};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::net::{any_port, both_ways, echo, echo_server, listen};
use crate::worlds::{REAL, start};

const GROUP: CpuGroup = CpuGroup::Statement;

/// Starts an echo server on shard 0; returns its address.
fn serve_echo(runtime: &Runtime) -> SocketAddr {
    let served = runtime.remote().call(0, GROUP, |shard| async move {
        let listener = Rc::new(listen(&shard));
        let addr = listener.local_addr();
        echo_server(&shard, listener).detach();
        addr
    });
    served.wait().unwrap()
}

fn stats(runtime: &Runtime) -> runtime::ShardStats {
    runtime.remote().call(0, GROUP, |shard| async move { shard.stats() }).wait().unwrap()
}

#[test]
fn ten_megabytes_each_way_through_small_buffers() {
    for backend in REAL {
        let Some(runtime) = start(backend) else { continue };
        let done = runtime.remote().call(0, GROUP, |shard| both_ways(shard, 10 << 20, 64 << 10));
        done.wait().unwrap();
        runtime.shutdown().unwrap();
    }
}

/// The shard sleeps before every message.
#[test]
fn a_sleeping_shard_is_woken_by_a_socket() {
    for backend in REAL {
        let options = RuntimeOptions { backend, idle_poll_us: 0, ..RuntimeOptions::default() };
        let Ok(runtime) = Runtime::start(options, |_| async {}) else {
            assert_eq!(backend, BackendChoice::IoUring);
            continue;
        };
        let mut client = TcpStream::connect(serve_echo(&runtime)).unwrap();
        client.set_nodelay(true).unwrap();
        let before = stats(&runtime);
        for round in 0..3000_u32 {
            for _ in 0..round % 97 * 20 {
                std::hint::spin_loop();
            }
            client.write_all(&round.to_be_bytes()).unwrap();
            let mut got = [0; 4];
            client.read_exact(&mut got).unwrap();
            assert_eq!(got, round.to_be_bytes());
        }
        let after = stats(&runtime);
        println!("{backend:?}: {} sleeps in 3000 round trips", after.parks - before.parks);
        assert!(after.parks - before.parks > 100, "the shard slept in between");
        runtime.shutdown().unwrap();
    }
}

/// The soft and the hard limit of open files.
fn limits_of_open_files() -> (u64, u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX))
}

fn set_limit_of_open_files(soft: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum }).unwrap();
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Runs a test in a process of its own, so that other tests do not disturb it.
fn alone(name: &str) {
    let this = std::env::current_exe().unwrap();
    let ran = Command::new(this).args(["--ignored", "--exact", "--nocapture", name]).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    print!("{text}");
    assert!(ran.status.success() && text.contains("1 passed"), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn idle_connections_cost_little() {
    alone("net_real::alone_idle_connections_cost_little");
}

#[test]
#[ignore = "run by the test above in a process of its own"]
fn alone_idle_connections_cost_little() {
    set_limit_of_open_files(limits_of_open_files().1.min(20_000));
    let connections = (limits_of_open_files().0 as usize / 2 - 200).min(5000);
    for backend in REAL {
        let Some(runtime) = start(backend) else { continue };
        let addr = serve_echo(&runtime);
        let first: Vec<_> = (0..200).map(|_| TcpStream::connect(addr).unwrap()).collect();
        let before_bytes = resident_bytes();
        let mut clients: Vec<_> = (200..connections).map(|_| TcpStream::connect(addr).unwrap()).collect();
        while stats(&runtime).open_sockets < connections as u64 {}
        let each_bytes = resident_bytes().saturating_sub(before_bytes) / clients.len() as u64;
        let idle = stats(&runtime);
        // Uses the timer of a sleeping shard, so that the test thread needs no clock.
        runtime.remote().call(1, GROUP, |shard| async move { shard.sleep_us(300_000).await }).wait().unwrap();
        let later = stats(&runtime);
        println!(
            "{backend:?}: {connections} idle connections, {each_bytes} bytes of ours each, {} turns in 300 ms",
            later.turns - idle.turns
        );
        assert!(each_bytes < 2000, "task, stream and entry");
        assert!(later.turns - idle.turns < 50, "an idle shard sleeps");
        for client in clients.iter_mut().step_by(97) {
            client.write_all(b"still there").unwrap();
            let mut got = [0; 11];
            client.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"still there");
        }
        drop((first, clients));
        while stats(&runtime).open_sockets > 0 {}
        runtime.shutdown().unwrap();
    }
}

#[test]
fn a_listener_outlives_a_lack_of_descriptors() {
    alone("net_real::alone_a_listener_outlives_a_lack_of_descriptors");
}

#[test]
#[ignore = "run by the test above in a process of its own"]
fn alone_a_listener_outlives_a_lack_of_descriptors() {
    for backend in REAL {
        let Some(runtime) = start(backend) else { continue };
        let limit = limits_of_open_files().0;
        let listening = runtime.remote().call(0, GROUP, |shard: Shard| async move {
            let listener = shard.net().listen(any_port(), ListenOptions::default()).unwrap();
            let addr = listener.local_addr();
            shard.set_local(Rc::new(listener));
            addr
        });
        let addr = listening.wait().unwrap();
        let mut clients: Vec<_> = (0..20).map(|_| TcpStream::connect(addr).unwrap()).collect();
        set_limit_of_open_files(200);
        let hogs: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        let (sender, accepted) = mpsc::channel();
        let accepting = runtime.remote().call(0, GROUP, move |shard: Shard| async move {
            let listener: Rc<Listener> = shard.local().unwrap();
            for _ in 0..20 {
                let stream = shard.net().adopt(listener.accept().await.unwrap()).unwrap();
                shard.spawn(GROUP, async move { drop(echo(stream).await) }).detach();
                sender.send(()).unwrap();
            }
        });
        runtime.remote().call(1, GROUP, |shard| async move { shard.sleep_us(300_000).await }).wait().unwrap();
        assert!(accepted.try_recv().is_err(), "there is no descriptor for it");
        let failures = stats(&runtime).accept_failures;
        assert!((1..=20).contains(&failures), "{backend:?}: {failures} tries in 300 ms");
        println!("{backend:?}: {failures} tries in 300 ms without descriptors");
        drop(hogs);
        set_limit_of_open_files(limit);
        accepting.wait().unwrap();
        for client in &mut clients {
            client.write_all(b"late").unwrap();
            let mut got = [0; 4];
            client.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"late");
        }
        drop(clients);
        runtime.shutdown().unwrap();
    }
}
