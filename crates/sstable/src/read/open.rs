//! Opens an SSTable. The components that TOC.txt lists must exist, be sound, and agree with one another.

use std::cell::{Cell, OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::crc::crc32;
use base::murmur3;
use model::PartitionKey;
use runtime::{File, Files, IoClass, OpenOptions};

use crate::codec::{Decompressor, Method};
use crate::component::compression_info::CompressionInfo;
use crate::component::crc::ChunkCrcs;
use crate::component::filter::{FP_CHANCE_MIN, Filter};
use crate::component::index::INDEX_PAGE_BYTES;
use crate::component::messina::MessinaInfo;
use crate::component::partitions_db::PartitionsFooter;
use crate::component::secondary_index;
use crate::component::statistics::{MURMUR3_PARTITIONER, Statistics};
use crate::component::summary::{Spacing, Summary, SummaryBuilder};
use crate::component::{FormatError, digest, toc};
use crate::name::{Component, SSTableName};
use crate::pool::CacheClass;
use crate::read::data::cache::ChunkCache;
use crate::read::data::chunked::{ChunkedFile, PLAIN_CHUNK_BYTES_MAX, is_readable_unit};
use crate::read::data::window::Fetch;
use crate::read::decode::columns::{ColumnMaps, DiskColumns};
use crate::read::decode::unfiltered::Bases;
use crate::read::error::SSTableError;
use crate::read::index::entries::EntryPages;
use crate::read::index::index_db::IndexCursor;
use crate::read::index::partition_index::PartitionIndex;
use crate::read::index::secondary::SecondaryIndex;
use crate::read::index::trie::{PartitionTrie, PartitionTrieCursor};
use crate::read::sstable::SSTable;
use crate::version::Format;

/// Longest component in bytes that is read into memory as a whole. The largest bloom filters can in theory
/// take 16 GiB.
const COMPONENT_BYTES_MAX: u64 = 4 << 30;

struct Opening<'a> {
    files: &'a Files,
    dir: &'a Path,
    name: SSTableName,
    class: IoClass,
    components: Vec<Component>,
    /// The content of Messina.db, once it has been read.
    messina: Option<MessinaInfo>,
    /// Components that are rebuilt in memory or not used, each with the reason.
    rebuilt: Rebuilt,
}

