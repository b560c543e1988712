//! v5's outer layer: envelopes travel in segments of at most 128 KiB with checksums of header and payload.
//!
//! ```text
//! plain   3 bytes  payload length (17 bits), self-contained (1 bit), padding
//! LZ4     5 bytes  compressed length (17), plain length (17; 0: not compressed), self-contained (1), padding
//! both    3 bytes  CRC-24 of the header
//!         n bytes  payload
//!         4 bytes  CRC-32 of the payload as it travels
//! ```
//!
//! All integers are little-endian. A self-contained segment contains whole envelopes; a larger envelope has
//! segments of its own. After a wrong checksum the rest of the stream cannot be decoded, and the connection
//! is closed. Source: the v5 specification's §2 and Cassandra's `Crc`.

use base::crc::Crc32;

use super::compression::compress_lz4;
use super::wire::protocol_error;
use crate::CqlError;

/// 2^17 - 1: the largest length that fits into 17 bits.
pub const PAYLOAD_BYTES_MAX: usize = (1 << 17) - 1;
pub(super) const TRAILER_BYTES: usize = 4;

const CRC24_INIT: u32 = 0x0087_5060;
const CRC24_POLYNOMIAL: u32 = 0x0197_4F0B;
/// Prefix of the CRC-32's input, so that a payload of zeros has a checksum other than zero.
const CRC32_PREFIX: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

const fn crc24_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

static CRC24_TABLE: [u32; 256] = crc24_table();

fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(CRC24_INIT, |crc, byte| {
        (crc << 8) & 0x00ff_ffff ^ CRC24_TABLE[((crc >> 16) as u8 ^ byte) as usize]
    })
}

fn payload_crc(payload: &[u8]) -> u32 {
    let mut crc = Crc32::new();
    crc.update(&CRC32_PREFIX);
    crc.update(payload);
    crc.value()
}

/// Bytes of the segment header, before the payload.
pub(super) fn header_bytes(lz4: bool) -> usize {
    if lz4 { 8 } else { 6 }
}

/// The fields of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// Length as transmitted (compressed, if `plain_bytes` is set).
    pub payload_bytes: usize,
    /// Uncompressed length; `None` if the payload is not compressed.
    pub plain_bytes: Option<usize>,
    pub self_contained: bool,
}

impl SegmentHeader {
    /// `bytes` must have the length [`header_bytes`].
    pub(super) fn decode(bytes: &[u8], lz4: bool) -> Result<Self, CqlError> {
        let (fields, crc) = bytes.split_at(bytes.len() - 3);
        let found = u32::from_le_bytes([crc[0], crc[1], crc[2], 0]);
        let computed = crc24(fields);
        if found != computed {
            return Err(protocol_error(format!(
                "a segment's header has checksum {found:06x}, its bytes have {computed:06x}"
            )));
        }
        let mut word = [0; 8];
        word[..fields.len()].copy_from_slice(fields);
        let word = u64::from_le_bytes(word);
        let first = word as usize & PAYLOAD_BYTES_MAX;
        if !lz4 {
            return Ok(Self { payload_bytes: first, plain_bytes: None, self_contained: word >> 17 & 1 == 1 });
        }
        let plain = (word >> 17) as usize & PAYLOAD_BYTES_MAX;
        let plain_bytes = (plain > 0).then_some(plain);
        Ok(Self { payload_bytes: first, plain_bytes, self_contained: word >> 34 & 1 == 1 })
    }

    fn encode(&self, lz4: bool, out: &mut [u8]) {
        let flag = u64::from(self.self_contained);
        let word = if lz4 {
            self.payload_bytes as u64 | (self.plain_bytes.unwrap_or(0) as u64) << 17 | flag << 34
        } else {
            self.payload_bytes as u64 | flag << 17
        };
        let fields_bytes = out.len() - 3;
        out[..fields_bytes].copy_from_slice(&word.to_le_bytes()[..fields_bytes]);
        let crc = crc24(&out[..fields_bytes]).to_le_bytes();
        out[fields_bytes..].copy_from_slice(&crc[..3]);
    }
}

/// Checks that `trailer` is the payload's checksum.
pub(super) fn check_payload(payload: &[u8], trailer: [u8; TRAILER_BYTES]) -> Result<(), CqlError> {
    let (found, computed) = (u32::from_le_bytes(trailer), payload_crc(payload));
    if found != computed {
        return Err(protocol_error(format!(
            "a segment's payload has checksum {found:08x}, its bytes have {computed:08x}"
        )));
    }
    Ok(())
}

/// Appends placeholder bytes for a header and returns their offset. The caller appends the payload and then
/// calls [`close`].
pub(super) fn open(out: &mut Vec<u8>, lz4: bool) -> usize {
    let start = out.len();
    out.resize(start + header_bytes(lz4), 0);
    start
}

/// Completes a segment from the bytes appended since [`open`] returned `start`: at most [`PAYLOAD_BYTES_MAX`]
/// bytes. With LZ4 the payload is compressed if this makes it smaller; `scratch` is overwritten.
pub(super) fn close(out: &mut Vec<u8>, start: usize, self_contained: bool, lz4: bool, scratch: &mut Vec<u8>) {
    let at = start + header_bytes(lz4);
    let plain_bytes = out.len() - at;
    assert!(plain_bytes <= PAYLOAD_BYTES_MAX, "a segment of {plain_bytes} bytes");
    let mut header = SegmentHeader { payload_bytes: plain_bytes, plain_bytes: None, self_contained };
    if lz4 {
        scratch.clear();
        compress_lz4(&out[at..], scratch);
        if scratch.len() < plain_bytes {
            out.truncate(at);
            out.extend_from_slice(scratch);
            header.payload_bytes = scratch.len();
            header.plain_bytes = Some(plain_bytes);
        }
    }
    header.encode(lz4, &mut out[start..at]);
    let crc = payload_crc(&out[at..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected bytes were made by the framing code of the Python driver 3.29.2 (`cassandra.segment`).
    #[test]
    fn headers_and_checksums_are_those_of_a_driver() {
        let cases: [(SegmentHeader, bool, &[u8]); 5] = [
            (header(50, None, true), false, &[0x32, 0, 2, 0xa5, 0xff, 0xee]),
            (header(0, None, true), false, &[0, 0, 2, 0x6a, 0x36, 0xc4]),
            (header(131_071, None, false), false, &[0xff, 0xff, 1, 0x38, 0x91, 0xfe]),
            (header(17, Some(50), true), true, &[0x11, 0, 0x64, 0, 4, 0x10, 0x0d, 0xf6]),
            (header(17, Some(50), false), true, &[0x11, 0, 0x64, 0, 0, 0x21, 0xe0, 0x12]),
        ];
        for (header, lz4, expect) in cases {
            let mut bytes = vec![0; header_bytes(lz4)];
            header.encode(lz4, &mut bytes);
            assert_eq!(bytes, expect);
            assert_eq!(SegmentHeader::decode(&bytes, lz4).unwrap(), header);
        }
        assert_eq!(payload_crc(b""), 0x4477_7ed3);
        assert_eq!(payload_crc(b"123456789"), 0xe2a2_61a7);
    }

    fn header(payload_bytes: usize, plain_bytes: Option<usize>, self_contained: bool) -> SegmentHeader {
        SegmentHeader { payload_bytes, plain_bytes, self_contained }
    }
}
