//! Partitions.db: a trie from partition keys to the positions of partitions. Its footer is at the end.
//!
//! ```text
//! nodes in pages | str16 smallest key, str16 largest key
//! u64 position of the keys, u64 count, u64 position of the root
//! ```
//! Of each key the trie has only the shortest prefix that no other key shares (`read::trie::byte_comparable`
//! converts keys to bytes). So a found key must be compared with the key at the position in the payload.
//!
//! If the payload's `bits` are 8 or more, the payload is the lowest byte of the key's second hash and a
//! number of `bits - 7` bytes; otherwise it is a number of `bits` bytes. A number that is not negative is a
//! position in Rows.db; the complement of a negative number is the partition's position in the data. Source:
//! Cassandra's `BtiFormat.md`, `PartitionIndex`.

use base::bytes::Take;

use crate::component::trie::sized_int;
use crate::component::{FormatError, Named};

const HAS_HASH: u8 = 8;

/// The position of the trie, and facts about its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionsFooter {
    /// Position of the root node.
    pub root: u64,
    /// Number of partitions; at least 1.
    pub key_count: u64,
    /// The smallest key by (token, key).
    pub first_key: Vec<u8>,
    /// The largest key by (token, key).
    pub last_key: Vec<u8>,
}

impl PartitionsFooter {
    /// Length in bytes of the three numbers at the end.
    pub const TAIL_BYTES: usize = 24;
    /// Upper bound of the footer's length in bytes, if there are no other bytes between the keys and the
    /// numbers.
    pub const SIZE_BYTES_MAX: usize = Self::TAIL_BYTES + 2 * (2 + u16::MAX as usize);

    /// Decodes the footer from `tail`, the last bytes of a file of `file_bytes` bytes:
    /// [`Self::SIZE_BYTES_MAX`] bytes, or the whole file.
    pub fn decode(tail: &[u8], file_bytes: u64) -> Result<Self, FormatError> {
        let tail_at = file_bytes - tail.len() as u64;
        let numbers_at = tail.len().checked_sub(Self::TAIL_BYTES).ok_or_else(|| {
            let expected = format!("at least {} bytes", Self::TAIL_BYTES);
            FormatError::new("file", 0, expected, format!("{file_bytes} bytes"))
        })?;
        let mut take = Take::new(tail);
        take.bytes(numbers_at).named("footer")?;
        let wrong = |what, at: usize, expected: String, found: u64| {
            FormatError::new(what, at, expected, found.to_string()).shifted(tail_at)
        };
        let at = take.offset();
        let keys_at = take.u64().named("position of the keys")?;
        let in_tail = keys_at.checked_sub(tail_at).filter(|from| *from <= numbers_at as u64);
        let Some(in_tail) = in_tail else {
            let expected = format!("{tail_at} to {}", tail_at + numbers_at as u64);
            return Err(wrong("position of the keys", at, expected, keys_at));
        };
        let at = take.offset();
        let key_count = take.u64().named("number of keys")?;
        // Every key has a node of at least three bytes, so there are fewer keys than bytes.
        if key_count == 0 || key_count > file_bytes {
            return Err(wrong("number of keys", at, format!("1 to {file_bytes}"), key_count));
        }
        let at = take.offset();
        let root = take.u64().named("position of the root")?;
        if root >= keys_at {
            return Err(wrong("position of the root", at, format!("below {keys_at}"), root));
        }
        let mut keys = Take::new(&tail[..numbers_at]);
        keys.bytes(in_tail as usize).named("keys")?;
        let shifted = |error: FormatError| error.shifted(tail_at);
        let first_key = keys.u16_bytes().named("first key").map_err(shifted)?.to_vec();
        let last_key = keys.u16_bytes().named("last key").map_err(shifted)?.to_vec();
        Ok(Self { root, key_count, first_key, last_key })
    }
}

/// Location of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionPlace {
    /// Position in the uncompressed data; the partition has no row index.
    Data(u64),
    /// Position of the partition's entry in Rows.db.
    Rows(u64),
}

/// The payload of a node: facts about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionPayload {
    /// The lowest byte of the key's second hash.
    pub hash: Option<u8>,
    /// Where the partition, or its entry in Rows.db, is.
    pub place: PartitionPlace,
}

impl PartitionPayload {
    /// The longest payload in bytes.
    pub const SIZE_BYTES_MAX: usize = 9;

    /// Decodes the payload that `bits`, which are not 0, describe. Errors carry offsets from the start of the
    /// payload.
    pub fn decode(bits: u8, bytes: &[u8]) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        let (hash, len) = match bits.checked_sub(HAS_HASH) {
            Some(over) => (Some(take.u8().named("hash of a key")?), over + 1),
            None => (None, bits),
        };
        let number = sized_int(take.bytes(usize::from(len)).named("place of a partition")?);
        let place = match u64::try_from(number) {
            Ok(position) => PartitionPlace::Rows(position),
            Err(_) => PartitionPlace::Data(!number as u64),
        };
        Ok(Self { hash, place })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn footer(keys_at: u64, count: u64, root: u64) -> Vec<u8> {
        let mut bytes = b"nodes\0\x01a\0\x02zz".to_vec();
        for number in [keys_at, count, root] {
            bytes.extend(number.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn golden_bytes() {
        let bytes = footer(5, 2, 4);
        let decode = |bytes: &[u8]| PartitionsFooter::decode(bytes, bytes.len() as u64);
        let expect =
            PartitionsFooter { root: 4, key_count: 2, first_key: b"a".to_vec(), last_key: b"zz".to_vec() };
        assert_eq!(decode(&bytes), Ok(expect.clone()));
        // Of a larger file only the end is passed.
        let large = footer(1005, 2, 1004);
        assert_eq!(PartitionsFooter::decode(&large, 1036), Ok(PartitionsFooter { root: 1004, ..expect }));
        for wrong in [footer(6, 2, 4), footer(100, 2, 4), footer(5, 0, 4), footer(5, 99, 4), footer(5, 2, 5)]
        {
            assert!(decode(&wrong).is_err(), "{wrong:?}");
        }
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn payloads() {
        let decode = |bits, bytes: &[u8]| PartitionPayload::decode(bits, bytes).unwrap();
        let rows = PartitionPayload { hash: Some(7), place: PartitionPlace::Rows(0x102) };
        assert_eq!(decode(9, &[7, 1, 2, 3]), rows);
        let data = PartitionPayload { hash: Some(7), place: PartitionPlace::Data(0) };
        assert_eq!(decode(8, &[7, 0xff]), data);
        assert_eq!(decode(1, &[0xfe]), PartitionPayload { hash: None, place: PartitionPlace::Data(1) });
        assert!(PartitionPayload::decode(15, &[0; 8]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>, before: u32, bits in 1u8..16) {
            let _ = PartitionsFooter::decode(&bytes, u64::from(before) + bytes.len() as u64);
            let _ = PartitionPayload::decode(bits, &bytes);
        }
    }
}
