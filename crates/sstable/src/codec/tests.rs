use base::rng::Rng;
use model::{Codec, Compression};
use proptest::prelude::*;

use super::*;

const CODECS: [Codec; 10] = [
    Codec::Noop,
    Codec::Lz4,
    Codec::Lz4High { level: 1 },
    Codec::Lz4High { level: 17 },
    Codec::Snappy,
    Codec::Deflate,
    Codec::Zstd { level: -7 },
    Codec::Zstd { level: 1 },
    Codec::Zstd { level: 3 },
    Codec::Zstd { level: 22 },
];

fn packed(compressor: &mut Compressor, chunk: &[u8]) -> Vec<u8> {
    let mut out = vec![0xaa; compressor.bound(chunk.len())];
    let payload_bytes = compressor.compress(chunk, &mut out);
    out.truncate(payload_bytes);
    out
}

fn unpacked(decompressor: &Decompressor, payload: &[u8], wanted: usize) -> Result<Vec<u8>, String> {
    decompressor.check(payload, wanted)?;
    let mut out = vec![0x55; wanted];
    decompressor.decompress(payload, &mut out).map(|()| out)
}

/// Words, so that the text is compressible.
fn text(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut out = vec![];
    while out.len() < len {
        out.extend_from_slice(format!("word{} ", rng.below(300) * 7919).as_bytes());
    }
    out.truncate(len);
    out
}

fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    rng.fill(&mut out);
    out
}

fn chunks() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(1);
    let mut chunks = vec![vec![], vec![7], vec![0; 4096], vec![9; 256 * 1024]];
    for len in [2, 100, 1024, 4096, 16384, 65536, 256 * 1024] {
        chunks.push(text(&mut rng, len));
        chunks.push(noise(&mut rng, len));
    }
    chunks
}

#[test]
fn every_codec_gives_back_what_it_got() {
    for codec in CODECS {
        let (mut compressor, decompressor) =
            (Compressor::new(codec, None), Decompressor::new(Method::of(codec)));
        for chunk in chunks() {
            let payload = packed(&mut compressor, &chunk);
            let found = unpacked(&decompressor, &payload, chunk.len());
            assert_eq!(found.as_ref(), Ok(&chunk), "{codec:?}, {} bytes", chunk.len());
            let longer = unpacked(&decompressor, &payload, chunk.len() + 1);
            assert!(longer.is_err(), "{codec:?}: {} bytes for one more", chunk.len());
            if !chunk.is_empty() && codec != Codec::Noop {
                assert!(unpacked(&decompressor, &payload, chunk.len() - 1).is_err(), "{codec:?}");
                let cut = &payload[..payload.len() - 1];
                assert!(unpacked(&decompressor, cut, chunk.len()).is_err(), "{codec:?}, cut");
                assert!(unpacked(&decompressor, &[], chunk.len()).is_err(), "{codec:?}, nothing");
            }
        }
    }
}

#[test]
fn payloads_are_what_others_write() {
    let chunk = text(&mut Rng::new(2), 3000);
    let of = |codec| packed(&mut Compressor::new(codec, None), &chunk);
    for codec in [Codec::Lz4, Codec::Lz4High { level: 9 }] {
        let payload = of(codec);
        assert_eq!(payload[..4], 3000u32.to_le_bytes());
        assert_eq!(lz4_flex::block::decompress(&payload[4..], 3000).unwrap(), chunk);
    }
    assert!(of(Codec::Lz4High { level: 9 }).len() < of(Codec::Lz4).len(), "the slow search finds more");
    assert_eq!(of(Codec::Deflate)[..2], [0x78, 0x9c], "zlib, default level");
    let zstd = of(Codec::Zstd { level: 3 });
    assert_eq!(zstd[..4], 0xfd2f_b528_u32.to_le_bytes());
    assert_eq!(zstd_safe::get_frame_content_size(&zstd).unwrap(), Some(3000));
    assert!(of(Codec::Zstd { level: 19 }).len() < of(Codec::Zstd { level: -5 }).len(), "levels are heard");
}

