//! A cursor over the entries of Index.db: from a point in the ring, or to one key.
//!
//! The summary gives the start of the search. From there entries are read one after the other. Promoted
//! indexes are skipped; they are read only when a partition is sliced (`promoted`).

use std::rc::Rc;

use base::bytes::Take;
use model::{PartitionKey, RingPosition};
use reader::{Permit, ReadError};
use runtime::IoClass;

use crate::component::index::IndexEntryHead;
use crate::component::summary::Summary;
use crate::read::data::chunked::ChunkedFile;
use crate::read::data::window::{Fetch, Window};

/// Location of a partition and of its promoted index.
#[derive(Clone, Debug)]
pub(in crate::read) struct Entry {
    pub(in crate::read) key: PartitionKey,
    /// Position in the data.
    pub(in crate::read) position: u64,
    /// Position in Index.db.
    pub(in crate::read) promoted_at: u64,
    /// 0 if the partition has no promoted index.
    pub(in crate::read) promoted_bytes: u64,
    /// Start of the next partition, if it was known without a further read.
    pub(in crate::read) next_position: Option<u64>,
}

/// See the head of this file.
pub(in crate::read) struct IndexCursor {
    window: Window,
    /// Start of the next entry.
    at: u64,
    /// The last key that was read. Keys must rise.
    last: Option<PartitionKey>,
}

/// First guess of the length of an entry's head in bytes. It is multiplied by 16 until the head is complete.
const HEAD_BYTES_GUESS: u64 = 64;

/// Up to this number of bytes of Index.db is read in one request if all of it is known to be wanted.
const READ_AT_ONCE_BYTES_MAX: u64 = 128 * 1024;

impl IndexCursor {
    pub(in crate::read) fn new(fetch: Fetch, class: IoClass) -> Self {
        Self { window: Window::new(fetch, class), at: 0, last: None }
    }

    /// Charges the window of the cursor to the read.
    #[must_use]
    pub(in crate::read) fn charged_to(mut self, permit: &Option<Rc<Permit>>) -> Self {
        self.window = self.window.charged_to(permit);
        self
    }

    pub(in crate::read) fn fetch(&self) -> Fetch {
        self.window.fetch()
    }

    /// The I/O class of the reads.
    pub(in crate::read) fn class(&self) -> IoClass {
        self.window.class()
    }

    /// A cursor at the entry that starts at `start`. The entries up to `end` will be wanted.
    pub(in crate::read) fn starting(start: u64, end: u64, fetch: Fetch, class: IoClass) -> Self {
        let mut cursor = Self { at: start, ..Self::new(fetch, class) };
        let bytes = end.saturating_sub(start);
        // A longer range contains long promoted indexes, which are skipped.
        if bytes <= READ_AT_ONCE_BYTES_MAX {
            cursor.window.expect(bytes);
        }
        cursor
    }

