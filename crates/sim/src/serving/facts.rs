//! The model of a table with columns `v` and `w` and a static column `s`: which writes a read must, may and
//! must not see.
//!
//! Each write has a unique number, and every cell that it writes holds that number, so a cell that is read
//! identifies its write. A write is
//!
//! - *flying* while it has no answer, and *possible* when it will never have one: a read may see it or not;
//! - *certain* once it was acknowledged or seen: every read that begins later sees it, or a newer write that
//!   shadows it;
//! - *gone* when the node refused it, when a restart has shown that it did not happen, or when the table was
//!   emptied: no read may see it again.
//!
//! The writes of a logged batch are lost together: a restart shows all of them or none.
//!
//! A write is of one partition, and a read of one partition in one page sees it whole or not at all: if one
//! of its cells is seen, all of it is certain for the remainder of that read. The higher timestamp is the
//! newer one; all timestamps differ.

use std::collections::{BTreeMap, BTreeSet};

use super::notes::{EventTime, Notes};

/// A column whose presence a read shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// The row's liveness, as INSERT sets it, independent of its cells.
    Row,
    V,
    W,
    Static,
}

/// An effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A cell gets the write's number.
    Set(Option<i32>, Column),
    /// A cell gets null.
    Unset(Option<i32>, Column),
    /// Deletes rows of a range, both ends included.
    DeleteRows(i32, i32),
    DeletePartition,
}

impl Effect {
    fn covers(self, c: Option<i32>, column: Column) -> bool {
        match self {
            Self::Set(at, of) | Self::Unset(at, of) => at == c && of == column,
            Self::DeleteRows(from, to) => c.is_some_and(|c| (from..=to).contains(&c)),
            Self::DeletePartition => true,
        }
    }

    fn is_live(self) -> bool {
        matches!(self, Self::Set(..))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flying,
    Possible,
    /// Since this stamp.
    Certain(u64),
    Gone,
}

/// See the head of this file.
#[derive(Clone, Debug)]
struct Write {
    seq: i32,
    p: i32,
    timestamp_us: i64,
    ttl_s: Option<i64>,
    effects: Vec<Effect>,
    begun: EventTime,
    /// When it was answered, or became impossible.
    ended: Option<EventTime>,
    state: State,
    /// No crash can remove it.
    is_durable: bool,
    is_acknowledged: bool,
}

impl Write {
    /// Whether the write covers a place: `Some(true)` with a live cell.
    fn at(&self, c: Option<i32>, column: Column) -> Option<bool> {
        let mut found = None;
        for effect in self.effects.iter().filter(|effect| effect.covers(c, column)) {
            // At the same timestamp a deletion wins.
            found = Some(found.unwrap_or(true) && effect.is_live());
        }
        found
    }
}

/// A row as a read returns it. A partition that has only static columns is a row without `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    pub p: i32,
    pub c: Option<i32>,
    pub v: Option<i32>,
    pub w: Option<i32>,
    pub s: Option<i32>,
}

/// The partitions and rows of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// `None`: all partitions.
    pub p: Option<i32>,
    /// Rows from and to, both included; `None`: all rows, and partitions that have only static columns.
    pub rows: Option<(i32, i32)>,
    /// One partition on one page, which is a snapshot.
    pub is_snapshot: bool,
}

/// See the head of this file.
pub struct Facts {
    pub name: &'static str,
    /// Keys are below these numbers.
    pub partitions: i32,
    pub rows: i32,
    writes: BTreeMap<i32, Write>,
    /// The writes of each logged batch over several partitions, since the last restart.
    batches: Vec<Vec<i32>>,
    /// A schema change of this table is in progress, or has failed.
    pub is_changing: bool,
    /// Stamp of the last start or end of such a change.
    pub disturbed: u64,
}

impl Facts {
    pub fn new(name: &'static str, partitions: i32, rows: i32) -> Self {
        Self {
            name,
            partitions,
            rows,
            writes: BTreeMap::new(),
            batches: vec![],
            is_changing: false,
            disturbed: 0,
        }
    }

    pub fn began(
        &mut self,
        at: EventTime,
        seq: i32,
        p: i32,
        timestamp_us: i64,
        ttl_s: Option<i64>,
        effects: Vec<Effect>,
    ) {
        let write = Write {
            seq,
            p,
            timestamp_us,
            ttl_s,
            effects,
            begun: at,
            ended: None,
            state: State::Flying,
            is_durable: false,
            is_acknowledged: false,
        };
        self.writes.insert(seq, write);
    }

