//! The manifest of a backup: everything that a restore needs, except the content of the SSTables.
//! `docs/formats/backup-manifest.md` has the layout and an example.
//!
//! A manifest is text: a line with the format's version and the SHA-256 of the rest, then JSON. A changed or
//! cut manifest is an error and never a smaller backup.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::BackupError;

/// The first words of a manifest.
const HEAD: &str = "messina backup";
const VERSION: u32 = 1;

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The time of the checkpoint in UTC, such as `20261125T224501.123Z`. Ids of later backups are greater.
    pub id: String,
    /// The same time in microseconds since 1970, by the clock of the node.
    pub at_us: i64,
    /// The node's id.
    pub host_id: String,
    /// The version of Messina that made the backup.
    pub version: String,
    /// For each shard, the commit log position at which the backup ends.
    pub positions: Vec<LogPlace>,
    /// The same in the log of the system tables.
    pub schema_position: LogPlace,
    /// The archive of the commit log that goes on from these positions, if there is one.
    #[serde(default)]
    pub archive: Option<String>,
    /// By keyspace and name; system tables included.
    pub tables: Vec<TableEntry>,
}

/// A position in a commit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogPlace {
    /// The id of the segment.
    pub segment: u64,
    /// The byte in the segment.
    pub offset_bytes: u32,
}

/// A table of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// 32 hexadecimal digits.
    pub id: String,
    /// The statements that create it again.
    pub schema: String,
    /// Whether it belongs to the system. Such tables are a part of every whole restore and of no other.
    pub is_system: bool,
    /// It is a materialized view that lacked rows of its base table. A restored node builds it again.
    #[serde(default)]
    pub is_unbuilt: bool,
    /// The components of its SSTables, by name.
    pub files: Vec<FileEntry>,
}

impl TableEntry {
    /// `keyspace.table`
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }

    /// The name of the table's directory in that of its keyspace.
    pub fn dir_name(&self) -> String {
        format!("{}-{}", self.name, self.id)
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// A component of an SSTable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its file name, such as `me-3-big-Data.db`.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written, in microseconds since 1970. With name and length, it tells the next backup that
    /// the file is the same.
    pub modified_us: i64,
    /// The SHA-256 of its content, as 64 hexadecimal digits.
    pub sha256: String,
}

/// The name of the object that has a file's content.
pub fn object_name(table_id: &str, sha256: &str) -> String {
    format!("{OBJECTS}/{table_id}/{sha256}")
}

/// Directory of the objects in a target.
pub const OBJECTS: &str = "objects";
/// Directory of the manifests in a target.
pub const BACKUPS: &str = "backups";

impl Manifest {
    /// The names of all objects that the backup needs; an object may be named more than once.
    pub fn objects(&self) -> impl Iterator<Item = String> + '_ {
        self.tables
            .iter()
            .flat_map(|table| table.files.iter().map(|file| object_name(&table.id, &file.sha256)))
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(TableEntry::bytes).sum()
    }

    /// The name of the manifest in its target.
    pub fn name(&self) -> String {
        format!("{BACKUPS}/{}", self.id)
    }

    /// The text of the manifest.
    pub fn encode(&self) -> String {
        text_of(HEAD, self)
    }

    /// Parses the text of the manifest `name`.
    ///
    /// # Errors
    /// It is damaged, of a later version, or names files outside of a table's directory.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, BackupError> {
        let manifest: Self = checked_text(HEAD, name, bytes)?;
        manifest.check().map_err(|what| damaged(name, &what))?;
        Ok(manifest)
    }

    /// Names become paths, so each must be one part of a path.
    fn check(&self) -> Result<(), String> {
        let is_plain =
            |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
        let is_hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if !is_plain(&self.id) {
            return Err(format!("the id {:?} is not allowed", self.id));
        }
        for table in &self.tables {
            if !is_plain(&table.keyspace) || !is_plain(&table.name) || !is_hex(&table.id, 32) {
                return Err(format!(
                    "the table {:?} with id {:?} is not allowed",
                    table.full_name(),
                    table.id
                ));
            }
            for file in &table.files {
                if !is_plain(&file.name) || !is_hex(&file.sha256, 64) {
                    return Err(format!("the file {:?} of {} is not allowed", file.name, table.full_name()));
                }
            }
        }
        Ok(())
    }
}

/// A line with `head`, the version and the SHA-256 of the rest, and then a value as JSON.
pub(crate) fn text_of<T: Serialize>(head: &str, value: &T) -> String {
    let body = serde_json::to_string_pretty(value).expect("all keys are text") + "\n";
    format!("{head} {VERSION} {}\n{body}", sha256_hex(body.as_bytes()))
}

/// The value of a text of [`text_of`]; `name` is its object.
///
/// # Errors
/// It is damaged, or of a later version.
pub(crate) fn checked_text<T: DeserializeOwned>(
    head: &str,
    name: &str,
    bytes: &[u8],
) -> Result<T, BackupError> {
    let text = std::str::from_utf8(bytes).map_err(|_| damaged(name, "it is not text"))?;
    let (first, body) = text.split_once('\n').ok_or_else(|| damaged(name, "it has one line"))?;
    let rest = first.strip_prefix(head).and_then(|rest| rest.strip_prefix(' '));
    let Some((version, checksum)) = rest.and_then(|rest| rest.split_once(' ')) else {
        return Err(damaged(name, &format!("the first line does not begin with {head:?}")));
    };
    if version != VERSION.to_string() {
        return Err(BackupError(format!(
            "{name} has version {version} of the format, and this program reads version {VERSION}; use the program that wrote it, \
             or a later one"
        )));
    }
    if sha256_hex(body.as_bytes()) != checksum {
        return Err(damaged(name, "its checksum is wrong"));
    }
    serde_json::from_str(body).map_err(|error| damaged(name, &error.to_string()))
}

fn damaged(name: &str, what: &str) -> BackupError {
    BackupError(format!("{name} is damaged: {what}; it cannot be used"))
}

/// The SHA-256 of bytes, as hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_of_the_format_page() {
        let page = include_str!("../../../docs/formats/backup-manifest.md");
        let (_, example) = page.split_once("```text\n").expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        let manifest = Manifest::decode("backups/example", example.as_bytes()).unwrap();
        assert_eq!(manifest.encode(), example);
        assert_eq!(manifest.tables[0].full_name(), "shop.orders");
        assert_eq!(manifest.bytes(), 4096);
    }

    #[test]
    fn a_changed_manifest_is_an_error() {
        let manifest = Manifest { id: "20261125T224501.123Z".into(), ..Manifest::default() };
        let text = manifest.encode();
        assert_eq!(Manifest::decode("m", text.as_bytes()), Ok(manifest));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(Manifest::decode("m", &bytes).is_err(), "byte {at}");
            assert!(Manifest::decode("m", &text.as_bytes()[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn names_cannot_leave_their_directory() {
        let table =
            TableEntry { keyspace: "..".into(), name: "t".into(), id: "0".repeat(32), ..Default::default() };
        let manifest = Manifest { id: "a".into(), tables: vec![table], ..Manifest::default() };
        let error = Manifest::decode("m", manifest.encode().as_bytes()).unwrap_err();
        assert!(error.0.contains("not allowed"), "{error}");
    }
}
