//! Metrics of backups and of the archive of the commit log, since the start of the node.

use super::metrics::Page;
use crate::api::backup_answers::BackupStatus;

pub(super) fn of_backups(page: &mut Page, status: &BackupStatus) {
    page.family("messina_backups_total", "counter", "Backups that this node has made.")
        .sample(&[("result", &"complete")], status.made)
        .sample(&[("result", &"failed")], status.failed);
    page.family(
        "messina_backup_copied_bytes_total",
        "counter",
        "Bytes that backups have copied to their target.",
    )
    .sample(&[], status.copied_bytes);
    let mut age = page.family(
        "messina_backup_last_age_seconds",
        "gauge",
        "Time since the last complete backup of this node; without one since the start there is no value.",
    );
    if let Some(age_ms) = status.last_age_ms {
        age.sample(&[], age_ms as f64 / 1000.0);
    }
    page.family("messina_archive_passes_total", "counter", "Passes of the archive of the commit log.")
        .sample(&[("result", &"complete")], status.archive.passes)
        .sample(&[("result", &"failed")], status.archive.failed);
    page.family(
        "messina_archive_copied_bytes_total",
        "counter",
        "Bytes of commit log segments that were archived.",
    )
    .sample(&[], status.archive.bytes);
    let mut until = page.family(
        "messina_archive_complete_until_seconds",
        "gauge",
        "Writes acknowledged before this time, since 1970, are archived; before the first pass there is no value.",
    );
    if let Some(until_us) = status.archive.complete_until_us {
        until.sample(&[], format_args!("{:.3}", until_us as f64 / 1e6));
    }
}
