//! The large partitions, rows and cells of an SSTable: a field of Messina.db.
//!
//! The field lists the largest few of each kind, so that operators find the reason of a slow read without
//! reading the data. The layout is in `docs/formats/messina-db.md`.

use base::bytes::{Take, Truncated, put_u16_bytes};

const PARTITION: u8 = 1;
const ROW: u8 = 2;
const CELL: u8 = 3;

const IS_STATIC: u8 = 1;

/// See the head of this file. Each list is sorted by the factor by which the limit is exceeded, largest
/// first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LargeData {
    /// Time of the write in milliseconds since 1970.
    pub written_ms: i64,
    /// Partitions with too many bytes or rows.
    pub partitions: Vec<LargePartition>,
    /// Rows with too many bytes.
    pub rows: Vec<LargeRow>,
    /// Cells with too many bytes, and collections with too many elements.
    pub cells: Vec<LargeCell>,
}

/// The part of a partition in the SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargePartition {
    /// The serialized key, as in Data.db.
    pub key: Vec<u8>,
    /// Length before compression in bytes.
    pub bytes: u64,
    /// Number of rows without static rows.
    pub rows: u64,
    /// Rows that are neither live themselves nor have a live cell.
    pub dead_rows: u64,
    /// Number of positions at which the range deletion in force changes.
    pub range_tombstones: u64,
}

/// Identifies a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPlace {
    /// The serialized partition key.
    pub key: Vec<u8>,
    /// The values of the clustering columns; `None` for the static row.
    pub clustering: Option<Vec<Vec<u8>>>,
}

/// A row of the SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeRow {
    pub place: RowPlace,
    /// Length before compression in bytes.
    pub bytes: u64,
}

/// A cell, or all cells of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeCell {
    pub place: RowPlace,
    /// Name of the column.
    pub column: String,
    /// Length of the value in bytes; of a collection, of all values and keys.
    pub bytes: u64,
    /// Number of elements of a collection; `None` for a single cell.
    pub elements: Option<u64>,
}

impl LargeData {
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty() && self.rows.is_empty() && self.cells.is_empty()
    }

    /// Bytes of heap memory in use.
    pub fn memory_bytes(&self) -> usize {
        let place = |place: &RowPlace| {
            let values = place.clustering.iter().flatten();
            place.key.capacity() + values.map(|value| size_of::<Vec<u8>>() + value.capacity()).sum::<usize>()
        };
        self.partitions.iter().map(|it| size_of_val(it) + it.key.capacity()).sum::<usize>()
            + self.rows.iter().map(|it| size_of_val(it) + place(&it.place)).sum::<usize>()
            + self
                .cells
                .iter()
                .map(|it| size_of_val(it) + place(&it.place) + it.column.capacity())
                .sum::<usize>()
    }

    /// Encodes the payload of the field.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.written_ms.to_be_bytes().to_vec();
        for LargePartition { key, bytes, rows, dead_rows, range_tombstones } in &self.partitions {
            out.push(PARTITION);
            put_u16_bytes(&mut out, key);
            for number in [bytes, rows, dead_rows, range_tombstones] {
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
        for LargeRow { place, bytes } in &self.rows {
            out.push(ROW);
            place.encode(&mut out);
            out.extend_from_slice(&bytes.to_be_bytes());
        }
        for LargeCell { place, column, bytes, elements } in &self.cells {
            out.push(CELL);
            place.encode(&mut out);
            put_u16_bytes(&mut out, column.as_bytes());
            out.extend_from_slice(&bytes.to_be_bytes());
            out.push(u8::from(elements.is_some()));
            out.extend_from_slice(&elements.unwrap_or(0).to_be_bytes());
        }
        out
    }

    /// Decodes the payload of the field; `None` if it does not have this form.
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let mut take = Take::new(payload);
        let mut data = Self { written_ms: take.i64().ok()?, ..Self::default() };
        while !take.is_empty() {
            match take.u8().ok()? {
                PARTITION => data.partitions.push(LargePartition::decode(&mut take).ok()?),
                ROW => {
                    let place = RowPlace::decode(&mut take).ok()?;
                    data.rows.push(LargeRow { place, bytes: take.u64().ok()? });
                }
                CELL => {
                    let place = RowPlace::decode(&mut take).ok()?;
                    let column = std::str::from_utf8(take.u16_bytes().ok()?).ok()?.to_owned();
                    let bytes = take.u64().ok()?;
                    let (is_collection, elements) = (take.u8().ok()? != 0, take.u64().ok()?);
                    let elements = is_collection.then_some(elements);
                    data.cells.push(LargeCell { place, column, bytes, elements });
                }
                _ => return None,
            }
        }
        Some(data)
    }
}

impl LargePartition {
    fn decode(take: &mut Take<'_>) -> Result<Self, Truncated> {
        Ok(Self {
            key: take.u16_bytes()?.to_vec(),
            bytes: take.u64()?,
            rows: take.u64()?,
            dead_rows: take.u64()?,
            range_tombstones: take.u64()?,
        })
    }
}

impl RowPlace {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u16_bytes(out, &self.key);
        let values = self.clustering.as_deref().unwrap_or_default();
        out.push(if self.clustering.is_none() { IS_STATIC } else { 0 });
        out.extend_from_slice(&(values.len() as u16).to_be_bytes());
        values.iter().for_each(|value| {
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(value);
        });
    }

    fn decode(take: &mut Take<'_>) -> Result<Self, Truncated> {
        let key = take.u16_bytes()?.to_vec();
        let is_static = take.u8()? == IS_STATIC;
        let mut values = vec![];
        for _ in 0..take.u16()? {
            values.push(take.u32_bytes()?.to_vec());
        }
        Ok(Self { key, clustering: (!is_static).then_some(values) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places() -> impl Strategy<Value = RowPlace> {
        let values = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..4);
        (prop::collection::vec(any::<u8>(), 0..9), prop::option::of(values))
            .prop_map(|(key, clustering)| RowPlace { key, clustering })
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>) {
            if let Some(data) = LargeData::decode(&bytes) {
                prop_assert!(data.memory_bytes() <= 64 * bytes.len());
            }
        }

        #[test]
        fn values_round_trip(
            written_ms: i64,
            partition in prop::option::of((prop::collection::vec(any::<u8>(), 0..9), any::<[u64; 4]>())),
            row in prop::option::of((places(), any::<u64>())),
            cell in prop::option::of((places(), "[a-zé]{0,6}", any::<u64>(), any::<Option<u64>>())),
        ) {
            let data = LargeData {
                written_ms,
                partitions: partition.into_iter().map(|(key, [bytes, rows, dead_rows, range_tombstones])| {
                    LargePartition { key, bytes, rows, dead_rows, range_tombstones }
                }).collect(),
                rows: row.into_iter().map(|(place, bytes)| LargeRow { place, bytes }).collect(),
                cells: cell.into_iter().map(|(place, column, bytes, elements)| {
                    LargeCell { place, column, bytes, elements }
                }).collect(),
            };
            prop_assert_eq!(LargeData::decode(&data.encode()), Some(data));
        }
    }
}
