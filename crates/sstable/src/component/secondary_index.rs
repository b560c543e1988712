//! `MessinaIndex_<id>.db`: the postings of one secondary index, sorted by term and then in the order of the
//! table.
//!
//! A B+tree that was written once, from its leaves upward: blocks of about 4 KiB, each with a checksum; a
//! leaf has entries, a block above it the first term and token of each block below it. Blocks below come
//! before blocks above, so the leaves can be read one after the other, and no chain of offsets can be a
//! circle. The layout is in `docs/formats/secondary-index.md`.
//!
//! The name has no `-`, because Cassandra up to 4.0 divides file names there.

use std::borrow::Cow;

use base::bytes::{Take, put_vint_bytes};
use base::crc::crc32;
use base::vint;
use model::index::{IndexId, Posting};
use model::{ClusteringPrefix, PartitionKey, SmallBytes, TableId};

use crate::component::{FormatError, Named};
use crate::name::Component;

const MAGIC: [u8; 4] = *b"MSIX";
const VERSION: u32 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 44;
/// Bytes of the footer.
pub const FOOTER_BYTES: usize = 56;
/// Bytes before and after the content of a block.
pub const BLOCK_HEAD_BYTES: usize = 5;
const BLOCK_CRC_BYTES: usize = 4;
/// A block ends once its content has this number of bytes.
const BLOCK_BYTES: usize = 4096 - BLOCK_HEAD_BYTES - BLOCK_CRC_BYTES;
/// Longest content of a block: one entry with the longest term and keys may follow an almost full block.
const BLOCK_BYTES_MAX: usize = 1 << 20;

const SAME_TERM: u8 = 1;
const SAME_PARTITION: u8 = 2;
const WHOLE_PARTITION: u8 = 4;

const PREFIX: &str = "MessinaIndex_";
const SUFFIX: &str = ".db";

/// The component of an index.
pub fn component(id: IndexId) -> Component {
    Component::Other(format!("{PREFIX}{}{SUFFIX}", id.simple()))
}

/// The component under which an index is written before it is complete, and its sorted runs.
pub fn temporary(id: IndexId) -> Component {
    Component::Other(format!("{PREFIX}{}{SUFFIX}.tmp", id.simple()))
}

/// The index whose component this is; `None` for other components.
pub fn id_of(component: &Component) -> Option<IndexId> {
    let Component::Other(name) = component else { return None };
    let id = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let id = IndexId::from_u128(u128::from_str_radix(id, 16).ok()?);
    (self::component(id) == *component).then_some(id)
}

/// Whether this is an index that was not completed.
pub fn is_temporary(component: &Component) -> bool {
    matches!(component, Component::Other(name) if name.starts_with(PREFIX) && name.ends_with(".db.tmp"))
}

/// A term and one of its postings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    pub term: SmallBytes,
    pub posting: Posting,
}

/// The beginning of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub table: TableId,
    pub index: IndexId,
}

impl Header {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(self.table.as_bytes());
        out.extend_from_slice(self.index.as_bytes());
        let crc = crc32(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        check_bytes("magic", take.array::<4>().named("magic")?, MAGIC, 0)?;
        let version = take.u32().named("version")?;
        if version != VERSION {
            return Err(FormatError::new("version", 4, VERSION.to_string(), version.to_string()));
        }
        let table = TableId::from_bytes(take.array().named("table id")?);
        let index = IndexId::from_bytes(take.array().named("index id")?);
        check_crc("header", bytes, take.offset())?;
        Ok(Self { table, index })
    }
}

/// The end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Offset of the highest block; 0 if there are no postings.
    pub root: u64,
    /// End of the blocks.
    pub blocks_end: u64,
    pub postings: u64,
    pub terms: u64,
    /// Length of the Data.db that was indexed.
    pub data_bytes: u64,
    /// Number of clustering columns of the table.
    pub clustering_columns: u32,
}

