//! LZ4 and Snappy compression of bodies: v3 and v4 compress each body, v5 compresses whole segments
//! (`segment.rs`).
//!
//! An LZ4 body begins with its uncompressed length (four bytes, big-endian); a Snappy body contains its own.
//! An uncompressed length is accepted only if it is within the limit and the compressed bytes can expand to
//! that size.

use super::wire::protocol_error;
use crate::CqlError;

/// Compression algorithms that a client can request in STARTUP's COMPRESSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// LZ4; v3 and v4 with the uncompressed length before it.
    Lz4,
    /// Snappy; not in v5.
    Snappy,
}

/// The largest expansion of an LZ4 block: one byte adds up to 255 to the length of a match.
const LZ4_RATIO_MAX: usize = 255;
/// The largest expansion of a Snappy body: a copy of up to 64 bytes takes two to three bytes.
const SNAPPY_RATIO_MAX: usize = 32;
/// Allowance for the bytes of a compressed body that are not part of a long match.
const RATIO_SLACK_BYTES: usize = 64;

impl Compression {
    /// Ignores case.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Lz4, Self::Snappy].into_iter().find(|known| known.name().eq_ignore_ascii_case(name))
    }

    /// The name in STARTUP's option COMPRESSION and in SUPPORTED.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
        }
    }

    /// Decompresses `body` into `plain`, replacing its contents.
    ///
    /// # Errors
    /// [`CqlError::Protocol`]: the plain body has more than `bytes_max` bytes, or `body` is not valid
    /// compressed data. The contents of `plain` are then unspecified.
    pub fn decompress(self, body: &[u8], plain: &mut Vec<u8>, bytes_max: usize) -> Result<(), CqlError> {
        match self {
            Self::Lz4 => {
                let Some((len, block)) = body.split_first_chunk() else {
                    return Err(protocol_error("an LZ4 body has at least four bytes".into()));
                };
                decompress_lz4(block, u32::from_be_bytes(*len) as usize, plain, bytes_max)
            }
            Self::Snappy => {
                let invalid = |error| protocol_error(format!("invalid Snappy body: {error}"));
                let len = snap::raw::decompress_len(body).map_err(invalid)?;
                check_len(len, body.len(), SNAPPY_RATIO_MAX, bytes_max)?;
                plain.resize(len, 0);
                let written = snap::raw::Decoder::new().decompress(body, plain).map_err(invalid)?;
                plain.truncate(written);
                Ok(())
            }
        }
    }

    /// Appends the compressed form of `plain`.
    pub fn compress(self, plain: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Lz4 => {
                out.extend_from_slice(&(plain.len() as u32).to_be_bytes());
                compress_lz4(plain, out);
            }
            Self::Snappy => {
                let at = out.len();
                out.resize(at + snap::raw::max_compress_len(plain.len()), 0);
                let written = snap::raw::Encoder::new().compress(plain, &mut out[at..]);
                out.truncate(
                    at + written.expect("the output has the room that was asked for, the input < 4 GiB"),
                );
            }
        }
    }
}

/// Decompresses an LZ4 block without a length prefix into `plain`, replacing its contents. `len` is the plain
/// length in bytes.
pub(super) fn decompress_lz4(
    block: &[u8],
    len: usize,
    plain: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<(), CqlError> {
    check_len(len, block.len(), LZ4_RATIO_MAX, bytes_max)?;
    plain.resize(len, 0);
    if len == 0 {
        return Ok(());
    }
    let written = lz4_flex::block::decompress_into(block, plain)
        .map_err(|error| protocol_error(format!("invalid LZ4 block: {error}")))?;
    if written != len {
        return Err(protocol_error(format!("an LZ4 block of {written} bytes where {len} were announced")));
    }
    Ok(())
}

/// Appends an LZ4 block without a length prefix.
pub(super) fn compress_lz4(plain: &[u8], out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + lz4_flex::block::get_maximum_output_size(plain.len()), 0);
    let written = lz4_flex::block::compress_into(plain, &mut out[at..]);
    out.truncate(at + written.expect("the output has the room that was asked for"));
}

fn check_len(len: usize, compressed: usize, ratio_max: usize, bytes_max: usize) -> Result<(), CqlError> {
    if len > bytes_max {
        return Err(protocol_error(format!(
            "a compressed body of {len} bytes; at most {bytes_max} are taken (native_transport_max_frame_size)"
        )));
    }
    if len > compressed.saturating_mul(ratio_max) + RATIO_SLACK_BYTES {
        return Err(protocol_error(format!("{compressed} compressed bytes cannot become {len}")));
    }
    Ok(())
}
