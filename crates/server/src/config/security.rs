//! Security options, in every spelling that a `cassandra.yaml` or `scylla.yaml` may have. Each is obeyed, or
//! is known to protect nothing here, or prevents the start; none gives only a warning.
//!
//! An unknown name that looks like a security option prevents the start too, so that a misspelled option does
//! not leave access open.

use super::layers::{RawValue, Setting};
use super::options;
use crate::tls::server::to_pem;
use base::suggest::nearest;

/// What happens to a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingEffect {
    /// Not a security option, or an option that the table of options has.
    Ordinary,
    /// Equivalent to these settings of options in the table.
    Means(Vec<(&'static str, String)>),
    /// Protects nothing here, for this reason.
    Inert(&'static str),
    /// The node must not start: the reason, and what to write instead.
    Refused(String),
}

use SettingEffect::{Inert, Means, Ordinary, Refused};

const CACHE: &str = "no meaning on one node (roles are not cached), so without effect";
const INTERNODE: &str = "no meaning on one node (no port for other nodes is opened), so without effect";
const OFF: &str = "without effect, since the feature is off";
const NO_PORT: &str = "not built yet (no such port is opened), so without effect";

const CLASSES: [(&str, &[&str]); 5] = [
    ("authenticator", &["AllowAllAuthenticator", "PasswordAuthenticator"]),
    ("authorizer", &["AllowAllAuthorizer", "CassandraAuthorizer"]),
    ("role_manager", &["CassandraRoleManager"]),
    ("network_authorizer", &["AllowAllNetworkAuthorizer"]),
    ("cidr_authorizer", &["AllowAllCIDRAuthorizer"]),
];

/// Settings of caches and the like: they affect how soon a change takes effect, not permissions.
const TUNING: &[&str] = &[
    "auth_cache_warming_enabled",
    "auth_read_consistency_level",
    "auth_write_consistency_level",
    "credentials_cache_active_update",
    "credentials_cache_max_entries",
    "credentials_update_interval",
    "credentials_update_interval_in_ms",
    "credentials_validity",
    "credentials_validity_in_ms",
    "native_transport_max_auth_threads",
    "permissions_cache_active_update",
    "permissions_cache_max_entries",
    "permissions_update_interval",
    "permissions_update_interval_in_ms",
    "permissions_validity",
    "permissions_validity_in_ms",
    "roles_cache_active_update",
    "roles_cache_max_entries",
    "roles_update_interval",
    "roles_update_interval_in_ms",
    "roles_validity",
    "roles_validity_in_ms",
    "traverse_auth_from_root",
];

/// Substrings that mark a name as a security option.
const SMELLS: &[&str] = &[
    "auth",
    "encrypt",
    "password",
    "passwd",
    "credential",
    "certificate",
    "certficate",
    "keystore",
    "key_store",
    "truststore",
    "trust_store",
    "permission",
    "secret",
    "kerberos",
    "audit",
    "superuser",
    "secur",
    "keyfile",
];
/// Words between underscores and dots that do the same.
const SMELLING_PARTS: &[&str] = &[
    "ssl",
    "tls",
    "mtls",
    "cert",
    "certs",
    "trust",
    "role",
    "roles",
    "acl",
    "ldap",
    "sasl",
    "saslauthd",
    "login",
    "cipher",
    "ciphers",
    "crypto",
    "kms",
    "kmip",
    "tde",
    "fips",
    "jks",
    "masking",
    "cidr",
];

/// Whether the name looks like a security option.
pub fn smells(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    SMELLS.iter().any(|word| name.contains(word))
        || name.split(['_', '.']).any(|part| SMELLING_PARTS.contains(&part))
}

/// Judges a setting. In `all`, the last setting of each name counts.
pub fn judge(setting: &Setting, all: &[Setting]) -> SettingEffect {
    let name = setting.name.as_str();
    let (top, rest) = name.split_once('.').unwrap_or((name, ""));
    if let Some((option, classes)) = CLASSES.iter().find(|(option, _)| *option == top) {
        return class(option, rest, &setting.value, classes);
    }
    let text = match &setting.value {
        RawValue::One(text) => text.trim().to_string(),
        RawValue::List(texts) => texts.join(","),
        RawValue::Structure => "a structure".to_string(),
    };
    let is_off = text.is_empty() || is_false(&text) || text.eq_ignore_ascii_case("none");
    let not_built = |what: &str| {
        Refused(format!(
            "{what} is not built, and the node does not start without a security feature that is configured; remove the option"
        ))
    };
    match top {
        "client_encryption_options" => client_encryption(rest, &setting.value, &text, all),
        "api_encryption_options" => not_built("TLS for the admin API"),
        _ if options::find(name).is_some() => Ordinary,
        "server_encryption_options"
        | "internode_authenticator"
        | "internode_encryption"
        | "ssl_storage_port" => Inert(INTERNODE),
        "jmx_encryption_options" | "jmx_server_options" => Inert(NO_PORT),
        _ if top.starts_with("alternator_") || top == "vector_store_encryption_options" => Inert(NO_PORT),
        _ if TUNING.contains(&name) => Inert(CACHE),
        "full_query_logging_options" if rest != "log_dir" || is_off => Inert(OFF),
        "full_query_logging_options" => not_built("a log of all queries"),
        "audit_logging_options" => audit_log(rest, &text, all),
        "transparent_data_encryption_options"
        | "user_info_encryption"
        | "system_info_encryption"
        | "authentication_options"
        | "authorization_options" => {
            if is_enabled(top, all) {
                not_built(top)
            } else {
                Inert(OFF)
            }
        }
        "audit" if is_off => Inert(OFF),
        "audit" => Refused(OTHER_AUDIT.to_string()),
        "audit_categories"
        | "audit_tables"
        | "audit_keyspaces"
        | "audit_rules"
        | "audit_unix_socket_path"
        | "audit_syslog_write_buffer_size" => {
            let audit = last("audit", all);
            match audit {
                Some(value) if is_false(value) || value.eq_ignore_ascii_case("none") => Inert(OFF),
                None if is_off || rest_is_tuning(top) => Inert(OFF),
                _ => Refused(OTHER_AUDIT.to_string()),
            }
        }
        "crypto_provider" => {
            let is_known = ["DefaultCryptoProvider", "JREProvider"].iter().any(|class| text.ends_with(class));
            match rest {
                "" | "class_name" if !is_known => Refused(format!(
                    "{text} is not supported: TLS is rustls with ring's cryptography; remove the option"
                )),
                _ => Inert("without effect, since TLS is rustls"),
            }
        }
        "system_key_directory" => Inert("without effect, since data are not encrypted on disk"),
        "allow_insecure_udfs" | "allow_extra_insecure_udfs" => {
            Inert("without effect, since functions are written in Lua and have no access to anything")
        }
        "auth_superuser_name" if text == "cassandra" => {
            Inert("without effect, since the first superuser has this name anyway")
        }
        _ if smells(name) && (super::ignored::why(name).is_none() || !is_off) => {
            refuse_unknown(name, is_known(top))
        }
        _ => match nearest(name, options::OPTIONS.iter().map(|option| option.name)) {
            Some(meant) if smells(meant) && super::ignored::why(name).is_none() => {
                refuse_unknown(name, false)
            }
            _ => Ordinary,
        },
    }
}

/// Security options of Cassandra and ScyllaDB that are not built.
const KNOWN: &[&str] = &[
    "auth_certificate_role_queries",
    "auth_superuser_name",
    "auth_superuser_salted_password",
    "authentication_options",
    "kmip_hosts",
    "kms_hosts",
    "ldap_attr_role",
    "ldap_bind_dn",
    "ldap_bind_passwd",
    "ldap_url_template",
    "saslauthd_socket_path",
];

fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

fn rest_is_tuning(name: &str) -> bool {
    matches!(name, "audit_unix_socket_path" | "audit_syslog_write_buffer_size")
}

fn refuse_unknown(name: &str, is_known: bool) -> SettingEffect {
    if is_known {
        return Refused(
            "this is not built, and the node does not start without a security feature that is configured; remove the option"
                .to_string(),
        );
    }
    let meant = nearest(name, options::OPTIONS.iter().map(|option| option.name));
    let meant = meant.map_or(String::new(), |name| format!("; did you mean {name}?"));
    Refused(format!(
        "this looks like a security option and is unknown, so the node does not start{meant}; correct it (docs/security.md \
         lists the options) or remove it"
    ))
}

fn is_false(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "" | "false" | "no" | "off" | "0")
}

fn last<'a>(name: &str, all: &'a [Setting]) -> Option<&'a str> {
    let found = all.iter().rev().find(|setting| setting.name == name)?;
    match &found.value {
        RawValue::One(text) => Some(text.trim()),
        _ => Some("a structure"),
    }
}

