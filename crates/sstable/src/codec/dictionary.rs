//! Dictionaries: what the chunks of a table have in common, said once for all of them.
//!
//! zstd's trainer (COVER, by Liao, Petri, Moffat and Wirth) picks the segments that occur in most samples. For LZ4,
//! which has no entropy tables, the same bytes are text to look back into. A dictionary is trained from the first
//! [`SAMPLE_BYTES_MAX`] of an SSTable and kept only if it saves more than it costs; see [`train`].

use model::{Codec, Compression};

use super::Compressor;

/// So much of an SSTable is looked at.
pub const SAMPLE_BYTES_MAX: usize = 1 << 20;
/// From less, no dictionary is made: the plain compressor does as well.
const SAMPLE_BYTES_MIN: usize = 128 * 1024;
/// What the trainer compares with one another.
const SAMPLE_BYTES: usize = 1024;
/// The longest dictionary that is written. More saves little more, and each chunk's compression pays for it.
const DICTIONARY_BYTES_MAX: usize = 32 * 1024;
/// A dictionary is at most this part of what it is trained from.
const SHARE: usize = 16;

/// A dictionary for `sample`, the beginning of the data; `None` if compressing with one would not save the
/// dictionary's own length over the sample, or the codec has none.
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
