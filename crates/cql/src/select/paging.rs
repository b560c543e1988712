//! The paging state: the place where the next page of a SELECT starts, as bytes that the client keeps.
//!
//! ```text
//! u8   version, 4
//! u8   1: inside a partition; 0: after it
//! u64  the read's id, big-endian
//! vint rows that LIMIT still allows
//! vint length of the partition's key, and the key
//!      inside a partition:
//! vint live rows that storage has returned from it
//! vint rows or groups of the result that it has contributed
//! vint null values at the end of the clustering key of the last row that was read
//!      the other values of this key, to the end
//! ```
//!
//! The bytes come back from the client. A state that does not belong to the statement is refused.

use base::bytes::Take;
use base::vint;
use model::{ClusteringPrefix, PartitionKey, TableSchema};
use protocol::CqlError;
use reader::{PagePlace, PagingState, UnfinishedPartition};

const VERSION: u8 = 4;

/// The place where the next page of a statement's result starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPlace {
    /// Position at which storage continues. `remaining_rows` is the number of result rows that LIMIT still
    /// allows.
    pub storage: PagingState,
    /// Rows or groups of the result that an unfinished partition has contributed, for PER PARTITION LIMIT.
    /// Storage has a count of its own, before filters and groups.
    pub partition_rows: u64,
}

/// Encodes a paging state.
pub fn encode(place: &ResultPlace) -> Vec<u8> {
    let PagingState { place: at, remaining_rows, read_id } = &place.storage;
    let unfinished = at.unfinished();
    let row = unfinished.map_or(&[][..], |unfinished| unfinished.last_row.as_bytes());
    let mut out = Vec::with_capacity(at.key().bytes().len() + row.len() + 32);
    out.extend_from_slice(&[VERSION, u8::from(unfinished.is_some())]);
    out.extend_from_slice(&read_id.to_be_bytes());
    vint::write_unsigned(&mut out, *remaining_rows);
    base::bytes::put_vint_bytes(&mut out, at.key().bytes());
    if let Some(unfinished) = unfinished {
        vint::write_unsigned(&mut out, unfinished.shown_rows);
        vint::write_unsigned(&mut out, place.partition_rows);
        let nulls = unfinished.last_row.len() - unfinished.last_row.values().count();
        vint::write_unsigned(&mut out, nulls as u64);
        out.extend_from_slice(row);
    }
    out
}

/// Decodes a paging state.
///
/// # Errors
/// The bytes are not a result of [`encode`] for this table.
pub fn decode(bytes: &[u8], schema: &TableSchema) -> Result<ResultPlace, CqlError> {
    parse(bytes, schema).ok_or_else(invalid_state)
}

/// The error for a paging state that does not belong to the statement.
pub fn invalid_state() -> CqlError {
    CqlError::Protocol("Invalid value for the paging state".to_string())
}

fn parse(bytes: &[u8], schema: &TableSchema) -> Option<ResultPlace> {
    let mut take = Take::new(bytes);
    if take.u8().ok()? != VERSION {
        return None;
    }
    let is_inside = match take.u8().ok()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let read_id = take.u64().ok()?;
    let remaining_rows = take.vint().ok()?;
    let key = take.vint_bytes().ok()?;
    if key.is_empty() || key.len() > crate::key::KEY_BYTES_MAX {
        return None;
    }
    let key = PartitionKey::new(key);
    let (place, partition_rows) = if is_inside {
        let (shown_rows, partition_rows) = (take.vint().ok()?, take.vint().ok()?);
        let nulls = usize::try_from(take.vint().ok()?).ok()?;
        let last_row = ClusteringPrefix::from_bytes(take.rest()).ok()?;
        if last_row.len().checked_add(nulls)? != schema.clustering.len() {
            return None;
        }
        let last_row = last_row.padded(schema.clustering.len());
        (PagePlace::Inside(UnfinishedPartition { key, last_row, shown_rows }), partition_rows)
    } else if take.is_empty() {
        (PagePlace::AfterPartition(key), 0)
    } else {
        return None;
    };
    Some(ResultPlace { storage: PagingState { place, remaining_rows, read_id }, partition_rows })
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;

    use super::*;

    #[test]
    fn states_come_back_and_garbage_is_refused() {
        let schema = &model::sample::tables()[2];
        let row = ClusteringPrefix::new([&[0, 0, 0, 1][..], b"x"]);
        let key = PartitionKey::new("key");
        let unfinished = UnfinishedPartition { key: key.clone(), last_row: row, shown_rows: 300 };
        let storage =
            PagingState { place: PagePlace::Inside(unfinished), remaining_rows: u64::MAX, read_id: 5 };
        let state = ResultPlace { storage, partition_rows: 3 };
        let bytes = encode(&state);
        assert_eq!(decode(&bytes, schema), Ok(state.clone()));
        let storage = PagingState { place: PagePlace::AfterPartition(key), ..state.storage };
        let done = ResultPlace { storage, partition_rows: 0 };
        assert_eq!(decode(&encode(&done), schema), Ok(done));
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len], schema), Err(invalid_state()), "{len} bytes");
        }
        let mut rng = Rng::new(7);
        for _ in 0..10_000 {
            let mut garbage = bytes.clone();
            let at = rng.index(garbage.len());
            garbage[at] = rng.next_u64() as u8;
            let _ = decode(&garbage, schema);
        }
    }
}
