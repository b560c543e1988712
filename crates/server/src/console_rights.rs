//! What the console of the page may do: with a password everything, without one only reads, and only for
//! this machine.

use std::net::IpAddr;

/// What the console of a node may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsoleRights {
    /// Every statement.
    All,
    /// Statements that change nothing.
    Reads,
    /// No statement, for this reason.
    None(&'static str),
}

impl ConsoleRights {
    /// `has_password`: the admin API asks for a password. `api`: the address at which it listens.
    pub fn of(is_on: bool, has_password: bool, api: Option<IpAddr>) -> Self {
        match (is_on, has_password, api) {
            (false, _, _) => Self::None("the console is off: api_page_console is false"),
            (true, true, _) => Self::All,
            (true, false, Some(ip)) if ip.is_loopback() => Self::Reads,
            (true, false, _) => Self::None(
                "the console is off: the admin API is open to other machines without a password; set api_password_file",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_depend_on_password_and_address() {
        let ip = |text: &str| Some(text.parse().unwrap());
        let of = ConsoleRights::of;
        assert_eq!(of(true, true, ip("0.0.0.0")), ConsoleRights::All);
        assert_eq!(of(true, false, ip("127.0.0.1")), ConsoleRights::Reads);
        assert_eq!(of(true, false, ip("::1")), ConsoleRights::Reads);
        for api in [ip("0.0.0.0"), ip("10.0.0.1"), ip("::"), None] {
            assert!(matches!(of(true, false, api), ConsoleRights::None(_)), "{api:?}");
        }
        assert!(matches!(of(false, true, ip("127.0.0.1")), ConsoleRights::None(_)));
        assert!(matches!(of(false, false, ip("127.0.0.1")), ConsoleRights::None(_)));
    }
}