impl Opening<'_> {
    fn path(&self, component: &Component) -> PathBuf {
        self.dir.join(self.name.file_name(component))
    }

    fn lists(&self, component: &Component) -> bool {
        self.components.contains(component)
    }

    async fn bytes(&self, component: &Component) -> Result<Vec<u8>, SSTableError> {
        let path = self.path(component);
        match self.files.read_all(&path, self.class, COMPONENT_BYTES_MAX).await {
            Err(error) if error.is_not_found() => Err(SSTableError::Missing { file: path }),
            other => Ok(other?),
        }
    }

    async fn decode<T>(
        &self,
        component: &Component,
        decode: impl FnOnce(&[u8]) -> Result<T, FormatError>,
    ) -> Result<T, SSTableError> {
        if matches!(component, Component::Summary | Component::Filter) {
            self.check_trusted(component)?;
        }
        let bytes = self.bytes(component).await?;
        self.check_crc(component, &bytes)?;
        decode(&bytes).map_err(|error| SSTableError::Format { file: self.path(component), error })
    }

    /// Reads Messina.db if it exists, even if TOC.txt does not list it, because its checksums decide whether
    /// other components are sound. A damaged Messina.db is treated as missing and noted in `rebuilt`.
    async fn read_messina(&mut self) -> Result<(), SSTableError> {
        let component = Component::Messina;
        if self.lists(&component) || self.files.exists(&self.path(&component)).await? {
            let messina = self.decode(&component, MessinaInfo::decode).await;
            self.messina = keep_or_rebuild(messina, component, &mut self.rebuilt)?;
        }
        Ok(())
    }

    /// Fails if Messina.db exists but is damaged: then the checksums of `component` are unknown, and a
    /// component that can be rebuilt is not trusted.
    fn check_trusted(&self, component: &Component) -> Result<(), SSTableError> {
        match self.rebuilt.iter().any(|(lost, _)| *lost == Component::Messina) {
            false => Ok(()),
            true => Err(SSTableError::Inconsistent {
                file: self.path(component),
                detail: "without Messina.db its content cannot be checked".to_owned(),
            }),
        }
    }

    /// Compares the checksum of a whole component with Messina.db, if Messina.db has one.
    fn check_crc(&self, component: &Component, bytes: &[u8]) -> Result<(), SSTableError> {
        // Messina.db's checksum for Statistics.db covers the decoded content, not the bytes; see
        // `check_statistics`.
        if *component == Component::Statistics {
            return Ok(());
        }
        let expected = self.messina.as_ref().and_then(|messina| messina.crc_of(component));
        match expected.map(|expected| (expected, crc32(bytes))) {
            Some((expected, found)) if found != expected => Err(SSTableError::Inconsistent {
                file: self.path(component),
                detail: format!("it has checksum {found:08x}, Messina.db has {expected:08x}"),
            }),
            _ => Ok(()),
        }
    }

    /// Compares the checksum of the content of Statistics.db, without the fields that tools change in place,
    /// with Messina.db.
    fn check_statistics(&self, statistics: &Statistics) -> Result<(), SSTableError> {
        let version = self.name.version;
        let expected = self.messina.as_ref().and_then(|messina| messina.crc_of(&Component::Statistics));
        match expected.filter(|_| version.is_writable()).map(|it| (it, statistics.lasting_crc(version))) {
            Some((expected, found)) if found != expected => Err(SSTableError::Inconsistent {
                file: self.path(&Component::Statistics),
                detail: format!("its content has checksum {found:08x}, Messina.db has {expected:08x}"),
            }),
            _ => Ok(()),
        }
    }

    /// The page checksums of Index.db, which is `len_bytes` long, from Messina.db.
    fn index_crcs(&mut self, len_bytes: u64) -> Result<Option<ChunkCrcs>, SSTableError> {
        let Some(encoded) = self.messina.as_mut().and_then(|messina| messina.index_crcs.take()) else {
            return Ok(None);
        };
        match ChunkCrcs::decode(&encoded, len_bytes) {
            Ok(crcs) if is_readable_unit(crcs.chunk_bytes()) => Ok(Some(crcs)),
            Ok(_) => Ok(None),
            Err(error) => Err(SSTableError::Inconsistent {
                file: self.path(&Component::Index),
                detail: format!("its length is not the one that Messina.db has checksums for: {error}"),
            }),
        }
    }

    /// As [`Self::decode`], but `None` if TOC.txt does not list the component.
    async fn decode_listed<T>(
        &self,
        component: &Component,
        decode: impl FnOnce(&[u8]) -> Result<T, FormatError>,
    ) -> Result<Option<T>, SSTableError> {
        if !self.lists(component) {
            return Ok(None);
        }
        self.decode(component, decode).await.map(Some)
    }

    async fn file(&self, component: &Component) -> Result<(File, u64), SSTableError> {
        let path = self.path(component);
        let file = match self.files.open(&path, OpenOptions::read().with_direct(true)).await {
            Err(error) if error.is_not_found() => return Err(SSTableError::Missing { file: path }),
            other => other?,
        };
        let len_bytes = file.len_bytes().await?;
        if len_bytes == 0 {
            let detail = "the file is empty; an SSTable has a partition".to_owned();
            return Err(SSTableError::Inconsistent { file: path, detail });
        }
        Ok((file, len_bytes))
    }

    fn unsupported(&self, component: &Component, detail: String) -> SSTableError {
        SSTableError::Unsupported { file: self.path(component), detail }
    }
}

/// The list of an SSTable's components.
pub(super) enum Listing {
    /// The components that this file lists.
    In(Component),
    Given(Vec<Component>),
    /// These components exist and others are missing. The SSTable may be opened without its index.
    Damaged(Vec<Component>),
}

