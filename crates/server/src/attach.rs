//! `--attach`: maps directories of SSTables to read-only tables.
//!
//! A directory with SSTables is one table. Its name comes from the directory and its parent
//! (`<keyspace>/<table>-<id>`) or from `--attach KEYSPACE.TABLE=DIR`. For a keyspace's directory or a data
//! directory, every table below is attached, except system keyspaces, snapshots and the other directories of
//! `NOT_TABLES`. The file of `--attach-schema` has CREATE statements with the names of key columns.

use std::path::{Path, PathBuf};

use catalog::Catalog;
use engine::Attachment;
use sstable::name::{Component, SSTableName, TableDirectory};

use crate::schema_file;

/// Subdirectories of a table's directory that hold no table.
const NOT_TABLES: [&str; 7] =
    ["snapshots", "backups", "staging", "upload", "quarantine", "pending_delete", "commitlog"];
/// Depth of a table below a data directory: `<data dir>/data/<keyspace>/<table>`.
const DEPTH_MAX: usize = 3;
const KEYSPACE: &str = "attached";

/// The attachments for the values of `--attach`, with schemas from the file of `--attach-schema`.
///
/// # Errors
/// A directory has no SSTables, or the schema file is wrong.
pub fn attachments(texts: &[String], schema: Option<&Path>) -> Result<Vec<Attachment>, String> {
    let mut found = vec![];
    for text in texts {
        let (name, dir) = match text.split_once('=') {
            Some((name, dir)) if name.split('.').all(is_name) => match name.split_once('.') {
                Some((keyspace, table)) => (Some((keyspace.to_owned(), table.to_owned())), Path::new(dir)),
                None => return Err(format!("--attach {text}: expected KEYSPACE.TABLE=DIR, or DIR")),
            },
            _ => (None, Path::new(&text[..])),
        };
        let dir = std::path::absolute(dir).map_err(|error| format!("--attach {text}: {error}"))?;
        let mut dirs = vec![];
        collect(&dir, 0, &mut dirs).map_err(|error| format!("--attach {text}: {error}"))?;
        match (&dirs[..], name) {
            ([], _) => {
                return Err(format!("--attach {text}: the directory and those below it have no SSTable"));
            }
            ([_], Some((keyspace, table))) => {
                found.push(Attachment { dir: dirs.remove(0), keyspace, table, schema: None });
            }
            (_, Some(_)) => {
                return Err(format!("--attach {text}: {} tables cannot have one name", dirs.len()));
            }
            (_, None) => found.extend(dirs.into_iter().map(named)),
        }
    }
    if let Some(file) = schema {
        let catalog = schema_file::load(file, None)?;
        take_schemas(&mut found, &catalog).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(found)
}

fn is_name(text: &str) -> bool {
    (1..=48).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Appends the directories that hold SSTables: `dir` itself or directories below it.
fn collect(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), std::io::Error> {
    let mut below = vec![];
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if entry.file_type()?.is_dir() {
            let is_other = NOT_TABLES.contains(&&name[..]) || name == "system" || name.starts_with("system_");
            below.extend((!is_other).then(|| entry.path()));
        } else if let Ok((_, Component::Toc)) = SSTableName::parse_file_name(&name) {
            found.push(dir.to_owned());
            return Ok(());
        }
    }
    below.sort();
    if depth < DEPTH_MAX {
        below.iter().try_for_each(|dir| collect(dir, depth + 1, found))?;
    }
    Ok(())
}

/// The attachment with its keyspace and table named after the directories.
fn named(dir: PathBuf) -> Attachment {
    let name = |path: Option<&Path>| Some(path?.file_name()?.to_str()?.to_owned());
    let own = name(Some(&dir)).unwrap_or_default();
    let table = match own.parse::<TableDirectory>() {
        Ok(directory) => directory.table,
        Err(_) => own.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(48).collect(),
    };
    let keyspace = name(dir.parent()).filter(|name| is_name(name));
    Attachment { keyspace: keyspace.unwrap_or_else(|| KEYSPACE.to_owned()), table, dir, schema: None }
}

/// Gives each attachment the definition with its name. A single attachment takes a single definition of any
/// name.
fn take_schemas(attachments: &mut [Attachment], catalog: &Catalog) -> Result<(), String> {
    let all: Vec<_> = catalog.all_tables().map(|table| table.schema.clone()).collect();
    if let ([attachment], [only]) = (&mut *attachments, &all[..]) {
        attachment.keyspace.clone_from(&only.keyspace);
        attachment.table.clone_from(&only.name);
        attachment.schema = Some(only.clone());
        return Ok(());
    }
    for schema in all {
        let mut fitting = attachments
            .iter_mut()
            .filter(|attachment| attachment.keyspace == schema.keyspace && attachment.table == schema.name);
        match fitting.next() {
            Some(attachment) => attachment.schema = Some(schema),
            None => return Err(format!("there is no directory to attach for {}", schema.full_name())),
        }
    }
    Ok(())
}