#[test]
fn frames_with_a_checksum_or_without_a_length_are_read() {
    use zstd_safe::{CCtx, CParameter};
    let chunk = text(&mut Rng::new(3), 5000);
    let mut out = vec![0; 10_000];
    let mut context = CCtx::create();
    context.set_parameter(CParameter::ChecksumFlag(true)).unwrap();
    context.set_parameter(CParameter::ContentSizeFlag(false)).unwrap();
    let len = context.compress2(&mut out[..], &chunk).unwrap();
    assert_eq!(zstd_safe::get_frame_content_size(&out[..len]).unwrap(), None);
    let decompressor = Decompressor::new(Method::Zstd);
    assert_eq!(unpacked(&decompressor, &out[..len], 5000), Ok(chunk));
    out[len - 1] ^= 1;
    let error = unpacked(&decompressor, &out[..len], 5000).unwrap_err();
    assert!(error.contains("checksum"), "{error}");
}

#[test]
fn more_than_a_payload_can_hold_is_refused_before_there_is_room() {
    // The frame header states 1 GiB, and no data follow.
    let bomb =
        [&0xfd2f_b528_u32.to_le_bytes()[..], &[0xa0], &(1u32 << 30).to_le_bytes(), &[1, 0, 0]].concat();
    assert_eq!(zstd_safe::get_frame_content_size(&bomb).unwrap(), Some(1 << 30));
    let decompressor = Decompressor::new(Method::Zstd);
    let error = decompressor.check(&bomb, 16 * 1024).unwrap_err();
    assert_eq!(error, "length of a Zstd chunk: expected 16384, found 1073741824");
    assert!(decompressor.check(&bomb, 1 << 30).unwrap_err().contains("cannot hold"));
    for method in [Method::Lz4, Method::Snappy, Method::Deflate, Method::Noop] {
        assert!(Decompressor::new(method).check(&[0x80; 64], 256 << 20).is_err(), "{method:?}");
    }
    // The check accepts the most compressible data.
    for codec in CODECS {
        let payload = packed(&mut Compressor::new(codec, None), &vec![0; 4 << 20]);
        assert_eq!(Decompressor::new(Method::of(codec)).check(&payload, 4 << 20), Ok(()), "{codec:?}");
    }
}

fn with_dictionary(codec: Codec) -> Compression {
    Compression { dictionary: true, ..Compression::new(codec, 1024) }
}

/// Rows of the same form with different values.
fn rows(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut out = vec![];
    while out.len() < len {
        let (a, b) = (rng.below(1 << 40), rng.below(50));
        out.extend_from_slice(
            format!(
                "{{\"customer_number\":{a},\"country_of_residence\":\"country-{b}\",\"newsletter\":true}}\n"
            )
            .as_bytes(),
        );
    }
    out.truncate(len);
    out
}

