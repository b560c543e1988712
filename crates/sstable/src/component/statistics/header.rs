//! The header part of Statistics.db: the columns and types that Data.db was written with, and what its
//! timestamps, deletion times and TTLs are relative to.
//!
//! ```text
//! vint (min timestamp - epoch us) | vint (min deletion time - epoch s) | vint min ttl
//! vstr key type | vint n, n * vstr clustering type | 2 * (vint n, n * (vstr name, vstr type))
//! ```
//! The epoch is 2015-09-22; what lies before it wraps around. Data.db must be read by these types and columns,
//! never by the live schema: a column may have been dropped or added since. Types are Java class names, which
//! are parsed elsewhere; one that cannot be parsed must fail the SSTable, since lengths would be unknown.

use base::bytes::{Take, put_vint_bytes};
use base::vint;

use super::text;
use crate::component::error::check_count;
use crate::component::{FormatError, Named};

/// 2015-09-22T00:00:00Z, to which written minima are relative.
pub const EPOCH_US: i64 = 1_442_880_000_000_000;
/// The same in seconds.
pub const EPOCH_S: i32 = 1_442_880_000;

/// What Data.db's timestamps, deletion times and TTLs are written relative to.
///
/// Each is at most the smallest that Data.db has, or nearly: data below it still decodes, since differences
/// wrap, but takes nine bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaBases {
    pub min_timestamp_us: i64,
    pub min_local_deletion_time_s: i32,
    pub min_ttl_s: i32,
}

impl DeltaBases {
    /// What is written when there is nothing of a kind.
    pub const NONE: Self =
        Self { min_timestamp_us: EPOCH_US, min_local_deletion_time_s: EPOCH_S, min_ttl_s: 0 };
}

/// Finds the [`DeltaBases`] of data or of several SSTables. Feed it only times that exist: not the deletion
/// time or TTL of a live cell that does not expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaBasesCollector {
    timestamp_us: Option<i64>,
    local_deletion_time_s: Option<i32>,
    ttl_s: Option<i32>,
}

impl DeltaBasesCollector {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn update_timestamp(&mut self, timestamp_us: i64) {
        self.timestamp_us = Some(self.timestamp_us.map_or(timestamp_us, |least| least.min(timestamp_us)));
    }

    pub fn update_deletion_time(&mut self, local_deletion_time_s: i32) {
        let least =
            self.local_deletion_time_s.map_or(local_deletion_time_s, |it| it.min(local_deletion_time_s));
        self.local_deletion_time_s = Some(least);
    }

    pub fn update_ttl(&mut self, ttl_s: i32) {
        self.ttl_s = Some(self.ttl_s.map_or(ttl_s, |least| least.min(ttl_s)));
    }

    /// Takes the bases of an input of a compaction in; a base that says "none" is not counted.
    pub fn merge(&mut self, bases: &DeltaBases) {
        if bases.min_timestamp_us != EPOCH_US {
            self.update_timestamp(bases.min_timestamp_us);
        }
        if bases.min_local_deletion_time_s != EPOCH_S {
            self.update_deletion_time(bases.min_local_deletion_time_s);
        }
        if bases.min_ttl_s != 0 {
            self.update_ttl(bases.min_ttl_s);
        }
    }

    /// The minima seen, or the epoch where nothing was.
    pub fn finish(&self) -> DeltaBases {
        DeltaBases {
            min_timestamp_us: self.timestamp_us.unwrap_or(EPOCH_US),
            min_local_deletion_time_s: self.local_deletion_time_s.unwrap_or(EPOCH_S),
            min_ttl_s: self.ttl_s.unwrap_or(0),
        }
    }
}

/// A column as Data.db has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderColumn {
    pub name: Vec<u8>,
    /// The Java class of its type.
    pub type_name: String,
}

/// How Data.db was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerializationHeader {
    pub bases: DeltaBases,
    /// The partition key's type; of several columns, a `CompositeType(…)`.
    pub key_type: String,
    /// The clustering columns' types in order; a descending one is a `ReversedType(…)`.
    pub clustering_types: Vec<String>,
    /// In the file's order, which need not be the order of cells in a row.
    pub static_columns: Vec<HeaderColumn>,
    /// In the file's order, which need not be the order of cells in a row.
    pub regular_columns: Vec<HeaderColumn>,
}

