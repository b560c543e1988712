//! The table option `compression`: converts between the map of users and `system_schema.tables` and the form
//! used by storage.
//!
//! All versions' spellings are accepted: classes with and without package, `sstable_compression` and
//! `chunk_length_kb` (before 3.0), `''` or `enabled: false` for no compression, and ScyllaDB's classes with
//! dictionaries. Sub-options that storage does not represent completely are also kept as text in
//! [`crate::TableSettings::compression`]. Source: Cassandra 4.1 `schema/CompressionParams.java` and the
//! compressors in `io/compress`.

use std::collections::BTreeMap;

use model::{Codec, Compression};

use crate::error::{CatalogError, configuration};
use crate::options::text_map::map;

const COMPRESS: &str = "org.apache.cassandra.io.compress.";
const DEFAULT_CHUNK_KIB: u32 = 16;
/// Maximum chunk size in SSTables.
const MAX_CHUNK_KIB: u32 = 1 << 18;
/// Maximum chunk size for new and altered tables. Larger sizes stored earlier are accepted.
const MAX_NEW_CHUNK_KIB: u32 = 256;
const DEFAULT_ZSTD_LEVEL: i32 = 3;
const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = -131_072..=22;
const DEFAULT_LZ4_LEVEL: i32 = 9;

pub(crate) const RATIO: &str = "min_compress_ratio";
const LZ4_TYPE: &str = "lz4_compressor_type";
pub(crate) const LZ4_LEVEL: &str = "lz4_high_compressor_level";

/// Sub-options that are kept as text, with the classes that accept them; an empty list means all classes.
const KEPT: [(&str, &[&str]); 4] = [
    (RATIO, &[]),
    ("crc_check_chance", &[]),
    (LZ4_TYPE, &["LZ4Compressor", "LZ4WithDictsCompressor"]),
    (LZ4_LEVEL, &["LZ4Compressor", "LZ4WithDictsCompressor"]),
];

/// The form of `system_schema.tables`: `{'class': …, 'chunk_length_in_kb': …}` or `{'enabled': 'false'}`,
/// with the sub-options kept as text.
pub fn compression_to_map(
    compression: &Option<Compression>,
    kept: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let Some(Compression { codec, chunk_bytes, dictionary, .. }) = compression else {
        return map(&[("enabled", "false")]);
    };
    let class = match (codec, dictionary) {
        (Codec::Noop, _) => "NoopCompressor",
        (Codec::Lz4 | Codec::Lz4High { .. }, false) => "LZ4Compressor",
        (Codec::Lz4 | Codec::Lz4High { .. }, true) => "LZ4WithDictsCompressor",
        (Codec::Snappy, _) => "SnappyCompressor",
        (Codec::Deflate, _) => "DeflateCompressor",
        (Codec::Zstd { .. }, false) => "ZstdCompressor",
        (Codec::Zstd { .. }, true) => "ZstdWithDictsCompressor",
    };
    let mut options = map(&[("class", &format!("{COMPRESS}{class}"))]);
    options.insert("chunk_length_in_kb".to_string(), (chunk_bytes / 1024).to_string());
    if let Codec::Zstd { level } = codec
        && *level != DEFAULT_ZSTD_LEVEL
    {
        options.insert("compression_level".to_string(), level.to_string());
    }
    options.extend(kept.clone());
    options
}

