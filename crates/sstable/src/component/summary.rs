//! Summary.db: a sample of the keys in Index.db. It is held in memory, so that a lookup reads one page of the
//! index.
//!
//! ```text
//! u32 min_index_interval | u32 n | u64 memory size | u32 sampling level | u32 size at full sampling
//! u32-LE position * n                      relative to byte 24, each where its entry starts
//! (key, u64-LE Index.db position) * n      a key ends where its position begins
//! str32 first key | str32 last key
//! ```
//! A [`Spacing`] determines which partitions are sampled. The first partition always is. After a sample, the
//! next one is due when the bytes of Data.db since then, times the ratio (ScyllaDB's
//! `sstable_summary_ratio`), reach the bytes that the sample takes. The distance between two samples is at
//! least `min_index_interval` and at most `max_index_interval` partitions (Cassandra's table options). Where
//! index entries are long there are more samples: one for each [`SAMPLE_INDEX_BYTES`] of Index.db, so that a
//! search among large partitions does not have to pass hundreds of promoted indexes. Summaries of any spacing
//! can be read.
//!
//! A summary that cannot be decoded is rebuilt from Index.db without a loss.

use std::cmp::Ordering;

use base::bytes::Take;
use base::murmur3;

use crate::component::error::check_count;
use crate::component::{FormatError, Named};

/// ScyllaDB's default of `sstable_summary_ratio`.
pub const SUMMARY_RATIO_DEFAULT: f64 = 0.0005;
/// The sampling level of a summary from which no samples were removed.
pub const SAMPLING_LEVEL_FULL: u32 = 128;

/// A sample covers at most this number of bytes of Index.db, plus one entry.
pub const SAMPLE_INDEX_BYTES: u64 = 64 * 1024;

const HEAD_BYTES: usize = 24;
const POSITION_BYTES: usize = 8;

/// The summary of an SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    min_index_interval: u32,
    sampling_level: u32,
    size_at_full_sampling: u32,
    /// The sampled keys, concatenated.
    keys: Vec<u8>,
    samples: Vec<Sample>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    token: i64,
    /// Start of the entry in Index.db.
    index_position: u64,
    /// End of the key in `keys`; its start is the end of the key before.
    key_end: u32,
}

/// A range of Index.db from `start` up to, but not including, `end`, or up to the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexRange {
    pub start: u64,
    /// `None`: the end of the file.
    pub end: Option<u64>,
}

impl Summary {
    /// The schema's `min_index_interval` when the SSTable was written.
    pub fn min_index_interval(&self) -> u32 {
        self.min_index_interval
    }

    /// [`SAMPLING_LEVEL_FULL`], or less if samples were removed.
    pub fn sampling_level(&self) -> u32 {
        self.sampling_level
    }

    /// The smallest partition key by (token, key).
    pub fn first_key(&self) -> &[u8] {
        &self.first_key
    }

    /// The largest partition key by (token, key).
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Number of sampled keys; at least one.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Never true: an SSTable has at least one partition.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The token of sample `index`, its key, and the start of its entry in Index.db.
    pub fn sample(&self, index: usize) -> (i64, &[u8], u64) {
        let sample = &self.samples[index];
        (sample.token, self.key(index), sample.index_position)
    }

    fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.samples[before].key_end as usize);
        &self.keys[start..self.samples[index].key_end as usize]
    }

    /// The last sample at or before (token, key); `None` if the key is before the first sample.
    fn floor(&self, token: i64, key: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.samples.len());
        while low < high {
            let middle = low.midpoint(high);
            let order = self.samples[middle].token.cmp(&token);
            if order.then_with(|| self.key(middle).cmp(key)) == Ordering::Greater {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low.checked_sub(1)
    }

    /// The sample whose range contains the entry of (token, key), if the entry exists. For a key before the
    /// first sample or after the last key, the nearest range, which does not contain the key.
    pub fn sample_of(&self, token: i64, key: &[u8]) -> usize {
        self.floor(token, key).unwrap_or(0)
    }

    /// The range of Index.db that contains the entry of (token, key), if the entry exists; see
    /// [`Self::sample_of`].
    pub fn search(&self, token: i64, key: &[u8]) -> IndexRange {
        self.range_at(self.sample_of(token, key))
    }

    /// The range of Index.db that begins at sample `index`.
    pub fn range_at(&self, index: usize) -> IndexRange {
        let end = self.samples.get(index + 1).map(|next| next.index_position);
        IndexRange { start: self.samples[index].index_position, end }
    }

    /// Start in Index.db of a scan of the tokens from `token` on: no entry before it has such a token.
    pub fn start_of_tokens(&self, token: i64) -> u64 {
        let below = self.samples.partition_point(|sample| sample.token < token);
        self.samples[below.saturating_sub(1)].index_position
    }

    /// Bytes of heap memory in use.
    pub fn memory_bytes(&self) -> usize {
        self.keys.capacity()
            + self.samples.capacity() * size_of::<Sample>()
            + self.first_key.capacity()
            + self.last_key.capacity()
    }

    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let positions_bytes = self.samples.len() * 4;
        let memory_bytes = positions_bytes + self.keys.len() + self.samples.len() * POSITION_BYTES;
        let mut out =
            Vec::with_capacity(HEAD_BYTES + memory_bytes + 8 + self.first_key.len() + self.last_key.len());
        out.extend_from_slice(&self.min_index_interval.to_be_bytes());
        out.extend_from_slice(&(self.samples.len() as u32).to_be_bytes());
        out.extend_from_slice(&(memory_bytes as u64).to_be_bytes());
        out.extend_from_slice(&self.sampling_level.to_be_bytes());
        out.extend_from_slice(&self.size_at_full_sampling.to_be_bytes());
        let mut entry_at = positions_bytes;
        for index in 0..self.samples.len() {
            out.extend_from_slice(&(entry_at as u32).to_le_bytes());
            entry_at += self.key(index).len() + POSITION_BYTES;
        }
        for (index, sample) in self.samples.iter().enumerate() {
            out.extend_from_slice(self.key(index));
            out.extend_from_slice(&sample.index_position.to_le_bytes());
        }
        for key in [&self.first_key, &self.last_key] {
            out.extend_from_slice(&(key.len() as u32).to_be_bytes());
            out.extend_from_slice(key);
        }
        out
    }

    /// Decodes the file. Keys must rise by (token, key), and so must their positions.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        let min_index_interval = take.u32().named("min_index_interval")?;
        let at = take.offset();
        let count = take.u32().named("number of samples")?;
        let size_at = take.offset();
        let memory_bytes = take.u64().named("size of the samples")?;
        let sampling_level = take.u32().named("sampling level")?;
        let size_at_full_sampling = take.u32().named("size at full sampling")?;
        let count =
            check_count("number of samples", at, u64::from(count), 4 + POSITION_BYTES, take.remaining())?;
        if count == 0 {
            return Err(FormatError::new("number of samples", at, "at least 1", "0"));
        }
        let area = usize::try_from(memory_bytes).ok().and_then(|len| take.bytes(len).ok());
        let area = area.filter(|area| area.len() >= count * (4 + POSITION_BYTES)).ok_or_else(|| {
            let expected = format!("{} to {}", count * (4 + POSITION_BYTES), bytes.len() - HEAD_BYTES);
            FormatError::new("size of the samples", size_at, expected, memory_bytes.to_string())
        })?;
        let mut keys = Vec::with_capacity(area.len() - count * (4 + POSITION_BYTES));
        let mut samples: Vec<Sample> = Vec::with_capacity(count);
        let position = |index: usize| {
            let bytes = area[index * 4..index * 4 + 4].try_into().expect("4 bytes");
            u32::from_le_bytes(bytes) as usize
        };
        for index in 0..count {
            let start = position(index);
            let end = if index + 1 == count { area.len() } else { position(index + 1) };
            let at = HEAD_BYTES + index * 4;
            let is_next = index > 0 || start == count * 4;
            let key_len = end.checked_sub(start).and_then(|len| len.checked_sub(POSITION_BYTES));
            let Some(key_len) = key_len.filter(|_| is_next && end <= area.len()) else {
                let expected = format!("an entry of at least {POSITION_BYTES} bytes in the samples");
                return Err(FormatError::new(
                    "position of a sample",
                    at,
                    expected,
                    format!("{start} to {end}"),
                ));
            };
            let (key, index_position) = area[start..end].split_at(key_len);
            let index_position = u64::from_le_bytes(index_position.try_into().expect("8 bytes"));
            let token = murmur3::token(key);
            if let Some(last) = samples.last() {
                let before = &keys[samples.len().checked_sub(2).map_or(0, |i| samples[i].key_end as usize)..];
                if (last.token, before) >= (token, key) || last.index_position >= index_position {
                    let at = HEAD_BYTES + start;
                    let found = format!("sample {index} not above the one before");
                    return Err(FormatError::new("sample", at, "ascending keys and positions", found));
                }
            }
            keys.extend_from_slice(key);
            // Positions in the area of samples have 32 bits, and the keys are part of this area.
            samples.push(Sample { token, index_position, key_end: keys.len() as u32 });
        }
        let first_key = take.u32_bytes().named("first key")?.to_vec();
        let last_key = take.u32_bytes().named("last key")?.to_vec();
        Ok(Self {
            min_index_interval,
            sampling_level,
            size_at_full_sampling,
            keys,
            samples,
            first_key,
            last_key,
        })
    }
}

