//! Removes old backups, and the objects that no kept one needs.
//!
//! 1. A mark in the target ends or refuses the prune if a backup is being made ([`lease`](crate::lease)).
//! 2. All manifests are read. If one that is to be kept is damaged, nothing is removed: its objects are
//!    unknown.
//! 3. Passes of archives that no kept backup needs go too: those up to the time of the first kept backup of
//!    their chain, with the segments that no later pass names.
//! 4. The manifests of the removed backups are removed, and then the objects that no kept manifest names.
//!    After a crash in between, the next prune removes those objects.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::archive::{ARCHIVE, Pass, passes};
use crate::clock;
use crate::create::id_of;
use crate::error::BackupError;
use crate::fetch;
use crate::lease::Lease;
use crate::manifest::{BACKUPS, Manifest, OBJECTS};
use crate::retention::{Retention, unneeded};
use crate::storage::Target;

/// Result of a prune.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    /// Ids of removed backups.
    pub removed: Vec<String>,
    /// Ids of kept ones.
    pub kept: Vec<String>,
    /// Removed objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// See the head of this file. `dry_run`: nothing is removed.
///
/// # Errors
/// A backup is being made, a manifest is damaged, or the target fails.
pub fn prune(target: &dyn Target, retention: &Retention, dry_run: bool) -> Result<Pruned, BackupError> {
    let now_us = clock::now_us();
    let mut lease = Lease::prune(target, &id_of(now_us))?;
    let manifests = fetch::manifests(target).map_err(|error| {
        BackupError(format!("{error}; nothing was removed: remove that manifest first, or repair it"))
    })?;
    let backups: Vec<(String, i64)> =
        manifests.iter().map(|manifest| (manifest.id.clone(), manifest.at_us)).collect();
    let removed = retention.removed(&backups, now_us);
    let kept: Vec<Manifest> =
        manifests.into_iter().filter(|manifest| !removed.contains(&manifest.id)).collect();
    let mut gone = unneeded(&target.list(OBJECTS)?, &kept);
    // Files of interrupted puts, in a directory. They are no objects yet.
    gone.extend(target.list("partial")?);
    gone.extend(archived(target, &kept)?);
    let pruned = Pruned {
        removed: removed.clone(),
        kept: kept.iter().map(|manifest| manifest.id.clone()).collect(),
        objects: gone.len() as u64,
        bytes: gone.iter().map(|(_, bytes)| bytes).sum(),
    };
    if dry_run {
        return Ok(pruned);
    }
    for id in &removed {
        target.remove(&format!("{BACKUPS}/{id}"))?;
    }
    for (name, _) in gone {
        lease.renew()?;
        target.remove(&name)?;
    }
    Ok(pruned)
}

/// The objects of archives that no kept backup needs.
fn archived(target: &dyn Target, kept: &[Manifest]) -> Result<Vec<(String, u64)>, BackupError> {
    let listing = target.list(ARCHIVE)?;
    let chain_of =
        |name: &str| Some(name.strip_prefix(ARCHIVE)?.strip_prefix('/')?.split_once('/')?.0.to_string());
    let chains: BTreeSet<String> = listing.iter().filter_map(|(name, _)| chain_of(name)).collect();
    let mut gone = BTreeSet::new();
    for chain in chains {
        let bases = kept.iter().filter(|manifest| manifest.archive.as_ref() == Some(&chain));
        let first_us = bases.map(|manifest| manifest.at_us).min().unwrap_or(i64::MAX);
        let (mut old, mut needed) = (vec![], BTreeSet::new());
        for time_us in passes(target, &chain)? {
            let name = Pass::name_of(&chain, time_us);
            let Some(content) = target.get(&name)? else { continue };
            // Nothing is known about the segments of a damaged pass, so they stay.
            let Ok(pass) = Pass::decode(&name, &content) else { continue };
            let segments = pass.segments.iter().map(|segment| segment.name(&chain));
            if time_us <= first_us {
                old.extend(segments);
                gone.insert(name);
            } else {
                needed.extend(segments);
            }
        }
        gone.extend(old.into_iter().filter(|name| !needed.contains(name)));
    }
    Ok(listing.into_iter().filter(|(name, _)| gone.contains(name)).collect())
}
