//! Any CompressionInfo.db is decoded or refused; encoding it again gives an equal value. Any payload
//! decompresses to the wanted length or is refused. A chunk that is compressed and decompressed is unchanged.
//!
//! The first two bytes select the test and its method.

use model::Codec;
use sstable::codec::{Compressor, Decompressor, Method};
use sstable::component::compression_info::CompressionInfo;
use sstable::version::Version;

const METHODS: [Method; 5] = [Method::Noop, Method::Lz4, Method::Snappy, Method::Deflate, Method::Zstd];
const CODECS: [Codec; 6] = [
    Codec::Noop,
    Codec::Lz4,
    Codec::Lz4High { level: 9 },
    Codec::Snappy,
    Codec::Deflate,
    Codec::Zstd { level: 1 },
];
/// Chunks of ordinary SSTables are not longer.
const WANTED_BYTES_MAX: usize = 256 * 1024;

pub fn examine(data: &[u8]) {
    let [what, which, rest @ ..] = data else { return };
    match what % 4 {
        0 => read_info(rest, if which % 2 == 0 { Version::Me } else { Version::Nb }),
        1 => decompress(Decompressor::new(METHODS[usize::from(*which) % METHODS.len()]), rest),
        2 => {
            let Some((dictionary, payload)) = rest.split_at_checked(usize::from(*which)) else { return };
            for method in [Method::Lz4, Method::Zstd] {
                if let Some(decompressor) = Decompressor::with_dictionary(method, dictionary.to_vec()) {
                    decompress(decompressor, payload);
                }
            }
        }
        _ => round_trip(CODECS[usize::from(*which) % CODECS.len()], rest),
    }
}

fn read_info(bytes: &[u8], version: Version) {
    let Ok(mut info) = CompressionInfo::decode(bytes, version) else { return };
    assert!(info.memory_bytes() < 1000 + 64 * bytes.len());
    for index in 0..info.offsets.len() {
        let _ = info.chunk(index, bytes.len() as u64);
    }
    let dictionary = info.dictionary();
    info.options.retain(|(key, _)| key != "crc_check_chance");
    assert_eq!(CompressionInfo::decode(&info.encode(version), version).as_ref(), Ok(&info));
    info.set_dictionary(dictionary.as_deref());
    assert_eq!(info.dictionary(), dictionary.filter(|bytes| !bytes.is_empty()));
}

fn decompress(decompressor: Decompressor, bytes: &[u8]) {
    let Some((wanted, payload)) = bytes.split_first_chunk::<4>() else { return };
    let wanted = u32::from_le_bytes(*wanted) as usize;
    if decompressor.check(payload, wanted).is_ok() && wanted <= WANTED_BYTES_MAX {
        let _ = decompressor.decompress(payload, &mut vec![0; wanted]);
    }
}

fn round_trip(codec: Codec, chunk: &[u8]) {
    let mut compressor = Compressor::new(codec, None);
    let mut payload = vec![0; compressor.bound(chunk.len())];
    let len = compressor.compress(chunk, &mut payload);
    let (class, _) = sstable::codec::class_and_options(codec, false);
    let decompressor = Decompressor::new(Method::named(class).expect("it has a name").0);
    decompressor.check(&payload[..len], chunk.len()).expect("it is what was written");
    let mut out = vec![0; chunk.len()];
    decompressor.decompress(&payload[..len], &mut out).expect("it is what was written");
    assert_eq!(out, chunk);
}
