//! HyperLogLog++: estimates the number of distinct keys in a few kilobytes. The format is that of stream-lib,
//! which Cassandra stores in Statistics.db to estimate the number of keys of several SSTables together.
//!
//! 1. A key is added as a 64-bit hash ([`key_hash`]).
//! 2. With few keys the sketch is *sparse*: a sorted list of the first `sp` bits of the hashes. An entry also
//!    contains the length of the run of zeros after the first `p` bits, if its own bits do not determine it.
//!    The count is then nearly exact.
//! 3. Above 3/4 of `2^p` entries the sketch becomes *normal*: `2^p` registers of 5 bits, each with the
//!    longest run seen.
//!
//! The encoding and the hash are those of stream-lib 2.5 (used by Cassandra 3 and 4), which tests verify. The
//! only difference is that the sparse list written here is always sorted, and stream-lib's sometimes is not;
//! each implementation reads the other's. The estimate of a normal sketch differs: stream-lib's needs bias
//! tables, which this code does not include. It uses Ertl's "improved raw estimator" (O. Ertl, New
//! cardinality estimation algorithms for HyperLogLog sketches, 2017, §3), which needs none. The standard
//! error of both is about 1.04 / sqrt(2^p): 1.15 % for p = 13.

use std::fmt;

use crate::bytes::{Take, Truncated};

/// Cassandra's precision `p`: 8192 registers.
const PRECISION: u32 = 13;
/// Cassandra's precision `sp` of a sparse sketch.
const SPARSE_PRECISION: u32 = 25;
const VERSION: i32 = -2;
const FORMAT_NORMAL: u32 = 0;
const FORMAT_SPARSE: u32 = 1;
const REGISTER_BITS: u32 = 5;
const REGISTERS_PER_WORD: usize = 6;
/// The longest run that a register can hold.
const RUN_MAX: u8 = (1 << REGISTER_BITS) - 1;
/// Hashes added to a sparse sketch are collected, and sorted into the list when their number reaches this.
const PENDING_MAX: usize = 1024;

/// A sketch of a set of 64-bit hashes.
#[derive(Clone, Debug)]
pub struct HyperLogLog {
    precision: u32,
    sparse_precision: u32,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// `sorted` is ordered by [`sparse_index`], with each index once; `pending` is in the order of arrival.
    Sparse { sorted: Vec<u32>, pending: Vec<u32> },
    /// One run length for each of the `2^p` registers.
    Normal { registers: Vec<u8> },
}

/// The bytes are not a valid sketch, or two sketches cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SketchError {
    /// The bytes end before the sketch does.
    Truncated(Truncated),
    /// The version is not -2.
    Version(i32),
    /// The precisions are not `4 <= p <= 18` with `sp = 0` or `p <= sp <= 25`, or those of two sketches
    /// differ.
    Precision {
        /// Precision of the dense registers, in bits (`p` of HyperLogLog++): there are `2^p` registers.
        precision: u32,
        /// Precision of the sparse form, in bits (`sp`); 0: there is no sparse form.
        sparse_precision: u32,
    },
    /// The format is neither normal nor, with `sp > 0`, sparse.
    Format(u32),
    /// The number of registers does not match the precision, there are more sparse entries than bytes, or an
    /// integer is too long.
    Size(u32),
    /// A sparse entry has an index with more bits than the precision.
    Entry(u32),
}

impl fmt::Display for SketchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(truncated) => write!(f, "HyperLogLog sketch {truncated}"),
            Self::Version(found) => write!(f, "HyperLogLog sketch of version {found}, expected {VERSION}"),
            Self::Precision { precision, sparse_precision } => {
                write!(f, "HyperLogLog sketch with precisions {precision} and {sparse_precision}")
            }
            Self::Format(found) => write!(f, "HyperLogLog sketch of format {found}, expected 0 or 1"),
            Self::Size(found) => write!(f, "HyperLogLog sketch with {found} entries"),
            Self::Entry(found) => write!(f, "HyperLogLog sketch with an entry {found:#x}"),
        }
    }
}

impl std::error::Error for SketchError {}

