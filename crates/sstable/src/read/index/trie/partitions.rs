//! Finds partitions through Partitions.db.
//!
//! The trie stores only as many bytes of a key as distinguish it from all other keys. So a search may lead to
//! a different key. The stored key (in Rows.db if the partition has a row index, otherwise in Data.db) is
//! read and compared.

use base::murmur3;
use model::{PartitionKey, RingPosition};
use reader::ReadError;
use runtime::IoClass;

use super::FilePages;
use super::byte_comparable;
use super::walk::Walk;
use crate::component::deletion_time::DeletionTime;
use crate::component::partitions_db::{PartitionPayload, PartitionPlace, PartitionsFooter};
use crate::component::rows_db::RowsEntry;
use crate::read::data::chunked::ChunkedFile;
use crate::read::data::window::{Fetch, Window};
use crate::version::Version;

/// The files of the index.
pub(in crate::read) struct PartitionTrie {
    pub(in crate::read) partitions: ChunkedFile,
    /// `None`: no partition has a row index, and Rows.db is empty.
    pub(in crate::read) rows: Option<ChunkedFile>,
    pub(in crate::read) footer: PartitionsFooter,
    pub(in crate::read) version: Version,
}

impl PartitionTrie {
    /// Rows.db; an error if it is empty although the node at `asked_by` refers to it.
    pub(in crate::read) fn rows_file(&self, asked_by: u64) -> Result<&ChunkedFile, ReadError> {
        self.rows.as_ref().ok_or_else(|| {
            self.partitions.corrupt(asked_by, "a partition with a row index, but Rows.db is empty")
        })
    }
}

/// Location of a partition and of its row index.
#[derive(Clone, Debug)]
pub(in crate::read) struct Entry {
    pub(in crate::read) key: PartitionKey,
    /// Position in the data.
    pub(in crate::read) position: u64,
    /// Start of the next partition, if it was known without a further read.
    pub(in crate::read) next_position: Option<u64>,
    /// The root of its row index, and the position of its entry in Rows.db.
    pub(in crate::read) rows: Option<RowsRoot>,
    /// Position of its node in Partitions.db.
    pub(in crate::read) node_at: u64,
}

/// The row index of a partition.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct RowsRoot {
    pub(in crate::read) root: u64,
    /// Position of its entry in Rows.db.
    pub(in crate::read) entry_at: u64,
    pub(in crate::read) block_count: u64,
    /// The partition's deletion.
    pub(in crate::read) deletion: DeletionTime,
}

/// A cursor over the partitions. It stands at the next partition to return.
pub(in crate::read) struct PartitionTrieCursor {
    nodes: Window,
    rows: Window,
    data: Window,
    walk: Walk,
    /// No search has been made yet, so the first partition is the next one.
    is_fresh: bool,
    /// The last key that was returned. Keys must rise.
    last: Option<PartitionKey>,
}

impl PartitionTrieCursor {
    pub(in crate::read) fn new(trie: &PartitionTrie, fetch: Fetch, class: IoClass) -> Self {
        // Nodes and entries are scattered pages; only the data of a range are read sequentially.
        let paged = if fetch == Fetch::Cached { Fetch::Cached } else { Fetch::Bypass };
        Self {
            nodes: Window::new(paged, class),
            rows: Window::new(paged, class),
            data: Window::new(paged, class),
            walk: Walk::new(trie.footer.root),
            is_fresh: true,
            last: None,
        }
    }

    /// The entry of `key`. Afterwards the cursor stands at the next entry.
    pub(in crate::read) async fn find(
        &mut self,
        trie: &PartitionTrie,
        data: &ChunkedFile,
        key: &PartitionKey,
    ) -> Result<Option<Entry>, ReadError> {
        self.is_fresh = false;
        self.last = None;
        let target = byte_comparable::partition_key(key.token(), key.bytes());
        let pages = &mut FilePages { window: &mut self.nodes, file: &trie.partitions };
        self.walk.follow(pages, &target).await?;
        let Some(payload) = self.payload(trie)? else { return Ok(None) };
        let (_, h2) = murmur3::hash128(key.bytes());
        if payload.hash.is_some_and(|hash| hash != h2 as u8) {
            return Ok(None);
        }
        let entry = self.entry(trie, data, payload).await?;
        if entry.key != *key {
            return Ok(None);
        }
        self.step(trie, entry).await.map(Some)
    }

    /// Moves to the first partition after `point`.
    pub(in crate::read) async fn seek(
        &mut self,
        trie: &PartitionTrie,
        data: &ChunkedFile,
        point: &RingPosition,
    ) -> Result<(), ReadError> {
        self.is_fresh = false;
        self.last = None;
        let target = match point {
            RingPosition::BeforeKey(key) | RingPosition::AfterKey(key) => {
                byte_comparable::partition_key(key.token(), key.bytes())
            }
            RingPosition::BeforeToken(token) => byte_comparable::before_token(*token),
            RingPosition::AfterToken(token) => byte_comparable::after_token(*token),
        };
        let pages = &mut FilePages { window: &mut self.nodes, file: &trie.partitions };
        let led = self.walk.follow(pages, &target).await?;
        if self.walk.payload().is_none() && !self.walk.ceiling(pages, &target, led).await? {
            return Ok(());
        }
        // The node's key is a prefix of the partition's key, so the partition may lie on either side of the
        // point.
        while let Some(payload) = self.payload(trie)? {
            let entry = self.entry(trie, data, payload).await?;
            if point.side_of(&entry.key).is_gt() {
                break;
            }
            let pages = &mut FilePages { window: &mut self.nodes, file: &trie.partitions };
            self.walk.next(pages).await?;
        }
        Ok(())
    }

