//! Encoding of nested values: frozen collections, tuples, vectors and composite keys.
//!
//! Lists and sets are an i32 count and, per element, an i32 length and the bytes. Maps alternate keys and
//! values, and count pairs. (This is the native protocol's form since v3, also on disk.) Tuples and UDTs have
//! no count. A vector has no lengths if its element type has a fixed one, otherwise vint lengths. A composite
//! is, per component, a u16 length, the bytes and an end-of-component byte.
//!
//! The iterators borrow and never allocate. They trust neither counts nor lengths: for a value that is too
//! short or has bytes left over, the last item is `Err`.

use base::bytes::{Take, put_u16_bytes, put_vint_bytes};

use super::error::type_err;
use super::{CqlType, TypeError};

/// An element; `None` is null (a negative length), which is allowed only in tuples and UDTs.
pub type Element<'a> = Option<&'a [u8]>;

fn take_element<'a>(take: &mut Take<'a>) -> Result<Element<'a>, TypeError> {
    let at = take.offset();
    let short = |_| TypeError::new(format!("not enough bytes for the element at byte {at}"));
    let len_bytes = take.i32().map_err(short)?;
    match usize::try_from(len_bytes) {
        Ok(len) => take.bytes(len).map(Some).map_err(short),
        Err(_) => Ok(None),
    }
}

/// The elements of a serialized list or set. [`MapIter`] uses it for the entries of a map.
#[derive(Clone, Debug)]
pub struct CollectionIter<'a> {
    take: Take<'a>,
    left: usize,
    done: bool,
}

impl<'a> CollectionIter<'a> {
    /// # Errors
    /// The bytes are too short for the count, or the count is negative. The count is not verified otherwise.
    pub fn new(bytes: &'a [u8]) -> Result<Self, TypeError> {
        Self::with_elements_per_count(bytes, 1)
    }

    fn with_elements_per_count(bytes: &'a [u8], per_count: usize) -> Result<Self, TypeError> {
        let mut take = Take::new(bytes);
        let Ok(count) = take.i32() else {
            return type_err!("not enough bytes for the element count ({})", bytes.len());
        };
        let Ok(count) = usize::try_from(count) else {
            return type_err!("negative element count ({count})");
        };
        Ok(Self { take, left: count.saturating_mul(per_count), done: false })
    }

    /// The number of elements that remain according to the count in the value; keys and values of a map count
    /// separately. It is not verified, so a caller must limit it before it allocates memory.
    pub fn claimed_len(&self) -> usize {
        self.left
    }

    /// The number of bytes not yet read; each element takes at least 4.
    pub fn remaining_bytes(&self) -> usize {
        self.take.remaining()
    }
}

impl<'a> Iterator for CollectionIter<'a> {
    type Item = Result<Element<'a>, TypeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.left == 0 {
            self.done = true;
            return (!self.take.is_empty())
                .then(|| type_err!("{} bytes left over after the last element", self.take.remaining()));
        }
        self.left -= 1;
        let element = take_element(&mut self.take);
        self.done = element.is_err();
        Some(element)
    }
}

/// The entries of a serialized map.
#[derive(Clone, Debug)]
pub struct MapIter<'a> {
    inner: CollectionIter<'a>,
}

impl<'a> MapIter<'a> {
    /// # Errors
    /// As [`CollectionIter::new`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, TypeError> {
        CollectionIter::with_elements_per_count(bytes, 2).map(|inner| Self { inner })
    }

    /// Keys and values as separate elements, alternating.
    pub fn into_elements(self) -> CollectionIter<'a> {
        self.inner
    }
}

impl<'a> Iterator for MapIter<'a> {
    type Item = Result<(Element<'a>, Element<'a>), TypeError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.inner.next()? {
            Err(error) => Some(Err(error)),
            Ok(key) => {
                let value = self.inner.next().expect("an even number of elements was claimed");
                Some(value.map(|value| (key, value)))
            }
        }
    }
}

/// The fields of a serialized tuple or UDT, as many as are present. The caller supplies nulls for the missing
/// ones: a value written before a field was added is shorter.
#[derive(Clone, Debug)]
pub struct TupleIter<'a> {
    take: Take<'a>,
    done: bool,
}

