//! One merge, from its request to sealed SSTables.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use model::{PartitionKey, PartitionRange};
use reader::{
    ChainReader, CompactReader, Fragment, Keep, MergeCounts, MergeReader, ReadSpec, Reader, Source, Step,
};
use runtime::{IoClass, Shard};
use sstable::component::statistics::{DeltaBases, DeltaBasesCollector};
use sstable::name::SSTableName;
use sstable::read::{ChunkCache, SSTable, SSTableSource};
use sstable::write::{SSTableWriter, WriteOptions, remove_sstables};

use super::outside::MergePurge;
use super::request::MergeRequest;
use super::running::Control;

/// Memory for chunks of the inputs that are read.
const CACHE_BYTES: usize = 8 << 20;
/// Fragments between two checks whether to yield, stop or pause.
const FRAGMENTS_A_CHECK: u64 = 64;
/// A merge that may not read on looks again after this time.
const PAUSE_US: u64 = 500;

const STOPPED: &str = "the merge was stopped";

/// The result of a merge.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// The outputs, as indexes into the names of the request, with the index of the end that each precedes.
    pub outputs: Vec<(usize, usize)>,
    /// Partitions written.
    pub partitions: u64,
    /// The number of partitions that were merged from one input, from two, and so on.
    pub counts: Vec<(u32, u64)>,
    /// Rows written.
    pub rows: u64,
}

struct Outputs<'a> {
    shard: &'a Shard,
    request: &'a MergeRequest,
    options: WriteOptions,
    writer: Option<SSTableWriter>,
    /// The number of names used.
    used: usize,
    /// The index of the end that the next partition precedes.
    part: usize,
    merged: Merged,
}