pub(super) async fn open(
    files: &Files,
    dir: &Path,
    name: SSTableName,
    contents: Listing,
    cache: &Rc<ChunkCache>,
    class: IoClass,
) -> Result<Rc<SSTable>, SSTableError> {
    let mut opening = Opening { files, dir, name, class, components: vec![], messina: None, rebuilt: vec![] };
    if name.format != name.version.format() {
        let detail = format!(
            "version {} is in format {}, not {}",
            name.version,
            name.version.format().word(),
            name.format.word()
        );
        return Err(opening.unsupported(&Component::Data, detail));
    }
    let is_damaged = matches!(contents, Listing::Damaged(_));
    opening.components = match contents {
        Listing::In(file) => opening.decode(&file, toc::decode).await?,
        Listing::Given(components) | Listing::Damaged(components) => components,
    };
    check_listed(&opening).await?;
    let statistics =
        opening.decode(&Component::Statistics, |bytes| Statistics::decode(bytes, name.version)).await?;
    if statistics.validation.partitioner != MURMUR3_PARTITIONER {
        let detail = format!(
            "it was written with partitioner {}, this build has {MURMUR3_PARTITIONER}; export and import the data",
            statistics.validation.partitioner
        );
        return Err(opening.unsupported(&Component::Statistics, detail));
    }
    let columns = DiskColumns::new(&statistics.header).map_err(|(class_name, error)| {
        let detail = format!("a column has type {class_name}, which this build cannot read: {error}");
        opening.unsupported(&Component::Statistics, detail)
    })?;
    opening.read_messina().await?;
    opening.check_statistics(&statistics)?;
    let data = open_data(&opening, cache).await?;
    // Only [`SSTable::verify`] uses the digest.
    let digest = opening.decode_listed(&Component::Digest, digest::decode).await;
    let digest = keep_or_rebuild(digest, Component::Digest, &mut opening.rebuilt)?.flatten();
    let (index, filter) = match name.format {
        Format::Big => {
            let (file, summary, filter) = match big_index(&mut opening, cache, &statistics).await {
                Err(error) if is_damaged => {
                    opening.rebuilt.push((Component::Index, error.to_string()));
                    no_index(&opening, cache).await?
                }
                found => found?,
            };
            (PartitionIndex::Big { file, summary, pages: EntryPages::new(cache) }, filter)
        }
        Format::Bti => {
            let trie = open_trie(&opening, cache).await?;
            let filter = filter_of_trie(&mut opening, &trie, &data, &statistics).await?;
            (PartitionIndex::Trie(Box::new(trie)), filter)
        }
    };
    let (first_key, last_key) = match &index {
        PartitionIndex::Big { summary, .. } => (summary.first_key(), summary.last_key()),
        PartitionIndex::Trie(trie) => (&trie.footer.first_key[..], &trie.footer.last_key[..]),
    };
    let (first_key, last_key) = (PartitionKey::new(first_key), PartitionKey::new(last_key));
    let secondary = open_secondary(&mut opening, data.file_bytes(), cache).await?;
    Ok(Rc::new(SSTable {
        dir: dir.to_owned(),
        name,
        components: opening.components,
        rebuilt: opening.rebuilt,
        data,
        index,
        filter,
        bases: Bases::new(statistics.header.bases, name.version),
        statistics,
        messina: opening.messina,
        first_key,
        last_key,
        columns,
        maps: RefCell::new(ColumnMaps::default()),
        point_reads: Cell::new(0),
        false_positives: OnceCell::new(),
        digest,
        secondary: RefCell::new(secondary),
    }))
}

