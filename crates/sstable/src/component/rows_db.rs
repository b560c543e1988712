//! Rows.db: for each large partition a trie from clusterings to blocks of rows, and an entry with the
//! position of the trie's root.
//!
//! ```text
//! entry   := str16 key, vint position in the data, signed vint (root - position after the key), vint blocks,
//!            deletion time
//! payload := the block's distance from the partition's start in `bits & 7` bytes,
//!            [the deletion open at its start] if `bits & 8`
//! ```
//! The keys of the trie separate the blocks: each is greater than the last row of the block before and at
//! most the first row of its own block; the key of the first block is empty. One more key after the last row
//! has the distance of the partition's end byte. Source: Cassandra's `BtiFormat.md`, `RowIndexReader`,
//! `TrieIndexEntry`.

use base::bytes::Take;
use base::vint;

use crate::component::deletion_time::DeletionTime;
use crate::component::trie::sized_int;
use crate::component::{FormatError, Named};
use crate::version::Version;

const HAS_OPEN_DELETION: u8 = 8;

/// The row index of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsEntry<'a> {
    /// The serialized partition key.
    pub key: &'a [u8],
    /// Start of the partition in the uncompressed data.
    pub data_position: u64,
    /// Position of the trie's root in Rows.db.
    pub root: u64,
    /// Number of blocks; at least 2.
    pub block_count: u64,
    /// The partition's deletion.
    pub deletion: DeletionTime,
}

impl<'a> RowsEntry<'a> {
    /// The longest entry in bytes.
    pub const SIZE_BYTES_MAX: usize =
        2 + u16::MAX as usize + 3 * vint::MAX_BYTES + DeletionTime::SIZE_BYTES_MAX;

    /// Decodes the entry at `position` of Rows.db. `bytes` starts with the entry.
    pub fn decode(bytes: &'a [u8], position: u64, version: Version) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        Self::take(&mut take, position, version).map_err(|error| error.shifted(position))
    }

    fn take(take: &mut Take<'a>, position: u64, version: Version) -> Result<Self, FormatError> {
        let key = take.u16_bytes().named("partition key")?;
        let base = position + take.offset() as u64;
        let at = take.offset();
        let data_position = take.vint().named("position in Data.db")?;
        if data_position > i64::MAX as u64 {
            return Err(FormatError::new("position in Data.db", at, "below 2^63", data_position.to_string()));
        }
        let at = take.offset();
        let distance = take.vint_signed().named("distance to the root")?;
        // Nodes are written before the entry that refers to their root.
        let root = base.checked_add_signed(distance).filter(|root| *root < position).ok_or_else(|| {
            let expected = format!("a node before byte {position}");
            FormatError::new("distance to the root", at, expected, distance.to_string())
        })?;
        let at = take.offset();
        let block_count = take.vint().named("number of blocks")?;
        // A block takes at least two bytes of the nodes before the entry.
        if !(2..=position).contains(&block_count) {
            let expected = format!("2 to {position}");
            return Err(FormatError::new("number of blocks", at, expected, block_count.to_string()));
        }
        let deletion = DeletionTime::decode(take, version, "partition deletion")?;
        Ok(Self { key, data_position, root, block_count, deletion })
    }
}

/// The payload of a node: facts about a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsPayload {
    /// Distance in bytes from the partition's start to the block.
    pub offset: u64,
    /// The range deletion in force at the block's start.
    pub open: DeletionTime,
}

impl RowsPayload {
    /// The longest payload in bytes.
    pub const SIZE_BYTES_MAX: usize = 7 + DeletionTime::SIZE_BYTES_MAX;

    /// Decodes the payload that `bits`, which are not 0, describe. Errors carry offsets from the start of the
    /// payload.
    pub fn decode(bits: u8, bytes: &[u8], version: Version) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        let what = "offset of a block";
        let len = usize::from(bits & !HAS_OPEN_DELETION);
        if len == 0 {
            return Err(FormatError::new(what, 0, "1 to 7 bytes", "0"));
        }
        let offset = sized_int(take.bytes(len).named(what)?);
        let offset = u64::try_from(offset)
            .map_err(|_| FormatError::new(what, 0, "not below 0", offset.to_string()))?;
        let open = match bits & HAS_OPEN_DELETION {
            0 => DeletionTime::LIVE,
            _ => DeletionTime::decode(&mut take, version, "open deletion")?,
        };
        Ok(Self { offset, open })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        let bytes = [0, 1, b'k', 100, 0x81, 0x93, 3, 0x80];
        let entry = RowsEntry {
            key: b"k",
            data_position: 100,
            root: 1003 - 202,
            block_count: 3,
            deletion: DeletionTime::LIVE,
        };
        assert_eq!(RowsEntry::decode(&bytes, 1000, Version::Da), Ok(entry));
        for cut in 0..bytes.len() {
            assert!(RowsEntry::decode(&bytes[..cut], 1000, Version::Da).is_err(), "cut at {cut}");
        }
        assert!(RowsEntry::decode(&bytes, 100, Version::Da).is_err(), "the root is in front of the file");
        assert!(
            RowsEntry::decode(&[0, 0, 1, 2, 3, 0x80], 1000, Version::Da).is_err(),
            "and behind the entry"
        );
        assert!(RowsEntry::decode(&[0, 0, 1, 1, 1, 0x80], 1000, Version::Da).is_err(), "one block");
    }

    #[test]
    fn payloads() {
        let decode = |bits, bytes: &[u8]| RowsPayload::decode(bits, bytes, Version::Da);
        assert_eq!(decode(2, &[1, 2]), Ok(RowsPayload { offset: 0x102, open: DeletionTime::LIVE }));
        let open = DeletionTime { marked_for_delete_at_us: 5, local_deletion_time_s: 6 };
        let bytes = [7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6];
        assert_eq!(decode(9, &bytes), Ok(RowsPayload { offset: 7, open }));
        assert!(decode(9, &bytes[..12]).is_err());
        assert!(decode(8, &bytes).is_err() && decode(1, &[0x80]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>, position in 0..u64::MAX / 2, bits in 1u8..16) {
            let _ = RowsEntry::decode(&bytes, position, Version::Da);
            let _ = RowsPayload::decode(bits, &bytes, Version::Da);
        }
    }
}