/// Determines which partitions are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spacing {
    /// Minimum distance between two samples in partitions; at least 1. A table option.
    pub min_index_interval: u32,
    /// Maximum distance between two samples in partitions. A table option.
    pub max_index_interval: u32,
    /// Bytes of the summary for each byte of Data.db before compression, from 0 to 1.
    pub ratio: f64,
}

impl Default for Spacing {
    fn default() -> Self {
        Self { min_index_interval: 128, max_index_interval: 2048, ratio: SUMMARY_RATIO_DEFAULT }
    }
}

impl Spacing {
    /// Whether a partition has to be sampled, `partitions` partitions and `data_bytes` bytes of Data.db after
    /// the last sample. Its sample takes `sample_bytes` bytes.
    fn is_due(&self, partitions: u64, data_bytes: u64, sample_bytes: usize) -> bool {
        let is_paid = data_bytes as f64 * self.ratio >= sample_bytes as f64;
        partitions >= u64::from(self.max_index_interval)
            || partitions >= u64::from(self.min_index_interval) && is_paid
    }
}

/// Builds the summary while Index.db is written, or is read for a rebuild.
pub struct SummaryBuilder {
    spacing: Spacing,
    /// Start of the last sampled partition in the uncompressed data.
    sampled_data_position: u64,
    /// Number of partitions from the last sample on, including it.
    partitions: u64,
    keys: Vec<u8>,
    samples: Vec<Sample>,
    first_key: Vec<u8>,
    last: Option<(i64, Vec<u8>)>,
}

impl SummaryBuilder {
    pub fn new(spacing: Spacing) -> Self {
        assert!(spacing.min_index_interval > 0, "min_index_interval is at least 1");
        let (keys, samples, first_key) = (vec![], vec![], vec![]);
        Self { spacing, sampled_data_position: 0, partitions: 0, keys, samples, first_key, last: None }
    }

    /// Adds the next partition. Its entry starts at `index_position` in Index.db, its data at `data_position`
    /// in the uncompressed data. All partitions must be added, in order.
    pub fn add(&mut self, token: i64, key: &[u8], index_position: u64, data_position: u64) {
        match &mut self.last {
            None => {
                self.first_key = key.to_vec();
                self.last = Some((token, key.to_vec()));
            }
            Some((last_token, last_key)) => {
                assert!((*last_token, &last_key[..]) < (token, key), "partitions rise by token and key");
                *last_token = token;
                last_key.clear();
                last_key.extend_from_slice(key);
            }
        }
        let is_sampled = self.samples.last().is_none_or(|last| {
            let data_bytes = data_position.saturating_sub(self.sampled_data_position);
            self.spacing.is_due(self.partitions, data_bytes, key.len() + 4 + POSITION_BYTES)
                || index_position - last.index_position >= SAMPLE_INDEX_BYTES
        });
        // The file stores the length of the area in 31 bits. When it is full, the last sample covers all
        // remaining partitions, as in Cassandra.
        let area_bytes = self.keys.len() + key.len() + (self.samples.len() + 1) * (4 + POSITION_BYTES);
        if is_sampled && i32::try_from(area_bytes).is_ok() {
            self.keys.extend_from_slice(key);
            self.samples.push(Sample { token, index_position, key_end: self.keys.len() as u32 });
            self.sampled_data_position = data_position;
            self.partitions = 0;
        }
        self.partitions += 1;
    }