/// The secondary indexes that TOC.txt lists. One that is missing or damaged is left out; the engine builds it
/// again.
async fn open_secondary(
    opening: &mut Opening<'_>,
    data_bytes: u64,
    cache: &Rc<ChunkCache>,
) -> Result<Vec<Rc<SecondaryIndex>>, SSTableError> {
    let listed: Vec<Component> = opening.components.clone();
    let mut opened = vec![];
    for (component, id) in listed.into_iter().filter_map(|it| secondary_index::id_of(&it).map(|id| (it, id)))
    {
        let (files, dir, name, class) = (opening.files, opening.dir, &opening.name, opening.class);
        let index = SecondaryIndex::open(files, dir, name, id, data_bytes, cache, class).await;
        match index {
            // It was dropped, or a crash came just before it got its name.
            Err(SSTableError::Missing { .. }) => {}
            index => opened.extend(keep_or_rebuild(index, component, &mut opening.rebuilt)?),
        }
    }
    Ok(opened)
}

type BigIndex = (ChunkedFile, Summary, Option<Filter>);

async fn big_index(
    opening: &mut Opening<'_>,
    cache: &Rc<ChunkCache>,
    statistics: &Statistics,
) -> Result<BigIndex, SSTableError> {
    let (file, len_bytes) = opening.file(&Component::Index).await?;
    let crcs = opening.index_crcs(len_bytes)?;
    let file = ChunkedFile::plain(file, len_bytes, INDEX_PAGE_BYTES, crcs, cache, CacheClass::IndexPages);
    let (summary, filter) = summary_and_filter(opening, &file, statistics).await?;
    Ok((file, summary, filter))
}

/// An empty index.
async fn no_index(opening: &Opening<'_>, cache: &Rc<ChunkCache>) -> Result<BigIndex, SSTableError> {
    let (file, _) = opening.file(&Component::Data).await?;
    let file = ChunkedFile::plain(file, 0, INDEX_PAGE_BYTES, None, cache, CacheClass::IndexPages);
    let mut builder = SummaryBuilder::new(Spacing::default());
    // A summary has at least one key. The caller replaces this one by the true first and last keys.
    builder.add(PartitionKey::new(&b""[..]).token(), b"", 0, 0);
    Ok((file, builder.finish(), None))
}

/// Checks that every listed file exists, except components that can be rebuilt or that are optional, and
/// components of other programs.
async fn check_listed(opening: &Opening<'_>) -> Result<(), SSTableError> {
    for component in &opening.components {
        // TOC.txt was read before, under its final or its temporary name.
        let is_needless = matches!(
            component,
            Component::Summary
                | Component::Filter
                | Component::Digest
                | Component::Messina
                | Component::Toc
                | Component::Other(_)
        );
        if is_needless {
            continue;
        }
        let file = opening.path(component);
        if !opening.files.exists(&file).await? {
            return Err(SSTableError::Missing { file });
        }
    }
    // Without CompressionInfo.db the compressed bytes would be parsed as data.
    let info = opening.path(&Component::CompressionInfo);
    if !opening.lists(&Component::CompressionInfo) && opening.files.exists(&info).await? {
        let detail = format!("it does not list CompressionInfo.db, and there is {}", info.display());
        return Err(SSTableError::Inconsistent { file: opening.path(&Component::Toc), detail });
    }
    Ok(())
}

async fn open_data(opening: &Opening<'_>, cache: &Rc<ChunkCache>) -> Result<ChunkedFile, SSTableError> {
    let version = opening.name.version;
    let (file, file_bytes) = opening.file(&Component::Data).await?;
    let info = opening
        .decode_listed(&Component::CompressionInfo, |bytes| CompressionInfo::decode(bytes, version))
        .await?;
    if let Some(mut info) = info {
        let decompressor = decompressor(opening, &mut info)?;
        let last = info.chunk(info.offsets.len() - 1, file_bytes);
        last.map_err(|error| SSTableError::Format { file: opening.path(&Component::Data), error })?;
        return Ok(ChunkedFile::compressed(file, file_bytes, info, decompressor, cache));
    }
    let crcs = opening.decode_listed(&Component::Crc, |bytes| ChunkCrcs::decode(bytes, file_bytes)).await?;
    if let Some(unit) = crcs.as_ref().map(ChunkCrcs::chunk_bytes).filter(|unit| !is_readable_unit(*unit)) {
        let detail = format!(
            "a checksum for every {unit} bytes; this build reads units of up to 16 KiB, and multiples of that up to 1 MiB"
        );
        return Err(opening.unsupported(&Component::Crc, detail));
    }
    Ok(ChunkedFile::plain(file, file_bytes, PLAIN_CHUNK_BYTES_MAX, crcs, cache, CacheClass::Chunks))
}

