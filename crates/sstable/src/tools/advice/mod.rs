//! Which codec and chunk length fit a table: every setting is tried on sampled blocks of its data.
//!
//! - `trial`: compresses and decompresses the blocks with one setting, and measures sizes and CPU time;
//! - `request`: bytes that a request fetches, from the histogram of partition sizes;
//! - this file: the cost of an operation with each setting, and the choice.
//!
//! **Rule.** The cost of an operation is the time that it takes of the disk and of a core: a read fetches
//! whole chunks and decompresses them; a written byte is compressed, written, read and decompressed about
//! [`REWRITES`] times, once by its flush and then by compactions. Of the settings that cost at most
//! [`Evidence::extra_cost`] more than the cheapest one, the one with the smallest data is chosen: that is the
//! price of space. A setting whose chunk offsets take more memory than is allowed is left out.
//!
//! **Limits.** Caches are not modelled: each read fetches its chunks from disk. The index is not counted,
//! because it is the same with each setting. Dictionaries are not tried.

mod request;
mod trial;

use model::Codec;

pub use request::Requests;
pub use trial::{Trial, measure};

/// How often a written byte is compressed, by its flush and by compactions.
pub const REWRITES: f64 = 5.0;
/// With fewer sampled bytes, or partitions, nothing is advised.
const SAMPLE_BYTES_MIN: u64 = 256 << 10;
const PARTITIONS_MIN: u64 = 100;
/// Chunks of a group that share a complete offset, and bytes of a group and of a chunk; as `ChunkOffsets`.
const OFFSET_GROUP: u64 = 32;

/// Time that a read takes of the disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskCosts {
    pub request_us: f64,
    pub byte_us: f64,
}

/// What is known about the table.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub requests: Requests,
    /// Bytes of Data.db of all SSTables before compression.
    pub data_bytes: u64,
    pub sample_bytes: u64,
    pub reads_per_write: f64,
    pub disk: DiskCosts,
    /// Memory that the chunk offsets may take.
    pub offsets_bytes_max: u64,
    /// A setting may cost this part more than the cheapest one, if its data are smaller.
    pub extra_cost: f64,
}

/// A setting with its costs.
#[derive(Clone, Copy, Debug)]
pub struct Advice {
    pub trial: Trial,
    /// Bytes of Data.db that a request fetches from disk.
    pub fetched_bytes: f64,
    /// CPU time of a request's decompression.
    pub read_cpu_us: f64,
    /// Memory of the chunk offsets.
    pub offsets_bytes: u64,
    /// Disk and CPU time of an operation of the mix.
    pub cost_us: f64,
}

/// Memory of the offsets of the chunks of `data_bytes`.
pub fn offsets_bytes(data_bytes: u64, chunk_bytes: u32) -> u64 {
    let chunks = data_bytes.div_ceil(u64::from(chunk_bytes));
    chunks * size_of::<u32>() as u64 + chunks.div_ceil(OFFSET_GROUP) * size_of::<u64>() as u64
}

impl Advice {
    /// The costs of a setting.
    pub fn new(trial: Trial, evidence: &Evidence) -> Self {
        let requests = &evidence.requests;
        let chunks = requests.chunks(trial.chunk_bytes);
        let fetched_bytes = requests.fetched_bytes(trial.chunk_bytes, trial.stored_bytes_per_chunk());
        let read_cpu_us = chunks * trial.decompress_us_per_chunk();
        let disk = evidence.disk;
        let read_us = disk.request_us + fetched_bytes * disk.byte_us + read_cpu_us;
        // Flushes and compactions use large requests, so that only bytes count.
        let byte_us = trial.compress_us_per_byte()
            + trial.decompress_us_per_byte()
            + 2.0 * trial.ratio() * disk.byte_us;
        let write_us = REWRITES * requests.mean_bytes() * byte_us;
        let reads = evidence.reads_per_write / (1.0 + evidence.reads_per_write);
        Self {
            trial,
            fetched_bytes,
            read_cpu_us,
            offsets_bytes: offsets_bytes(evidence.data_bytes, trial.chunk_bytes),
            cost_us: reads * read_us + (1.0 - reads) * write_us,
        }
    }
}

/// The setting that the rule chooses; or the reason why there is too little evidence.
pub fn choose(all: &[Advice], evidence: &Evidence) -> Result<Advice, String> {
    if evidence.sample_bytes < SAMPLE_BYTES_MIN {
        let (sampled, needed) = (evidence.sample_bytes, SAMPLE_BYTES_MIN);
        return Err(format!(
            "too little evidence: {sampled} bytes of data were sampled, {needed} are needed"
        ));
    }
    let partitions = evidence.requests.partitions();
    if partitions < PARTITIONS_MIN {
        return Err(format!("too little evidence: {partitions} partitions, {PARTITIONS_MIN} are needed"));
    }
    let fits = || all.iter().filter(|advice| advice.offsets_bytes <= evidence.offsets_bytes_max);
    let least_us = fits().map(|advice| advice.cost_us).fold(f64::INFINITY, f64::min);
    fits()
        .filter(|advice| advice.cost_us <= least_us * (1.0 + evidence.extra_cost))
        .min_by(|a, b| {
            (a.trial.ratio(), a.cost_us).partial_cmp(&(b.trial.ratio(), b.cost_us)).expect("numbers")
        })
        .copied()
        .ok_or_else(|| {
            format!(
                "no setting has chunk offsets of at most {} bytes; allow more",
                evidence.offsets_bytes_max
            )
        })
}

