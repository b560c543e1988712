//! Configured TLS of a listener: `client_encryption_options` and `api_encryption_options`.

use std::path::PathBuf;

use super::options::EnumOption;
use crate::tls::{ClientAuth, TlsFiles, TlsVersion};

/// A section of TLS options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encryption {
    pub enabled: bool,
    /// Whether clients without TLS are served too, on the same port.
    pub optional: bool,
    /// PEM files.
    pub certificate: Option<PathBuf>,
    pub keyfile: Option<PathBuf>,
    pub truststore: Option<PathBuf>,
    pub revocation_list: Option<PathBuf>,
    pub client_auth: ClientAuth,
    /// Empty: all supported versions.
    pub accepted_protocols: Vec<String>,
    pub cipher_suites: Vec<String>,
}

impl EnumOption for ClientAuth {
    fn names(&self) -> Vec<&'static str> {
        vec!["true", "false", "optional"]
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Required => "true",
            Self::No => "false",
            Self::Optional => "optional",
        }
    }

    fn set_by_name(&mut self, name: &str) -> bool {
        *self = match name.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" | "required" => Self::Required,
            "false" | "no" | "off" | "0" => Self::No,
            "optional" => Self::Optional,
            _ => return false,
        };
        true
    }
}

impl Encryption {
    /// The TLS files and policy that the section describes; `None`: no TLS.
    ///
    /// # Errors
    /// The section requires something that it does not configure. No TLS option is ignored silently.
    pub fn tls_files(&self) -> Result<Option<TlsFiles>, String> {
        let Self {
            enabled,
            optional,
            certificate,
            keyfile,
            truststore,
            revocation_list,
            client_auth,
            accepted_protocols,
            cipher_suites,
        } = self;
        if !enabled {
            if *optional {
                return Err(
                    "optional is true, but enabled is false; set enabled to true for TLS in addition to plain text"
                        .to_string(),
                );
            }
            return Ok(None);
        }
        let (Some(certificate), Some(keyfile)) = (certificate, keyfile) else {
            return Err("enabled, but there is no certificate or keyfile; give both as PEM files".to_string());
        };
        if *client_auth != ClientAuth::No && truststore.is_none() {
            return Err(format!(
                "require_client_auth is {}, but there is no truststore; name a PEM file with the authorities of the clients' \
                 certificates",
                client_auth.name()
            ));
        }
        if *client_auth == ClientAuth::No && revocation_list.is_some() {
            return Err(
                "there is a list of revoked certificates, but require_client_auth is false and no certificate is checked".to_string()
            );
        }
        if *client_auth == ClientAuth::Required && *optional {
            return Err(
                "require_client_auth is true, but optional accepts clients without TLS and thus without a certificate; set one \
                 of them to false"
                    .to_string(),
            );
        }
        Ok(Some(TlsFiles {
            certificate: certificate.clone(),
            keyfile: keyfile.clone(),
            truststore: truststore.clone(),
            revocation_list: revocation_list.clone(),
            client_auth: *client_auth,
            versions: versions(accepted_protocols)?,
            cipher_suites: known_suites(cipher_suites)?,
        }))
    }
}

/// Versions older than TLS 1.2 are never used, even if they are accepted.
fn versions(accepted: &[String]) -> Result<Vec<TlsVersion>, String> {
    let mut versions = vec![];
    for name in accepted {
        match name.to_ascii_lowercase().as_str() {
            "tls" => versions.extend([TlsVersion::V1_2, TlsVersion::V1_3]),
            "tlsv1.2" => versions.push(TlsVersion::V1_2),
            "tlsv1.3" => versions.push(TlsVersion::V1_3),
            "tlsv1" | "tlsv1.0" | "tlsv1.1" | "sslv3" | "sslv2hello" => {}
            _ => return Err(format!("accepted_protocols: {name} is unknown; use TLSv1.2 or TLSv1.3")),
        }
    }
    if versions.is_empty() && !accepted.is_empty() {
        return Err(format!(
            "accepted_protocols: {} is too old and not supported; use TLSv1.2 or TLSv1.3",
            accepted.join(", ")
        ));
    }
    Ok(versions)
}

/// The supported ones of these suites. Unsupported suites are the weaker ones and are dropped; at least one
/// must remain.
fn known_suites(names: &[String]) -> Result<Vec<String>, String> {
    let known = crate::tls::server::cipher_suites();
    let left: Vec<String> = names
        .iter()
        .filter(|name| known.iter().any(|known| known.eq_ignore_ascii_case(name)))
        .cloned()
        .collect();
    if left.is_empty() && !names.is_empty() {
        return Err(format!(
            "cipher_suites: none of them is supported; the supported ones are: {}",
            known.join(", ")
        ));
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> Encryption {
        let pem = |name: &str| Some(PathBuf::from(name));
        Encryption { enabled: true, certificate: pem("c"), keyfile: pem("k"), ..Encryption::default() }
    }

    #[track_caller]
    fn refused(section: Encryption, expected: &str) {
        let error = section.tls_files().unwrap_err();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn nothing_is_left_out_in_silence() {
        assert!(section().tls_files().unwrap().is_some());
        assert_eq!(Encryption::default().tls_files(), Ok(None));
        refused(Encryption { optional: true, ..Encryption::default() }, "enabled is false");
        refused(Encryption { keyfile: None, ..section() }, "no certificate or keyfile");
        for client_auth in [ClientAuth::Required, ClientAuth::Optional] {
            refused(Encryption { client_auth, ..section() }, "no truststore");
        }
        refused(Encryption { revocation_list: Some("l".into()), ..section() }, "no certificate is checked");
        let both = Encryption {
            optional: true,
            client_auth: ClientAuth::Required,
            truststore: Some("t".into()),
            ..section()
        };
        refused(both, "without a certificate");
    }

    #[test]
    fn versions_and_suites_by_their_names_elsewhere() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let files = |protocols: &[&str], suites: &[&str]| {
            let (accepted_protocols, cipher_suites) = (names(protocols), names(suites));
            Encryption { accepted_protocols, cipher_suites, ..section() }.tls_files()
        };
        let some =
            files(&["TLSv1.1", "TLSv1.2"], &["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_AES_128_GCM_SHA256"]);
        let some = some.unwrap().unwrap();
        assert_eq!(some.versions, [TlsVersion::V1_2]);
        assert_eq!(some.cipher_suites, ["TLS_AES_128_GCM_SHA256"]);
        assert!(files(&["TLSv1.1"], &[]).unwrap_err().contains("too old"));
        assert!(files(&["TLSv9"], &[]).unwrap_err().contains("is unknown"));
        assert!(files(&[], &["TLS_RSA_WITH_AES_128_CBC_SHA"]).unwrap_err().contains("none of them"));
    }
}
