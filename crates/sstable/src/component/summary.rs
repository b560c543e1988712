//! Summary.db: a sample of the keys in Index.db, held in memory, so that a lookup reads one page of the index.
//!
//! ```text
//! u32 min_index_interval | u32 n | u64 memory size | u32 sampling level | u32 size at full sampling
//! u32-LE position * n                      relative to byte 24, each where its entry starts
//! (key, u64-LE Index.db position) * n      a key ends where its position begins
//! str32 first key | str32 last key
//! ```
//! We write as Cassandra does, the first partition and every `min_index_interval`-th after it; and, as ScyllaDB does,
//! more of them where entries are long: a sample once [`SAMPLE_INDEX_BYTES`] of Index.db are behind the last one, so that
//! looking for a partition among large ones does not lead past the promoted indexes of a hundred. We read any spacing.
//!
//! A summary that does not decode is rebuilt from Index.db; nothing is lost with it.

use std::cmp::Ordering;

use base::bytes::Take;
use base::murmur3;

use crate::component::error::check_count;
use crate::component::{FormatError, Named};

/// How many partitions a sample stands for unless the schema says otherwise.
pub const MIN_INDEX_INTERVAL_DEFAULT: u32 = 128;
/// The level that says that no sample was thinned out.
pub const SAMPLING_LEVEL_FULL: u32 = 128;

/// Of Index.db a sample stands for at most so much, and one entry.
pub const SAMPLE_INDEX_BYTES: u64 = 64 * 1024;

const HEAD_BYTES: usize = 24;
const POSITION_BYTES: usize = 8;

/// The summary of one SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    min_index_interval: u32,
    sampling_level: u32,
    size_at_full_sampling: u32,
    /// The sampled keys, one behind the other.
    keys: Vec<u8>,
    samples: Vec<Sample>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    token: i64,
    /// Where the entry starts in Index.db.
    index_position: u64,
    /// Where the key ends in `keys`; it starts where the one before ends.
    key_end: u32,
}

/// A part of Index.db: from `start` to before `end`, or to the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexRange {
    pub start: u64,
    pub end: Option<u64>,
}

impl Summary {
    /// The schema's `min_index_interval` when the SSTable was written.
    pub fn min_index_interval(&self) -> u32 {
        self.min_index_interval
    }

    /// [`SAMPLING_LEVEL_FULL`], or less if samples were thinned out.
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

    /// How many keys are sampled; at least one.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Never: an SSTable has a partition.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The sampled key `index`, its token, and where its entry starts in Index.db.
    pub fn sample(&self, index: usize) -> (i64, &[u8], u64) {
        let sample = &self.samples[index];
        (sample.token, self.key(index), sample.index_position)
    }

    fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.samples[before].key_end as usize);
        &self.keys[start..self.samples[index].key_end as usize]
    }

    /// The index of the last sample at or before (token, key); `None` if the key is before the first.
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

    /// The sample whose range has the entry of (token, key), if there is one. A key before the first sample or behind
    /// the last key gets the range next to it, in which it will not be found.
    pub fn sample_of(&self, token: i64, key: &[u8]) -> usize {
        self.floor(token, key).unwrap_or(0)
    }

    /// Where the entry of (token, key) is in Index.db, if it has one; see [`Self::sample_of`].
    pub fn search(&self, token: i64, key: &[u8]) -> IndexRange {
        self.range_at(self.sample_of(token, key))
    }

    /// The part of Index.db that begins at sample `index`.
    pub fn range_at(&self, index: usize) -> IndexRange {
        let end = self.samples.get(index + 1).map(|next| next.index_position);
        IndexRange { start: self.samples[index].index_position, end }
    }

    /// Where a scan of the tokens from `token` on starts in Index.db: no entry before it has such a token.
    pub fn start_of_tokens(&self, token: i64) -> u64 {
        let below = self.samples.partition_point(|sample| sample.token < token);
        self.samples[below.saturating_sub(1)].index_position
    }

    /// Bytes on the heap.
    pub fn memory_bytes(&self) -> usize {
        self.keys.capacity()
            + self.samples.capacity() * size_of::<Sample>()
            + self.first_key.capacity()
            + self.last_key.capacity()
    }

    /// The file's bytes.
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

    /// Reads the file. Keys must rise by (token, key), and their positions too.
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
                    return Err(FormatError::new("sample", at, "rising keys and positions", found));
                }
            }
            keys.extend_from_slice(key);
            // The area's positions are 32 bits, and keys are part of it.
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

