//! Weighted round robin between the two kinds of reads that wait for admission.
//!
//! Reads of one partition and reads of token ranges wait in a FIFO queue each. While both queues have reads,
//! [`PARTITION_READS_PER_RANGE`] reads of one partition are admitted for each read of a range. If only one
//! queue has reads, it is served alone.
//!
//! Guarantee: a read of one partition is overtaken by at most one range per [`PARTITION_READS_PER_RANGE`]
//! such reads that waited before it, plus one. A read of a range waits for at most
//! [`PARTITION_READS_PER_RANGE`] reads of one partition per range that waited before it, plus as many.
//! Neither kind starves.
//!
//! The weight counts reads, not their cost: a read of a whole large partition counts as one.

use std::collections::VecDeque;

/// How many reads of one partition are admitted for each read of a range while both wait.
pub const PARTITION_READS_PER_RANGE: u32 = 8;

/// The kind of a read, which decides its order in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// Rows of one partition.
    Partition,
    /// Partitions of a token range.
    Range,
}

/// The queue of reads that wait for admission. See the head of this file.
pub struct AdmissionQueue<T> {
    partitions: VecDeque<T>,
    ranges: VecDeque<T>,
    /// Reads of one partition that were taken since the last range, while ranges waited.
    partitions_in_a_row: u32,
}

impl<T: Copy + PartialEq> AdmissionQueue<T> {
    pub fn new() -> Self {
        Self { partitions: VecDeque::new(), ranges: VecDeque::new(), partitions_in_a_row: 0 }
    }

    pub fn len(&self) -> usize {
        self.partitions.len() + self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty() && self.ranges.is_empty()
    }

    pub fn push(&mut self, kind: ReadKind, read: T) {
        self.queue(kind).push_back(read);
    }

    fn queue(&mut self, kind: ReadKind) -> &mut VecDeque<T> {
        match kind {
            ReadKind::Partition => &mut self.partitions,
            ReadKind::Range => &mut self.ranges,
        }
    }

    /// Takes the next read in weighted round robin order; `None` if no read waits.
    pub fn pop(&mut self) -> Option<T> {
        let is_turn_of_ranges = self.partitions_in_a_row >= PARTITION_READS_PER_RANGE;
        let kind = match (self.partitions.is_empty(), self.ranges.is_empty()) {
            (false, false) if !is_turn_of_ranges => ReadKind::Partition,
            (false, true) => ReadKind::Partition,
            _ => ReadKind::Range,
        };
        let counts = kind == ReadKind::Partition && !self.ranges.is_empty();
        self.partitions_in_a_row = if counts { self.partitions_in_a_row + 1 } else { 0 };
        self.queue(kind).pop_front()
    }

    /// Removes a read that waits no more.
    pub fn remove(&mut self, read: T) {
        self.partitions.retain(|waiting| *waiting != read);
        self.ranges.retain(|waiting| *waiting != read);
    }
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;

    use super::*;

    fn queue(kinds: &str) -> AdmissionQueue<usize> {
        let mut queue = AdmissionQueue::new();
        for (at, kind) in kinds.chars().enumerate() {
            queue.push(if kind == 'r' { ReadKind::Range } else { ReadKind::Partition }, at);
        }
        queue
    }

    #[test]
    fn a_read_of_a_partition_does_not_wait_for_all_ranges_before_it() {
        let mut queue = queue(&("r".repeat(500) + "p"));
        assert_eq!(queue.pop(), Some(500));
        assert_eq!((queue.pop(), queue.pop(), queue.len()), (Some(0), Some(1), 498));
    }

    #[test]
    fn ranges_have_every_ninth_turn_while_both_wait() {
        let mut queue = queue(&("p".repeat(20) + "rr"));
        let taken: Vec<usize> = std::iter::from_fn(|| queue.pop()).collect();
        let expect: Vec<usize> = (0..8).chain([20]).chain(8..16).chain([21]).chain(16..20).collect();
        assert_eq!(taken, expect);
    }

    /// Turns that ranges did not want are not saved up against them.
    #[test]
    fn turns_without_a_waiting_range_do_not_count() {
        let mut queue = queue(&"p".repeat(30));
        (0..20).for_each(|at| assert_eq!(queue.pop(), Some(at)));
        queue.push(ReadKind::Range, 99);
        let taken: Vec<usize> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(taken, (20..28).chain([99]).chain([28, 29]).collect::<Vec<_>>());
    }

    /// For any arrivals and departures: reads of a kind are taken in their order, nothing is lost, and no
    /// read is overtaken more often than the head of this file says.
    #[test]
    fn no_read_is_overtaken_beyond_the_weight() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut queue = AdmissionQueue::new();
            // Of each waiting read: its kind, its number, how many of its kind waited before it, overtaken
            // by.
            let mut waiting: Vec<(ReadKind, u64, u64, u64)> = vec![];
            for number in 0..2000 {
                match rng.below(5) {
                    0 | 1 => {
                        let kind = if rng.below(3) == 0 { ReadKind::Partition } else { ReadKind::Range };
                        let before = waiting.iter().filter(|(other, ..)| *other == kind).count() as u64;
                        queue.push(kind, number);
                        waiting.push((kind, number, before, 0));
                    }
                    2 if !waiting.is_empty() => {
                        let (_, gone, ..) = waiting.swap_remove(rng.index(waiting.len()));
                        queue.remove(gone);
                    }
                    _ => {
                        let Some(taken) = queue.pop() else {
                            assert!(waiting.is_empty(), "seed {seed}: a waiting read has no turn");
                            continue;
                        };
                        let at = waiting.iter().position(|(_, other, ..)| *other == taken);
                        let (kind, ..) = waiting.swap_remove(at.expect("a read that waits"));
                        for (other, earlier, before, overtaken) in &mut waiting {
                            assert!(*other != kind || *earlier > taken, "seed {seed}: not in its order");
                            if *other != kind {
                                *overtaken += 1;
                            }
                            let weight = u64::from(PARTITION_READS_PER_RANGE);
                            let overtaken_max = match other {
                                ReadKind::Partition => *before / weight + 1,
                                ReadKind::Range => (*before + 1) * weight,
                            };
                            assert!(*overtaken <= overtaken_max, "seed {seed}: {other:?} waits too long");
                        }
                    }
                }
                assert_eq!((queue.len(), queue.is_empty()), (waiting.len(), waiting.is_empty()));
            }
        }
    }
}
