//! The client side of a TLS connection.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
};

/// The certificates that the client accepts.
#[derive(Clone, Debug)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// `trusted` is a PEM file with the server's certificate or with its certificate authorities. Without it
    /// any certificate is accepted, which protects against eavesdropping but not against a false server.
    ///
    /// # Errors
    /// The file cannot be read or contains no certificate.
    pub fn new(trusted: Option<&Path>) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let trusted = match trusted {
            Some(path) => {
                let trusted = Trusted::from_pem(path, &provider);
                Some(trusted.map_err(|error| format!("no certificate in {}: {error}", path.display()))?)
            }
            None => None,
        };
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { provider, trusted }))
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// # Errors
    /// `host` is neither a name nor an address.
    pub fn wrap(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
        let name = ServerName::try_from(host.to_string()).map_err(|error| format!("{host}: {error}"))?;
        let connection =
            ClientConnection::new(self.0.clone(), name).map_err(|error| format!("{host}: {error}"))?;
        Ok(StreamOwned::new(connection, stream))
    }
}

#[derive(Debug)]
struct Trusted {
    certificates: Vec<CertificateDer<'static>>,
    as_authorities: Arc<WebPkiServerVerifier>,
}

impl Trusted {
    fn from_pem(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
            .and_then(|found| found.collect())
            .map_err(|error| error.to_string())?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| error.to_string())?;
        }
        let as_authorities =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        Ok(Self { certificates, as_authorities: as_authorities.map_err(|error| error.to_string())? })
    }
}

/// Accepts a certificate that is in the file or signed by one in the file; without a file, any certificate.
/// In every case the server must prove that it has the certificate's key.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trusted: Option<Trusted>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.trusted {
            Some(trusted) if !trusted.certificates.contains(certificate) => {
                trusted.as_authorities.verify_server_cert(certificate, chain, name, ocsp, now)
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
