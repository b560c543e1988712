//! The notations of the specification's §3, such as strings, bytes and lists: decoding and encoding.
//!
//! Reading: a missing field or invalid UTF-8 is a protocol error. Writing never fails: a value too long for
//! its length field is cut, text at a character boundary.

use std::net::{IpAddr, SocketAddr};

use base::bytes::{Take, Truncated};

use super::Consistency;
use crate::CqlError;

/// Names and bytes for an extension of the protocol; clients and servers can send them.
pub type CustomPayload<'a> = Vec<(&'a str, Option<&'a [u8]>)>;

/// The largest length of two bytes.
pub(super) const SHORT_MAX: usize = u16::MAX as usize;

impl From<Truncated> for CqlError {
    #[cold]
    fn from(truncated: Truncated) -> Self {
        let Truncated { offset_bytes, missing_bytes } = truncated;
        Self::Protocol(format!(
            "the message's body is {missing_bytes} bytes too short: a field begins at byte {offset_bytes}"
        ))
    }
}

#[cold]
pub(super) fn protocol_error(text: String) -> CqlError {
    CqlError::Protocol(text)
}

#[inline]
fn utf8<'a>(bytes: &'a [u8], take: &Take<'_>) -> Result<&'a str, CqlError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let start = take.offset() - bytes.len();
        protocol_error(format!("not UTF-8 at byte {} of the message's body", start + error.valid_up_to()))
    })
}

/// `[string]`
#[inline]
pub(super) fn string<'a>(take: &mut Take<'a>) -> Result<&'a str, CqlError> {
    utf8(take.u16_bytes()?, take)
}

/// `[long string]`
#[inline]
pub(super) fn long_string<'a>(take: &mut Take<'a>) -> Result<&'a str, CqlError> {
    let len = take.i32()?;
    let len = usize::try_from(len).map_err(|_| protocol_error(format!("a string of {len} bytes")))?;
    utf8(take.bytes(len)?, take)
}

/// `[bytes]`: null for any negative length.
#[inline]
pub(super) fn bytes<'a>(take: &mut Take<'a>) -> Result<Option<&'a [u8]>, CqlError> {
    match usize::try_from(take.i32()?) {
        Ok(len) => Ok(Some(take.bytes(len)?)),
        Err(_) => Ok(None),
    }
}

#[inline]
pub(super) fn consistency(take: &mut Take<'_>) -> Result<Consistency, CqlError> {
    let code = take.u16()?;
    Consistency::from_code(code)
        .ok_or_else(|| protocol_error(format!("unknown consistency level {code}; there are 0 to 10")))
}

/// Reads a `[short]` count. Also returns a capacity: the count, or fewer if the rest of the message cannot
/// hold as many elements of `each_bytes`.
#[inline]
pub(super) fn counted(take: &mut Take<'_>, each_bytes: usize) -> Result<(usize, usize), CqlError> {
    let count = usize::from(take.u16()?);
    Ok((count, count.min(take.remaining() / each_bytes)))
}

/// `[bytes map]`
pub(super) fn bytes_map<'a>(take: &mut Take<'a>) -> Result<CustomPayload<'a>, CqlError> {
    let (count, capacity) = counted(take, 6)?;
    let mut map = Vec::with_capacity(capacity);
    for _ in 0..count {
        map.push((string(take)?, bytes(take)?));
    }
    Ok(map)
}

/// `[string list]`
pub(super) fn string_list(take: &mut Take<'_>) -> Result<Vec<String>, CqlError> {
    let (count, capacity) = counted(take, 2)?;
    let mut list = Vec::with_capacity(capacity);
    for _ in 0..count {
        list.push(string(take)?.to_owned());
    }
    Ok(list)
}

/// The longest prefix of `text` with at most `bytes_max` bytes that ends at a character boundary.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[inline]
pub(super) fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub(super) fn put_i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Writes a `[short]` count and returns it, limited to `SHORT_MAX`. The caller writes no more elements than
/// this.
pub(super) fn put_count(out: &mut Vec<u8>, count: usize) -> usize {
    let count = count.min(SHORT_MAX);
    put_u16(out, count as u16);
    count
}

/// `[string]`
pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    put_short_bytes(out, cut(text, SHORT_MAX).as_bytes());
}

/// `[long string]`, of at most 2 GiB.
pub(super) fn put_long_string(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, Some(cut(text, i32::MAX as usize).as_bytes()));
}

/// `[short bytes]`
#[inline]
pub(super) fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(SHORT_MAX)];
    put_u16(out, bytes.len() as u16);
    out.extend_from_slice(bytes);
}

/// `[bytes]`. A message with more than 2 GiB is refused when its envelope is completed.
#[inline]
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            out.reserve(4 + bytes.len());
            put_i32(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
        None => put_i32(out, -1),
    }
}

pub(super) fn put_string_list<S: AsRef<str>>(out: &mut Vec<u8>, list: &[S]) {
    let count = put_count(out, list.len());
    list[..count].iter().for_each(|text| put_string(out, text.as_ref()));
}

pub(super) fn put_bytes_map<S: AsRef<str>, B: AsRef<[u8]>>(out: &mut Vec<u8>, map: &[(S, Option<B>)]) {
    let count = put_count(out, map.len());
    for (name, value) in &map[..count] {
        put_string(out, name.as_ref());
        put_bytes(out, value.as_ref().map(AsRef::as_ref));
    }
}

/// `[inetaddr]`
pub(super) fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            out.push(4);
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(16);
            out.extend_from_slice(&v6.octets());
        }
    }
}

/// `[inet]`
pub(super) fn put_inet(out: &mut Vec<u8>, node: SocketAddr) {
    put_address(out, node.ip());
    put_i32(out, i32::from(node.port()));
}
