//! Names of SSTable files and table directories: `me-1-big-Data.db` in
//! `users-5a1c395ef41a11e4b0c5b1e3b1a3b2c1/`.
//!
//! A file name consists of version, generation, format and component, joined by dashes. All files with the
//! same first three parts form one SSTable ([`SSTableName`]). A generation is a number or a time-based UUID
//! of 28 characters. A component that this build does not know keeps its name, since another or a newer
//! writer may have added it. Source: Cassandra's `Descriptor`, `UUIDBasedSSTableId`.

use std::fmt;
use std::str::FromStr;

use crate::version::{Format, UnknownVersion, Version};

/// Why a name is neither the name of an SSTable's file nor of a table's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Not of the form `<version>-<generation>-<format>-<component>`.
    Shape {
        name: String,
    },
    Version {
        name: String,
        error: UnknownVersion,
    },
    /// Neither a decimal number nor a UUID of 28 characters.
    Generation {
        name: String,
        generation: String,
    },
    /// Neither `big` nor `bti`, or not the format of the version.
    Format {
        name: String,
        format: String,
    },
    /// Not of the form `<table>-<32 hexadecimal digits>`.
    Directory {
        name: String,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { name } => {
                write!(
                    f,
                    "{name:?} is not an SSTable's file: expected <version>-<generation>-big-<component>"
                )
            }
            Self::Version { name, error } => write!(f, "{name:?}: {error}"),
            Self::Generation { name, generation } => write!(
                f,
                "{name:?}: generation {generation:?} is neither a number nor a UUID of 28 characters"
            ),
            Self::Format { name, format } => {
                write!(
                    f,
                    "{name:?}: format {format:?} is not the version's; expected bti with da, big with all others"
                )
            }
            Self::Directory { name } => {
                write!(f, "{name:?} is not a table's directory: expected <table>-<32 hexadecimal digits>")
            }
        }
    }
}

impl std::error::Error for NameError {}

/// Identifies an SSTable of a table. Numbers sort before UUIDs; within each kind, older generations sort
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    Number(u64),
    Uuid(UuidGeneration),
}

/// A version 1 UUID, divided into the same parts as its text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UuidGeneration {
    /// The UUID's timestamp: units of 100 ns since 1582-10-15, 60 bits.
    timestamp_100ns: u64,
    /// Variant, clock sequence and node: the UUID's low half.
    low: u64,
}

const TICKS_PER_S: u64 = 10_000_000;
const S_PER_DAY: u64 = 86_400;
const UUID_TEXT_BYTES: usize = 28;
const TIMESTAMP_BITS: u32 = 60;

impl UuidGeneration {
    /// From the 16 bytes of a version 1 UUID; `None` for other versions.
    pub fn from_uuid(uuid: [u8; 16]) -> Option<Self> {
        let [time_low @ .., m0, m1, h0, h1, _, _, _, _, _, _, _, _] = uuid;
        let high = u16::from_be_bytes([h0, h1]);
        if high >> 12 != 1 {
            return None;
        }
        let timestamp_100ns = (u64::from(high & 0x0fff) << 48)
            | (u64::from(u16::from_be_bytes([m0, m1])) << 32)
            | u64::from(u32::from_be_bytes(time_low));
        let low = u64::from_be_bytes(uuid[8..].try_into().expect("8 of 16 bytes"));
        Some(Self { timestamp_100ns, low })
    }

    /// The 16 bytes of the UUID, big-endian.
    pub fn to_uuid(self) -> [u8; 16] {
        let time = self.timestamp_100ns;
        let mut uuid = [0; 16];
        uuid[0..4].copy_from_slice(&(time as u32).to_be_bytes());
        uuid[4..6].copy_from_slice(&((time >> 32) as u16).to_be_bytes());
        uuid[6..8].copy_from_slice(&(((time >> 48) as u16 & 0x0fff) | 0x1000).to_be_bytes());
        uuid[8..].copy_from_slice(&self.low.to_be_bytes());
        uuid
    }

    /// `DDDD_SSSS_NNNNNRRRRRRRRRRRRR`: days, seconds of the day, ticks of the second, low half; base 36.
    fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != UUID_TEXT_BYTES || text[4] != b'_' || text[9] != b'_' {
            return None;
        }
        let days = parse_base36(&text[0..4])?;
        let seconds = parse_base36(&text[5..9])?;
        let ticks = parse_base36(&text[10..15])?;
        let low = parse_base36(&text[15..28])?;
        // Values that no UUID produces are rejected, so that an SSTable has only one name.
        if seconds >= S_PER_DAY || ticks >= TICKS_PER_S {
            return None;
        }
        let timestamp_100ns = (days * S_PER_DAY + seconds) * TICKS_PER_S + ticks;
        (timestamp_100ns >> TIMESTAMP_BITS == 0).then_some(Self { timestamp_100ns, low })
    }
}

fn parse_base36(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, digit| {
        // UUIDs are printed in lower case, so an upper-case name would refer to a different file.
        if digit.is_ascii_uppercase() {
            return None;
        }
        let digit = char::from(*digit).to_digit(36)?;
        value.checked_mul(36)?.checked_add(u64::from(digit))
    })
}

