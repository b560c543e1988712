//! The writer of one SSTable: takes fragments, feeds the encoders, and finishes all components.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;

use base::broken;
use base::crc::{Crc32, crc32};
use base::join::join_all;
use base::murmur3;
use model::{ColumnKind, PartitionKey, TableSchema};
use reader::{Fragment, LocalFuture, RowFragment};
use runtime::{File, FileError, Files, IoBuf, OpenOptions};

use super::columns::{header_columns, key_type_name};
use super::data_file::{ChunkIndex, DataFile, FinishedData};
use super::error::WriteError;
use super::options::{WriteOptions, Written};
use super::output_file::OutputFile;
use super::partition::PartitionEncoder;
use super::seal;
use super::secondary::SecondaryIndexWriter;
use crate::component::crc::ChunkCrcsBuilder;
use crate::component::digest;
use crate::component::filter::Filter;
use crate::component::index::{INDEX_PAGE_BYTES, IndexEntry};
use crate::component::messina::MessinaInfo;
use crate::component::secondary_index;
use crate::component::statistics::{
    MURMUR3_PARTITIONER, SerializationHeader, Statistics, StatsCollector, ValidationMetadata,
};
use crate::component::summary::SummaryBuilder;
use crate::name::{Component, SSTableName};

/// Bytes of one write of a small component.
const PART_BYTES: usize = 128 * 1024;
/// Keys added to the filter between two yields.
const FILTER_KEYS_A_TURN: usize = 4096;

/// `murmur3::hash128` of every key. The filter is built at the end, when the number of keys is known. The
/// hashes are stored in pieces, because growing a vector of tens of megabytes takes tens of milliseconds.
#[derive(Default)]
struct KeyHashes {
    pieces: Vec<Vec<(u64, u64)>>,
}

impl KeyHashes {
    fn push(&mut self, hash128: (u64, u64)) {
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < FILTER_KEYS_A_TURN => piece.push(hash128),
            last => {
                // The first piece grows on demand, so a small SSTable needs little memory.
                let capacity = if last.is_some() { FILTER_KEYS_A_TURN } else { 0 };
                let mut piece = Vec::with_capacity(capacity);
                piece.push(hash128);
                self.pieces.push(piece);
            }
        }
    }

    fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// Writes an SSTable; see the [module](super). Dropping the writer without [`Self::finish`] or
/// [`Self::abort`] leaves unfinished files that [`super::clean_up`] removes at the next start.
pub struct SSTableWriter {
    names: OutputNames,
    schema: Arc<TableSchema>,
    options: WriteOptions,
    contents: File,
    encoder: PartitionEncoder,
    stats: StatsCollector,
    data: DataFile,
    index: OutputFile,
    index_entry: Vec<u8>,
    index_crcs: ChunkCrcsBuilder,
    /// Of the table's secondary indexes.
    secondary: Vec<SecondaryIndexWriter>,
    summary: SummaryBuilder,
    key_hashes: KeyHashes,
    partitions: u64,
    first_key: Option<PartitionKey>,
    last_key: Option<PartitionKey>,
}

/// The content of a component that is written part by part.
type Parts<'a> = Box<dyn Iterator<Item = IoBuf> + 'a>;

/// The parts of a component that is in memory as a whole.
fn parts(bytes: &[u8]) -> Parts<'_> {
    Box::new(bytes.chunks(PART_BYTES).map(IoBuf::copy_from))
}

/// Names and directory of the files to write.
#[derive(Clone)]
struct OutputNames {
    files: Files,
    dir: PathBuf,
    name: SSTableName,
    components: Vec<Component>,
}

/// The files that stay open while an SSTable is written.
struct OpenFiles {
    contents: File,
    data: OutputFile,
    index: OutputFile,
}

impl OutputNames {
    fn path(&self, component: &Component) -> PathBuf {
        self.dir.join(self.name.file_name(component))
    }