#[test]
fn a_dictionary_makes_small_chunks_smaller_and_is_needed_to_read_them() {
    let mut rng = Rng::new(4);
    let sample = rows(&mut rng, SAMPLE_BYTES_MAX);
    for codec in [Codec::Lz4, Codec::Lz4High { level: 9 }, Codec::Zstd { level: 1 }, Codec::Zstd { level: 9 }]
    {
        let method = Method::of(codec);
        let dictionary = train(&with_dictionary(codec), &sample).expect("it pays");
        assert_eq!(
            train(&with_dictionary(codec), &sample).as_ref(),
            Some(&dictionary),
            "the same every time"
        );
        let other = train(&with_dictionary(codec), &text(&mut rng, SAMPLE_BYTES_MAX)).expect("it pays");
        let mut with = Compressor::new(codec, Some(&dictionary));
        let mut without = Compressor::new(codec, None);
        let right = Decompressor::with_dictionary(method, dictionary).unwrap();
        let wrong = Decompressor::with_dictionary(method, other).unwrap();
        assert!(right.dictionary_bytes().is_some() && right.memory_bytes() > 1000);
        for len in [1, 500, 1024, 16 * 1024, 256 * 1024] {
            let chunk = rows(&mut rng, len);
            let payload = packed(&mut with, &chunk);
            assert_eq!(unpacked(&right, &payload, len).as_ref(), Ok(&chunk), "{codec:?}, {len} bytes");
            if len == 1024 {
                let plain = packed(&mut without, &chunk).len();
                assert!(payload.len() * 10 < plain * 9, "{codec:?}: {plain} became {}", payload.len());
                assert_ne!(unpacked(&wrong, &payload, len), Ok(chunk.clone()), "{codec:?}");
                assert_ne!(
                    unpacked(&Decompressor::new(method), &payload, len),
                    Ok(chunk.clone()),
                    "{codec:?}"
                );
                if method == Method::Zstd {
                    assert!(unpacked(&wrong, &payload, len).unwrap_err().contains("ictionary"));
                    assert!(unpacked(&Decompressor::new(method), &payload, len).is_err());
                }
            }
            // Compressors without a dictionary use the same contexts.
            assert_eq!(packed(&mut without, &chunk), packed(&mut Compressor::new(codec, None), &chunk));
        }
    }
}

#[test]
fn a_dictionary_that_does_not_pay_is_not_made() {
    let mut rng = Rng::new(5);
    let lz4 = with_dictionary(Codec::Lz4);
    assert_eq!(train(&lz4, &noise(&mut rng, SAMPLE_BYTES_MAX)), None, "noise");
    assert_eq!(train(&lz4, &rows(&mut rng, 50_000)), None, "too little");
    assert_eq!(
        train(&with_dictionary(Codec::Deflate), &rows(&mut rng, SAMPLE_BYTES_MAX)),
        None,
        "no such thing"
    );
    assert_eq!(train(&Compression::lz4(1024), &rows(&mut rng, SAMPLE_BYTES_MAX)), None, "not wanted");
    assert!(Decompressor::with_dictionary(Method::Snappy, vec![1, 2, 3]).is_none());
}

#[test]
fn class_names_lead_back() {
    for codec in CODECS {
        let (class, options) = class_and_options(codec, false);
        assert_eq!(Method::named(class), Some((Method::of(codec), false)));
        assert_eq!(Method::named(&format!("org.apache.cassandra.io.compress.{class}")), Method::named(class));
        assert_eq!(options.is_empty(), !matches!(codec, Codec::Zstd { .. } | Codec::Lz4High { .. }));
    }
    assert_eq!(class_and_options(Codec::Lz4, true).0, "LZ4WithDictsCompressor");
    assert_eq!(Method::named("ZstdWithDictsCompressor"), Some((Method::Zstd, true)));
    assert_eq!(Method::named("BrotliCompressor"), None);
}

proptest! {
    #[test]
    fn any_payload_is_an_answer(payload in prop::collection::vec(any::<u8>(), 0..300), wanted in 0usize..5000) {
        for method in [Method::Noop, Method::Lz4, Method::Snappy, Method::Deflate, Method::Zstd] {
            let _ = unpacked(&Decompressor::new(method), &payload, wanted);
        }
    }

    #[test]
    fn damaged_payloads_are_an_answer(seed: u64, at: prop::sample::Index, bit in 0u8..8, len in 1usize..3000) {
        let chunk = text(&mut Rng::new(seed), len);
        for codec in CODECS {
            let mut payload = packed(&mut Compressor::new(codec, None), &chunk);
            let at = at.index(payload.len());
            payload[at] ^= 1 << bit;
            let _ = unpacked(&Decompressor::new(Method::of(codec)), &payload, len);
        }
    }
}
