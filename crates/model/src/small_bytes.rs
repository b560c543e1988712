//! Byte strings that are usually short: up to 22 bytes are stored inline, longer strings are shared.
//!
//! Keys, clustering values and most cell values are short, so a row is one allocation and not one per value.
//! Cloning a long string copies a pointer, so a read does not copy values of the memtable.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Immutable bytes in a value of 24 bytes: a short string inline, or a shared string on the heap.
#[derive(Clone)]
pub struct SmallBytes(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; SmallBytes::INLINE_BYTES] },
    Shared(Arc<[u8]>),
}

const _: () = assert!(size_of::<SmallBytes>() == 24);

impl SmallBytes {
    /// The longest string that is stored inline.
    pub const INLINE_BYTES: usize = 22;

    /// The empty byte string. Allocates nothing.
    pub const fn new() -> Self {
        Self(Repr::Inline { len: 0, bytes: [0; Self::INLINE_BYTES] })
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Shared(bytes) => bytes,
        }
    }

    /// Heap memory in bytes that this value keeps alive: the string and its two reference counts, rounded up
    /// to the size of the allocation request; 0 for an inline string. Each of several values that share a
    /// string counts it.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Inline { .. } => 0,
            Repr::Shared(bytes) => {
                (bytes.len() + 2 * size_of::<usize>()).next_multiple_of(align_of::<usize>())
            }
        }
    }
}

impl Default for SmallBytes {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&[u8]> for SmallBytes {
    #[inline]
    fn from(from: &[u8]) -> Self {
        if from.len() <= Self::INLINE_BYTES {
            let mut bytes = [0; Self::INLINE_BYTES];
            bytes[..from.len()].copy_from_slice(from);
            Self(Repr::Inline { len: from.len() as u8, bytes })
        } else {
            Self(Repr::Shared(Arc::from(from)))
        }
    }
}

impl<const N: usize> From<[u8; N]> for SmallBytes {
    fn from(from: [u8; N]) -> Self {
        Self::from(&from[..])
    }
}

impl From<Vec<u8>> for SmallBytes {
    fn from(from: Vec<u8>) -> Self {
        Self::from(from.as_slice())
    }
}

impl From<&str> for SmallBytes {
    fn from(from: &str) -> Self {
        Self::from(from.as_bytes())
    }
}

impl Deref for SmallBytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Borrow<[u8]> for SmallBytes {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for SmallBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SmallBytes {}

impl PartialOrd for SmallBytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SmallBytes {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for SmallBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for SmallBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_behave_alike() {
        for len in [0, 1, 21, 22, 23, 24, 1000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let small = SmallBytes::from(bytes.as_slice());
            assert_eq!(small.as_slice(), bytes);
            assert_eq!(small.clone(), small);
            assert_eq!(small.heap_bytes() > 0, len > SmallBytes::INLINE_BYTES);
        }
        assert!(SmallBytes::from("abc") < SmallBytes::from("abcdefghijklmnopqrstuvwxyz"));
    }
}