    /// The entry of `key`. Afterwards the cursor stands at the next entry.
    pub(in crate::read) async fn find(
        &mut self,
        file: &ChunkedFile,
        summary: &Summary,
        key: &PartitionKey,
    ) -> Result<Option<Entry>, ReadError> {
        let range = summary.search(key.token(), key.bytes());
        let end = range.end.unwrap_or(file.data_bytes()).min(file.data_bytes());
        self.at = range.start;
        self.last = None;
        while self.at < end {
            self.need_head(file, end).await?;
            // Compare encoded keys in place, because most are not the wanted one.
            while let Some((head, bytes)) = peek(&self.window, self.at) {
                let promoted_at = self.at + bytes;
                let found = (head.key == key.bytes()).then_some((head.data_position, head.promoted_bytes));
                self.at = end_of_promoted(file, promoted_at, head.promoted_bytes)?;
                if let Some((position, promoted_bytes)) = found {
                    let next_position = peek(&self.window, self.at).map(|(head, _)| head.data_position);
                    let key = key.clone();
                    return Ok(Some(Entry { key, position, promoted_at, promoted_bytes, next_position }));
                }
                if self.at >= end {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Moves to the first entry after `point`.
    pub(in crate::read) async fn seek(
        &mut self,
        file: &ChunkedFile,
        summary: &Summary,
        point: &RingPosition,
    ) -> Result<(), ReadError> {
        self.at = match point {
            RingPosition::BeforeKey(key) | RingPosition::AfterKey(key) => {
                summary.search(key.token(), key.bytes()).start
            }
            RingPosition::BeforeToken(token) | RingPosition::AfterToken(token) => {
                summary.start_of_tokens(*token)
            }
        };
        self.last = None;
        loop {
            let at = self.at;
            let Some(entry) = self.next(file).await? else { return Ok(()) };
            if point.side_of(&entry.key).is_gt() {
                self.at = at;
                self.last = None;
                return Ok(());
            }
        }
    }

    /// The next entry, or `None` after the last.
    pub(in crate::read) async fn next(&mut self, file: &ChunkedFile) -> Result<Option<Entry>, ReadError> {
        if self.at >= file.data_bytes() {
            return Ok(None);
        }
        self.need_head(file, file.data_bytes()).await?;
        let (head, bytes) = peek(&self.window, self.at).expect("a whole head was read");
        let entry_at = self.at;
        let key = PartitionKey::new(head.key);
        let (position, promoted_bytes) = (head.data_position, head.promoted_bytes);
        let promoted_at = entry_at + bytes;
        self.at = end_of_promoted(file, promoted_at, promoted_bytes)?;
        if promoted_bytes > READ_AT_ONCE_BYTES_MAX {
            self.window.expect(0);
        }
        if self.last.as_ref().is_some_and(|last| *last >= key) {
            return Err(file.corrupt(entry_at, "partition keys do not ascend by token and key"));
        }
        self.last = Some(key.clone());
        let next_position = peek(&self.window, self.at).map(|(head, _)| head.data_position);
        Ok(Some(Entry { key, position, promoted_at, promoted_bytes, next_position }))
    }

    /// Start of the next entry.
    pub(in crate::read) fn position(&self) -> u64 {
        self.at
    }

    /// Fills the window with the whole head of the entry at `self.at`.
    async fn need_head(&mut self, file: &ChunkedFile, until: u64) -> Result<(), ReadError> {
        let left_bytes = file.data_bytes() - self.at;
        let mut need = HEAD_BYTES_GUESS;
        loop {
            if peek(&self.window, self.at).is_some() {
                return Ok(());
            }
            let have = self.window.rest(self.at).len() as u64;
            if have >= left_bytes.min(IndexEntryHead::SIZE_BYTES_MAX as u64) {
                let error = IndexEntryHead::decode(&mut Take::new(self.window.rest(self.at)));
                let error = error.expect_err("a head that can be decoded can be seen");
                return Err(file.corrupt(self.at, &error.to_string()));
            }
            need = if have >= need { need * 16 } else { need };
            self.window.fill(file, self.at, need, until).await?;
        }
    }
}

/// The head of the entry at `at` and its length; `None` if the window does not contain the whole head.
#[inline]
fn peek(window: &Window, at: u64) -> Option<(IndexEntryHead<'_>, u64)> {
    let mut take = Take::new(window.rest(at));
    let head = IndexEntryHead::decode(&mut take).ok()?;
    Some((head, take.offset() as u64))
}

fn end_of_promoted(file: &ChunkedFile, promoted_at: u64, promoted_bytes: u64) -> Result<u64, ReadError> {
    promoted_at.checked_add(promoted_bytes).filter(|end| *end <= file.data_bytes()).ok_or_else(|| {
        let detail =
            format!("a promoted index of {promoted_bytes} bytes does not fit into the rest of the file");
        file.corrupt(promoted_at, &detail)
    })
}