impl From<Truncated> for SketchError {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated(truncated)
    }
}

impl Default for HyperLogLog {
    fn default() -> Self {
        Self::new()
    }
}

impl HyperLogLog {
    /// An empty sketch with Cassandra's precisions, 13 and 25.
    pub fn new() -> Self {
        let state = State::Sparse { sorted: vec![], pending: vec![] };
        Self { precision: PRECISION, sparse_precision: SPARSE_PRECISION, state }
    }

    /// Adds the hash of one key; adding the same hash again has no effect.
    pub fn offer(&mut self, hash: u64) {
        match &mut self.state {
            State::Sparse { pending, .. } => {
                pending.push(encode_sparse(hash, self.precision, self.sparse_precision));
                if pending.len() >= PENDING_MAX {
                    self.settle();
                }
            }
            State::Normal { registers } => {
                let register = &mut registers[(hash >> (64 - self.precision)) as usize];
                *register = (*register).max(run_length(hash, self.precision));
            }
        }
    }

    /// Sorts the pending hashes into the list, and switches to the normal form if the list is too long.
    fn settle(&mut self) {
        let State::Sparse { sorted, pending } = &mut self.state else { return };
        if !pending.is_empty() {
            sorted.append(pending);
            // Of entries with the same index the smallest is kept. It has the longest run, since runs are
            // stored inverted. A stable sort merges two sorted lists in linear time.
            sorted.sort_by_key(|entry| (sparse_index(*entry), *entry));
            sorted.dedup_by_key(|entry| sparse_index(*entry));
        }
        if sorted.len() > (3 << self.precision) / 4 {
            self.state = State::Normal { registers: self.registers() };
        }
    }

    /// The registers of the normal form, for either form.
    fn registers(&self) -> Vec<u8> {
        match &self.state {
            State::Normal { registers } => registers.clone(),
            State::Sparse { sorted, pending } => {
                let mut registers = vec![0u8; 1 << self.precision];
                for entry in sorted.iter().chain(pending) {
                    let index = sparse_index(*entry) >> (self.sparse_precision - self.precision);
                    let register = &mut registers[index as usize];
                    *register = (*register).max(decode_run(*entry, self.precision, self.sparse_precision));
                }
                registers
            }
        }
    }

    /// Merges `other` into this sketch, which becomes the sketch of both sets. Both must have the same
    /// precisions.
    pub fn merge(&mut self, other: &Self) -> Result<(), SketchError> {
        let (precision, sparse_precision) = (other.precision, other.sparse_precision);
        if (self.precision, self.sparse_precision) != (precision, sparse_precision) {
            return Err(SketchError::Precision { precision, sparse_precision });
        }
        if let (State::Sparse { pending, .. }, State::Sparse { sorted: other, pending: waiting }) =
            (&mut self.state, &other.state)
        {
            pending.extend(other.iter().chain(waiting));
            self.settle();
            return Ok(());
        }
        let mut registers = self.registers();
        for (register, more) in registers.iter_mut().zip(other.registers()) {
            *register = (*register).max(more);
        }
        self.state = State::Normal { registers };
        Ok(())
    }

    /// The estimated number of distinct hashes.
    pub fn cardinality(&self) -> u64 {
        match &self.state {
            State::Normal { registers } => estimate(registers).round() as u64,
            State::Sparse { pending, .. } if !pending.is_empty() => {
                let mut settled = self.clone();
                settled.settle();
                settled.cardinality()
            }
            State::Sparse { sorted, .. } => {
                let cells = (1u64 << self.sparse_precision) as f64;
                (cells * (cells / (cells - sorted.len() as f64)).ln()).round() as u64
            }
        }
    }