fn is_enabled(section: &str, all: &[Setting]) -> bool {
    let is_bare = last(section, all).is_some_and(|text| !is_false(text));
    is_bare || last(&format!("{section}.enabled"), all).is_some_and(|text| !is_false(text))
}

/// A class, either a name alone or `class_name` with `parameters`.
fn class(option: &'static str, rest: &str, value: &RawValue, classes: &[&'static str]) -> SettingEffect {
    if rest.starts_with("parameters") {
        // Client networks are not checked, so this parameter has nothing to tune. Parameters of other classes
        // are unknown.
        let is_tuning =
            option == "cidr_authorizer" || rest == "parameters.invalid_role_disconnect_task_max_jitter";
        return match value {
            RawValue::One(text) if text.is_empty() || text == "-" => Inert(OFF),
            _ if is_tuning => Inert(OFF),
            _ => Refused("parameters are not supported; remove them".to_string()),
        };
    }
    let (RawValue::One(text), "" | "class_name") = (value, rest) else {
        return Refused(format!("expected a class: {}", classes.join(" or ")));
    };
    let name = text.trim();
    let known = classes.iter().find(|class| options::without_package(name).eq_ignore_ascii_case(class));
    let Some(known) = known else {
        return Refused(format!("{name:?} is not allowed; expected {}", classes.join(" or ")));
    };
    match option {
        "authenticator" | "authorizer" => Means(vec![(option, known.to_string())]),
        _ => Inert("without effect, since there is no other"),
    }
}

