//! Sockets in every world: bytes arrive as sent, and ends and errors are reported correctly.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;

use runtime::{CpuGroup, JoinHandle, ListenOptions, Listener, Shard, Stream};

use crate::worlds::in_every_world;

const GROUP: CpuGroup = CpuGroup::Statement;

pub fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub fn listen(shard: &Shard) -> Listener {
    shard.net().listen(any_port(), ListenOptions::default()).unwrap()
}

/// Both ends of a new connection: the client and the server.
pub async fn pair(shard: &Shard) -> (Stream, Stream) {
    let listener = listen(shard);
    let client = shard.net().connect(listener.local_addr()).await.unwrap();
    let server = shard.net().adopt(listener.accept().await.unwrap()).unwrap();
    assert_eq!(client.local_addr().unwrap(), server.peer_addr());
    assert_eq!(server.local_addr().unwrap(), client.peer_addr());
    (client, server)
}

/// Returns all received bytes to the sender, until the end.
pub async fn echo(stream: Stream) -> io::Result<u64> {
    let (mut bytes, mut sum) = (Vec::new(), 0);
    while stream.read(&mut bytes, 4096).await? > 0 {
        stream.write_all(&bytes).await?;
        sum += bytes.len() as u64;
        bytes.clear();
    }
    Ok(sum)
}

/// Accepts connections and echoes their bytes until the listener is closed.
pub fn echo_server(shard: &Shard, listener: Rc<Listener>) -> JoinHandle<()> {
    let shard = shard.clone();
    shard.clone().spawn(GROUP, async move {
        while let Some(accepted) = listener.accept().await {
            let stream = shard.net().adopt(accepted).unwrap();
            shard.spawn(GROUP, async move { drop(echo(stream).await) }).detach();
        }
    })
}

pub async fn read_exactly(stream: &Stream, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let left = len - bytes.len();
        let got = stream.read(&mut bytes, left).await.unwrap();
        assert!(got > 0, "the end after {} of {len} bytes", bytes.len());
    }
    bytes
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 251 + at + seed) as u8).collect()
}

#[test]
fn many_connections_get_their_own_messages_back() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let listener = Rc::new(listen(&shard));
        let server = echo_server(&shard, Rc::clone(&listener));
        let addr = listener.local_addr();
        let clients: Vec<_> = (0..64_usize)
            .map(|number| {
                let shard = shard.clone();
                shard.clone().spawn(GROUP, async move {
                    let stream = shard.net().connect(addr).await.unwrap();
                    for round in 0..5 {
                        let messages: Vec<_> = (0..8).map(|at| pattern(64, number + round + at)).collect();
                        for message in &messages {
                            stream.write_all(message).await.unwrap();
                        }
                        for message in &messages {
                            assert_eq!(&read_exactly(&stream, 64).await, message);
                        }
                    }
                })
            })
            .collect();
        for client in clients {
            client.await;
        }
        listener.close();
        server.await;
        let stats = shard.stats();
        assert_eq!((stats.accepted, stats.connected, stats.accept_failures), (64, 64, 0));
        assert_eq!(stats.socket_written_bytes, 2 * 64 * 5 * 8 * 64);
        assert_eq!(stats.socket_read_bytes, stats.socket_written_bytes);
        while shard.stats().open_sockets > 0 {
            shard.sleep_us(100).await;
        }
    }
    in_every_world("net-echo", test);
}