    /// The encoding in stream-lib's format.
    pub fn encode(&self) -> Vec<u8> {
        let mut settled = self.clone();
        settled.settle();
        let mut out = VERSION.to_be_bytes().to_vec();
        write_varint(&mut out, self.precision);
        write_varint(&mut out, self.sparse_precision);
        match &settled.state {
            State::Sparse { sorted, .. } => {
                write_varint(&mut out, FORMAT_SPARSE);
                write_varint(&mut out, sorted.len() as u32);
                let mut before = 0u32;
                for entry in sorted {
                    write_varint(&mut out, entry.wrapping_sub(before));
                    before = *entry;
                }
            }
            State::Normal { registers } => {
                write_varint(&mut out, FORMAT_NORMAL);
                write_varint(&mut out, (words_for(registers.len()) * 4) as u32);
                let mut words = vec![0u32; words_for(registers.len())];
                for (index, run) in registers.iter().enumerate() {
                    let shift = REGISTER_BITS * (index % REGISTERS_PER_WORD) as u32;
                    words[index / REGISTERS_PER_WORD] |= u32::from(*run) << shift;
                }
                out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            }
        }
        out
    }

    /// Decodes a sketch of [`Self::encode`] or of stream-lib. Bytes after the sketch are ignored. Sparse
    /// entries may be in any order and may repeat, because stream-lib 2.5 merges entries with a run length at
    /// the wrong position.
    pub fn decode(bytes: &[u8]) -> Result<Self, SketchError> {
        let mut take = Take::new(bytes);
        let version = take.i32()?;
        if version != VERSION {
            return Err(SketchError::Version(version));
        }
        let precision = read_varint(&mut take)?;
        let sparse_precision = read_varint(&mut take)?;
        let sparse_fits = sparse_precision == 0 || (precision..=SPARSE_PRECISION).contains(&sparse_precision);
        if !(4..=18).contains(&precision) || !sparse_fits {
            return Err(SketchError::Precision { precision, sparse_precision });
        }
        let format = read_varint(&mut take)?;
        let size = read_varint(&mut take)?;
        let state = match format {
            FORMAT_NORMAL => {
                let count = 1usize << precision;
                if size as usize != words_for(count) * 4 {
                    return Err(SketchError::Size(size));
                }
                let words = take.bytes(size as usize)?;
                let register = |index: usize| {
                    let at = index / REGISTERS_PER_WORD * 4;
                    let word = u32::from_be_bytes(words[at..at + 4].try_into().expect("4 bytes"));
                    (word >> (REGISTER_BITS * (index % REGISTERS_PER_WORD) as u32)) as u8 & RUN_MAX
                };
                State::Normal { registers: (0..count).map(register).collect() }
            }
            FORMAT_SPARSE if sparse_precision > 0 => {
                if size as usize > take.remaining() {
                    return Err(SketchError::Size(size));
                }
                let mut pending = Vec::with_capacity(size as usize);
                let mut entry = 0u32;
                for _ in 0..size {
                    entry = entry.wrapping_add(read_varint(&mut take)?);
                    if sparse_index(entry) >> sparse_precision != 0 {
                        return Err(SketchError::Entry(entry));
                    }
                    pending.push(entry);
                }
                State::Sparse { sorted: vec![], pending }
            }
            other => return Err(SketchError::Format(other)),
        };
        let mut sketch = Self { precision, sparse_precision, state };
        sketch.settle();
        Ok(sketch)
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        match &self.state {
            State::Sparse { sorted, pending } => (sorted.capacity() + pending.capacity()) * size_of::<u32>(),
            State::Normal { registers } => registers.capacity(),
        }
    }
}

/// The number of words for `registers` registers in stream-lib's layout: one more than the number of full
/// words, unless that number is a multiple of 32.
fn words_for(registers: usize) -> usize {
    let full = registers / REGISTERS_PER_WORD;
    if full > 0 && full.is_multiple_of(32) { full } else { full + 1 }
}

/// One more than the number of zeros after the first `precision` bits, limited to the maximum of a register.
fn run_length(hash: u64, precision: u32) -> u8 {
    let rest = (hash << precision) | (1 << (precision - 1));
    (rest.leading_zeros() as u8 + 1).min(RUN_MAX)
}

