//! Census of a log: the files that earlier runs left, and the files that are missing.
//!
//! Every segment that a manifest lists must exist, and so must the manifest of every run. These rules detect
//! a missing manifest without false alarms:
//!
//! - A manifest exists before the first segment of its run; a segment's header states that there is one.
//! - The log of the schema is opened after the first shard's log, so its manifest proves that the first
//!   shard's manifest existed.
//! - When a start is complete, the first shard's manifest records it ([`Manifest::needed_from`]) and so
//!   proves that those of all other shards and of the schema existed. Files of earlier runs may be missing
//!   from then on.

use std::path::{Path, PathBuf};

use model::CqlType;
use runtime::{FileError, Files};

use super::archive;
use super::format::{segment_id, split_id};
use super::manifest::{self, Listed, Manifest};
use super::replay::{self, Gap, OldSegment};

/// A manifest of an earlier run.
#[derive(Clone, Debug)]
pub struct OldManifest {
    pub run: u64,
    pub path: PathBuf,
    /// `None` if it is damaged.
    pub manifest: Option<Manifest>,
}

/// The files of a log's directory.
#[derive(Clone, Debug, Default)]
pub struct Census {
    pub dir: PathBuf,
    /// By id, each with the evidence from its manifest.
    pub segments: Vec<OldSegment>,
    /// By run.
    pub manifests: Vec<OldManifest>,
    /// Whether there are segments that were to be archived.
    pub has_archive: bool,
}

/// Evidence about a segment from the manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The entry of a manifest: the segment was created and is needed.
    pub listed: Option<Listed>,
    /// Length of a listed segment's file.
    pub segment_bytes: u64,
    /// There is no manifest of its run, although there should be one if the segment's header says so.
    pub is_alone: bool,
}

/// Reads a directory. Recycled files and unfinished manifests are removed, because nothing in them is needed.
pub async fn take(files: &Files, dir: &Path) -> Result<Census, FileError> {
    let mut manifests = vec![];
    let entries = files.read_dir(dir).await?;
    let has_archive = entries.iter().any(|entry| entry.is_dir && entry.name == archive::DIR);
    for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
        let path = dir.join(&entry.name);
        if manifest::is_temporary(&entry.name) {
            files.remove(&path).await?;
        } else if let Some(run) = manifest::run_of_file_name(&entry.name) {
            let manifest = manifest::read(files, &path, run).await?;
            manifests.push(OldManifest { run, path, manifest });
        }
    }
    manifests.sort_by_key(|old| old.run);
    let segments = replay::list(files, dir).await?;
    let mut census = Census { dir: dir.to_path_buf(), segments, manifests, has_archive };
    let evidence: Vec<Evidence> =
        census.segments.iter().map(|segment| census.evidence_of(segment.id)).collect();
    census.segments.iter_mut().zip(evidence).for_each(|(segment, evidence)| segment.evidence = evidence);
    Ok(census)
}

impl Census {
    fn readable(&self) -> impl Iterator<Item = &Manifest> {
        self.manifests.iter().filter_map(|old| old.manifest.as_ref())
    }

    /// Segments and manifests with lower numbers are not needed.
    fn needed_from(&self) -> u64 {
        self.readable().map(|manifest| manifest.needed_from).max().unwrap_or(0)
    }

    /// The highest segment number in any file name or manifest; 0 if there is none.
    pub fn last_number(&self) -> u64 {
        let listed = self.readable().flat_map(|manifest| manifest.segments.iter().map(|listed| listed.id));
        let runs = self.manifests.iter().map(|old| old.run);
        let ids = self.segments.iter().map(|segment| segment.id).chain(runs).chain(listed);
        ids.map(|id| split_id(id).1).max().unwrap_or(0)
    }

    fn evidence_of(&self, id: u64) -> Evidence {
        if split_id(id).1 < self.needed_from() {
            return Evidence::default();
        }
        let of_shard = |old: &&OldManifest| {
            split_id(old.run).0 == split_id(id).0 && split_id(old.run).1 <= split_id(id).1
        };
        let Some(old) = self.manifests.iter().rfind(of_shard) else {
            return Evidence { is_alone: true, ..Evidence::default() };
        };
        let listed = old.manifest.as_ref().and_then(|manifest| {
            let listed = manifest.segments.iter().find(|listed| listed.id == id)?;
            Some((*listed, u64::from(manifest.segment_bytes)))
        });
        Evidence {
            listed: listed.map(|(listed, _)| listed),
            segment_bytes: listed.map_or(0, |(_, segment_bytes)| segment_bytes),
            is_alone: false,
        }
    }

