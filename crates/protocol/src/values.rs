//! Bound values, as references into the message: eight bytes for each, and up to eight without an allocation.

/// The value bound to a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The serialized value; may be empty.
    Bytes(&'a [u8]),
    /// The value null.
    Null,
    /// v4 and later: the column is not changed.
    Unset,
}

const NULL: i32 = -1;
const UNSET: i32 = -2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    offset: u32,
    /// Bytes, or [`NULL`], or [`UNSET`].
    len: i32,
}

/// The number of slots stored without an allocation.
const INLINE_SLOTS: usize = 8;

/// A list of slots: the first are stored inline, the others in a vector. Simpler and faster than a list that
/// moves its elements when it outgrows the inline storage.
#[derive(Clone, Debug, Default)]
struct Slots {
    count: usize,
    inline: [Slot; INLINE_SLOTS],
    more: Vec<Slot>,
}

impl Slots {
    #[inline]
    fn push(&mut self, slot: Slot) {
        match self.inline.get_mut(self.count) {
            Some(place) => *place = slot,
            None => self.more.push(slot),
        }
        self.count += 1;
    }

    #[inline]
    fn get(&self, index: usize) -> Option<Slot> {
        if index >= self.count {
            return None;
        }
        match self.inline.get(index) {
            Some(slot) => Some(*slot),
            None => self.more.get(index - INLINE_SLOTS).copied(),
        }
    }
}

/// The values of a statement in the order sent, with or without names.
#[derive(Clone, Debug, Default)]
pub struct Values<'a> {
    bytes: &'a [u8],
    slots: Slots,
    names: Option<Vec<&'a str>>,
}

impl<'a> Values<'a> {
    /// An empty list for values in `bytes`, to be added with [`Self::push`].
    #[inline]
    pub(super) fn within(bytes: &'a [u8]) -> Self {
        Self { bytes, slots: Slots::default(), names: None }
    }

    /// Adds the value of `len` bytes at `offset` of the message; `len` is -1 for null and -2 for unset. The
    /// caller has checked the range.
    #[inline]
    pub(super) fn push(&mut self, offset: usize, len: i32) {
        self.slots.push(Slot { offset: offset as u32, len });
    }

    pub(super) fn push_name(&mut self, name: &'a str) {
        self.names.get_or_insert_default().push(name);
    }

    /// The number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.count
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.count == 0
    }

    /// The value at this position; `None`: there are fewer.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        self.slots.get(index).map(|slot| self.value(slot))
    }

    /// The names, one for each value, if the client sent names.
    pub fn names(&self) -> Option<&[&'a str]> {
        self.names.as_deref()
    }

    /// The value with this name; if there are several, the last one.
    pub fn get_named(&self, name: &str) -> Option<Value<'a>> {
        let index = self.names.as_ref()?.iter().rposition(|have| *have == name)?;
        self.get(index)
    }

    /// The values, in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value<'a>> + '_ {
        (0..self.len()).map(|index| self.value(self.slots.get(index).expect("as many as were counted")))
    }

    #[inline]
    fn value(&self, slot: Slot) -> Value<'a> {
        match slot.len {
            NULL => Value::Null,
            UNSET => Value::Unset,
            len => Value::Bytes(&self.bytes[slot.offset as usize..][..len as usize]),
        }
    }
}

impl PartialEq for Values<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.iter().eq(other.iter())
    }
}

/// Values that a client collects for a request; [`Self::values`] returns them as the request takes them.
#[derive(Clone, Debug, Default)]
pub struct ValueBuffer {
    bytes: Vec<u8>,
    slots: Slots,
    names: Vec<String>,
}

impl ValueBuffer {
    /// # Panics
    /// If all values together have more than 2 GiB.
    pub fn push(&mut self, value: Value<'_>) {
        let (offset, len) = match value {
            Value::Bytes(bytes) => {
                let offset = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                assert!(i32::try_from(self.bytes.len()).is_ok(), "values of more than 2 GiB");
                (offset, bytes.len() as i32)
            }
            Value::Null => (0, NULL),
            Value::Unset => (0, UNSET),
        };
        self.slots.push(Slot { offset: offset as u32, len });
    }

    /// Adds a value with a name. Names are sent only if every value has one.
    pub fn push_named(&mut self, name: &str, value: Value<'_>) {
        self.names.push(name.to_owned());
        self.push(value);
    }

    /// The values, borrowed for the encoding of a request.
    pub fn values(&self) -> Values<'_> {
        let is_named = self.slots.count > 0 && self.names.len() == self.slots.count;
        Values {
            bytes: &self.bytes,
            slots: self.slots.clone(),
            names: is_named.then(|| self.names.iter().map(String::as_str).collect()),
        }
    }
}
