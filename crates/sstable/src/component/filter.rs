//! Filter.db: a bloom filter of partition keys. "No" is certain; "yes" is wrong with a chosen probability.
//!
//! Layout: u32 number of hashes `k`, u32 number of 64-bit words, the words. Versions mc to me write each word
//! big-endian; na and later write the bytes of the bit set, so each word is little-endian.
//!
//! The `k` bits of a key follow from its 128-bit hash `(h1, h2)` (`base::murmur3::hash128`): index `j` is
//! `|h2 + j * h1|` modulo the number of bits, in wrapping signed arithmetic. Sizes are chosen as in
//! Cassandra's `BloomCalculations`, so that a filter of the same keys has the same bytes.

use base::bytes::Take;

use crate::component::{FormatError, Named};
use crate::version::Version;

/// Upper limit of the number of hashes. No writer uses more, and a lookup with more would only waste time.
const HASHES_MAX: u32 = 64;
/// Bits in addition to those of the keys, as in Cassandra.
const EXCESS_BITS: u64 = 20;
const WORD_BITS: u64 = 64;
/// See [`Filter::encode_parts`].
const PART_BYTES: usize = 128 * 1024;

/// False-positive rates by bits per key (row, from 2) and number of hashes (column, from 1), from Fan, Cao
/// and others, "Summary Cache" (Bloom filters, the math), with the same rounding. Cassandra uses the same
/// figures.
const RATES: [&[f64]; 19] = [
    &[0.393, 0.400],
    &[0.283, 0.237, 0.253],
    &[0.221, 0.155, 0.147, 0.160],
    &[0.181, 0.109, 0.092, 0.092, 0.101],
    &[0.154, 0.0804, 0.0609, 0.0561, 0.0578, 0.0638],
    &[0.133, 0.0618, 0.0423, 0.0359, 0.0347, 0.0364],
    &[0.118, 0.0489, 0.0306, 0.024, 0.0217, 0.0216, 0.0229],
    &[0.105, 0.0397, 0.0228, 0.0166, 0.0141, 0.0133, 0.0135, 0.0145],
    &[0.0952, 0.0329, 0.0174, 0.0118, 0.00943, 0.00844, 0.00819, 0.00846],
    &[0.0869, 0.0276, 0.0136, 0.00864, 0.0065, 0.00552, 0.00513, 0.00509],
    &[0.08, 0.0236, 0.0108, 0.00646, 0.00459, 0.00371, 0.00329, 0.00314],
    &[0.074, 0.0203, 0.00875, 0.00492, 0.00332, 0.00255, 0.00217, 0.00199, 0.00194],
    &[0.0689, 0.0177, 0.00718, 0.00381, 0.00244, 0.00179, 0.00146, 0.00129, 0.00121, 0.0012],
    &[0.0645, 0.0156, 0.00596, 0.003, 0.00183, 0.00128, 0.001, 0.000852, 0.000775, 0.000744],
    &[0.0606, 0.0138, 0.005, 0.00239, 0.00139, 0.000935, 0.000702, 0.000574, 0.000505, 0.00047, 0.000459],
    &[
        0.0571, 0.0123, 0.00423, 0.00193, 0.00107, 0.000692, 0.000499, 0.000394, 0.000335, 0.000302,
        0.000287, 0.000284,
    ],
    &[
        0.054, 0.0111, 0.00362, 0.00158, 0.000839, 0.000519, 0.00036, 0.000275, 0.000226, 0.000198, 0.000183,
        0.000176,
    ],
    &[
        0.0513, 0.00998, 0.00312, 0.0013, 0.000663, 0.000394, 0.000264, 0.000194, 0.000155, 0.000132,
        0.000118, 0.000111, 0.000109,
    ],
    &[
        0.0488, 0.00906, 0.0027, 0.00108, 0.00053, 0.000303, 0.000196, 0.00014, 0.000108, 8.89e-05, 7.77e-05,
        7.12e-05, 6.79e-05, 6.71e-05,
    ],
];

/// The lowest false-positive probability for which a filter can be built.
pub const FP_CHANCE_MIN: f64 = 6.71e-5;

/// The dimensions of a filter for a false-positive probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterSpec {
    /// Bits of the filter for each expected key.
    pub bits_per_key: u32,
    /// Hashes computed for each key.
    pub hashes: u32,
}

