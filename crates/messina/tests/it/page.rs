//! The page of the node: its files are served, and what it asks exists.

use std::collections::BTreeSet;

use crate::process::{Dir, Server, http};

/// What a script names between two marks.
fn named<'t>(script: &'t str, begin: &str, is_part: impl Fn(char) -> bool) -> BTreeSet<&'t str> {
    let places = script.match_indices(begin).map(|(at, _)| &script[at..]);
    places.map(|rest| &rest[..rest.find(|char| !is_part(char)).unwrap_or(rest.len())]).collect()
}

#[test]
fn the_page_asks_for_what_the_node_has() {
    let dir = Dir::new("page");
    let server = Server::start(&dir.0, &[]);
    let get = |path: &str| http(server.api_port, &format!("GET {path}"), "");
    let (status, html) = get("/");
    let is_page = html.contains("text/html") && html.contains("default-src 'none'");
    assert!(status.contains("200") && is_page, "{status}\n{html}");
    for file in named(&html, "/page/", |char| char != '"') {
        let (head, text) = get(file);
        assert!(head.contains("200") && !text.is_empty(), "{file}: {head}");
    }
    let script = get("/page/page.js").1;
    let is_path = |char: char| char.is_ascii_alphanumeric() || "/_".contains(char);
    let paths = named(&script, "/v1/", is_path);
    assert!(paths.len() > 8, "{paths:?}");
    for path in paths {
        let (head, text) = get(&format!("{path}?keyspace=system&table=local&tables=local"));
        assert!(
            !head.contains("404 Not Found") || !text.contains("there is nothing at"),
            "{path}: {head} {text}"
        );
    }
    let metrics = get("/metrics").1;
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    for begin in ["scylla_", "messina_"] {
        let names = named(&script, begin, is_name);
        assert!(!names.is_empty());
        for name in names {
            assert!(metrics.contains(&format!("# TYPE {name} ")), "{name} is no metric");
        }
    }
}