    /// Records that these writes are sent as one logged batch.
    pub fn began_batch(&mut self, seqs: &[i32]) {
        if seqs.len() > 1 {
            self.batches.push(seqs.to_vec());
        }
    }

    /// Records an acknowledgement. `is_durable`: it holds after a power failure too.
    pub fn acknowledged(&mut self, at: EventTime, seq: i32, is_durable: bool) {
        let Some(write) = self.writes.get_mut(&seq) else { return };
        write.ended = Some(at);
        write.is_acknowledged = true;
        write.is_durable = is_durable;
        // The table may have been emptied meanwhile.
        if write.state == State::Flying {
            write.state = State::Certain(at.stamp);
        }
    }

    /// Records that the node refused the write.
    pub fn refused(&mut self, at: EventTime, seq: i32) -> Result<(), String> {
        let Some(write) = self.writes.get_mut(&seq) else { return Ok(()) };
        write.ended = Some(at);
        if matches!(write.state, State::Certain(_)) {
            return Err(format!("{}: write {seq} was seen, and then refused", self.name));
        }
        write.state = State::Gone;
        Ok(())
    }

    /// Records that the write has no answer: it may have happened, or may still happen.
    pub fn unknown(&mut self, seq: i32) {
        if let Some(write) = self.writes.get_mut(&seq).filter(|write| write.state == State::Flying) {
            write.state = State::Possible;
        }
    }

    /// Records that an operation from `begun` to `at` emptied the table. `is_done`: it succeeded.
    pub fn emptied(&mut self, begun: EventTime, at: EventTime, is_done: bool) {
        for write in self.writes.values_mut().filter(|write| write.state != State::Gone) {
            let is_before = write.is_acknowledged && write.ended.is_some_and(|ended| ended < begun);
            write.state = if is_done && is_before {
                State::Gone
            } else if is_before || write.begun < at {
                State::Possible
            } else {
                write.state
            };
        }
        self.disturbed = at.stamp;
    }

    /// Records that the node died. `loses_unsynced`: unsynced writes may be lost.
    pub fn crashed(&mut self, at: EventTime, loses_unsynced: bool) {
        for write in self.writes.values_mut() {
            write.ended.get_or_insert(at);
            let stays = write.is_durable || (write.is_acknowledged && !loses_unsynced);
            if !stays && write.state != State::Gone {
                write.state = State::Possible;
            }
        }
    }

    /// After a restart, and a compared read of everything: writes that were seen are durable, and possible
    /// writes that would have been seen if they were present are lost. An error if a logged batch is there in
    /// part.
    pub fn settle(&mut self, at: EventTime, rows: &[Shown]) -> Result<(), String> {
        let by_place = Places::of(rows);
        let mut all_gone = BTreeSet::new();
        loop {
            let mut gone = vec![];
            for write in self.writes.values().filter(|write| write.state == State::Possible) {
                if self.would_be_shown(write, &by_place) {
                    gone.push(write.seq);
                }
            }
            if gone.is_empty() {
                break;
            }
            all_gone.extend(gone.iter().copied());
            for seq in gone {
                if let Some(write) = self.writes.get_mut(&seq) {
                    write.state = State::Gone;
                }
            }
        }
        for write in self.writes.values_mut() {
            if matches!(write.state, State::Certain(_)) {
                write.is_durable = true;
                write.is_acknowledged = true;
            }
            write.ended.get_or_insert(at);
        }
        for batch in std::mem::take(&mut self.batches) {
            let state = |seq: &i32| self.writes.get(seq).map(|write| write.state);
            let is_there = |seq: &&i32| matches!(state(seq), Some(State::Certain(_)));
            let (there, gone) =
                (batch.iter().find(is_there), batch.iter().find(|seq| all_gone.contains(seq)));
            if let (Some(there), Some(gone)) = (there, gone) {
                return Err(format!(
                    "{}: of the logged batch {batch:?} one write is there, {}\n  and one is not, {}",
                    self.name,
                    self.describe(*there),
                    self.describe(*gone)
                ));
            }
        }
        Ok(())
    }