#[test]
fn one_byte_at_a_time() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let (client, server) = pair(&shard).await;
        client.set_nodelay(true).unwrap();
        let bytes = pattern(300, 0);
        let sent = bytes.clone();
        let (writer, other) = (client, shard.clone());
        let writing = shard.spawn(GROUP, async move {
            for byte in &sent {
                writer.write_all(std::slice::from_ref(byte)).await.unwrap();
                other.yield_now().await;
            }
            writer
        });
        let mut got = Vec::new();
        let mut one = [0_u8];
        loop {
            match server.try_read(&mut one) {
                Ok(0) => break,
                Ok(_) => got.push(one[0]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if got.len() == bytes.len() {
                        break;
                    }
                    server.readable().await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(got, bytes);
        drop(writing.await);
        assert_eq!(server.read(&mut Vec::new(), 10).await.unwrap(), 0);
        assert_eq!(server.read(&mut Vec::new(), 10).await.unwrap(), 0, "the end stays");
    }
    in_every_world("net-bytewise", test);
}

/// Two tasks at each end, one per direction, with buffers that are full most of the time.
pub async fn both_ways(shard: Shard, len: usize, buffer_bytes: u32) {
    let (client, server) = pair(&shard).await;
    let tasks: Vec<_> = [Rc::new(client), Rc::new(server)]
        .into_iter()
        .enumerate()
        .map(|(side, stream)| {
            stream.set_buffer_bytes(buffer_bytes).unwrap();
            let reader = Rc::clone(&stream);
            let writing = shard.spawn(GROUP, async move {
                for piece in pattern(len, side).chunks(100_000) {
                    // Vectored writes, of which the first part is empty.
                    let mut at = 0;
                    while at < piece.len() {
                        let middle = at + (piece.len() - at) / 2;
                        let parts = [&[], &piece[at..middle], &piece[middle..]].map(IoSlice::new);
                        match stream.try_write_vectored(&parts) {
                            Ok(put) => at += put,
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                                stream.writable().await;
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
                stream.shutdown_write().unwrap();
            });
            let reading = shard.spawn(GROUP, async move {
                let mut bytes = Vec::new();
                while reader.read(&mut bytes, 16 << 10).await.unwrap() > 0 {}
                assert!(bytes == pattern(len, 1 - side), "side {side} got {} bytes", bytes.len());
            });
            [writing, reading]
        })
        .collect();
    for task in tasks.into_iter().flatten() {
        task.await;
    }
    assert_eq!(shard.stats().open_sockets, 0);
}

#[test]
fn both_directions_at_once_through_small_buffers() {
    in_every_world("net-both-ways", |shard: Shard, _dir| both_ways(shard, 200_000, 3000));
}

#[test]
fn half_a_close_leaves_the_other_direction() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let (client, server) = pair(&shard).await;
        client.write_all(b"question").await.unwrap();
        client.shutdown_write().unwrap();
        assert_eq!(client.try_write(b"more").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let mut question = Vec::new();
        while server.read(&mut question, 3).await.unwrap() > 0 {}
        assert_eq!(question, b"question");
        shard.sleep_us(1000).await;
        server.write_all(b"answer").await.unwrap();
        drop(server);
        assert_eq!(read_exactly(&client, 6).await, b"answer");
        assert_eq!(client.read(&mut Vec::new(), 1).await.unwrap(), 0);
    }
    in_every_world("net-half-close", test);
}

#[test]
fn a_reset_ends_reading_and_writing_with_an_error() {
    async fn test(shard: Shard, _dir: PathBuf) {
        // A peer that closes with unread bytes resets the connection.
        let (client, server) = pair(&shard).await;
        client.write_all(b"never read").await.unwrap();
        server.readable().await;
        let client = Rc::new(client);
        let reader = Rc::clone(&client);
        let reading = shard.spawn(GROUP, async move { reader.read(&mut Vec::new(), 10).await });
        shard.sleep_us(500).await;
        drop(server);
        assert_eq!(reading.await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(client.try_write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        drop(client);

        // A client that writes to a closed peer gets an error eventually, even while it waits for buffer
        // space.
        let (client, server) = pair(&shard).await;
        let writing = shard.spawn(GROUP, async move { client.write_all(&vec![7; 50 << 20]).await });
        read_exactly(&server, 1000).await;
        drop(server);
        let kind = writing.await.unwrap_err().kind();
        assert!(matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{kind}");
        assert_eq!(shard.stats().open_sockets, 0);
    }
    in_every_world("net-reset", test);
}

#[test]
fn waiting_tasks_end_by_cancel_and_by_shutdown() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let (client, server) = pair(&shard).await;
        let client = Rc::new(client);
        let reader = Rc::clone(&client);
        let waiting = shard.spawn(GROUP, async move { reader.read(&mut Vec::new(), 10).await.is_ok() });
        shard.sleep_us(300).await;
        assert_eq!(waiting.cancel().await, None);
        // Another task may wait afterwards.
        let reader = Rc::clone(&client);
        let waiting = shard.spawn(GROUP, async move { reader.read(&mut Vec::new(), 10).await });
        shard.sleep_us(300).await;
        client.shutdown().unwrap();
        assert_eq!(waiting.await.unwrap(), 0);
        assert!(client.write_all(b"x").await.is_err());
        assert_eq!(server.read(&mut Vec::new(), 1).await.unwrap(), 0);
        drop((client, server));

        // The stream is dropped with the task that waits.
        let (client, server) = pair(&shard).await;
        let waiting = shard.spawn(GROUP, async move { client.read(&mut Vec::new(), 10).await.is_ok() });
        shard.sleep_us(300).await;
        drop(waiting);
        assert_eq!(server.read(&mut Vec::new(), 1).await.unwrap(), 0);
        drop(server);
        assert_eq!(shard.stats().open_sockets, 0);
    }
    in_every_world("net-cancel", test);
}

#[test]
fn one_shard_accepts_and_another_serves() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let listener = listen(&shard);
        let addr = listener.local_addr();
        for target in 0..shard.shard_count() {
            let client = shard.net().connect(addr).await.unwrap();
            let accepted = listener.accept().await.unwrap();
            assert_eq!(accepted.peer_addr(), client.local_addr().unwrap());
            let served = shard.call(target, GROUP, move |there| async move {
                let stream = there.net().adopt(accepted).unwrap();
                assert_eq!(there.stats().open_sockets, if there.id() == 0 { 2 } else { 1 });
                echo(stream).await.unwrap()
            });
            client.write_all(&pattern(10_000, 3)).await.unwrap();
            assert_eq!(read_exactly(&client, 10_000).await, pattern(10_000, 3));
            client.shutdown_write().unwrap();
            assert_eq!(served.await, Ok(10_000));
            assert_eq!(client.read(&mut Vec::new(), 1).await.unwrap(), 0);
        }
        // A connection that is not adopted is closed.
        let client = shard.net().connect(addr).await.unwrap();
        drop(listener.accept().await.unwrap());
        assert_eq!(client.read(&mut Vec::new(), 1).await.unwrap(), 0);
    }
    in_every_world("net-adopt", test);
}

#[test]
fn a_closed_listener_returns_an_error_and_refuses() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let listener = Rc::new(listen(&shard));
        let addr = listener.local_addr();
        let taken = shard.net().listen(addr, ListenOptions::default()).unwrap_err();
        assert!(taken.is_address_in_use() && taken.to_string().contains(&addr.to_string()), "{taken}");
        let acceptor = Rc::clone(&listener);
        let accepting = shard.spawn(GROUP, async move { acceptor.accept().await.is_none() });
        shard.sleep_us(500).await;
        listener.close();
        assert!(accepting.await);
        assert!(listener.accept().await.is_none());
        let refused = shard.net().connect(addr).await.unwrap_err();
        assert!(
            refused.is_refused() && refused.to_string().contains("no process listens there"),
            "{refused}"
        );
        drop(listener);
        let again = shard.net().listen(addr, ListenOptions::default()).unwrap();
        assert_eq!(again.local_addr(), addr);
    }
    in_every_world("net-close", test);
}

