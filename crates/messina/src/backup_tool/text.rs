//! The output of `messina backup` for people.

use backup::{BackupSummary, Created, Pruned, Restored, Verified};

use crate::nodetool::text::{aligned, size};

pub fn created(created: &Created) -> String {
    let Created { id, target, tables, files, bytes, copied_files, copied_bytes, took_ms } = created;
    format!(
        "Backup {id} in {target}: {tables} tables, {files} files, {}; {copied_files} files ({}) were copied in {} s\n",
        size(*bytes),
        size(*copied_bytes),
        *took_ms as f64 / 1000.0
    )
}

pub fn backups(backups: &[BackupSummary]) -> String {
    if backups.is_empty() {
        return "There are no backups\n".to_string();
    }
    let mut rows = vec![["Backup", "Tables", "Files", "Size", "Node"].map(str::to_string).to_vec()];
    let mut damage = String::new();
    for backup in backups {
        match &backup.damage {
            Some(what) => {
                damage += &format!("{what}\n");
                rows.push(vec![
                    backup.id.clone(),
                    "damaged".into(),
                    String::new(),
                    String::new(),
                    String::new(),
                ]);
            }
            None => rows.push(vec![
                backup.id.clone(),
                backup.tables.to_string(),
                backup.files.to_string(),
                size(backup.bytes),
                backup.host_id.clone(),
            ]),
        }
    }
    format!("{}{damage}", aligned(&rows, "  "))
}

pub fn verified(verified: &Verified) -> String {
    let Verified { backups, objects, bytes, problems } = verified;
    let mut out = format!(
        "{} backups, {objects} objects, {} read: {}\n",
        backups.len(),
        size(*bytes),
        match problems.len() {
            0 => "everything is as it was written".to_string(),
            count => format!("{count} problems"),
        }
    );
    problems.iter().for_each(|problem| out += &format!("{problem}\n"));
    out
}

pub fn restored(restored: &Restored, dir: &str) -> String {
    let Restored { id, tables, files, bytes, mutations } = restored;
    let replayed = match mutations {
        0 => String::new(),
        count => format!(", and {count} later mutations"),
    };
    format!(
        "Restored backup {id} to {dir}: {} tables, {files} files, {}{replayed}\n",
        tables.len(),
        size(*bytes)
    )
}

pub fn pruned(pruned: &Pruned, dry_run: bool) -> String {
    let Pruned { removed, kept, objects, bytes } = pruned;
    let verb = if dry_run { "Would remove" } else { "Removed" };
    let mut out = format!(
        "{verb} {} backups and {objects} objects ({}); {} backups are kept\n",
        removed.len(),
        size(*bytes),
        kept.len()
    );
    removed.iter().for_each(|id| out += &format!("{id}\n"));
    out
}
