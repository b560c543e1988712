//! Removes from one source (the data) what another source (the shadow) deletes. No read can miss the removed
//! data, because the shadow remains.
//!
//! ```text
//! data + shadow = the content        data' = ShadowReader(data, shadow)        data' + shadow = the content
//! ```
//! Rows, row tombstones and range tombstones that a tombstone of the shadow covers are removed at any age of
//! the tombstone. With [`Shadowing::Cells`], cells and row markers that the shadow has overwritten with newer
//! ones are removed too. Nothing of the shadow is emitted. The shadow is read forward, in step with the data;
//! partitions that the data does not contain are skipped. Memory: one row of each source.
//!
//! Counters are summed, so one does not overwrite another; for counters only tombstones are applied.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use base::join::join_all;
use model::{Position, RangeTombstoneChange, Row, TableSchema, Tombstone};

use crate::ReadError;
use crate::block_on::LocalFuture;
use crate::fragment::{Fragment, ReadSpec, Reader, RowFragment, Step};
use crate::merge::parts;

/// Number of consecutive fragments of the shadow that may be skipped before the reader offers its caller a
/// chance to yield.
const PASSED_MAX: u32 = 256;

/// Which entries of the shadow are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shadowing {
    /// Partition, range and row tombstones.
    Rows,
    /// All tombstones, and newer cells.
    Cells,
}

/// One of the two sources, with its current fragment.
struct Side {
    reader: Box<dyn Reader>,
    head: Option<Fragment>,
    has_ended: bool,
    must_load: bool,
    /// The range tombstone in force.
    in_force: Tombstone,
}

impl Side {
    fn new(reader: Box<dyn Reader>) -> Self {
        Self { reader, head: None, has_ended: false, must_load: false, in_force: Tombstone::LIVE }
    }

    /// Reads the current fragment, unless the source has ended. False if the source has to load first.
    fn fill(&mut self) -> Result<bool, ReadError> {
        if self.head.is_none() && !self.has_ended {
            match self.reader.next()? {
                Step::Ready(fragment) => self.head = Some(fragment),
                Step::End => self.has_ended = true,
                Step::Load => self.must_load = true,
            }
        }
        Ok(!self.must_load)
    }

    /// Skips the remainder of the partition.
    fn pass_partition(&mut self) {
        if self.head.take() != Some(Fragment::PartitionEnd) {
            self.reader.skip_partition();
        }
    }
}

/// Position in a partition of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartitionState {
    Between,
    /// Inside a partition that the shadow does not contain.
    Alone,
    /// Inside a partition of both sources.
    Both,
}

/// Reader that removes shadowed data. See the head of this file.
pub struct ShadowReader {
    schema: Arc<TableSchema>,
    by: Shadowing,
    data: Side,
    shadow: Side,
    place: PartitionState,
    /// The shadow's tombstone of the partition.
    deleted: Tombstone,
    /// The shadow's row at the position of the data's current fragment.
    row: Option<Rc<Row>>,
    /// The range tombstone of the data that was emitted.
    shown: Tombstone,
}

impl ShadowReader {
    /// Both readers go forward, over the same partitions and all their rows.
    pub fn new(spec: &ReadSpec, data: Box<dyn Reader>, shadow: Box<dyn Reader>, by: Shadowing) -> Self {
        assert!(!spec.reversed && spec.wants_all_rows(), "a shadow is of whole partitions, forward");
        Self {
            schema: spec.schema.clone(),
            by,
            data: Side::new(data),
            shadow: Side::new(shadow),
            place: PartitionState::Between,
            deleted: Tombstone::LIVE,
            row: None,
            shown: Tombstone::LIVE,
        }
    }

    /// Handles the start of a partition in the data: moves the shadow to the same partition. `None` if the
    /// shadow has to load first, or if [`PASSED_MAX`] was reached.
    fn start(&mut self) -> Result<Option<Fragment>, ReadError> {
        let Some(Fragment::PartitionStart { key, .. }) = &self.data.head else {
            unreachable!("a partition starts between two")
        };
        let mut passed = 0;
        let place = loop {
            if !self.shadow.fill()? {
                return Ok(None);
            }
            let Some(Fragment::PartitionStart { key: there, tombstone }) = &self.shadow.head else {
                break PartitionState::Alone;
            };
            match there.cmp(key) {
                Ordering::Less => {
                    self.shadow.pass_partition();
                    passed += 1;
                    if passed > PASSED_MAX {
                        return Ok(None);
                    }
                }
                Ordering::Equal => {
                    self.deleted = *tombstone;
                    self.shadow.head = None;
                    break PartitionState::Both;
                }
                Ordering::Greater => break PartitionState::Alone,
            }
        };
        self.place = place;
        let mut start = self.data.head.take();
        if place == PartitionState::Both {
            self.row = None;
            (self.data.in_force, self.shadow.in_force) = (Tombstone::LIVE, Tombstone::LIVE);
            self.shown = Tombstone::LIVE;
            if let Some(Fragment::PartitionStart { tombstone, .. }) = &mut start
                && self.deleted.max(*tombstone) == self.deleted
            {
                *tombstone = Tombstone::LIVE;
            }
        }
        Ok(start)
    }

