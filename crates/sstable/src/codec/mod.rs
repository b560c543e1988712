//! Codecs: convert the bytes of a chunk to its payload and back.
//!
//! | codec | payload |
//! |---|---|
//! | noop | the bytes |
//! | LZ4 | u32-LE length, LZ4 block |
//! | Snappy | raw Snappy, which begins with the length |
//! | Deflate | a zlib stream |
//! | zstd | a frame with its length, without a checksum: the chunk has one |
//!
//! In both directions the caller provides the output buffer, and no memory is allocated for a chunk
//! (`contexts.rs`). Payloads are untrusted: before the caller allocates the output buffer,
//! [`Decompressor::check`] refuses a payload that cannot contain the wanted length.

mod contexts;
mod dictionary;
mod lz4;
#[cfg(test)]
mod tests;

use contexts::with_contexts;
use model::Codec;
use zstd_safe::{CDict, DDict};

pub use dictionary::{SAMPLE_BYTES_MAX, train};

const LZ4_LENGTH_BYTES: usize = 4;
const NO_ROOM: &str = "a payload fits into its bound";

/// The compression method of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Noop,
    Lz4,
    Snappy,
    Deflate,
    Zstd,
}

/// The class names in CompressionInfo.db: those of Cassandra's compressors and those of ScyllaDB's
/// compressors with dictionaries.
const CLASSES: [(&str, Method, bool); 7] = [
    ("LZ4Compressor", Method::Lz4, false),
    ("SnappyCompressor", Method::Snappy, false),
    ("DeflateCompressor", Method::Deflate, false),
    ("ZstdCompressor", Method::Zstd, false),
    ("NoopCompressor", Method::Noop, false),
    ("LZ4WithDictsCompressor", Method::Lz4, true),
    ("ZstdWithDictsCompressor", Method::Zstd, true),
];

impl Method {
    /// The method of a class name in CompressionInfo.db, and whether the class may have a dictionary. `None`
    /// if this build cannot read it.
    pub fn named(name: &str) -> Option<(Self, bool)> {
        let simple = name.rsplit('.').next()?;
        let found = CLASSES.iter().find(|(class, ..)| *class == simple);
        found.map(|(_, method, has_dictionaries)| (*method, *has_dictionaries))
    }

    /// All class names, for errors.
    pub fn names() -> String {
        CLASSES.map(|(class, ..)| class).join(", ")
    }

    fn of(codec: Codec) -> Self {
        match codec {
            Codec::Noop => Self::Noop,
            Codec::Lz4 | Codec::Lz4High { .. } => Self::Lz4,
            Codec::Snappy => Self::Snappy,
            Codec::Deflate => Self::Deflate,
            Codec::Zstd { .. } => Self::Zstd,
        }
    }

    /// Upper bound of the bytes to which a payload can decompress.
    fn most_bytes(self, payload_bytes: usize) -> u64 {
        let payload = payload_bytes as u64;
        match self {
            Self::Noop => payload,
            // Each byte of a length adds at most 255 bytes.
            Self::Lz4 => (payload + 1) * 255,
            // A copy element of three bytes yields 64 bytes.
            Self::Snappy => (payload + 1) * 32,
            // A match of two bits yields 258 bytes.
            Self::Deflate => (payload + 1) * 1032,
            // A block of four bytes repeats one byte 128 Ki times.
            Self::Zstd => (payload / 4 + 1) * (128 << 10),
        }
    }
}

/// The class name and its options for CompressionInfo.db.
pub fn class_and_options(codec: Codec, with_dictionary: bool) -> (&'static str, Vec<(String, Vec<u8>)>) {
    let method = Method::of(codec);
    let class = CLASSES.iter().find(|(_, of, dictionary)| (*of, *dictionary) == (method, with_dictionary));
    let (class, ..) = class.expect("LZ4 and zstd have dictionaries, and everything a class");
    let option = |name: &str, value: String| (name.to_owned(), value.into_bytes());
    let options = match codec {
        Codec::Zstd { level } => vec![option("compression_level", level.to_string())],
        Codec::Lz4High { level } => vec![
            option("lz4_compressor_type", "high".to_owned()),
            option("lz4_high_compressor_level", level.to_string()),
        ],
        Codec::Noop | Codec::Lz4 | Codec::Snappy | Codec::Deflate => vec![],
    };
    (class, options)
}

