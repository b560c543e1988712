//! Listener of the admin API and the metrics that still answers when the process has reached its limit of
//! open files.
//!
//! At the limit, `accept` fails, and the client would wait in the kernel's queue until it gives up. The
//! listener therefore holds one file descriptor in reserve: it closes it, accepts, answers 503 with advice,
//! and opens it again.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long the request is waited for before it is refused.
const REQUEST_WAIT: Duration = Duration::from_millis(500);
/// Pause after a failed `accept`.
const PAUSE: Duration = Duration::from_millis(200);

pub struct Listener {
    socket: TcpListener,
    reserve: Option<File>,
}

impl Listener {
    pub fn new(socket: TcpListener) -> Self {
        Self { socket, reserve: reserve() }
    }

    /// Accepts the next client with the reserved descriptor and refuses it with 503.
    async fn refuse_next(&mut self) {
        drop(self.reserve.take());
        match tokio::time::timeout(PAUSE, self.socket.accept()).await {
            Ok(Ok((mut stream, _))) => {
                // A failed answer is ignored: the client has disconnected.
                let _ = refuse(&mut stream).await;
            }
            // Another thread took the descriptor, or the client has disconnected.
            _ => tokio::time::sleep(PAUSE).await,
        }
        self.reserve = reserve();
    }
}

fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

async fn refuse(stream: &mut TcpStream) -> io::Result<()> {
    // Closing the socket with an unread request would discard the answer.
    let mut request = [0; 4096];
    let _ = tokio::time::timeout(REQUEST_WAIT, stream.read(&mut request)).await;
    let body = "{\"error\":\"the node has reached its limit of open files and connections (RLIMIT_NOFILE); raise it with ulimit \
                -n or LimitNOFILE of systemd, and restart the node\"}";
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn is_too_many(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

impl axum::serve::Listener for Listener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if is_too_many(&error) => self.refuse_next().await,
                // The client has disconnected, or the kernel is short of memory.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_cannot_be_served_gets_an_error() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let mut listener = Listener::new(socket);
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /v1/info HTTP/1.1\r\n\r\n").await.unwrap();
        listener.refuse_next().await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("ulimit -n"), "{answer}");
        assert!(listener.reserve.is_some());
        // Without a client, the call ends after a pause.
        listener.refuse_next().await;
    }
}