    /// Order of the current fragments of data and shadow.
    fn order(&self) -> Ordering {
        let rank = |head: &Option<Fragment>| match head {
            Some(Fragment::Static(_)) => 0,
            Some(Fragment::Row(_) | Fragment::Change(_)) => 1,
            _ => 2,
        };
        let positions = |head: &Option<Fragment>| head.as_ref().map(|head| parts(head).is_some());
        match (&self.data.head, &self.shadow.head) {
            (Some(data), Some(shadow))
                if positions(&self.data.head) == Some(true) && positions(&self.shadow.head) == Some(true) =>
            {
                let (data, shadow) = (parts(data), parts(shadow));
                self.schema.compare_parts(data.expect("looked at"), shadow.expect("looked at"))
            }
            (data, shadow) => rank(data).cmp(&rank(shadow)),
        }
    }

    /// Emits the data's range tombstone from `position` on, without the part that the shadow covers, if it
    /// differs from the one emitted last.
    fn change(&mut self, position: Position) -> Option<Fragment> {
        let shadow = self.deleted.max(self.shadow.in_force);
        let in_force = self.data.in_force;
        let shown = if shadow.max(in_force) == shadow { Tombstone::LIVE } else { in_force };
        if shown == self.shown {
            return None;
        }
        self.shown = shown;
        Some(Fragment::Change(RangeTombstoneChange { position, tombstone: shown }))
    }

    /// Consumes the shadow's current fragment, which comes before the data's or, with `meets`, at the same
    /// position.
    fn take_shadow(&mut self, meets: bool) -> Option<Fragment> {
        match self.shadow.head.take().expect("it was compared") {
            Fragment::Static(row) | Fragment::Row(RowFragment { row, .. }) => {
                self.row = meets.then_some(row);
                None
            }
            Fragment::Change(change) => {
                self.shadow.in_force = change.tombstone;
                // A change of the data at the same position is emitted for both.
                if meets { None } else { self.change(change.position) }
            }
            Fragment::PartitionEnd | Fragment::PartitionStart { .. } => {
                unreachable!("the end of the data is in front of the shadow's")
            }
        }
    }

    /// The row without the parts that the shadow deletes; `None` if nothing remains.
    fn rest(&mut self, row: Rc<Row>) -> Option<Rc<Row>> {
        let shadow = self.row.take();
        let of_row = shadow.as_ref().map_or(Tombstone::LIVE, |shadow| shadow.deletion);
        let deleted = self.deleted.max(self.shadow.in_force).max(of_row);
        let overwrites = self.by == Shadowing::Cells && !self.schema.has_counters();
        let shadow = shadow.filter(|_| overwrites);
        if deleted.is_live() && shadow.is_none() {
            return Some(row);
        }
        let mut row = row;
        let left = Rc::make_mut(&mut row);
        left.shadow(deleted);
        if let Some(shadow) = shadow {
            left.remove_overwritten(&shadow, &self.schema);
        }
        (!left.is_empty()).then_some(row)
    }

    /// Consumes the data's current fragment.
    fn take_data(&mut self) -> Option<Fragment> {
        match self.data.head.take().expect("it was compared") {
            Fragment::Static(row) => self.rest(row).map(Fragment::Static),
            Fragment::Row(RowFragment { key, row }) => {
                self.rest(row).map(|row| Fragment::Row(RowFragment { key, row }))
            }
            Fragment::Change(change) => {
                self.data.in_force = change.tombstone;
                self.change(change.position)
            }
            Fragment::PartitionEnd => {
                self.shadow.pass_partition();
                self.place = PartitionState::Between;
                Some(Fragment::PartitionEnd)
            }
            Fragment::PartitionStart { .. } => unreachable!("a partition ends before the next begins"),
        }
    }
}

impl Reader for ShadowReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        for _ in 0..PASSED_MAX {
            if !self.data.fill()? {
                return Ok(Step::Load);
            }
            if self.data.has_ended {
                return Ok(Step::End);
            }
            match self.place {
                PartitionState::Between => return Ok(self.start()?.map_or(Step::Load, Step::Ready)),
                PartitionState::Alone => {
                    let head = self.data.head.take().expect("filled");
                    if head == Fragment::PartitionEnd {
                        self.place = PartitionState::Between;
                    }
                    return Ok(Step::Ready(head));
                }
                PartitionState::Both => {
                    if !self.shadow.fill()? {
                        return Ok(Step::Load);
                    }
                    let is_end = self.data.head == Some(Fragment::PartitionEnd);
                    let order = if is_end { Ordering::Less } else { self.order() };
                    // At equal positions the shadow is consumed first; its row is then applied to the row of
                    // the data.
                    let out = if order.is_lt() { self.take_data() } else { self.take_shadow(order.is_eq()) };
                    if let Some(out) = out {
                        return Ok(Step::Ready(out));
                    }
                }
            }
        }
        // Nothing has to be loaded: this offers the caller a chance to yield.
        Ok(Step::Load)
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        let mut loads = vec![];
        for side in [&mut self.data, &mut self.shadow] {
            if std::mem::take(&mut side.must_load) {
                loads.push(side.reader.load());
            }
        }
        Box::pin(join_all(loads))
    }

    fn skip_partition(&mut self) {
        if self.place == PartitionState::Between {
            return;
        }
        self.data.pass_partition();
        if self.place == PartitionState::Both {
            self.shadow.pass_partition();
        }
        self.place = PartitionState::Between;
    }
}