    /// Writes whole components concurrently and adds them to `unsynced`. Returns their total length in bytes.
    async fn write(
        &self,
        components: Vec<(Component, Parts<'_>)>,
        options: &WriteOptions,
        unsynced: &mut Vec<File>,
    ) -> Result<u64, FileError> {
        let mut written: Vec<Option<(File, u64)>> = components.iter().map(|_| None).collect();
        let mut writes: Vec<LocalFuture<'_, Result<(), FileError>>> = vec![];
        for ((component, parts), slot) in components.into_iter().zip(&mut written) {
            writes.push(Box::pin(async move {
                *slot = Some(self.write_one(&component, parts, options).await?);
                Ok(())
            }));
        }
        join_all(writes).await?;
        let (files, bytes): (Vec<File>, Vec<u64>) = written.into_iter().flatten().unzip();
        unsynced.extend(files);
        Ok(bytes.iter().sum())
    }

    async fn write_one(
        &self,
        component: &Component,
        parts: Parts<'_>,
        options: &WriteOptions,
    ) -> Result<(File, u64), FileError> {
        assert!(self.components.contains(component), "{component} is not in TOC.txt");
        let file = self.files.open(&self.path(component), OpenOptions::create_truncate()).await?;
        let mut at = 0;
        for part in parts {
            let bytes = part.len() as u64;
            file.write_at(at, part, options.io_class).await?;
            at += bytes;
        }
        Ok((file, at))
    }

    /// Removes the written files, sealed or not.
    async fn remove(&self) -> Result<(), FileError> {
        seal::unseal(&self.files, &self.dir, &self.name).await?;
        let indexes = self.components.iter().filter_map(secondary_index::id_of);
        let mut components = self.components.clone();
        components.extend(indexes.map(secondary_index::temporary));
        seal::remove_components(&self.files, &self.dir, &self.name, &components).await
    }

    /// Removes the written files and returns `error`.
    async fn clean_after(&self, error: WriteError) -> WriteError {
        match self.remove().await {
            Ok(()) => error,
            Err(cleaning) => WriteError::Leftover { cause: Box::new(error), cleaning },
        }
    }
}

impl SSTableWriter {
    /// Begins SSTable `name` in `dir`, which must exist and have no files of that name.
    pub async fn create(
        files: &Files,
        dir: &Path,
        name: SSTableName,
        schema: Arc<TableSchema>,
        options: WriteOptions,
    ) -> Result<Self, WriteError> {
        assert!(name.version.is_writable(), "version {} is not written", name.version);
        let mut components = options.components();
        let toc = components.len() - 1;
        let ids = schema.indexes.iter().map(|index| secondary_index::component(index.id));
        components.splice(toc..toc, ids);
        let names = OutputNames { files: files.clone(), dir: dir.to_owned(), name, components };
        match Self::create_files(&names, &options).await {
            Ok(open) => Ok(Self::new(names, schema, options, open)),
            // The existing files belong to another SSTable.
            Err(error) if error.is_already_exists() => Err(error.into()),
            Err(error) => Err(names.clean_after(error.into()).await),
        }
    }

    async fn create_files(names: &OutputNames, options: &WriteOptions) -> Result<OpenFiles, FileError> {
        let class = options.io_class;
        let contents = seal::begin(&names.files, &names.dir, &names.name, &names.components, class).await?;
        let data = OutputFile::create(&names.files, &names.path(&Component::Data), class).await?;
        let index = OutputFile::create(&names.files, &names.path(&Component::Index), class).await?;
        Ok(OpenFiles { contents, data, index })
    }

    fn new(names: OutputNames, schema: Arc<TableSchema>, options: WriteOptions, open: OpenFiles) -> Self {
        let OpenFiles { contents, data, index } = open;
        let mut stats = StatsCollector::new(options.host_id);
        stats.set_level(options.level);
        stats.set_repaired_at(options.repaired_at_ms);
        for (start, end) in &options.commit_log_intervals {
            stats.add_commit_log_interval(*start, *end);
        }
        let data = DataFile::new(data, options.compression.as_ref(), names.name.version);
        let secondary = |index| {
            let (class, run_bytes) = (options.io_class, options.index_run_bytes);
            let OutputNames { files, dir, name, .. } = &names;
            SecondaryIndexWriter::new(files, dir, name, &schema, index, class, run_bytes)
        };
        let secondary = schema.indexes.iter().map(secondary).collect();
        Self {
            names,
            contents,
            encoder: PartitionEncoder::new(
                schema.clone(),
                options.delta_bases,
                options.column_index_bytes,
                options.large_data,
            ),
            schema,
            stats,
            data,
            index,
            index_entry: vec![],
            index_crcs: ChunkCrcsBuilder::new(INDEX_PAGE_BYTES),
            secondary,
            summary: SummaryBuilder::new(options.summary),
            key_hashes: KeyHashes::default(),
            partitions: 0,
            first_key: None,
            last_key: None,
            options,
        }
    }

    /// Encodes the next fragment of a forward stream. Never waits; the encoded bytes stay in memory until
    /// [`Self::write_out`].
    ///
    /// After an error only [`Self::abort`] may follow. Asserts that partitions and positions rise, and that
    /// fragments follow the order within a partition.
    pub fn push(&mut self, fragment: Fragment) -> Result<(), WriteError> {
        let Self { encoder, data, stats, secondary, .. } = self;
        secondary.iter_mut().for_each(|index| index.push(&fragment));
        match fragment {
            Fragment::PartitionStart { key, tombstone } => encoder.start(key, tombstone, stats),
            Fragment::Static(row) => encoder.push_static(&row, data, stats)?,
            Fragment::Row(RowFragment { key, row }) => encoder.push_row(key, &row, data, stats)?,
            Fragment::Change(change) => encoder.push_change(change, data, stats),
            Fragment::PartitionEnd => self.end_partition(),
        }
        self.data.settle();
        Ok(())
    }