    /// Whether the content shows that the write is absent.
    fn would_be_shown(&self, write: &Write, shown: &Places) -> bool {
        let places = write.effects.iter().flat_map(|effect| match *effect {
            Effect::Set(c, column) | Effect::Unset(c, column) => vec![(c, column)],
            Effect::DeleteRows(from, to) => {
                (from..=to).flat_map(|c| [(Some(c), Column::V), (Some(c), Column::W)]).collect()
            }
            Effect::DeletePartition => (0..self.rows)
                .flat_map(|c| [(Some(c), Column::V), (Some(c), Column::W)])
                .chain([(None, Column::Static)])
                .collect(),
        });
        places.into_iter().any(|(c, column)| {
            if column == Column::Row {
                return false;
            }
            let others = self.writes.values().filter(|other| {
                other.p == write.p
                    && other.state != State::Gone
                    && other.seq != write.seq
                    && other.timestamp_us > write.timestamp_us
                    && other.at(c, column).is_some()
            });
            if others.count() > 0 {
                return false;
            }
            match (write.at(c, column), shown.seq(write.p, c, column)) {
                (Some(true), Some(seq)) => seq != write.seq,
                // An expired cell is not shown either.
                (Some(true), None) => write.ttl_s.is_none(),
                (Some(false), Some(_)) => true,
                _ => false,
            }
        })
    }

    /// Whether a cell may expire between two moments.
    pub fn may_expire(&self, notes: &Notes, from: EventTime, to: EventTime) -> bool {
        let (least_s, most_s) = notes.wall_s(from, to);
        let expiring = self.writes.values().filter(|write| write.state != State::Gone);
        expiring.filter_map(|write| expiry_s(write, notes, to)).any(|(first_s, last_s)| {
            first_s <= most_s.saturating_add(1) && last_s.saturating_add(1) >= least_s
        })
    }

    /// Compares a read from `begun` to `ended` with the known writes, and learns from it.
    pub fn compare(
        &mut self,
        notes: &Notes,
        scope: Scope,
        rows: &[Shown],
        begun: EventTime,
        ended: EventTime,
    ) -> Result<(), String> {
        let shown = Places::of(rows);
        if shown.twice {
            return Err(format!("{}: a row is there twice: {rows:?}", self.name));
        }
        for row in rows {
            let in_rows = match (scope.rows, row.c) {
                (None, _) => true,
                (Some((from, to)), Some(c)) => (from..=to).contains(&c),
                (Some(_), None) => false,
            };
            if !in_rows || scope.p.is_some_and(|p| p != row.p) || !(0..self.partitions).contains(&row.p) {
                return Err(format!("{}: an unrequested row: {row:?}", self.name));
            }
        }
        let seen: BTreeSet<i32> = rows.iter().flat_map(|row| [row.v, row.w, row.s]).flatten().collect();
        let of_read = Read { notes, begun, ended, seen: if scope.is_snapshot { Some(&seen) } else { None } };
        for p in scope.p.map_or(0..self.partitions, |p| p..p + 1) {
            let (from, to) = scope.rows.unwrap_or((0, self.rows - 1));
            for c in from..=to {
                let row = shown.rows.get(&(p, Some(c)));
                let columns =
                    [(Column::V, row.and_then(|row| row.v)), (Column::W, row.and_then(|row| row.w))];
                for (column, cell) in columns {
                    self.compare_cell(&of_read, p, Some(c), column, cell)?;
                }
                match row {
                    None => self.compare_cell(&of_read, p, Some(c), Column::Row, None)?,
                    Some(row) if row.v.is_none() && row.w.is_none() => self.compare_marker(&of_read, p, c)?,
                    Some(_) => {}
                }
            }
            let of_partition: Vec<&Shown> = rows.iter().filter(|row| row.p == p).collect();
            let statics: BTreeSet<Option<i32>> = of_partition.iter().map(|row| row.s).collect();
            if statics.len() > 1 && scope.is_snapshot {
                return Err(format!("{}: partition {p} has several static rows: {statics:?}", self.name));
            }
            // A read of some rows shows static columns only beside those rows.
            if !of_partition.is_empty() || scope.rows.is_none() {
                for cell in
                    of_partition.iter().map(|row| row.s).chain(of_partition.is_empty().then_some(None))
                {
                    self.compare_cell(&of_read, p, None, Column::Static, cell)?;
                }
            }
        }
        for seq in seen {
            if let Some(write) = self.writes.get_mut(&seq)
                && matches!(write.state, State::Flying | State::Possible)
            {
                write.state = State::Certain(ended.stamp);
            }
        }
        Ok(())
    }

    fn describe(&self, seq: i32) -> String {
        match self.writes.get(&seq) {
            Some(write) => format!("{write:?}"),
            None => format!("{seq}, which no client wrote"),
        }
    }

