//! Benchmark of sockets: shard 0 echoes on the first core, shard 1 sends on the second, over 64 connections.
//!
//! ```text
//! cargo run --release -p runtime --example echo [seconds per run]
//! ```
//!
//! For each back end, with 8 messages in flight per connection and with 1, it prints: the number of 64-byte
//! messages per second, the round-trip time of a batch (all messages in flight), and the CPU time of the
//! server's thread per message, which includes idle polling before the thread sleeps.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use runtime::{BackendChoice, CpuGroup, ListenOptions, Runtime, RuntimeOptions, Shard, Stream};

const CONNECTIONS: usize = 64;
const MESSAGE_BYTES: usize = 64;
const GROUP: CpuGroup = CpuGroup::Statement;

/// CPU time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

async fn serve(shard: Shard) -> SocketAddr {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = shard.net().listen(any_port, ListenOptions::default()).expect("a free port");
    let addr = listener.local_addr();
    let server = shard.clone();
    let accepting = async move {
        while let Some(accepted) = listener.accept().await {
            let stream = server.net().adopt(accepted).expect("a stream");
            stream.set_nodelay(true).expect("an open socket");
            server.spawn(GROUP, async move { drop(echo(stream).await) }).detach();
        }
    };
    shard.spawn(GROUP, accepting).detach();
    addr
}

async fn echo(stream: Stream) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match stream.try_read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(got) => stream.write_all(&bytes[..got]).await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.readable().await,
            Err(error) => return Err(error),
        }
    }
}

/// Sends batches of `depth` messages and waits for their echo, until the time is over. Returns the time of
/// each batch.
async fn ask(shard: Shard, addr: SocketAddr, depth: usize, run_us: u64) -> Vec<u32> {
    let times_us = Rc::new(RefCell::new(Vec::new()));
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        streams.push(shard.net().connect(addr).await.expect("the server listens"));
    }
    let end_us = shard.now_us() + run_us;
    let tasks: Vec<_> = (streams.into_iter())
        .map(|stream| {
            let (shard, times_us) = (shard.clone(), Rc::clone(&times_us));
            shard.clone().spawn(GROUP, async move {
                stream.set_nodelay(true).expect("an open socket");
                let batch = vec![7; depth * MESSAGE_BYTES];
                let mut answer = Vec::new();
                let mut sent_us = shard.now_us();
                while sent_us < end_us {
                    stream.write_all(&batch).await.expect("the server listens");
                    answer.clear();
                    while answer.len() < batch.len() {
                        assert!(stream.read(&mut answer, 4096).await.expect("the server answers") > 0);
                    }
                    let now_us = shard.now_us();
                    times_us.borrow_mut().push((now_us - sent_us) as u32);
                    sent_us = now_us;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    times_us.take()
}

fn main() {
    let run_s: u64 = std::env::args().nth(1).map_or(3, |text| text.parse().expect("seconds"));
    println!("back end    depth      msg/s   p50 us   p99 us   server CPU ns/msg");
    for backend in [BackendChoice::IoUring, BackendChoice::LinuxAio, BackendChoice::Threads] {
        let options = RuntimeOptions { shards: 2, pin: true, backend, ..RuntimeOptions::default() };
        let runtime = match Runtime::start(options, |_| async {}) {
            Ok(runtime) => runtime,
            Err(error) => {
                println!("{error}");
                continue;
            }
        };
        let kind = runtime.backend_in_use().kind.to_string();
        let remote = runtime.remote();
        let addr = remote.call(0, GROUP, serve).wait().expect("the server runs");
        for depth in [8, 1] {
            let server_ns = || remote.call(0, GROUP, |_| async { cpu_ns() }).wait().expect("the server runs");
            let before_ns = server_ns();
            let run_us = run_s * 1_000_000;
            let asked = remote.call(1, GROUP, move |shard| ask(shard, addr, depth, run_us)).wait();
            let spent_ns = server_ns() - before_ns;
            let mut times_us = asked.expect("the client runs");
            times_us.sort_unstable();
            let messages = (times_us.len() * depth) as u64;
            let quantile = |part: usize| times_us[(times_us.len() - 1) * part / 100];
            println!(
                "{kind:<12}{depth:>5}{:>11}{:>9}{:>9}{:>20}",
                messages / run_s,
                quantile(50),
                quantile(99),
                spent_ns / messages
            );
        }
        runtime.shutdown().expect("nothing panicked");
    }
}