    /// Manifests of starts that failed before they created a segment: later than the last complete start,
    /// without segments, and without segment files of their run. They may be removed when the log of the
    /// schema has a later run.
    pub fn of_failed_starts(&self) -> impl Iterator<Item = &OldManifest> {
        let needed_from = self.needed_from();
        self.manifests.iter().filter(move |old| {
            let (shard, number) = split_id(old.run);
            number > needed_from
                && old.manifest.as_ref().is_some_and(|manifest| manifest.segments.is_empty())
                && !self.segments.iter().any(|segment| {
                    let (of_shard, of_number) = split_id(segment.id);
                    of_shard == shard && of_number >= number
                })
        })
    }

    fn has_run(&self, run: u64) -> bool {
        self.manifests.iter().any(|old| old.run == run)
    }

    fn gap(&self, name: &str, detail: String) -> Gap {
        Gap { file: self.dir.join(name), offset_bytes: 0, len_bytes: 0, detail }
    }

    fn missing_manifest(&self, run: u64) -> Gap {
        self.gap(&manifest::file_name(run), format!("the file is missing; {WHAT_MANIFESTS_KNOW}"))
    }

    /// Damaged manifests, and listed segments that do not exist.
    fn missing_here(&self) -> Vec<Gap> {
        let needed_from = self.needed_from();
        let mut gaps = vec![];
        for old in self.manifests.iter().filter(|old| split_id(old.run).1 >= needed_from) {
            let Some(manifest) = &old.manifest else {
                let detail = format!("the file is damaged; {WHAT_MANIFESTS_KNOW}");
                gaps.push(self.gap(&manifest::file_name(old.run), detail));
                continue;
            };
            for (index, listed) in manifest.segments.iter().enumerate() {
                if !self.segments.iter().any(|segment| segment.id == listed.id) {
                    // The next segment is created when this one begins to be written, and the one after it
                    // when this one is full.
                    let until = manifest.segments.get(index + 2).map(|later| later.begun_us);
                    let detail = format!("the file is missing, with {}", writes_between(listed, until));
                    gaps.push(self.gap(&super::format::file_name(listed.id), detail));
                }
            }
        }
        gaps
    }
}

const WHAT_MANIFESTS_KNOW: &str =
    "it knows which segments of the commit log there must be, and some may be missing too";

fn writes_between(listed: &Listed, until_us: Option<i64>) -> String {
    let time = |us: i64| CqlType::Timestamp.text_of(&us.div_euclid(1000).to_be_bytes());
    let synced_bytes = u64::from(listed.synced_bytes).saturating_sub(super::format::FIRST_CHUNK_BYTES);
    let from = time(listed.begun_us);
    let until = until_us
        .map_or("at the latest when the node stopped".to_string(), |us| format!("about {}", time(us)));
    format!("writes made after {from} and until {until} ({synced_bytes} bytes or more)")
}

