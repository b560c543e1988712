//! The stored form of a value from a client: sets sorted and without duplicates, maps sorted by key, at every
//! depth.
//!
//! Cassandra and ScyllaDB compare frozen collections by their bytes and search them in order, so a client's
//! order must not reach storage. Of equal keys of a map the last entry stays, as in a map literal.

use std::borrow::Cow;

use super::collection::{CollectionIter, MapIter, TupleIter, VectorIter};
use super::{CollectionBuilder, CqlType, TypeError, build_tuple, build_vector};

impl CqlType {
    /// Whether a value can contain elements in an order that is not the stored one.
    pub fn has_sorted_elements(&self) -> bool {
        self.any(&|inner| matches!(inner, Self::Set { .. } | Self::Map { .. }))
    }

    /// Returns the stored form of a valid value, which is `bytes` itself if all elements are in order.
    ///
    /// # Errors
    /// `bytes` is not a value of this type.
    pub fn in_stored_order<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, TypeError> {
        if bytes.is_empty() || !self.has_sorted_elements() {
            return Ok(Cow::Borrowed(bytes));
        }
        match self {
            Self::Reversed(base) => base.in_stored_order(bytes),
            Self::Set { element, .. } => {
                let mut elements = parts(CollectionIter::new(bytes)?, |_| element)?;
                let is_sorted = elements.is_sorted_by(|a, b| element.compare(a, b).is_lt());
                if !is_sorted {
                    elements.sort_by(|a, b| element.compare(a, b));
                    elements.dedup_by(|a, b| element.compare(a, b).is_eq());
                }
                Ok(changed(bytes, is_sorted && are_same(elements.iter()), || collection(&elements)))
            }
            Self::List { element, .. } => {
                let elements = parts(CollectionIter::new(bytes)?, |_| element)?;
                Ok(changed(bytes, are_same(elements.iter()), || collection(&elements)))
            }
            Self::Map { entry, .. } => map(&entry.0, &entry.1, bytes),
            Self::Tuple(components) => tuple(bytes, |at| components.get(at)),
            Self::Udt { user, .. } => tuple(bytes, |at| user.fields.get(at).map(|field| &field.field_type)),
            Self::Vector { element, dimension } => {
                let each = VectorIter::new(bytes, element, *dimension);
                let elements = each.map(|value| element.in_stored_order(value?));
                let elements = elements.collect::<Result<Vec<_>, _>>()?;
                let is_same = are_same(elements.iter());
                Ok(changed(bytes, is_same, || build_vector(element, elements.iter().map(|value| &**value))))
            }
            _ => Ok(Cow::Borrowed(bytes)),
        }
    }
}

type Bytes<'b> = Cow<'b, [u8]>;

/// Whether all values are the client's own bytes.
fn are_same<'v, 'b: 'v>(mut values: impl Iterator<Item = &'v Bytes<'b>>) -> bool {
    values.all(|value| matches!(value, Cow::Borrowed(_)))
}

fn changed<'b>(bytes: &'b [u8], is_same: bool, build: impl FnOnce() -> Vec<u8>) -> Cow<'b, [u8]> {
    if is_same { Cow::Borrowed(bytes) } else { Cow::Owned(build()) }
}

fn collection(elements: &[Cow<'_, [u8]>]) -> Vec<u8> {
    let mut out = CollectionBuilder::new();
    elements.iter().for_each(|element| out.push(element));
    out.finish()
}

/// The elements in their stored form; `type_of` returns the type of the element at an index.
fn parts<'b, 't>(
    elements: CollectionIter<'b>,
    type_of: impl Fn(usize) -> &'t CqlType,
) -> Result<Vec<Cow<'b, [u8]>>, TypeError> {
    let each = elements.enumerate().map(|(at, element)| match element? {
        Some(element) => type_of(at).in_stored_order(element),
        None => Err(TypeError::new("null inside a collection".to_string())),
    });
    each.collect()
}