/// Encodes a hash as a sparse entry: the first `sparse_precision` bits and a 0. If the bits between the two
/// precisions are all 0, the entry is the first bits, the inverted run length in 6 bits, and a 1.
fn encode_sparse(hash: u64, precision: u32, sparse_precision: u32) -> u32 {
    let index = (hash >> (64 - sparse_precision)) as u32;
    let between = index & ((1 << (sparse_precision - precision)) - 1);
    if between != 0 {
        return index << 1;
    }
    let rest = (hash << precision) | (1 << (precision - 1));
    let run = rest.leading_zeros() + 1;
    (((index << 6) | (run ^ 63)) << 1) | 1
}

fn sparse_index(entry: u32) -> u32 {
    if entry & 1 == 1 { entry >> 7 } else { entry >> 1 }
}

fn decode_run(entry: u32, precision: u32, sparse_precision: u32) -> u8 {
    let run = if entry & 1 == 1 {
        ((entry >> 1) & 63) ^ 63
    } else {
        (entry << (precision + 31 - sparse_precision)).leading_zeros() + 1
    };
    (run as u8).min(RUN_MAX)
}

/// Ertl's improved raw estimator for registers with values 0 to [`RUN_MAX`].
fn estimate(registers: &[u8]) -> f64 {
    let mut counts = [0u32; RUN_MAX as usize + 1];
    for run in registers {
        counts[usize::from(*run)] += 1;
    }
    let m = registers.len() as f64;
    let mut z = m * tau(1.0 - f64::from(counts[usize::from(RUN_MAX)]) / m);
    for count in counts[1..usize::from(RUN_MAX)].iter().rev() {
        z = 0.5 * (z + f64::from(*count));
    }
    z += m * sigma(f64::from(counts[0]) / m);
    m * m / (2.0 * std::f64::consts::LN_2 * z)
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// Appends a varint: seven bits per byte, low bits first, with the top bit set in all bytes but the last.
fn write_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_varint(take: &mut Take<'_>) -> Result<u32, SketchError> {
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let byte = take.u8()?;
        value |= u32::from(byte & 0x7f).wrapping_shl(shift);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(SketchError::Size(value))
}

/// The hash that Cassandra adds for a serialized partition key: MurmurHash2 (64 bits, seed 0), in which the
/// last 1 to 7 bytes are sign-extended before they are shifted. Source: Cassandra's `MurmurHash.hash2_64`.
pub fn key_hash(key: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = M.wrapping_mul(key.len() as u64);
    let words = key.chunks_exact(8);
    let tail = words.remainder();
    for word in words {
        let mut k = u64::from_le_bytes(word.try_into().expect("8 bytes")).wrapping_mul(M);
        k ^= k >> R;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (i, byte) in tail.iter().enumerate() {
            hash ^= (*byte as i8 as i64 as u64) << (8 * i);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> R)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc::crc32;
    use crate::rng::Rng;

    fn sketch_of(hashes: impl IntoIterator<Item = u64>) -> HyperLogLog {
        let mut sketch = HyperLogLog::new();
        hashes.into_iter().for_each(|hash| sketch.offer(hash));
        sketch
    }

    fn seeded(seeds: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
        seeds.map(|seed| Rng::new(seed).next_u64())
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn key_hashes_are_cassandras() {
        // Values of MurmurHash.hash2_64 in Cassandra 4.1.
        let check = |key: &[u8], expect: u64| assert_eq!(key_hash(key), expect, "{key:02x?}");
        check(b"", 0);
        check(&[1], 0xb09b_25bf_c7c4_1d07);
        check(b"hello", 0x1e68_d17c_457b_f117);
        check(&[0x80, 0xff, 3], 0x1e6f_943d_af42_d010);
        check(b"12345678", 0x758f_67d1_62b2_d202);
        check(b"hello world, this is messina", 0x6f29_a4bf_a9aa_a1ef);
        check(&[0xfe; 15], 0xea37_b914_8502_cedf);
    }

    #[test]
    fn bytes_are_stream_libs() {
        // Results of HyperLogLogPlus(13, 25).getBytes() in stream-lib 2.5.2 for the same hashes.
        assert_eq!(hex(&HyperLogLog::new().encode()), "fffffffe0d190100");
        let edges = [1, 0, 0xfff8_0000_0000_0001, 0xfff8_0000_1234_5678, u64::MAX];
        let sketch = sketch_of(seeded(0..5).chain(edges));
        let golden = "fffffffe0d19010817bbd8d003bac6960aaab2a904a0f064cac3ac09f9fabde30fe5ff9f20";
        assert_eq!(hex(&sketch.encode()), golden);
        assert_eq!(sketch.cardinality(), 8);
        let check = |hashes: u64, len: usize, crc: u32| {
            let bytes = sketch_of(seeded(0..hashes)).encode();
            assert_eq!((bytes.len(), crc32(&bytes)), (len, crc), "{hashes} hashes");
        };
        check(1000, 2797, 0x4dbb_3b6a);
        check(6200, 5473, 0x4dc9_de4e);
        check(20_000, 5473, 0x4271_9a70);
        check(100_000, 5473, 0x2ac8_8be8);
    }

    #[test]
    fn estimates_are_close_at_every_size() {
        for hashes in [0u64, 1, 10, 1000, 6000, 6500, 8000, 12_000, 20_000, 50_000, 200_000, 1_000_000] {
            let estimated = sketch_of(seeded(0..hashes)).cardinality();
            let error = (estimated as f64 - hashes as f64).abs() / (hashes as f64).max(1.0);
            // The tolerance is three standard errors; sparse sketches are nearly exact.
            let allowed = if hashes <= 6000 { 0.001 } else { 0.035 };
            assert!(error <= allowed, "{hashes} hashes estimated as {estimated}");
        }
    }

    #[test]
    fn merging_is_the_sketch_of_both_sets() {
        for (left, right) in
            [(0..50, 25..80), (0..50, 0..30_000), (0..30_000, 0..50), (0..20_000, 10_000..40_000)]
        {
            let mut merged = sketch_of(seeded(left.clone()));
            merged.merge(&sketch_of(seeded(right.clone()))).unwrap();
            let whole = sketch_of(seeded(left).chain(seeded(right)));
            assert_eq!(merged.encode(), whole.encode());
        }
        let mut small =
            HyperLogLog::decode(&[0xff, 0xff, 0xff, 0xfe, 4, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
                .expect("a sketch of 16 registers");
        assert!(small.merge(&HyperLogLog::new()).is_err());
    }

    #[test]
    fn sparse_entries_are_read_in_any_order() {
        let sketch = sketch_of(seeded(0..300));
        let mut entries: Vec<u32> = seeded(0..300).map(|hash| encode_sparse(hash, 13, 25)).collect();
        entries.push(entries[7]);
        let mut bytes = vec![0xff, 0xff, 0xff, 0xfe, 13, 25, 1];
        write_varint(&mut bytes, entries.len() as u32);
        let mut before = 0u32;
        for entry in entries {
            write_varint(&mut bytes, entry.wrapping_sub(before));
            before = entry;
        }
        assert_eq!(HyperLogLog::decode(&bytes).unwrap().encode(), sketch.encode());
    }

    #[test]
    fn bytes_round_trip_and_damage_is_an_error() {
        for hashes in [0, 1, 100, 5000, 7000] {
            let bytes = sketch_of(seeded(0..hashes)).encode();
            assert_eq!(HyperLogLog::decode(&bytes).unwrap().encode(), bytes);
            for cut in (0..bytes.len()).step_by(1 + bytes.len() / 200) {
                assert!(HyperLogLog::decode(&bytes[..cut]).is_err(), "{hashes} hashes cut at {cut}");
            }
        }
        let mut rng = Rng::new(7);
        for _ in 0..20_000 {
            let mut bytes = vec![0; rng.index(40)];
            rng.fill(&mut bytes);
            let head = [0xff, 0xff, 0xff, 0xfe, 13, 25, rng.below(2) as u8];
            let keep = rng.index(head.len() + 1).min(bytes.len());
            bytes[..keep].copy_from_slice(&head[..keep]);
            if let Ok(sketch) = HyperLogLog::decode(&bytes) {
                sketch.cardinality();
                assert!(sketch.memory_bytes() <= 1 << 18);
            }
        }
    }
}
