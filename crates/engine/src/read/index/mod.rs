//! Reads that use secondary indexes: candidates are enumerated in the order of the table, and their rows are
//! read as any others.
//!
//! 1. [`IndexReader`] is a [`Reader`] in the place of the merged sources: pages, limits, tombstones, parked
//!    reads and memory are those of every read.
//! 2. The clauses whose indexes all sources have are estimated, and `choose` decides which are used. Without
//!    any, the wanted partitions are read in order.
//! 3. The candidates of the most selective clause are read window by window (`window`); the other clauses
//!    remove those that they do not have.
//! 4. The rows of each partition are read by a slice of that partition, from all sources, through the row
//!    cache.
//!
//! An index that is found damaged is no longer used, and the remaining partitions are read in order.
//!
//! Guarantees: no row that matches is missing, since each is a candidate in the source that has its value.
//! Rows that do not match may be returned: a candidate may be out of date, and of a partition with many
//! candidates all rows may be read. The caller filters.

mod choose;
mod snapshot;
mod window;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use base::broken;
use model::index::Posting;
use model::{ClusteringKey, ClusteringRange, PartitionKey, PartitionRange, RingPosition};
use reader::{Charge, Fragment, IndexQuery, LocalFuture, MergeReader, ReadError, ReadSpec, Reader, Step};
use runtime::{IoClass, Shard};

use crate::table::Table;
use choose::{Choice, choose};
use snapshot::{Around, Clause, clauses};
use window::{After, Window};

/// Windows of another clause that are read to cut one window of candidates down.
const CUTTING_WINDOWS_MAX: usize = 8;

/// Candidates of one partition.
struct Group {
    key: PartitionKey,
    /// `None`: all rows that the read wants.
    rows: Option<Vec<ClusteringKey>>,
    /// More of the same partition may follow.
    is_open: bool,
}

enum State {
    /// Nothing is known yet of the clauses.
    New(Vec<Clause>),
    /// Candidates after the posting are still to come.
    Enumerating { first: Clause, others: Vec<Clause>, after: Option<After> },
    /// All candidates are known.
    Known,
}

/// See the head of this file.
pub struct IndexReader {
    table: Rc<Table>,
    spec: ReadSpec,
    around: Around,
    state: State,
    groups: VecDeque<Group>,
    /// For the groups.
    charge: Charge,
    /// The rows of a group, and whether more of its partition may follow.
    inner: Option<(Box<dyn Reader>, bool)>,
    /// The partition whose start was returned, and not its end.
    current: Option<PartitionKey>,
    /// The current partition is to be ended unless the next group is of it.
    is_end_due: bool,
    /// The inner reader's start and static row were returned by the one before.
    is_continued: bool,
    /// Groups of this partition are not wanted any more.
    skipped: Option<PartitionKey>,
}

impl IndexReader {
    pub fn new(
        shard: &Shard,
        table: &Rc<Table>,
        spec: &ReadSpec,
        query: &Arc<IndexQuery>,
        bypass_cache: bool,
        class: IoClass,
    ) -> Self {
        let permit = spec.permit.clone();
        let around = Around { shard: shard.clone(), class, bypass_cache, permit: permit.clone() };
        Self {
            table: table.clone(),
            spec: spec.clone(),
            around,
            state: State::New(clauses(table, spec, query)),
            groups: VecDeque::new(),
            charge: Charge::new(permit),
            inner: None,
            current: None,
            is_end_due: false,
            is_continued: false,
            skipped: None,
        }
    }

    /// A reader of these partitions and rows.
    fn open(&self, partitions: PartitionRange, rows: Option<Vec<ClusteringKey>>) -> Box<dyn Reader> {
        let mut spec = ReadSpec { partitions, ..self.spec.clone() };
        if let Some(rows) = rows {
            spec = spec.ranges(rows.into_iter().map(ClusteringRange::of_prefix).collect::<Vec<_>>());
        }
        MergeReader::of(&spec, self.table.readers(&spec, self.around.bypass_cache, self.around.class))
    }

