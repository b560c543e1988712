//! Splits the output by time windows: the data of a partition is distributed by the timestamps of its writes.
//!
//! A row with cells of several windows becomes several rows with the same key, which merge into the original
//! row; tombstones are distributed by their own timestamps. At most `windows_max` SSTables are open at a
//! time; data of further windows goes to the nearest open one.

use std::collections::BTreeMap;
use std::rc::Rc;

use compaction::Layout;
use model::{ColumnData, Liveness, PartitionKey, RangeTombstoneChange, Row, Tombstone};
use reader::{Fragment, RowFragment};
use sstable::read::SSTable;

use super::error::JobError;
use super::output::{Cutter, OutputFactory};

struct Window {
    cutter: Cutter,
    /// The current partition has begun in it.
    has_begun: bool,
    in_force: Tombstone,
}

/// See the head of this file.
pub(super) struct Windows {
    maker: Rc<OutputFactory>,
    layout: Layout,
    origin: &'static str,
    window: i64,
    windows_max: usize,
    open: BTreeMap<i64, Window>,
    key: Option<PartitionKey>,
    tombstone: Tombstone,
}

impl Windows {
    /// `layout` is the layout of each window; `window` its length in the unit of timestamps.
    pub(super) fn new(
        maker: Rc<OutputFactory>,
        layout: Layout,
        origin: &'static str,
        window: i64,
        windows_max: usize,
    ) -> Self {
        Self {
            maker,
            layout,
            origin,
            window: window.max(1),
            windows_max: windows_max.max(1),
            open: BTreeMap::new(),
            key: None,
            tombstone: Tombstone::LIVE,
        }
    }

    /// The window for data with this timestamp.
    fn of(&mut self, timestamp: i64) -> i64 {
        let start = timestamp.div_euclid(self.window).saturating_mul(self.window);
        if self.open.contains_key(&start) {
            return start;
        }
        if self.open.len() >= self.windows_max {
            let before = self.open.range(..start).next_back().map(|(at, _)| *at);
            let behind = self.open.range(start..).next().map(|(at, _)| *at);
            let distance = |at: i64| at.abs_diff(start);
            return match (before, behind) {
                (Some(before), Some(behind)) if distance(behind) < distance(before) => behind,
                (Some(before), _) => before,
                (None, Some(behind)) => behind,
                (None, None) => unreachable!("as many are open as may be"),
            };
        }
        let cutter = Cutter::new(self.maker.clone(), self.layout.clone(), self.origin);
        self.open.insert(start, Window { cutter, has_begun: false, in_force: Tombstone::LIVE });
        start
    }

