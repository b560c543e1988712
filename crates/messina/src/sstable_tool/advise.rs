//! `messina sstable advise`: samples the data of a table, tries each codec and chunk length, and advises one.
//!
//! Blocks of 64 KiB are read at equal distances over the data of all SSTables. `sstable::tools::advice` tries
//! the settings on them, and chooses. The sizes of requests come from the histograms of partition sizes in
//! Statistics.db. CPU times are those of this thread, so that other programs do not change them much.

use std::rc::Rc;

use base::histogram::EstimatedHistogram;
use iosched::{Direction, DiskModel};
use model::Codec;
use runtime::real::thread_cpu_us;
use runtime::{IoClass, OpenOptions, Shard};
use sstable::codec::{Decompressor, Method, class_and_options};
use sstable::component::compression_info::CompressionInfo;
use sstable::name::Component;
use sstable::read::SSTable;
use sstable::tools::advice::{self, Advice, DiskCosts, Evidence, Requests};

use super::arguments::{AdviseArguments, Format};
use super::progress::Progress;
use super::query::names_of;
use super::run::{End, Out, complain, open, places};

const BLOCK_BYTES: u64 = 64 << 10;
const INFO_BYTES_MAX: u64 = 4 << 30;
const CLASS: IoClass = IoClass::Maintenance;

pub async fn run(shard: &Shard, arguments: &AdviseArguments) -> Result<End, String> {
    let mut end = End::Well;
    let places = places(shard, &arguments.files, &mut end).await;
    let mut tables = vec![];
    for place in &places {
        match open(shard, place).await {
            Ok(table) => tables.extend(table),
            Err(error) => {
                complain(&error.to_string());
                end = End::Failed;
            }
        }
    }
    let (Some(first), Some(place)) = (tables.first(), places.first()) else {
        return Err("there is no SSTable that can be read".to_string());
    };
    let names: Vec<(String, String)> = places.iter().map(names_of).collect();
    if names.iter().any(|name| *name != names[0]) {
        return Err("the SSTables are of several tables; give those of one".to_string());
    }
    let now = setting_of(first);
    let blocks = sample(shard, &tables, arguments.sample_mb << 20).await?;
    let evidence = evidence(&tables, &blocks, arguments);
    let (keyspace, table) = names_of(place);
    let mut all = vec![];
    let mut progress = Progress::new("trying codecs and chunk lengths");
    let codecs = advice::codecs();
    for (at, codec) in codecs.iter().enumerate() {
        for chunk_bytes in advice::CHUNK_BYTES {
            let trial = advice::measure(&blocks, *codec, chunk_bytes, || thread_cpu_us() as f64 * 1e-6)?;
            all.push(Advice::new(trial, &evidence));
        }
        progress.at(at as u64 + 1, codecs.len() as u64);
    }
    drop(progress);
    let chosen = advice::choose(&all, &evidence);
    let answer =
        Answer { name: format!("{keyspace}.{table}"), files: tables.len(), now, evidence, all, chosen };
    let text = match arguments.format {
        Format::Text => answer.text(arguments.all),
        Format::Json => answer.json(),
    };
    Out::new().write(&text);
    Ok(end)
}

/// What is known of the table.
fn evidence(tables: &[Rc<SSTable>], blocks: &[Vec<u8>], arguments: &AdviseArguments) -> Evidence {
    let mut sizes = EstimatedHistogram::new(150);
    for table in tables {
        let of_table = &table.stats().partition_bytes;
        let counts = of_table.offsets().iter().zip(of_table.counts());
        counts.filter(|(_, count)| **count > 0).for_each(|(bytes, count)| sizes.add_many(*bytes, *count));
    }
    let disk = DiskModel::NOMINAL;
    let cost_us = |bytes| disk.cost_ns(Direction::Read, bytes) as f64 / 1000.0;
    Evidence {
        requests: Requests::new(&sizes, arguments.read_kb << 10),
        data_bytes: tables.iter().map(|table| table.uncompressed_bytes()).sum(),
        sample_bytes: blocks.iter().map(|block| block.len() as u64).sum(),
        reads_per_write: arguments.reads_per_write,
        disk: DiskCosts {
            request_us: cost_us(0),
            byte_us: (cost_us(1 << 20) - cost_us(0)) / f64::from(1 << 20),
        },
        offsets_bytes_max: arguments.offsets_mb << 20,
        extra_cost: f64::from(arguments.extra_cost) / 100.0,
    }
}

