//! Moves a reader of partitions to the rows that it wants: to a block by the row index, and within the block
//! head by head.

use std::rc::Rc;

use model::{Position, Tombstone};
use reader::ReadError;
use reader::slice::SliceCutter;

use crate::read::decode::parse::Parsed;
use crate::read::decode::unfiltered::{Head, Kind};
use crate::read::index::row_index::RowIndex;
use crate::read::partitions::{SSTableReader, State};
use crate::read::sstable::SSTable;

/// The result of reading one head on the way to a target.
enum Walked {
    /// A row or marker before the target, of this length in bytes.
    Piece(u64),
    /// The target, a position after it, or the end of the partition.
    Behind,
    Need(u64),
}

impl SSTableReader {
    /// Searches for the start of the next wanted range, and moves there if it lies ahead.
    pub(super) async fn seek(&mut self) -> Result<(), ReadError> {
        let sstable = Rc::clone(&self.sstable);
        let entry = self.entry.as_ref().expect("a partition is being read");
        if self.row_index.is_none() {
            let header_bytes = self.rows_at - entry.position();
            let opened = RowIndex::open(&sstable, entry, header_bytes, self.index_fetch, self.class).await?;
            self.row_index = opened.map(|rows| rows.charged_to(&self.spec.permit));
        }
        self.state = State::Rows;
        let wanted = self.cut.as_ref().and_then(SliceCutter::wanted);
        if self.spec.reversed {
            let target = wanted.map(|wanted| wanted.end.clone());
            self.seek_back(&sstable, target).await
        } else {
            let target = wanted.expect("only those who cut seek forward").start.clone();
            self.seek_forward(&sstable, target).await
        }
    }

    async fn seek_forward(&mut self, sstable: &SSTable, target: Position) -> Result<(), ReadError> {
        let rows = self.row_index.as_mut().expect("only partitions with a row index are searched");
        let place = rows.block_to_start(sstable, &self.spec.schema, &target).await?;
        self.sought = Some(target);
        let Some(place) = place else {
            self.finish_partition();
            return Ok(());
        };
        let start = self.entry.as_ref().expect("a partition is being read").position();
        let block_at = start.checked_add(place.offset()).filter(|at| *at < sstable.data.data_bytes());
        let block_at = block_at.ok_or_else(|| {
            let detail =
                format!("a block {} bytes after its partition's start, after the end", place.offset());
            rows.corrupt(sstable, &detail)
        })?;
        if block_at > self.at {
            let in_force = rows.in_force_at(sstable, &place).await?;
            self.at = block_at;
            self.in_force = in_force;
            self.expected = place.first().cloned();
            self.cut.as_mut().expect("only those who cut seek forward").jump(in_force);
            self.block = Some(place);
            self.need = 0;
            return self.fill(1).await;
        }
        self.block = Some(place);
        Ok(())
    }

    /// Moves to the last row or marker before `target`: finds the block by the row index, and reads it head
    /// by head. A partition without a row index is read head by head as a whole.
    ///
    /// Without a target, moves to the last row or marker of the partition.
    async fn seek_back(&mut self, sstable: &SSTable, target: Option<Position>) -> Result<(), ReadError> {
        let start = self.entry.as_ref().expect("a partition is being read").position();
        let is_walking = self.piece_end > 0;
        self.sought.clone_from(&target);
        let mut place = match &mut self.row_index {
            None if is_walking => return Ok(()),
            None => None,
            Some(rows) => match rows.last_block_before(sstable, &self.spec.schema, target.as_ref()).await? {
                None => {
                    self.finish_partition();
                    return Ok(());
                }
                place => place,
            },
        };
        loop {
            let (mut at, mut in_force) = (self.rows_at, Tombstone::LIVE);
            if let (Some(rows), Some(found)) = (&mut self.row_index, &place) {
                let sound = |at: &u64| *at >= self.rows_at && *at < sstable.data.data_bytes();
                at = start.checked_add(found.offset()).filter(sound).ok_or_else(|| {
                    let detail = format!("a block {} bytes after its partition's start", found.offset());
                    rows.corrupt(sstable, &detail)
                })?;
                let is_below = start.saturating_add(found.end()) <= self.at;
                if is_walking && !is_below {
                    self.block = place;
                    return Ok(());
                }
                in_force = rows.in_force_at(sstable, found).await?;
                self.expected = found.first().cloned();
            }
            if let Some((at, end)) = self.walk_to(sstable, at, target.as_ref(), &mut in_force).await? {
                self.block = place;
                self.at = at;
                self.piece_end = end;
                self.in_force = in_force;
                if let Some(cut) = &mut self.cut {
                    cut.jump(in_force);
                }
                self.need = 0;
                return Ok(());
            }
            place = match (&mut self.row_index, &place) {
                (Some(rows), Some(_)) if rows.knows_first_rows() => {
                    let detail = "no rows before the requested ones, but Index.db has a block of such rows";
                    return Err(sstable.data.corrupt(at, detail));
                }
                (Some(rows), Some(found)) => rows.block_before(sstable, found).await?,
                _ => None,
            };
            if place.is_none() {
                self.finish_partition();
                return Ok(());
            }
        }
    }

