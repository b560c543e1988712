//! The connection of the page's console: a client of the node's own CQL port, like any other. Login,
//! permissions, masks, timeouts, limits, traces and the audit log therefore act as they do for drivers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use protocol::client::{RequestHead, ResponseMessage, write_request};
use protocol::{
    BODY_BYTES_MAX_DEFAULT, CqlError, EVENT_STREAM, Inbound, Outbound, ProtocolVersion, Request, Response,
    Side, Startup,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Why a statement has no result.
#[derive(Debug)]
pub enum ClientError {
    /// The node's answer to the statement or to the login.
    Refused(CqlError),
    /// The port cannot be reached, the connection broke, or the answer is no CQL.
    Broken(String),
}

fn broken(error: impl std::fmt::Display) -> ClientError {
    ClientError::Broken(format!("the connection of the console to the node's CQL port broke: {error}"))
}

/// A role and its password.
pub struct Login<'a> {
    pub role: &'a str,
    pub password: &'a str,
}

pub struct ConsoleClient {
    socket: TcpStream,
    inbound: Inbound,
    outbound: Outbound,
    stream: i16,
}

/// The address to connect to: for an unspecified address (`0.0.0.0`, `::`) the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

impl ConsoleClient {
    /// Connects, and logs in if the node asks for a role.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with `BadCredentials` if the role or its password is wrong or missing.
    pub async fn open(address: SocketAddr, login: Option<Login<'_>>) -> Result<Self, ClientError> {
        let socket = TcpStream::connect(reachable(address)).await.map_err(broken)?;
        socket.set_nodelay(true).map_err(broken)?;
        let inbound = Inbound::new(Side::Client, BODY_BYTES_MAX_DEFAULT);
        let mut client = Self { socket, inbound, outbound: Outbound::new(), stream: 0 };
        let options = vec![
            ("CQL_VERSION", "3.0.0"),
            ("DRIVER_NAME", "messina console"),
            ("DRIVER_VERSION", env!("CARGO_PKG_VERSION")),
        ];
        let answer = client.request(&Request::Startup(Startup { options }), false).await?.response;
        client.inbound.started(ProtocolVersion::V5, None);
        client.outbound.started(ProtocolVersion::V5, None);
        match (answer, login) {
            (Response::Ready, _) => Ok(client),
            (Response::Authenticate { .. }, None) => {
                let text = "the node asks for a role and its password".to_string();
                Err(ClientError::Refused(CqlError::BadCredentials(text)))
            }
            (Response::Authenticate { .. }, Some(Login { role, password })) => {
                let token = format!("\0{role}\0{password}");
                let request = Request::AuthResponse { token: Some(token.as_bytes()) };
                match client.request(&request, false).await?.response {
                    Response::AuthSuccess { .. } => Ok(client),
                    other => Err(broken(format!("unexpected answer to the login: {other:?}"))),
                }
            }
            (other, _) => Err(broken(format!("unexpected answer to STARTUP: {other:?}"))),
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// Those of the node are [`ClientError::Refused`].
    pub async fn request(
        &mut self,
        request: &Request<'_>,
        tracing: bool,
    ) -> Result<ResponseMessage, ClientError> {
        let stream = self.stream;
        self.stream += 1;
        let head = RequestHead { tracing, ..RequestHead::new(ProtocolVersion::V5, stream) };
        self.outbound.envelope(|out| write_request(out, &head, request));
        loop {
            let ready = self.outbound.ready();
            if ready.is_empty() {
                break;
            }
            let sent = self.socket.write(ready).await.map_err(broken)?;
            self.outbound.sent(sent);
        }
        loop {
            while let Some(envelope) = self.inbound.next().map_err(|error| broken(error.error))? {
                if envelope.header.stream == EVENT_STREAM {
                    continue;
                }
                let message = ResponseMessage::decode(&envelope).map_err(broken)?;
                return match message.response {
                    Response::Error(error) => Err(ClientError::Refused(error)),
                    _ => Ok(message),
                };
            }
            match self.socket.read(self.inbound.space()).await.map_err(broken)? {
                0 => return Err(broken("the node closed it")),
                bytes => self.inbound.filled(bytes),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_is_reached_by_loopback() {
        let check = |bound: &str, reached: &str| {
            assert_eq!(reachable(bound.parse().unwrap()), reached.parse().unwrap());
        };
        check("0.0.0.0:9042", "127.0.0.1:9042");
        check("[::]:9042", "[::1]:9042");
        check("10.1.2.3:9042", "10.1.2.3:9042");
    }
}
