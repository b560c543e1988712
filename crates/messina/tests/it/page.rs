//! The page of the node: its files are served, every API path it requests exists, and its console runs only
//! the statements that its rights allow.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

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
    let script = get("/page/page.js").1 + &get("/page/console.js").1;
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

/// The status of a statement of the console, and the answer.
fn run(server: &Server, headers: &str, body: &serde_json::Value) -> (u16, serde_json::Value) {
    let body = body.to_string();
    let length = body.len();
    let mut stream = TcpStream::connect(("127.0.0.1", server.api_port)).unwrap();
    let text = format!(
        "POST /v1/console HTTP/1.1\r\nHost: localhost\r\nX-Requested-By: test\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
}

const LOGIN: &str = "Authorization: Basic YW5uOnNlY3JldA==\r\n";

#[test]
fn the_console_of_a_node_without_passwords_only_reads() {
    let dir = Dir::new("page-reads");
    let server = Server::start(&dir.0, &[]);
    let state = http(server.api_port, "GET /v1/console", "").1;
    assert!(state.contains("\"may_change\":false") && state.contains("\"asks_role\":false"), "{state}");
    let (status, found) = run(&server, "", &json!({ "statement": "SELECT key, tokens FROM system.local" }));
    assert_eq!(status, 200, "{found}");
    assert_eq!(
        found["columns"],
        json!([{ "name": "key", "type": "text" }, { "name": "tokens", "type": "set<text>" }])
    );
    assert_eq!(found["rows"][0][0], "local");
    let (status, error) = run(&server, "", &json!({ "statement": "CREATE ROLE ann" }));
    assert!(
        status == 403 && error["error"].as_str().unwrap().contains("only SELECT and DESCRIBE"),
        "{error}"
    );
    let (status, error) = run(&server, "", &json!({ "statement": "SELECT * FORM a" }));
    assert!(status == 400 && error["error"].as_str().unwrap().contains("line 1:9"), "{error}");
    // A page of another origin, and a name that DNS could have pointed here.
    let own = "Sec-Fetch-Site: same-origin\r\nOrigin: http://localhost\r\n";
    let read = json!({ "statement": "SELECT key FROM system.local" });
    assert_eq!(run(&server, own, &read).0, 200);
    for other in
        ["Origin: http://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n", "Origin: http://localhost\r\n"]
    {
        assert_eq!(run(&server, other, &read).0, 403, "{other}");
    }
}

#[test]
fn the_console_runs_as_the_role_that_is_named() {
    let dir = Dir::new("page-roles");
    let file = dir.0.join("passwords");
    std::fs::write(&file, "ann:secret\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let options = [
        "api_password_file=passwords",
        "authenticator=PasswordAuthenticator",
        "authorizer=CassandraAuthorizer",
    ];
    let server = Server::start(&dir.0, &options.map(|option| ["--set", option]).concat());
    let read = json!({ "statement": "SELECT key FROM system.local" });
    assert_eq!(run(&server, "", &read).0, 401, "without the password of the admin API");
    let (status, error) = run(&server, LOGIN, &read);
    assert!(status == 403 && error["error"].as_str().unwrap().contains("asks for a role"), "{error}");
    let with = |role: &str, password: &str, statement: &str| {
        let query = json!({ "statement": statement, "role": role, "password": password });
        run(&server, LOGIN, &query)
    };
    assert_eq!(with("cassandra", "wrong", "SELECT key FROM system.local").0, 403);
    let admin = |statement: &str| with("cassandra", "cassandra", statement);
    let keyspace =
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    let (status, done) = admin(keyspace);
    assert!(status == 200 && done["done"] == "created keyspace shop", "{done}");
    for statement in [
        "CREATE TABLE shop.carts (id int PRIMARY KEY, text text)",
        "INSERT INTO shop.carts (id, text) VALUES (1, 'it''s')",
        "INSERT INTO shop.carts (id) VALUES (2)",
        "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true",
        "GRANT SELECT ON shop.carts TO bob",
    ] {
        let (status, done) = admin(statement);
        assert_eq!(status, 200, "{statement}: {done}");
    }
    // The role may read this table, and nothing more.
    let (status, found) = with("bob", "b", "SELECT text FROM shop.carts WHERE id = 1");
    assert!(status == 200 && found["rows"] == json!([["it's"]]), "{found}");
    for statement in ["DELETE FROM shop.carts WHERE id = 1", "DROP TABLE shop.carts"] {
        let (status, error) = with("bob", "b", statement);
        assert!(status == 403 && error["error"].as_str().unwrap().contains("bob"), "{error}");
    }
    // Pages, the keyspace of names without one, a trace.
    let query = json!({ "statement": "SELECT id FROM carts", "keyspace": "shop", "role": "cassandra",
        "password": "cassandra", "page_rows": 1, "trace": true });
    let (status, first) = run(&server, LOGIN, &query);
    assert!(status == 200 && first["rows"].as_array().unwrap().len() == 1, "{first}");
    assert!(first["trace"]["events"].as_array().unwrap().len() > 1, "{first}");
    let mut next = query.clone();
    next["paging_state"] = first["paging_state"].clone();
    let (_, second) = run(&server, LOGIN, &next);
    assert!(second["rows"].as_array().unwrap().len() == 1 && second["rows"] != first["rows"], "{second}");
    next["paging_state"] = json!("+1");
    assert_eq!(run(&server, LOGIN, &next).0, 400);
}
