//! Access control of the HTTP listeners: requests of web pages are refused, and a name and password are
//! required if any are configured.
//!
//! A browser sends requests on behalf of any web page, also to the loopback address. Requests that a page has
//! made are therefore refused (`Origin`, `Sec-Fetch-Site`), except that the node's own page may read, and may
//! send statements to its console: then `Origin` must be the address that `Host` names. Without passwords,
//! `Host` must not be a name that DNS rebinding could have pointed at this machine. A request that changes
//! something needs a header that HTML forms cannot send.

use std::net::IpAddr;
use std::path::Path;

use axum::http::{HeaderMap, Method, StatusCode, header};
use subtle::ConstantTimeEq;

use super::console;
use crate::api::login::base64;

/// The header's value does not matter.
pub const HEADER: &str = "x-requested-by";

/// What a listener requires of a request.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Lines `name:password`; `None`: no password is required.
    pub passwords: Option<Vec<String>>,
    /// Names allowed in `Host`, besides IP addresses and localhost.
    pub names: Vec<String>,
}

impl Guard {
    /// Checks a request.
    ///
    /// # Errors
    /// Status and text for a request that is refused.
    pub fn check(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), (StatusCode, String)> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let forbidden = |what: &str| Err((StatusCode::FORBIDDEN, what.to_string()));
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let is_of_console = *method == Method::POST
            && path == console::PATH
            && text("sec-fetch-site") == Some("same-origin")
            && is_own(text("origin"), text("host"));
        let is_of_page = |site: &str| site != "none" && !(site == "same-origin" && reads);
        let is_of_page =
            headers.contains_key(header::ORIGIN) || text("sec-fetch-site").is_some_and(is_of_page);
        if is_of_page && !is_of_console {
            return forbidden("requests from web pages are refused");
        }
        if let Some(passwords) = &self.passwords {
            let given =
                text("authorization").and_then(|text| text.strip_prefix("Basic ")).unwrap_or_default();
            // All passwords are compared, so that the duration reveals nothing.
            let is_known =
                |known: &String| bool::from(base64(known.as_bytes()).as_bytes().ct_eq(given.as_bytes()));
            if passwords.iter().filter(|known| is_known(known)).count() == 0 {
                let text = "a name and password are needed: messina nodetool -u NAME -pw PASSWORD";
                return Err((StatusCode::UNAUTHORIZED, text.to_string()));
            }
        } else if !text("host").is_some_and(|host| self.allows_host(host)) {
            return forbidden("Host must be an address of this node or localhost");
        }
        if !reads && !headers.contains_key(HEADER) {
            return forbidden(
                "a request that changes something needs the header X-Requested-By, with any value",
            );
        }
        Ok(())
    }

    fn allows_host(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Whether a page of this origin was loaded from this host: a scheme, and the same name or address and port.
fn is_own(origin: Option<&str>, host: Option<&str>) -> bool {
    let (Some(origin), Some(host)) = (origin, host) else { return false };
    let place = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    !host.is_empty() && place.is_some_and(|place| place.eq_ignore_ascii_case(host))
}

/// The lines of a password file.
///
/// # Errors
/// The file cannot be read, other users can read it, it has no line, or a line is not `name:password`.
pub fn passwords(path: &Path) -> Result<Vec<String>, String> {
    use std::os::unix::fs::MetadataExt;
    let wrong = |error: std::io::Error| format!("api_password_file: cannot read {}: {error}", path.display());
    let mode = std::fs::metadata(path).map_err(wrong)?.mode();
    if mode & 0o077 != 0 {
        return Err(format!(
            "api_password_file: others can read {}: chmod 600 {}",
            path.display(),
            path.display()
        ));
    }
    let text = std::fs::read_to_string(path).map_err(wrong)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<String> = lines.map(str::to_string).collect();
    let is_good =
        |line: &String| line.split_once(':').is_some_and(|(name, word)| !name.is_empty() && !word.is_empty());
    if lines.is_empty() || !lines.iter().all(is_good) {
        return Err(format!("api_password_file: {}: expected name:password on each line", path.display()));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(guard: &Guard, method: Method, headers: &[(&'static str, &str)]) -> u16 {
        status_at(guard, method, "/v1/flush", headers)
    }

    fn status_at(guard: &Guard, method: Method, path: &str, headers: &[(&'static str, &str)]) -> u16 {
        let headers = headers.iter().map(|(name, value)| {
            (header::HeaderName::from_static(name), header::HeaderValue::from_str(value).unwrap())
        });
        guard.check(&method, path, &headers.collect()).map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn web_pages_change_and_read_nothing() {
        let guard = Guard::default();
        let host = ("host", "127.0.0.1:10000");
        assert_eq!(status(&guard, Method::GET, &[host]), 200);
        assert_eq!(status(&guard, Method::GET, &[("host", "[::1]:10000")]), 200);
        assert_eq!(status(&guard, Method::GET, &[("host", "localhost")]), 200);
        assert_eq!(status(&guard, Method::GET, &[("host", "evil.example:10000")]), 403);
        assert_eq!(status(&guard, Method::GET, &[]), 403);
        for method in [Method::GET, Method::POST, Method::DELETE] {
            assert_eq!(status(&guard, method.clone(), &[host, ("origin", "null"), (HEADER, "x")]), 403);
            assert_eq!(status(&guard, method, &[host, ("sec-fetch-site", "cross-site"), (HEADER, "x")]), 403);
        }
        // The node's own page reads, and changes nothing.
        let own = ("sec-fetch-site", "same-origin");
        assert_eq!(status(&guard, Method::GET, &[host, own]), 200);
        assert_eq!(status(&guard, Method::GET, &[("host", "evil.example:10000"), own]), 403);
        assert_eq!(status(&guard, Method::POST, &[host, own, (HEADER, "x")]), 403);
        assert_eq!(status(&guard, Method::POST, &[host]), 403);
        assert_eq!(status(&guard, Method::POST, &[host, (HEADER, "x")]), 200);
    }

    #[test]
    fn only_the_nodes_own_page_reaches_the_console() {
        let guard = Guard::default();
        let host = ("host", "127.0.0.1:10000");
        let own = ("sec-fetch-site", "same-origin");
        let origin = ("origin", "http://127.0.0.1:10000");
        let at = |headers: &[(&'static str, &str)]| status_at(&guard, Method::POST, console::PATH, headers);
        assert_eq!(at(&[host, own, origin, (HEADER, "x")]), 200);
        // A request of the page without the header is one that a form could have sent.
        assert_eq!(at(&[host, own, origin]), 403);
        for other in ["http://evil.example", "http://127.0.0.1:10001", "null", "http://127.0.0.1", ""] {
            assert_eq!(at(&[host, own, ("origin", other), (HEADER, "x")]), 403, "{other}");
        }
        for site in ["cross-site", "same-site", "none"] {
            assert_eq!(at(&[host, ("sec-fetch-site", site), origin, (HEADER, "x")]), 403, "{site}");
        }
        assert_eq!(at(&[host, origin, (HEADER, "x")]), 403, "an origin without the browser's word");
        assert_eq!(at(&[host, own, (HEADER, "x")]), 403, "a page without an origin");
        // A name that DNS points at this machine is its own origin, and is refused as a host.
        let rebound = [("host", "evil.example"), own, ("origin", "http://evil.example"), (HEADER, "x")];
        assert_eq!(at(&rebound), 403);
        // Only this request, and only this method.
        let headers = [host, own, origin, (HEADER, "x")];
        for path in ["/v1/flush", "/v1/console/", "/v1/console/x", "/"] {
            assert_eq!(status_at(&guard, Method::POST, path, &headers), 403, "{path}");
        }
        assert_eq!(status_at(&guard, Method::DELETE, console::PATH, &headers), 403);
        // With passwords, the page needs one too.
        let guard = Guard { passwords: Some(vec!["ann:secret".to_string()]), names: vec![] };
        assert_eq!(status_at(&guard, Method::POST, console::PATH, &headers), 401);
    }

    #[test]
    fn passwords_are_asked_for() {
        let guard = Guard { passwords: Some(vec!["ann:secret".to_string()]), names: vec![] };
        let with = |text: &str| format!("Basic {}", base64(text.as_bytes()));
        assert_eq!(status(&guard, Method::GET, &[("host", "a")]), 401);
        assert_eq!(status(&guard, Method::GET, &[("host", "a"), ("authorization", &with("ann:wrong"))]), 401);
        assert_eq!(
            status(&guard, Method::GET, &[("host", "a"), ("authorization", &with("ann:secret"))]),
            200
        );
    }
}