/// Builds the summary while Index.db is written (or read, to rebuild it).
pub struct SummaryBuilder {
    min_index_interval: u32,
    /// Since the last sample, it included.
    partitions: u64,
    keys: Vec<u8>,
    samples: Vec<Sample>,
    first_key: Vec<u8>,
    last: Option<(i64, Vec<u8>)>,
}

impl SummaryBuilder {
    /// `min_index_interval` is the table's option, at least 1.
    pub fn new(min_index_interval: u32) -> Self {
        assert!(min_index_interval > 0, "min_index_interval is at least 1");
        let (keys, samples, first_key) = (vec![], vec![], vec![]);
        Self { min_index_interval, partitions: 0, keys, samples, first_key, last: None }
    }

    /// The next partition, whose entry starts at `index_position` in Index.db. All partitions, in order.
    pub fn add(&mut self, token: i64, key: &[u8], index_position: u64) {
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
            self.partitions >= u64::from(self.min_index_interval)
                || index_position - last.index_position >= SAMPLE_INDEX_BYTES
        });
        // The file counts the area in 31 bits. Beyond that, as in Cassandra, the last sample stands for the rest.
        let area_bytes = self.keys.len() + key.len() + (self.samples.len() + 1) * (4 + POSITION_BYTES);
        if is_sampled && i32::try_from(area_bytes).is_ok() {
            self.keys.extend_from_slice(key);
            self.samples.push(Sample { token, index_position, key_end: self.keys.len() as u32 });
            self.partitions = 0;
        }
        self.partitions += 1;
    }

    /// The summary. Asserts that there was a partition.
    pub fn finish(mut self) -> Summary {
        let (_, last_key) = self.last.expect("an SSTable has a partition");
        self.keys.shrink_to_fit();
        self.samples.shrink_to_fit();
        Summary {
            min_index_interval: self.min_index_interval,
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

    /// `(token, key, index position)` of `count` keys in their order, entries 10 bytes apart.
    fn partitions(count: u32) -> Vec<(i64, Vec<u8>, u64)> {
        let keys = (0..count).map(|number| number.to_be_bytes().to_vec());
        let mut sorted: Vec<_> = keys.map(|key| (murmur3::token(&key), key)).collect();
        sorted.sort();
        let numbered = sorted.into_iter().zip(0u64..);
        numbered.map(|((token, key), number)| (token, key, number * 10)).collect()
    }

    fn summary_of(partitions: &[(i64, Vec<u8>, u64)], interval: u32) -> Summary {
        let mut builder = SummaryBuilder::new(interval);
        partitions.iter().for_each(|(token, key, position)| builder.add(*token, key, *position));
        builder.finish()
    }

    #[test]
    fn golden_bytes() {
        let mut builder = SummaryBuilder::new(2);
        // Tokens of the Python driver: "123" before the 16 zeros.
        builder.add(-7468325962851647638, b"123", 0);
        builder.add(-7468325962851647637, b"skipped", 5);
        builder.add(5457549051747178710, &[0; 16], 0x102);
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
        let mut builder = SummaryBuilder::new(128);
        for (number, (token, key, _)) in (0..).zip(partitions(300)) {
            builder.add(token, &key, if number < 150 { number * 10 } else { number * 30_000 });
        }
        let summary = builder.finish();
        // 0, 128, the first long one, and then each third.
        assert_eq!(summary.len(), 3 + 49);
        let spans = (0..summary.len() - 1).map(|index| summary.range_at(index));
        assert!(spans.skip(2).all(|span| span.end.unwrap() - span.start == 90_000));
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
