//! Logins: SASL PLAIN against the roles of the catalog.
//!
//! If the node requires passwords, it answers STARTUP with AUTHENTICATE and then accepts only AUTH_RESPONSE
//! until a password was right. Texts are Cassandra's (source: 4.1 `auth/PasswordAuthenticator.java`).

use std::rc::Rc;

use base::broken;
use engine::node::NodeShard;
use protocol::{CqlError, Header, Reply};

use super::auditing;
use super::connection::Connection;
use super::passwords::Passwords;

/// The class name that informs drivers which credentials to send.
pub(crate) const AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

/// State of a connection's setup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SetupStage {
    #[default]
    New,
    /// AUTH_RESPONSE is expected.
    LoginDue,
    /// AUTH_RESPONSE has arrived and is being checked.
    LoginUnderWay,
    Ready,
}

/// Answers AUTH_RESPONSE.
pub(crate) async fn log_in(connection: &Rc<Connection>, passwords: &Passwords, header: Header, token: &[u8]) {
    let reply = Reply::new(header.version, header.stream);
    let done = authenticate(connection, passwords, token).await;
    if connection.cql.audit.is_on() {
        auditing::login_ended(connection, done.as_deref().ok(), done.as_ref().err()).await;
    }
    match done {
        Ok(role) => {
            connection.session.logged_in(&role);
            connection.answer(|out| reply.auth_success(out, None));
        }
        Err(error) => {
            connection.session.stage.set(SetupStage::LoginDue);
            super::session::count_error(connection);
            connection.answer(|out| reply.error(out, &error));
        }
    }
}

async fn authenticate(
    connection: &Rc<Connection>,
    passwords: &Passwords,
    token: &[u8],
) -> Result<String, CqlError> {
    let (name, password) = credentials(token)?;
    let node = NodeShard::of(&connection.cql.shard).map_err(|error| super::coordinator::cql_error(&error))?;
    let role = node.catalog.borrow().access().role(name).cloned();
    let hash = role.as_ref().and_then(|role| role.salted_hash.as_deref());
    if !(passwords.is_right(password, hash).await? || broken::is("password_checked")) {
        return refuse(&format!("Provided username {name} and/or password are incorrect"));
    }
    if !role.is_some_and(|role| role.can_login) {
        return refuse(&format!("{name} is not permitted to log in"));
    }
    Ok(name.to_string())
}

fn refuse<T>(text: &str) -> Result<T, CqlError> {
    Err(CqlError::BadCredentials(text.to_string()))
}

/// Name and password of `authorization identity NUL name NUL password`; the identity is ignored.
fn credentials(token: &[u8]) -> Result<(&str, &str), CqlError> {
    let mut parts = token.rsplit(|byte| *byte == 0);
    let (password, name, _, more) = (parts.next(), parts.next(), parts.next(), parts.next());
    if more.is_some() {
        return refuse(
            "Credential format error: username or password is empty or contains NUL(\\0) character",
        );
    }
    let (Some(password), Some(name)) = (password, name) else {
        let missing = if password.is_none_or(<[u8]>::is_empty) { "Password" } else { "Authentication ID" };
        return refuse(&format!("{missing} must not be null"));
    };
    match (std::str::from_utf8(name), std::str::from_utf8(password)) {
        (_, Ok("")) => refuse("Password must not be null"),
        (Ok(""), _) => refuse("Authentication ID must not be null"),
        (Ok(name), Ok(password)) => Ok((name, password)),
        _ => refuse("Credential format error: username and password are UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(token: &[u8], expect: &str) {
        let found = match credentials(token) {
            Ok((name, password)) => format!("{name}/{password}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expect, "{token:?}");
    }

    #[test]
    fn credentials_of_sasl_plain() {
        check(b"\0ann\0secret", "ann/secret");
        check(b"boss\0ann\0secret", "ann/secret");
        check(b"ann\0secret", "ann/secret");
        check(b"\0ann\0", "Password must not be null");
        check(b"", "Password must not be null");
        check(b"secret", "Authentication ID must not be null");
        check(b"\0\0secret", "Authentication ID must not be null");
        check(b"\0\xff\0secret", "Credential format error: username and password are UTF-8");
        let nul = "Credential format error: username or password is empty or contains NUL(\\0) character";
        check(b"a\0b\0c\0d", nul);
    }
}
