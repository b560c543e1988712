//! Error of a network operation: the operation, the address, the system's error, and advice.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;

/// A network operation failed.
#[derive(Debug)]
pub struct NetError {
    /// The operation, e.g. `"listen on"`.
    pub op: &'static str,
    /// The address of the operation.
    pub addr: SocketAddr,
    /// The error that the system returned.
    pub source: io::Error,
}

impl NetError {
    pub(crate) fn new(op: &'static str, addr: SocketAddr, source: io::Error) -> Self {
        Self { op, addr, source }
    }

    /// Whether another program already listens on the address.
    pub fn is_address_in_use(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }

    /// Whether no program listens on the address.
    pub fn is_refused(&self) -> bool {
        self.source.kind() == io::ErrorKind::ConnectionRefused
    }

    fn advice(&self) -> Option<&'static str> {
        match (self.source.kind(), Errno::from_io_error(&self.source)) {
            (io::ErrorKind::AddrInUse, _) => {
                Some("another program listens there: stop it, or choose another address or port")
            }
            (io::ErrorKind::AddrNotAvailable, _) => {
                Some("no interface of this machine has the address: choose one that `ip address` lists")
            }
            (io::ErrorKind::PermissionDenied, _) => {
                Some("ports below 1024 need the capability CAP_NET_BIND_SERVICE: choose a higher port")
            }
            (io::ErrorKind::ConnectionRefused, _) => {
                Some("no process listens there: check address and port, and whether the server runs")
            }
            (_, Some(Errno::MFILE)) => Some("raise the limit of open files (ulimit -n)"),
            _ => None,
        }
    }
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.op, self.addr, self.source)?;
        match self.advice() {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for NetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_operation_address_and_next_step() {
        let addr = "127.0.0.1:9042".parse().expect("an address");
        let error = NetError::new("listen on", addr, Errno::ADDRINUSE.into());
        let text = error.to_string();
        assert!(text.starts_with("cannot listen on 127.0.0.1:9042: Address already in use"), "{text}");
        assert!(text.contains("choose another address or port") && error.is_address_in_use(), "{text}");
    }
}