/// Blocks of data before compression, at equal distances.
async fn sample(shard: &Shard, tables: &[Rc<SSTable>], wanted_bytes: u64) -> Result<Vec<Vec<u8>>, String> {
    let total: u64 = tables.iter().map(|table| table.uncompressed_bytes()).sum();
    let count = (wanted_bytes / BLOCK_BYTES).min(total.div_ceil(BLOCK_BYTES)).max(1);
    let mut blocks = vec![];
    let mut before = 0;
    let mut next = 0;
    for table in tables {
        let len = table.uncompressed_bytes();
        let (mut source, mut last_at) = (None, None);
        while next < count {
            let position = total / count * next;
            if position >= before + len {
                break;
            }
            next += 1;
            let source = match &mut source {
                Some(source) => source,
                None => source.insert(Source::open(shard, table).await?),
            };
            let at = (position - before) / BLOCK_BYTES * BLOCK_BYTES;
            if last_at.replace(at) == Some(at) {
                continue;
            }
            let block = source.read(at, BLOCK_BYTES.min(len - at)).await?;
            if !block.is_empty() {
                blocks.push(block);
            }
        }
        before += len;
    }
    Ok(blocks)
}

/// Data.db of an SSTable.
struct Source {
    file: runtime::File,
    file_bytes: u64,
    compression: Option<(CompressionInfo, Decompressor)>,
}

impl Source {
    async fn open(shard: &Shard, table: &SSTable) -> Result<Self, String> {
        let path = |component: &Component| table.dir().join(table.name().file_name(component));
        let data = path(&Component::Data);
        let file = shard.files().open(&data, OpenOptions::read()).await.map_err(|error| error.to_string())?;
        let file_bytes = file.len_bytes().await.map_err(|error| error.to_string())?;
        let mut compression = None;
        if table.compression().is_some() {
            let path = path(&Component::CompressionInfo);
            let bytes = shard.files().read_all(&path, CLASS, INFO_BYTES_MAX).await;
            let bytes = bytes.map_err(|error| error.to_string())?;
            let failed = |reason: String| format!("{}: {reason}", path.display());
            let info = CompressionInfo::decode(&bytes, table.name().version);
            let info = info.map_err(|error| failed(error.to_string()))?;
            let (method, _) = Method::named(&info.compressor)
                .ok_or_else(|| failed(format!("{} is not known", info.compressor)))?;
            let decompressor = match info.dictionary() {
                Some(bytes) => Decompressor::with_dictionary(method, bytes)
                    .ok_or_else(|| failed("its dictionary cannot be used".to_string()))?,
                None => Decompressor::new(method),
            };
            compression = Some((info, decompressor));
        }
        Ok(Self { file, file_bytes, compression })
    }

    /// The data from `at` on, at least `len` bytes if the file has them.
    async fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, String> {
        let failed = |reason: String| {
            format!("{}: {reason}; `messina sstable verify` shows all damage", self.file.path().display())
        };
        let Some((info, decompressor)) = &self.compression else {
            let bytes = self.file.read_at(at, len as usize, CLASS).await;
            return Ok(bytes.map_err(|error| error.to_string())?.to_vec());
        };
        let mut data = vec![];
        let mut position = at;
        while let Some(index) = info.chunk_index(position).filter(|_| (data.len() as u64) < len) {
            let chunk = info.chunk(index, self.file_bytes).map_err(|error| failed(error.to_string()))?;
            let payload = self.file.read_at(chunk.stored_at, chunk.stored_bytes as usize, CLASS).await;
            let payload = payload.map_err(|error| error.to_string())?;
            let stored_plain = chunk.stored_bytes >= u64::from(info.max_compressed_bytes);
            let plain = Decompressor::NOOP;
            let decompressor = if stored_plain { &plain } else { decompressor };
            decompressor.check(&payload, chunk.data_bytes as usize).map_err(failed)?;
            let from = data.len();
            data.resize(from + chunk.data_bytes as usize, 0);
            decompressor.decompress(&payload, &mut data[from..]).map_err(failed)?;
            position = chunk.data_at + u64::from(chunk.data_bytes);
        }
        Ok(data)
    }
}