enum CompressionDictionary {
    Lz4(lz4::Dictionary),
    Zstd(CDict<'static>),
}

/// Compresses chunks with one codec.
pub struct Compressor {
    codec: Codec,
    dictionary: Option<CompressionDictionary>,
}

impl Compressor {
    /// Only LZ4 and zstd may have a dictionary.
    pub fn new(codec: Codec, dictionary: Option<&[u8]>) -> Self {
        let dictionary = dictionary.map(|bytes| match codec {
            Codec::Lz4 => CompressionDictionary::Lz4(lz4::Dictionary::new(bytes, None)),
            Codec::Lz4High { level } => CompressionDictionary::Lz4(lz4::Dictionary::new(bytes, Some(level))),
            Codec::Zstd { level } => CompressionDictionary::Zstd(CDict::create(bytes, level)),
            Codec::Noop | Codec::Snappy | Codec::Deflate => unreachable!("{codec:?} has no dictionaries"),
        });
        Self { codec, dictionary }
    }

    /// Upper bound of the payload's length for a chunk of `chunk_bytes` bytes.
    pub fn bound(&self, chunk_bytes: usize) -> usize {
        match self.codec {
            Codec::Noop => chunk_bytes,
            Codec::Lz4 | Codec::Lz4High { .. } => LZ4_LENGTH_BYTES + lz4::bound(chunk_bytes),
            Codec::Snappy => snap::raw::max_compress_len(chunk_bytes),
            Codec::Deflate => with_contexts(|contexts| contexts.deflate().zlib_compress_bound(chunk_bytes)),
            Codec::Zstd { .. } => zstd_safe::compress_bound(chunk_bytes),
        }
    }

    /// Writes the chunk's payload to the start of `out`, which must have at least [`Self::bound`] bytes.
    /// Returns the length of the payload.
    pub fn compress(&mut self, chunk: &[u8], out: &mut [u8]) -> usize {
        with_contexts(|contexts| match (self.codec, &self.dictionary) {
            (Codec::Noop, _) => {
                out[..chunk.len()].copy_from_slice(chunk);
                chunk.len()
            }
            (Codec::Lz4, dictionary) => {
                let block = lz4_block(chunk, out);
                let dictionary = lz4_dictionary(dictionary.as_ref()).map(lz4::Dictionary::fast);
                LZ4_LENGTH_BYTES + contexts.lz4().compress(dictionary, chunk, block)
            }
            (Codec::Lz4High { level }, dictionary) => {
                let block = lz4_block(chunk, out);
                let dictionary = lz4_dictionary(dictionary.as_ref()).map(|it| it.high(level));
                LZ4_LENGTH_BYTES + contexts.lz4_high().compress(level, dictionary, chunk, block)
            }
            (Codec::Snappy, _) => contexts.snappy().compress(chunk, out).expect(NO_ROOM),
            (Codec::Deflate, _) => contexts.deflate().zlib_compress(chunk, out).expect(NO_ROOM),
            (Codec::Zstd { .. }, Some(CompressionDictionary::Zstd(dictionary))) => {
                contexts.zstd().compress_using_cdict(out, chunk, dictionary).expect(NO_ROOM)
            }
            (Codec::Zstd { level }, _) => contexts.zstd().compress(out, chunk, level).expect(NO_ROOM),
        })
    }
}

/// Writes the length of the chunk. Returns the remaining part of `out` for the block.
fn lz4_block<'a>(chunk: &[u8], out: &'a mut [u8]) -> &'a mut [u8] {
    let (length, block) = out.split_at_mut(LZ4_LENGTH_BYTES);
    length.copy_from_slice(&(chunk.len() as u32).to_le_bytes());
    block
}

fn lz4_dictionary(dictionary: Option<&CompressionDictionary>) -> Option<&lz4::Dictionary> {
    match dictionary {
        Some(CompressionDictionary::Lz4(dictionary)) => Some(dictionary),
        _ => None,
    }
}

enum DecompressionDictionary {
    Lz4(Vec<u8>),
    /// Prepared, and its length as stored.
    Zstd(DDict<'static>, usize),
}

/// Decompresses the chunks of one file.
pub struct Decompressor {
    method: Method,
    dictionary: Option<DecompressionDictionary>,
}

impl Decompressor {
    /// For chunks that are stored uncompressed.
    pub const NOOP: Self = Self { method: Method::Noop, dictionary: None };

    pub fn new(method: Method) -> Self {
        Self { method, dictionary: None }
    }

