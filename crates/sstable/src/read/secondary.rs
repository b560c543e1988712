//! An open component of a secondary index, and a cursor over its entries.
//!
//! The file is read in pages through the shard's cache, as Index.db is. A cursor goes down the tree to the
//! first entry of a term from a token on, and from there over the leaves, which are in file order.

use std::path::Path;
use std::rc::Rc;

use model::index::{IndexId, stored_term};
use reader::{Permit, ReadError};
use runtime::{Files, IoClass, OpenOptions};

use super::cache::ChunkCache;
use super::chunked::ChunkedFile;
use super::error::SSTableError;
use super::window::{Fetch, Window};
use crate::component::secondary_index::{
    BLOCK_HEAD_BYTES, Block, FOOTER_BYTES, Footer, HEADER_BYTES, Header, IndexEntry, block_len, component,
    decode_block,
};
use crate::name::SSTableName;
use crate::pool::CacheClass;
use crate::write::INDEX_PAGE_BYTES;

/// Deepest tree that is followed. Each level has tens of blocks for one above, so no file is deeper.
const DEPTH_MAX: u32 = 16;

/// See the head of this file.
pub struct SecondaryIndex {
    header: Header,
    footer: Footer,
    file: ChunkedFile,
}

impl SecondaryIndex {
    /// Opens the component of index `id`. `data_bytes` is the length of Data.db, to which it must belong.
    pub(super) async fn open(
        files: &Files,
        dir: &Path,
        name: &SSTableName,
        id: IndexId,
        data_bytes: u64,
        cache: &Rc<ChunkCache>,
        class: IoClass,
    ) -> Result<Rc<Self>, SSTableError> {
        let path = dir.join(name.file_name(&component(id)));
        let file = match files.open(&path, OpenOptions::read().with_direct(true)).await {
            Err(error) if error.is_not_found() => return Err(SSTableError::Missing { file: path }),
            other => other?,
        };
        let inconsistent = |detail: String| SSTableError::Inconsistent { file: path.clone(), detail };
        let len_bytes = file.len_bytes().await?;
        let Some(footer_at) =
            len_bytes.checked_sub(FOOTER_BYTES as u64).filter(|at| *at >= HEADER_BYTES as u64)
        else {
            return Err(inconsistent(format!("{len_bytes} bytes are no whole index")));
        };
        let format = |error| SSTableError::Format { file: path.clone(), error };
        let head = file.read_at(0, HEADER_BYTES, class).await?;
        let header = Header::decode(&head).map_err(format)?;
        let tail = file.read_at(footer_at, FOOTER_BYTES, class).await?;
        let footer = Footer::decode(&tail, len_bytes).map_err(|error| format(error.shifted(footer_at)))?;
        if header.index != id {
            return Err(inconsistent(format!("it belongs to index {}", header.index)));
        }
        if footer.data_bytes != data_bytes {
            let detail = format!("it is of a Data.db of {} bytes, not of {data_bytes}", footer.data_bytes);
            return Err(inconsistent(detail));
        }
        let file = ChunkedFile::plain(file, len_bytes, INDEX_PAGE_BYTES, None, cache, CacheClass::IndexPages);
        Ok(Rc::new(Self { header, footer, file }))
    }

    pub fn id(&self) -> IndexId {
        self.header.index
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file.file_bytes()
    }

    /// The number of postings.
    pub fn postings(&self) -> u64 {
        self.footer.postings
    }

    /// The number of different terms.
    pub fn terms(&self) -> u64 {
        self.footer.terms
    }

    /// Approximate number of postings between two positions of cursors ([`PostingCursor::position`]).
    pub fn postings_between(&self, start: u64, end: u64) -> u64 {
        let all_bytes = self.footer.blocks_end.saturating_sub(HEADER_BYTES as u64).max(1);
        let part = u128::from(self.footer.postings) * u128::from(end.saturating_sub(start));
        u64::try_from(part / u128::from(all_bytes)).unwrap_or(u64::MAX)
    }

    /// Reads the whole file and verifies every checksum. Returns the number of postings.
    pub async fn check(self: &Rc<Self>, class: IoClass) -> Result<u64, ReadError> {
        let mut cursor = PostingCursor::new(self, true, class, None);
        let mut postings = 0;
        while cursor.next().await?.is_some() {
            postings += 1;
        }
        if postings != self.footer.postings {
            let detail = format!("{postings} postings, the footer says {}", self.footer.postings);
            return Err(self.file.corrupt(self.footer.blocks_end, &detail));
        }
        Ok(postings)
    }
}