/// How the SSTable is compressed, in words.
fn setting_of(table: &SSTable) -> String {
    let ratio = table.data_bytes() as f64 / table.uncompressed_bytes().max(1) as f64;
    match table.compression() {
        Some(info) => {
            let dictionary = if table.needs_dictionary() { ", with a dictionary" } else { "" };
            format!("{}, {} KiB{dictionary}, ratio {ratio:.3}", info.compressor, info.chunk_bytes >> 10)
        }
        None => "not compressed".to_string(),
    }
}

struct Answer {
    name: String,
    files: usize,
    /// The setting of the first SSTable.
    now: String,
    evidence: Evidence,
    all: Vec<Advice>,
    chosen: Result<Advice, String>,
}

fn codec_text(codec: Codec) -> String {
    match codec {
        Codec::Noop => "none".to_string(),
        Codec::Lz4 => "LZ4".to_string(),
        Codec::Lz4High { level } => format!("LZ4 high {level}"),
        Codec::Snappy => "Snappy".to_string(),
        Codec::Deflate => "Deflate".to_string(),
        Codec::Zstd { level } => format!("Zstd {level}"),
    }
}

fn bytes_text(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        1e9.. => format!("{:.2} GB", bytes / 1e9),
        1e6.. => format!("{:.2} MB", bytes / 1e6),
        ..1e3 => format!("{bytes} B"),
        _ => format!("{:.2} kB", bytes / 1e3),
    }
}

/// `ALTER TABLE` with the compression of the advice.
fn statement(name: &str, advice: &Advice) -> String {
    let (class, options) = class_and_options(advice.trial.codec, false);
    let options: String = options
        .iter()
        .map(|(option, value)| format!(", '{option}': '{}'", String::from_utf8_lossy(value)))
        .collect();
    let kib = advice.trial.chunk_bytes >> 10;
    format!(
        "ALTER TABLE {name} WITH compression = {{'class': '{class}', 'chunk_length_in_kb': {kib}{options}}};"
    )
}

impl Answer {
    /// The lines to be shown: all, or the chosen codec with each length and each codec with the chosen
    /// length. Without a choice all.
    fn shown(&self, everything: bool) -> impl Iterator<Item = &Advice> {
        let chosen = self.chosen.as_ref().ok().map(|chosen| chosen.trial);
        self.all.iter().filter(move |advice| {
            everything
                || chosen.is_none_or(|chosen| {
                    advice.trial.codec == chosen.codec || advice.trial.chunk_bytes == chosen.chunk_bytes
                })
        })
    }

    fn is_chosen(&self, advice: &Advice) -> bool {
        self.chosen.as_ref().is_ok_and(|chosen| {
            (chosen.trial.codec, chosen.trial.chunk_bytes) == (advice.trial.codec, advice.trial.chunk_bytes)
        })
    }

    fn text(&self, everything: bool) -> String {
        let evidence = &self.evidence;
        let requests = &evidence.requests;
        let mut text = format!(
            "{}: {} SSTable{}, {} of data, {} partitions; now {}\n\
             sampled: {}; a read returns {} on average; {} reads for a write\n\n",
            self.name,
            self.files,
            if self.files == 1 { "" } else { "s" },
            bytes_text(evidence.data_bytes),
            requests.partitions(),
            self.now,
            bytes_text(evidence.sample_bytes),
            bytes_text(requests.mean_bytes() as u64),
            evidence.reads_per_write
        );
        if self.chosen.is_err() && !everything {
            return text + &self.reason();
        }
        text += "| codec       |  chunk | ratio | fetched a read | CPU a read |   compress | offsets in memory | cost |\n\
                 |-------------|-------:|------:|---------------:|-----------:|-----------:|------------------:|-----:|\n";
        for advice in self.shown(everything) {
            let trial = &advice.trial;
            text += &format!(
                "| {:11} | {:2} KiB | {:.3} | {:>14} | {:>7.2} us | {:>5.0} MB/s | {:>17} | {:>4.1} |{}\n",
                codec_text(trial.codec),
                trial.chunk_bytes >> 10,
                trial.ratio(),
                bytes_text(advice.fetched_bytes as u64),
                advice.read_cpu_us,
                1.0 / trial.compress_us_per_byte().max(1e-6),
                bytes_text(advice.offsets_bytes),
                advice.cost_us,
                if self.is_chosen(advice) { " <" } else { "" }
            );
        }
        text += "\ncost: microseconds of disk and CPU for an operation of the mix.\n\n";
        text + &self.reason()
    }