/// The reverse of [`compression_to_map`]. Also accepts all spellings of users.
///
/// # Errors
/// An unknown class or sub-option, or a value out of range.
pub fn compression_from_map(
    options: &BTreeMap<String, String>,
) -> Result<(Option<Compression>, BTreeMap<String, String>), CatalogError> {
    let get = |name: &str| options.get(name).map(String::as_str);
    match get("enabled").map(str::to_ascii_lowercase).as_deref() {
        None | Some("true") => {}
        Some("false") => {
            if options.len() > 1 {
                return configuration!(
                    "If the 'enabled' option is set to false no other options must be specified"
                );
            }
            return Ok((None, BTreeMap::new()));
        }
        Some(other) => {
            return configuration!("Invalid value {other} for 'enabled'; true and false are allowed");
        }
    }
    if get("class").is_some() && get("sstable_compression").is_some() {
        return configuration!(
            "The 'sstable_compression' option must not be used if the compression algorithm is already specified \
             by the 'class' option"
        );
    }
    let class = match get("class").or(get("sstable_compression")) {
        _ if options.is_empty() => return Ok((None, BTreeMap::new())),
        Some("") => return Ok((None, BTreeMap::new())),
        Some(class) => class.strip_prefix(COMPRESS).unwrap_or(class),
        None => return configuration!("Missing sub-option 'class' for the 'compression' option."),
    };
    let mut kept = BTreeMap::new();
    for (name, value) in options {
        let is_kept = KEPT
            .iter()
            .any(|(kept, classes)| kept == name && (classes.is_empty() || classes.contains(&class)));
        match name.as_str() {
            "class" | "sstable_compression" | "enabled" | "chunk_length_in_kb" | "chunk_length_kb" => {}
            "compression_level" if class.starts_with("Zstd") => {
                // DESCRIBE shows a level that was given, also if it is the default.
                if value.parse() == Ok(DEFAULT_ZSTD_LEVEL) {
                    kept.insert(name.clone(), value.clone());
                }
            }
            _ if is_kept => {
                check_kept(name, value)?;
                kept.insert(name.clone(), value.clone());
            }
            _ => return configuration!("Unknown compression options {name}"),
        }
    }
    let chunk_bytes = chunk_bytes(get("chunk_length_in_kb"), get("chunk_length_kb"))?;
    let level = level(get("compression_level"))?;
    let (codec, dictionary) = match class {
        "LZ4Compressor" => (lz4(&kept), false),
        "SnappyCompressor" => (Codec::Snappy, false),
        "DeflateCompressor" => (Codec::Deflate, false),
        "ZstdCompressor" => (Codec::Zstd { level }, false),
        "NoopCompressor" => (Codec::Noop, false),
        "LZ4WithDictsCompressor" => (lz4(&kept), true),
        "ZstdWithDictsCompressor" => (Codec::Zstd { level }, true),
        _ => return configuration!("Could not create Compression for type {COMPRESS}{class}"),
    };
    let max_compressed_bytes = max_compressed_bytes(chunk_bytes, kept.get(RATIO));
    let compression = Compression { codec, chunk_bytes, max_compressed_bytes, dictionary };
    check_compression(&compression)?;
    Ok((Some(compression), kept))
}

/// The LZ4 codec of sub-options that were already checked.
fn lz4(kept: &BTreeMap<String, String>) -> Codec {
    if kept.get(LZ4_TYPE).is_none_or(|kind| kind != "high") {
        return Codec::Lz4;
    }
    let level = kept.get(LZ4_LEVEL).and_then(|level| level.parse().ok());
    Codec::Lz4High { level: level.unwrap_or(DEFAULT_LZ4_LEVEL) }
}

/// Converts the required ratio of uncompressed to compressed bytes of a chunk. Without a ratio, or with 0,
/// there is no requirement.
fn max_compressed_bytes(chunk_bytes: u32, ratio: Option<&String>) -> u32 {
    match ratio.and_then(|ratio| ratio.parse::<f64>().ok()) {
        Some(ratio) if ratio > 0.0 => (f64::from(chunk_bytes) / ratio).ceil() as u32,
        _ => Compression::ALWAYS,
    }
}

fn chunk_bytes(kib: Option<&str>, old_kib: Option<&str>) -> Result<u32, CatalogError> {
    if kib.is_some() && old_kib.is_some() {
        return configuration!(
            "The 'chunk_length_kb' option must not be used if the chunk length is already specified by the \
             'chunk_length_in_kb' option"
        );
    }
    let Some(text) = kib.or(old_kib) else { return Ok(DEFAULT_CHUNK_KIB * 1024) };
    match text.parse::<i64>() {
        Ok(..=0) => configuration!("Invalid negative or null chunk_length_in_kb"),
        Ok(kib) if kib > i64::from(MAX_CHUNK_KIB) => {
            configuration!(
                "Value of chunk_length_in_kb is too large ({kib}); at most {MAX_CHUNK_KIB} is possible"
            )
        }
        Ok(kib) => Ok(u32::try_from(kib).expect("compared above") * 1024),
        Err(_) => configuration!("Invalid value for chunk_length_in_kb: {text}"),
    }
}

