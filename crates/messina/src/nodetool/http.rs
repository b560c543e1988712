//! A minimal HTTP client for `nodetool`: one request and one answer on a connection of its own.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use server::api::answers::Failure;

/// Limit of an answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

pub struct Client {
    pub host: String,
    pub port: u16,
    /// `name:password`
    pub login: Option<String>,
}

/// `path?name=value&…` with the parameters that have a value.
pub fn query(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut text = path.to_string();
    let mut separator = '?';
    for (name, value) in parameters {
        let Some(value) = value else { continue };
        text.push(separator);
        separator = '&';
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                text.push(byte as char);
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    text
}

impl Client {
    /// Sends a request and returns the body of the answer.
    ///
    /// # Errors
    /// No node answers, or the node returns an error.
    pub fn ask(&self, method: &str, path: &str) -> Result<String, String> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let place = if host.contains(':') {
            format!("[{host}]:{}", self.port)
        } else {
            format!("{host}:{}", self.port)
        };
        let no_node = |error: io::Error| {
            format!("failed to connect to '{place}': {error}; is a node running, and is this its api_port?")
        };
        let mut stream = TcpStream::connect((host, self.port)).map_err(no_node)?;
        // The address instead of the name, because the node refuses unknown names in `Host`.
        let host = stream.peer_addr().map_or(place.clone(), |address| address.to_string());
        let login = self.login.as_ref().map_or(String::new(), |login| {
            format!("Authorization: Basic {}\r\n", server::api::login::base64(login.as_bytes()))
        });
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nX-Requested-By: nodetool\r\n{login}\
             Content-Length: 0\r\n\r\n"
        );
        let cut_off = |error: io::Error| format!("the connection to '{place}' was lost: {error}");
        stream.write_all(request.as_bytes()).map_err(cut_off)?;
        let mut answer = vec![];
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(cut_off)?;
        let (status, body) =
            parse(&answer).ok_or_else(|| format!("'{place}' does not answer as a Messina node does"))?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let failure = serde_json::from_str(&body).map(|failure: Failure| failure.error);
        Err(failure.unwrap_or_else(|_| format!("status {status}: {body}")))
    }
}

/// Status and body of an answer that ends with its connection; `None` if it is malformed or incomplete.
pub fn parse(answer: &[u8]) -> Option<(u16, String)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let mut body = &answer[end + 4..];
    for line in lines {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            body = body.get(..value.trim().parse().ok()?)?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return None;
        }
    }
    Some((status, String::from_utf8(body.to_vec()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_escaped() {
        let text = query("/v1/x", &[("a", Some("k s&=é")), ("b", None), ("c", Some("1"))]);
        assert_eq!(text, "/v1/x?a=k%20s%26%3D%C3%A9&c=1");
        assert_eq!(query("/v1/x", &[("b", None)]), "/v1/x");
    }

    #[test]
    fn answers() {
        let check = |answer: &str, expected: Option<(u16, &str)>| {
            let expected = expected.map(|(status, body)| (status, body.to_string()));
            assert_eq!(parse(answer.as_bytes()), expected, "{answer:?}");
        };
        check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", Some((200, "{}")));
        check("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", Some((404, "")));
        check("HTTP/1.0 200 OK\r\n\r\nrest", Some((200, "rest")));
        check("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}", None);
        check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", None);
        check("SSH-2.0-x\r\n\r\n", None);
        check("", None);
    }
}
