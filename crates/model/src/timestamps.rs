//! Timestamps of rows and writes. A conditional write may need a timestamp that is newer than the data on
//! which its condition was evaluated.

use crate::partition::Partition;
use crate::row::{ColumnData, Row};
use crate::tombstone::NO_TIMESTAMP_US;

impl Row {
    /// The newest timestamp of its cells, marker and tombstones; [`NO_TIMESTAMP_US`] if it has none.
    pub fn newest_timestamp_us(&self) -> i64 {
        let of_column = |data: &ColumnData| match data {
            ColumnData::Simple(cell) => cell.timestamp_us,
            ColumnData::Complex(complex) => {
                let cells = complex.cells.iter().map(|element| element.cell.timestamp_us);
                cells.fold(complex.deletion.timestamp_us, i64::max)
            }
        };
        let marks = self.deletion.timestamp_us.max(self.liveness.timestamp_us);
        self.cells().iter().map(|(_, data)| of_column(data)).fold(marks, i64::max)
    }

    fn each_timestamp_us(&mut self, change: &mut impl FnMut(&mut i64)) {
        change(&mut self.deletion.timestamp_us);
        change(&mut self.liveness.timestamp_us);
        for data in self.cells_mut() {
            match data {
                ColumnData::Simple(cell) => change(&mut cell.timestamp_us),
                ColumnData::Complex(complex) => {
                    change(&mut complex.deletion.timestamp_us);
                    complex.cells.iter_mut().for_each(|element| change(&mut element.cell.timestamp_us));
                }
            }
        }
    }
}

impl Partition {
    /// Increases all timestamps by `by_us`, so their order does not change.
    pub fn make_younger(&mut self, by_us: i64) {
        let mut change = |timestamp_us: &mut i64| {
            if *timestamp_us != NO_TIMESTAMP_US {
                *timestamp_us = timestamp_us.saturating_add(by_us);
            }
        };
        change(&mut self.tombstone.timestamp_us);
        self.static_row.each_timestamp_us(&mut change);
        self.each_row_mut(|row| row.each_timestamp_us(&mut change));
        self.each_range_tombstone_mut(|tombstone| change(&mut tombstone.timestamp_us));
    }
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;

    use super::*;
    use crate::sample::{self, Variety};

    /// All timestamps of a partition, taken from its debug form.
    fn all(partition: &Partition) -> Vec<i64> {
        let text = format!("{partition:?}");
        let parts = text.split("timestamp_us: ").skip(1);
        let number = |part: &str| part.split([',', ' ', '}']).next().and_then(|number| number.parse().ok());
        parts.map(|part| number(part).expect("a timestamp is a number")).collect()
    }

    #[test]
    fn everything_becomes_younger_and_nothing_else_changes() {
        let mut rng = Rng::new(3);
        for _ in 0..300 {
            let variety = Variety::default();
            let schema = rng.pick(&sample::tables()).clone();
            let mutation = sample::mutation(&mut rng, &schema, &variety);
            let before = all(&mutation.partition);
            let mut younger = mutation.partition.clone();
            younger.make_younger(1000);
            let expected: Vec<i64> =
                before.iter().map(|us| if *us == NO_TIMESTAMP_US { *us } else { us + 1000 }).collect();
            assert_eq!(all(&younger), expected);
            let newest = |partition: &Partition| {
                let rows = partition.rows().iter().map(|row| row.row.newest_timestamp_us());
                rows.fold(partition.static_row.newest_timestamp_us(), i64::max)
            };
            if newest(&mutation.partition) != NO_TIMESTAMP_US {
                assert_eq!(newest(&younger), newest(&mutation.partition) + 1000);
            }
            younger.make_younger(-1000);
            assert_eq!(younger, mutation.partition);
        }
    }
}
