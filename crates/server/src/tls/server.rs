//! Builds a server's TLS configuration from PEM files: certificate and key, authorities of clients'
//! certificates, revocation list, versions and cipher suites. Versions and suites that `rustls` does not
//! support (TLS 1.1 and older, CBC suites) are never used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// Whether clients need a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    #[default]
    No,
    /// A client may connect without a certificate; a certificate that it presents must be valid.
    Optional,
    Required,
}

/// A supported TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    V1_2,
    V1_3,
}

impl TlsVersion {
    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::V1_2 => &rustls::version::TLS12,
            Self::V1_3 => &rustls::version::TLS13,
        }
    }
}

/// Files and policy of a listener's TLS.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub keyfile: PathBuf,
    /// Authorities that must have issued the clients' certificates.
    pub truststore: Option<PathBuf>,
    pub revocation_list: Option<PathBuf>,
    pub client_auth: ClientAuth,
    /// Empty: all supported versions.
    pub versions: Vec<TlsVersion>,
    /// Names as IANA and Java write them; empty: all supported suites.
    pub cipher_suites: Vec<String>,
}

/// Contents of the files.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    certificate: Vec<u8>,
    keyfile: Vec<u8>,
    truststore: Option<Vec<u8>>,
    revocation_list: Option<Vec<u8>>,
}

/// The names of the supported cipher suites, as IANA and Java write them.
pub fn cipher_suites() -> Vec<String> {
    ring::ALL_CIPHER_SUITES.iter().map(|suite| name_of(*suite)).collect()
}

/// The name as IANA writes it; `rustls` gives suites of TLS 1.3 a prefix of its own.
fn name_of(suite: rustls::SupportedCipherSuite) -> String {
    suite.suite().as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1)
}

