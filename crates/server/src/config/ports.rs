//! Plans which ports serve CQL, and whether in plain text, encrypted, or both.
//!
//! - TLS off: the ordinary port and the shard-aware port serve plain text.
//! - TLS on: both are encrypted. If a kind of port has a separate TLS port, that one is opened instead, and
//!   no port serves plain text. Cassandra differs here: it leaves plain text open on `native_transport_port`.
//! - TLS on and `optional`: the ordinary ports serve both, and separate TLS ports are encrypted.
//!
//! Pure: values in, a plan out.

/// Encryption of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    Plain,
    Tls,
    /// Plain text or TLS; the first byte from the client decides.
    Optional,
}

/// A port to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPlan {
    /// 0: any free port.
    pub port: u16,
    pub is_shard_aware: bool,
    pub encryption: Encryption,
}

/// The configured ports and TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub port: u16,
    pub port_ssl: Option<u16>,
    pub shard_aware_port: u16,
    pub shard_aware_port_ssl: Option<u16>,
    pub tls: bool,
    /// Whether plain text is served too.
    pub optional: bool,
}

/// The configured ports of one kind: ordinary or shard-aware.
struct Kind {
    is_shard_aware: bool,
    option: &'static str,
    port: u16,
    ssl_option: &'static str,
    ssl_port: Option<u16>,
}

/// The ports to open. The first one is reported to clients.
///
/// # Errors
/// TLS ports without TLS, or one port for two purposes.
pub fn plan(wanted: &Wanted) -> Result<Vec<PortPlan>, String> {
    let kinds = [
        Kind {
            is_shard_aware: false,
            option: "native_transport_port",
            port: wanted.port,
            ssl_option: "native_transport_port_ssl",
            ssl_port: wanted.port_ssl,
        },
        Kind {
            is_shard_aware: true,
            option: "native_shard_aware_transport_port",
            port: wanted.shard_aware_port,
            ssl_option: "native_shard_aware_transport_port_ssl",
            ssl_port: wanted.shard_aware_port_ssl,
        },
    ];
    let mut plans: Vec<PortPlan> = vec![];
    for kind in kinds {
        for plan in of_kind(&kind, wanted.tls, wanted.optional)? {
            if plan.port != 0 && plans.iter().any(|other| other.port == plan.port) {
                return Err(format!(
                    "{} or {}: port {} is to be opened twice; give each its own port, or 0 for no shard-aware port",
                    kind.option, kind.ssl_option, plan.port
                ));
            }
            plans.push(plan);
        }
    }
    Ok(plans)
}

fn of_kind(kind: &Kind, tls: bool, optional: bool) -> Result<Vec<PortPlan>, String> {
    let plan = |port, encryption| PortPlan { port, is_shard_aware: kind.is_shard_aware, encryption };
    // Port 0 of the ordinary kind means any free port; the shard-aware port 0 is not opened.
    let is_open = !kind.is_shard_aware || kind.port != 0;
    let own = kind.ssl_port.filter(|port| *port != 0 && *port != kind.port);
    if !tls {
        return match kind.ssl_port.filter(|port| *port != 0) {
            Some(port) => Err(format!(
                "{}: {port}, but client_encryption_options.enabled is false and nothing would be encrypted; set enabled to true, \
                 or remove {}",
                kind.ssl_option, kind.ssl_option
            )),
            None => Ok(is_open.then(|| plan(kind.port, Encryption::Plain)).into_iter().collect()),
        };
    }
    let ordinary = if optional { Encryption::Optional } else { Encryption::Tls };
    let is_replaced = own.is_some() && !optional;
    let ordinary = (is_open && !is_replaced).then(|| plan(kind.port, ordinary));
    Ok(ordinary.into_iter().chain(own.map(|port| plan(port, Encryption::Tls))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(
        tls: bool,
        optional: bool,
        port_ssl: Option<u16>,
        aware: u16,
        aware_ssl: Option<u16>,
    ) -> Wanted {
        let (shard_aware_port, shard_aware_port_ssl) = (aware, aware_ssl);
        Wanted { port: 9042, port_ssl, shard_aware_port, shard_aware_port_ssl, tls, optional }
    }

    fn show(config: &Wanted) -> String {
        match plan(config) {
            Ok(plans) => {
                let show = |plan: PortPlan| format!("{} {:?}", plan.port, plan.encryption);
                plans.into_iter().map(show).collect::<Vec<_>>().join(", ")
            }
            Err(error) => format!("refused: {error}"),
        }
    }

    #[test]
    fn the_forms_of_the_peers() {
        let check = |enabled, optional, ssl, shard_ssl, expected: &str| {
            assert_eq!(show(&config(enabled, optional, ssl, 19042, shard_ssl)), expected);
        };
        check(false, false, None, None, "9042 Plain, 19042 Plain");
        check(false, false, Some(0), Some(0), "9042 Plain, 19042 Plain");
        check(true, false, None, None, "9042 Tls, 19042 Tls");
        check(true, false, Some(0), Some(0), "9042 Tls, 19042 Tls");
        check(true, false, Some(9042), Some(19042), "9042 Tls, 19042 Tls");
        check(true, false, Some(9142), None, "9142 Tls, 19042 Tls");
        check(true, false, Some(9142), Some(19142), "9142 Tls, 19142 Tls");
        check(true, true, None, None, "9042 Optional, 19042 Optional");
        check(true, true, Some(9142), Some(19142), "9042 Optional, 9142 Tls, 19042 Optional, 19142 Tls");
        assert!(
            show(&config(false, false, Some(9142), 19042, None))
                .starts_with("refused: native_transport_port_ssl")
        );
        assert!(show(&config(true, false, Some(19042), 19042, None)).contains("opened twice"));
    }

    /// For all combinations of ports: TLS without `optional` leaves no plain text, no TLS is planned without
    /// TLS, and no option is ignored silently.
    #[test]
    fn no_spelling_keeps_the_plain_port_open_beside_tls() {
        let ports = [None, Some(0), Some(9042), Some(9142), Some(19042)];
        for (ssl, shard_ssl) in ports.iter().flat_map(|a| ports.iter().map(move |b| (*a, *b))) {
            for shard_aware in [0, 9042, 19042] {
                for (enabled, optional) in [(false, false), (true, false), (true, true)] {
                    let config = config(enabled, optional, ssl, shard_aware, shard_ssl);
                    let Ok(plans) = plan(&config) else { continue };
                    let shown = format!("{config:?}: {plans:?}");
                    assert!(plans.iter().any(|plan| !plan.is_shard_aware), "{shown}");
                    for plan in &plans {
                        let allowed: &[Encryption] = match (enabled, optional) {
                            (false, _) => &[Encryption::Plain],
                            (true, false) => &[Encryption::Tls],
                            (true, true) => &[Encryption::Tls, Encryption::Optional],
                        };
                        assert!(allowed.contains(&plan.encryption), "{shown}");
                    }
                    for wanted in [ssl, shard_ssl].into_iter().flatten().filter(|port| *port != 0) {
                        let opened = plans.iter().find(|plan| plan.port == wanted);
                        assert!(opened.is_some_and(|plan| plan.encryption != Encryption::Plain), "{shown}");
                    }
                }
            }
        }
    }
}
