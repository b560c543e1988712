//! What is wrong with a component's bytes: where, what stood there, and what should have.
//!
//! A codec sees a slice and no file, so [`FormatError`] carries an offset within that slice; whoever read the
//! file adds its name (and, for a part of a file, shifts the offset with [`FormatError::shifted`]).
//! Running out of bytes is the commonest case: [`Named::named`] turns a [`Truncated`] into a `FormatError`
//! that says which field was cut.

use std::borrow::Cow;
use std::fmt;

use base::bytes::Truncated;

/// Bytes that are not what the format says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// The field, in the format's terms: "chunk count", "first key".
    pub what: &'static str,
    /// Where the field starts, counted from the start of the slice that was decoded.
    pub offset_bytes: u64,
    /// What a correct file has there.
    pub expected: Cow<'static, str>,
    /// What this one has.
    pub found: Cow<'static, str>,
}

impl FormatError {
    pub fn new(
        what: &'static str,
        offset_bytes: usize,
        expected: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { what, offset_bytes: offset_bytes as u64, expected: expected.into(), found: found.into() }
    }

    /// The same error for a slice that began `by_bytes` into its file.
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

/// Names the field that was cut off.
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

/// Checks that `count` items of at least `item_bytes` fit into what remains, so that a decoder may allocate
/// for them. `offset_bytes` is where the count stood.
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