    fn compare_cell(
        &self,
        read: &Read<'_>,
        p: i32,
        c: Option<i32>,
        column: Column,
        cell: Option<i32>,
    ) -> Result<(), String> {
        let place = || format!("{} p={p} c={c:?} {column:?}", self.name);
        let covering = || self.writes.values().filter(|write| write.p == p && write.at(c, column).is_some());
        let top = covering().filter(|write| read.must_see(write)).max_by_key(|write| write.timestamp_us);
        if let Some(seq) = cell {
            let Some(write) = self.writes.get(&seq).filter(|write| write.p == p) else {
                return Err(format!("{}: shows {seq}, which no client wrote there", place()));
            };
            let described = || format!("{}: shows {}", place(), self.describe(seq));
            if write.at(c, column) != Some(true) {
                return Err(format!("{}\n  which does not write there", described()));
            }
            if write.state == State::Gone {
                return Err(format!("{}\n  which must not be seen", described()));
            }
            if expiry_s(write, read.notes, read.ended)
                .is_some_and(|(_, last_s)| read.notes.wall_s(read.begun, read.ended).0 >= last_s)
            {
                return Err(format!("{}\n  which has expired", described()));
            }
            return match top.filter(|top| top.timestamp_us > write.timestamp_us) {
                Some(top) => Err(format!("{}\n  but a younger one is certain: {top:?}", described())),
                None => Ok(()),
            };
        }
        let Some(top) = top.filter(|top| top.at(c, column) == Some(true)) else { return Ok(()) };
        let is_explained = read.may_be_dead(top)
            || covering().any(|write| {
                write.timestamp_us > top.timestamp_us
                    && write.state != State::Gone
                    && (write.at(c, column) == Some(false) || read.may_be_dead(write))
            });
        if is_explained {
            return Ok(());
        }
        Err(format!("{}: shows nothing, but a write is certain: {top:?}", place()))
    }

    /// A row without cells exists because of an INSERT.
    fn compare_marker(&self, read: &Read<'_>, p: i32, c: i32) -> Result<(), String> {
        let inserts = self.writes.values().filter(|write| {
            write.p == p && write.state != State::Gone && write.at(Some(c), Column::Row) == Some(true)
        });
        let deleted_us = self
            .writes
            .values()
            .filter(|write| {
                write.p == p && read.must_see(write) && write.at(Some(c), Column::Row) == Some(false)
            })
            .map(|write| write.timestamp_us)
            .max();
        if inserts.filter(|write| deleted_us.is_none_or(|us| us < write.timestamp_us)).count() == 0 {
            return Err(format!("{} p={p} c={c}: an empty row that no client inserted", self.name));
        }
        Ok(())
    }
}

/// The earliest and the latest second of the wall clock at which a write's cells expire.
fn expiry_s(write: &Write, notes: &Notes, now: EventTime) -> Option<(i64, i64)> {
    let ttl_s = write.ttl_s?;
    let (least_s, most_s) = notes.wall_s(write.begun, write.ended.unwrap_or(now));
    Some((least_s + ttl_s, most_s + ttl_s + 1))
}

/// Scope and times of a read.
struct Read<'a> {
    notes: &'a Notes,
    begun: EventTime,
    ended: EventTime,
    seen: Option<&'a BTreeSet<i32>>,
}

impl Read<'_> {
    fn must_see(&self, write: &Write) -> bool {
        match write.state {
            State::Certain(since) if since < self.begun.stamp => true,
            State::Gone => false,
            _ => self.seen.is_some_and(|seen| seen.contains(&write.seq)),
        }
    }

    /// The write may have expired, now or before the clock was set back.
    fn may_be_dead(&self, write: &Write) -> bool {
        let most_s = self.notes.wall_s(write.begun, self.ended).1;
        expiry_s(write, self.notes, self.ended).is_some_and(|(first_s, _)| most_s >= first_s)
    }
}

/// The content of a read, by place.
struct Places {
    rows: BTreeMap<(i32, Option<i32>), Shown>,
    twice: bool,
}

impl Places {
    fn of(rows: &[Shown]) -> Self {
        let by_place: BTreeMap<_, _> = rows.iter().map(|row| ((row.p, row.c), *row)).collect();
        Self { twice: by_place.len() < rows.len(), rows: by_place }
    }

    fn seq(&self, p: i32, c: Option<i32>, column: Column) -> Option<i32> {
        if column == Column::Static {
            return self.rows.iter().find(|((at, _), _)| *at == p).and_then(|(_, row)| row.s);
        }
        let row = self.rows.get(&(p, c))?;
        if column == Column::V { row.v } else { row.w }
    }
}