impl<'a> TupleIter<'a> {
    /// The components of the serialized tuple or UDT `bytes`: each has an `i32` length, negative for null.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { take: Take::new(bytes), done: false }
    }

    /// The bytes that have not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.take.rest()
    }
}

impl<'a> Iterator for TupleIter<'a> {
    type Item = Result<Element<'a>, TypeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || self.take.is_empty() {
            return None;
        }
        let field = take_element(&mut self.take);
        self.done = field.is_err();
        Some(field)
    }
}

/// The elements of a serialized vector.
#[derive(Clone, Debug)]
pub struct VectorIter<'a> {
    take: Take<'a>,
    fixed_len: Option<usize>,
    left: u32,
    done: bool,
}

impl<'a> VectorIter<'a> {
    /// The elements of the serialized vector `bytes`. Elements of a type of fixed length have no length
    /// before them.
    pub fn new(bytes: &'a [u8], element: &CqlType, dimension: u32) -> Self {
        Self { take: Take::new(bytes), fixed_len: element.sstable_fixed_len(), left: dimension, done: false }
    }

    /// The bytes that have not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.take.rest()
    }
}

impl<'a> Iterator for VectorIter<'a> {
    type Item = Result<&'a [u8], TypeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.left == 0 {
            self.done = true;
            return (!self.take.is_empty())
                .then(|| type_err!("{} bytes left over after the last element", self.take.remaining()));
        }
        self.left -= 1;
        let at = self.take.offset();
        let element = match self.fixed_len {
            Some(len) => self.take.bytes(len),
            None => self.take.vint_bytes(),
        };
        self.done = element.is_err();
        Some(element.map_err(|_| TypeError::new(format!("not enough bytes for the element at byte {at}"))))
    }
}

/// The components of a composite key, each with its end-of-component byte (0 in a partition key).
#[derive(Clone, Debug)]
pub struct CompositeIter<'a> {
    take: Take<'a>,
    done: bool,
}

impl<'a> CompositeIter<'a> {
    /// The components of the serialized composite `bytes`: a `u16` length, the bytes, and a byte of the end.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { take: Take::new(bytes), done: false }
    }

    /// The bytes that have not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.take.rest()
    }
}

impl<'a> Iterator for CompositeIter<'a> {
    type Item = Result<(&'a [u8], u8), TypeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || self.take.is_empty() {
            return None;
        }
        let at = self.take.offset();
        let mut after = self.take;
        let component = after.u16_bytes().and_then(|bytes| Ok((bytes, after.u8()?)));
        match component {
            Ok(component) => {
                self.take = after;
                Some(Ok(component))
            }
            Err(_) => {
                self.done = true;
                Some(type_err!("not enough bytes for the component at byte {at}"))
            }
        }
    }
}

/// Builds a serialized list, set or map whose number of elements is not known beforehand.
#[derive(Clone, Debug)]
pub struct CollectionBuilder {
    bytes: Vec<u8>,
    elements: usize,
}

impl Default for CollectionBuilder {
    fn default() -> Self {
        Self { bytes: vec![0; 4], elements: 0 }
    }
}

impl CollectionBuilder {
    /// A collection without elements.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an element, or alternately a map's key and value.
    pub fn push(&mut self, element: &[u8]) {
        push_element(&mut self.bytes, Some(element));
        self.elements += 1;
    }

    /// The bytes of a list or set.
    pub fn finish(self) -> Vec<u8> {
        let count = self.elements;
        self.finish_with(count)
    }

    /// The bytes of a map; keys and values must have been pushed alternately.
    pub fn finish_map(self) -> Vec<u8> {
        assert!(self.elements.is_multiple_of(2), "a map's last key has no value");
        let count = self.elements / 2;
        self.finish_with(count)
    }

    fn finish_with(mut self, count: usize) -> Vec<u8> {
        let count =
            i32::try_from(count).expect("a collection is bounded by its frame, far below 2^31 elements");
        self.bytes[..4].copy_from_slice(&count.to_be_bytes());
        self.bytes
    }
}