    /// Decides which indexes are used.
    async fn begin(&mut self, clauses: Vec<Clause>) -> Result<(), ReadError> {
        let mut estimates = vec![];
        for clause in &clauses {
            estimates.push(clause.estimate(&self.around).await?);
        }
        let counters = &self.table.counters.index;
        let is_one = matches!(self.spec.partitions, PartitionRange::Key(_));
        match choose(&estimates, self.table.rows_estimate(), is_one) {
            Choice::Scan => {
                counters.scans.set(counters.scans.get() + 1);
                self.spec.note(|| match estimates.is_empty() {
                    true => "No index can be used: it is not built yet; reading in order".to_string(),
                    false => "The indexes have too many candidates; reading in order".to_string(),
                });
                self.inner = Some((self.open(self.spec.partitions.clone(), None), false));
                self.state = State::Known;
            }
            Choice::Index { first, others } => {
                counters.reads.set(counters.reads.get() + 1);
                self.spec.note(|| {
                    let about = estimates[first].postings;
                    let (of, cut) = (estimates.len(), others.len());
                    format!(
                        "Index {} of {of} is used: about {about} candidates; {cut} others cut them down",
                        first + 1
                    )
                });
                let mut clauses: Vec<Option<Clause>> = clauses.into_iter().map(Some).collect();
                let first = clauses[first].take().expect("a clause is taken once");
                let others = others.into_iter().filter_map(|at| clauses[at].take()).collect();
                self.state = State::Enumerating { first, others, after: None };
            }
        }
        Ok(())
    }

    /// A damaged index is not used any more, and built again. What has not been returned is read in order.
    fn fall_back_from(&mut self, error: ReadError, after: Option<After>) -> Result<(), ReadError> {
        let ReadError::Corrupt { file, .. } = &error else { return Err(error) };
        if !self.table.forget_damaged_index(file) {
            return Err(error);
        }
        let partitions = match (&self.spec.partitions, after) {
            (partitions, None) => partitions.clone(),
            (PartitionRange::Between { end, .. }, Some(After::Partition(key))) => {
                PartitionRange::Between { start: RingPosition::AfterKey(key), end: end.clone() }
            }
            // Rows of a partition have been returned, and which are still to come is not known.
            (PartitionRange::Key(_), Some(_)) | (_, Some(After::Posting(_))) => return Err(error),
        };
        let counters = &self.table.counters.index;
        counters.scans.set(counters.scans.get() + 1);
        self.spec.note(|| format!("An index is damaged and will be built again; reading in order: {error}"));
        self.groups.clear();
        self.inner = Some((self.open(partitions, None), false));
        self.state = State::Known;
        Ok(())
    }

    /// The next window of candidates becomes groups.
    async fn enumerate(
        &mut self,
        first: Clause,
        others: Vec<Clause>,
        after: Option<After>,
    ) -> Result<(), ReadError> {
        let permit = &self.around.permit;
        let mut window = Window::new(&self.spec, permit.clone(), after.clone());
        first.fill(&self.around, &self.spec.partitions, &mut window).await?;
        let (mut postings, end, charge) = window.finish();
        self.charge = charge;
        let mut is_open = false;
        let mut next = None;
        if let Some(last) = end {
            // The window may end within a partition, whose other candidates come with the next one.
            let start = postings.partition_point(|posting| posting.key < last.key);
            if start > 0 {
                next = Some(After::Partition(postings[start - 1].key.clone()));
                postings.truncate(start);
            } else if self.spec.reversed {
                // The rows that come first are candidates of the last window.
                next = Some(After::Partition(last.key.clone()));
                postings = vec![Posting { key: last.key, row: None }];
            } else {
                is_open = true;
                next = Some(After::Posting(last));
            }
        }
        let found = postings.len();
        for other in &others {
            self.cut_down(other, &mut postings).await?;
        }
        let counters = &self.table.counters.index;
        counters.candidates.set(counters.candidates.get() + postings.len() as u64);
        self.spec.note(|| format!("{found} candidates, {} of them in all indexes", postings.len()));
        if broken::is("index_candidates") {
            postings.pop();
        }
        self.group(postings, is_open);
        self.state = match next {
            Some(next) => State::Enumerating { first, others, after: Some(next) },
            None => State::Known,
        };
        Ok(())
    }

    /// Removes the candidates that are certainly not in the other clause.
    async fn cut_down(&self, other: &Clause, postings: &mut Vec<Posting>) -> Result<(), ReadError> {
        let (Some(first), Some(last)) = (postings.first().cloned(), postings.last().cloned()) else {
            return Ok(());
        };
        let mut is_kept = vec![false; postings.len()];
        // The posting up to which all of the other clause is known.
        let mut known_until = None;
        // A whole partition sorts before its rows, so the window begins there.
        let mut partitions = self.spec.partitions.clone();
        if let PartitionRange::Between { end, .. } = &self.spec.partitions {
            let start = RingPosition::BeforeKey(first.key.clone());
            let end = match end.side_of(&last.key).is_lt() {
                true => RingPosition::AfterKey(last.key.clone()),
                false => end.clone(),
            };
            partitions = PartitionRange::Between { start, end };
        }
        let mut after = None;
        for _ in 0..CUTTING_WINDOWS_MAX {
            let mut window = Window::new(&self.spec, self.around.permit.clone(), after.take());
            other.fill(&self.around, &partitions, &mut window).await?;
            let (found, end, _charged) = window.finish();
            for posting in &found {
                let start = postings.partition_point(|it| it.key < posting.key);
                let end = postings.partition_point(|it| it.key <= posting.key);
                let of_key = &postings[start..end];
                if posting.row.is_none() {
                    is_kept[start..end].fill(true);
                } else if of_key.first().is_some_and(|it| it.row.is_none()) {
                    is_kept[start] = true;
                }
                if let Ok(at) = of_key.binary_search_by(|it| it.compare(posting, &self.spec.schema)) {
                    is_kept[start + at] = true;
                }
            }
            known_until.clone_from(&end);
            match end {
                Some(end) => after = Some(After::Posting(end)),
                None => break,
            }
        }
        let schema = &self.spec.schema;
        let is_known = |it: &Posting| match &known_until {
            None => true,
            // Of a whole partition a row after the end may be in the clause.
            Some(end) => it.key < end.key || (it.row.is_some() && it.compare(end, schema).is_le()),
        };
        let mut at = 0;
        postings.retain(|posting| {
            at += 1;
            is_kept[at - 1] || !is_known(posting)
        });
        Ok(())
    }

