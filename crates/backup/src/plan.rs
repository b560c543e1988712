//! Decides which files a backup reads, and which objects it writes; pure.

use base::{HashMap, HashSet};

use crate::manifest::{FileEntry, Manifest, object_name};

/// A file of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFile {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// See [`FileEntry::modified_us`].
    pub modified_us: i64,
}

/// The files that earlier backups of the same node have, by table id and name.
#[derive(Debug, Default)]
pub struct Known<'a> {
    files: HashMap<(&'a str, &'a str), &'a FileEntry>,
}

impl<'a> Known<'a> {
    /// The files of the manifests of the node, of which later ones count more.
    pub fn of(manifests: &'a [Manifest], host_id: &str) -> Self {
        let mut known = Self::default();
        for manifest in manifests.iter().filter(|manifest| manifest.host_id == host_id) {
            for table in &manifest.tables {
                for file in &table.files {
                    known.files.insert((&table.id, &file.name), file);
                }
            }
        }
        known
    }

    /// The checksum of a file that an earlier backup has read. A sealed SSTable never changes; length and
    /// time of modification tell a later file of the same name.
    pub fn sha256_of(&self, table_id: &str, file: &LocalFile) -> Option<&'a str> {
        let known = self.files.get(&(table_id, &file.name[..]))?;
        let is_same = known.bytes == file.bytes && known.modified_us == file.modified_us;
        is_same.then_some(&known.sha256[..])
    }
}

/// State of an object in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// A complete backup lists the object with the same length: it was verified when it was copied.
    Verified,
    /// The object exists, and no complete backup lists it: an interrupted backup left it.
    Unverified,
    /// The object does not exist or has another length; the file has to be copied.
    Missing,
}

/// The objects of a target.
#[derive(Debug, Default)]
pub struct Objects {
    lengths: HashMap<String, u64>,
    verified: HashSet<String>,
}

impl Objects {
    /// From the listing of the target and the manifests in it.
    pub fn of(listing: Vec<(String, u64)>, manifests: &[Manifest]) -> Self {
        let verified = manifests.iter().flat_map(Manifest::objects).collect();
        Self { lengths: listing.into_iter().collect(), verified }
    }

    /// The state of the object for a file.
    pub fn state(&self, table_id: &str, sha256: &str, bytes: u64) -> ObjectState {
        let name = object_name(table_id, sha256);
        match self.lengths.get(&name) {
            Some(length) if *length != bytes => ObjectState::Missing,
            Some(_) if self.verified.contains(&name) => ObjectState::Verified,
            Some(_) => ObjectState::Unverified,
            None => ObjectState::Missing,
        }
    }

    /// Records that the object was copied or verified now.
    pub fn verified(&mut self, table_id: &str, sha256: &str, bytes: u64) {
        let name = object_name(table_id, sha256);
        self.lengths.insert(name.clone(), bytes);
        self.verified.insert(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::TableEntry;

    fn manifest(host_id: &str, modified_us: i64, sha256: &str) -> Manifest {
        let file = FileEntry { name: "a".into(), bytes: 3, modified_us, sha256: sha256.into() };
        let table = TableEntry { id: "t".into(), files: vec![file], ..TableEntry::default() };
        Manifest { host_id: host_id.into(), tables: vec![table], ..Manifest::default() }
    }

    #[test]
    fn a_file_is_known_by_name_length_and_time() {
        let manifests = [manifest("me", 7, "x"), manifest("other", 9, "y")];
        let known = Known::of(&manifests, "me");
        let file = LocalFile { name: "a".into(), bytes: 3, modified_us: 7 };
        assert_eq!(known.sha256_of("t", &file), Some("x"));
        assert_eq!(known.sha256_of("u", &file), None);
        assert_eq!(known.sha256_of("t", &LocalFile { bytes: 4, ..file.clone() }), None);
        assert_eq!(known.sha256_of("t", &LocalFile { modified_us: 9, ..file.clone() }), None);
        assert_eq!(known.sha256_of("t", &LocalFile { name: "b".into(), ..file }), None);
    }

    #[test]
    fn only_objects_of_complete_backups_are_trusted() {
        let manifests = [manifest("me", 7, "x"), manifest("me", 7, "gone")];
        let listing = vec![("objects/t/x".to_string(), 3), ("objects/t/left".to_string(), 3)];
        let mut objects = Objects::of(listing, &manifests);
        assert_eq!(objects.state("t", "x", 3), ObjectState::Verified);
        assert_eq!(objects.state("t", "x", 4), ObjectState::Missing);
        assert_eq!(objects.state("t", "left", 3), ObjectState::Unverified);
        assert_eq!(objects.state("t", "gone", 3), ObjectState::Missing);
        objects.verified("t", "gone", 3);
        assert_eq!(objects.state("t", "gone", 3), ObjectState::Verified);
    }
}
