//! How a reader of partitions gets to the rows it wants: by the promoted index, and within a block head by head.

use std::rc::Rc;

use model::{Position, Tombstone};
use reader::ReadError;
use reader::slice::Cutter;

use super::parse::Parsed;
use super::partitions::{SSTableReader, State};
use super::promoted::{BlockEnd, Promoted};
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
        if self.promoted.is_none() && entry.promoted_bytes > 0 {
            let promoted = {
                let permit = &self.spec.permit;
                Promoted::open_for(permit, &table.index, entry, self.index_fetch, self.class).await?
            };
            let header_bytes = promoted.as_ref().map_or(0, |promoted| promoted.head().header_bytes);
            if header_bytes != self.rows_at - entry.position {
                let detail = format!(
                    "length of a partition's header: expected {} as in Data.db, found {header_bytes}",
                    self.rows_at - entry.position
                );
                return Err(table.index.corrupt(entry.promoted_at, &detail));
            }
            self.promoted = promoted;
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
        let promoted = self.promoted.as_mut().expect("only partitions with a promoted index are searched");
        let fixed = &table.columns.clustering_lengths;
        let schema = &self.spec.schema;
        let index = promoted.blocks_before(&table.index, fixed, schema, BlockEnd::Last, &target).await?;
        self.sought = Some(target);
        if index == promoted.block_count() {
            self.finish_partition();
            return Ok(());
        }
        let block = promoted.block(&table.index, fixed, index).await?;
        let start = self.entry.as_ref().expect("a partition is being read").position;
        let block_at = start.checked_add(block.offset).filter(|at| *at < table.data.data_bytes());
        let block_at = block_at.ok_or_else(|| {
            let detail =
                format!("a block {} bytes behind its partition's start, behind the end", block.offset);
            table.index.corrupt(promoted.position(), &detail)
        })?;
        if block_at > self.at {
            let in_force = match index.checked_sub(1) {
                Some(before) => promoted.block(&table.index, fixed, before).await?.open,
                None => Tombstone::LIVE,
            };
            self.at = block_at;
            self.in_force = in_force;
            self.expected = Some(block.first.clone());
            self.cut.as_mut().expect("only those who cut seek forward").jump(in_force);
            self.block = Some(block);
            self.need = 0;
            return self.fill(1).await;
        }
        self.block = Some(block);
        Ok(())
    }

    /// Finds the last row or marker in front of `target`: the block by the promoted index, within it (or in all
    /// of a partition without one) head by head.
    ///
    /// Without a target the last one of all, which may stand behind every row.
    async fn seek_back(&mut self, table: &SSTable, target: Option<Position>) -> Result<(), ReadError> {
        let fixed = &table.columns.clustering_lengths;
        let start = self.entry.as_ref().expect("a partition is being read").position;
        let is_walking = self.piece_end > 0;
        let (mut at, mut in_force) = (self.rows_at, Tombstone::LIVE);
        self.sought.clone_from(&target);
        if let Some(promoted) = &mut self.promoted {
            let schema = &self.spec.schema;
            let index = match &target {
                Some(target) => {
                    promoted.blocks_before(&table.index, fixed, schema, BlockEnd::First, target).await?
                }
                None => promoted.block_count(),
            };
            let Some(index) = index.checked_sub(1) else {
                self.finish_partition();
                return Ok(());
            };
            let block = promoted.block(&table.index, fixed, index).await?;
            let block_at = start.checked_add(block.offset);
            let sound = |at: &u64| *at >= self.rows_at && *at < table.data.data_bytes();
            at = block_at.filter(sound).ok_or_else(|| {
                let detail = format!("a block {} bytes behind its partition's start", block.offset);
                table.index.corrupt(promoted.position(), &detail)
            })?;
            let is_below = at.saturating_add(block.width) <= self.at;
            if is_walking && !is_below {
                self.block = Some(block);
                return Ok(());
            }
            if let Some(before) = index.checked_sub(1) {
                in_force = promoted.block(&table.index, fixed, before).await?.open;
            }
            self.expected = Some(block.first.clone());
            self.block = Some(block);
        } else if is_walking {
            return Ok(());
        }
        let mut last = None;
        loop {
            let walked = self.walk_head(at, target.as_ref(), &mut in_force)?;
            match walked {
                Walked::Piece(bytes) => {
                    last = Some((at, at + bytes));
                    at += bytes;
                }
                Walked::Need(need) => self.window.fill(&table.data, at, need, self.until()).await?,
                Walked::Behind => break,
            }
        }
        match last {
            Some((at, end)) => {
                self.at = at;
                self.piece_end = end;
                self.in_force = in_force;
                if let Some(cut) = &mut self.cut {
                    cut.jump(in_force);
                }
                self.need = 0;
            }
            None if self.promoted.is_some() => {
                let detail = "nothing in front of the wanted rows, where Index.db has a block of such";
                return Err(table.data.corrupt(at, detail));
            }
            None => self.finish_partition(),
        }
        Ok(())
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

/// After a jump: whether the first piece is the one that the promoted index names.
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
