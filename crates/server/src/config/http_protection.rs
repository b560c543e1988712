//! Access rules of the admin API and the metrics.
//!
//! Listeners on the loopback require a password only if there is a password file. Other addresses require a
//! password file, or the option that allows anonymous access.

use std::net::IpAddr;
use std::path::PathBuf;

/// Protection of both HTTP listeners.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpProtection {
    /// A file with `name:password` on each line.
    pub password_file: Option<PathBuf>,
    /// Allows the API without a password, beyond the loopback too.
    pub api_allow_anonymous: bool,
    /// The same for the metrics.
    pub prometheus_allow_anonymous: bool,
}

impl HttpProtection {
    fn asks(&self) -> bool {
        self.password_file.is_some()
    }

    /// Checks the addresses that the two listeners are bound to.
    ///
    /// # Errors
    /// A listener would be open to the network without a password.
    pub fn check(&self, api: &[IpAddr], metrics: &[IpAddr]) -> Result<(), String> {
        let is_open = |addresses: &[IpAddr]| addresses.iter().any(|address| !address.is_loopback());
        let text = |address: &str, what: &str, allow: &str| {
            format!(
                "{address} is not on the loopback, and {what} would be open to the network; set api_password_file, or {allow}: \
                 true to leave it open"
            )
        };
        if is_open(api) && !self.asks() && !self.api_allow_anonymous {
            return Err(text("api_address", "the admin API", "api_allow_anonymous"));
        }
        if is_open(metrics) && !self.asks() && !self.prometheus_allow_anonymous {
            return Err(text("prometheus_address", "the metrics", "prometheus_allow_anonymous"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_beyond_the_loopback_needs_a_password() {
        let (home, any): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [0, 0, 0, 0].into());
        let nobody = HttpProtection::default();
        assert_eq!(nobody.check(&[home], &["::1".parse().unwrap()]), Ok(()));
        assert!(nobody.check(&[any], &[home]).unwrap_err().starts_with("api_address"));
        assert!(nobody.check(&[home, [10, 0, 0, 1].into()], &[]).is_err());
        assert!(nobody.check(&[home], &[any]).unwrap_err().starts_with("prometheus_address"));
        let password = HttpProtection { password_file: Some("p".into()), ..nobody.clone() };
        assert_eq!(password.check(&[any], &[any]), Ok(()));
        let metrics = HttpProtection { prometheus_allow_anonymous: true, ..nobody };
        assert_eq!(metrics.check(&[home], &[any]), Ok(()));
        assert!(metrics.check(&[any], &[any]).is_err());
    }
}
