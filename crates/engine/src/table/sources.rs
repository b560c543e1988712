//! The sources of a read: memtables, and the row cache over the SSTables or the SSTables that cannot be ruled
//! out.

use std::cell::Cell;
use std::rc::Rc;

use base::broken;
use model::{PartitionKey, PartitionRange};
use reader::{MergeReader, ReadSpec, Reader, Source};
use runtime::IoClass;
use sstable::read::{SSTable, SSTableSource};

use super::Table;
use super::counters::SSTableCounters;
use crate::cache::{CacheReader, UnderlyingSource};

impl Table {
    /// A reader over each source that may have data of the request; merged, they are the table. Disk reads
    /// are made in `io_class`.
    pub fn readers(&self, spec: &ReadSpec, bypass_cache: bool, io_class: IoClass) -> Vec<Box<dyn Reader>> {
        let mut readers: Vec<Box<dyn Reader>> = vec![];
        self.memtables.for_each(|logged, is_sealed| {
            let is_lost = is_sealed && broken::is("sealed_memtable");
            if !logged.memtable.is_empty() && !is_lost {
                readers.push(logged.memtable.reader(spec));
            }
        });
        let is_point = matches!(spec.partitions, PartitionRange::Key(_));
        spec.note(|| format!("Reading {} memtables", readers.len()));
        match &spec.partitions {
            PartitionRange::Key(key)
                if !bypass_cache && self.cache.get().is_some_and(|cache| cache.is_on()) =>
            {
                readers.extend(self.cached_reader(spec, key, io_class));
            }
            _ => {
                let sstables = self.sstables();
                let wanted =
                    sstables.iter().filter(|sstable| may_have(sstable, spec, &self.counters.sstables));
                let in_memory = readers.len();
                readers.extend(wanted.map(|sstable| sstable_reader(sstable, spec, bypass_cache, io_class)));
                if is_point {
                    self.counters.sstables.per_read.borrow_mut().add(readers.len() - in_memory);
                }
            }
        }
        if is_point {
            SSTableCounters::count(&self.counters.point_reads);
        }
        if readers.is_empty() {
            readers.push(self.memtables.active().memtable.reader(spec));
        }
        readers
    }
}

impl Table {
    /// A reader over the partition in all SSTables; `None` if they do not contain it.
    fn cached_reader(
        &self,
        spec: &ReadSpec,
        key: &PartitionKey,
        io_class: IoClass,
    ) -> Option<Box<dyn Reader>> {
        let cache = self.cache.get()?;
        let sstables = self.sstables();
        let cached = cache.find(key);
        spec.note(|| {
            let known = if cached.is_some() { "something" } else { "nothing" };
            format!("The row cache knows {known} of the partition; it mirrors {} SSTables", sstables.len())
        });
        let counters = self.counters.sstables.clone();
        let below = if cached.is_some() {
            let opened = Cell::new(0);
            SSTablesBelow { sstables: sstables.clone(), is_filtered: false, opened, io_class, counters }
        } else {
            let wanted: Vec<_> =
                sstables.iter().filter(|sstable| may_have(sstable, spec, &counters)).cloned().collect();
            if wanted.is_empty() {
                // The bloom filters show this without a read, so it is not cached.
                counters.per_read.borrow_mut().add(0);
                return None;
            }
            let opened = Cell::new(wanted.len());
            SSTablesBelow { sstables: Rc::new(wanted), is_filtered: true, opened, io_class, counters }
        };
        Some(Box::new(CacheReader::new(cache, spec, key, cached, below)))
    }
}

/// The SSTables under the row cache.
struct SSTablesBelow {
    sstables: Rc<Vec<Rc<SSTable>>>,
    /// They have already been filtered for the request.
    is_filtered: bool,
    /// Number of SSTables that the read has opened.
    opened: Cell<usize>,
    io_class: IoClass,
    counters: Rc<SSTableCounters>,
}

impl Drop for SSTablesBelow {
    fn drop(&mut self) {
        self.counters.per_read.borrow_mut().add(self.opened.get());
    }
}

impl UnderlyingSource for SSTablesBelow {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        let wanted = self
            .sstables
            .iter()
            .filter(|sstable| self.is_filtered || may_have(sstable, spec, &self.counters));
        let readers: Vec<_> =
            wanted.map(|sstable| sstable_reader(sstable, spec, false, self.io_class)).collect();
        if !self.is_filtered {
            self.opened.set(self.opened.get() + readers.len());
        }
        MergeReader::of(spec, readers)
    }
}

fn sstable_reader(
    sstable: &Rc<SSTable>,
    spec: &ReadSpec,
    bypass_cache: bool,
    io_class: IoClass,
) -> Box<dyn Reader> {
    SSTableSource::new(sstable.clone(), io_class).bypass_cache(bypass_cache).reader(spec)
}

/// Human-readable reason why it is read or skipped.
fn verdict(sstable: &SSTable, spec: &ReadSpec, partitions: bool, rows: bool) -> &'static str {
    match (&spec.partitions, partitions, rows) {
        (_, true, true) => "is read",
        (_, true, false) => "skipped, its clustering keys are others",
        (PartitionRange::Key(key), false, _) if (sstable.first_key()..=sstable.last_key()).contains(&key) => {
            "skipped, its bloom filter does not have the key"
        }
        (PartitionRange::Key(_), false, _) => "skipped, the key is outside of its keys",
        (PartitionRange::Between { .. }, false, _) => "skipped, the range is outside of its keys",
    }
}

/// Whether the SSTable must be opened for the read. Counts the result by reason.
fn may_have(sstable: &Rc<SSTable>, spec: &ReadSpec, counters: &SSTableCounters) -> bool {
    let partitions = match &spec.partitions {
        PartitionRange::Key(key) => sstable.may_contain(key),
        range @ PartitionRange::Between { .. } => sstable.may_contain_range(range),
    };
    if let (PartitionRange::Key(key), false) = (&spec.partitions, partitions)
        && key >= sstable.first_key()
        && key <= sstable.last_key()
    {
        SSTableCounters::count(&counters.filter_negatives);
    }
    let rows = partitions && sstable.may_contain_clustering(&spec.schema, &spec.ranges);
    SSTableCounters::count(match (partitions, rows) {
        (false, _) => &counters.skipped_by_partition,
        (true, false) => &counters.skipped_by_clustering,
        (true, true) => &counters.opened,
    });
    spec.note(|| format!("SSTable {}: {}", sstable.name(), verdict(sstable, spec, partitions, rows)));
    if rows && matches!(spec.partitions, PartitionRange::Key(_)) {
        SSTableCounters::count(&counters.opened_for_points);
        sstable.count_point_read();
    }
    rows
}
