//! The deletion time of partitions and index entries.
//!
//! ```text
//! mc to nb: i32 local deletion time in seconds, i64 marked-for-delete-at in microseconds;
//!           nothing deleted is the largest local time and the smallest timestamp
//! oa, da:   80 if nothing is deleted, else i64 marked-for-delete-at (not negative), u32 local deletion time
//! ```
//! In memory a local deletion time is an `i32`, as in the versions that Messina writes. A time after 2038,
//! which only `oa` and `da` can store, wraps to a negative number and is correct when read as unsigned. The
//! one second that equals [`NO_DELETION_TIME_S`] in 31 bits becomes the second before.

use base::bytes::Take;

use crate::component::{FormatError, Named};
use crate::version::Version;

/// Stored if nothing is deleted, and for cells that do not expire.
pub const NO_DELETION_TIME_S: i32 = i32::MAX;

/// The first byte if nothing is deleted, from version oa on.
const LIVE_BYTE: u8 = 0x80;

/// The time of a deletion, by the client's clock and by the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionTime {
    /// The client's timestamp in microseconds. Data with this or a smaller timestamp are deleted.
    pub marked_for_delete_at_us: i64,
    /// Time at which the server received the deletion, in seconds since 1970. `gc_grace_seconds` counts from
    /// here.
    pub local_deletion_time_s: i32,
}

impl DeletionTime {
    /// The longest encoding in bytes.
    pub const SIZE_BYTES_MAX: usize = 12;

    /// Nothing is deleted.
    pub const LIVE: Self =
        Self { marked_for_delete_at_us: i64::MIN, local_deletion_time_s: NO_DELETION_TIME_S };

    /// Whether nothing is deleted.
    pub fn is_live(&self) -> bool {
        *self == Self::LIVE
    }

    /// Appends the encoding of the versions that Messina writes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.local_deletion_time_s.to_be_bytes());
        out.extend_from_slice(&self.marked_for_delete_at_us.to_be_bytes());
    }

    /// Reads the encoding of `version`. `what` names the field in errors.
    #[inline]
    pub fn decode(take: &mut Take<'_>, version: Version, what: &'static str) -> Result<Self, FormatError> {
        if version.has_uint_deletion_time() {
            return Self::decode_uint(take, what);
        }
        let bytes = take.array::<{ Self::SIZE_BYTES_MAX }>().named(what)?;
        let (local, marked) = bytes.split_at(4);
        Ok(Self {
            local_deletion_time_s: i32::from_be_bytes(local.try_into().expect("4 bytes")),
            marked_for_delete_at_us: i64::from_be_bytes(marked.try_into().expect("8 bytes")),
        })
    }

    fn decode_uint(take: &mut Take<'_>, what: &'static str) -> Result<Self, FormatError> {
        let at = take.offset();
        let mut ahead = *take;
        let first = ahead.u8().named(what)?;
        if first == LIVE_BYTE {
            *take = ahead;
            return Ok(Self::LIVE);
        }
        if first & LIVE_BYTE != 0 {
            let expected = "80, or a timestamp that is not negative";
            return Err(FormatError::new(what, at, expected, format!("{first:02x}")));
        }
        let marked_for_delete_at_us = take.i64().named(what)?;
        let local_deletion_time_s = local_time_of_u32(take.u32().named(what)?);
        Ok(Self { marked_for_delete_at_us, local_deletion_time_s })
    }
}

/// Converts a local deletion time of version oa to the form in memory.
pub(crate) fn local_time_of_u32(stored_s: u32) -> i32 {
    match stored_s {
        u32::MAX => NO_DELETION_TIME_S,
        0x7fff_ffff => NO_DELETION_TIME_S - 1,
        other => other as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: &str = "deletion";

    #[test]
    fn golden_bytes() {
        let mut out = vec![];
        DeletionTime::LIVE.encode(&mut out);
        assert_eq!(out, [0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        let deleted = DeletionTime { marked_for_delete_at_us: -2, local_deletion_time_s: 5 };
        deleted.encode(&mut out);
        let mut take = Take::new(&out);
        assert!(DeletionTime::decode(&mut take, Version::Nb, WHAT).unwrap().is_live());
        assert_eq!(DeletionTime::decode(&mut take, Version::Nb, WHAT), Ok(deleted));
        assert!(DeletionTime::decode(&mut take, Version::Nb, WHAT).is_err());
    }

    #[test]
    fn golden_bytes_since_oa() {
        let bytes = [0x80, 0, 0, 0, 0, 0, 0, 0, 7, 0xf0, 0, 0, 1];
        let mut take = Take::new(&bytes);
        assert!(DeletionTime::decode(&mut take, Version::Oa, WHAT).unwrap().is_live());
        let far = DeletionTime::decode(&mut take, Version::Da, WHAT).unwrap();
        assert_eq!((far.marked_for_delete_at_us, far.local_deletion_time_s as u32), (7, 0xf000_0001));
        assert!(take.is_empty());
        for wrong in [&[0x81u8][..], &[0xff; 12], &[], &bytes[1..12]] {
            assert!(DeletionTime::decode(&mut Take::new(wrong), Version::Oa, WHAT).is_err(), "{wrong:?}");
        }
        assert_eq!(local_time_of_u32(u32::MAX), NO_DELETION_TIME_S);
    }
}
