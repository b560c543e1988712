//! Options of logins and of the HTTP listeners' passwords.

use std::os::unix::fs::PermissionsExt;

use protocol::{BatchQuery, BatchStatement, ProtocolVersion, Request, Response};

use super::Group;
use crate::process::{Server, http, output};
use crate::raw_client::{Client, batch_of, execute, query, values};

pub fn see(group: &Group) {
    let server = group.start("a", &["authenticator"], &["--in-memory"]);
    let answer = Client::connect(server.cql_port, ProtocolVersion::V4).startup_answer();
    group.sees("authenticator", matches!(answer, Response::Authenticate { .. }), format_args!("{answer:?}"));
    assert!(server.stop().0.success());

    let refused = |more: &[&str]| {
        output(&[&["--in-memory", "--api-port", "0", "--prometheus-port", "0"], more].concat())
    };
    let (status, text) = refused(&["--set", &group.setting("authorizer")]);
    assert!(!status.success() && text.contains("can't be used with AllowAllAuthenticator"), "{text}");
    see_permissions(group);

    let passwords = group.place("b").join("passwords");
    std::fs::write(&passwords, "ann:secret\n").unwrap();
    std::fs::set_permissions(&passwords, std::fs::Permissions::from_mode(0o600)).unwrap();
    let server = group.start("b", &["api_password_file", "prometheus_allow_anonymous"], &["--in-memory"]);
    let (answer, text) = http(server.api_port, "GET /v1/version", "");
    group.sees("api_password_file", answer.contains("401"), text);
    let (answer, text) = http(server.prometheus_port, "GET /metrics", "");
    group.sees("prometheus_allow_anonymous", answer.contains("200"), text);
    assert!(server.stop().0.success());

    let open = ["--set", "api_address=0.0.0.0"];
    let (status, text) = refused(&open);
    assert!(!status.success() && text.contains("api_allow_anonymous"), "{text}");
    let server = group.start("c", &["api_allow_anonymous"], &["--in-memory", open[0], open[1]]);
    let (answer, text) = http(server.api_port, "GET /v1/version", "");
    group.sees("api_allow_anonymous", answer.contains("200"), text);
    assert!(server.stop().0.success());
}

/// A client that has logged in.
fn logged_in(server: &Server, name: &str, password: &str) -> Client {
    let mut client = Client::connect(server.cql_port, ProtocolVersion::V5);
    assert!(matches!(client.startup_answer(), Response::Authenticate { .. }));
    let token = format!("\0{name}\0{password}");
    let answer = client.ask(&Request::AuthResponse { token: Some(token.as_bytes()) });
    assert!(matches!(answer, Response::AuthSuccess { .. }), "{answer:?}");
    client
}

/// Permissions on a node: every way in which a statement comes, and changes that act on open connections.
fn see_permissions(group: &Group) {
    let options = ["authenticator", "authorizer", "dynamic_data_masking_enabled"];
    let server = group.start("permissions", &options, &["--in-memory"]);
    let mut admin = logged_in(&server, "cassandra", "cassandra");
    for text in [
        "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true",
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
    ] {
        admin.run(text);
    }
    let mut bob = logged_in(&server, "bob", "b");
    let (read, write) = ("SELECT v FROM ks.t WHERE k = 1", "INSERT INTO ks.t (k, v) VALUES (1, 2)");
    let denied = |permission: &str| {
        format!("User bob has no {permission} permission on <table ks.t> or any of its parents")
    };
    // Whoever prepares the statement, it is checked when it is executed.
    let id = match admin.ask(&Request::Prepare { text: read, keyspace: None }) {
        Response::Prepared(prepared) => prepared.id,
        other => panic!("{other:?}"),
    };
    let none = values(&[]);
    let found = bob.refusal(&query(read));
    group.sees("authorizer", found.code() == 0x2100 && found.to_string() == denied("SELECT"), found);
    assert_eq!(bob.refusal(&execute(&id, &none)).to_string(), denied("SELECT"));
    assert_eq!(bob.refusal(&query(write)).to_string(), denied("MODIFY"));
    let batch = batch_of(vec![BatchStatement { query: BatchQuery::Text(write), values: none.values() }]);
    assert_eq!(bob.refusal(&batch).to_string(), denied("MODIFY"));
    admin.run("GRANT SELECT, MODIFY ON ks.t TO bob");
    assert!(matches!(bob.ask(&batch), Response::Void));
    assert!(matches!(bob.ask(&execute(&id, &none)), Response::Rows(_)));
    assert_eq!(bob.rows(read).len(), 1);
    // The system's tables show the permissions, and only to those who may read them.
    let stored = "SELECT permissions FROM system_auth.role_permissions WHERE role = 'bob'";
    assert_eq!(admin.rows(stored).len(), 1);
    assert_eq!(bob.refusal(&query(stored)).code(), 0x2100);
    assert!(!bob.rows("SELECT table_name FROM system_schema.tables").is_empty());
    admin.run("REVOKE SELECT ON ks.t FROM bob");
    assert_eq!(bob.refusal(&execute(&id, &none)).to_string(), denied("SELECT"));
    admin.run("CREATE TABLE ks.m (k int PRIMARY KEY, v text MASKED WITH mask_inner(1, null))");
    admin.run("INSERT INTO ks.m (k, v) VALUES (1, 'secret')");
    admin.run("GRANT SELECT ON ks.m TO bob");
    let masked = "SELECT v FROM ks.m";
    let found = bob.rows(masked).concat();
    group.sees(
        "dynamic_data_masking_enabled",
        found == [Some(b"s*****".to_vec())],
        format_args!("{found:?}"),
    );
    assert_eq!(admin.rows(masked).concat(), [Some(b"secret".to_vec())]);
    assert_eq!(admin.rows("SELECT function_name FROM system_schema.column_masks").len(), 1);
    admin.run("ALTER TABLE ks.m ALTER v DROP MASKED");
    assert_eq!(bob.rows(masked).concat(), [Some(b"secret".to_vec())]);
    admin.run("DROP TABLE ks.m");
    admin.run("DROP TABLE ks.t");
    assert!(admin.rows(stored).is_empty());
    assert!(server.stop().0.success());
}