impl FilterSpec {
    /// The fewest bits per key, and with these the fewest hashes, whose false-positive probability is at most
    /// `fp_chance`. `fp_chance` must be at least [`FP_CHANCE_MIN`] (the schema check refuses less) and less
    /// than 1 (with 1 a table has no filter).
    pub fn for_chance(fp_chance: f64) -> Self {
        assert!((FP_CHANCE_MIN..1.0).contains(&fp_chance), "no filter has a chance of {fp_chance}");
        if fp_chance >= RATES[0][0] {
            // Cassandra's special case for high probabilities: one bit per key and two hashes.
            return Self { bits_per_key: 1, hashes: 2 };
        }
        let best = |rates: &[f64]| {
            let start = (0, f64::MAX);
            let least = rates
                .iter()
                .enumerate()
                .fold(start, |best, (i, rate)| if *rate < best.1 { (i, *rate) } else { best });
            least.0
        };
        let rows = RATES.iter().zip(2u32..);
        let (rates, bits_per_key) =
            { rows }.find(|(rates, _)| rates[best(rates)] <= fp_chance).expect("the last row is good enough");
        let mut hashes = best(rates) + 1;
        while hashes > 1 && rates[hashes - 2] <= fp_chance {
            hashes -= 1;
        }
        Self { bits_per_key, hashes: hashes as u32 }
    }
}

/// The bloom filter of an SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    hashes: u32,
    /// Never empty. Bit `i` of the filter is bit `i % 64` (lowest bit first) of word `i / 64`.
    words: Vec<u64>,
}

impl Filter {
    /// An empty filter for about `expected_keys` keys, to be filled with [`Self::add`].
    pub fn builder(expected_keys: u64, fp_chance: f64) -> Self {
        let spec = FilterSpec::for_chance(fp_chance);
        let bits = expected_keys.saturating_mul(u64::from(spec.bits_per_key)).saturating_add(EXCESS_BITS);
        // The file counts words in 31 bits. A larger filter is limited to that number of words.
        let words = bits.div_ceil(WORD_BITS).min(i32::MAX as u64);
        Self { hashes: spec.hashes, words: vec![0; words as usize] }
    }

    /// The number of hashes.
    pub fn hashes(&self) -> u32 {
        self.hashes
    }

    /// The number of bits.
    pub fn bits(&self) -> u64 {
        self.words.len() as u64 * WORD_BITS
    }

    #[inline]
    fn indexes(&self, (h1, h2): (u64, u64)) -> impl Iterator<Item = (usize, u64)> + use<> {
        let bits = self.bits() as i64;
        let mut base = h2 as i64;
        (0..self.hashes).map(move |_| {
            let index = (base % bits).unsigned_abs();
            base = base.wrapping_add(h1 as i64);
            ((index / WORD_BITS) as usize, 1 << (index % WORD_BITS))
        })
    }

    /// Adds a key by its hash: `base::murmur3::hash128` of the serialized partition key.
    pub fn add(&mut self, hash128: (u64, u64)) {
        for (word, bit) in self.indexes(hash128) {
            self.words[word] |= bit;
        }
    }

    /// False if the key was certainly not added.
    #[inline]
    pub fn may_contain(&self, hash128: (u64, u64)) -> bool {
        self.indexes(hash128).all(|(word, bit)| self.words[word] & bit != 0)
    }

    /// The fraction of bits that are set. The false-positive probability is this fraction to the power of
    /// [`Self::hashes`].
    pub fn fill(&self) -> f64 {
        let set: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        set as f64 / self.bits() as f64
    }

