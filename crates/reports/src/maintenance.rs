//! Results of scrub and verify.

use serde::{Deserialize, Serialize};

/// The data that a scrub kept and lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    /// SSTables that were rewritten.
    pub sstables: u64,
    /// Partitions and rows, static rows included, that were kept.
    pub partitions: u64,
    pub rows: u64,
    /// Partitions that were out of order, and were kept.
    pub out_of_order: u64,
    /// Partitions that could not be read at all.
    pub lost_partitions: u64,
    /// Partitions that could be read in part.
    pub damaged_partitions: u64,
    /// Rows that were found and could not be kept.
    pub lost_rows: u64,
    /// Places where an unknown number of rows is missing.
    pub gaps: u64,
    /// The damaged SSTables, each with its first error.
    pub damaged: Vec<String>,
    /// The SSTables that were left as they are, each with the reason.
    pub left: Vec<String>,
    /// `keyspace.table: tag` of the snapshots that were taken before.
    pub snapshots: Vec<String>,
}

impl Scrubbed {
    /// Adds the result of another shard, or of another table.
    pub fn merge(&mut self, other: Self) {
        self.sstables += other.sstables;
        self.partitions += other.partitions;
        self.rows += other.rows;
        self.out_of_order += other.out_of_order;
        self.lost_partitions += other.lost_partitions;
        self.damaged_partitions += other.damaged_partitions;
        self.lost_rows += other.lost_rows;
        self.gaps += other.gaps;
        self.damaged.extend(other.damaged);
        self.left.extend(other.left);
        self.snapshots.extend(other.snapshots);
    }
}

/// The result of a verify.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// SSTables that were checked.
    pub sstables: u64,
    /// The damaged SSTables, each with a sentence that describes the damage. No compaction takes them until a
    /// restart.
    pub damaged: Vec<String>,
}

impl Verified {
    /// Adds the result of another shard, or of another table.
    pub fn merge(&mut self, other: Self) {
        self.sstables += other.sstables;
        self.damaged.extend(other.damaged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_results_are_the_sums_of_their_parts() {
        let part = |number: u64, name: &str| Scrubbed {
            sstables: number,
            partitions: 2 * number,
            rows: 3 * number,
            out_of_order: 4 * number,
            lost_partitions: 5 * number,
            damaged_partitions: 6 * number,
            lost_rows: 7 * number,
            gaps: 8 * number,
            damaged: vec![format!("damaged {name}")],
            left: vec![format!("left {name}")],
            snapshots: vec![format!("snapshot {name}")],
        };
        let mut all = part(1, "a");
        all.merge(part(10, "b"));
        let lists = |what: &str| vec![format!("{what} a"), format!("{what} b")];
        let expect = Scrubbed {
            damaged: lists("damaged"),
            left: lists("left"),
            snapshots: lists("snapshot"),
            ..part(11, "")
        };
        assert_eq!(all, expect);
        let mut verified = Verified { sstables: 1, damaged: vec!["a".to_string()] };
        verified.merge(Verified { sstables: 2, damaged: vec!["b".to_string()] });
        assert_eq!(verified, Verified { sstables: 3, damaged: vec!["a".to_string(), "b".to_string()] });
    }
}