impl Footer {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![];
        for number in [self.root, self.blocks_end, self.postings, self.terms, self.data_bytes] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.clustering_columns.to_be_bytes());
        out.extend_from_slice(&0u32.to_be_bytes());
        let crc = crc32(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        out.extend_from_slice(&MAGIC);
        out
    }

    /// Decodes the last [`FOOTER_BYTES`] of a file of `file_bytes`.
    pub fn decode(bytes: &[u8], file_bytes: u64) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        let root = take.u64().named("root")?;
        let blocks_end = take.u64().named("end of the blocks")?;
        let postings = take.u64().named("number of postings")?;
        let terms = take.u64().named("number of terms")?;
        let data_bytes = take.u64().named("length of Data.db")?;
        let clustering_columns = take.u32().named("clustering columns")?;
        let reserved = take.u32().named("reserved")?;
        let at = take.offset();
        check_crc("footer", bytes, at)?;
        let magic = bytes.get(at + 4..at + 8).and_then(|magic| magic.try_into().ok()).unwrap_or_default();
        check_bytes("magic", magic, MAGIC, at + 4)?;
        if reserved != 0 {
            return Err(FormatError::new("reserved", at - 4, "0", reserved.to_string()));
        }
        if file_bytes.checked_sub(FOOTER_BYTES as u64) != Some(blocks_end) {
            let expected = format!("{file_bytes} less {FOOTER_BYTES}");
            return Err(FormatError::new("end of the blocks", 8, expected, blocks_end.to_string()));
        }
        let is_empty = root == 0 && postings == 0 && blocks_end == HEADER_BYTES as u64;
        let is_filled = root >= HEADER_BYTES as u64 && root < blocks_end && postings > 0;
        if !is_empty && !is_filled {
            return Err(FormatError::new("root", 0, "a block of the file", root.to_string()));
        }
        if terms > postings || postings > blocks_end {
            let found = format!("{terms} and {postings}");
            return Err(FormatError::new("numbers of terms and postings", 16, "rising numbers", found));
        }
        Ok(Self { root, blocks_end, postings, terms, data_bytes, clustering_columns })
    }
}

fn check_bytes(what: &'static str, found: [u8; 4], expected: [u8; 4], at: usize) -> Result<(), FormatError> {
    if found == expected {
        return Ok(());
    }
    Err(FormatError::new(what, at, format!("{expected:02x?}"), format!("{found:02x?}")))
}

/// Compares the checksum at `at` with that of the bytes before it.
fn check_crc(what: &'static str, bytes: &[u8], at: usize) -> Result<(), FormatError> {
    let covered = bytes.get(..at).unwrap_or_default();
    let mut take = Take::new(bytes.get(at..).unwrap_or_default());
    let expected = take.u32().named(what).map_err(|error| error.shifted(at as u64))?;
    let found = crc32(covered);
    if found == expected {
        return Ok(());
    }
    Err(FormatError::new(what, at, format!("checksum {expected:08x}"), format!("{found:08x}")))
}

/// A block of the tree, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    Leaf(Vec<IndexEntry>),
    /// First term and token of each block below, with its offset.
    Node(Vec<(SmallBytes, i64, u64)>),
}

/// The length of the block that begins with these bytes, with head and checksum.
pub fn block_len(head: &[u8]) -> Result<usize, FormatError> {
    let len = Take::new(head).u32().named("length of a block")? as usize;
    if len == 0 || len > BLOCK_BYTES_MAX {
        let expected = format!("1 to {BLOCK_BYTES_MAX}");
        return Err(FormatError::new("length of a block", 0, expected, len.to_string()));
    }
    Ok(BLOCK_HEAD_BYTES + len + BLOCK_CRC_BYTES)
}

/// Decodes a block, which has the length of [`block_len`] and starts at `offset` of the file.
pub fn decode_block(bytes: &[u8], offset: u64, clustering_columns: u32) -> Result<Block, FormatError> {
    let len = block_len(bytes)?;
    if bytes.len() != len {
        let found = format!("{} bytes", bytes.len());
        return Err(FormatError::new("block", 0, format!("{len} bytes"), found));
    }
    check_crc("block", bytes, len - BLOCK_CRC_BYTES)?;
    let content = &bytes[BLOCK_HEAD_BYTES..len - BLOCK_CRC_BYTES];
    let block = match bytes[4] {
        0 => decode_leaf(content, clustering_columns).map(Block::Leaf),
        _ => decode_node(content, offset).map(Block::Node),
    };
    block.map_err(|error| error.shifted(BLOCK_HEAD_BYTES as u64))
}

