//! Reloads certificates that change while the node runs: the files are checked periodically and on request.
//! Open connections are not affected. Files that cannot be used change nothing and are logged once.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::ServerConfig;

use super::server::{Contents, TlsFiles};
use crate::{error, info};

/// The TLS configuration of a listener, as it is now.
pub struct ReloadableTls {
    /// The listener's name, for the log.
    what: &'static str,
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
    /// The content at the last check, valid or not.
    seen: Mutex<Result<Contents, String>>,
}

impl std::fmt::Debug for ReloadableTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReloadableTls({})", self.what)
    }
}

impl ReloadableTls {
    /// Reads the files and builds the first configuration.
    ///
    /// # Errors
    /// The files cannot be used.
    pub fn load(what: &'static str, files: TlsFiles) -> Result<Arc<Self>, String> {
        let contents = files.read()?;
        let current = RwLock::new(Arc::new(files.build(&contents)?));
        Ok(Arc::new(Self { what, files, current, seen: Mutex::new(Ok(contents)) }))
    }

    /// The configuration for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses the files' content if it has changed since the last check, and logs the result.
    pub fn reload(&self) {
        let now = self.files.read();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return;
        }
        let built = now.as_ref().map_err(Clone::clone).and_then(|contents| self.files.build(contents));
        match built {
            Ok(config) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                info!(
                    "tls",
                    "{}: certificates reloaded from {}",
                    self.what,
                    self.files.certificate.display()
                );
            }
            Err(error) => error!(
                "tls",
                "{}: the certificate files have changed and cannot be used; new connections still get the previous certificate: \
                 {error}",
                self.what
            ),
        }
        *seen = now;
    }
}