    /// Puts candidates into groups, one for each partition.
    fn group(&mut self, postings: Vec<Posting>, is_open: bool) {
        for Posting { key, row } in postings {
            match self.groups.back_mut().filter(|group| group.key == key) {
                Some(Group { rows: Some(rows), .. }) => rows.extend(row),
                // All rows are wanted.
                Some(_) => {}
                None => {
                    let rows = row.map(|row| vec![row]);
                    self.groups.push_back(Group { key, rows, is_open: false });
                }
            }
        }
        if let Some(last) = self.groups.back_mut() {
            last.is_open = is_open;
        }
    }

    /// What the inner reader returned, as this one returns it; `None`: nothing of it.
    fn pass(&mut self, fragment: Fragment) -> Option<Fragment> {
        match fragment {
            Fragment::PartitionStart { .. } | Fragment::Static(_) if self.is_continued => None,
            Fragment::PartitionStart { key, tombstone } => {
                self.current = Some(key.clone());
                Some(Fragment::PartitionStart { key, tombstone })
            }
            Fragment::PartitionEnd => {
                let is_open = self.inner.as_ref().is_some_and(|(_, is_open)| *is_open);
                if is_open {
                    self.is_end_due = true;
                    return None;
                }
                self.is_continued = false;
                self.current = None;
                Some(Fragment::PartitionEnd)
            }
            other => Some(other),
        }
    }
}

impl Reader for IndexReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        loop {
            if let Some((inner, _)) = &mut self.inner {
                match inner.next()? {
                    Step::Ready(fragment) => match self.pass(fragment) {
                        Some(fragment) => return Ok(Step::Ready(fragment)),
                        None => continue,
                    },
                    Step::Load => return Ok(Step::Load),
                    Step::End => {
                        self.inner = None;
                        // The rest of a partition has no rows.
                        self.is_end_due = self.current.is_some();
                    }
                }
            }
            let is_known = matches!(self.state, State::Known);
            let Some(group) = self.groups.front() else {
                if !is_known {
                    return Ok(Step::Load);
                }
                if std::mem::take(&mut self.is_end_due) {
                    self.current = None;
                    return Ok(Step::Ready(Fragment::PartitionEnd));
                }
                return Ok(Step::End);
            };
            let is_same = self.current.as_ref() == Some(&group.key);
            if self.is_end_due && !is_same {
                self.is_end_due = false;
                self.current = None;
                return Ok(Step::Ready(Fragment::PartitionEnd));
            }
            let group = self.groups.pop_front().expect("it was there");
            if self.skipped.as_ref() == Some(&group.key) {
                continue;
            }
            self.is_continued = is_same;
            self.is_end_due = false;
            let reader = self.open(PartitionRange::Key(group.key), group.rows);
            self.inner = Some((reader, group.is_open));
        }
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(async move {
            if let Some((inner, _)) = &mut self.inner {
                return inner.load().await;
            }
            if !self.groups.is_empty() {
                return Ok(());
            }
            let state = std::mem::replace(&mut self.state, State::Known);
            let after = match &state {
                State::Enumerating { after, .. } => after.clone(),
                State::New(_) | State::Known => None,
            };
            let loaded = match state {
                State::New(clauses) => self.begin(clauses).await,
                State::Enumerating { first, others, after } => self.enumerate(first, others, after).await,
                State::Known => Ok(()),
            };
            loaded.or_else(|error| self.fall_back_from(error, after))
        })
    }

    fn skip_partition(&mut self) {
        let Some(key) = self.current.take() else { return };
        self.is_end_due = false;
        self.is_continued = false;
        if let Some((inner, _)) = &mut self.inner {
            // A reader of many partitions continues with the next one.
            inner.skip_partition();
        }
        self.skipped = Some(key);
    }
}
