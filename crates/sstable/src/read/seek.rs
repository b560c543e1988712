//! How a reader of partitions gets to the rows it wants: by the row index, and within a block head by head.

use std::rc::Rc;

use model::{Position, Tombstone};
use reader::ReadError;
use reader::slice::Cutter;

use super::parse::Parsed;
use super::partitions::{SSTableReader, State};
use super::row_index::RowIndex;
use super::table::SSTable;
use super::unfiltered::{Head, Kind};

/// What is at a place on the way to a target.
enum Walked {
    /// A row or marker in front of the target, this long.
    Piece(u64),
    /// The target, something behind it, or the partition's end.
    Behind,
    Need(u64),
}

impl SSTableReader {
    /// Finds the place of the next wanted range, and goes there if that is a shorter way.
    pub(super) async fn seek(&mut self) -> Result<(), ReadError> {
        let table = Rc::clone(&self.table);
        let entry = self.entry.as_ref().expect("a partition is being read");
        if self.row_index.is_none() {
            let header_bytes = self.rows_at - entry.position();
            let opened = RowIndex::open(&table, entry, header_bytes, self.index_fetch, self.class).await?;
            self.row_index = opened.map(|rows| rows.charged_to(&self.spec.permit));
        }
        self.state = State::Rows;
        let wanted = self.cut.as_ref().and_then(Cutter::wanted);
        if self.spec.reversed {
            let target = wanted.map(|wanted| wanted.end.clone());
            self.seek_back(&table, target).await
        } else {
            let target = wanted.expect("only those who cut seek forward").start.clone();
            self.seek_forward(&table, target).await
        }
    }

    async fn seek_forward(&mut self, table: &SSTable, target: Position) -> Result<(), ReadError> {
        let rows = self.row_index.as_mut().expect("only partitions with a row index are searched");
        let place = rows.block_to_start(table, &self.spec.schema, &target).await?;
        self.sought = Some(target);
        let Some(place) = place else {
            self.finish_partition();
            return Ok(());
        };
        let start = self.entry.as_ref().expect("a partition is being read").position();
        let block_at = start.checked_add(place.offset()).filter(|at| *at < table.data.data_bytes());
        let block_at = block_at.ok_or_else(|| {
            let detail =
                format!("a block {} bytes behind its partition's start, behind the end", place.offset());
            rows.corrupt(table, &detail)
        })?;
        if block_at > self.at {
            let in_force = rows.in_force_at(table, &place).await?;
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

    /// Finds the last row or marker in front of `target`: the block by the row index, within it (or in all of a
    /// partition without one) head by head.
    ///
    /// Without a target the last one of all, which may stand behind every row.
    async fn seek_back(&mut self, table: &SSTable, target: Option<Position>) -> Result<(), ReadError> {
        let start = self.entry.as_ref().expect("a partition is being read").position();
        let is_walking = self.piece_end > 0;
        self.sought.clone_from(&target);
        let mut place = match &mut self.row_index {
            None if is_walking => return Ok(()),
            None => None,
            Some(rows) => match rows.block_in_front(table, &self.spec.schema, target.as_ref()).await? {
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
                let sound = |at: &u64| *at >= self.rows_at && *at < table.data.data_bytes();
                at = start.checked_add(found.offset()).filter(sound).ok_or_else(|| {
                    let detail = format!("a block {} bytes behind its partition's start", found.offset());
                    rows.corrupt(table, &detail)
                })?;
                let is_below = start.saturating_add(found.end()) <= self.at;
                if is_walking && !is_below {
                    self.block = place;
                    return Ok(());
                }
                in_force = rows.in_force_at(table, found).await?;
                self.expected = found.first().cloned();
            }
            if let Some((at, end)) = self.walk_to(table, at, target.as_ref(), &mut in_force).await? {
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
                    let detail = "nothing in front of the wanted rows, where Index.db has a block of such";
                    return Err(table.data.corrupt(at, detail));
                }
                (Some(rows), Some(found)) => rows.block_before(table, found).await?,
                _ => None,
            };
            if place.is_none() {
                self.finish_partition();
                return Ok(());
            }
        }
    }

    /// Walks head by head from `at` to the last row or marker in front of `target`. Gives its start and end, if
    /// there is one, and sets what is in force behind it.
    async fn walk_to(
        &mut self,
        table: &SSTable,
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
                Walked::Need(need) => self.window.fill(&table.data, at, need, self.until()).await?,
                Walked::Behind => return Ok(last),
            }
        }
    }

    /// Looks at the head at `at` on the way to `target`.
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
                return Err(self.table.data.corrupt(at, "a static row that is not the first"));
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
            check_expected(&self.table, &mut self.expected, at, &position)?;
        }
        Ok(Walked::Piece(bytes))
    }
}

/// After a jump: whether the first piece is the one that the row index names.
pub(super) fn check_expected(
    table: &SSTable,
    expected: &mut Option<Position>,
    at: u64,
    found: &Position,
) -> Result<(), ReadError> {
    match expected.take() {
        Some(expected) if expected != *found => {
            let detail = format!("Index.db has a block start here with {expected:?}; found {found:?}");
            Err(table.data.corrupt(at, &detail))
        }
        _ => Ok(()),
    }
}
