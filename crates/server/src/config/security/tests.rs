//! Tests every spelling: the node requires it, or does not start.

use std::path::Path;

use super::*;
use crate::config::layers::{apply, from_yaml};
use crate::config::{Config, ignored};

fn load(text: &str) -> Result<Config, String> {
    let settings = from_yaml(Path::new("m.yaml"), text).map_err(|error| error.to_string())?;
    apply(settings).map(|(config, _)| config).map_err(|error| error.to_string())
}

/// Asserts that clients need a password.
fn asks(text: &str) {
    let config = load(text).unwrap();
    assert_eq!(config.security.authenticator, options::Authenticator::Password, "{text}");
}

fn refused(text: &str) {
    let error = load(text).map(|_| text).expect_err(text);
    assert!(error.starts_with("m.yaml"), "{text}: {error}");
}

#[test]
fn authenticators_in_every_form() {
    for class in
        ["PasswordAuthenticator", "org.apache.cassandra.auth.PasswordAuthenticator", "passwordauthenticator"]
    {
        asks(&format!("authenticator: {class}"));
        asks(&format!("authenticator:\n  class_name: {class}"));
        asks(&format!("authenticator:\n  class_name: {class}\n  parameters:"));
        asks(&format!("authenticator:\n  - class_name: {class}"));
        asks(&format!("authenticator: {{class_name: {class}}}"));
    }
    for option in ["authenticator", "authorizer", "role_manager", "network_authorizer", "cidr_authorizer"] {
        for class in [
            "com.scylladb.auth.TransitionalAuthenticator",
            "com.scylladb.auth.SaslauthdAuthenticator",
            "MutualTlsAuthenticator",
            "CertificateAuthenticator",
            "com.example.PasswordAuthenticator",
            "com.scylladb.auth.TransitionalAuthorizer",
            "com.example.CassandraAuthorizer",
            "LDAPRoleManager",
            "CassandraNetworkAuthorizer",
            "CassandraCIDRAuthorizer",
        ] {
            refused(&format!("{option}: {class}"));
            refused(&format!("{option}:\n  class_name: {class}"));
            refused(&format!("{option}:\n  - class_name: {class}"));
        }
        refused(&format!("{option}: [a, b]"));
    }
    refused("authenticator:\n  class_name: PasswordAuthenticator\n  parameters:\n    x: y");
    refused("Authenticator: PasswordAuthenticator");
    refused("authentcator: PasswordAuthenticator");
    refused("autenticator: PasswordAuthenticator");
    refused("authenticator.class: PasswordAuthenticator");
}

#[test]
fn authorizers_in_every_form() {
    let password = "authenticator: PasswordAuthenticator";
    for class in
        ["CassandraAuthorizer", "org.apache.cassandra.auth.CassandraAuthorizer", "cassandraauthorizer"]
    {
        for text in [
            format!("authorizer: {class}"),
            format!("authorizer:\n  class_name: {class}"),
            format!("authorizer:\n  - class_name: {class}"),
            format!("authorizer: {{class_name: {class}}}"),
        ] {
            let config = load(&format!("{password}\n{text}")).unwrap();
            assert_eq!(config.security.authorizer, options::Authorizer::Cassandra, "{text}");
            // Without names no user can have a permission.
            assert_eq!(
                load(&text).unwrap_err(),
                "authorizer: CassandraAuthorizer can't be used with AllowAllAuthenticator, which asks nobody for a \
                 name; set authenticator: PasswordAuthenticator",
                "{text}"
            );
        }
    }
}

#[test]
fn what_is_not_built_stops_the_start() {
    for text in [
        "audit_logging_options: {enabled: true, logger: [{class_name: BinAuditLogger}]}",
        "audit_logging_options: {enabled: true, archive_command: mv}",
        "audit_logging_options: {enabled: true, excluded_user: bob}",
        "audit_logging_options: on",
        "audit: table",
        "audit_categories: DCL,DDL",
        "transparent_data_encryption_options: {enabled: true}",
        "user_info_encryption: {enabled: true}",
        "system_info_encryption:\n  enabled: true\n  key_provider: LocalFileSystemKeyProviderFactory",
        "ldap_url_template: ldap://x",
        "saslauthd_socket_path: /run/x",
        "auth_superuser_name: admin",
        "auth_superuser_salted_password: x",
        "full_query_logging_options: {log_dir: /x}",
        "kmip_hosts: {a: {hosts: b}}",
        "crypto_provider: [{class_name: com.example.Fips}]",
        "password_validator: {class_name: x}",
        "client_encryption_option: {enabled: true}",
        "clent_encryption_options: {enabled: true}",
        "client_encryption_options: {enabled: true, keystore: conf/.keystore, keystore_password: cassandra}",
        "client_encryption_options: {enabled: true, certificate: c, keyfile: k, priority_string: NORMAL}",
        "client_encryption_options: {enabled: true, certificate: c, keyfile: k, require_endpoint_verification: true}",
        "client_encryption_options: {enabled: false, require_client_aut: true}",
        "tls_enabled: true",
        "require_ssl: true",
        "role_hierarchy: x",
    ] {
        refused(text);
    }
    let tls = "client_encryption_options: {enabled: true, certificate: c, keyfile: k, ";
    assert!(load(&format!("{tls}require_client_auth: true}}")).unwrap_err().contains("no truststore"));
    assert!(load("native_transport_port_ssl: 9142").unwrap_err().contains("enabled is false"));
    let config = load(&format!("{tls}require_client_auth: true, truststore: t}}")).unwrap();
    assert_eq!(config.security.client_encryption.client_auth, crate::tls::ClientAuth::Required);
}