fn map<'b>(key: &CqlType, value: &CqlType, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, TypeError> {
    let flat = MapIter::new(bytes)?.into_elements();
    let flat = parts(flat, |at| if at % 2 == 0 { key } else { value })?;
    let entries: Vec<(&Bytes<'_>, &Bytes<'_>)> =
        flat.chunks_exact(2).map(|entry| (&entry[0], &entry[1])).collect();
    let is_sorted = entries.is_sorted_by(|a, b| key.compare(a.0, b.0).is_lt());
    if is_sorted && are_same(flat.iter()) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut sorted = entries;
    sorted.sort_by(|a, b| key.compare(a.0, b.0));
    let mut out = CollectionBuilder::new();
    for (at, (found, value)) in sorted.iter().enumerate() {
        if sorted.get(at + 1).is_none_or(|(next, _)| key.compare(found, next).is_ne()) {
            out.push(found);
            out.push(value);
        }
    }
    Ok(Cow::Owned(out.finish_map()))
}

fn tuple<'b, 't>(
    bytes: &'b [u8],
    type_of: impl Fn(usize) -> Option<&'t CqlType>,
) -> Result<Cow<'b, [u8]>, TypeError> {
    let mut fields = Vec::new();
    for (at, field) in TupleIter::new(bytes).enumerate() {
        fields.push(match (field?, type_of(at)) {
            (Some(field), Some(ty)) => Some(ty.in_stored_order(field)?),
            (field, _) => field.map(Cow::Borrowed),
        });
    }
    let is_same = are_same(fields.iter().flatten());
    Ok(changed(bytes, is_same, || build_tuple(fields.iter().map(Option::as_deref))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(values: &[i32]) -> Vec<u8> {
        let mut out = CollectionBuilder::new();
        values.iter().for_each(|value| out.push(&value.to_be_bytes()));
        out.finish()
    }

    #[test]
    fn sets_are_sorted_at_every_depth_and_lists_keep_their_order() {
        let set = CqlType::set(CqlType::Int).freeze();
        assert_eq!(set.in_stored_order(&ints(&[3, -1, 3, 2])).unwrap(), ints(&[-1, 2, 3]));
        let list = CqlType::list(CqlType::Int).freeze();
        assert_eq!(list.in_stored_order(&ints(&[3, -1])).unwrap(), ints(&[3, -1]));
        let nested = CqlType::tuple([CqlType::Int, CqlType::list(set.clone()).freeze()]);
        let of = |inner: &[u8]| {
            let mut list = CollectionBuilder::new();
            list.push(inner);
            build_tuple([Some(&7i32.to_be_bytes()[..]), Some(&list.finish())])
        };
        assert_eq!(nested.in_stored_order(&of(&ints(&[2, 1]))).unwrap(), of(&ints(&[1, 2])));
        let sorted = of(&ints(&[1, 2]));
        assert!(matches!(nested.in_stored_order(&sorted).unwrap(), Cow::Borrowed(_)));
        let short = build_tuple([None]);
        assert_eq!(nested.in_stored_order(&short).unwrap(), short);
    }

    #[test]
    fn maps_are_sorted_by_key_and_keep_the_last_of_equal_keys() {
        let ty = CqlType::map(CqlType::Int, CqlType::set(CqlType::Int).freeze()).freeze();
        let of = |entries: &[(i32, &[i32])]| {
            let mut out = CollectionBuilder::new();
            for (key, value) in entries {
                out.push(&key.to_be_bytes());
                out.push(&ints(value));
            }
            out.finish_map()
        };
        let given = of(&[(5, &[2, 1]), (1, &[1]), (5, &[4, 3])]);
        assert_eq!(ty.in_stored_order(&given).unwrap(), of(&[(1, &[1]), (5, &[3, 4])]));
        let sorted = of(&[(1, &[1]), (5, &[3, 4])]);
        assert!(matches!(ty.in_stored_order(&sorted).unwrap(), Cow::Borrowed(_)));
    }
}
