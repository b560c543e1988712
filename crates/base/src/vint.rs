//! Variable-length integers (vints) of SSTables and of version 5 of the native protocol.
//!
//! The number of leading 1 bits of the first byte is the number of bytes that follow (0 to 8). The remaining
//! bits, big-endian, are the value. The shortest encoding is written; any encoding is read. Source:
//! Cassandra's `utils/vint/VIntCoding.java`.

/// Length of the longest encoding, in bytes.
pub const MAX_BYTES: usize = 9;

/// The number of bytes that [`write_unsigned`] appends.
#[inline]
pub fn unsigned_len(value: u64) -> usize {
    // Each byte has 7 bits of payload, until 8 extra bytes contain all 64.
    let bits = 64 - (value | 1).leading_zeros() as usize;
    if bits > 56 { 9 } else { bits.div_ceil(7) }
}

/// Appends the unsigned vint of `value`: 1 to 9 bytes.
#[inline]
pub fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let (bytes, len) = encode_unsigned(value);
    out.extend_from_slice(&bytes[..len]);
}

/// The encoding in a fixed buffer, and its length in bytes.
#[inline]
pub fn encode_unsigned(value: u64) -> ([u8; MAX_BYTES], usize) {
    let len = unsigned_len(value);
    let mut out = [0u8; MAX_BYTES];
    if len == 9 {
        out[0] = 0xff;
        out[1..].copy_from_slice(&value.to_be_bytes());
        return (out, 9);
    }
    let shifted = value << (8 * (8 - len));
    out[..8].copy_from_slice(&shifted.to_be_bytes());
    let extra = len - 1;
    if extra > 0 {
        out[0] |= !(0xffu8 >> extra);
    }
    (out, len)
}

/// Appends the vint of `value` in zigzag encoding: 1 to 9 bytes.
#[inline]
pub fn write_signed(out: &mut Vec<u8>, value: i64) {
    write_unsigned(out, zigzag(value));
}

/// The number of bytes that [`write_signed`] appends.
#[inline]
pub fn signed_len(value: i64) -> usize {
    unsigned_len(zigzag(value))
}

/// Maps signed to unsigned integers such that a small magnitude gives a small value: 0, -1, 1, -2 become 0,
/// 1, 2, 3.
#[inline]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// Reads one unsigned vint from the start of `bytes`. Returns the value and the length of its encoding;
/// `None` if `bytes` is too short, which is the only possible error.
#[inline]
pub fn read_unsigned(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    let extra = first.leading_ones() as usize;
    let rest = bytes.get(1..1 + extra)?;
    let head = if extra >= 7 { 0 } else { u64::from(first & (0xff >> (extra + 1))) };
    let value = rest.iter().fold(head, |value, byte| (value << 8) | u64::from(*byte));
    Some((value, 1 + extra))
}

/// As [`read_unsigned`], followed by zigzag decoding.
#[inline]
pub fn read_signed(bytes: &[u8]) -> Option<(i64, usize)> {
    read_unsigned(bytes).map(|(value, len)| (unzigzag(value), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_round_trips() {
        let mut samples = vec![0u64, 1, 127, 128, 129, 16383, 16384, u64::MAX, u64::MAX - 1];
        for shift in 0..64 {
            samples.extend([1 << shift, (1u64 << shift).wrapping_sub(1), (1 << shift) + 1]);
        }
        for value in samples {
            let mut out = vec![];
            write_unsigned(&mut out, value);
            assert_eq!(out.len(), unsigned_len(value), "{value}");
            assert_eq!(read_unsigned(&out), Some((value, out.len())), "{value} as {out:02x?}");
            for cut in 0..out.len() {
                assert_eq!(read_unsigned(&out[..cut]), None);
            }
            let signed = value as i64;
            let mut out = vec![];
            write_signed(&mut out, signed);
            assert_eq!(read_signed(&out), Some((signed, out.len())));
        }
    }

    #[test]
    fn known_encodings() {
        let check = |value: u64, expect: &[u8]| {
            let mut out = vec![];
            write_unsigned(&mut out, value);
            assert_eq!(out, expect, "{value}");
        };
        check(0x7f, &[0x7f]);
        check(0x80, &[0x80, 0x80]);
        check(256, &[0x81, 0x00]);
        check(0x3fff, &[0xbf, 0xff]);
        check(0x4000, &[0xc0, 0x40, 0x00]);
        check(u64::MAX, &[0xff; 9]);
        assert_eq!(zigzag(-1), 1);
    }
}