    /// The summary. Panics if no partition was added.
    pub fn finish(mut self) -> Summary {
        let (_, last_key) = self.last.expect("an SSTable has a partition");
        self.keys.shrink_to_fit();
        self.samples.shrink_to_fit();
        Summary {
            min_index_interval: self.spacing.min_index_interval,
            sampling_level: SAMPLING_LEVEL_FULL,
            size_at_full_sampling: u32::try_from(self.samples.len()).unwrap_or(u32::MAX),
            keys: self.keys,
            samples: self.samples,
            first_key: self.first_key,
            last_key,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `(token, key, index position)` of `count` keys in order, with entries of 10 bytes.
    fn partitions(count: u32) -> Vec<(i64, Vec<u8>, u64)> {
        let keys = (0..count).map(|number| number.to_be_bytes().to_vec());
        let mut sorted: Vec<_> = keys.map(|key| (murmur3::token(&key), key)).collect();
        sorted.sort();
        let numbered = sorted.into_iter().zip(0u64..);
        numbered.map(|((token, key), number)| (token, key, number * 10)).collect()
    }

    /// A builder that samples every `interval` partitions.
    fn every(interval: u32) -> SummaryBuilder {
        let intervals = Spacing { min_index_interval: interval, max_index_interval: interval, ratio: 0.0 };
        SummaryBuilder::new(intervals)
    }

    fn summary_of(partitions: &[(i64, Vec<u8>, u64)], interval: u32) -> Summary {
        let mut builder = every(interval);
        partitions.iter().for_each(|(token, key, position)| builder.add(*token, key, *position, 0));
        builder.finish()
    }

    #[test]
    fn golden_bytes() {
        let mut builder = every(2);
        // Token computed by the Python driver; "123" sorts before the 16 zeros.
        builder.add(-7468325962851647638, b"123", 0, 0);
        builder.add(-7468325962851647637, b"skipped", 5, 0);
        builder.add(5457549051747178710, &[0; 16], 0x102, 0);
        let mut golden = vec![0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 43, 0, 0, 0, 128, 0, 0, 0, 2];
        golden.extend([8, 0, 0, 0, 19, 0, 0, 0]);
        golden.extend(b"123\0\0\0\0\0\0\0\0");
        golden.extend([0; 16]);
        golden.extend([2, 1, 0, 0, 0, 0, 0, 0]);
        golden.extend(b"\0\0\0\x03123\0\0\0\x10");
        golden.extend([0; 16]);
        let summary = builder.finish();
        assert_eq!(summary.encode(), golden);
        assert_eq!(Summary::decode(&golden), Ok(summary));
        for cut in 0..golden.len() {
            assert!(Summary::decode(&golden[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn every_key_is_found_in_its_range() {
        let partitions = partitions(1000);
        let summary = summary_of(&partitions, 128);
        assert_eq!((summary.len(), summary.size_at_full_sampling), (8, 8));
        assert_eq!((summary.first_key(), summary.last_key()), (&partitions[0].1[..], &partitions[999].1[..]));
        for (token, key, position) in &partitions {
            let range = summary.search(*token, key);
            assert!(range.start <= *position && range.end.is_none_or(|end| *position < end));
            assert!(range.end.is_none_or(|end| end - range.start == 1280));
            assert!(summary.start_of_tokens(*token) <= *position);
        }
        assert_eq!(summary.search(i64::MIN, b""), IndexRange { start: 0, end: Some(1280) });
        assert_eq!(summary.search(i64::MAX, b""), IndexRange { start: 8960, end: None });
        assert_eq!(summary.start_of_tokens(i64::MAX), 8960);
        assert_eq!(summary.start_of_tokens(i64::MIN), 0);
    }

    #[test]
    fn long_entries_are_sampled_more_often() {
        let mut builder = every(128);
        for (number, (token, key, _)) in (0..).zip(partitions(300)) {
            let position = if number < 150 { number * 10 } else { number * 30_000 };
            builder.add(token, &key, position, 0);
        }
        let summary = builder.finish();
        // Samples are partitions 0 and 128, the first long one, and then every third.
        assert_eq!(summary.len(), 3 + 49);
        let spans = (0..summary.len() - 1).map(|index| summary.range_at(index));
        assert!(spans.skip(2).all(|span| span.end.unwrap() - span.start == 90_000));
    }

    /// Samples take 16 bytes each, and partitions 100 bytes each.
    #[test]
    fn the_ratio_spaces_samples_within_the_intervals() {
        let samples = |min_index_interval, max_index_interval, ratio| {
            let mut builder = SummaryBuilder::new(Spacing { min_index_interval, max_index_interval, ratio });
            for (number, (token, key, position)) in (0..).zip(partitions(10_000)) {
                builder.add(token, &key, position, number * 100);
            }
            builder.finish().len()
        };
        // One byte for each 2000 bytes of data: a sample of 16 bytes for 320 partitions. Other ratios give
        // proportionally more or fewer samples.
        assert_eq!(samples(128, 2048, SUMMARY_RATIO_DEFAULT), 10_000_usize.div_ceil(320));
        assert_eq!(samples(128, 2048, 0.00025), 10_000_usize.div_ceil(640));
        assert_eq!(samples(1, 2048, 0.01), 10_000_usize.div_ceil(16));
        // The table's intervals take precedence over the ratio.
        assert_eq!(samples(128, 2048, 1.0), 10_000_usize.div_ceil(128));
        assert_eq!(samples(128, 2048, 0.0), 10_000_usize.div_ceil(2048));
        assert_eq!(samples(500, 2048, SUMMARY_RATIO_DEFAULT), 20);
        assert_eq!(samples(128, 200, SUMMARY_RATIO_DEFAULT), 50);
    }

    #[test]
    fn any_spacing_is_read() {
        let partitions = partitions(300);
        let thin: Vec<_> = [0, 1, 7, 200, 299].map(|index: usize| partitions[index].clone()).to_vec();
        let summary = Summary::decode(&summary_of(&thin, 1).encode()).unwrap();
        let (token, key, position) = &partitions[150];
        assert_eq!(summary.search(*token, key), IndexRange { start: 70, end: Some(2000) });
        assert_eq!(summary.sample(3).2, 2000);
        assert_eq!(*position, 1500);
    }

    #[test]
    fn keys_out_of_order_are_an_error() {
        let good = summary_of(&partitions(3), 1).encode();
        let (first, second) = (HEAD_BYTES + 12, HEAD_BYTES + 24);
        let mut swapped = good.clone();
        for byte in 0..4 {
            swapped.swap(first + byte, second + byte);
        }
        assert!(Summary::decode(&good).is_ok());
        assert!(Summary::decode(&swapped).unwrap_err().to_string().contains("sample 1 not above"));
    }

    proptest! {
        #[test]
        fn values_round_trip(count in 1u32..400, interval in 1u32..150) {
            let summary = summary_of(&partitions(count), interval);
            prop_assert_eq!(Summary::decode(&summary.encode()), Ok(summary));
        }

        #[test]
        fn any_bytes_are_an_answer(tail: Vec<u8>, keep in 0usize..120) {
            let golden = summary_of(&partitions(5), 1).encode();
            let bytes = [&golden[..keep.min(golden.len())], &tail[..]].concat();
            if let Ok(summary) = Summary::decode(&bytes) {
                prop_assert!(summary.memory_bytes() < 1000 + 8 * bytes.len());
            }
        }

        #[test]
        fn one_wrong_byte_is_an_answer(at in 0usize..100, value: u8) {
            let mut bytes = summary_of(&partitions(5), 1).encode();
            let at = at % bytes.len();
            bytes[at] = value;
            let _ = Summary::decode(&bytes);
        }
    }
}
