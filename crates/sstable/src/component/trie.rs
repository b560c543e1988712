//! A node of a trie on disk, in Partitions.db and Rows.db.
//!
//! A node begins with four bits of type and four bits that describe the payload after the node. Each child is
//! stored as the transition byte that leads to it and the distance back to it: children are written before
//! their parents, so every step down leads towards the start of the file. No node crosses a page of 4096
//! bytes.
//!
//! ```text
//!  0  no children
//!  1  one: 4 bits distance in place of the payload bits, u8 byte          3  the same with 12 bits
//!  2  one: u8 byte, u8 distance                                           4  u16
//!  5  list: u8 n, n * u8 byte, n * u8 distance     6  12 bits    7  u16    8  u24    9  u40
//! 10  span: u8 first byte, u8 n - 1, n * 12 bits distance, 0 where no child is
//!                                                 11  u16       12  u24   13  u32   14  u40   15  u64
//! ```
//! Source: Cassandra's `BtiFormat.md`, `TrieNode`.

use crate::component::FormatError;

/// Length of a page in bytes. No node crosses the boundary of a page.
pub const PAGE_BYTES: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Leaf,
    /// One child. `byte_at` is the offset of the transition byte.
    One {
        byte_at: usize,
    },
    List {
        count: usize,
    },
    Span {
        first: u8,
        count: usize,
    },
}

/// A node in memory.
#[derive(Clone, Copy, Debug)]
pub struct TrieNode<'a> {
    /// Position in the file.
    position: u64,
    /// The bytes from the node's start to the end of its page.
    bytes: &'a [u8],
    shape: Shape,
    /// Offset of the distances.
    distances_at: usize,
    /// Bits of a distance: 4, 8, 12, 16, 24, 32, 40 or 64.
    distance_bits: usize,
    payload_at: usize,
}

impl<'a> TrieNode<'a> {
    /// Decodes the node at `position`. `bytes` extends to the end of its page, or of the file.
    pub fn decode(bytes: &'a [u8], position: u64) -> Result<Self, FormatError> {
        let cut = || {
            let found = format!("a page that ends after {} bytes", bytes.len());
            FormatError::new("node of a trie", 0, "a whole node", found).shifted(position)
        };
        let byte = |at: usize| bytes.get(at).copied().ok_or_else(cut);
        let kind = byte(0)? >> 4;
        let (shape, distances_at, distance_bits) = match kind {
            0 => (Shape::Leaf, 1, 0),
            1 => (Shape::One { byte_at: 1 }, 0, 4),
            2 => (Shape::One { byte_at: 1 }, 2, 8),
            3 => (Shape::One { byte_at: 2 }, 0, 12),
            4 => (Shape::One { byte_at: 1 }, 2, 16),
            5..=9 => {
                let count = usize::from(byte(1)?);
                (Shape::List { count }, 2 + count, [8, 12, 16, 24, 40][usize::from(kind) - 5])
            }
            _ => {
                let count = usize::from(byte(2)?) + 1;
                let bits = [12, 16, 24, 32, 40, 64][usize::from(kind) - 10];
                (Shape::Span { first: byte(1)?, count }, 3, bits)
            }
        };
        let payload_at = match shape {
            Shape::Leaf => 1,
            Shape::One { byte_at } if distances_at == 0 => byte_at + 1,
            Shape::One { .. } => distances_at + distance_bits / 8,
            Shape::List { count } | Shape::Span { count, .. } => {
                distances_at + (count * distance_bits).div_ceil(8)
            }
        };
        if payload_at > bytes.len() {
            return Err(cut());
        }
        if shape == (Shape::List { count: 0 }) {
            let error = FormatError::new("children of a node", 1, "at least 1", "0");
            return Err(error.shifted(position));
        }
        Ok(Self { position, bytes, shape, distances_at, distance_bits, payload_at })
    }

