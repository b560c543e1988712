//! Marks of running backups and prunes in the target. A prune and a backup never run at the same time.
//!
//! Both put their own mark first, and then look for marks of the other kind. Of two that begin together at
//! least one sees the other: a backup waits until the prune has ended; a prune removes its mark and fails.
//! Several backups may run at a time. A mark has the time of its last renewal; one that was not renewed for
//! [`STALE_US`] belongs to a process that is gone, and counts no more.

use std::time::Duration;

use crate::clock;
use crate::error::BackupError;
use crate::storage::Target;

/// Directory of the marks in a target.
const LEASES: &str = "leases";
/// A mark is renewed when it is older than this.
const RENEW_US: i64 = 60_000_000;
/// A mark that was renewed longer ago than this has expired.
pub const STALE_US: i64 = 60 * 60 * 1_000_000;
/// How long a backup waits for a prune.
const WAIT_US: i64 = 10 * 60 * 1_000_000;

/// The operation that a mark announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A backup is being made.
    Create,
    /// Objects are being removed.
    Prune,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Create => "create-",
            Self::Prune => "prune-",
        }
    }
}

/// A mark. It is removed when it is dropped.
pub struct Lease<'a> {
    target: &'a dyn Target,
    name: String,
    renewed_us: i64,
}

impl<'a> Lease<'a> {
    /// Puts the mark of a backup, and waits for a prune that is running.
    ///
    /// # Errors
    /// The target fails, or the prune does not end.
    pub fn create(target: &'a dyn Target, id: &str) -> Result<Self, BackupError> {
        let mut lease = Self::put(target, Kind::Create, id)?;
        let began_us = clock::now_us();
        while let Some(other) = running(target, Kind::Prune)? {
            if clock::now_us() - began_us > WAIT_US {
                return Err(BackupError(format!(
                    "{other} of {} has been running for long; try again when it has ended",
                    target.name()
                )));
            }
            clock::sleep(Duration::from_millis(500));
            lease.renew()?;
        }
        Ok(lease)
    }

    /// Puts the mark of a prune.
    ///
    /// # Errors
    /// The target fails, or a backup is being made.
    pub fn prune(target: &'a dyn Target, id: &str) -> Result<Self, BackupError> {
        let lease = Self::put(target, Kind::Prune, id)?;
        for kind in [Kind::Create, Kind::Prune] {
            let other = list(target, kind)?.into_iter().find(|name| *name != lease.name);
            if let Some(other) = other {
                return Err(BackupError(format!(
                    "{other} of {} is running, or ended less than an hour ago without removing its mark; nothing was removed: try \
                     again later",
                    target.name()
                )));
            }
        }
        Ok(lease)
    }

    fn put(target: &'a dyn Target, kind: Kind, id: &str) -> Result<Self, BackupError> {
        let name = format!("{LEASES}/{}{id}", kind.prefix());
        let mut lease = Self { target, name, renewed_us: 0 };
        lease.renew()?;
        Ok(lease)
    }

    /// Renews the mark if it is time; to be called often.
    ///
    /// # Errors
    /// The target fails.
    pub fn renew(&mut self) -> Result<(), BackupError> {
        let now_us = clock::now_us();
        if now_us - self.renewed_us >= RENEW_US {
            self.target.put_bytes(&self.name, now_us.to_string().as_bytes())?;
            self.renewed_us = now_us;
        }
        Ok(())
    }

    /// Fails if the mark is gone: it was not renewed for too long, and a prune may have removed objects.
    ///
    /// # Errors
    /// See above, or the target fails.
    pub fn check(&self) -> Result<(), BackupError> {
        match self.target.get(&self.name)? {
            Some(_) => Ok(()),
            None => Err(BackupError(format!(
                "{} was removed from {} because it was not renewed for an hour, and objects may be missing; try again",
                self.name,
                self.target.name()
            ))),
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // If it remains, it becomes stale.
        let _ = self.target.remove(&self.name);
    }
}

fn running(target: &dyn Target, kind: Kind) -> Result<Option<String>, BackupError> {
    Ok(list(target, kind)?.into_iter().next())
}

/// The marks of a kind that count; stale ones are removed.
fn list(target: &dyn Target, kind: Kind) -> Result<Vec<String>, BackupError> {
    let mut found = vec![];
    for (name, _) in target.list(LEASES)? {
        if !name.starts_with(&format!("{LEASES}/{}", kind.prefix())) {
            continue;
        }
        // Removed meanwhile.
        let Some(content) = target.get(&name)? else { continue };
        let renewed_us = std::str::from_utf8(&content).ok().and_then(|text| text.parse::<i64>().ok());
        match renewed_us {
            Some(renewed_us) if clock::now_us() - renewed_us <= STALE_US => found.push(name),
            _ => target.remove(&name)?,
        }
    }
    Ok(found)
}