/// See the head of this file. A new cursor stands at the first entry.
pub struct PostingCursor {
    index: Rc<SecondaryIndex>,
    window: Window,
    /// Entries of the current leaf, and the number of those that were returned.
    leaf: Vec<IndexEntry>,
    at: usize,
    /// Offset of the current leaf.
    leaf_at: u64,
    /// Offset of the next block.
    next_block: u64,
}

impl PostingCursor {
    /// `bypass_cache`: neither use the cache nor fill it. The memory is charged to `permit`.
    pub fn new(
        index: &Rc<SecondaryIndex>,
        bypass_cache: bool,
        class: IoClass,
        permit: Option<&Rc<Permit>>,
    ) -> Self {
        let is_cached = !bypass_cache && index.file.is_index_kept();
        let fetch = if is_cached { Fetch::Cached } else { Fetch::Bypass };
        let window = Window::new(fetch, class).charged_to(&permit.cloned());
        let start = HEADER_BYTES as u64;
        Self { index: index.clone(), window, leaf: vec![], at: 0, leaf_at: start, next_block: start }
    }

    /// Moves to the first entry whose term and token are not less than these.
    pub async fn seek(&mut self, term: &[u8], token: i64) -> Result<(), ReadError> {
        let term = stored_term(term);
        let before = |other: &[u8], other_token: i64| (other, other_token) < (term, token);
        self.leaf.clear();
        self.at = 0;
        if self.index.footer.postings == 0 {
            return Ok(());
        }
        let mut offset = self.index.footer.root;
        for _ in 0..DEPTH_MAX {
            match self.block(offset).await? {
                Block::Node(children) => {
                    // Several blocks may begin with the sought term and token; the one before them may end so.
                    let after = children.partition_point(|(first, token, _)| before(first, *token));
                    let Some(child) = children.get(after.saturating_sub(1)) else {
                        return Err(self.index.file.corrupt(offset, "a block of the index is empty"));
                    };
                    offset = child.2;
                }
                Block::Leaf(entries) => {
                    self.at = entries.partition_point(|it| before(&it.term, it.posting.key.token()));
                    self.leaf = entries;
                    self.leaf_at = offset;
                    return Ok(());
                }
            }
        }
        Err(self.index.file.corrupt(offset, "the tree of the index is too deep"))
    }

    /// Approximate offset of the next entry, for [`SecondaryIndex::postings_between`].
    pub fn position(&self) -> u64 {
        let (len, at) = (self.leaf.len().max(1) as u64, self.at as u64);
        self.leaf_at + self.next_block.saturating_sub(self.leaf_at) * at / len
    }

    /// The next entry; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<IndexEntry>, ReadError> {
        loop {
            if let Some(entry) = self.leaf.get(self.at) {
                self.at += 1;
                return Ok(Some(entry.clone()));
            }
            if self.next_block >= self.index.footer.blocks_end {
                return Ok(None);
            }
            let offset = self.next_block;
            if let Block::Leaf(entries) = self.block(offset).await? {
                self.leaf = entries;
                self.at = 0;
                self.leaf_at = offset;
            }
        }
    }

    /// Whether the next entry is known without a read.
    pub fn is_ready(&self) -> bool {
        self.at < self.leaf.len() || self.next_block >= self.index.footer.blocks_end
    }

    async fn block(&mut self, offset: u64) -> Result<Block, ReadError> {
        let SecondaryIndex { file, footer, .. } = &*self.index;
        let corrupt = |detail: &str| file.corrupt(offset, detail);
        let until = footer.blocks_end;
        self.window.fill(file, offset, BLOCK_HEAD_BYTES as u64, until).await?;
        let len = block_len(self.window.rest(offset)).map_err(|error| corrupt(&error.to_string()))?;
        if offset + len as u64 > until {
            return Err(corrupt("a block is longer than the rest of the file"));
        }
        self.window.fill(file, offset, len as u64, until).await?;
        let Some(bytes) = self.window.rest(offset).get(..len) else {
            return Err(corrupt("the file ends inside a block"));
        };
        let block = decode_block(bytes, offset, footer.clustering_columns);
        self.next_block = offset + len as u64;
        block.map_err(|error| corrupt(&error.to_string()))
    }
}
