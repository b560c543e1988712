//! The bytes between Java and this library: big-endian, as `DataInput` and `DataOutput` of Java read and
//! write them. A byte string is its length as an i32, then the bytes; -1 stands for none.

use std::fmt;

use base::bytes::{Take, Truncated};
use compaction::{Plan, Split};
use model::RingPosition;

/// Why bytes from Java were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The bytes end too early.
    Truncated(Truncated),
    /// A value that the field cannot have.
    Value {
        /// The field.
        field: &'static str,
        /// The value.
        value: i64,
    },
    /// A text that is not UTF-8.
    Text(&'static str),
    /// There are more bytes than the message needs.
    Excess(usize),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(truncated) => write!(f, "the message {truncated}"),
            Self::Value { field, value } => write!(f, "the message has {field} = {value}"),
            Self::Text(field) => write!(f, "{field} is not UTF-8"),
            Self::Excess(bytes) => write!(f, "{bytes} bytes follow the message"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<Truncated> for WireError {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated(truncated)
    }
}

/// Reads a message.
pub struct Input<'a> {
    take: Take<'a>,
}

impl<'a> Input<'a> {
    /// A reader of the whole message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { take: Take::new(bytes) }
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.take.u8()?)
    }

    /// A signed integer of 64 bits.
    pub fn i64(&mut self) -> Result<i64, WireError> {
        Ok(self.take.i64()?)
    }

    /// A double.
    pub fn f64(&mut self) -> Result<f64, WireError> {
        Ok(self.take.f64()?)
    }

    /// A 64-bit integer that must not be negative.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        let value = self.i64()?;
        u64::try_from(value).map_err(|_| WireError::Value { field, value })
    }

    /// A 32-bit integer that must not be negative.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        let value = self.take.i32()?;
        u32::try_from(value).map_err(|_| WireError::Value { field, value: value.into() })
    }

    /// A 64-bit integer, moved into the range of a u32.
    pub fn clamped_u32(&mut self) -> Result<u32, WireError> {
        let value = self.i64()?;
        Ok(value.clamp(0, u32::MAX.into()) as u32)
    }

    /// An id of 128 bits.
    pub fn u128(&mut self) -> Result<u128, WireError> {
        Ok(self.take.array().map(u128::from_be_bytes)?)
    }

    /// A number of elements, each at least `least_bytes` long, so that no list needs more memory than a small
    /// multiple of the message.
    pub fn count(&mut self, field: &'static str, least_bytes: usize) -> Result<usize, WireError> {
        let count = self.u32(field)? as usize;
        if count > self.take.remaining() / least_bytes.max(1) {
            return Err(WireError::Value { field, value: count as i64 });
        }
        Ok(count)
    }

    /// A byte string; `None` for -1.
    pub fn bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        let value = self.take.i32()?;
        if value == -1 {
            return Ok(None);
        }
        let len = usize::try_from(value).map_err(|_| WireError::Value { field, value: value.into() })?;
        Ok(Some(self.take.bytes(len)?))
    }

    /// A text, which must be there.
    pub fn text(&mut self, field: &'static str) -> Result<String, WireError> {
        let bytes = self.bytes(field)?.unwrap_or_default();
        String::from_utf8(bytes.to_vec()).map_err(|_| WireError::Text(field))
    }

    /// Nothing may follow.
    pub fn end(self) -> Result<(), WireError> {
        match self.take.remaining() {
            0 => Ok(()),
            bytes => Err(WireError::Excess(bytes)),
        }
    }
}

/// Writes a message.
#[derive(Default)]
pub struct Output {
    bytes: Vec<u8>,
}

impl Output {
    /// The message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// A signed integer of 64 bits.
    pub fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// An integer that Java reads as a `long`; larger ones become its maximum.
    pub fn u64(&mut self, value: u64) {
        self.i64(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// A number that Java reads as an `int`.
    pub fn count(&mut self, value: usize) {
        let value = i32::try_from(value).unwrap_or(i32::MAX);
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// An id of 128 bits.
    pub fn u128(&mut self, value: u128) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// A byte string.
    pub fn byte_string(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }
}

const SPLIT_NOWHERE: u8 = 0;
const SPLIT_TOKENS: u8 = 1;
const SPLIT_WINDOWS: u8 = 2;
const SPLIT_RUNS: u8 = 3;

/// Writes a plan with the number by which Java reports its end.
pub fn write_plan(out: &mut Output, number: u64, plan: &Plan) {
    out.u64(number);
    for ids in [&plan.inputs, &plan.expired] {
        out.count(ids.len());
        ids.iter().for_each(|id| out.u64(id.0));
    }
    let layout = &plan.layout;
    out.count(layout.level as usize);
    out.i64(layout.max_bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)));
    out.u8(layout.is_run.into());
    match &layout.split {
        Split::Nowhere => out.u8(SPLIT_NOWHERE),
        Split::Tokens(tokens) => {
            out.u8(SPLIT_TOKENS);
            out.count(tokens.len());
            tokens.iter().for_each(|token| out.i64(*token));
        }
        Split::Windows { window_us, windows_max } => {
            out.u8(SPLIT_WINDOWS);
            out.i64(*window_us);
            out.count(*windows_max);
        }
        Split::Runs(pieces) => {
            out.u8(SPLIT_RUNS);
            out.count(pieces.len());
            for piece in pieces {
                write_position(out, &piece.end);
                out.u128(piece.run.0);
            }
        }
    }
    out.u8(plan.release_early.into());
    out.byte_string(plan.reason.to_string().as_bytes());
}

/// A position: whether it is after its token or key, then the key, or the token after the length -1.
fn write_position(out: &mut Output, position: &RingPosition) {
    let (is_after, key) = match position {
        RingPosition::BeforeToken(_) => (false, None),
        RingPosition::AfterToken(_) => (true, None),
        RingPosition::BeforeKey(key) => (false, Some(key)),
        RingPosition::AfterKey(key) => (true, Some(key)),
    };
    out.u8(is_after.into());
    match key {
        Some(key) => out.byte_string(key.bytes()),
        None => {
            out.bytes.extend_from_slice(&(-1i32).to_be_bytes());
            out.i64(position.token());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_damage_has_its_error() {
        assert!(matches!(Input::new(&[1, 2]).i64(), Err(WireError::Truncated(_))));
        assert_eq!(
            Input::new(&(-5i64).to_be_bytes()).u64("size"),
            Err(WireError::Value { field: "size", value: -5 })
        );
        let many = [&i32::MAX.to_be_bytes()[..], &[0; 8]].concat();
        assert!(matches!(Input::new(&many).count("SSTables", 8), Err(WireError::Value { .. })));
        assert_eq!(Input::new(&(-1i32).to_be_bytes()).bytes("sketch"), Ok(None));
        assert!(Input::new(&(-2i32).to_be_bytes()).bytes("sketch").is_err());
        assert!(matches!(Input::new(&[0, 0, 0, 9, 1]).bytes("key"), Err(WireError::Truncated(_))));
        assert_eq!(Input::new(&[0, 0, 0, 1, 0xff]).text("option"), Err(WireError::Text("option")));
        assert_eq!(Input::new(&[0]).end(), Err(WireError::Excess(1)));
    }
}
