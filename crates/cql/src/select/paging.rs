//! Where the next page of a SELECT begins, as the bytes that a client keeps for it.
//!
//! ```text
//! u8   version, 2
//! u8   1: a row follows; 0: the partition is done
//! u64  the read, big-endian
//! vint rows that LIMIT still allows
//! vint rows of the partition that were returned
//! vint length of the partition's key, and the key
//!      the row's clustering key, to the end
//! ```
//!
//! The bytes come back from outside: what does not belong to the statement is refused.

use base::bytes::Take;
use base::vint;
use model::{ClusteringPrefix, PartitionKey, TableSchema};
use reader::PagingState;

use crate::CqlError;

const VERSION: u8 = 2;

pub fn encode(state: &PagingState) -> Vec<u8> {
    let row = state.row.as_ref().map_or(&[][..], |row| row.as_bytes());
    let mut out = Vec::with_capacity(state.key.bytes().len() + row.len() + 24);
    out.extend_from_slice(&[VERSION, u8::from(state.row.is_some())]);
    out.extend_from_slice(&state.read_id.to_be_bytes());
    vint::write_unsigned(&mut out, state.remaining_rows);
    vint::write_unsigned(&mut out, state.partition_rows);
    base::bytes::put_vint_bytes(&mut out, state.key.bytes());
    out.extend_from_slice(row);
    out
}

/// # Errors
/// Not what [`encode`] made for a statement on this table.
pub fn decode(bytes: &[u8], schema: &TableSchema) -> Result<PagingState, CqlError> {
    parse(bytes, schema).ok_or_else(invalid_state)
}

pub fn invalid_state() -> CqlError {
    CqlError::Invalid("Invalid value for the paging state".to_string())
}

fn parse(bytes: &[u8], schema: &TableSchema) -> Option<PagingState> {
    let mut take = Take::new(bytes);
    if take.u8().ok()? != VERSION {
        return None;
    }
    let has_row = match take.u8().ok()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let read_id = take.u64().ok()?;
    let remaining_rows = take.vint().ok()?;
    let partition_rows = take.vint().ok()?;
    let key = take.vint_bytes().ok()?;
    if key.is_empty() || key.len() > crate::restriction::key::KEY_BYTES_MAX {
        return None;
    }
    let row = match has_row {
        true => {
            let row = ClusteringPrefix::from_bytes(take.rest()).ok()?;
            Some(row).filter(|row| row.len() == schema.clustering.len())
        }
        false => None,
    };
    if has_row != row.is_some() || (!has_row && !take.is_empty()) {
        return None;
    }
    Some(PagingState { key: PartitionKey::new(key), row, partition_rows, remaining_rows, read_id })
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;

    use super::*;

    #[test]
    fn states_come_back_and_garbage_is_refused() {
        let schema = &model::sample::tables()[2];
        let row = ClusteringPrefix::new([&[0, 0, 0, 1][..], b"x"]);
        let state = PagingState {
            key: PartitionKey::new("key"),
            row: Some(row),
            partition_rows: 3,
            remaining_rows: u64::MAX,
            read_id: 5,
        };
        let bytes = encode(&state);
        assert_eq!(decode(&bytes, schema), Ok(state.clone()));
        let done = PagingState { row: None, ..state };
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
