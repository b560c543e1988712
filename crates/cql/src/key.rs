//! Keys: validates the values and serializes them.

use model::key::composite_key;
use model::types::CqlType;
use model::{ClusteringPrefix, PartitionKey, TableSchema};
use protocol::CqlError;

use crate::error::invalid;

/// Largest length of a partition key, and of all values of a clustering key together, in bytes.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Builds a partition key. `values` has one value for each partition key column.
///
/// # Errors
/// The key is empty or longer than [`KEY_BYTES_MAX`].
#[inline]
pub fn partition_key(schema: &TableSchema, values: &[impl AsRef<[u8]>]) -> Result<PartitionKey, CqlError> {
    let key = maybe_empty_partition_key(schema, values)?;
    check_not_empty(&key)?;
    Ok(key)
}

/// Checks that a key which [`maybe_empty_partition_key`] returned is not empty.
#[inline]
pub fn check_not_empty(key: &PartitionKey) -> Result<(), CqlError> {
    if key.bytes().is_empty() {
        return invalid!("Key may not be empty");
    }
    Ok(())
}

/// As [`partition_key`], but the key of a single column may be empty: a SELECT with such a key is valid if
/// its clustering restrictions select nothing.
#[inline]
pub fn maybe_empty_partition_key(
    schema: &TableSchema,
    values: &[impl AsRef<[u8]>],
) -> Result<PartitionKey, CqlError> {
    debug_assert_eq!(schema.partition_key.len(), values.len());
    if let [value] = values {
        let value = value.as_ref();
        check_length(value.len())?;
        return Ok(PartitionKey::new(value));
    }
    // As in Cassandra, a column that is too long by itself is reported with its own length.
    values.iter().try_for_each(|value| check_length(value.as_ref().len()))?;
    check_length(values.iter().map(|value| value.as_ref().len() + 3).sum())?;
    Ok(PartitionKey::new(composite_key(values.iter().map(AsRef::as_ref)).as_slice()))
}

#[inline]
fn check_length(len: usize) -> Result<(), CqlError> {
    if len > KEY_BYTES_MAX {
        return invalid!("Key length of {len} is longer than maximum of {KEY_BYTES_MAX}");
    }
    Ok(())
}

/// Builds a prefix of a clustering key from its first values, or the key of a row from all of them.
///
/// # Errors
/// A value is empty although its type does not allow that, or the values together are longer than
/// [`KEY_BYTES_MAX`].
#[inline]
pub fn clustering_prefix(
    schema: &TableSchema,
    values: &[impl AsRef<[u8]>],
) -> Result<ClusteringPrefix, CqlError> {
    let mut len = 0;
    for (value, column) in values.iter().zip(&schema.clustering) {
        let value = value.as_ref();
        len += value.len();
        if value.is_empty() && matches!(column.ty.without_reversed(), CqlType::Vector { .. }) {
            return invalid!("Invalid empty value for clustering column {}", column.name);
        }
    }
    check_length(len)?;
    Ok(ClusteringPrefix::new(values.iter().map(AsRef::as_ref)))
}