#[test]
fn listeners_of_several_shards_may_share_a_port() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
        let first = Rc::new(shard.net().listen(any_port(), options).unwrap());
        let second = Rc::new(shard.net().listen(first.local_addr(), options).unwrap());
        let servers = [&first, &second].map(|listener| echo_server(&shard, Rc::clone(listener)));
        for _ in 0..20 {
            let client = shard.net().connect(first.local_addr()).await.unwrap();
            client.write_all(b"hello").await.unwrap();
            assert_eq!(read_exactly(&client, 5).await, b"hello");
        }
        first.close();
        second.close();
        for server in servers {
            server.await;
        }
    }
    in_every_world("net-reuse-port", test);
}

#[test]
fn a_busy_shard_looks_at_its_sockets() {
    async fn test(shard: Shard, _dir: PathBuf) {
        let (client, server) = pair(&shard).await;
        let serving = shard.spawn(GROUP, echo(server));
        let busy: Vec<_> = (0..20)
            .map(|_| {
                let shard = shard.clone();
                shard.clone().spawn(CpuGroup::Compaction, async move {
                    loop {
                        shard.yield_now().await;
                    }
                })
            })
            .collect();
        for round in 0..20 {
            client.write_all(&pattern(100, round)).await.unwrap();
            assert_eq!(read_exactly(&client, 100).await, pattern(100, round));
        }
        for task in busy {
            let never: Option<()> = task.cancel().await;
            assert!(never.is_none());
        }
        drop(client);
        assert_eq!(serving.await.unwrap(), 2000);
    }
    in_every_world("net-busy", test);
}