async fn open_trie(opening: &Opening<'_>, cache: &Rc<ChunkCache>) -> Result<PartitionTrie, SSTableError> {
    let (file, len_bytes) = opening.file(&Component::Partitions).await?;
    let tail_bytes = len_bytes.min(PartitionsFooter::SIZE_BYTES_MAX as u64);
    let tail = file.read_at(len_bytes - tail_bytes, tail_bytes as usize, opening.class).await?;
    let footer = PartitionsFooter::decode(&tail, len_bytes)
        .map_err(|error| SSTableError::Format { file: opening.path(&Component::Partitions), error })?;
    let partitions =
        ChunkedFile::plain(file, len_bytes, INDEX_PAGE_BYTES, None, cache, CacheClass::IndexPages);
    // Rows.db is empty if no partition has a row index.
    let path = opening.path(&Component::Rows);
    let rows = match opening.files.open(&path, OpenOptions::read().with_direct(true)).await {
        Err(error) if error.is_not_found() => return Err(SSTableError::Missing { file: path }),
        other => other?,
    };
    let rows = match rows.len_bytes().await? {
        0 => None,
        len_bytes => {
            Some(ChunkedFile::plain(rows, len_bytes, INDEX_PAGE_BYTES, None, cache, CacheClass::IndexPages))
        }
    };
    Ok(PartitionTrie { partitions, rows, footer, version: opening.name.version })
}

/// Loads the filter, or rebuilds it if it is missing or not sound.
async fn filter_of_trie(
    opening: &mut Opening<'_>,
    trie: &PartitionTrie,
    data: &ChunkedFile,
    statistics: &Statistics,
) -> Result<Option<Filter>, SSTableError> {
    let version = opening.name.version;
    let filter = opening.decode_listed(&Component::Filter, |bytes| Filter::decode(bytes, version)).await;
    if let Some(filter) = keep_or_rebuild(filter, Component::Filter, &mut opening.rebuilt)? {
        return Ok(filter);
    }
    let fp_chance = statistics.validation.bloom_filter_fp_chance;
    if !(FP_CHANCE_MIN..1.0).contains(&fp_chance) {
        return Ok(None);
    }
    let mut filter = Filter::builder(trie.footer.key_count, fp_chance);
    let mut cursor = PartitionTrieCursor::new(trie, Fetch::Bypass, opening.class);
    while let Some(entry) = cursor.next(trie, data).await? {
        filter.add(murmur3::hash128(entry.key.bytes()));
    }
    Ok(Some(filter))
}

/// The decompressor for the class and dictionary in CompressionInfo.db. Removes the dictionary from `info`,
/// which does not need it afterwards.
fn decompressor(opening: &Opening<'_>, info: &mut CompressionInfo) -> Result<Decompressor, SSTableError> {
    let (method, may_have_dictionary) = Method::named(&info.compressor).ok_or_else(|| {
        let detail = format!("compressed with {}; this build reads {}", info.compressor, Method::names());
        opening.unsupported(&Component::CompressionInfo, detail)
    })?;
    let inconsistent = |detail: String| SSTableError::Inconsistent {
        file: opening.path(&Component::CompressionInfo),
        detail,
    };
    let dictionary = info.dictionary();
    info.set_dictionary(None);
    // No other checksum covers the dictionary, and LZ4 cannot detect a wrong dictionary.
    let expected = opening.messina.as_ref().and_then(|messina| messina.dictionary_crc);
    match (&dictionary, expected) {
        (Some(dictionary), Some(expected)) if crc32(dictionary) != expected => {
            let found = crc32(dictionary);
            Err(inconsistent(format!(
                "its dictionary has checksum {found:08x}, Messina.db has {expected:08x}"
            )))
        }
        (None, Some(_)) => {
            Err(inconsistent("it has no dictionary, but Messina.db has a checksum of one".to_owned()))
        }
        (None, None) => Ok(Decompressor::new(method)),
        (Some(_), _) if !may_have_dictionary => {
            Err(inconsistent(format!("it has a dictionary, but {} has none", info.compressor)))
        }
        (Some(_), _) => Decompressor::with_dictionary(method, dictionary.unwrap_or_default())
            .ok_or_else(|| inconsistent("its dictionary is invalid".to_owned())),
    }
}

