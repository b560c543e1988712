//! CRC.db: the CRC-32 of each chunk of an uncompressed Data.db, so that reads can verify their data.
//!
//! Layout: u32 chunk size, then one u32 for each chunk; the last chunk may be short. A compressed Data.db
//! stores the checksums with its chunks and has no CRC.db.

use base::bytes::Take;
use base::crc::{Crc32, crc32};

use crate::component::{FormatError, Named};

/// Bytes of a chunk in CRC.db that Messina writes: the length that a read of one row fetches, so that every
/// read is verified. Cassandra and ScyllaDB write 64 KiB, and read any length.
pub const CHUNK_BYTES_DEFAULT: u32 = 16 * 1024;

/// The checksums of a Data.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkCrcs {
    chunk_bytes: u32,
    crcs: Vec<u32>,
}

impl ChunkCrcs {
    /// Bytes of Data.db for each checksum; never 0.
    pub fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// The checksums, in file order.
    pub fn crcs(&self) -> &[u32] {
        &self.crcs
    }

    /// Whether `chunk`, the complete chunk `index` as read, has the stored checksum. `None` if there is no
    /// such chunk.
    pub fn matches(&self, index: usize, chunk: &[u8]) -> Option<bool> {
        self.crcs.get(index).map(|crc| *crc == crc32(chunk))
    }

    /// Bytes of heap memory in use.
    pub fn memory_bytes(&self) -> usize {
        self.crcs.capacity() * size_of::<u32>()
    }

    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let head = self.chunk_bytes.to_be_bytes().into_iter();
        head.chain(self.crcs.iter().flat_map(|crc| crc.to_be_bytes())).collect()
    }

    /// Decodes the file. `data_bytes` is the length of Data.db, from which the number of checksums follows.
    pub fn decode(bytes: &[u8], data_bytes: u64) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        let chunk_bytes = take.u32().named("chunk size")?;
        if chunk_bytes == 0 || chunk_bytes > i32::MAX as u32 {
            return Err(FormatError::new("chunk size", 0, "1 to 2147483647", chunk_bytes.to_string()));
        }
        let expected = data_bytes.div_ceil(u64::from(chunk_bytes));
        if take.remaining() as u64 != expected.saturating_mul(4) {
            return Err(FormatError::new(
                "checksums",
                take.offset(),
                format!("{expected} of 4 bytes for {data_bytes} bytes in chunks of {chunk_bytes}"),
                format!("{} bytes", take.remaining()),
            ));
        }
        let crcs = take.rest().chunks_exact(4);
        let crcs = crcs.map(|crc| u32::from_be_bytes(crc.try_into().expect("4 bytes"))).collect();
        Ok(Self { chunk_bytes, crcs })
    }
}

/// Computes the checksums from the bytes of Data.db, in parts of any length.
pub struct ChunkCrcsBuilder {
    chunk_bytes: u32,
    crcs: Vec<u32>,
    current: Crc32,
    current_bytes: u32,
}

impl ChunkCrcsBuilder {
    /// A builder of one checksum for each `chunk_bytes` bytes.
    pub fn new(chunk_bytes: u32) -> Self {
        assert!(chunk_bytes > 0, "a chunk has bytes");
        Self { chunk_bytes, crcs: vec![], current: Crc32::new(), current_bytes: 0 }
    }

    /// Adds the next bytes of Data.db.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (self.chunk_bytes - self.current_bytes) as usize;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.current.update(now);
            self.current_bytes += now.len() as u32;
            bytes = later;
            if self.current_bytes == self.chunk_bytes {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        self.crcs.push(self.current.value());
        self.current = Crc32::new();
        self.current_bytes = 0;
    }

    /// The checksums of all bytes added.
    pub fn finish(mut self) -> ChunkCrcs {
        if self.current_bytes > 0 {
            self.cut();
        }
        ChunkCrcs { chunk_bytes: self.chunk_bytes, crcs: self.crcs }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        let mut builder = ChunkCrcsBuilder::new(9);
        builder.update(b"12345678");
        builder.update(b"9123456789");
        builder.update(b"");
        let crcs = builder.finish();
        assert_eq!(crcs.encode()[..12], [0, 0, 0, 9, 0xcb, 0xf4, 0x39, 0x26, 0xcb, 0xf4, 0x39, 0x26]);
        assert_eq!(ChunkCrcs::decode(&crcs.encode(), 18), Ok(crcs.clone()));
        assert_eq!(crcs.matches(0, b"123456789"), Some(true));
        assert_eq!(crcs.matches(1, b"123456780"), Some(false));
        assert_eq!(crcs.matches(2, b""), None);
    }

    #[test]
    fn what_does_not_fit_the_data_is_an_error() {
        let bytes = [0, 0, 0, 9, 1, 2, 3, 4];
        assert!(ChunkCrcs::decode(&bytes, 9).is_ok());
        assert!(ChunkCrcs::decode(&bytes, 10).is_err());
        assert!(ChunkCrcs::decode(&bytes, 0).is_err());
        assert!(ChunkCrcs::decode(&[0; 8], 9).is_err(), "chunk size 0");
        for cut in 0..bytes.len() {
            assert!(ChunkCrcs::decode(&bytes[..cut], 9).is_err());
        }
    }

    proptest! {
        #[test]
        fn parts_do_not_matter(data: Vec<u8>, chunk_bytes in 1u32..40, part in 1usize..50) {
            let mut builder = ChunkCrcsBuilder::new(chunk_bytes);
            data.chunks(part).for_each(|part| builder.update(part));
            let crcs = builder.finish();
            for (index, chunk) in data.chunks(chunk_bytes as usize).enumerate() {
                prop_assert_eq!(crcs.matches(index, chunk), Some(true));
            }
            prop_assert_eq!(ChunkCrcs::decode(&crcs.encode(), data.len() as u64), Ok(crcs));
        }

        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>, data_bytes: u64) {
            let _ = ChunkCrcs::decode(&bytes, data_bytes);
        }
    }
}