impl Outputs<'_> {
    fn part_of(&self, key: &PartitionKey) -> usize {
        let ends = &self.request.ends;
        self.part + ends[self.part..].iter().take_while(|end| end.is_before(key)).count()
    }

    /// Ends the output before `key` if it is full or if an end lies between, and begins one if there is none.
    async fn before_partition(&mut self, key: &PartitionKey) -> Result<(), String> {
        let part = self.part_of(key);
        let max_bytes = self.request.max_bytes;
        let is_full = self.writer.as_ref().is_some_and(|writer| {
            writer.partitions() > 0 && (writer.uncompressed_bytes() >= max_bytes || part != self.part)
        });
        if is_full {
            self.end().await?;
        }
        self.part = part;
        if self.writer.is_none() {
            let name = self.request.outputs.get(self.used).copied();
            let name = name.ok_or_else(|| format!("the output needs more than {} SSTables", self.used))?;
            let (files, dir) = (self.shard.files(), &self.request.dir);
            let schema = self.request.schema.clone();
            let create = SSTableWriter::create(files, dir, name, schema, self.options.clone());
            self.writer = Some(Box::pin(create).await.map_err(|error| error.to_string())?);
            self.used += 1;
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<(), String> {
        if let Some(writer) = self.writer.take()
            && let Some(written) = Box::pin(writer.finish()).await.map_err(|error| error.to_string())?
        {
            self.merged.outputs.push((self.used - 1, self.part));
            self.merged.partitions += written.partitions;
            self.merged.rows += written.rows;
        }
        Ok(())
    }

    async fn abort(mut self) {
        if let Some(writer) = self.writer.take() {
            // The node's transaction removes what stays after an error.
            let _ = writer.abort().await;
        }
        let names: Vec<SSTableName> = self.request.outputs.iter().take(self.used).copied().collect();
        let _ = remove_sstables(self.shard.files(), &self.request.dir, &names).await;
    }
}

/// Runs the merge.
///
/// # Errors
/// As text: a file cannot be read or written, an input is not sound, the merge was stopped. The files of the
/// outputs are removed.
pub async fn run(shard: &Shard, request: &MergeRequest, control: &Control) -> Result<Merged, String> {
    let cache = ChunkCache::new(CACHE_BYTES);
    let mut inputs: Vec<Rc<SSTable>> = vec![];
    for name in &request.inputs {
        let open = SSTable::open(shard.files(), &request.dir, *name, &cache, IoClass::Compaction);
        let sstable = open.await.map_err(|error| error.to_string())?;
        if sstable.stats().has_legacy_counter_shards {
            return Err(format!("{name} has counter shards of Cassandra 2.0"));
        }
        inputs.push(sstable);
    }
    let max_timestamp_us = inputs.iter().map(|input| input.max_timestamp_us()).max().unwrap_or(i64::MIN);
    let purge = MergePurge::load(shard.files(), request, max_timestamp_us).await;
    let read_bytes: Rc<Cell<u64>> = Rc::default();
    let spec = ReadSpec::new(request.schema.clone(), PartitionRange::all());
    let counts = MergeCounts::default();
    let chains = chains(&inputs, &spec, &read_bytes);
    let merged: Box<dyn Reader> = Box::new(MergeReader::new(&spec, chains).counting(counts.clone()));
    let mut reader = CompactReader::new(merged, purge, Keep::Needed);
    let mut outputs = Outputs {
        shard,
        request,
        options: write_options(request, &inputs),
        writer: None,
        used: 0,
        part: 0,
        merged: Merged::default(),
    };
    match merge(&mut reader, &mut outputs, control, &read_bytes).await {
        Ok(()) => {
            outputs.merged.counts = counts.get();
            Ok(outputs.merged)
        }
        Err(error) => {
            outputs.abort().await;
            Err(error)
        }
    }
}

async fn merge(
    reader: &mut dyn Reader,
    outputs: &mut Outputs<'_>,
    control: &Control,
    read_bytes: &Cell<u64>,
) -> Result<(), String> {
    let shard = outputs.shard;
    let mut fragments = 0u64;
    loop {
        match reader.next().map_err(|error| error.to_string())? {
            Step::Ready(fragment) => {
                if let Fragment::PartitionStart { key, .. } = &fragment {
                    outputs.before_partition(key).await?;
                }
                let Some(writer) = &mut outputs.writer else {
                    return Err("a partition without a start".to_string());
                };
                writer.push(fragment).map_err(|error| error.to_string())?;
                if writer.wants_write() {
                    writer.write_out().await.map_err(|error| error.to_string())?;
                }
            }
            Step::Load => reader.load().await.map_err(|error| error.to_string())?,
            Step::End => break,
        }
        fragments += 1;
        if fragments.is_multiple_of(FRAGMENTS_A_CHECK) {
            control.read_bytes.store(read_bytes.get(), Relaxed);
            while !control.stop.load(Relaxed) && read_bytes.get() > control.allowed_bytes.load(Relaxed) {
                shard.sleep_us(PAUSE_US).await;
            }
            if control.stop.load(Relaxed) {
                return Err(STOPPED.to_string());
            }
            if shard.need_preempt() {
                shard.yield_now().await;
            }
        }
    }
    if control.stop.load(Relaxed) {
        return Err(STOPPED.to_string());
    }
    outputs.end().await?;
    control.read_bytes.store(read_bytes.get(), Relaxed);
    Ok(())
}

/// Readers over all inputs. SSTables that do not overlap, like the fragments of a run, are read one after the
/// other by one reader.
fn chains(inputs: &[Rc<SSTable>], spec: &ReadSpec, progress: &Rc<Cell<u64>>) -> Vec<Box<dyn Reader>> {
    let mut sorted: Vec<&Rc<SSTable>> = inputs.iter().collect();
    sorted.sort_by(|a, b| a.first_key().cmp(b.first_key()));
    let mut chains: Vec<Vec<&Rc<SSTable>>> = vec![];
    for input in sorted {
        let ends_before = |chain: &&mut Vec<&Rc<SSTable>>| {
            chain.last().is_some_and(|last| last.last_key() < input.first_key())
        };
        match chains.iter_mut().find(ends_before) {
            Some(chain) => chain.push(input),
            None => chains.push(vec![input]),
        }
    }
    let source = |input: &Rc<SSTable>| {
        let source = SSTableSource::new(input.clone(), IoClass::Compaction).progress(progress.clone());
        Rc::new(source) as Rc<dyn Source>
    };
    let reader = |chain: Vec<&Rc<SSTable>>| -> Box<dyn Reader> {
        Box::new(ChainReader::new(spec.clone(), chain.iter().map(|input| source(input))))
    };
    chains.into_iter().map(reader).collect()
}

fn delta_bases(inputs: &[Rc<SSTable>]) -> DeltaBases {
    let mut bases = DeltaBasesCollector::new();
    inputs.iter().for_each(|input| bases.merge(&input.statistics().header.bases));
    bases.finish()
}

fn write_options(request: &MergeRequest, inputs: &[Rc<SSTable>]) -> WriteOptions {
    let mut options = WriteOptions::for_table(&request.schema, "compaction", IoClass::Compaction);
    options.compression = request.compression.clone();
    options.bloom_filter_fp_chance = request.bloom_filter_fp_chance;
    options.summary = request.summary;
    options.column_index_bytes = request.column_index_bytes;
    options.expected_partitions = inputs.iter().map(|input| input.partition_count()).sum();
    options.delta_bases = delta_bases(inputs);
    options.host_id = Some(request.host_id);
    options.level = request.level;
    options.repaired_at_ms = request.repaired_at_ms;
    options.has_messina_component = false;
    // Intervals of another node's log have no meaning here.
    let own = inputs.iter().map(|input| input.stats());
    let own = own.filter(|stats| stats.originating_host_id == Some(request.host_id));
    options.commit_log_intervals = own.flat_map(|stats| stats.commit_log_intervals.iter().copied()).collect();
    options
}