fn level(text: Option<&str>) -> Result<i32, CatalogError> {
    let Some(text) = text else { return Ok(DEFAULT_ZSTD_LEVEL) };
    match text.parse::<i32>() {
        Ok(level) if ZSTD_LEVELS.contains(&level) => Ok(level),
        _ => configuration!(
            "compression_level={text} is invalid; it is a number from {} to {}",
            ZSTD_LEVELS.start(),
            ZSTD_LEVELS.end()
        ),
    }
}

fn check_kept(name: &str, value: &str) -> Result<(), CatalogError> {
    let is_legal = match name {
        "min_compress_ratio" => value.parse::<f64>().is_ok_and(|ratio| ratio == 0.0 || ratio >= 1.0),
        "crc_check_chance" => value.parse::<f64>().is_ok_and(|chance| (0.0..=1.0).contains(&chance)),
        "lz4_compressor_type" => matches!(value, "fast" | "high"),
        "lz4_high_compressor_level" => value.parse::<u32>().is_ok_and(|level| (1..=17).contains(&level)),
        _ => false,
    };
    if is_legal {
        Ok(())
    } else {
        configuration!("Invalid value {value} for compression sub-option '{name}'")
    }
}

pub(crate) fn check_compression(compression: &Compression) -> Result<(), CatalogError> {
    check_chunks(compression, MAX_CHUNK_KIB)
}

/// Checks the compression of a table that is created or altered.
pub(crate) fn check_new_compression(compression: Option<&Compression>) -> Result<(), CatalogError> {
    compression.map_or(Ok(()), |compression| check_chunks(compression, MAX_NEW_CHUNK_KIB))
}