    /// The statement with its reason; or why there is none.
    fn reason(&self) -> String {
        let evidence = &self.evidence;
        match &self.chosen {
            Err(reason) => format!("{reason}\n"),
            Ok(chosen) => format!(
                "With this setting the data take {:.3} of their size, and a read fetches {} and decompresses them \
                 in {:.1} us. An operation costs {:.1} us; of the settings that cost at most {:.0} % more than the \
                 cheapest one, this one has the smallest data. It rests on {} of sampled data, on the sizes of {} \
                 partitions, on CPU times of this machine, and on a disk of {:.0} us for a request; caches are \
                 not counted.\n\n{}\n",
                chosen.trial.ratio(),
                bytes_text(chosen.fetched_bytes as u64),
                chosen.read_cpu_us,
                chosen.cost_us,
                evidence.extra_cost * 100.0,
                bytes_text(evidence.sample_bytes),
                evidence.requests.partitions(),
                evidence.disk.request_us,
                statement(&self.name, chosen)
            ),
        }
    }

    fn json(&self) -> String {
        let line = |advice: &Advice| {
            serde_json::json!({
                "codec": codec_text(advice.trial.codec),
                "chunk_bytes": advice.trial.chunk_bytes,
                "ratio": advice.trial.ratio(),
                "fetched_bytes_per_read": advice.fetched_bytes,
                "cpu_us_per_read": advice.read_cpu_us,
                "compress_us_per_byte": advice.trial.compress_us_per_byte(),
                "offsets_bytes": advice.offsets_bytes,
                "cost_us": advice.cost_us,
                "is_chosen": self.is_chosen(advice),
            })
        };
        let answer = serde_json::json!({
            "table": self.name,
            "sstables": self.files,
            "now": self.now,
            "data_bytes": self.evidence.data_bytes,
            "sample_bytes": self.evidence.sample_bytes,
            "partitions": self.evidence.requests.partitions(),
            "read_bytes": self.evidence.requests.mean_bytes(),
            "reads_per_write": self.evidence.reads_per_write,
            "settings": self.all.iter().map(line).collect::<Vec<_>>(),
            "too_little_evidence": self.chosen.as_ref().err(),
            "statement": self.chosen.as_ref().ok().map(|chosen| statement(&self.name, chosen)),
        });
        format!("{answer:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use sstable::tools::advice::Trial;

    use super::*;

    #[test]
    fn the_statement_has_the_options_of_the_codec() {
        let of = |codec, chunk_bytes| {
            let trial = Trial {
                codec,
                chunk_bytes,
                chunks: 1,
                data_bytes: 1,
                stored_bytes: 1,
                compress_s: 0.0,
                decompress_s: 0.0,
            };
            let advice =
                Advice { trial, fetched_bytes: 0.0, read_cpu_us: 0.0, offsets_bytes: 0, cost_us: 0.0 };
            statement("k.t", &advice)
        };
        assert_eq!(
            of(Codec::Lz4, 4096),
            "ALTER TABLE k.t WITH compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4};"
        );
        assert_eq!(
            of(Codec::Zstd { level: 5 }, 65_536),
            "ALTER TABLE k.t WITH compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 64, \
             'compression_level': '5'};"
        );
        assert!(of(Codec::Lz4High { level: 9 }, 1024).contains("'lz4_compressor_type': 'high'"));
    }
}