fn decode_leaf(content: &[u8], clustering_columns: u32) -> Result<Vec<IndexEntry>, FormatError> {
    let mut take = Take::new(content);
    let mut entries: Vec<IndexEntry> = vec![];
    while !take.is_empty() {
        let at = take.offset();
        let flags = take.u8().named("flags")?;
        let last = entries.last();
        if flags > 7 || (last.is_none() && flags & (SAME_TERM | SAME_PARTITION) != 0) {
            return Err(FormatError::new("flags", at, "flags of an entry", flags.to_string()));
        }
        let term = match last {
            Some(last) if flags & SAME_TERM != 0 => last.term.clone(),
            _ => take_term(&mut take, last.map(|last| &last.term))?,
        };
        let key = match last {
            Some(last) if flags & SAME_PARTITION != 0 => last.posting.key.clone(),
            _ => PartitionKey::new(take.vint_bytes().named("partition key")?),
        };
        let is_same_term = flags & SAME_TERM != 0;
        if last.is_some_and(|last| if is_same_term { key < last.posting.key } else { term <= last.term }) {
            return Err(FormatError::new("entry", at, "a greater term or partition", "a lesser one"));
        }
        let row = if flags & WHOLE_PARTITION != 0 {
            None
        } else {
            let bytes = take.vint_bytes().named("clustering key")?;
            let row = ClusteringPrefix::from_bytes(bytes).named("clustering key")?;
            if row.len() != clustering_columns as usize {
                let expected = format!("{clustering_columns} values");
                return Err(FormatError::new("clustering key", at, expected, row.len().to_string()));
            }
            Some(row)
        };
        entries.push(IndexEntry { term, posting: Posting { key, row } });
    }
    Ok(entries)
}

fn decode_node(content: &[u8], offset: u64) -> Result<Vec<(SmallBytes, i64, u64)>, FormatError> {
    let mut take = Take::new(content);
    let mut children: Vec<(SmallBytes, i64, u64)> = vec![];
    while !take.is_empty() {
        let at = take.offset();
        let term = take_term(&mut take, children.last().map(|last| &last.0))?;
        let token = take.i64().named("token")?;
        let child = take.vint().named("offset of a block")?;
        let is_rising =
            children.last().is_none_or(|last| last.2 < child && (&last.0, last.1) <= (&term, token));
        if !is_rising || child < HEADER_BYTES as u64 || child >= offset {
            let expected = format!("a rising offset before {offset}");
            return Err(FormatError::new("offset of a block", at, expected, child.to_string()));
        }
        children.push((term, token, child));
    }
    Ok(children)
}

/// A term, of which the part that it shares with the last one is not stored.
fn take_term(take: &mut Take<'_>, last: Option<&SmallBytes>) -> Result<SmallBytes, FormatError> {
    let at = take.offset();
    let shared = take.vint().named("shared bytes of a term")?;
    let last = last.map_or(&[][..], |last| last.as_slice());
    let shared_part = usize::try_from(shared).ok().and_then(|shared| last.get(..shared));
    let Some(shared) = shared_part else {
        let expected = format!("at most {}", last.len());
        return Err(FormatError::new("shared bytes of a term", at, expected, shared.to_string()));
    };
    let rest = take.vint_bytes().named("term")?;
    Ok(if shared.is_empty() { rest.into() } else { [shared, rest].concat().into() })
}

fn put_term(out: &mut Vec<u8>, last: &[u8], term: &[u8]) {
    let shared = last.iter().zip(term).take_while(|(a, b)| a == b).count();
    vint::write_unsigned(out, shared as u64);
    put_vint_bytes(out, &term[shared..]);
}