/// The security options that the stock file of Cassandra 5.0 sets, unchanged.
const CASSANDRA: &str = "
authenticator:
  class_name: AllowAllAuthenticator
authorizer:
  class_name: AllowAllAuthorizer
role_manager:
  class_name: CassandraRoleManager
  parameters:
network_authorizer:
  class_name: AllowAllNetworkAuthorizer
cidr_authorizer:
  class_name: AllowAllCIDRAuthorizer
roles_validity: 2000ms
permissions_validity: 2000ms
credentials_validity: 2000ms
crypto_provider:
  - class_name: org.apache.cassandra.security.DefaultCryptoProvider
    parameters:
      - fail_on_missing_provider: \"false\"
server_encryption_options:
  internode_encryption: none
  legacy_ssl_storage_port_enabled: false
  keystore: conf/.keystore
  require_client_auth: false
  truststore: conf/.truststore
  require_endpoint_verification: false
client_encryption_options:
  enabled: false
  keystore: conf/.keystore
  require_client_auth: false
transparent_data_encryption_options:
  enabled: false
  chunk_length_kb: 64
  cipher: AES/CBC/PKCS5Padding
  key_alias: testing:1
  key_provider:
    - class_name: org.apache.cassandra.security.JKSKeyProvider
      parameters:
        - keystore: conf/.keystore
          keystore_password: cassandra
audit_logging_options:
  enabled: false
  logger:
    - class_name: BinAuditLogger
";

const SCYLLA: &str = "
num_tokens: 256
api_port: 10000
api_address: 127.0.0.1
native_transport_port: 9042
native_shard_aware_transport_port: 19042
authenticator: AllowAllAuthenticator
authorizer: AllowAllAuthorizer
audit: none
server_encryption_options: {internode_encryption: none, certificate: c, keyfile: k}
client_encryption_options:
  enabled: false
  certificate: conf/scylla.crt
  keyfile: conf/scylla.key
";

#[test]
fn the_files_of_the_peers() {
    // Each security switch: the node requires it, or does not start.
    let switched = |stock: &str, from: &str, to: &str| {
        assert!(stock.contains(from), "{from}");
        load(&stock.replacen(from, to, 1))
    };
    load(CASSANDRA).unwrap();
    load(SCYLLA).unwrap();
    for stock in [CASSANDRA, SCYLLA] {
        let config = switched(stock, "AllowAllAuthenticator", "PasswordAuthenticator").unwrap();
        assert_eq!(config.security.authenticator, options::Authenticator::Password);
        switched(stock, "AllowAllAuthorizer", "CassandraAuthorizer").unwrap_err();
        let both = stock.replacen("AllowAllAuthenticator", "PasswordAuthenticator", 1);
        let config = switched(&both, "AllowAllAuthorizer", "CassandraAuthorizer").unwrap();
        assert_eq!(config.security.authorizer, options::Authorizer::Cassandra);
    }
    switched(CASSANDRA, "\n  enabled: false\n  keystore", "\n  enabled: true\n  keystore").unwrap_err();
    switched(CASSANDRA, "enabled: false\n  chunk", "enabled: true\n  chunk").unwrap_err();
    switched(CASSANDRA, "enabled: false\n  logger", "enabled: true\n  logger").unwrap_err();
    switched(SCYLLA, "audit: none", "audit: syslog").unwrap_err();
    let config = switched(SCYLLA, "enabled: false", "enabled: true").unwrap();
    let plans =
        crate::config::ports::plan(&config.listen.wanted(&config.security.client_encryption)).unwrap();
    assert!(plans.iter().all(|plan| plan.encryption == crate::config::ports::Encryption::Tls), "{plans:?}");
    // The factory of Cassandra 4.1 that reads PEM.
    let pem = "client_encryption_options:\n  enabled: true\n  keystore: all.pem\n  truststore: t.pem\n  \
               require_client_auth: optional\n  accepted_protocols: [TLSv1.2]\n  ssl_context_factory:\n    \
               class_name: org.apache.cassandra.security.PEMBasedSslContextFactory\n";
    let files = load(pem).unwrap().security.client_encryption.tls_files().unwrap().unwrap();
    assert_eq!(files.certificate, Path::new("all.pem"));
    assert_eq!(files.keyfile, files.certificate);
    assert_eq!(files.versions, [crate::tls::TlsVersion::V1_2]);
}

/// The lists of options without effect contain no security option: those are judged in `security`.
#[test]
fn options_without_effect_are_not_about_security() {
    let found: Vec<&str> = ignored::names().filter(|name| smells(name)).collect();
    let judged = |name: &&str| {
        let setting = Setting::flag("--x", name, "true");
        matches!(judge(&setting, std::slice::from_ref(&setting)), SettingEffect::Ordinary)
    };
    assert_eq!(found.into_iter().filter(judged).collect::<Vec<_>>(), Vec::<&str>::new());
}
