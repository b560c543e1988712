//! The postings of a query in all sources of a table, as they are when the read begins.
//!
//! A clause can be used if each source has its index: the memtables and the SSTables. A source without it is
//! a memtable that is older than the index, or an SSTable for which it has not been built yet; then the
//! clause is not used, and only the filter of the caller applies it.

use std::ops::{Bound, RangeBounds};
use std::rc::Rc;

use model::index::{Posting, TERM_BYTES_MAX, stored_term};
use model::{PartitionRange, RingPosition};
use reader::{IndexClause, IndexQuery, Permit, ReadError, ReadSpec};
use runtime::{IoClass, Shard};
use sstable::read::{PostingCursor, SecondaryIndex};

use super::choose::Estimate;
use super::window::Window;
use crate::memtable::MemIndex;
use crate::table::Table;

/// Entries of a memtable that an estimate counts one by one.
const COUNTED_MAX: usize = 256;
/// Entries between two checks whether the turn is over.
const ENTRIES_A_CHECK: u64 = 64;

enum Source {
    Memtable(Rc<MemIndex>),
    SSTable(Rc<SecondaryIndex>),
}

/// What postings are read with.
#[derive(Clone)]
pub(super) struct Around {
    pub(super) shard: Shard,
    pub(super) class: IoClass,
    pub(super) bypass_cache: bool,
    pub(super) permit: Option<Rc<Permit>>,
}

impl Around {
    fn cursor(&self, index: &Rc<SecondaryIndex>) -> PostingCursor {
        PostingCursor::new(index, self.bypass_cache, self.class, self.permit.as_ref())
    }
}

/// A clause with its postings in all sources.
pub(super) struct Clause {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    sources: Vec<Source>,
}

/// A bound of the terms that are stored. What a long term does not say is found out from the row.
fn stored(bound: &Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match bound {
        Bound::Excluded(term) if term.len() <= TERM_BYTES_MAX => Bound::Excluded(term.clone()),
        Bound::Included(term) | Bound::Excluded(term) => Bound::Included(stored_term(term).to_vec()),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// The clauses of the query that can be used; empty if none can.
pub(super) fn clauses(table: &Table, spec: &ReadSpec, query: &IndexQuery) -> Vec<Clause> {
    query.clauses.iter().filter_map(|clause| of_clause(table, spec, clause)).collect()
}

fn of_clause(table: &Table, spec: &ReadSpec, clause: &IndexClause) -> Option<Clause> {
    let mut sources = vec![];
    let mut is_whole = true;
    table.memtables.for_each(|logged, _| match logged.memtable.index(clause.index) {
        Some(index) => sources.push(Source::Memtable(index)),
        None => is_whole &= logged.memtable.is_empty(),
    });
    for sstable in table.sstables().iter() {
        match sstable.secondary_index(clause.index) {
            Some(index) if sstable.may_contain_range(&spec.partitions) => {
                sources.push(Source::SSTable(index))
            }
            Some(_) => {}
            None => is_whole = false,
        }
    }
    is_whole.then(|| Clause { lower: stored(&clause.lower), upper: stored(&clause.upper), sources })
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Clause {
    fn only_term(&self) -> Option<&[u8]> {
        match (&self.lower, &self.upper) {
            (Bound::Included(lower), Bound::Included(upper)) if lower == upper => Some(lower),
            _ => None,
        }
    }

    fn is_past(&self, term: &[u8]) -> bool {
        !(Bound::Unbounded, as_slice(&self.upper)).contains(term)
    }

    pub(super) async fn estimate(&self, around: &Around) -> Result<Estimate, ReadError> {
        let mut postings = 0;
        for source in &self.sources {
            postings += match source {
                Source::Memtable(index) => {
                    let mut cursor = index.cursor(as_slice(&self.lower), i64::MIN);
                    let mut counted = 0;
                    while counted < COUNTED_MAX
                        && cursor.next().is_some_and(|(entry, ())| !self.is_past(&entry.term))
                    {
                        counted += 1;
                    }
                    if counted == COUNTED_MAX { index.posting_count() as u64 } else { counted as u64 }
                }
                Source::SSTable(index) => {
                    let mut cursor = around.cursor(index);
                    let start = match &self.lower {
                        Bound::Unbounded => cursor.position(),
                        Bound::Included(term) => position(&mut cursor, term, i64::MIN).await?,
                        Bound::Excluded(term) => position(&mut cursor, term, i64::MAX).await?,
                    };
                    match &self.upper {
                        Bound::Unbounded => index.postings_between(start, u64::MAX).min(index.postings()),
                        Bound::Included(term) => {
                            index.postings_between(start, position(&mut cursor, term, i64::MAX).await?)
                        }
                        Bound::Excluded(term) => {
                            index.postings_between(start, position(&mut cursor, term, i64::MIN).await?)
                        }
                    }
                }
            };
        }
        Ok(Estimate { postings, is_one_term: self.only_term().is_some() })
    }

    /// Adds to the window what it wants of the clause's postings, in `partitions`.
    pub(super) async fn fill(
        &self,
        around: &Around,
        partitions: &PartitionRange,
        window: &mut Window,
    ) -> Result<(), ReadError> {
        let only_term = self.only_term();
        let token = match (only_term, window.after(), partitions.start()) {
            (None, ..) => i64::MIN,
            (_, Some(after), start) => after.key().token().max(start.token()),
            (_, None, start) => start.token(),
        };
        let end = partitions.end();
        // Of one term the postings are in order: nothing that is wanted comes after one that is too great.
        let is_over = |window: &Window, posting: &Posting| {
            only_term.is_some() && (is_behind(&end, posting) || window.is_past(posting))
        };
        let mut passed = 0u64;
        for source in &self.sources {
            match source {
                Source::Memtable(index) => {
                    let mut cursor = index.cursor(as_slice(&self.lower), token);
                    while let Some((entry, ())) = cursor.next() {
                        if self.is_past(&entry.term) || is_over(window, &entry.posting) {
                            break;
                        }
                        if partitions.contains(&entry.posting.key) {
                            window.push(&entry.posting);
                        }
                        yield_if_due(around, &mut passed).await;
                    }
                }
                Source::SSTable(index) => {
                    let mut cursor = around.cursor(index);
                    match &self.lower {
                        Bound::Included(term) => cursor.seek(term, token).await?,
                        Bound::Excluded(term) => cursor.seek(term, i64::MAX).await?,
                        Bound::Unbounded => {}
                    }
                    while let Some(entry) = cursor.next().await? {
                        if self.is_past(&entry.term) || is_over(window, &entry.posting) {
                            break;
                        }
                        let is_wanted =
                            (as_slice(&self.lower), Bound::Unbounded).contains(entry.term.as_slice());
                        if is_wanted && partitions.contains(&entry.posting.key) {
                            window.push(&entry.posting);
                        }
                        yield_if_due(around, &mut passed).await;
                    }
                }
            }
            window.charge().await?;
        }
        window.settle();
        Ok(())
    }
}

/// Whether the posting is after all partitions that are wanted.
fn is_behind(end: &RingPosition, posting: &Posting) -> bool {
    end.side_of(&posting.key).is_gt()
}

async fn position(cursor: &mut PostingCursor, term: &[u8], token: i64) -> Result<u64, ReadError> {
    cursor.seek(term, token).await?;
    Ok(cursor.position())
}

async fn yield_if_due(around: &Around, passed: &mut u64) {
    *passed += 1;
    if passed.is_multiple_of(ENTRIES_A_CHECK) && around.shard.need_preempt() {
        around.shard.yield_now().await;
    }
}