/// One level of a tree that is being written: its block that is not complete.
#[derive(Default)]
struct Level {
    content: Vec<u8>,
    entries: usize,
    blocks: u64,
    first: (SmallBytes, i64),
    last_term: SmallBytes,
}

/// Writes the blocks of a tree. The caller takes the bytes out with [`Self::take_bytes`].
pub struct TreeBuilder {
    out: Vec<u8>,
    /// File offset of the end of `out`.
    at: u64,
    levels: Vec<Level>,
    last: Option<Posting>,
    last_block: u64,
    postings: u64,
    terms: u64,
    block_bytes: usize,
}

impl TreeBuilder {
    /// A tree in a file with this header.
    pub fn new(header: &Header) -> Self {
        let out = header.encode();
        Self { at: out.len() as u64, out, ..Self::of_blocks(BLOCK_BYTES, 0) }
    }

    /// Only leaves of `block_bytes`, from `at` on: a sorted run, to be merged with others.
    pub fn of_run(block_bytes: usize, at: u64) -> Self {
        Self::of_blocks(block_bytes, at)
    }

    fn of_blocks(block_bytes: usize, at: u64) -> Self {
        let levels = vec![Level::default()];
        Self { out: vec![], at, levels, last: None, last_block: 0, postings: 0, terms: 0, block_bytes }
    }

    /// Adds an entry, which is not less than the last one. One that is equal to it is ignored.
    pub fn push(&mut self, term: &[u8], posting: &Posting) {
        let leaf = &mut self.levels[0];
        let is_first = leaf.entries == 0;
        let is_same_term = self.last.is_some() && leaf.last_term.as_slice() == term;
        if is_same_term && self.last.as_ref() == Some(posting) {
            return;
        }
        assert!(self.last.is_none() || *leaf.last_term <= *term, "terms rise");
        self.postings += 1;
        self.terms += u64::from(!is_same_term);
        let is_same_partition = !is_first && self.last.as_ref().is_some_and(|last| last.key == posting.key);
        let is_same_term = is_same_term && !is_first;
        let mut flags = 0;
        flags |= if is_same_term { SAME_TERM } else { 0 };
        flags |= if is_same_partition { SAME_PARTITION } else { 0 };
        flags |= if posting.row.is_none() { WHOLE_PARTITION } else { 0 };
        leaf.content.push(flags);
        if !is_same_term {
            put_term(&mut leaf.content, if is_first { &[] } else { &leaf.last_term }, term);
            leaf.last_term = term.into();
        }
        if is_first {
            leaf.first = (term.into(), posting.key.token());
        }
        if !is_same_partition {
            put_vint_bytes(&mut leaf.content, posting.key.bytes());
        }
        if let Some(row) = &posting.row {
            put_vint_bytes(&mut leaf.content, row.as_bytes());
        }
        leaf.entries += 1;
        self.last = Some(posting.clone());
        if leaf.content.len() >= self.block_bytes {
            self.cut(0);
        }
    }

    /// Ends the block of a level.
    fn cut(&mut self, level: usize) {
        if self.levels.len() == level + 1 {
            self.levels.push(Level::default());
        }
        let (below, above) = self.levels.split_at_mut(level + 1);
        let (this, above) = (&mut below[level], &mut above[0]);
        let start = self.out.len();
        self.out.extend_from_slice(&(this.content.len() as u32).to_be_bytes());
        self.out.push(level as u8);
        self.out.append(&mut this.content);
        let crc = crc32(&self.out[start..]);
        self.out.extend_from_slice(&crc.to_be_bytes());
        self.last_block = self.at;
        put_term(&mut above.content, if above.entries == 0 { &[] } else { &above.last_term }, &this.first.0);
        above.content.extend_from_slice(&this.first.1.to_be_bytes());
        vint::write_unsigned(&mut above.content, self.at);
        above.last_term = this.first.0.clone();
        if above.entries == 0 {
            above.first = this.first.clone();
        }
        above.entries += 1;
        self.at += (self.out.len() - start) as u64;
        this.entries = 0;
        this.blocks += 1;
        // A node with one child would not make the tree narrower.
        if self.block_bytes == BLOCK_BYTES && above.content.len() >= BLOCK_BYTES && above.entries > 1 {
            self.cut(level + 1);
        }
    }

