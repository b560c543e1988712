//! `compression`: the map that users write and `system_schema.tables` has, and what storage acts on.
//!
//! Takes the spellings of all versions: classes with and without their package, `sstable_compression` and
//! `chunk_length_kb` (before 3.0), `''` or `enabled: false` for none. Sub-options that change nothing here are kept
//! beside it, as [`crate::TableSettings::compression`].
//! Source: Cassandra 4.1 `schema/CompressionParams.java` and the compressors in `io/compress`.

use std::collections::BTreeMap;

use model::Compression;

use crate::error::{CatalogError, configuration};
use crate::settings::map;

const COMPRESS: &str = "org.apache.cassandra.io.compress.";
const DEFAULT_CHUNK_KIB: u32 = 16;
/// What SSTables can have.
const MAX_CHUNK_KIB: u32 = 1 << 18;
const DEFAULT_ZSTD_LEVEL: i32 = 3;
const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = -131_072..=22;

/// Sub-options that say what a class needs not be told, with the classes that know them.
const KEPT: [(&str, &[&str]); 4] = [
    ("min_compress_ratio", &[]),
    ("crc_check_chance", &[]),
    ("lz4_compressor_type", &["LZ4Compressor", "LZ4WithDictsCompressor"]),
    ("lz4_high_compressor_level", &["LZ4Compressor", "LZ4WithDictsCompressor"]),
];

/// As `system_schema.tables` has it: `{'class': …, 'chunk_length_in_kb': …}` or `{'enabled': 'false'}`, with what
/// was kept of it.
pub fn compression_to_map(
    compression: &Compression,
    kept: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let class = match compression {
        Compression::None if kept.is_empty() => return map(&[("enabled", "false")]),
        Compression::None => "NoopCompressor",
        Compression::Lz4 { .. } => "LZ4Compressor",
        Compression::Snappy { .. } => "SnappyCompressor",
        Compression::Deflate { .. } => "DeflateCompressor",
        Compression::Zstd { .. } => "ZstdCompressor",
    };
    let mut options = map(&[("class", &format!("{COMPRESS}{class}"))]);
    if let Some(chunk_bytes) = compression.chunk_bytes() {
        options.insert("chunk_length_in_kb".to_string(), (chunk_bytes / 1024).to_string());
    }
    if let Compression::Zstd { level, .. } = compression
        && *level != DEFAULT_ZSTD_LEVEL
    {
        options.insert("compression_level".to_string(), level.to_string());
    }
    options.extend(kept.clone());
    options
}