    /// Reads head by head from `at` to the last row or marker before `target`. Returns its start and end, if
    /// there is one, and sets `in_force` to the deletion in force after it.
    async fn walk_to(
        &mut self,
        sstable: &SSTable,
        mut at: u64,
        target: Option<&Position>,
        in_force: &mut Tombstone,
    ) -> Result<Option<(u64, u64)>, ReadError> {
        let mut last = None;
        loop {
            match self.walk_head(at, target, in_force)? {
                Walked::Piece(bytes) => {
                    last = Some((at, at + bytes));
                    at += bytes;
                }
                Walked::Need(need) => self.window.fill(&sstable.data, at, need, self.until()).await?,
                Walked::Behind => return Ok(last),
            }
        }
    }

    /// Reads the head at `at` on the way to `target`.
    fn walk_head(
        &mut self,
        at: u64,
        target: Option<&Position>,
        in_force: &mut Tombstone,
    ) -> Result<Walked, ReadError> {
        let head: Head<'_> = match self.parser.head(&self.window, at, false)? {
            Parsed::Done(head) => head,
            Parsed::Need(need) => return Ok(Walked::Need(need)),
        };
        match head.kind {
            Kind::StaticRow => {
                return Err(self.sstable.data.corrupt(at, "a static row that is not the first"));
            }
            Kind::EndOfPartition if !in_force.is_live() => {
                return Err(self.parser.unbalanced(at, *in_force, Tombstone::LIVE));
            }
            Kind::EndOfPartition => return Ok(Walked::Behind),
            Kind::Marker(_) | Kind::Row => {}
        }
        let bytes = head.bytes;
        if let Some(target) = target
            && self.parser.compare(&head, at, &self.spec.schema, target)?.is_ge()
        {
            return Ok(Walked::Behind);
        }
        if let Kind::Marker(kind) = head.kind {
            if bytes > self.window.rest(at).len() as u64 {
                return Ok(Walked::Need(bytes));
            }
            let (in_front, behind) = self.parser.marker(&self.window, &head, kind, at)?;
            if in_front != *in_force {
                return Err(self.parser.unbalanced(at, *in_force, in_front));
            }
            *in_force = behind;
        }
        if self.expected.is_some() {
            let position = Position { prefix: self.parser.key(&head, at)?, side: head.side() };
            check_expected(&self.sstable, &mut self.expected, at, &position)?;
        }
        Ok(Walked::Piece(bytes))
    }
}

/// After a seek: checks that the first row or marker is the one that the row index states.
pub(super) fn check_expected(
    sstable: &SSTable,
    expected: &mut Option<Position>,
    at: u64,
    found: &Position,
) -> Result<(), ReadError> {
    match expected.take() {
        Some(expected) if expected != *found => {
            let detail = format!("Index.db has a block start here with {expected:?}; found {found:?}");
            Err(sstable.data.corrupt(at, &detail))
        }
        _ => Ok(()),
    }
}
