//! A deletion time as partitions and index entries store it in versions mc to nb: 12 bytes.
//!
//! Layout: i32 local deletion time in seconds, then i64 marked-for-delete-at in microseconds. Nothing deleted
//! is written as the largest local time and the smallest timestamp.

use base::bytes::{Take, Truncated};

/// Written where no deletion happened, and by cells that do not expire.
pub const NO_DELETION_TIME_S: i32 = i32::MAX;

/// When something was deleted, by the client's clock and by ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionTime {
    /// Data written at or before this is deleted: the client's timestamp.
    pub marked_for_delete_at_us: i64,
    /// When the server learnt of it, in seconds since 1970; gc grace counts from here.
    pub local_deletion_time_s: i32,
}

impl DeletionTime {
    pub const SIZE_BYTES: usize = 12;

    /// Nothing is deleted.
    pub const LIVE: Self =
        Self { marked_for_delete_at_us: i64::MIN, local_deletion_time_s: NO_DELETION_TIME_S };

    pub fn is_live(&self) -> bool {
        *self == Self::LIVE
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.local_deletion_time_s.to_be_bytes());
        out.extend_from_slice(&self.marked_for_delete_at_us.to_be_bytes());
    }

    pub fn decode(take: &mut Take<'_>) -> Result<Self, Truncated> {
        let bytes = take.array::<{ Self::SIZE_BYTES }>()?;
        let (local, marked) = bytes.split_at(4);
        Ok(Self {
            local_deletion_time_s: i32::from_be_bytes(local.try_into().expect("4 bytes")),
            marked_for_delete_at_us: i64::from_be_bytes(marked.try_into().expect("8 bytes")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mut out = vec![];
        DeletionTime::LIVE.encode(&mut out);
        assert_eq!(out, [0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        let deleted = DeletionTime { marked_for_delete_at_us: -2, local_deletion_time_s: 5 };
        deleted.encode(&mut out);
        let mut take = Take::new(&out);
        assert!(DeletionTime::decode(&mut take).unwrap().is_live());
        assert_eq!(DeletionTime::decode(&mut take), Ok(deleted));
        assert!(DeletionTime::decode(&mut take).is_err());
    }
}
