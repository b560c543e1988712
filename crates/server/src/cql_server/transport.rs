//! Transport of a connection's bytes, encrypted or not.
//!
//! TLS is a layer between socket and protocol without I/O of its own: `rustls` is fed received bytes and
//! returns bytes to write. Both kinds try the operation first and wait only if nothing could be done.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use runtime::Stream;

use crate::tls::ReloadableTls;

/// First byte of a TLS handshake record. No CQL frame begins with it.
const TLS_HANDSHAKE: u8 = 0x16;

/// Encryption of the connections of a port.
#[derive(Clone, Debug)]
pub enum Encryption {
    Plain,
    Tls(Arc<ReloadableTls>),
    /// The client's first byte decides.
    Optional(Arc<ReloadableTls>),
}

/// A client's connection.
pub(crate) struct Transport {
    stream: Stream,
    mode: RefCell<Mode>,
}

enum Mode {
    Plain,
    Tls(Box<rustls::ServerConnection>),
    /// No byte has been received yet.
    Undecided(Arc<ReloadableTls>),
}

/// Adapter of a stream to `std::io`.
struct Socket<'a>(&'a Stream);

impl Read for Socket<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport {
    /// # Errors
    /// The TLS settings do not work.
    pub fn new(stream: Stream, encryption: &Encryption) -> Result<Self, rustls::Error> {
        let mode = match encryption {
            Encryption::Plain => Mode::Plain,
            Encryption::Tls(tls) => Mode::Tls(Box::new(rustls::ServerConnection::new(tls.config())?)),
            Encryption::Optional(tls) => Mode::Undecided(tls.clone()),
        };
        Ok(Self { stream, mode: RefCell::new(mode) })
    }

    pub fn peer_addr(&self) -> SocketAddr {
        self.stream.peer_addr()
    }

    /// Protocol and cipher suite, once the handshake is done; `None` without encryption.
    pub fn tls_parameters(&self) -> Option<(String, String)> {
        let mode = self.mode.borrow();
        let Mode::Tls(tls) = &*mode else { return None };
        let version = tls.protocol_version()?.as_str()?.to_string();
        let suite = tls.negotiated_cipher_suite()?.suite().as_str()?.to_string();
        Some((version, suite))
    }

    /// Whether the TLS handshake is not complete; on a port where TLS is optional, whether no byte has been
    /// received.
    pub fn is_shaking_hands(&self) -> bool {
        match &*self.mode.borrow() {
            Mode::Plain => false,
            Mode::Tls(tls) => tls.is_handshaking(),
            Mode::Undecided(_) => true,
        }
    }

    /// Reads available bytes; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is available, wait for [`Self::readable`]. Any other error ends the connection.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut mode = self.mode.borrow_mut();
        if let Mode::Undecided(tls) = &*mode {
            let mut first = [0];
            if self.stream.try_read(&mut first)? == 0 {
                return Ok(0);
            }
            if first[0] != TLS_HANDSHAKE {
                *mode = Mode::Plain;
                into[0] = first[0];
                return Ok(1);
            }
            let mut connection = rustls::ServerConnection::new(tls.config()).map_err(io::Error::other)?;
            connection.read_tls(&mut &first[..])?;
            *mode = Mode::Tls(Box::new(connection));
        }
        let Mode::Tls(tls) = &mut *mode else { return self.stream.try_read(into) };
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let read = tls.read_tls(&mut Socket(&self.stream))?;
            let processed = tls.process_new_packets();
            // Handshake messages and alerts are sent at once, as far as the socket takes them.
            while tls.wants_write() && tls.write_tls(&mut Socket(&self.stream)).is_ok() {}
            processed.map_err(io::Error::other)?;
            if read == 0 {
                return Ok(0);
            }
        }
    }

    /// Writes some of `bytes` and returns their number.
    ///
    /// # Errors
    /// Like [`Self::try_read`], with [`Self::writable`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut mode = self.mode.borrow_mut();
        let tls = match &mut *mode {
            Mode::Plain => return self.stream.try_write(bytes),
            Mode::Tls(tls) => tls,
            // Before the first byte it is unknown whether the connection is encrypted.
            Mode::Undecided(_) => return Err(io::ErrorKind::NotConnected.into()),
        };
        while tls.wants_write() {
            tls.write_tls(&mut Socket(&self.stream))?;
        }
        let taken = tls.writer().write(bytes)?;
        while tls.wants_write() {
            match tls.write_tls(&mut Socket(&self.stream)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Whether accepted bytes have not been sent yet.
    pub fn has_unsent(&self) -> bool {
        matches!(&*self.mode.borrow(), Mode::Tls(tls) if tls.wants_write())
    }

    pub async fn readable(&self) {
        self.stream.readable().await;
    }

    pub async fn writable(&self) {
        self.stream.writable().await;
    }

    /// Ends both directions: waiting tasks wake and read the end.
    pub fn shutdown(&self) {
        if let Mode::Tls(tls) = &mut *self.mode.borrow_mut() {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut Socket(&self.stream));
        }
        let _ = self.stream.shutdown();
    }
}
