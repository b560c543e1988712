//! Trains compression dictionaries: bytes that the chunks of a table have in common, stored once for all
//! chunks.
//!
//! zstd's trainer (COVER, by Liao, Petri, Moffat and Wirth) selects the segments that occur in most samples.
//! LZ4 has no entropy tables and uses the same bytes as history to refer back to. A dictionary is trained
//! from the first [`SAMPLE_BYTES_MAX`] bytes of an SSTable, and used only if it saves more than its own
//! length; see [`train`].

use model::{Codec, Compression};

use super::Compressor;

/// Maximum number of bytes from which a dictionary is trained.
pub const SAMPLE_BYTES_MAX: usize = 1 << 20;
/// Minimum number of bytes for a training. With fewer, the compressor without a dictionary does as well.
const SAMPLE_BYTES_MIN: usize = 128 * 1024;
/// Length in bytes of a sample for the trainer.
const SAMPLE_BYTES: usize = 1024;
/// The longest dictionary in bytes that is written. A longer one saves little more and slows down the
/// compression of each chunk.
const DICTIONARY_BYTES_MAX: usize = 32 * 1024;
/// A dictionary has at most this fraction (one part in 16) of the bytes from which it is trained.
const SHARE: usize = 16;

/// A dictionary for `sample`, the beginning of the data. `None` if the codec has no dictionaries, or if a
/// dictionary saves less than its own length on the sample.
pub fn train(compression: &Compression, sample: &[u8]) -> Option<Vec<u8>> {
    if !compression.dictionary || !has_dictionaries(compression.codec) || sample.len() < SAMPLE_BYTES_MIN {
        return None;
    }
    let mut dictionary = Vec::with_capacity((sample.len() / SHARE).min(DICTIONARY_BYTES_MAX));
    let sizes: Vec<usize> = sample.chunks(SAMPLE_BYTES).map(<[u8]>::len).collect();
    zstd_safe::train_from_buffer(&mut dictionary, sample, &sizes).ok()?;
    let plain = stored_bytes(compression, None, sample);
    let with = stored_bytes(compression, Some(&dictionary), sample);
    (with + dictionary.len() < plain).then_some(dictionary)
}

fn stored_bytes(compression: &Compression, dictionary: Option<&[u8]>, sample: &[u8]) -> usize {
    let mut compressor = Compressor::new(compression.codec, dictionary);
    let chunk_bytes = compression.chunk_bytes as usize;
    let mut out = vec![0; compressor.bound(chunk_bytes)];
    sample.chunks(chunk_bytes).map(|chunk| compressor.compress(chunk, &mut out)).sum()
}

fn has_dictionaries(codec: Codec) -> bool {
    matches!(codec, Codec::Lz4 | Codec::Lz4High { .. } | Codec::Zstd { .. })
}
