//! Parsed pages of a partition index. A page is all entries of Index.db between two samples of the summary.
//!
//! On disk a page can be read only from its start, entry by entry, past the promoted indexes. A parsed page
//! is searched by (token, key). The shard caches pages ([`ChunkCache`]) under the number of their sample, and
//! concurrent readers share one load. So a lookup of a cached page costs a search in the summary and a search
//! in the page, and no read.

use std::cmp::Ordering;
use std::rc::Rc;

use model::PartitionKey;
use reader::ReadError;
use runtime::IoClass;

use super::index_db::{Entry, IndexCursor};
use crate::component::summary::Summary;
use crate::pool::CacheClass;
use crate::read::data::cache::{ChunkCache, page_cost};
use crate::read::data::chunked::ChunkedFile;
use crate::read::data::loading_cache::{FileNumber, Lookup};
use crate::read::data::window::Fetch;

/// An entry without its key.
#[derive(Clone, Copy, Debug)]
struct EntryPosition {
    token: i64,
    /// Position in the data.
    position: u64,
    /// End of the key in `keys`; its start is the end of the key before.
    key_end: u32,
}

/// Location of a promoted index in Index.db.
#[derive(Clone, Copy, Debug)]
struct PromotedPlace {
    at: u64,
    bytes: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub(in crate::read) struct EntryPage {
    places: Box<[EntryPosition]>,
    keys: Box<[u8]>,
    /// Promoted indexes of the first entries, up to the last entry that has one. `bytes` is 0 for an entry
    /// without one.
    promoted: Box<[PromotedPlace]>,
    /// Start of the partition after the last entry, if it was known without a further read.
    next_position: Option<u64>,
}

impl EntryPage {
    fn new(entries: &[Entry]) -> Self {
        let mut keys = Vec::with_capacity(entries.iter().map(|entry| entry.key.bytes().len()).sum());
        let mut places = Vec::with_capacity(entries.len());
        for entry in entries {
            keys.extend_from_slice(entry.key.bytes());
            let key_end = u32::try_from(keys.len()).expect("a page has fewer than 2^16 keys of 2^16 bytes");
            places.push(EntryPosition { token: entry.key.token(), position: entry.position, key_end });
        }
        let with_promoted =
            entries.iter().rposition(|entry| entry.promoted_bytes > 0).map_or(0, |last| last + 1);
        let promoted = entries[..with_promoted].iter();
        Self {
            places: places.into(),
            keys: keys.into(),
            promoted: promoted
                .map(|entry| PromotedPlace { at: entry.promoted_at, bytes: entry.promoted_bytes })
                .collect(),
            next_position: entries.last().and_then(|entry| entry.next_position),
        }
    }

    pub(in crate::read) fn len(&self) -> usize {
        self.places.len()
    }

    pub(in crate::read) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.places) + self.keys.len() + size_of_val(&*self.promoted)
    }

    fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.places[before].key_end as usize);
        &self.keys[start..self.places[index].key_end as usize]
    }

    fn find(&self, key: &PartitionKey) -> Option<Entry> {
        let (mut low, mut high) = (0, self.places.len());
        while low < high {
            let middle = low.midpoint(high);
            let order = self.places[middle].token.cmp(&key.token());
            match order.then_with(|| self.key(middle).cmp(key.bytes())) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    let none = PromotedPlace { at: 0, bytes: 0 };
                    let promoted = self.promoted.get(middle).unwrap_or(&none);
                    let next = self.places.get(middle + 1).map(|next| next.position);
                    return Some(Entry {
                        key: key.clone(),
                        position: self.places[middle].position,
                        promoted_at: promoted.at,
                        promoted_bytes: promoted.bytes,
                        next_position: next.or(self.next_position),
                    });
                }
            }
        }
        None
    }
}

/// The parsed pages of one SSTable in the shard's cache.
pub(in crate::read) struct EntryPages {
    cache: Rc<ChunkCache>,
    number: FileNumber,
}

impl EntryPages {
    pub(in crate::read) fn new(cache: &Rc<ChunkCache>) -> Self {
        Self { cache: Rc::clone(cache), number: cache.new_file(CacheClass::IndexEntries) }
    }

    /// Whether reads may use the cached pages (`cache_index_pages`).
    pub(in crate::read) fn are_kept(&self) -> bool {
        self.cache.caches_index()
    }

    /// The entry of `key`.
    pub(in crate::read) async fn find(
        &self,
        file: &ChunkedFile,
        summary: &Summary,
        key: &PartitionKey,
        class: IoClass,
    ) -> Result<Option<Entry>, ReadError> {
        let sample = summary.sample_of(key.token(), key.bytes());
        let kept = self.cache.entries();
        loop {
            match kept.get(self.number, sample as u64) {
                Lookup::Found(page) => return Ok(page.find(key)),
                Lookup::InFlight(pending) => match pending.wait(sample as u64).await {
                    Some(page) => return Ok(page?.find(key)),
                    None => continue,
                },
                Lookup::Nothing => {}
            }
            let loading = kept.begin(self.number, sample as u64, 1);
            return match load(file, summary, sample, class).await {
                Ok(page) => {
                    let found = page.find(key);
                    loading.land(vec![Rc::new(page)], page_cost);
                    Ok(found)
                }
                Err(error) => Err(loading.fail(error)),
            };
        }
    }
}

impl Drop for EntryPages {
    fn drop(&mut self) {
        self.cache.clear_file(self.number);
    }
}

/// Reads the page that begins at sample `sample`, through the cache of Index.db's own pages.
async fn load(
    file: &ChunkedFile,
    summary: &Summary,
    sample: usize,
    class: IoClass,
) -> Result<EntryPage, ReadError> {
    let range = summary.range_at(sample);
    let end = range.end.unwrap_or(file.data_bytes()).min(file.data_bytes());
    let mut cursor = IndexCursor::starting(range.start, end, Fetch::Cached, class);
    let mut entries = vec![];
    while cursor.position() < end
        && let Some(entry) = cursor.next(file).await?
    {
        entries.push(entry);
    }
    Ok(EntryPage::new(&entries))
}
