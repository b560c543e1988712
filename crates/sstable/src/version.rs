//! The version of an SSTable: the two letters at the start of its file names, and the format differences that
//! follow from it.
//!
//! Code asks for the named difference (`version.has_originating_host_id()`), never for the letters. All
//! versions can be read; `oa` and `da` cannot be written. Source: Cassandra's `BigFormat.java`,
//! `BtiFormat.java`.

use std::fmt;
use std::str::FromStr;

/// The layout of an SSTable's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Index.db and Summary.db.
    Big,
    /// Partitions.db and Rows.db, which are tries (Cassandra 5.0).
    Bti,
}

impl Format {
    /// The word in file names: `big` or `bti`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Big => "big",
            Self::Bti => "bti",
        }
    }
}

/// A version that this build supports, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Cassandra 3.0.8 and 3.9: commit-log intervals; min/max clustering must not be trusted.
    Mc,
    /// Cassandra 3.0.18 and 3.11.4: min/max clustering may be trusted.
    Md,
    /// Cassandra 3.0.25 and 3.11.11: originating host id. The version that Messina writes by default.
    Me,
    /// Cassandra 4.0-rc1: incompressible chunks stored raw, checksums in Statistics.db, new byte order of the
    /// bloom filter.
    Na,
    /// Cassandra 4.0.0: originating host id, as in `me`.
    Nb,
    /// Cassandra 5.0: unsigned deletion times. Read only.
    Oa,
    /// Cassandra 5.0 with trie indexes (BTI), otherwise like `oa`. Read only.
    Da,
}

impl Version {
    /// The version that Messina writes by default: Cassandra 3.11 to 5.0 and ScyllaDB read it.
    pub const DEFAULT: Self = Self::Me;

    /// Every version, oldest first.
    pub const ALL: [Self; 7] = [Self::Mc, Self::Md, Self::Me, Self::Na, Self::Nb, Self::Oa, Self::Da];

    /// The two letters in file names.
    pub const fn letters(self) -> &'static str {
        match self {
            Self::Mc => "mc",
            Self::Md => "md",
            Self::Me => "me",
            Self::Na => "na",
            Self::Nb => "nb",
            Self::Oa => "oa",
            Self::Da => "da",
        }
    }

    /// Whether this build can write it. It can read all versions.
    pub const fn is_writable(self) -> bool {
        !self.has_uint_deletion_time()
    }

    /// The layout of the index.
    pub const fn format(self) -> Format {
        match self {
            Self::Da => Format::Bti,
            _ => Format::Big,
        }
    }

    /// Statistics.db contains the id of the host that wrote its commit-log positions.
    pub const fn has_originating_host_id(self) -> bool {
        !matches!(self, Self::Mc | Self::Md | Self::Na)
    }

    /// The smallest and largest clustering in Statistics.db may be used to exclude the SSTable from a read.
    pub const fn has_accurate_min_max(self) -> bool {
        !matches!(self, Self::Mc)
    }

    /// Statistics.db has a CRC after its table of contents and after every part.
    pub const fn has_stats_checksums(self) -> bool {
        matches!(self, Self::Na | Self::Nb | Self::Oa | Self::Da)
    }

    /// Statistics.db has the pending repair session and the transient flag.
    pub const fn has_pending_repair(self) -> bool {
        matches!(self, Self::Na | Self::Nb | Self::Oa | Self::Da)
    }

    /// CompressionInfo.db has the length from which on a chunk is stored uncompressed.
    pub const fn has_max_compressed_length(self) -> bool {
        matches!(self, Self::Na | Self::Nb | Self::Oa | Self::Da)
    }

    /// Filter.db contains the bytes of the bit set as they are; before, each word was written big-endian.
    pub const fn has_bloom_little_endian(self) -> bool {
        matches!(self, Self::Na | Self::Nb | Self::Oa | Self::Da)
    }

    /// Local deletion times are unsigned, and a live deletion time takes one byte.
    pub const fn has_uint_deletion_time(self) -> bool {
        matches!(self, Self::Oa | Self::Da)
    }

    /// Statistics.db contains the covered clusterings as a slice with types, whether there are partition
    /// deletions, the first and last key, and the fraction of the ring that the SSTable covers.
    pub const fn has_improved_min_max(self) -> bool {
        matches!(self, Self::Oa | Self::Da)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.letters())
    }
}

/// Letters of a version that this build does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVersion {
    pub letters: String,
}

impl fmt::Display for UnknownVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = &self.letters;
        match letters.as_str() {
            "ic" | "ja" | "jb" | "ka" | "la" | "lb" | "ma" | "mb" => write!(
                f,
                "SSTables of version {letters} are not supported, the oldest supported version is mc: run sstableupgrade of \
                 Cassandra 3.x (ma, mb, la, lb and ka also 4.x) on them"
            ),
            _ => write!(f, "unknown SSTable version {letters:?}; known are mc, md, me, na, nb, oa and da"),
        }
    }
}

impl std::error::Error for UnknownVersion {}

impl FromStr for Version {
    type Err = UnknownVersion;

    fn from_str(letters: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|version| version.letters() == letters);
        known.ok_or_else(|| UnknownVersion { letters: letters.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_round_trip_and_other_strings_are_rejected() {
        for version in Version::ALL {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        assert!(Version::ALL.is_sorted_by_key(|version| match version {
            Version::Da => "oz",
            other => other.letters(),
        }));
        let advice = |letters: &str| letters.parse::<Version>().unwrap_err().to_string();
        assert!(advice("ka").contains("sstableupgrade"));
        assert!(advice("zz").contains("known are mc"));
        assert!(advice("ME").contains("\"ME\""));
    }

    #[test]
    fn the_table_of_differences() {
        let with = |has: fn(Version) -> bool| {
            let letters: Vec<_> =
                Version::ALL.into_iter().filter(|v| has(*v)).map(Version::letters).collect();
            letters.join(" ")
        };
        assert_eq!(with(Version::is_writable), "mc md me na nb");
        assert_eq!(with(Version::has_improved_min_max), "oa da");
        assert_eq!(with(|version| version.format() == Format::Bti), "da");
        assert_eq!(with(Version::has_originating_host_id), "me nb oa da");
        assert_eq!(with(Version::has_accurate_min_max), "md me na nb oa da");
        assert_eq!(with(Version::has_stats_checksums), "na nb oa da");
        assert_eq!(with(Version::has_pending_repair), "na nb oa da");
        assert_eq!(with(Version::has_max_compressed_length), "na nb oa da");
        assert_eq!(with(Version::has_bloom_little_endian), "na nb oa da");
        assert_eq!(with(Version::has_uint_deletion_time), "oa da");
    }
}