fn check_chunks(compression: &Compression, max_kib: u32) -> Result<(), CatalogError> {
    match compression.chunk_bytes {
        0..1024 => configuration!("Invalid negative or null chunk_length_in_kb"),
        chunk_bytes if !chunk_bytes.is_power_of_two() => {
            configuration!("chunk_length_in_kb must be a power of 2")
        }
        chunk_bytes if chunk_bytes > max_kib * 1024 => {
            configuration!("chunk_length_in_kb is at most {max_kib}: a point read reads a whole chunk")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        entries: &[(&str, &str)],
    ) -> Result<(Option<Compression>, BTreeMap<String, String>), CatalogError> {
        compression_from_map(&map(entries))
    }

    #[test]
    fn every_spelling_is_read_and_stored_as_cassandra_does() {
        let chunk = ("chunk_length_in_kb", "64");
        let with = |codec| Some(Compression::new(codec, 64 * 1024));
        for (entries, expect) in [
            (&[("class", "LZ4Compressor"), chunk][..], with(Codec::Lz4)),
            (&[("class", "org.apache.cassandra.io.compress.SnappyCompressor"), chunk], with(Codec::Snappy)),
            (
                &[("sstable_compression", "DeflateCompressor"), ("chunk_length_kb", "64")],
                with(Codec::Deflate),
            ),
            (
                &[("class", "ZstdCompressor"), chunk, ("compression_level", "-7")],
                with(Codec::Zstd { level: -7 }),
            ),
            (&[("class", "ZstdCompressor"), chunk], with(Codec::Zstd { level: 3 })),
            (&[("class", "NoopCompressor"), chunk], with(Codec::Noop)),
            (
                &[("sstable_compression", "ZstdWithDictsCompressor"), chunk],
                with(Codec::Zstd { level: 3 }).map(|it| Compression { dictionary: true, ..it }),
            ),
            (
                &[("class", "LZ4WithDictsCompressor"), chunk],
                with(Codec::Lz4).map(|it| Compression { dictionary: true, ..it }),
            ),
            (&[("sstable_compression", "")], None),
            (&[("class", "")], None),
            (&[("enabled", "false")], None),
            (&[], None),
            (&[("class", "LZ4Compressor"), ("enabled", "true"), chunk], with(Codec::Lz4)),
        ] {
            let (compression, kept) = read(entries).unwrap();
            assert_eq!((&compression, kept.len()), (&expect, 0), "{entries:?}");
            let stored = compression_to_map(&compression, &kept);
            assert_eq!(compression_from_map(&stored), Ok((expect, kept)), "{stored:?}");
        }
        let stored = compression_to_map(&with(Codec::Lz4), &BTreeMap::new());
        let class = ("class", "org.apache.cassandra.io.compress.LZ4Compressor");
        assert_eq!(stored, map(&[class, chunk]));
        assert_eq!(read(&[("class", "LZ4Compressor")]).unwrap().0, Some(Compression::lz4(16 * 1024)));
    }

    #[test]
    fn what_was_written_is_kept_and_acted_on() {
        let default = || Compression::new(Codec::Snappy, 16 * 1024);
        for (entries, expect) in [
            (
                &[("class", "LZ4Compressor"), (LZ4_TYPE, "high"), (LZ4_LEVEL, "12")][..],
                Compression { codec: Codec::Lz4High { level: 12 }, ..default() },
            ),
            (
                &[("class", "LZ4Compressor"), (LZ4_TYPE, "high")],
                Compression { codec: Codec::Lz4High { level: 9 }, ..default() },
            ),
            (
                &[("class", "LZ4Compressor"), (LZ4_TYPE, "fast"), (LZ4_LEVEL, "12")],
                Compression { codec: Codec::Lz4, ..default() },
            ),
            (
                &[("class", "SnappyCompressor"), (RATIO, "1.5"), ("crc_check_chance", "0.5")],
                Compression { max_compressed_bytes: 10923, ..default() },
            ),
            (&[("class", "SnappyCompressor"), (RATIO, "0")], default()),
            (
                &[("class", "ZstdCompressor"), ("compression_level", "3")],
                Compression { codec: Codec::Zstd { level: DEFAULT_ZSTD_LEVEL }, ..default() },
            ),
            (
                &[("class", "ZstdWithDictsCompressor"), ("compression_level", "5")],
                Compression { codec: Codec::Zstd { level: 5 }, dictionary: true, ..default() },
            ),
        ] {
            let (compression, kept) = read(entries).unwrap();
            assert_eq!(compression, Some(expect), "{entries:?}");
            let stored = compression_to_map(&compression, &kept);
            for (name, value) in entries {
                assert!(stored[*name].ends_with(value), "{stored:?}");
            }
            assert_eq!(compression_from_map(&stored), Ok((compression, kept)), "{stored:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |entries: &[(&str, &str)]| read(entries).unwrap_err().to_string();
        let class = ("class", "LZ4Compressor");
        assert!(error(&[("chunk_length_in_kb", "4")]).contains("Missing sub-option 'class'"));
        assert!(error(&[class, ("chunk_length_in_kb", "3")]).contains("power of 2"));
        assert!(error(&[class, ("chunk_length_in_kb", "0")]).contains("negative or null"));
        assert!(error(&[class, ("chunk_length_in_kb", "4194304")]).contains("too large (4194304)"));
        assert!(
            error(&[class, ("chunk_length_in_kb", "x")]).contains("Invalid value for chunk_length_in_kb: x")
        );
        assert!(error(&[class, ("chunk_length_in_kb", "4"), ("chunk_length_kb", "4")]).contains("already"));
        assert!(error(&[class, ("sstable_compression", "")]).contains("already specified"));
        assert!(error(&[class, ("enabled", "false")]).contains("no other options"));
        assert!(error(&[class, ("enabled", "maybe")]).contains("Invalid value maybe"));
        assert!(error(&[class, ("compression_level", "9")]).contains("options compression_level"));
        assert!(
            error(&[("class", "ZstdCompressor"), ("compression_level", "23")]).contains("=23 is invalid")
        );
        assert!(error(&[("class", "ZstdCompressor"), ("lz4_compressor_type", "fast")]).contains("Unknown"));
        assert!(error(&[class, ("lz4_compressor_type", "slow")]).contains("Invalid value slow"));
        assert!(error(&[("class", "Zip")]).contains("for type org.apache.cassandra.io.compress.Zip"));
    }
}