    /// Bytes of heap memory in use.
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Encodes the file.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        self.encode_parts(version).collect::<Vec<_>>().concat()
    }

    /// Encodes the file in parts of 128 KiB, because encoding a filter of millions of keys takes long.
    pub fn encode_parts(&self, version: Version) -> impl Iterator<Item = Vec<u8>> {
        let head = [self.hashes.to_be_bytes(), (self.words.len() as u32).to_be_bytes()].concat();
        let little_endian = version.has_bloom_little_endian();
        let bytes = move |word: &u64| if little_endian { word.to_le_bytes() } else { word.to_be_bytes() };
        let part = move |words: &[u64]| words.iter().flat_map(bytes).collect();
        std::iter::once(head).chain(self.words.chunks(PART_BYTES / 8).map(part))
    }

    /// Decodes the file.
    pub fn decode(bytes: &[u8], version: Version) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        let hashes = take.u32().named("number of hashes")?;
        if !(1..=HASHES_MAX).contains(&hashes) {
            let expected = format!("1 to {HASHES_MAX}");
            return Err(FormatError::new("number of hashes", 0, expected, hashes.to_string()));
        }
        let words = take.u32().named("number of words")?;
        let expected = u64::from(words) * 8;
        if words == 0 || take.remaining() as u64 != expected {
            let found = format!("{} bytes after a count of {words} words", take.remaining());
            let expected = format!("{} bytes", expected.max(8));
            return Err(FormatError::new("words", take.offset(), expected, found));
        }
        let little_endian = version.has_bloom_little_endian();
        let word = |bytes: &[u8]| {
            let bytes = bytes.try_into().expect("8 bytes");
            if little_endian { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
        };
        Ok(Self { hashes, words: take.rest().chunks_exact(8).map(word).collect() })
    }
}

#[cfg(test)]
mod tests {
    use base::murmur3::hash128;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dimensions_are_cassandras() {
        // BloomCalculations.computeBloomSpec(20, chance) of Cassandra 4.1.
        let check = |fp_chance: f64, bits_per_key: u32, hashes: u32| {
            assert_eq!(FilterSpec::for_chance(fp_chance), FilterSpec { bits_per_key, hashes }, "{fp_chance}");
        };
        check(0.01, 10, 5);
        check(0.1, 5, 3);
        check(0.001, 15, 7);
        check(0.0001, 20, 10);
        check(FP_CHANCE_MIN, 20, 14);
        check(0.39, 3, 1);
        check(0.2, 4, 2);
        check(0.092, 5, 3);
        check(0.05, 7, 3);
        check(0.02, 9, 4);
        check(0.393, 1, 2);
        check(0.99, 1, 2);
    }

    #[test]
    fn golden_bytes() {
        let mut filter = Filter::builder(1, 0.01);
        filter.add((1, 0xffff_ffff_ffff_fffd));
        // Bits |-3|, |-2|, |-1|, 0 and 1 of 64.
        let me = [0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0b1111];
        let nb = [0, 0, 0, 5, 0, 0, 0, 1, 0b1111, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(filter.encode(Version::Me), me);
        assert_eq!(filter.encode(Version::Nb), nb);
        assert_eq!(Filter::decode(&me, Version::Mc), Ok(filter.clone()));
        assert_eq!(Filter::decode(&nb, Version::Na), Ok(filter));
        for cut in 0..me.len() {
            assert!(Filter::decode(&me[..cut], Version::Me).is_err());
        }
    }

    #[test]
    fn a_filter_of_the_same_keys_is_cassandras_byte_for_byte() {
        let mut filter = Filter::builder(1000, 0.01);
        (0..1000u32).for_each(|number| filter.add(hash128(&number.to_be_bytes())));
        // CRC-32 of the filter that Cassandra 4.1 serializes for these keys.
        assert_eq!(base::crc::crc32(&filter.encode(Version::Nb)), 0xcb59_97ed);
    }

    #[test]
    fn damage_is_an_error() {
        let check = |bytes: &[u8]| assert!(Filter::decode(bytes, Version::Me).is_err(), "{bytes:?}");
        check(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        check(&[0, 0, 0, 65, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        check(&[0, 0, 0, 5, 0, 0, 0, 0]);
        check(&[0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    }

    #[test]
    fn every_key_is_found_and_few_others() {
        let key = |number: u64| hash128(&number.to_be_bytes());
        for fp_chance in [0.1, 0.01, 0.001] {
            let mut filter = Filter::builder(20_000, fp_chance);
            (0..20_000).for_each(|number| filter.add(key(number)));
            assert!((0..20_000).all(|number| filter.may_contain(key(number))));
            let wrong = (20_000..220_000).filter(|number| filter.may_contain(key(*number))).count();
            let rate = wrong as f64 / 200_000.0;
            assert!(rate < fp_chance * 1.15 && rate > fp_chance * 0.5, "{rate} for {fp_chance}");
            assert!(filter.fill() < 0.55);
            assert!(filter.memory_bytes() <= 20_000 * 15 / 8 + 16);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>, key: (u64, u64)) {
            if let Ok(filter) = Filter::decode(&bytes, Version::Me) {
                filter.may_contain(key);
                prop_assert_eq!(filter.encode(Version::Me), bytes);
            }
        }
    }
}
