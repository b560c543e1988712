//! A byte buffer that grows at its end and is consumed from its front, in memory that is zeroed once and then
//! reused. A scan decodes a whole file through a window of some tens of kilobytes and overwrites all added
//! bytes at once, so zeroing them for each addition would be wasted.

use std::ops::Deref;

/// See the head of this file. Dereferences to the bytes that were added and not dropped.
#[derive(Default)]
pub(in crate::read) struct Room {
    /// Memory from `len_bytes` on has unspecified content.
    memory: Vec<u8>,
    len_bytes: usize,
}

impl Room {
    pub(in crate::read) fn clear(&mut self) {
        self.len_bytes = 0;
    }

    /// Appends `bytes` bytes, which the caller writes. Their content is unspecified until then.
    pub(in crate::read) fn add(&mut self, bytes: usize) -> &mut [u8] {
        let from = self.len_bytes;
        self.len_bytes += bytes;
        if self.memory.len() < self.len_bytes {
            self.memory.resize(self.len_bytes, 0);
        }
        &mut self.memory[from..self.len_bytes]
    }

    pub(in crate::read) fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.add(bytes.len()).copy_from_slice(bytes);
    }

    /// Drops the first `bytes`.
    pub(in crate::read) fn drop_front(&mut self, bytes: usize) {
        self.memory.copy_within(bytes..self.len_bytes, 0);
        self.len_bytes -= bytes;
    }
}

impl Deref for Room {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.len_bytes]
    }
}

impl From<&[u8]> for Room {
    fn from(bytes: &[u8]) -> Self {
        Self { memory: bytes.to_vec(), len_bytes: bytes.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_what_was_added_and_not_dropped() {
        let mut room = Room::default();
        room.extend_from_slice(b"abcdef");
        room.drop_front(4);
        assert_eq!(&*room, b"ef");
        room.add(2).copy_from_slice(b"gh");
        assert_eq!(&*room, b"efgh");
        room.extend_from_slice(b"0123456789");
        assert_eq!(&*room, b"efgh0123456789");
        room.drop_front(14);
        assert!(room.is_empty());
        room.extend_from_slice(b"x");
        room.clear();
        assert!(room.is_empty());
        assert_eq!(&*Room::from(&b"abc"[..]), b"abc");
    }
}