    /// Bytes that have not been taken.
    pub fn pending_bytes(&self) -> usize {
        self.out.len()
    }

    /// Takes the bytes of the blocks that are complete, in file order.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Ends a run. Returns the last bytes and the file offset after them.
    pub fn finish_run(mut self) -> (Vec<u8>, u64) {
        if self.levels[0].entries > 0 {
            self.cut(0);
        }
        (self.out, self.at)
    }

    /// Ends the file. Returns its last bytes.
    pub fn finish(mut self, data_bytes: u64, clustering_columns: u32) -> Vec<u8> {
        let mut root = 0;
        if self.postings > 0 {
            let mut level = 0;
            loop {
                let Level { entries, blocks, .. } = self.levels[level];
                if level > 0 && blocks == 0 && entries == 1 {
                    root = self.last_block;
                    break;
                }
                if entries > 0 {
                    self.cut(level);
                }
                level += 1;
            }
        }
        let footer = Footer {
            root,
            blocks_end: self.at,
            postings: self.postings,
            terms: self.terms,
            data_bytes,
            clustering_columns,
        };
        self.out.extend_from_slice(&footer.encode());
        self.out
    }
}

/// Decodes a whole file that is in memory: the header, the footer, and all entries. For tests and tools.
pub fn decode(bytes: &[u8]) -> Result<(Header, Footer, Vec<IndexEntry>), FormatError> {
    let header = Header::decode(bytes)?;
    let Some(footer_at) = bytes.len().checked_sub(FOOTER_BYTES).filter(|at| *at >= HEADER_BYTES) else {
        return Err(FormatError::new("footer", 0, "a whole file", format!("{} bytes", bytes.len())));
    };
    let footer = Footer::decode(&bytes[footer_at..], bytes.len() as u64)
        .map_err(|error| error.shifted(footer_at as u64))?;
    let mut entries: Vec<IndexEntry> = vec![];
    let mut at = HEADER_BYTES;
    while at < footer_at {
        let shift = |error: FormatError| error.shifted(at as u64);
        let rest = &bytes[at..footer_at];
        let len = block_len(rest).map_err(shift)?;
        let Some(block) = rest.get(..len) else {
            let found: Cow<'static, str> = format!("{} bytes", rest.len()).into();
            return Err(FormatError::new("block", at, format!("{len} bytes"), found));
        };
        if let Block::Leaf(leaf) = decode_block(block, at as u64, footer.clustering_columns).map_err(shift)? {
            entries.extend(leaf);
        }
        at += len;
    }
    if entries.len() as u64 != footer.postings {
        let found = entries.len().to_string();
        return Err(FormatError::new("number of postings", footer_at, footer.postings.to_string(), found));
    }
    Ok((header, footer, entries))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> Header {
        Header { table: TableId::from_u128(7), index: IndexId::from_u128(8) }
    }

    fn entry(term: &[u8], key: &[u8], row: Option<u8>) -> IndexEntry {
        let row = row.map(|row| ClusteringPrefix::new([&[row][..]]));
        IndexEntry { term: term.into(), posting: Posting { key: PartitionKey::new(key), row } }
    }

    fn built(entries: &[IndexEntry]) -> Vec<u8> {
        let mut builder = TreeBuilder::new(&header());
        let mut bytes = vec![];
        for entry in entries {
            builder.push(&entry.term, &entry.posting);
            bytes.extend(builder.take_bytes());
        }
        bytes.extend(builder.finish(99, 1));
        bytes
    }

    #[test]
    fn names_are_those_of_indexes() {
        let id = IndexId::from_u128(0xab);
        assert_eq!(component(id).suffix(), "MessinaIndex_000000000000000000000000000000ab.db");
        assert_eq!(id_of(&component(id)), Some(id));
        assert_eq!(id_of(&temporary(id)), None);
        assert!(is_temporary(&temporary(id)) && !is_temporary(&component(id)));
        assert_eq!(id_of(&Component::Other("MessinaIndex_ab.db".into())), None);
    }

    #[test]
    fn the_worked_example_of_the_format_page() {
        let page = include_str!("../../../../docs/formats/secondary-index.md");
        let (_, example) = page.split_once("```hex\n").expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        let hex = example.lines().flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace());
        let bytes: Vec<u8> = hex.map(|byte| u8::from_str_radix(byte, 16).expect("hex digits")).collect();
        let row = ClusteringPrefix::new([&1i32.to_be_bytes()[..]]);
        let posting = |row| Posting { key: PartitionKey::new(&b"k1"[..]), row };
        let entries = [
            IndexEntry { term: b"aa"[..].into(), posting: posting(Some(row)) },
            IndexEntry { term: b"ab"[..].into(), posting: posting(None) },
        ];
        assert_eq!(built(&entries), bytes);
    }

    #[test]
    fn an_empty_index_is_a_file() {
        let (found, footer, entries) = decode(&built(&[])).unwrap();
        assert_eq!((found, footer.postings, entries.len()), (header(), 0, 0));
    }

    #[test]
    fn a_large_tree_leads_to_every_leaf() {
        let term = |i: u32| {
            let (high, low) = base::murmur3::hash128(&i.to_be_bytes());
            [&i.to_be_bytes()[..], &high.to_be_bytes(), &low.to_be_bytes()].concat()
        };
        let mut entries: Vec<_> =
            (0..150_000u32).map(|i| entry(&term(i / 3), &[(i % 3) as u8], None)).collect();
        entries.sort_by(|a, b| (&a.term, &a.posting.key).cmp(&(&b.term, &b.posting.key)));
        let bytes = built(&entries);
        let (_, footer, found) = decode(&bytes).unwrap();
        assert!(found == entries);
        assert_eq!((footer.postings, footer.terms, footer.data_bytes), (150_000, 50_000, 99));
        let mut leaves = 0;
        let mut depth = 0;
        let mut level = vec![footer.root];
        while !level.is_empty() {
            depth += 1;
            let mut below = vec![];
            for at in level {
                let rest = &bytes[at as usize..];
                let block = decode_block(&rest[..block_len(rest).unwrap()], at, 1).unwrap();
                match block {
                    Block::Leaf(leaf) => leaves += leaf.len(),
                    Block::Node(children) => below.extend(children.into_iter().map(|child| child.2)),
                }
            }
            level = below;
        }
        assert_eq!((leaves, depth), (150_000, 3));
    }

    proptest! {
        #[test]
        fn entries_come_out_as_they_went_in(
            mut entries in proptest::collection::vec(
                (proptest::collection::vec(0u8..4, 0..5), 0u8..9, proptest::option::of(0u8..9)), 0..300)
        ) {
            entries.sort_by_key(|(term, key, row)| (term.clone(), PartitionKey::new([*key]), *row));
            entries.dedup();
            let entries: Vec<_> =
                entries.iter().map(|(term, key, row)| entry(term, &[*key], *row)).collect();
            let twice: Vec<_> = entries.iter().flat_map(|entry| [entry.clone(), entry.clone()]).collect();
            let (_, _, found) = decode(&built(&twice)).unwrap();
            prop_assert_eq!(found, entries);
        }

        #[test]
        fn damage_is_an_error(at in 0usize..4000, flip in 1u8..=255) {
            let entries: Vec<_> = (0..300u32).map(|i| entry(&i.to_be_bytes(), b"k", Some(1))).collect();
            let mut bytes = built(&entries);
            let at = at % bytes.len();
            bytes[at] ^= flip;
            prop_assert!(decode(&bytes).is_err(), "byte {}", at);
        }

        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>) {
            let _ = decode(&bytes);
            let _ = decode_leaf(&bytes, 1);
            let _ = decode_node(&bytes, 1000);
            let _ = Footer::decode(&bytes, bytes.len() as u64);
        }
    }
}