impl SerializationHeader {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let DeltaBases { min_timestamp_us, min_local_deletion_time_s, min_ttl_s } = self.bases;
        vint::write_unsigned(out, min_timestamp_us.wrapping_sub(EPOCH_US) as u64);
        // 32-bit differences are extended with their sign before they become vints.
        vint::write_unsigned(out, i64::from(min_local_deletion_time_s.wrapping_sub(EPOCH_S)) as u64);
        vint::write_unsigned(out, i64::from(min_ttl_s) as u64);
        put_vint_bytes(out, self.key_type.as_bytes());
        vint::write_unsigned(out, self.clustering_types.len() as u64);
        for name in &self.clustering_types {
            put_vint_bytes(out, name.as_bytes());
        }
        for columns in [&self.static_columns, &self.regular_columns] {
            vint::write_unsigned(out, columns.len() as u64);
            for column in columns {
                put_vint_bytes(out, &column.name);
                put_vint_bytes(out, column.type_name.as_bytes());
            }
        }
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Result<Self, FormatError> {
        let timestamp = take.vint().named("min timestamp")? as i64;
        let deletion_time = take.vint().named("min local deletion time")? as i32;
        let ttl = take.vint().named("min ttl")? as i32;
        let bases = DeltaBases {
            min_timestamp_us: timestamp.wrapping_add(EPOCH_US),
            min_local_deletion_time_s: deletion_time.wrapping_add(EPOCH_S),
            min_ttl_s: ttl,
        };
        let key_type = type_name(take, "partition key type")?;
        let count = count(take, "number of clustering types", 1)?;
        let mut clustering_types = Vec::with_capacity(count);
        for _ in 0..count {
            clustering_types.push(type_name(take, "clustering type")?);
        }
        let static_columns = columns(take)?;
        let regular_columns = columns(take)?;
        Ok(Self { bases, key_type, clustering_types, static_columns, regular_columns })
    }
}

fn count(take: &mut Take<'_>, what: &'static str, item_bytes: usize) -> Result<usize, FormatError> {
    let at = take.offset();
    let count = take.vint().named(what)?;
    check_count(what, at, count, item_bytes, take.remaining())
}

fn type_name(take: &mut Take<'_>, what: &'static str) -> Result<String, FormatError> {
    let at = take.offset();
    text(take.vint_bytes().named(what)?, what, at)
}

fn columns(take: &mut Take<'_>) -> Result<Vec<HeaderColumn>, FormatError> {
    let count = count(take, "number of columns", 2)?;
    let mut columns = vec![];
    for _ in 0..count {
        let name = take.vint_bytes().named("column name")?.to_vec();
        columns.push(HeaderColumn { name, type_name: type_name(take, "column type")? });
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bases: DeltaBases) -> SerializationHeader {
        let column = |name: &str| HeaderColumn { name: name.into(), type_name: "T".into() };
        SerializationHeader {
            bases,
            key_type: "K".into(),
            clustering_types: vec!["C".into()],
            static_columns: vec![],
            regular_columns: vec![column("v"), column("")],
        }
    }

    #[track_caller]
    fn check(bases: DeltaBases, golden_bases: &[u8]) {
        let golden = [golden_bases, b"\x01K\x01\x01C\x00\x02\x01v\x01T\x00\x01T"].concat();
        let mut out = vec![];
        header(bases).encode(&mut out);
        assert_eq!(out, golden);
        assert_eq!(SerializationHeader::decode(&mut Take::new(&golden)), Ok(header(bases)));
        for cut in 0..golden.len() {
            assert!(SerializationHeader::decode(&mut Take::new(&golden[..cut])).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn golden_bytes() {
        check(DeltaBases::NONE, &[0, 0, 0]);
        let later = DeltaBases {
            min_timestamp_us: EPOCH_US + 256,
            min_local_deletion_time_s: EPOCH_S + 1,
            min_ttl_s: 60,
        };
        check(later, &[0x81, 0, 1, 60]);
        let before =
            DeltaBases { min_timestamp_us: EPOCH_US - 1, min_local_deletion_time_s: 0, min_ttl_s: 0 };
        let mut golden = vec![0xff; 9];
        golden.push(0xff);
        golden.extend(i64::from(-EPOCH_S).to_be_bytes());
        golden.push(0);
        check(before, &golden);
        let extreme = DeltaBases {
            min_timestamp_us: i64::MIN,
            min_local_deletion_time_s: i32::MAX,
            min_ttl_s: i32::MAX,
        };
        let mut out = vec![];
        header(extreme).encode(&mut out);
        assert_eq!(SerializationHeader::decode(&mut Take::new(&out)).unwrap().bases, extreme);
    }

    #[test]
    fn bases_are_minima_of_what_exists() {
        let mut collector = DeltaBasesCollector::new();
        collector.merge(&DeltaBases::NONE);
        assert_eq!(collector.finish(), DeltaBases::NONE);
        collector.update_timestamp(5);
        collector.update_timestamp(-5);
        collector.update_ttl(70);
        collector.merge(&DeltaBases { min_timestamp_us: 1, min_local_deletion_time_s: 9, min_ttl_s: 60 });
        let expect = DeltaBases { min_timestamp_us: -5, min_local_deletion_time_s: 9, min_ttl_s: 60 };
        assert_eq!(collector.finish(), expect);
    }
}
