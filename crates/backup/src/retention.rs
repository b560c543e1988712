//! Decides which backups are removed, and which objects no remaining backup refers to; pure.

use base::HashSet;

use crate::manifest::Manifest;

/// The backups to keep. A backup is removed only if every given rule removes it, and the newest one is never
/// removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The newest ones to keep.
    pub keep: Option<usize>,
    /// Those of at most this age are kept, in microseconds.
    pub older_than_us: Option<i64>,
}

impl Retention {
    /// The ids of the backups to remove; `backups` has id and time of each, in any order. Without a rule it
    /// is empty.
    pub fn removed(&self, backups: &[(String, i64)], now_us: i64) -> Vec<String> {
        if self.keep.is_none() && self.older_than_us.is_none() {
            return vec![];
        }
        let mut by_age: Vec<&(String, i64)> = backups.iter().collect();
        by_age.sort_by(|a, b| (b.1, &b.0).cmp(&(a.1, &a.0)));
        let is_removed = |(rank, (_, at_us)): &(usize, &(String, i64))| {
            *rank > 0
                && self.keep.is_none_or(|keep| *rank >= keep)
                && self.older_than_us.is_none_or(|age_us| now_us.saturating_sub(*at_us) > age_us)
        };
        let removed = by_age.into_iter().enumerate().filter(is_removed);
        removed.map(|(_, (id, _))| id.clone()).collect()
    }
}

/// The objects of the listing that no kept backup needs.
pub fn unneeded(listing: &[(String, u64)], kept: &[Manifest]) -> Vec<(String, u64)> {
    let needed: HashSet<String> = kept.iter().flat_map(Manifest::objects).collect();
    listing.iter().filter(|(name, _)| !needed.contains(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed(keep: Option<usize>, older_than_us: Option<i64>) -> Vec<String> {
        let backups: Vec<_> =
            [("b", 20), ("d", 40), ("a", 10), ("c", 30)].map(|(id, at)| (id.to_string(), at)).into();
        Retention { keep, older_than_us }.removed(&backups, 50)
    }

    #[test]
    fn the_newest_ones_are_kept() {
        assert!(removed(None, None).is_empty());
        assert_eq!(removed(Some(2), None), ["b", "a"]);
        assert_eq!(removed(Some(0), None), ["c", "b", "a"], "the newest one always stays");
        assert_eq!(removed(None, Some(25)), ["b", "a"]);
        assert_eq!(removed(None, Some(0)), ["c", "b", "a"]);
        assert_eq!(removed(Some(3), Some(25)), ["a"]);
        assert!(removed(Some(9), Some(0)).is_empty());
    }
}
