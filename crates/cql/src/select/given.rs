//! The number of rows or groups that one partition has added to the result: PER PARTITION LIMIT and DISTINCT count it.
//!
//! The count belongs to a key. A storage page may end before the first live row of a partition. The last partition on
//! the page and the partition in which the page ended may therefore differ, and each has a count of its own.

use model::PartitionKey;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Given {
    key: Option<PartitionKey>,
    rows: u64,
    is_full: bool,
}

impl Given {
    /// The partition has given so many on earlier pages of the client.
    pub fn of(key: &PartitionKey, rows: u64) -> Self {
        Self { key: Some(key.clone()), rows, is_full: false }
    }

    /// Rows of this partition follow: the count starts anew, unless rows of the same partition came before.
    #[inline]
    pub fn enter(&mut self, key: &PartitionKey) {
        if self.key.as_ref() != Some(key) {
            *self = Self::of(key, 0);
        }
    }

    /// The current partition gives one more.
    #[inline]
    pub fn count(&mut self) {
        self.rows += 1;
    }

    /// The current partition has more groups than it may give.
    pub fn set_full(&mut self) {
        self.is_full = true;
    }

    /// Of the current partition.
    #[inline]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Of this partition; 0 if it has not come yet.
    pub fn rows_of(&self, key: &PartitionKey) -> u64 {
        if self.key.as_ref() == Some(key) { self.rows } else { 0 }
    }

    pub fn is_full(&self, key: &PartitionKey) -> bool {
        self.is_full && self.key.as_ref() == Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_belongs_to_its_partition() {
        let (a, b) = (PartitionKey::new("a"), PartitionKey::new("b"));
        let mut given = Given::default();
        given.enter(&a);
        given.count();
        given.enter(&a);
        given.count();
        given.set_full();
        assert_eq!((given.rows(), given.rows_of(&a), given.rows_of(&b)), (2, 2, 0));
        assert!(given.is_full(&a) && !given.is_full(&b));
        given.enter(&b);
        assert_eq!((given.rows(), given.rows_of(&a), given.is_full(&b)), (0, 0, false));
    }
}
