//! Errors of decoding a component: the field, its offset, the expected and the found value.
//!
//! A codec decodes a slice and does not know the file, so [`FormatError`] has an offset within that slice.
//! The reader of the file adds the file's name, and for a part of a file shifts the offset with
//! [`FormatError::shifted`]. The most frequent error is a slice that is too short: [`Named::named`] converts
//! a [`Truncated`] into a `FormatError` that names the truncated field.

use std::borrow::Cow;
use std::fmt;

use base::bytes::Truncated;

/// Bytes that do not conform to the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// The field, in the format's terms: "chunk count", "first key".
    pub what: &'static str,
    /// Start of the field, counted from the start of the decoded slice.
    pub offset_bytes: u64,
    /// The value in a correct file.
    pub expected: Cow<'static, str>,
    /// The value in this file.
    pub found: Cow<'static, str>,
}

impl FormatError {
    /// An error about the field `what` at byte `offset_bytes` of the decoded slice.
    pub fn new(
        what: &'static str,
        offset_bytes: usize,
        expected: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { what, offset_bytes: offset_bytes as u64, expected: expected.into(), found: found.into() }
    }

    /// The same error for a slice that began at byte `by_bytes` of its file.
    pub fn shifted(mut self, by_bytes: u64) -> Self {
        self.offset_bytes = self.offset_bytes.saturating_add(by_bytes);
        self
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, offset_bytes, expected, found } = self;
        write!(f, "{what} at byte {offset_bytes}: expected {expected}, found {found}")
    }
}

impl std::error::Error for FormatError {}

/// Adds the name of the truncated field to an error.
pub trait Named<T> {
    fn named(self, what: &'static str) -> Result<T, FormatError>;
}

impl<T> Named<T> for Result<T, Truncated> {
    #[inline]
    fn named(self, what: &'static str) -> Result<T, FormatError> {
        self.map_err(|truncated| cut_off(truncated, what))
    }
}

#[cold]
fn cut_off(truncated: Truncated, what: &'static str) -> FormatError {
    let expected = format!("at least {} more bytes", truncated.missing_bytes);
    FormatError::new(what, truncated.offset_bytes, expected, "the end of the data")
}

/// Checks that `count` items of at least `item_bytes` bytes fit into the remaining bytes, so that the decoder
/// can reserve memory for them. `offset_bytes` is the offset of the count.
pub(crate) fn check_count(
    what: &'static str,
    offset_bytes: usize,
    count: u64,
    item_bytes: usize,
    remaining_bytes: usize,
) -> Result<usize, FormatError> {
    assert!(item_bytes > 0, "an item takes room");
    let most = remaining_bytes / item_bytes;
    match usize::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        _ => Err(FormatError::new(
            what,
            offset_bytes,
            format!("at most {most} (the bytes that are left)"),
            count.to_string(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_a_sentence() {
        let error = base::bytes::Take::new(&[1, 2]).u32().named("chunk count").unwrap_err();
        let text = "chunk count at byte 10: expected at least 2 more bytes, found the end of the data";
        assert_eq!(error.shifted(10).to_string(), text);
    }

    #[test]
    fn a_count_is_bounded_by_the_bytes_left() {
        assert_eq!(check_count("keys", 0, 4, 8, 32), Ok(4));
        assert!(check_count("keys", 0, 5, 8, 39).is_err());
        assert!(check_count("keys", 0, u64::MAX, 1, usize::MAX - 1).is_err());
    }
}