    fn end_partition(&mut self) {
        let Some(ended) = self.encoder.end(&mut self.data, &mut self.stats) else { return };
        let key = ended.key.bytes();
        self.summary.add(ended.key.token(), key, self.index.len_bytes(), ended.data_position);
        self.index_entry.clear();
        IndexEntry { key, data_position: ended.data_position, promoted: ended.promoted }
            .encode(&mut self.index_entry);
        self.index.append(&self.index_entry);
        self.index_crcs.update(&self.index_entry);
        if self.options.has_filter() {
            self.key_hashes.push(murmur3::hash128(key));
        }
        self.partitions += 1;
        if self.first_key.is_none() {
            self.first_key = Some(ended.key.clone());
        }
        self.last_key = Some(ended.key);
    }

    /// Whether full buffers should be written by [`Self::write_out`]. Further pushes before that use more
    /// memory.
    pub fn wants_write(&self) -> bool {
        self.data.wants_write()
            || self.index.wants_write()
            || self.secondary.iter().any(SecondaryIndexWriter::wants_write)
    }

    /// The name of the SSTable.
    pub fn name(&self) -> SSTableName {
        self.names.name
    }

    /// Number of partitions that have ended.
    pub fn partitions(&self) -> u64 {
        self.partitions
    }

    /// Uncompressed bytes of Data.db so far.
    pub fn uncompressed_bytes(&self) -> u64 {
        self.data.position()
    }

    /// Starts writing full buffers. Returns while the last writes are in flight, so that more can be pushed
    /// meanwhile. After an error only [`Self::abort`] may follow.
    pub async fn write_out(&mut self) -> Result<(), WriteError> {
        self.data.write_full().await?;
        self.index.write_full().await?;
        for index in self.secondary.iter_mut().filter(|index| index.wants_write()) {
            // On the heap: it is rare, and every write would be as large.
            Box::pin(index.write_out()).await?;
        }
        Ok(())
    }

    /// Writes the remaining bytes, syncs and seals. `None` if no partition left anything in the file; then,
    /// as after an error, all files are removed.
    pub async fn finish(self) -> Result<Option<Written>, WriteError> {
        self.finish_as(true).await
    }

    /// As [`Self::finish`] without the seal: all files are durable, and [`super::seal_all`] makes them an
    /// SSTable. A crash before that leaves files that [`super::clean_up`] removes.
    pub async fn finish_unsealed(self) -> Result<Option<Written>, WriteError> {
        self.finish_as(false).await
    }

    async fn finish_as(self, sealed: bool) -> Result<Option<Written>, WriteError> {
        assert!(!self.encoder.is_inside(), "the last partition has ended");
        let names = self.names.clone();
        let result = match self.partitions {
            0 => names.remove().await.map(|()| None),
            // Boxed: the future is large and runs once.
            _ => Box::pin(self.write_components(sealed)).await.map(Some),
        };
        match result {
            Ok(written) => Ok(written),
            Err(error) => Err(names.clean_after(error.into()).await),
        }
    }

    /// Removes the written files.
    pub async fn abort(self) -> Result<(), FileError> {
        let names = self.names.clone();
        // Closes the files first, so that removing their names frees the space.
        drop(self);
        names.remove().await
    }

    /// Removes the written files and returns `error`.
    pub(super) async fn abort_after(self, error: WriteError) -> WriteError {
        match self.abort().await {
            Ok(()) => error,
            Err(cleaning) => WriteError::Leftover { cause: Box::new(error), cleaning },
        }
    }

