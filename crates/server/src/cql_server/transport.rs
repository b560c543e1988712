//! The bytes of a connection, encrypted or not.
//!
//! TLS sits between socket and protocol without I/O of its own: `rustls` is given what was read and asked what to
//! write. Both kinds try first and wait only if nothing could be done.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use runtime::Stream;

/// Certificate and key with which connections are encrypted.
#[derive(Clone)]
pub struct TlsSettings(pub Arc<rustls::ServerConfig>);

impl TlsSettings {
    /// Certificates and their key in PEM, as ScyllaDB's `client_encryption_options` name them.
    ///
    /// # Errors
    /// A file cannot be read, holds nothing of the kind, or the two do not belong together.
    pub fn from_pem(certificates: &Path, key: &Path) -> Result<Self, String> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificates)
            .and_then(|found| found.collect())
            .map_err(|error| format!("no certificate in {}: {error}", certificates.display()))?;
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| format!("no private key in {}: {error}", key.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
            .map_err(|error| format!("{} with {}: {error}", certificates.display(), key.display()))?;
        Ok(Self(Arc::new(config)))
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsSettings")
    }
}

/// A client's connection.
pub(crate) struct Transport {
    stream: Stream,
    tls: Option<RefCell<rustls::ServerConnection>>,
}

/// A stream as `std::io` has it.
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
    pub fn new(stream: Stream, tls: Option<&TlsSettings>) -> Result<Self, rustls::Error> {
        let tls = match tls {
            Some(settings) => Some(RefCell::new(rustls::ServerConnection::new(settings.0.clone())?)),
            None => None,
        };
        Ok(Self { stream, tls })
    }

    pub fn peer_addr(&self) -> SocketAddr {
        self.stream.peer_addr()
    }

    /// Protocol and cipher suite, once the handshake is done; `None` without encryption.
    pub fn tls_parameters(&self) -> Option<(String, String)> {
        let tls = self.tls.as_ref()?.borrow();
        let version = tls.protocol_version()?.as_str()?.to_string();
        let suite = tls.negotiated_cipher_suite()?.suite().as_str()?.to_string();
        Some((version, suite))
    }

    /// Reads what there is; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock`: nothing yet, wait for [`Self::readable`]. Everything else ends the connection.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.stream.try_read(into) };
        let mut tls = tls.borrow_mut();
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let read = tls.read_tls(&mut Socket(&self.stream))?;
            let processed = tls.process_new_packets();
            // Handshake answers and alerts leave at once, as far as there is room.
            while tls.wants_write() && tls.write_tls(&mut Socket(&self.stream)).is_ok() {}
            processed.map_err(io::Error::other)?;
            if read == 0 {
                return Ok(0);
            }
        }
    }

    /// Writes some of `bytes`; how many.
    ///
    /// # Errors
    /// As [`Self::try_read`], with [`Self::writable`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.stream.try_write(bytes) };
        let mut tls = tls.borrow_mut();
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

    /// Whether bytes that were taken have not left yet.
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.borrow().wants_write())
    }

    pub async fn readable(&self) {
        self.stream.readable().await;
    }

    pub async fn writable(&self) {
        self.stream.writable().await;
    }

    /// Ends both directions: whoever waits goes on and finds the end.
    pub fn shutdown(&self) {
        if let Some(tls) = &self.tls {
            let mut tls = tls.borrow_mut();
            tls.send_close_notify();
            let _ = tls.write_tls(&mut Socket(&self.stream));
        }
        let _ = self.stream.shutdown();
    }
}