fn write_base36(f: &mut fmt::Formatter<'_>, mut value: u64, width: usize) -> fmt::Result {
    let mut digits = [b'0'; 13];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(value % 36) as usize];
        value /= 36;
    }
    f.write_str(std::str::from_utf8(&digits[13 - width..]).expect("base 36 digits are ASCII"))
}

impl fmt::Display for UuidGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.timestamp_100ns / TICKS_PER_S;
        write_base36(f, seconds / S_PER_DAY, 4)?;
        f.write_str("_")?;
        write_base36(f, seconds % S_PER_DAY, 4)?;
        f.write_str("_")?;
        write_base36(f, self.timestamp_100ns % TICKS_PER_S, 5)?;
        write_base36(f, self.low, 13)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Uuid(uuid) => write!(f, "{uuid}"),
        }
    }
}

impl Generation {
    /// `None` if `text` has neither form. Leading zeros and signs are rejected, so that a generation has only
    /// one text.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(uuid) = UuidGeneration::parse(text) {
            return Some(Self::Uuid(uuid));
        }
        let plain =
            text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
        if plain { text.parse().ok().map(Self::Number) } else { None }
    }
}

/// One file of an SSTable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    Data,
    Index,
    Summary,
    /// The trie of partition keys, in place of Index.db and Summary.db.
    Partitions,
    /// The tries of rows of large partitions.
    Rows,
    Filter,
    Statistics,
    CompressionInfo,
    Crc,
    Digest,
    Messina,
    Toc,
    /// TOC.txt before the SSTable is sealed by renaming this file to [`Component::Toc`].
    TocTemporary,
    /// A component of another or newer writer, with the end of its file name.
    Other(String),
}

impl Component {
    const KNOWN: [Self; 13] = [
        Self::Data,
        Self::Index,
        Self::Summary,
        Self::Partitions,
        Self::Rows,
        Self::Filter,
        Self::Statistics,
        Self::CompressionInfo,
        Self::Crc,
        Self::Digest,
        Self::Messina,
        Self::Toc,
        Self::TocTemporary,
    ];

    /// The end of the file name, for example `Data.db`.
    pub fn suffix(&self) -> &str {
        match self {
            Self::Data => "Data.db",
            Self::Index => "Index.db",
            Self::Summary => "Summary.db",
            Self::Partitions => "Partitions.db",
            Self::Rows => "Rows.db",
            Self::Filter => "Filter.db",
            Self::Statistics => "Statistics.db",
            Self::CompressionInfo => "CompressionInfo.db",
            Self::Crc => "CRC.db",
            Self::Digest => "Digest.crc32",
            Self::Messina => "Messina.db",
            Self::Toc => "TOC.txt",
            Self::TocTemporary => "TOC.txt.tmp",
            Self::Other(suffix) => suffix,
        }
    }

    /// The component with this end of the file name; an unknown end gives [`Component::Other`].
    pub fn from_suffix(suffix: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|component| component.suffix() == suffix);
        known.unwrap_or_else(|| Self::Other(suffix.to_owned()))
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.suffix())
    }
}

/// An SSTable within its table's directory. Ordered by generation, so that newer SSTables sort later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SSTableName {
    pub generation: Generation,
    pub version: Version,
    pub format: Format,
}

impl SSTableName {
    /// An SSTable of a version that has the "big" format.
    pub fn big(version: Version, generation: Generation) -> Self {
        assert!(version.format() == Format::Big, "version {version} is not in the \"big\" format");
        Self { generation, version, format: Format::Big }
    }

    /// The name of a component's file, for example `me-1-big-Data.db`.
    pub fn file_name(&self, component: &Component) -> String {
        format!("{self}-{component}")
    }

    /// Splits a file name (without its directory) into the SSTable's name and the component.
    pub fn parse_file_name(name: &str) -> Result<(Self, Component), NameError> {
        let mut parts = name.splitn(4, '-');
        let (Some(version), Some(generation), Some(format), Some(component)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NameError::Shape { name: name.to_owned() });
        };
        // Up to Cassandra 2.1 names began with keyspace and table. The error for such a name gives its
        // version, not the keyspace as an unknown version.
        if let Some(version) =
            name.split('-').nth(2).filter(|word| matches!(*word, "ic" | "ja" | "jb" | "ka"))
        {
            let error = UnknownVersion { letters: version.to_owned() };
            return Err(NameError::Version { name: name.to_owned(), error });
        }
        if component.is_empty() || component.contains('/') {
            return Err(NameError::Shape { name: name.to_owned() });
        }
        let version: Version =
            version.parse().map_err(|error| NameError::Version { name: name.to_owned(), error })?;
        let generation = Generation::parse(generation).ok_or_else(|| NameError::Generation {
            name: name.to_owned(),
            generation: generation.to_owned(),
        })?;
        let format = match format {
            "big" => Format::Big,
            "bti" => Format::Bti,
            other => return Err(NameError::Format { name: name.to_owned(), format: other.to_owned() }),
        };
        if format != version.format() {
            return Err(NameError::Format { name: name.to_owned(), format: format.word().to_owned() });
        }
        Ok((Self { generation, version, format }, Component::from_suffix(component)))
    }
}

