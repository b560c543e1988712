//! Finds SSTables that share a part of the ring.
//!
//! [`LeastIndex`] returns the smallest value among the other SSTables that overlap a given one. It is built
//! in O(n log n) as two segment trees over the ends of the ranges, and a query takes O(log n). [`groups`] and
//! [`count_max`] sweep once over the ends, in O(n log n).

use model::PartitionKey;

use crate::sstable_id::SSTableId;
use crate::view::SSTableView;

/// The two smallest values, of different SSTables.
#[derive(Clone, Copy, Debug)]
struct Least {
    values: [(i64, SSTableId); 2],
}

impl Least {
    const NONE: Self = Self { values: [(i64::MAX, SSTableId(u64::MAX)); 2] };

    fn add(&mut self, value: i64, of: SSTableId) {
        let [first, second] = self.values;
        if of == first.1 {
            return;
        }
        if value < first.0 {
            self.values = [(value, of), first];
        } else if value < second.0 {
            self.values[1] = (value, of);
        }
    }

    fn add_all(&mut self, other: Self) {
        other.values.into_iter().for_each(|(value, of)| self.add(value, of));
    }
}

/// An index of SSTables, each with a value.
#[derive(Debug)]
pub struct LeastIndex<'a> {
    /// All ends of ranges, sorted and without duplicates.
    ends: Vec<&'a PartitionKey>,
    /// Leaves are the ends. A leaf has the values of the ranges that start at the end; an inner node those of
    /// its subtree.
    starting: Vec<Least>,
    /// Leaves are the ends and the gaps between them. A node has the values of the ranges that cover its
    /// whole subtree.
    covering: Vec<Least>,
}

impl<'a> LeastIndex<'a> {
    /// An index of SSTables, each with a value of which the least is asked for.
    pub fn new(of: impl IntoIterator<Item = (&'a SSTableView, i64)>) -> Self {
        let of: Vec<(&SSTableView, i64)> = of.into_iter().collect();
        let mut ends: Vec<&PartitionKey> = of.iter().flat_map(|(s, _)| [&s.first, &s.last]).collect();
        ends.sort_unstable();
        ends.dedup();
        let leaves = ends.len();
        let mut starting = vec![Least::NONE; 2 * leaves];
        let mut covering = vec![Least::NONE; 4 * leaves];
        for (sstable, value) in of {
            let first = ends.partition_point(|key| **key < sstable.first);
            let last = ends.partition_point(|key| **key < sstable.last);
            starting[leaves + first].add(value, sstable.id);
            for_nodes(2 * leaves, 2 * first, 2 * last + 1, |node| covering[node].add(value, sstable.id));
        }
        for node in (1..leaves).rev() {
            let right = starting[2 * node + 1];
            starting[node] = starting[2 * node];
            starting[node].add_all(right);
        }
        Self { ends, starting, covering }
    }

    /// The smallest value of the other SSTables that overlap `sstable`; `i64::MAX` if there are none.
    pub fn min_of_overlapping(&self, sstable: &SSTableView) -> i64 {
        let (first, last) = (&sstable.first, &sstable.last);
        let leaves = self.ends.len();
        let from = self.ends.partition_point(|key| *key < first);
        let end = self.ends.partition_point(|key| *key <= last);
        let mut found = Least::NONE;
        // Overlapping ranges either start inside this one or cover its first key.
        for_nodes(leaves, from, end, |node| found.add_all(self.starting[node]));
        let is_end = self.ends.get(from).is_some_and(|key| *key == first);
        if is_end || (from > 0 && from < leaves) {
            let mut node = 2 * leaves + if is_end { 2 * from } else { 2 * from - 1 };
            while node >= 1 {
                found.add_all(self.covering[node]);
                node /= 2;
            }
        }
        let [least, second] = found.values;
        if least.1 == sstable.id { second.0 } else { least.0 }
    }
}

/// Visits the nodes of a segment tree that together cover the leaves `from..end`.
fn for_nodes(leaves: usize, from: usize, end: usize, mut visit: impl FnMut(usize)) {
    let (mut from, mut end) = (from + leaves, end + leaves);
    while from < end {
        if from % 2 == 1 {
            visit(from);
            from += 1;
        }
        if end % 2 == 1 {
            end -= 1;
            visit(end);
        }
        from /= 2;
        end /= 2;
    }
}

/// The largest number of SSTables that overlap at one key.
pub fn count_max<'a>(sstables: impl IntoIterator<Item = &'a SSTableView>) -> usize {
    // At equal keys, starts sort before ends, since ranges include both ends.
    let mut ends: Vec<(&PartitionKey, bool)> =
        sstables.into_iter().flat_map(|s| [(&s.first, false), (&s.last, true)]).collect();
    ends.sort_unstable();
    let (mut open, mut most) = (0usize, 0);
    for (_, is_last) in ends {
        if is_last {
            open -= 1;
        } else {
            open += 1;
            most = most.max(open);
        }
    }
    most
}

/// Groups of SSTables connected by overlaps, in the order of their first keys.
pub fn groups<'a>(sstables: impl IntoIterator<Item = &'a SSTableView>) -> Vec<Vec<&'a SSTableView>> {
    let mut sorted: Vec<&SSTableView> = sstables.into_iter().collect();
    sorted.sort_unstable_by(|a, b| a.first.cmp(&b.first).then(a.id.cmp(&b.id)));
    let mut groups: Vec<Vec<&SSTableView>> = vec![];
    let mut reach: Option<&PartitionKey> = None;
    for sstable in sorted {
        match groups.last_mut() {
            Some(group) if reach.is_some_and(|reach| sstable.first <= *reach) => group.push(sstable),
            _ => groups.push(vec![sstable]),
        }
        reach = reach.max(Some(&sstable.last));
    }
    groups
}

/// The fraction of the tokens of `sstable` that is in none of `others`, from 0.0 to 1.0.
pub fn share_outside<'a>(sstable: &SSTableView, others: impl IntoIterator<Item = &'a SSTableView>) -> f64 {
    let (first, last) = (sstable.first.token(), sstable.last.token());
    let all = last.abs_diff(first) as f64 + 1.0;
    let mut covered: Vec<(i64, i64)> = others
        .into_iter()
        .filter(|other| other.overlaps(sstable))
        .map(|other| (other.first.token().max(first), other.last.token().min(last)))
        .collect();
    covered.sort_unstable();
    let (mut outside, mut reach) = (all, None);
    for (from, to) in covered {
        let from = reach.map_or(from, |reach: i64| from.max(reach.saturating_add(1)));
        if from <= to {
            outside -= to.abs_diff(from) as f64 + 1.0;
        }
        reach = reach.max(Some(to));
    }
    (outside / all).clamp(0.0, 1.0)
}
