//! Chooses the server's address: arguments override the environment, which overrides the defaults.

const HOST: &str = "127.0.0.1";
const PORT: u16 = 9042;

/// Returns host and port. `host` may end with a port; `environment_port` contains its variable's name.
///
/// # Errors
/// There are two different ports, or an invalid one.
pub fn choose(
    host: Option<&str>,
    port: Option<u16>,
    environment_host: Option<&str>,
    environment_port: Option<(&str, String)>,
) -> Result<(String, u16), String> {
    let (name, behind) = split(host.or(environment_host).unwrap_or(HOST))?;
    let port = match (port, behind) {
        (Some(port), Some(other)) if port != other => {
            return Err(format!("two ports are given for {name}: {other} and {port}; give one"));
        }
        (Some(port), _) | (None, Some(port)) => port,
        (None, None) => match environment_port {
            Some((variable, text)) => number(&text).ok_or_else(|| {
                format!(
                    "{variable}={text} in the environment is not a port; a port is a number from 1 to 65535"
                )
            })?,
            None => PORT,
        },
    };
    Ok((name.to_string(), port))
}

/// Splits a host with an optional port: `h:1`, `[::1]:1`. An IPv6 address without brackets has no port.
fn split(text: &str) -> Result<(&str, Option<u16>), String> {
    let refuse = || {
        format!("{text}: the text after the host is not a port: write HOST:PORT, with a port from 1 to 65535")
    };
    if let Some(inside) = text.strip_prefix('[') {
        let (host, rest) =
            inside.split_once(']').ok_or_else(|| format!("{text}: a ] is missing: [ADDRESS]:PORT"))?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(number(port).ok_or_else(refuse)?))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(refuse()),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => Ok((host, Some(number(port).ok_or_else(refuse)?))),
        _ => Ok((text, None)),
    }
}

fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(
        host: Option<&str>,
        port: Option<u16>,
        env_host: Option<&str>,
        env_port: Option<&str>,
    ) -> String {
        match choose(host, port, env_host, env_port.map(|port| ("CQLSH_PORT", port.to_string()))) {
            Ok((host, port)) => format!("{host} {port}"),
            Err(text) => text,
        }
    }

    #[test]
    fn arguments_come_before_the_environment() {
        assert_eq!(chosen(None, None, None, None), "127.0.0.1 9042");
        assert_eq!(chosen(None, None, Some("db"), Some("9131")), "db 9131");
        assert_eq!(chosen(None, None, Some("db:7"), Some("9131")), "db 7");
        assert_eq!(chosen(Some("a"), Some(1), Some("db"), Some("9131")), "a 1");
        assert_eq!(chosen(Some("a"), None, Some("db"), Some("9131")), "a 9131");
        assert_eq!(chosen(Some("a:1"), None, None, Some("x")), "a 1");
        assert_eq!(chosen(Some("a:1"), Some(1), None, None), "a 1");
    }

    #[test]
    fn addresses_of_version_6_keep_their_colons() {
        assert_eq!(chosen(Some("::1"), None, None, None), "::1 9042");
        assert_eq!(chosen(Some("[::1]:7"), None, None, None), "::1 7");
        assert_eq!(chosen(Some("[fe80::1]"), Some(7), None, None), "fe80::1 7");
    }

    #[test]
    fn what_is_no_port_is_refused() {
        for host in ["a:", "a:0", "a:70000", "a:x", "[::1]7", "[::1]:"] {
            assert!(
                chosen(Some(host), None, None, None).contains("the text after the host is not a port"),
                "{host}"
            );
        }
        assert!(chosen(Some("[::1"), None, None, None).contains("] is missing"));
        assert!(chosen(Some("a:1"), Some(2), None, None).starts_with("two ports are given for a: 1 and 2"));
        assert!(
            chosen(None, None, None, Some("x")).starts_with("CQLSH_PORT=x in the environment is not a port")
        );
    }
}