impl TlsFiles {
    /// Reads all files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&self) -> Result<Contents, String> {
        let optional = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
        Ok(Contents {
            certificate: read(&self.certificate)?,
            keyfile: read(&self.keyfile)?,
            truststore: optional(&self.truststore)?,
            revocation_list: optional(&self.revocation_list)?,
        })
    }

    /// Builds the configuration.
    ///
    /// # Errors
    /// A file has no item of the expected kind, the key does not belong to the certificate, or the policy
    /// allows no version or suite.
    pub fn build(&self, contents: &Contents) -> Result<ServerConfig, String> {
        let provider = Arc::new(self.provider()?);
        let chain: Vec<CertificateDer<'static>> =
            all_of("certificate", &self.certificate, &contents.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&contents.keyfile)
            .map_err(|error| not_pem("private key", &self.keyfile, &contents.keyfile, &error))?;
        let verifier = self.verifier(contents, &provider)?;
        let versions: Vec<_> = match &self.versions[..] {
            [] => vec![TlsVersion::V1_3.supported(), TlsVersion::V1_2.supported()],
            some => some.iter().map(|version| version.supported()).collect(),
        };
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| {
                format!("accepted_protocols and cipher_suites leave no protocol to use: {error}")
            })?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| {
                format!("{} with {}: {error}", self.certificate.display(), self.keyfile.display())
            })
    }

    fn provider(&self) -> Result<CryptoProvider, String> {
        let mut provider = ring::default_provider();
        if !self.cipher_suites.is_empty() {
            let is_wanted =
                |name: &String| self.cipher_suites.iter().any(|wanted| wanted.eq_ignore_ascii_case(name));
            provider.cipher_suites.retain(|suite| is_wanted(&name_of(*suite)));
            if provider.cipher_suites.is_empty() {
                return Err(format!(
                    "cipher_suites: none of them is supported; the supported ones are: {}",
                    cipher_suites().join(", ")
                ));
            }
        }
        Ok(provider)
    }

    fn verifier(
        &self,
        contents: &Contents,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        if self.client_auth == ClientAuth::No {
            return Ok(WebPkiClientVerifier::no_client_auth());
        }
        let (Some(path), Some(text)) = (&self.truststore, &contents.truststore) else {
            return Err(
                "clients need certificates, but there is no truststore to check them with".to_string()
            );
        };
        let mut roots = RootCertStore::empty();
        for certificate in all_of::<CertificateDer<'static>>("certificate", path, text)? {
            roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        if let (Some(path), Some(text)) = (&self.revocation_list, &contents.revocation_list) {
            let lists: Vec<CertificateRevocationListDer<'static>> =
                all_of("certificate revocation list (X509 CRL)", path, text)?;
            // An authority without a revocation list has revoked nothing.
            builder = builder.with_crls(lists).allow_unknown_revocation_status();
        }
        if self.client_auth == ClientAuth::Optional {
            builder = builder.allow_unauthenticated();
        }
        let verifier = builder.build().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(verifier)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// All items of a kind in a PEM file; at least one.
fn all_of<T: PemObject>(what: &str, path: &Path, text: &[u8]) -> Result<Vec<T>, String> {
    let found: Result<Vec<T>, pem::Error> = T::pem_slice_iter(text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(not_pem(what, path, text, &pem::Error::NoItemsFound)),
        Err(error) => Err(not_pem(what, path, text, &error)),
    }
}

/// The error for a file that is not PEM; names the actual format if its first bytes reveal it.
fn not_pem(what: &str, path: &Path, text: &[u8], error: &pem::Error) -> String {
    let path = path.display();
    let is_encrypted = text.windows(9).any(|word| word == b"ENCRYPTED");
    match text {
        [0xfe, 0xed, 0xfe, 0xed, ..] | [0xce, 0xce, 0xce, 0xce, ..] => {
            format!("{path} is a Java keystore (JKS); a PEM file is needed; {}", to_pem(&path.to_string()))
        }
        [0x30, ..] => format!(
            "{path} is binary (PKCS12 or DER); a PEM file is needed: openssl pkcs12 -in {path} -nodes -out all.pem"
        ),
        _ if is_encrypted => {
            format!(
                "the private key in {path} is encrypted; decrypt it: openssl pkey -in {path} -out key.pem"
            )
        }
        _ => format!("no {what} in {path}: {error}"),
    }
}

/// The commands that convert a Java keystore to PEM files.
pub fn to_pem(keystore: &str) -> String {
    format!(
        "convert it: keytool -importkeystore -srckeystore {keystore} -destkeystore store.p12 -deststoretype PKCS12; openssl pkcs12 \
         -in store.p12 -nokeys -out cert.pem; openssl pkcs12 -in store.p12 -nocerts -nodes -out key.pem"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::testing::Authority;

    fn built(files: &TlsFiles) -> Result<ServerConfig, String> {
        files.build(&files.read()?)
    }

    #[test]
    fn files_that_are_not_what_they_should_be_are_named() {
        let dir = crate::config::temporary_dir().join(format!("messina-tls-files-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let authority = Authority::new("ca");
        let (server, other) = (authority.issue(&dir, "server", 1), authority.issue(&dir, "other", 2));
        let files = TlsFiles {
            certificate: server.certificate,
            keyfile: server.keyfile,
            truststore: None,
            revocation_list: None,
            client_auth: ClientAuth::No,
            versions: vec![],
            cipher_suites: vec![],
        };
        built(&files).unwrap();
        let check = |change: &dyn Fn(&mut TlsFiles), expected: &str| {
            let mut files = files.clone();
            change(&mut files);
            let error = built(&files).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(&|files| files.keyfile = other.keyfile.clone(), "server.pem with ");
        check(&|files| files.keyfile = files.certificate.clone(), "no private key in ");
        check(&|files| files.certificate = files.keyfile.clone(), "no certificate in ");
        check(&|files| files.certificate = dir.join("absent.pem"), "cannot read ");
        check(&|files| files.client_auth = ClientAuth::Required, "there is no truststore");
        let jks = dir.join("k.jks");
        std::fs::write(&jks, [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2]).unwrap();
        check(&|files| files.certificate = jks.clone(), "is a Java keystore (JKS)");
        let p12 = dir.join("k.p12");
        std::fs::write(&p12, [0x30, 0x82, 1, 2]).unwrap();
        check(&|files| files.keyfile = p12.clone(), "openssl pkcs12");
        check(
            &|files| files.cipher_suites = vec!["TLS_RSA_WITH_AES_128_CBC_SHA".to_string()],
            "none of them is supported; the supported ones are: TLS_AES_256_GCM_SHA384, ",
        );
        check(
            &|files| {
                files.cipher_suites = vec!["TLS_AES_256_GCM_SHA384".to_string()];
                files.versions = vec![TlsVersion::V1_2];
            },
            "leave no protocol to use",
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