    async fn write_components(self, sealed: bool) -> Result<Written, FileError> {
        let Self {
            names,
            contents,
            schema,
            options,
            encoder,
            mut stats,
            data,
            index,
            index_crcs,
            secondary,
            summary,
            key_hashes,
            ..
        } = self;
        let large_data = encoder.finish(options.now_ms);
        let index_bytes = index.len_bytes();
        let (FinishedData { file, stored_bytes, uncompressed_bytes, digest, chunks }, index) =
            finish_both(data, index).await?;
        let mut unsynced = vec![contents, file, index];
        let mut total_bytes = stored_bytes + index_bytes;
        for index in secondary {
            let (file, bytes) = index.finish(stored_bytes).await?;
            unsynced.push(file);
            total_bytes += bytes;
        }
        if matches!(chunks, ChunkIndex::Compression { .. }) {
            stats.set_compression(stored_bytes, uncompressed_bytes);
        }
        let (chunks_component, chunks, dictionary_crc) = match chunks {
            ChunkIndex::Crcs(crcs) => (Component::Crc, crcs.encode(), None),
            ChunkIndex::Compression { info, dictionary_crc } => {
                (Component::CompressionInfo, info.encode(names.name.version), dictionary_crc)
            }
        };
        let digest = digest::encode(digest ^ u32::from(broken::is("data_digest")));
        let summary = summary.finish().encode();
        let filter = match options.has_filter() {
            true => Some(build_filter(key_hashes, options.bloom_filter_fp_chance).await),
            false => None,
        };
        let contents = stats.contents();
        let statistics = statistics_of(&schema, &options, stats);
        let encoded = statistics.encode(names.name.version);
        let mut filter_crc = Crc32::new();
        let mut components = vec![
            (chunks_component, parts(&chunks)),
            (Component::Digest, parts(&digest)),
            (Component::Summary, parts(&summary)),
            (Component::Statistics, parts(&encoded)),
        ];
        if let Some(filter) = &filter {
            let encoded = filter.encode_parts(names.name.version).map(|part| {
                filter_crc.update(&part);
                IoBuf::copy_from(&part)
            });
            components.push((Component::Filter, Box::new(encoded)));
        }
        total_bytes += names.write(components, &options, &mut unsynced).await?;
        let mut component_crcs = vec![
            (Component::Summary, crc32(&summary)),
            (Component::Statistics, statistics.lasting_crc(names.name.version)),
        ];
        if filter.is_some() {
            component_crcs.push((Component::Filter, filter_crc.value()));
        }
        let rows = statistics.stats.total_rows;
        let messina = MessinaInfo {
            shard_count: Some(options.shard_count),
            shard_id: Some(options.shard_id),
            run_id: options.run_id,
            origin: Some(options.origin.clone()),
            partition_count: Some(self.partitions),
            row_count: Some(rows),
            dictionary_crc,
            large_data,
            contents: Some(contents),
            component_crcs,
            index_crcs: Some(index_crcs.finish().encode()),
        };
        if options.has_messina_component {
            let messina_bytes = messina.encode();
            let last = vec![(Component::Messina, parts(&messina_bytes))];
            total_bytes += names.write(last, &options, &mut unsynced).await?;
        }
        seal::make_durable(&names.files, &names.dir, &unsynced).await?;
        drop(unsynced);
        if sealed {
            seal::seal(&names.files, &names.dir, &names.name).await?;
        }
        Ok(Written {
            name: names.name,
            data_bytes: stored_bytes,
            uncompressed_bytes,
            index_bytes,
            total_bytes,
            partitions: self.partitions,
            rows,
            first_key: self.first_key.expect("there is a partition"),
            last_key: self.last_key.expect("there is a partition"),
            statistics,
            large_data: messina.large_data,
        })
    }
}

/// Writes the remaining bytes of Data.db and Index.db concurrently.
async fn finish_both(data: DataFile, index: OutputFile) -> Result<(FinishedData, File), FileError> {
    let (mut finished_data, mut finished_index) = (None, None);
    let of_data: LocalFuture<'_, _> = Box::pin(async {
        finished_data = Some(data.finish().await?);
        Ok(())
    });
    let of_index: LocalFuture<'_, _> = Box::pin(async {
        finished_index = Some(index.finish().await?);
        Ok(())
    });
    join_all(vec![of_data, of_index]).await?;
    Ok(finished_data.zip(finished_index).expect("both have ended well"))
}

/// A bloom filter for exactly these keys.
async fn build_filter(key_hashes: KeyHashes, fp_chance: f64) -> Filter {
    let mut filter = Filter::builder(key_hashes.len(), fp_chance);
    for hashes in key_hashes.pieces {
        hashes.iter().for_each(|hash| filter.add(*hash));
        yield_now().await;
    }
    filter
}

/// Yields once to the other ready tasks of the shard.
pub(super) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn statistics_of(schema: &TableSchema, options: &WriteOptions, stats: StatsCollector) -> Statistics {
    let (stats, compaction) = stats.finish();
    Statistics {
        validation: ValidationMetadata {
            partitioner: MURMUR3_PARTITIONER.to_owned(),
            bloom_filter_fp_chance: options.bloom_filter_fp_chance,
        },
        compaction,
        stats,
        header: SerializationHeader {
            bases: options.delta_bases,
            key_type: key_type_name(schema),
            clustering_types: schema.clustering.iter().map(|column| column.ty.to_java_name()).collect(),
            static_columns: header_columns(schema, ColumnKind::Static),
            regular_columns: header_columns(schema, ColumnKind::Regular),
        },
    }
}