impl fmt::Display for SSTableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.version, self.generation, self.format.word())
    }
}

/// A table's directory: its name and its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableDirectory {
    pub table: String,
    /// The table's UUID.
    pub table_id: [u8; 16],
}

impl fmt::Display for TableDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:032x}", self.table, u128::from_be_bytes(self.table_id))
    }
}

impl FromStr for TableDirectory {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let error = || NameError::Directory { name: name.to_owned() };
        let (table, id) = name.rsplit_once('-').ok_or_else(error)?;
        let is_table = !table.is_empty() && table.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let is_id = id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !is_table || !is_id {
            return Err(error());
        }
        let table_id = u128::from_str_radix(id, 16).map_err(|_| error())?.to_be_bytes();
        Ok(Self { table: table.to_owned(), table_id })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check_file(name: &str, version: Version, generation: Generation, component: Component) {
        let (sstable, found) = SSTableName::parse_file_name(name).unwrap();
        assert_eq!(sstable, SSTableName::big(version, generation));
        assert_eq!(found, component);
        assert_eq!(sstable.file_name(&component), name);
    }

    #[test]
    fn file_names() {
        check_file("me-1-big-Data.db", Version::Me, Generation::Number(1), Component::Data);
        check_file("nb-4294967296-big-TOC.txt", Version::Nb, Generation::Number(1 << 32), Component::Toc);
        check_file("mc-7-big-Digest.crc32", Version::Mc, Generation::Number(7), Component::Digest);
        let sai = Component::Other("SAI+aa+idx+Meta.db".into());
        check_file("nb-7-big-SAI+aa+idx+Meta.db", Version::Nb, Generation::Number(7), sai);
        for wrong in ["me-1-big-", "me-1-big", "Data.db", "", "me--big-Data.db", "me-01-big-Data.db"] {
            assert!(SSTableName::parse_file_name(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["ka-1-big-Data.db", "me-1-huge-Data.db", "me-+1-big-Data.db", "me-1-big-../Data.db"] {
            assert!(SSTableName::parse_file_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn uuid_generations_as_cassandra_prints_them() {
        // Results of UUIDBasedSSTableId.asString of Cassandra 4.1 for these UUIDs.
        check_uuid(0x5a1c395e_f41a_11e4_b0c5_b1e3b1a3b2c1, "3dwk_1e7m_3me722orxb4j44hgox");
        check_uuid(0x00000000_0000_1000_8000_000000000000, "0000_0000_000001y2p0ij32e8e8");
        check_uuid(0xffffffff_ffff_1fff_ffff_ffffffffffff, "slmn_1nb0_42r5r3w5e11264sgsf");
        // Printed again, this generation would name a file that does not exist.
        assert_eq!(Generation::parse("3dwk_1e7m_3me722orxb4j44hgoX"), None);
    }

    #[track_caller]
    fn check_uuid(uuid: u128, text: &str) {
        let generation = UuidGeneration::from_uuid(uuid.to_be_bytes()).unwrap();
        assert_eq!(generation.to_string(), text);
        assert_eq!(Generation::parse(text), Some(Generation::Uuid(generation)));
        assert_eq!(generation.to_uuid(), uuid.to_be_bytes());
    }

    #[test]
    fn newer_generations_come_later_and_numbers_first() {
        let uuid = |timestamp_100ns, low| Generation::Uuid(UuidGeneration { timestamp_100ns, low });
        let sorted = [Generation::Number(9), Generation::Number(10), uuid(1, 9), uuid(2, 0), uuid(2, 1)];
        assert!(sorted.is_sorted());
        assert!(UuidGeneration::from_uuid([0; 16]).is_none(), "not a version 1 UUID");
    }

    #[test]
    fn table_directories() {
        let directory: TableDirectory = "users-5a1c395ef41a11e4b0c5b1e3b1a3b2c1".parse().unwrap();
        assert_eq!(directory.table, "users");
        assert_eq!(directory.table_id[..2], [0x5a, 0x1c]);
        assert_eq!(directory.to_string(), "users-5a1c395ef41a11e4b0c5b1e3b1a3b2c1");
        for wrong in [
            "users",
            "users-5a1c",
            "-5a1c395ef41a11e4b0c5b1e3b1a3b2c1",
            "a/b-5a1c395ef41a11e4b0c5b1e3b1a3b2c1",
        ] {
            assert!(wrong.parse::<TableDirectory>().is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_an_error(text in ".{0,60}") {
            if let Ok((sstable, component)) = SSTableName::parse_file_name(&text) {
                prop_assert_eq!(sstable.file_name(&component), text);
            }
        }

        #[test]
        fn any_uuid_generation_round_trips(timestamp in 0u64..1 << 60, low: u64) {
            let generation = Generation::Uuid(UuidGeneration { timestamp_100ns: timestamp, low });
            let text = generation.to_string();
            prop_assert_eq!(text.len(), UUID_TEXT_BYTES);
            prop_assert_eq!(Generation::parse(&text), Some(generation));
        }
    }
}