    pub(super) async fn push(&mut self, fragment: Fragment) -> Result<(), JobError> {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                self.key = Some(key);
                self.tombstone = Tombstone::LIVE;
                if !tombstone.is_live() {
                    let window = self.of(tombstone.timestamp_us);
                    self.tombstone = tombstone;
                    self.begin(window).await?;
                    // Only one window has the partition tombstone.
                    self.tombstone = Tombstone::LIVE;
                }
            }
            Fragment::Static(row) => {
                for (window, row) in self.split(row) {
                    self.put(window, Fragment::Static(row)).await?;
                }
            }
            Fragment::Row(RowFragment { key, row }) => {
                for (window, row) in self.split(row) {
                    self.put(window, Fragment::Row(RowFragment { key: key.clone(), row })).await?;
                }
            }
            Fragment::Change(RangeTombstoneChange { position, tombstone }) => {
                let to = (!tombstone.is_live()).then(|| self.of(tombstone.timestamp_us));
                let ends: Vec<i64> = (self.open.iter())
                    .filter(|(at, window)| !window.in_force.is_live() && Some(**at) != to)
                    .map(|(at, _)| *at)
                    .collect();
                for (window, tombstone) in
                    ends.into_iter().map(|at| (at, Tombstone::LIVE)).chain(to.map(|to| (to, tombstone)))
                {
                    let change = RangeTombstoneChange { position: position.clone(), tombstone };
                    self.put(window, Fragment::Change(change)).await?;
                    self.open.get_mut(&window).expect("it is open").in_force = tombstone;
                }
            }
            Fragment::PartitionEnd => {
                for window in self.open.values_mut().filter(|window| window.has_begun) {
                    window.cutter.take(Fragment::PartitionEnd).await?;
                    window.has_begun = false;
                    window.in_force = Tombstone::LIVE;
                }
            }
        }
        Ok(())
    }

    async fn begin(&mut self, window: i64) -> Result<(), JobError> {
        let Self { open, key, tombstone, .. } = self;
        let window = open.get_mut(&window).expect("it is open");
        if !window.has_begun {
            let key = key.clone().expect("a partition has begun");
            window.cutter.take(Fragment::PartitionStart { key, tombstone: *tombstone }).await?;
            window.has_begun = true;
        }
        Ok(())
    }

    async fn put(&mut self, window: i64, fragment: Fragment) -> Result<(), JobError> {
        self.begin(window).await?;
        self.open.get_mut(&window).expect("it is open").cutter.take(fragment).await
    }

    /// The row's parts, each with its window.
    fn split(&mut self, row: Rc<Row>) -> Vec<(i64, Rc<Row>)> {
        let (least, most) = timestamps(&row);
        let first = self.of(least);
        if self.of(most) == first && least.div_euclid(self.window) == most.div_euclid(self.window) {
            return vec![(first, row)];
        }
        let mut parts: BTreeMap<i64, Row> = BTreeMap::new();
        if !row.deletion.is_live() {
            parts.entry(self.of(row.deletion.timestamp_us)).or_default().deletion = row.deletion;
        }
        if !row.liveness.is_none() {
            parts.entry(self.of(row.liveness.timestamp_us)).or_default().liveness = row.liveness;
        }
        for (id, data) in row.cells() {
            match data {
                ColumnData::Simple(cell) => {
                    let part = parts.entry(self.of(cell.timestamp_us)).or_default();
                    part.push(*id, ColumnData::Simple(cell.clone()));
                }
                ColumnData::Complex(complex) => {
                    let mut of_column: BTreeMap<i64, model::ComplexCells> = BTreeMap::new();
                    if !complex.deletion.is_live() {
                        of_column.entry(self.of(complex.deletion.timestamp_us)).or_default().deletion =
                            complex.deletion;
                    }
                    for element in &complex.cells {
                        let window = self.of(element.cell.timestamp_us);
                        of_column.entry(window).or_default().cells.push(element.clone());
                    }
                    for (window, cells) in of_column {
                        parts.entry(window).or_default().push(*id, ColumnData::Complex(Box::new(cells)));
                    }
                }
            }
        }
        parts.into_iter().map(|(window, row)| (window, Rc::new(row))).collect()
    }

    pub(super) fn wants_write(&self) -> bool {
        self.open.values().any(|window| window.cutter.wants_write())
    }

    pub(super) async fn write_out(&mut self) -> Result<(), JobError> {
        for window in self.open.values_mut() {
            window.cutter.write_out().await?;
        }
        Ok(())
    }

    pub(super) async fn end_sstables(&mut self) -> Result<(), JobError> {
        for window in self.open.values_mut() {
            window.cutter.end_sstable().await?;
        }
        Ok(())
    }

    pub(super) fn take_complete(&mut self) -> Vec<Rc<SSTable>> {
        self.open.values_mut().flat_map(|window| window.cutter.take_complete()).collect()
    }

    pub(super) async fn abort(&mut self) {
        for window in self.open.values_mut() {
            window.cutter.abort().await;
        }
    }
}

/// The least and the greatest timestamp in a row that is not empty.
fn timestamps(row: &Row) -> (i64, i64) {
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    let mut see = |timestamp: i64| {
        least = least.min(timestamp);
        most = most.max(timestamp);
    };
    if !row.deletion.is_live() {
        see(row.deletion.timestamp_us);
    }
    if row.liveness != Liveness::NONE {
        see(row.liveness.timestamp_us);
    }
    for (_, data) in row.cells() {
        match data {
            ColumnData::Simple(cell) => see(cell.timestamp_us),
            ColumnData::Complex(complex) => {
                if !complex.deletion.is_live() {
                    see(complex.deletion.timestamp_us);
                }
                complex.cells.iter().for_each(|element| see(element.cell.timestamp_us));
            }
        }
    }
    (least, most)
}