    /// The four bits that describe the payload; 0 if there is none.
    pub fn payload_bits(&self) -> u8 {
        // Nodes of two types store their distance in these bits.
        let has_none = matches!(self.shape, Shape::One { .. }) && self.distances_at == 0;
        if has_none { 0 } else { self.bytes[0] & 0x0f }
    }

    /// The bytes after the node. The payload's length follows from its bits.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.payload_at..]
    }

    /// Number of slots for children, in the order of their transition bytes.
    pub fn slots(&self) -> usize {
        match self.shape {
            Shape::Leaf => 0,
            Shape::One { .. } => 1,
            Shape::List { count } | Shape::Span { count, .. } => count,
        }
    }

    /// The slot of the child for `byte`, or else the first slot with a greater byte.
    pub fn search(&self, byte: u8) -> Result<usize, usize> {
        match self.shape {
            Shape::Leaf => Err(0),
            Shape::One { byte_at } => match self.bytes[byte_at].cmp(&byte) {
                std::cmp::Ordering::Less => Err(1),
                std::cmp::Ordering::Equal => Ok(0),
                std::cmp::Ordering::Greater => Err(0),
            },
            Shape::List { count } => self.bytes[2..2 + count].binary_search(&byte),
            Shape::Span { first, count } => match byte.checked_sub(first).map(usize::from) {
                None => Err(0),
                Some(slot) if slot >= count => Err(count),
                Some(slot) if self.distance(slot) == 0 => Err(slot),
                Some(slot) => Ok(slot),
            },
        }
    }

    /// Transition byte and position of the child in `slot`; `None` if the slot, which must exist, is empty.
    pub fn child(&self, slot: usize) -> Result<Option<(u8, u64)>, FormatError> {
        assert!(slot < self.slots(), "slot {slot} of {}", self.slots());
        let distance = self.distance(slot);
        let byte = match self.shape {
            Shape::Leaf => unreachable!("a leaf has no slots"),
            Shape::One { byte_at } => self.bytes[byte_at],
            Shape::List { .. } => self.bytes[2 + slot],
            // A span that extends beyond 255 has no children there.
            Shape::Span { first, .. } => match u8::try_from(usize::from(first) + slot) {
                Ok(byte) if distance != 0 => byte,
                _ => return Ok(None),
            },
        };
        match self.position.checked_sub(distance).filter(|_| distance > 0) {
            Some(child) => Ok(Some((byte, child))),
            None => {
                let expected = format!("1 to {}", self.position);
                let error = FormatError::new("distance to a node", 0, expected, distance.to_string());
                Err(error.shifted(self.position))
            }
        }
    }

    fn distance(&self, slot: usize) -> u64 {
        let at = self.distances_at;
        match self.distance_bits {
            4 => u64::from(self.bytes[0] & 0x0f),
            12 => {
                let at = at + slot * 3 / 2;
                let pair = u64::from(u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]));
                // A single 12-bit distance follows the bits of the type. In a list, the first of two
                // distances is the upper one.
                let is_upper = self.distances_at > 0 && slot.is_multiple_of(2);
                if is_upper { pair >> 4 } else { pair & 0x0fff }
            }
            bits => {
                let len = bits / 8;
                let bytes = &self.bytes[at + slot * len..at + (slot + 1) * len];
                bytes.iter().fold(0, |distance, byte| distance << 8 | u64::from(*byte))
            }
        }
    }
}