/// The files that must exist and do not, in the logs of users' tables and of the schema.
pub fn missing(users: &Census, schema: &Census) -> Vec<Gap> {
    let mut gaps = users.missing_here();
    let complete = users.readable().find(|manifest| split_id(manifest.run).1 == users.needed_from());
    if let Some(complete) = complete {
        let number = complete.needed_from;
        let of_shards = (0..complete.shard_count).map(|shard| segment_id(shard, number));
        gaps.extend(of_shards.filter(|run| !users.has_run(*run)).map(|run| users.missing_manifest(run)));
        if !schema.manifests.iter().any(|old| old.run >= number) {
            gaps.push(schema.missing_manifest(number));
        }
    }
    let newest = schema.manifests.last().map(|old| old.run);
    if let Some(run) = newest.filter(|run| *run >= users.needed_from() && !users.has_run(*run)) {
        gaps.push(users.missing_manifest(run));
    }
    gaps.extend(schema.missing_here());
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: u64) -> Listed {
        Listed { id, begun_us: 1_700_000_000_000_000, synced_bytes: 164, is_closed: false }
    }

    fn manifest(
        shard: u32,
        number: u64,
        shard_count: u32,
        needed_from: u64,
        segments: &[u64],
    ) -> OldManifest {
        let run = segment_id(shard, number);
        let segments = segments.iter().map(|number| listed(segment_id(shard, *number))).collect();
        let manifest = Manifest { run, shard_count, needed_from, sequence: 3, segment_bytes: 4096, segments };
        OldManifest { run, path: PathBuf::from(manifest::file_name(run)), manifest: Some(manifest) }
    }

    fn census(manifests: Vec<OldManifest>, segments: &[(u32, u64)]) -> Census {
        let segment = |(shard, number): &(u32, u64)| {
            let id = segment_id(*shard, *number);
            let path = PathBuf::from(super::super::format::file_name(id));
            OldSegment { id, path, len_bytes: 4096, evidence: Evidence::default() }
        };
        let segments = segments.iter().map(segment).collect();
        Census { dir: PathBuf::from("log"), segments, manifests, has_archive: false }
    }

    fn names(gaps: &[Gap]) -> Vec<String> {
        gaps.iter().map(|gap| gap.file.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_segment_in_a_manifest_must_be_there() {
        let schema = || census(vec![manifest(0, 5, 2, 5, &[])], &[]);
        let runs = |of_first: &[u64]| vec![manifest(0, 5, 2, 5, of_first), manifest(1, 5, 2, 0, &[5])];
        assert_eq!(missing(&census(runs(&[6, 7]), &[(0, 6), (0, 7), (1, 5)]), &schema()), []);
        // A segment that no manifest lists may exist or not.
        assert_eq!(missing(&census(runs(&[7]), &[(0, 6), (0, 7), (1, 5)]), &schema()), []);
        let gaps = missing(&census(runs(&[6, 7, 9]), &[(0, 7), (0, 9)]), &schema());
        assert_eq!(names(&gaps), ["CommitLog-1-6.log", &super::super::format::file_name(segment_id(1, 5))]);
        let text = gaps[0].to_string();
        assert!(
            text.contains("2023-11-14") && text.contains("about") && text.contains("100 bytes"),
            "{text}"
        );
    }

    #[test]
    fn of_earlier_runs_nothing_is_needed_once_a_start_is_complete() {
        let schema = || census(vec![manifest(0, 9, 1, 9, &[])], &[]);
        // The start of run 9 was not complete, so the files of run 5 are needed.
        let users = census(vec![manifest(0, 5, 1, 5, &[6]), manifest(0, 9, 1, 0, &[9])], &[(0, 9)]);
        assert_eq!(names(&missing(&users, &schema())), ["CommitLog-1-6.log"]);
        assert!(!users.evidence_of(6).is_alone && users.evidence_of(6).listed.is_some());
        let users = census(vec![manifest(0, 5, 1, 5, &[6]), manifest(0, 9, 1, 9, &[9])], &[(0, 9)]);
        assert_eq!(missing(&users, &schema()), []);
        assert_eq!(users.evidence_of(6), Evidence::default());
        assert_eq!(users.last_number(), 9);
    }

    #[test]
    fn manifests_of_failed_starts_are_those_that_tell_of_nothing() {
        let manifests = vec![
            manifest(0, 5, 1, 5, &[]),
            manifest(0, 9, 1, 0, &[]),
            manifest(0, 12, 1, 0, &[12]),
            manifest(0, 15, 1, 0, &[]),
            manifest(1, 15, 1, 0, &[]),
        ];
        let census = census(manifests, &[(0, 6), (0, 12), (1, 16)]);
        let runs = |census: &Census| census.of_failed_starts().map(|old| old.run).collect::<Vec<_>>();
        // Run 9 of the first shard has a later segment file, and so has run 15 of the second.
        assert_eq!(runs(&census), [15]);
        let without_files = Census { segments: vec![], ..census };
        assert_eq!(runs(&without_files), [9, 15, segment_id(1, 15)]);
    }

    #[test]
    fn manifests_vouch_for_each_other() {
        let schema = || census(vec![manifest(0, 5, 3, 5, &[])], &[]);
        let all = || vec![manifest(0, 5, 3, 5, &[]), manifest(1, 5, 3, 0, &[]), manifest(2, 5, 3, 0, &[])];
        assert_eq!(missing(&census(all(), &[]), &schema()), []);
        for gone in 0..3 {
            let mut rest = all();
            let run = rest.remove(gone).run;
            assert_eq!(names(&missing(&census(rest, &[]), &schema())), [manifest::file_name(run)]);
        }
        assert_eq!(names(&missing(&census(vec![], &[]), &schema())), [manifest::file_name(5)]);
        assert_eq!(names(&missing(&census(all(), &[]), &census(vec![], &[]))), [manifest::file_name(5)]);
        // A first start that crashed: the other manifests were not created yet.
        let begun = || vec![manifest(0, 5, 3, 0, &[])];
        assert_eq!(missing(&census(begun(), &[]), &schema()), []);
        assert_eq!(missing(&census(begun(), &[]), &census(vec![], &[])), []);
        // A directory of the previous version.
        let old = census(vec![], &[(0, 1), (1, 1)]);
        assert_eq!(missing(&old, &census(vec![], &[])), []);
        assert!(old.evidence_of(1).is_alone, "which its header says is as it should be");
        let mut damaged = all();
        damaged[1].manifest = None;
        assert_eq!(
            names(&missing(&census(damaged, &[]), &schema())),
            [manifest::file_name(segment_id(1, 5))]
        );
    }
}
