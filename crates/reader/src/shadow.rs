//! Leaves out of one source what another deletes: what nobody will ever read, since the other one stays.
//!
//! ```text
//! data + shadow = what is there        data' = ShadowReader(data, shadow)        data' + shadow = what is there
//! ```
//! Rows, deletions and ranges that a deletion in the shadow covers go whatever its age; with [`Shadowing::Cells`] also
//! cells and row markers that a newer one in the shadow has overwritten. Of the shadow nothing appears. It is read
//! forward, beside the data, and passes over the partitions that the data do not have. Memory: a row of each.
//!
//! Counters are added up, so one does not overwrite another; only deletions count for them.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use base::drive::all;
use model::{Position, RangeTombstoneChange, Row, TableSchema, Tombstone};

use crate::ReadError;
use crate::drive::LocalFuture;
use crate::fragment::{Fragment, ReadSpec, Reader, RowFragment, Step};
use crate::merge::parts;

/// Fragments of the shadow that are passed in a row before the caller may let others run.
const PASSED_MAX: u32 = 256;

/// What is looked for in the shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shadowing {
    /// Deletions of partitions, ranges and rows.
    Rows,
    /// Those, and cells.
    Cells,
}

/// A source with the fragment it shows.
struct Side {
    reader: Box<dyn Reader>,
    head: Option<Fragment>,
    has_ended: bool,
    must_load: bool,
    /// The range deletion in force.
    in_force: Tombstone,
}

impl Side {
    fn new(reader: Box<dyn Reader>) -> Self {
        Self { reader, head: None, has_ended: false, must_load: false, in_force: Tombstone::LIVE }
    }

    /// Shows the next fragment, or has ended; false if it has to load first.
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

    /// Leaves the rest of the partition out.
    fn pass_partition(&mut self) {
        if self.head.take() != Some(Fragment::PartitionEnd) {
            self.reader.skip_partition();
        }
    }
}

/// Where in a partition of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Between,
    /// The shadow does not have it.
    Alone,
    Both,
}

/// See the head of this file.
pub struct ShadowReader {
    schema: Arc<TableSchema>,
    by: Shadowing,
    data: Side,
    shadow: Side,
    place: Place,
    /// The shadow's deletion of the partition.
    deleted: Tombstone,
    /// The shadow's row at the place of the data's head.
    row: Option<Rc<Row>>,
    /// The range deletion of the data that was let out.
    shown: Tombstone,
}

impl ShadowReader {
    /// Both forward, of the same partitions and all rows.
    pub fn new(spec: &ReadSpec, data: Box<dyn Reader>, shadow: Box<dyn Reader>, by: Shadowing) -> Self {
        assert!(!spec.reversed && spec.wants_all_rows(), "a shadow is of whole partitions, forward");
        Self {
            schema: spec.schema.clone(),
            by,
            data: Side::new(data),
            shadow: Side::new(shadow),
            place: Place::Between,
            deleted: Tombstone::LIVE,
            row: None,
            shown: Tombstone::LIVE,
        }
    }

    /// The data show the start of a partition. Goes to it in the shadow; `None` if something has to be loaded.
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
                break Place::Alone;
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
                    break Place::Both;
                }
                Ordering::Greater => break Place::Alone,
            }
        };
        self.place = place;
        let mut start = self.data.head.take();
        if place == Place::Both {
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

    /// The order of the heads of data and shadow.
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

    /// The range deletion of the data that the shadow does not cover, from `position` on, if it is another one there.
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

    /// The shadow's head is in front of the data's, or `meets` it.
    fn take_shadow(&mut self, meets: bool) -> Option<Fragment> {
        match self.shadow.head.take().expect("it was compared") {
            Fragment::Static(row) | Fragment::Row(RowFragment { row, .. }) => {
                self.row = meets.then_some(row);
                None
            }
            Fragment::Change(change) => {
                self.shadow.in_force = change.tombstone;
                // One at the same place in the data says it for both.
                if meets { None } else { self.change(change.position) }
            }
            Fragment::PartitionEnd | Fragment::PartitionStart { .. } => {
                unreachable!("the end of the data is in front of the shadow's")
            }
        }
    }

    /// What is left of a row.
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

    /// The data's head comes next.
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
                self.place = Place::Between;
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
                Place::Between => return Ok(self.start()?.map_or(Step::Load, Step::Ready)),
                Place::Alone => {
                    let head = self.data.head.take().expect("filled");
                    if head == Fragment::PartitionEnd {
                        self.place = Place::Between;
                    }
                    return Ok(Step::Ready(head));
                }
                Place::Both => {
                    if !self.shadow.fill()? {
                        return Ok(Step::Load);
                    }
                    let is_end = self.data.head == Some(Fragment::PartitionEnd);
                    let order = if is_end { Ordering::Less } else { self.order() };
                    // At the same place the shadow goes first, and waits for what the data have there.
                    let out = if order.is_lt() { self.take_data() } else { self.take_shadow(order.is_eq()) };
                    if let Some(out) = out {
                        return Ok(Step::Ready(out));
                    }
                }
            }
        }
        // Nothing to load; others may run.
        Ok(Step::Load)
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        let mut loads = vec![];
        for side in [&mut self.data, &mut self.shadow] {
            if std::mem::take(&mut side.must_load) {
                loads.push(side.reader.load());
            }
        }
        Box::pin(all(loads))
    }

    fn skip_partition(&mut self) {
        if self.place == Place::Between {
            return;
        }
        self.data.pass_partition();
        if self.place == Place::Both {
            self.shadow.pass_partition();
        }
        self.place = Place::Between;
    }
}