    /// For chunks that were compressed with this dictionary. `None` if the method has no dictionaries, or the
    /// bytes are not a dictionary.
    pub fn with_dictionary(method: Method, bytes: Vec<u8>) -> Option<Self> {
        let dictionary = match method {
            Method::Lz4 => DecompressionDictionary::Lz4(bytes),
            Method::Zstd => DecompressionDictionary::Zstd(DDict::try_create(&bytes)?, bytes.len()),
            Method::Noop | Method::Snappy | Method::Deflate => return None,
        };
        Some(Self { method, dictionary: Some(dictionary) })
    }

    /// The length of the dictionary as it is stored; `None` without one.
    pub fn dictionary_bytes(&self) -> Option<usize> {
        self.dictionary.as_ref().map(|dictionary| match dictionary {
            DecompressionDictionary::Lz4(bytes) => bytes.len(),
            DecompressionDictionary::Zstd(_, stored_bytes) => *stored_bytes,
        })
    }

    /// Bytes of heap memory in use.
    pub fn memory_bytes(&self) -> usize {
        match &self.dictionary {
            None => 0,
            Some(DecompressionDictionary::Lz4(bytes)) => bytes.capacity(),
            Some(DecompressionDictionary::Zstd(dictionary, _)) => dictionary.sizeof(),
        }
    }

    /// Checks by its length and first bytes whether `payload` can decompress to `wanted` bytes. Must be
    /// called before the output buffer is allocated. Returns a description of the error.
    pub fn check(&self, payload: &[u8], wanted: usize) -> Result<(), String> {
        let method = self.method;
        if wanted as u64 > method.most_bytes(payload.len()) {
            return Err(format!("{} bytes of {method:?} cannot hold {wanted}", payload.len()));
        }
        let stated = match method {
            Method::Noop | Method::Deflate => None,
            Method::Lz4 => match payload.first_chunk::<LZ4_LENGTH_BYTES>() {
                Some(length) => Some(u64::from(u32::from_le_bytes(*length))),
                None => {
                    return Err(format!("an LZ4 chunk of {} bytes; 4 are its length", payload.len()));
                }
            },
            Method::Snappy => {
                let length = snap::raw::decompress_len(payload);
                Some(length.map_err(|error| format!("a Snappy chunk without a length: {error}"))? as u64)
            }
            Method::Zstd => zstd_safe::get_frame_content_size(payload)
                .map_err(|_| "a zstd chunk does not begin with a frame's header".to_owned())?,
        };
        match stated {
            Some(stated) if stated != wanted as u64 => {
                Err(format!("length of a {method:?} chunk: expected {wanted}, found {stated}"))
            }
            _ => Ok(()),
        }
    }

    /// Decompresses a [checked](Self::check) payload into `out`, which it must fill. Returns a description of
    /// the error.
    pub fn decompress(&self, payload: &[u8], out: &mut [u8]) -> Result<(), String> {
        let wanted = out.len();
        let done = match self.method {
            // An uncompressed chunk may be padded with zeros.
            Method::Noop => payload.get(..wanted).map(|data| {
                out.copy_from_slice(data);
                wanted
            }),
            Method::Lz4 => {
                let dictionary = match &self.dictionary {
                    Some(DecompressionDictionary::Lz4(bytes)) => bytes,
                    _ => &[][..],
                };
                let block = payload.get(LZ4_LENGTH_BYTES..).unwrap_or_default();
                return lz4::decompress(block, dictionary, out);
            }
            Method::Snappy => {
                let done = snap::raw::Decoder::new().decompress(payload, out);
                Some(done.map_err(|error| format!("a Snappy chunk does not decompress: {error}"))?)
            }
            Method::Deflate => {
                let done = with_contexts(|contexts| contexts.inflate().zlib_decompress(payload, out));
                Some(done.map_err(|error| format!("a Deflate chunk does not decompress: {error}"))?)
            }
            Method::Zstd => {
                let done = with_contexts(|contexts| match &self.dictionary {
                    Some(DecompressionDictionary::Zstd(dictionary, _)) => {
                        contexts.unzstd().decompress_using_ddict(out, payload, dictionary)
                    }
                    _ => contexts.unzstd().decompress(out, payload),
                });
                Some(done.map_err(|code| {
                    format!("a zstd chunk does not decompress: {}", zstd_safe::get_error_name(code))
                })?)
            }
        };
        match done {
            Some(done) if done == wanted => Ok(()),
            Some(done) => Err(format!("a {:?} chunk of {wanted} bytes decompressed to {done}", self.method)),
            None => Err(format!("a chunk of {wanted} bytes, stored as {}", payload.len())),
        }
    }
}
