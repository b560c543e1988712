//! The header part of Statistics.db: the columns and types with which Data.db was written, and the bases of
//! its timestamps, deletion times and TTLs.
//!
//! ```text
//! vint (min timestamp - epoch us) | vint (min deletion time - epoch s) | vint min ttl
//! vstr key type | vint n, n * vstr clustering type | 2 * (vint n, n * (vstr name, vstr type))
//! ```
//! The epoch is 2015-09-22; differences to earlier times wrap. Data.db must be read with these types and
//! columns and never with the current schema, because columns may have been dropped or added since. Types are
//! Java class names, which are parsed elsewhere. An SSTable with a type that cannot be parsed must be
//! refused, because the lengths of values would be unknown.

use base::bytes::{Take, put_vint_bytes};
use base::vint;

use super::text;
use crate::component::error::check_count;
use crate::component::{FormatError, Named};

/// 2015-09-22T00:00:00Z in microseconds since 1970. Stored minima are relative to it.
pub const EPOCH_US: i64 = 1_442_880_000_000_000;
/// `EPOCH_US` in seconds since 1970.
pub const EPOCH_S: i32 = 1_442_880_000;

/// The bases to which timestamps, deletion times and TTLs in Data.db are relative.
///
/// Each base is at most the smallest time in Data.db, at least approximately. A smaller time can still be
/// decoded, because differences wrap, but takes nine bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaBases {
    /// In microseconds since 1970.
    pub min_timestamp_us: i64,
    /// In seconds since 1970.
    pub min_local_deletion_time_s: i32,
    pub min_ttl_s: i32,
}

impl DeltaBases {
    /// The bases if there are no times of a kind.
    pub const NONE: Self =
        Self { min_timestamp_us: EPOCH_US, min_local_deletion_time_s: EPOCH_S, min_ttl_s: 0 };
}

/// Computes the [`DeltaBases`] of data or of several SSTables. Only existing times may be added: not the
/// deletion time or TTL of a live cell that does not expire.
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

    /// Adds a timestamp in microseconds since 1970.
    pub fn update_timestamp(&mut self, timestamp_us: i64) {
        self.timestamp_us = Some(self.timestamp_us.map_or(timestamp_us, |least| least.min(timestamp_us)));
    }

    /// Adds a local deletion or expiry time in seconds since 1970.
    pub fn update_deletion_time(&mut self, local_deletion_time_s: i32) {
        let least =
            self.local_deletion_time_s.map_or(local_deletion_time_s, |it| it.min(local_deletion_time_s));
        self.local_deletion_time_s = Some(least);
    }

    /// Adds a TTL in seconds.
    pub fn update_ttl(&mut self, ttl_s: i32) {
        self.ttl_s = Some(self.ttl_s.map_or(ttl_s, |least| least.min(ttl_s)));
    }

    /// Adds the bases of a compaction's input; a base that means "none" is ignored.
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

    /// The smallest times added; the epoch for a kind without any.
    pub fn finish(&self) -> DeltaBases {
        DeltaBases {
            min_timestamp_us: self.timestamp_us.unwrap_or(EPOCH_US),
            min_local_deletion_time_s: self.local_deletion_time_s.unwrap_or(EPOCH_S),
            min_ttl_s: self.ttl_s.unwrap_or(0),
        }
    }
}

/// A column as stored in Data.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderColumn {
    /// The bytes of the name, usually UTF-8.
    pub name: Vec<u8>,
    /// The Java class name of its type.
    pub type_name: String,
}

/// How Data.db was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerializationHeader {
    /// The bases of timestamps, deletion times and TTLs.
    pub bases: DeltaBases,
    /// The type of the partition key; a `CompositeType(…)` if the key has several columns.
    pub key_type: String,
    /// The types of the clustering columns in order; a descending one is a `ReversedType(…)`.
    pub clustering_types: Vec<String>,
    /// In file order, which can differ from the order of cells in a row.
    pub static_columns: Vec<HeaderColumn>,
    /// In file order, which can differ from the order of cells in a row.
    pub regular_columns: Vec<HeaderColumn>,
}

impl SerializationHeader {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let DeltaBases { min_timestamp_us, min_local_deletion_time_s, min_ttl_s } = self.bases;
        vint::write_unsigned(out, min_timestamp_us.wrapping_sub(EPOCH_US) as u64);
        // A 32-bit difference is sign-extended before it is encoded as a vint.
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
