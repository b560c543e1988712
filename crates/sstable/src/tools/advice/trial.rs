//! Compresses and decompresses blocks of data with one codec in chunks of one length.

use model::Codec;

use crate::codec::{Compressor, Decompressor, Method, class_and_options};

/// What one setting did with the sample.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub codec: Codec,
    pub chunk_bytes: u32,
    pub chunks: u64,
    pub data_bytes: u64,
    pub stored_bytes: u64,
    /// CPU time of all chunks.
    pub compress_s: f64,
    pub decompress_s: f64,
}

impl Trial {
    /// Stored bytes for each byte of data; checksums are not counted.
    pub fn ratio(&self) -> f64 {
        self.stored_bytes as f64 / self.data_bytes.max(1) as f64
    }

    pub fn stored_bytes_per_chunk(&self) -> f64 {
        self.ratio() * f64::from(self.chunk_bytes)
    }

    pub fn compress_us_per_byte(&self) -> f64 {
        self.compress_s * 1e6 / self.data_bytes.max(1) as f64
    }

    pub fn decompress_us_per_byte(&self) -> f64 {
        self.decompress_s * 1e6 / self.data_bytes.max(1) as f64
    }

    pub fn decompress_us_per_chunk(&self) -> f64 {
        self.decompress_us_per_byte() * f64::from(self.chunk_bytes)
    }
}

/// Tries a setting on blocks. `clock_s` is the CPU time of the thread, in seconds. Fails if what was
/// compressed is not decompressed to the same bytes.
pub fn measure(
    blocks: &[Vec<u8>],
    codec: Codec,
    chunk_bytes: u32,
    mut clock_s: impl FnMut() -> f64,
) -> Result<Trial, String> {
    let mut compressor = Compressor::new(codec, None);
    let (class, _) = class_and_options(codec, false);
    let (method, _) = Method::named(class).expect("a class of this program");
    let decompressor = Decompressor::new(method);
    let mut trial = Trial {
        codec,
        chunk_bytes,
        chunks: 0,
        data_bytes: 0,
        stored_bytes: 0,
        compress_s: 0.0,
        decompress_s: 0.0,
    };
    let mut out = vec![0; compressor.bound(chunk_bytes as usize)];
    let mut back = vec![0; chunk_bytes as usize];
    for block in blocks {
        let mut payloads = vec![];
        let began_s = clock_s();
        for chunk in block.chunks(chunk_bytes as usize) {
            let stored = compressor.compress(chunk, &mut out);
            payloads.push(out[..stored].to_vec());
        }
        let compressed_s = clock_s();
        let mut is_same = true;
        for (chunk, payload) in block.chunks(chunk_bytes as usize).zip(&payloads) {
            let back = &mut back[..chunk.len()];
            decompressor.decompress(payload, back)?;
            is_same &= back[0] == chunk[0] && back[chunk.len() - 1] == chunk[chunk.len() - 1];
        }
        trial.compress_s += compressed_s - began_s;
        trial.decompress_s += clock_s() - compressed_s;
        if !is_same {
            return Err(format!("{codec:?} did not give back what it had compressed"));
        }
        trial.chunks += payloads.len() as u64;
        trial.data_bytes += block.len() as u64;
        trial.stored_bytes += payloads.iter().map(|payload| payload.len() as u64).sum::<u64>();
    }
    Ok(trial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::advice::{CHUNK_BYTES, codecs};

    #[test]
    fn every_setting_gives_the_data_back_and_larger_chunks_are_smaller() {
        let text: Vec<u8> =
            (0..20_000u32).flat_map(|n| format!("row {} of {};", n * 7, n % 13).into_bytes()).collect();
        let blocks: Vec<Vec<u8>> = text.chunks(65_536).map(<[u8]>::to_vec).collect();
        let mut time_s = 0.0;
        for codec in codecs() {
            let mut stored = vec![];
            for chunk_bytes in CHUNK_BYTES {
                let clock = || {
                    time_s += 1.0;
                    time_s
                };
                let trial = measure(&blocks, codec, chunk_bytes, clock).unwrap();
                assert_eq!(trial.data_bytes, text.len() as u64);
                assert_eq!(
                    (trial.compress_s, trial.decompress_s),
                    (blocks.len() as f64, blocks.len() as f64)
                );
                stored.push(trial.stored_bytes);
            }
            let is_noop = codec == Codec::Noop;
            assert!(is_noop == (stored[0] == text.len() as u64), "{codec:?}");
            assert!(is_noop || stored[6] < stored[0], "{codec:?}: {stored:?}");
        }
    }
}
