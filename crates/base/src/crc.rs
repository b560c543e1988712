//! CRC-32 (the zlib polynomial), the checksum of all file formats of this project.

/// CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// CRC-32 of consecutive parts; equal to [`crc32`] of their concatenation.
#[derive(Clone, Default)]
pub struct Crc32(crc32fast::Hasher);

impl Crc32 {
    /// The state before the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next part.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum so far; more parts may be added afterwards.
    pub fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_whole_agree_and_match_the_standard_check_value() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let mut crc = Crc32::new();
        crc.update(b"1234");
        assert_eq!(crc.value(), crc32(b"1234"));
        crc.update(b"56789");
        assert_eq!(crc.value(), 0xcbf4_3926);
    }
}