    /// The next partition, or `None` after the last.
    pub(in crate::read) async fn next(
        &mut self,
        trie: &PartitionTrie,
        data: &ChunkedFile,
    ) -> Result<Option<Entry>, ReadError> {
        if std::mem::take(&mut self.is_fresh) {
            let pages = &mut FilePages { window: &mut self.nodes, file: &trie.partitions };
            self.walk.first(pages).await?;
        }
        let Some(payload) = self.payload(trie)? else { return Ok(None) };
        let entry = self.entry(trie, data, payload).await?;
        if self.last.as_ref().is_some_and(|last| *last >= entry.key) {
            let detail = "partition keys do not ascend by token and key";
            return Err(trie.partitions.corrupt(entry.node_at, detail));
        }
        self.last = Some(entry.key.clone());
        self.step(trie, entry).await.map(Some)
    }

    /// Position of the node at which the cursor stands.
    pub(in crate::read) fn position(&self) -> u64 {
        self.walk.position()
    }

    /// Skips the partition of the node at `place`, for which [`Self::next`] has returned an error. False if
    /// the following nodes cannot be read.
    pub(in crate::read) async fn pass(&mut self, trie: &PartitionTrie, place: u64) -> bool {
        if self.walk.payload().is_none() {
            return false;
        }
        if self.walk.position() != place {
            return true;
        }
        let pages = &mut FilePages { window: &mut self.nodes, file: &trie.partitions };
        self.walk.next(pages).await.is_ok()
    }

    /// Moves past `entry` and sets the start of the next partition in it.
    async fn step(&mut self, trie: &PartitionTrie, mut entry: Entry) -> Result<Entry, ReadError> {
        let pages = &mut FilePages { window: &mut self.nodes, file: &trie.partitions };
        self.walk.next(pages).await?;
        if let Some(PartitionPlace::Data(position)) = self.payload(trie)?.map(|payload| payload.place) {
            entry.next_position = Some(position);
        }
        Ok(entry)
    }

    fn payload(&self, trie: &PartitionTrie) -> Result<Option<PartitionPayload>, ReadError> {
        let Some(payload) = self.walk.payload() else { return Ok(None) };
        let decoded = PartitionPayload::decode(payload.bits, payload.bytes());
        let at = self.walk.position();
        decoded.map(Some).map_err(|error| trie.partitions.corrupt(at, &error.to_string()))
    }

    /// The entry to which the payload of the current node leads.
    async fn entry(
        &mut self,
        trie: &PartitionTrie,
        data: &ChunkedFile,
        payload: PartitionPayload,
    ) -> Result<Entry, ReadError> {
        let node_at = self.walk.position();
        let entry = self.read_entry(trie, data, payload.place, node_at).await?;
        let (_, h2) = murmur3::hash128(entry.key.bytes());
        let bytes = byte_comparable::partition_key(entry.key.token(), entry.key.bytes());
        if !bytes.starts_with(self.walk.key()) || payload.hash.is_some_and(|hash| hash != h2 as u8) {
            let detail = format!("it leads to {:?}, which is another key", entry.key);
            return Err(trie.partitions.corrupt(node_at, &detail));
        }
        Ok(entry)
    }

    async fn read_entry(
        &mut self,
        trie: &PartitionTrie,
        data: &ChunkedFile,
        place: PartitionPlace,
        node_at: u64,
    ) -> Result<Entry, ReadError> {
        match place {
            PartitionPlace::Data(position) => {
                let key = key_at(&mut self.data, data, position, trie, node_at).await?;
                Ok(Entry { key, position, next_position: None, rows: None, node_at })
            }
            PartitionPlace::Rows(entry_at) => {
                let file = trie.rows_file(node_at)?;
                let key = key_at(&mut self.rows, file, entry_at, trie, node_at).await?;
                let rest_bytes = RowsEntry::SIZE_BYTES_MAX - u16::MAX as usize;
                let len = (key.bytes().len() + rest_bytes) as u64;
                self.rows.fill(file, entry_at, len, 0).await?;
                let entry = RowsEntry::decode(self.rows.rest(entry_at), entry_at, trie.version)
                    .map_err(|error| file.corrupt(error.offset_bytes, &error.to_string()))?;
                let RowsEntry { root, block_count, deletion, .. } = entry;
                let rows = RowsRoot { root, entry_at, block_count, deletion };
                let position = entry.data_position;
                Ok(Entry { key, position, next_position: None, rows: Some(rows), node_at })
            }
        }
    }
}

/// The key at `position` of `file`, to which the node at `node_at` refers.
async fn key_at(
    window: &mut Window,
    file: &ChunkedFile,
    position: u64,
    trie: &PartitionTrie,
    node_at: u64,
) -> Result<PartitionKey, ReadError> {
    let wrong = || {
        let detail = format!(
            "a key at byte {position} of {} bytes of {}",
            file.data_bytes(),
            file.file().path().display()
        );
        trie.partitions.corrupt(node_at, &detail)
    };
    let left_bytes = file.data_bytes().checked_sub(position).filter(|left| *left >= 2).ok_or_else(wrong)?;
    window.fill(file, position, 2, u64::MAX).await?;
    let len =
        window.rest(position).first_chunk::<2>().map(|len| u16::from_be_bytes(*len)).ok_or_else(wrong)?;
    let len = 2 + u64::from(len);
    if len > left_bytes {
        return Err(wrong());
    }
    window.fill(file, position, len, u64::MAX).await?;
    Ok(PartitionKey::new(&window.rest(position)[2..len as usize]))
}
