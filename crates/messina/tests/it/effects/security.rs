//! Options of logins and of the HTTP listeners' passwords.

use std::os::unix::fs::PermissionsExt;

use protocol::{ProtocolVersion, Response};

use super::Group;
use crate::process::{http, output};
use crate::raw_client::Client;

pub fn see(group: &Group) {
    let server = group.start("a", &["authenticator"], &["--in-memory"]);
    let answer = Client::connect(server.cql_port, ProtocolVersion::V4).startup_answer();
    group.sees("authenticator", matches!(answer, Response::Authenticate { .. }), format_args!("{answer:?}"));
    assert!(server.stop().0.success());

    let refused = |more: &[&str]| {
        output(&[&["--in-memory", "--api-port", "0", "--prometheus-port", "0"], more].concat())
    };
    let (status, text) = refused(&["--set", &group.setting("authorizer")]);
    group.sees(
        "authorizer",
        !status.success() && text.contains("permissions (GRANT) are not built yet"),
        text,
    );

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
