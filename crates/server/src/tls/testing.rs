//! A certificate authority for tests.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub struct Issued {
    pub certificate: PathBuf,
    pub keyfile: PathBuf,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Writes the authority's own certificate.
    pub fn write(&self, path: &Path) {
        std::fs::write(path, &self.pem).unwrap();
    }

    /// Issues a certificate for this machine with its key: `<name>.pem`, `<name>.key`.
    pub fn issue(&self, dir: &Path, name: &str, serial: u64) -> Issued {
        let mut params =
            CertificateParams::new(vec!["localhost".to_string(), "127.0.0.1".to_string()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let issued =
            Issued { certificate: dir.join(format!("{name}.pem")), keyfile: dir.join(format!("{name}.key")) };
        std::fs::write(&issued.certificate, certificate.pem()).unwrap();
        std::fs::write(&issued.keyfile, key.serialize_pem()).unwrap();
        issued
    }

    /// Writes a revocation list with these certificates.
    pub fn revoke(&self, path: &Path, serials: &[u64]) {
        let time = date_time_ymd(2024, 1, 1);
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: time,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: time,
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        std::fs::write(path, params.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
    }
}
