//! Decoding of big-endian integers and length-prefixed strings from a slice. A slice that is too short is an
//! error and never a panic.

use std::fmt;

use crate::vint;

/// The slice ended before the value did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Offset in the slice at which the value starts.
    pub offset_bytes: usize,
    /// The minimal number of missing bytes.
    pub missing_bytes: usize,
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ends {} bytes too early, at byte {}", self.missing_bytes, self.offset_bytes)
    }
}

impl std::error::Error for Truncated {}

/// A cursor over borrowed bytes. Each method that takes a value advances the cursor, or fails with
/// [`Truncated`] and leaves it unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Take<'a> {
    /// A reader of `bytes` from their start.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Number of bytes taken so far.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of bytes not taken yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// Whether every byte was taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The bytes that have not been taken yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.offset..]
    }

    /// Takes `len` bytes.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Truncated> {
        match self.rest().get(..len) {
            Some(taken) => {
                self.offset += len;
                Ok(taken)
            }
            None => Err(Truncated { offset_bytes: self.offset, missing_bytes: len - self.remaining() }),
        }
    }

    /// Takes `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let taken = self.bytes(N)?;
        Ok(taken.try_into().expect("bytes(N) gives N bytes"))
    }

    /// Takes one byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Takes a big-endian u16.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_be_bytes)
    }

    /// Takes a big-endian u32.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes a big-endian u64.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes a big-endian i32.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, Truncated> {
        self.array().map(i32::from_be_bytes)
    }

    /// Takes a big-endian i64.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, Truncated> {
        self.array().map(i64::from_be_bytes)
    }

    /// Takes a big-endian f64.
    #[inline]
    pub fn f64(&mut self) -> Result<f64, Truncated> {
        self.array().map(f64::from_be_bytes)
    }

    /// Takes an unsigned vint.
    #[inline]
    pub fn vint(&mut self) -> Result<u64, Truncated> {
        match vint::read_unsigned(self.rest()) {
            Some((value, len)) => {
                self.offset += len;
                Ok(value)
            }
            None => Err(Truncated { offset_bytes: self.offset, missing_bytes: 1 }),
        }
    }

    /// Takes a zigzag-encoded vint.
    #[inline]
    pub fn vint_signed(&mut self) -> Result<i64, Truncated> {
        self.vint().map(vint::unzigzag)
    }

    /// Takes a vint length and that number of bytes.
    #[inline]
    pub fn vint_bytes(&mut self) -> Result<&'a [u8], Truncated> {
        let before = self.offset;
        let len = self.vint()?;
        let taken = usize::try_from(len).ok().and_then(|len| self.bytes(len).ok());
        taken.ok_or_else(|| {
            let missing_bytes = usize::try_from(len).unwrap_or(usize::MAX).saturating_sub(self.remaining());
            self.offset = before;
            Truncated { offset_bytes: before, missing_bytes }
        })
    }

    /// Takes a u16 length and that number of bytes.
    #[inline]
    pub fn u16_bytes(&mut self) -> Result<&'a [u8], Truncated> {
        let before = self.offset;
        let len = usize::from(self.u16()?);
        self.bytes(len).inspect_err(|_| self.offset = before)
    }

    /// Takes a u32 length and that number of bytes.
    #[inline]
    pub fn u32_bytes(&mut self) -> Result<&'a [u8], Truncated> {
        let before = self.offset;
        let len = self.u32()? as usize;
        self.bytes(len).inspect_err(|_| self.offset = before)
    }
}

/// Appends a vint length and the bytes.
#[inline]
pub fn put_vint_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    vint::write_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a u16 length and the bytes. Panics if they are more than 65,535.
#[inline]
pub fn put_u16_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("the caller bounds what has a u16 length");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_take_moves_nothing() {
        let mut take = Take::new(&[0, 3, 1, 2]);
        assert_eq!(take.u16_bytes(), Err(Truncated { offset_bytes: 2, missing_bytes: 1 }));
        assert_eq!(take.offset(), 0);
        assert_eq!(take.u16(), Ok(3));
        assert_eq!(take.rest(), &[1, 2]);
        assert!(take.u32().is_err());
        assert_eq!(take.bytes(2), Ok(&[1u8, 2][..]));
        assert!(take.is_empty());
        let mut take = Take::new(&[0xff; 9]);
        assert!(take.vint_bytes().is_err(), "a length of 2^64-1 is an error");
        assert_eq!(take.offset(), 0);
    }
}