type Rebuilt = Vec<(Component, String)>;

/// Loads summary and filter, and rebuilds the one that is missing or not sound.
async fn summary_and_filter(
    opening: &mut Opening<'_>,
    index: &ChunkedFile,
    statistics: &Statistics,
) -> Result<(Summary, Option<Filter>), SSTableError> {
    let summary = if opening.lists(&Component::Summary) {
        opening.decode(&Component::Summary, Summary::decode).await
    } else {
        Err(SSTableError::Missing { file: opening.path(&Component::Summary) })
    };
    let summary = summary.and_then(|summary| match summary.range_at(summary.len() - 1).start {
        start if start < index.data_bytes() => Ok(summary),
        start => Err(SSTableError::Inconsistent {
            file: opening.path(&Component::Summary),
            detail: format!("it points at byte {start} of an Index.db of {}", index.data_bytes()),
        }),
    });
    let summary = keep_or_rebuild(summary, Component::Summary, &mut opening.rebuilt)?;
    let version = opening.name.version;
    let filter = opening.decode_listed(&Component::Filter, |bytes| Filter::decode(bytes, version)).await;
    // A table without a listed filter has none; every key may be in the SSTable.
    let (filter, had_filter) = match keep_or_rebuild(filter, Component::Filter, &mut opening.rebuilt)? {
        Some(filter) => (filter, true),
        None => (None, false),
    };
    let summary = match summary {
        Some(summary) if had_filter => return Ok((summary, filter)),
        summary => summary,
    };
    let fp_chance = statistics.validation.bloom_filter_fp_chance;
    let expected_keys = statistics.stats.partition_bytes.count().min(index.data_bytes());
    let mut new_filter = (!had_filter && (FP_CHANCE_MIN..1.0).contains(&fp_chance))
        .then(|| Filter::builder(expected_keys, fp_chance));
    let mut builder = SummaryBuilder::new(Spacing::default());
    let mut cursor = IndexCursor::new(Fetch::Bypass, opening.class);
    let mut at = 0;
    while let Some(entry) = cursor.next(index).await? {
        builder.add(entry.key.token(), entry.key.bytes(), at, entry.position);
        if let Some(filter) = &mut new_filter {
            filter.add(murmur3::hash128(entry.key.bytes()));
        }
        at = cursor.position();
    }
    let filter = if had_filter { filter } else { new_filter };
    Ok((summary.unwrap_or_else(|| builder.finish()), filter))
}

/// `None` if the component is missing or not sound, which is noted in `rebuilt`. Other errors are returned.
fn keep_or_rebuild<T>(
    loaded: Result<T, SSTableError>,
    component: Component,
    rebuilt: &mut Rebuilt,
) -> Result<Option<T>, SSTableError> {
    match loaded {
        Ok(loaded) => Ok(Some(loaded)),
        Err(
            error @ (SSTableError::Missing { .. }
            | SSTableError::Format { .. }
            | SSTableError::Inconsistent { .. }),
        ) => {
            rebuilt.push((component, error.to_string()));
            Ok(None)
        }
        Err(other) => Err(other),
    }
}