/// Decodes a signed big-endian number of `bytes.len()` bytes, 1 to 8, as in payloads.
pub(crate) fn sized_int(bytes: &[u8]) -> i64 {
    assert!((1..=8).contains(&bytes.len()), "1 to 8 bytes");
    let start = if bytes[0] & 0x80 != 0 { -1 } else { 0 };
    bytes.iter().fold(start, |value, byte| value << 8 | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes a node. `children` are its children in slot order as (byte, distance); `bits` describe
    /// `payload`.
    #[track_caller]
    fn check(bytes: &[u8], children: &[(u8, u64)], bits: u8, payload: &[u8]) {
        let node = TrieNode::decode(bytes, 0x10_0000).unwrap();
        let found: Vec<(u8, u64)> = (0..node.slots()).filter_map(|slot| node.child(slot).unwrap()).collect();
        let expect: Vec<(u8, u64)> = children.iter().map(|(byte, back)| (*byte, 0x10_0000 - back)).collect();
        assert_eq!(found, expect);
        assert_eq!((node.payload_bits(), node.payload()), (bits, payload));
        for byte in 0..=255 {
            let slot = node.search(byte);
            let known = children.iter().any(|(child, _)| *child == byte);
            assert_eq!(slot.is_ok(), known, "{byte:02x}");
            let from = match slot {
                Ok(slot) => slot,
                Err(slot) => slot,
            };
            let next = (from..node.slots()).find_map(|slot| node.child(slot).unwrap());
            assert_eq!(
                next.map(|(byte, _)| byte),
                children.iter().map(|(child, _)| *child).find(|c| *c >= byte)
            );
        }
        for cut in 0..bytes.len() - payload.len() {
            assert!(TrieNode::decode(&bytes[..cut], 0x10_0000).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn every_kind() {
        check(&[0x0b, 7, 8], &[], 11, &[7, 8]);
        check(&[0x1c, b'a'], &[(b'a', 12)], 0, &[]);
        check(&[0x25, b'a', 200, 9], &[(b'a', 200)], 5, &[9]);
        check(&[0x3f, 0xff, b'a'], &[(b'a', 0xfff)], 0, &[]);
        check(&[0x41, b'a', 1, 2], &[(b'a', 0x102)], 1, &[]);
        check(&[0x50, 2, 1, 5, 10, 20], &[(1, 10), (5, 20)], 0, &[]);
        check(
            &[0x61, 3, 1, 5, 9, 0x12, 0x34, 0x56, 0x78, 0x90],
            &[(1, 0x123), (5, 0x456), (9, 0x789)],
            1,
            &[],
        );
        check(&[0x70, 1, 5, 1, 2], &[(5, 0x102)], 0, &[]);
        check(&[0x80, 1, 5, 1, 2, 3], &[(5, 0x1_0203)], 0, &[]);
        check(&[0x90, 1, 5, 0, 0, 1, 2, 3], &[(5, 0x1_0203)], 0, &[]);
        check(&[0xa1, 250, 2, 0x12, 0x30, 0, 0x78, 0x90, 6], &[(250, 0x123), (252, 0x789)], 1, &[6]);
        check(&[0xb0, 250, 1, 1, 2, 3, 4], &[(250, 0x102), (251, 0x304)], 0, &[]);
        check(&[0xc0, 1, 1, 0, 1, 2, 0, 0, 4], &[(1, 0x102), (2, 4)], 0, &[]);
        check(&[0xd0, 1, 0, 0, 0, 1, 2], &[(1, 0x102)], 0, &[]);
        check(&[0xe0, 1, 0, 0, 0, 0, 1, 2], &[(1, 0x102)], 0, &[]);
        check(&[0xf0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2], &[(1, 0x102)], 0, &[]);
    }

    #[test]
    fn children_are_in_front_of_their_parents() {
        assert!(TrieNode::decode(&[0x50, 0], 9).is_err(), "a list of none");
        let node = TrieNode::decode(&[0x50, 2, 1, 2, 10, 0], 9).unwrap();
        assert!(node.child(0).is_err() && node.child(1).is_err());
        assert_eq!(sized_int(&[0xff]), -1);
        assert_eq!(sized_int(&[0x01, 0x00]), 256);
        assert_eq!(sized_int(&[0x80, 0, 0, 0, 0, 0, 0, 0]), i64::MIN);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..60), position: u64, byte: u8) {
            if let Ok(node) = TrieNode::decode(&bytes, position) {
                let _ = (node.payload_bits(), node.payload(), node.search(byte));
                for slot in 0..node.slots() {
                    let _ = node.child(slot);
                }
            }
        }
    }
}