fn push_element(out: &mut Vec<u8>, element: Element<'_>) {
    match element {
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Some(bytes) => {
            let len =
                i32::try_from(bytes.len()).expect("a value is bounded by its frame, far below 2^31 bytes");
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

/// The bytes of a tuple or UDT.
pub fn build_tuple<'a>(fields: impl IntoIterator<Item = Element<'a>>) -> Vec<u8> {
    let mut out = vec![];
    for field in fields {
        push_element(&mut out, field);
    }
    out
}

/// The bytes of a vector; elements of a fixed-length type must have that length.
pub fn build_vector<'a>(element: &CqlType, elements: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let fixed_len = element.sstable_fixed_len();
    let mut out = vec![];
    for bytes in elements {
        match fixed_len {
            Some(len) => {
                assert_eq!(bytes.len(), len, "an element of {element:?}");
                out.extend_from_slice(bytes);
            }
            None => put_vint_bytes(&mut out, bytes),
        }
    }
    out
}

/// The serialized partition key of several columns. Each component must have at most 65,535 bytes.
pub fn build_composite<'a>(components: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = vec![];
    for component in components {
        put_u16_bytes(&mut out, component);
        out.push(0);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read() {
        let mut list = CollectionBuilder::new();
        list.push(b"a");
        list.push(b"");
        let bytes = list.finish();
        assert_eq!(bytes, b"\0\0\0\x02\0\0\0\x01a\0\0\0\0");
        let elements: Vec<_> = CollectionIter::new(&bytes).unwrap().map(|element| element.unwrap()).collect();
        assert_eq!(elements, [Some(&b"a"[..]), Some(b"")]);

        let mut map = CollectionBuilder::new();
        for element in [b"k1", b"v1", b"k2", b"v2"] {
            map.push(element);
        }
        let bytes = map.finish_map();
        assert_eq!(&bytes[..4], [0, 0, 0, 2]);
        let last = MapIter::new(&bytes).unwrap().last().unwrap();
        assert_eq!(last, Ok((Some(&b"k2"[..]), Some(&b"v2"[..]))));

        let bytes = build_tuple([Some(&b"x"[..]), None, Some(b"")]);
        let fields: Vec<_> = TupleIter::new(&bytes).map(|field| field.unwrap()).collect();
        assert_eq!(fields, [Some(&b"x"[..]), None, Some(b"")]);

        let bytes = build_vector(&CqlType::Text, [&b"ab"[..], b""]);
        assert_eq!(bytes, b"\x02ab\0");
        let bytes = build_vector(&CqlType::Int, [&[0, 0, 0, 1][..], &[0, 0, 0, 2]]);
        let elements: Vec<_> =
            VectorIter::new(&bytes, &CqlType::Int, 2).map(|element| element.unwrap()).collect();
        assert_eq!(elements, [[0, 0, 0, 1], [0, 0, 0, 2]]);

        let bytes = build_composite([&b"a"[..], b"bc"]);
        assert_eq!(bytes, b"\0\x01a\0\0\x02bc\0");
        let components: Vec<_> = CompositeIter::new(&bytes).map(|component| component.unwrap()).collect();
        assert_eq!(components, [(&b"a"[..], 0), (b"bc", 0)]);
    }

    #[test]
    fn lies_end_in_one_error() {
        let all = |bytes: &[u8]| -> Vec<bool> {
            CollectionIter::new(bytes).unwrap().map(|element| element.is_ok()).collect()
        };
        assert_eq!(all(b"\x7f\xff\xff\xff\0\0\0\0"), [true, false], "two thousand million elements");
        assert_eq!(all(b"\0\0\0\x01\0\0\0\x09ab"), [false], "an element of nine bytes");
        assert_eq!(all(b"\0\0\0\0extra"), [false], "bytes left over");
        assert!(CollectionIter::new(b"\xff\xff\xff\xff").is_err(), "negative count");
        assert!(CollectionIter::new(b"\0\0").is_err());
        let entries: Vec<_> =
            MapIter::new(b"\0\0\0\x01\0\0\0\0").unwrap().map(|entry| entry.is_ok()).collect();
        assert_eq!(entries, [false], "a key without a value");
        let short: Vec<_> =
            VectorIter::new(&[0; 7], &CqlType::Int, 2).map(|element| element.is_ok()).collect();
        assert_eq!(short, [true, false]);
        let long: Vec<_> =
            VectorIter::new(&[0; 9], &CqlType::Int, 2).map(|element| element.is_ok()).collect();
        assert_eq!(long, [true, true, false]);
    }
}
