//! Digest.crc32: the CRC-32 of the whole stored Data.db, as decimal digits without a line feed.

use crate::component::FormatError;

/// Encodes the file.
pub fn encode(crc: u32) -> Vec<u8> {
    crc.to_string().into_bytes()
}

/// Decodes the file. White space after the number (an editor's line feed) is ignored.
pub fn decode(bytes: &[u8]) -> Result<u32, FormatError> {
    let digits = bytes.trim_ascii_end();
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let shown = &digits[..digits.len().min(20)];
        FormatError::new(
            "digest",
            0,
            "a number below 2^32 in decimal",
            format!("{:?}", shown.escape_ascii().to_string()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_digits_and_nothing_else() {
        assert_eq!(encode(0xffff_ffff), b"4294967295");
        for crc in [0, 1, 77, u32::MAX] {
            assert_eq!(decode(&encode(crc)), Ok(crc));
        }
        assert_eq!(decode(b"12\n"), Ok(12));
        for wrong in [&b""[..], b"4294967296", b"+1", b"-1", b"0x12", b"1 2", b"\xff", &[b'9'; 1000]] {
            assert!(decode(wrong).is_err(), "{wrong:?}");
        }
    }
}
