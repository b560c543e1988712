//! What a merge may purge: nothing that SSTables outside it, or memtables, may need.
//!
//! The SSTables and the memtables are those at the start of the merge. Data written later cannot be
//! resurrected by a purge: a tombstone that is purged is older than gc_grace, and the same write could arrive
//! after the merge.

use compaction::SSTableId;
use compaction::purge::{Outside, PurgeHorizon};
use model::{PartitionKey, Purge};
use reader::PurgePolicy;
use runtime::{Files, IoClass};
use sstable::component::filter::Filter;
use sstable::name::Component;

use super::request::MergeRequest;

/// Largest filter that is read.
const FILTER_BYTES_MAX: u64 = 4 << 30;

/// An SSTable outside the merge with its bloom filter.
pub struct Other {
    index: u64,
    first: PartitionKey,
    last: PartitionKey,
    min_timestamp_us: i64,
    /// `None`: it may contain every key.
    filter: Option<Filter>,
}

impl Outside for Other {
    fn id(&self) -> SSTableId {
        SSTableId(self.index)
    }

    fn first(&self) -> &PartitionKey {
        &self.first
    }

    fn last(&self) -> &PartitionKey {
        &self.last
    }

    fn min_live_timestamp_us(&self) -> i64 {
        self.min_timestamp_us
    }

    fn may_contain(&self, key: &PartitionKey) -> bool {
        let hash = || base::murmur3::hash128(key.bytes());
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash()))
    }
}

/// The purge policy of a merge.
pub struct MergePurge {
    horizon: PurgeHorizon<Other>,
    memtable_min_timestamp_us: Option<i64>,
    gc_before_s: u32,
    now_s: u32,
}

impl MergePurge {
    /// Reads the filters of the SSTables outside. A filter that cannot be read counts as one that contains
    /// every key.
    pub async fn load(files: &Files, request: &MergeRequest, max_timestamp_us: i64) -> Self {
        let mut others = vec![];
        for (index, outside) in (0..).zip(&request.outside) {
            let path = request.dir.join(outside.name.file_name(&Component::Filter));
            let bytes = match request.gc_before_s {
                0 => None,
                _ => files.read_all(&path, IoClass::Compaction, FILTER_BYTES_MAX).await.ok(),
            };
            others.push(Other {
                index,
                first: outside.first.clone(),
                last: outside.last.clone(),
                min_timestamp_us: outside.min_timestamp_us,
                filter: bytes.and_then(|bytes| Filter::decode(&bytes, outside.name.version).ok()),
            });
        }
        Self {
            horizon: PurgeHorizon::new(others, max_timestamp_us),
            memtable_min_timestamp_us: request.memtable_min_timestamp_us,
            gc_before_s: request.gc_before_s,
            now_s: request.now_s,
        }
    }
}

impl PurgePolicy for MergePurge {
    fn purge(&mut self, key: &PartitionKey) -> Purge {
        if self.gc_before_s == 0 {
            return Purge::nothing(self.now_s);
        }
        let in_memory = self.memtable_min_timestamp_us;
        let (max_purgeable_us, _) = self.horizon.max_purgeable(key, in_memory, |_| in_memory);
        Purge { now_s: self.now_s, gc_before_s: self.gc_before_s, max_purgeable_us }
    }
}
