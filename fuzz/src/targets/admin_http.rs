//! nodetool parses or refuses any bytes as an answer of the admin API. The guard admits any request headers
//! or refuses them with a status.
//!
//! The first byte selects what is tested.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use messina::nodetool::http::{parse, query};
use server::admin::guard::Guard;
use server::api::login::base64;

pub fn examine(data: &[u8]) {
    let [kind, bytes @ ..] = data else { return };
    match kind % 3 {
        0 => {
            if let Some((_, body)) = parse(bytes) {
                assert!(body.len() <= bytes.len());
            }
        }
        1 => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            let query = query("/v1/x", &[("a", Some(text)), ("b", None)]);
            assert!(query.is_ascii() && !query.contains([' ', '\r', '\n']));
            assert_eq!(base64(bytes).len(), bytes.len().div_ceil(3) * 4);
        }
        _ => guard(kind >> 2, bytes),
    }
}

fn guard(kind: u8, bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let method = if kind & 1 == 0 { Method::GET } else { Method::POST };
    let passwords = (kind & 2 != 0).then(|| vec!["ann:secret".to_string()]);
    let guard = Guard { passwords: passwords.clone(), names: vec!["db.example".to_string()] };
    let path = if kind & 4 == 0 { "/v1/flush" } else { "/v1/console" };
    let answer = guard.check(&method, path, &headers);
    if answer.is_ok() {
        if let Some(origin) = headers.get("origin") {
            // Only the node's own page, and only to the console.
            assert!(method == Method::POST && kind & 4 != 0, "a page's request has passed");
            let [origin, host] = [Some(origin), headers.get("host")].map(|it| it.unwrap().to_str().unwrap());
            let own = ["http://", "https://"].map(|scheme| format!("{scheme}{host}"));
            assert!(own.iter().any(|own| own.eq_ignore_ascii_case(origin)), "a page of {origin} at {host}");
        }
        assert!(method == Method::GET || headers.contains_key("x-requested-by"));
        let login = headers.get("authorization").map(HeaderValue::as_bytes);
        assert!(passwords.is_none() || login == Some(format!("Basic {}", base64(b"ann:secret")).as_bytes()));
    }
}