/// The reverse of [`compression_to_map`]; also takes what users write.
///
/// # Errors
/// An unknown class or sub-option, or a value out of its range.
pub fn compression_from_map(
    options: &BTreeMap<String, String>,
) -> Result<(Compression, BTreeMap<String, String>), CatalogError> {
    let get = |name: &str| options.get(name).map(String::as_str);
    match get("enabled").map(str::to_ascii_lowercase).as_deref() {
        None | Some("true") => {}
        Some("false") => {
            if options.len() > 1 {
                return configuration!(
                    "If the 'enabled' option is set to false no other options must be specified"
                );
            }
            return Ok((Compression::None, BTreeMap::new()));
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
        _ if options.is_empty() => return Ok((Compression::None, BTreeMap::new())),
        Some("") => return Ok((Compression::None, BTreeMap::new())),
        Some(class) => class.strip_prefix(COMPRESS).unwrap_or(class),
        None => return configuration!("Missing sub-option 'class' for the 'compression' option."),
    };
    let chunk_bytes = chunk_bytes(get("chunk_length_in_kb"), get("chunk_length_kb"))?;
    let level = level(get("compression_level"))?;
    let mut kept = BTreeMap::new();
    let compression = match class {
        "LZ4Compressor" => Compression::Lz4 { chunk_bytes },
        "SnappyCompressor" => Compression::Snappy { chunk_bytes },
        "DeflateCompressor" => Compression::Deflate { chunk_bytes },
        "ZstdCompressor" => Compression::Zstd { chunk_bytes, level },
        // ScyllaDB's, whose dictionaries are the server's own affair.
        "LZ4WithDictsCompressor" | "ZstdWithDictsCompressor" => {
            kept.insert("class".to_string(), format!("{COMPRESS}{class}"));
            match class {
                "LZ4WithDictsCompressor" => Compression::Lz4 { chunk_bytes },
                _ => Compression::Zstd { chunk_bytes, level },
            }
        }
        "NoopCompressor" => {
            kept.insert("class".to_string(), format!("{COMPRESS}{class}"));
            kept.insert("chunk_length_in_kb".to_string(), (chunk_bytes / 1024).to_string());
            Compression::None
        }
        _ => return configuration!("Could not create Compression for type {COMPRESS}{class}"),
    };
    for (name, value) in options {
        let is_kept = KEPT
            .iter()
            .any(|(kept, classes)| kept == name && (classes.is_empty() || classes.contains(&class)));
        match name.as_str() {
            "class" | "sstable_compression" | "enabled" | "chunk_length_in_kb" | "chunk_length_kb" => {}
            "compression_level" if class.starts_with("Zstd") => {}
            _ if is_kept => {
                check_kept(name, value)?;
                kept.insert(name.clone(), value.clone());
            }
            _ => return configuration!("Unknown compression options: [{name}]"),
        }
    }
    check_compression(&compression)?;
    Ok((compression, kept))
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
        Err(_) => configuration!("Invalid value {text} for chunk_length_in_kb"),
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
    match compression.chunk_bytes() {
        Some(0..1024) => configuration!("Invalid negative or null chunk_length_in_kb"),
        Some(chunk_bytes) if !chunk_bytes.is_power_of_two() => {
            configuration!("chunk_length_in_kb must be a power of 2")
        }
        Some(chunk_bytes) if chunk_bytes > MAX_CHUNK_KIB * 1024 => {
            configuration!("chunk_length_in_kb is at most {MAX_CHUNK_KIB}")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<(Compression, BTreeMap<String, String>), CatalogError> {
        compression_from_map(&map(entries))
    }

    #[test]
    fn every_spelling_is_read_and_stored_as_cassandra_does() {
        let chunk_bytes = 64 * 1024;
        let chunk = ("chunk_length_in_kb", "64");
        for (entries, expect) in [
            (&[("class", "LZ4Compressor"), chunk][..], Compression::Lz4 { chunk_bytes }),
            (
                &[("class", "org.apache.cassandra.io.compress.SnappyCompressor"), chunk],
                Compression::Snappy { chunk_bytes },
            ),
            (
                &[("sstable_compression", "DeflateCompressor"), ("chunk_length_kb", "64")],
                Compression::Deflate { chunk_bytes },
            ),
            (
                &[("class", "ZstdCompressor"), chunk, ("compression_level", "-7")],
                Compression::Zstd { chunk_bytes, level: -7 },
            ),
            (&[("class", "ZstdCompressor"), chunk], Compression::Zstd { chunk_bytes, level: 3 }),
            (&[("sstable_compression", "")], Compression::None),
            (&[("class", "")], Compression::None),
            (&[("enabled", "false")], Compression::None),
            (&[], Compression::None),
            (&[("class", "LZ4Compressor"), ("enabled", "true"), chunk], Compression::Lz4 { chunk_bytes }),
        ] {
            let (compression, kept) = read(entries).unwrap();
            assert_eq!((&compression, kept.len()), (&expect, 0), "{entries:?}");
            let stored = compression_to_map(&compression, &kept);
            assert_eq!(compression_from_map(&stored), Ok((expect, kept)), "{stored:?}");
        }
        let stored = compression_to_map(&Compression::Lz4 { chunk_bytes }, &BTreeMap::new());
        let class = ("class", "org.apache.cassandra.io.compress.LZ4Compressor");
        assert_eq!(stored, map(&[class, chunk]));
        assert_eq!(
            read(&[("class", "LZ4Compressor")]).unwrap().0,
            Compression::Lz4 { chunk_bytes: 16 * 1024 }
        );
    }

    #[test]
    fn what_changes_nothing_is_kept() {
        for entries in [
            &[
                ("class", "LZ4Compressor"),
                ("lz4_compressor_type", "high"),
                ("lz4_high_compressor_level", "9"),
            ][..],
            &[("class", "SnappyCompressor"), ("min_compress_ratio", "1.5"), ("crc_check_chance", "0.5")],
            &[("class", "ZstdWithDictsCompressor"), ("compression_level", "5")],
            &[("class", "NoopCompressor"), ("chunk_length_in_kb", "4")],
        ] {
            let (compression, kept) = read(entries).unwrap();
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
        assert!(error(&[class, ("chunk_length_in_kb", "x")]).contains("Invalid value x"));
        assert!(error(&[class, ("chunk_length_in_kb", "4"), ("chunk_length_kb", "4")]).contains("already"));
        assert!(error(&[class, ("sstable_compression", "")]).contains("already specified"));
        assert!(error(&[class, ("enabled", "false")]).contains("no other options"));
        assert!(error(&[class, ("enabled", "maybe")]).contains("Invalid value maybe"));
        assert!(error(&[class, ("compression_level", "9")]).contains("options: [compression_level]"));
        assert!(
            error(&[("class", "ZstdCompressor"), ("compression_level", "23")]).contains("=23 is invalid")
        );
        assert!(error(&[("class", "ZstdCompressor"), ("lz4_compressor_type", "fast")]).contains("Unknown"));
        assert!(error(&[class, ("lz4_compressor_type", "slow")]).contains("Invalid value slow"));
        assert!(error(&[("class", "Zip")]).contains("for type org.apache.cassandra.io.compress.Zip"));
    }
}
