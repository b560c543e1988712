//! Merges the headers of several SSTables into the header of one table that has all their columns.

use std::fmt;

use runtime::{Files, IoClass};

use super::sstable_path::SSTablePath;
use crate::component::statistics::{DeltaBases, HeaderColumn, SerializationHeader, Statistics};
use crate::name::Component;
use crate::read::SSTableError;

/// The longest Statistics.db in bytes that is read; histograms and a key sketch take some tens of kilobytes.
const STATISTICS_BYTES_MAX: u64 = 64 << 20;

/// The contradiction between SSTables that cannot be of the same table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderConflict {
    /// The part in which they differ: "the partition key", "column v".
    pub what: String,
    /// The type in the SSTables before the one at `index`.
    pub before: String,
    /// The type in the SSTable at `index`.
    pub here: String,
    /// Index of the conflicting SSTable among those given.
    pub index: usize,
}

impl fmt::Display for HeaderConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {} here and {} in the SSTables before it", self.what, self.here, self.before)
    }
}

impl std::error::Error for HeaderConflict {}

/// Reads Statistics.db only.
pub async fn read_statistics(files: &Files, place: &SSTablePath) -> Result<Statistics, SSTableError> {
    let file = place.path(&Component::Statistics);
    let bytes = match files.read_all(&file, IoClass::Maintenance, STATISTICS_BYTES_MAX).await {
        Err(error) if error.is_not_found() => return Err(SSTableError::Missing { file }),
        other => other?,
    };
    Statistics::decode(&bytes, place.name.version).map_err(|error| SSTableError::Format { file, error })
}

/// A header with every column of `headers`, or the contradiction between them. `None` if there are no
/// headers.
pub fn merged_header<'a>(
    headers: impl IntoIterator<Item = &'a SerializationHeader>,
) -> Result<Option<SerializationHeader>, HeaderConflict> {
    let mut merged: Option<SerializationHeader> = None;
    for (index, header) in headers.into_iter().enumerate() {
        let Some(merged) = &mut merged else {
            merged = Some(SerializationHeader { bases: DeltaBases::NONE, ..header.clone() });
            continue;
        };
        let conflict = |what: String, before: &str, here: &str| {
            Err(HeaderConflict { what, before: before.to_owned(), here: here.to_owned(), index })
        };
        if merged.key_type != header.key_type {
            return conflict("the partition key".to_owned(), &merged.key_type, &header.key_type);
        }
        if merged.clustering_types != header.clustering_types {
            let list = |types: &[String]| format!("({})", types.join(", "));
            let (before, here) = (list(&merged.clustering_types), list(&header.clustering_types));
            return conflict("the clustering key".to_owned(), &before, &here);
        }
        let kinds = [
            (&mut merged.static_columns, &header.static_columns),
            (&mut merged.regular_columns, &header.regular_columns),
        ];
        for (known, columns) in kinds {
            for column in columns {
                match known.iter().find(|other| other.name == column.name) {
                    None => add(known, column),
                    Some(same) if same.type_name == column.type_name => {}
                    Some(other) => {
                        let name = format!("column {}", String::from_utf8_lossy(&column.name));
                        return conflict(name, &other.type_name, &column.type_name);
                    }
                }
            }
        }
    }
    Ok(merged)
}

fn add(known: &mut Vec<HeaderColumn>, column: &HeaderColumn) {
    let at = known.partition_point(|other| other.name < column.name);
    known.insert(at, column.clone());
}
