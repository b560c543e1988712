//! Number of rows or groups that a partition has contributed to the result, for PER PARTITION LIMIT and
//! DISTINCT.
//!
//! The count belongs to a key. A storage page may end before the first live row of a partition. The last
//! partition on the page may therefore differ from the partition in which the page ended, and each has a
//! count of its own.

use model::PartitionKey;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Given {
    key: Option<PartitionKey>,
    rows: u64,
    is_full: bool,
}

impl Given {
    /// Creates the count of a partition that contributed `rows` on earlier pages of the client.
    pub fn of(key: &PartitionKey, rows: u64) -> Self {
        Self { key: Some(key.clone()), rows, is_full: false }
    }

    /// Starts a partition. The count is reset, unless the last rows came from the same partition.
    #[inline]
    pub fn enter(&mut self, key: &PartitionKey) {
        if self.key.as_ref() != Some(key) {
            *self = Self::of(key, 0);
        }
    }

    /// Counts a row or group of the current partition.
    #[inline]
    pub fn count(&mut self) {
        self.rows += 1;
    }

    /// Marks the current partition as having more groups than its limit allows.
    pub fn set_full(&mut self) {
        self.is_full = true;
    }

    /// Count of the current partition.
    #[inline]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Count of this partition; 0 if it is not the current one.
    pub fn rows_of(&self, key: &PartitionKey) -> u64 {
        if self.key.as_ref() == Some(key) { self.rows } else { 0 }
    }

    /// Whether the partition has more groups than its limit allows.
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