/// Why ScyllaDB's `audit` is refused.
const OTHER_AUDIT: &str = "the audit log has Cassandra's form, files, and is configured by audit_logging_options; remove the option";

/// Parts of `audit_logging_options` that the table of options does not have.
fn audit_log(rest: &str, text: &str, all: &[Setting]) -> SettingEffect {
    let is_on = is_enabled("audit_logging_options", all);
    let class = options::without_package(text);
    match rest {
        "logger" | "logger.class_name" if class.eq_ignore_ascii_case("FileAuditLogger") => Means(vec![]),
        _ if !is_on => Inert(OFF),
        "logger" | "logger.class_name" => {
            Refused(format!("{text:?} is not allowed; expected FileAuditLogger, which writes lines of text"))
        }
        "max_archive_retries" | "allow_nodetool_archive_command" => {
            Inert("without effect, since no command archives files")
        }
        "archive_command" if text.is_empty() => Inert(OFF),
        "archive_command" => Refused(
            "this is not built; the files of an ended cycle do not change any more and can be moved away"
                .to_string(),
        ),
        "" => Refused("expected a section; see docs/security.md".to_string()),
        _ => refuse_unknown(&format!("audit_logging_options.{rest}"), false),
    }
}

/// Parts of `client_encryption_options` that the table of options does not have.
fn client_encryption(rest: &str, value: &RawValue, text: &str, all: &[Setting]) -> SettingEffect {
    let of =
        |name: &str| last(&format!("client_encryption_options.{name}"), all).filter(|text| !text.is_empty());
    let is_on = of("enabled").is_some_and(|text| !is_false(text));
    let factory = of("ssl_context_factory.class_name").or(of("ssl_context_factory"));
    let is_pem = factory.is_some_and(|class| class.ends_with("PEMBasedSslContextFactory"))
        || of("store_type").is_some_and(|kind| kind.eq_ignore_ascii_case("PEM"));
    let has_pem = of("certificate").is_some() && of("keyfile").is_some();
    match rest {
        "enabled" | "optional" | "certificate" | "keyfile" | "require_client_auth" | "certificate_revocation_list"
        | "certficate_revocation_list" => Ordinary,
        "accepted_protocols" | "cipher_suites" => match value {
            RawValue::List(names) if rest == "cipher_suites" => {
                Means(vec![("client_encryption_options.cipher_suites", names.join(","))])
            }
            RawValue::List(names) => Means(vec![("client_encryption_options.accepted_protocols", names.join(","))]),
            _ => Ordinary,
        },
        // TLS is off, and all other parts only describe it.
        _ if !is_on && is_known_of_tls(rest) => Inert(OFF),
        "truststore" => Ordinary,
        "keystore" if is_pem && !has_pem => Means(vec![
            ("client_encryption_options.certificate", text.to_string()),
            ("client_encryption_options.keyfile", text.to_string()),
        ]),
        "keystore" if has_pem => Inert("without effect, since certificate and keyfile are set"),
        "keystore" => Refused(format!(
            "a Java keystore cannot be read; give certificate and keyfile as PEM files; {}",
            to_pem(text)
        )),
        "keystore_password" | "keystore_password_file" if has_pem => Inert("without effect, since certificate and keyfile are \
                                                                            set"),
        "keystore_password" | "keystore_password_file" => {
            Refused("keys with a password cannot be read; decrypt it: openssl pkey -in KEY -out key.pem".to_string())
        }
        "truststore_password" | "truststore_password_file" | "algorithm" | "store_type" | "enable_session_tickets" => {
            Inert("without effect, since files are PEM")
        }
        "protocol" if of("accepted_protocols").is_some() => Inert("without effect, since accepted_protocols is set"),
        "protocol" => Means(vec![("client_encryption_options.accepted_protocols", text.to_string())]),
        "ssl_context_factory" | "ssl_context_factory.class_name"
            if is_pem || text.ends_with("DefaultSslContextFactory") =>
        {
            Inert("without effect, since files are PEM")
        }
        "require_endpoint_verification" if is_false(text) => Inert(OFF),
        "priority_string" if text.is_empty() || text.eq_ignore_ascii_case("none") => Inert(OFF),
        "priority_string" => Refused(
            "GnuTLS priorities are not supported; remove it (only TLS 1.2 and 1.3 are used), or use accepted_protocols and \
             cipher_suites"
                .to_string(),
        ),
        _ => Refused("this is not built or unknown; remove it".to_string()),
    }
}

fn is_known_of_tls(rest: &str) -> bool {
    [
        "truststore",
        "keystore",
        "keystore_password",
        "keystore_password_file",
        "truststore_password",
        "truststore_password_file",
        "algorithm",
        "store_type",
        "enable_session_tickets",
        "protocol",
        "ssl_context_factory",
        "require_endpoint_verification",
        "priority_string",
        "max_certificate_validity_period",
        "certificate_validity_warn_threshold",
    ]
    .contains(&rest.split('.').next().unwrap_or(rest))
}

#[cfg(test)]
mod tests;