/// All codecs and levels that are tried.
pub fn codecs() -> Vec<Codec> {
    let plain = [Codec::Noop, Codec::Lz4, Codec::Snappy, Codec::Deflate];
    let high = [3, 6, 9, 12].map(|level| Codec::Lz4High { level });
    let zstd = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12].map(|level| Codec::Zstd { level });
    plain.into_iter().chain(high).chain(zstd).collect()
}

/// The chunk lengths that are tried, in bytes.
pub const CHUNK_BYTES: [u32; 7] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

#[cfg(test)]
mod tests {
    use base::histogram::EstimatedHistogram;

    use super::*;

    fn evidence(partition_bytes: u64, partitions: u64) -> Evidence {
        let mut sizes = EstimatedHistogram::new(150);
        sizes.add_many(partition_bytes, partitions);
        Evidence {
            requests: Requests::new(&sizes, 64 << 10),
            data_bytes: 1 << 30,
            sample_bytes: 1 << 20,
            reads_per_write: 1.0,
            disk: DiskCosts { request_us: 10.0, byte_us: 0.001 },
            offsets_bytes_max: 1 << 30,
            extra_cost: 0.1,
        }
    }

    /// A trial of a codec that halves the data, 1 us a KiB in both directions.
    fn halved(chunk_bytes: u32) -> Trial {
        Trial {
            codec: Codec::Lz4,
            chunk_bytes,
            chunks: 1 << 10,
            data_bytes: u64::from(chunk_bytes) << 10,
            stored_bytes: u64::from(chunk_bytes) << 9,
            compress_s: f64::from(chunk_bytes) * 1e-6,
            decompress_s: f64::from(chunk_bytes) * 1e-6,
        }
    }

    #[test]
    fn small_partitions_want_small_chunks_and_large_ones_do_not_care() {
        let chosen = |partition_bytes| {
            let evidence = evidence(partition_bytes, 10_000);
            // The smaller the chunk, the worse the ratio.
            let worse = |chunk_bytes: u32| {
                let trial = halved(chunk_bytes);
                Trial { stored_bytes: trial.stored_bytes + (1 << 10) * 200, ..trial }
            };
            let all: Vec<Advice> = CHUNK_BYTES.map(|chunk| Advice::new(worse(chunk), &evidence)).to_vec();
            choose(&all, &evidence).unwrap().trial.chunk_bytes
        };
        assert!(chosen(300) <= 4 << 10, "{}", chosen(300));
        assert!(chosen(60_000) >= 16 << 10, "{}", chosen(60_000));
    }

    #[test]
    fn a_costly_codec_is_chosen_only_for_data_that_are_hardly_written() {
        let slow = Trial { stored_bytes: 3 << 20, compress_s: 4.0, ..halved(16 << 10) };
        let chosen = |reads_per_write| {
            let evidence = Evidence { reads_per_write, ..evidence(2000, 10_000) };
            let all = [Advice::new(halved(16 << 10), &evidence), Advice::new(slow, &evidence)];
            choose(&all, &evidence).unwrap().trial.stored_bytes == slow.stored_bytes
        };
        assert!(!chosen(1.0) && chosen(1000.0));
    }

    #[test]
    fn smaller_data_may_cost_as_much_more_as_is_allowed() {
        let small = Trial { stored_bytes: 4 << 20, compress_s: 0.1, ..halved(16 << 10) };
        let chosen = |extra_cost| {
            let evidence = Evidence { extra_cost, ..evidence(2000, 10_000) };
            let all = [Advice::new(halved(16 << 10), &evidence), Advice::new(small, &evidence)];
            assert!(all[1].cost_us > all[0].cost_us * 1.1, "{} {}", all[0].cost_us, all[1].cost_us);
            choose(&all, &evidence).unwrap().trial.stored_bytes
        };
        assert_eq!((chosen(0.0), chosen(10.0)), (halved(16 << 10).stored_bytes, small.stored_bytes));
    }

    #[test]
    fn too_little_evidence_is_said() {
        let few = evidence(300, 99);
        let all = [Advice::new(halved(4096), &few)];
        assert!(choose(&all, &few).unwrap_err().contains("99 partitions"));
        let small = Evidence { sample_bytes: 1000, ..evidence(300, 1000) };
        assert!(choose(&all, &small).unwrap_err().contains("1000 bytes"));
        let no_memory = Evidence { offsets_bytes_max: 1000, ..evidence(300, 1000) };
        assert!(choose(&all, &no_memory).unwrap_err().contains("allow more"));
    }

    #[test]
    fn offsets_take_the_memory_of_the_real_structure() {
        for chunk_bytes in [1 << 10, 4 << 10, 64 << 10] {
            let mut offsets = crate::component::compression_info::ChunkOffsets::default();
            (0..(10u64 << 20) / u64::from(chunk_bytes)).for_each(|chunk| offsets.push(chunk * 700));
            offsets.shrink();
            assert_eq!(offsets.memory_bytes() as u64, offsets_bytes(10 << 20, chunk_bytes));
        }
    }
}
