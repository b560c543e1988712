//! Any bytes are a component of an SSTable of any version, or are refused. Memory stays proportional to the
//! length of the input.
//!
//! The first byte selects the component, the second the version.

use sstable::component::clustering::RawPrefix;
use sstable::component::crc::ChunkCrcs;
use sstable::component::filter::Filter;
use sstable::component::index::{IndexEntry, PromotedIndex};
use sstable::component::messina::MessinaInfo;
use sstable::component::partitions_db::{PartitionPayload, PartitionsFooter};
use sstable::component::rows_db::{RowsEntry, RowsPayload};
use sstable::component::secondary_index;
use sstable::component::statistics::Statistics;
use sstable::component::summary::Summary;
use sstable::component::trie::TrieNode;
use sstable::component::{digest, toc};
use sstable::name::SSTableName;
use sstable::version::Version;

const FIXED: &[Option<usize>] = &[Some(4), None, Some(16)];

pub fn examine(data: &[u8]) {
    let [component, version, bytes @ ..] = data else { return };
    let version = Version::ALL[usize::from(*version) % Version::ALL.len()];
    let len = bytes.len();
    match component % 13 {
        0 => {
            let Ok(statistics) = Statistics::decode(bytes, version) else { return };
            let _ = statistics.compaction.cardinality();
            let _ = statistics.stats.tombstone_drop_times.count_until(1_700_000_000);
            if version.is_writable() {
                let again = statistics.encode(version);
                assert!(Statistics::decode(&again, version).is_ok(), "what was read can be written");
            }
        }
        1 => drop(Summary::decode(bytes).map(|summary| assert!(summary.memory_bytes() < 1000 + 16 * len))),
        2 => drop(Filter::decode(bytes, version).map(|filter| filter.may_contain((1, 2)))),
        3 => {
            let mut take = base::bytes::Take::new(bytes);
            while let Ok(entry) = IndexEntry::decode(&mut take) {
                let Ok(index) = PromotedIndex::decode(entry.promoted, FIXED, version) else { continue };
                for number in 0..index.block_count().min(100) {
                    let _ = index.block(number);
                }
            }
        }
        4 => drop(PartitionsFooter::decode(bytes, len as u64)),
        5 => drop(RowsEntry::decode(bytes, 1 << 30, version)),
        6 => {
            let Ok(node) = TrieNode::decode(bytes, 1 << 20) else { return };
            for slot in 0..node.slots() {
                if let Ok(Some((byte, child))) = node.child(slot) {
                    assert!(child < 1 << 20, "children are in front of their parents");
                    assert!(node.search(byte).is_ok() || node.slots() > 1);
                }
            }
            if node.payload_bits() != 0 {
                let _ = PartitionPayload::decode(node.payload_bits(), node.payload());
                let _ = RowsPayload::decode(node.payload_bits(), node.payload(), version);
            }
        }
        7 => drop(ChunkCrcs::decode(bytes, len as u64 * 1000)),
        8 => drop(digest::decode(bytes)),
        9 => drop(toc::decode(bytes)),
        10 => drop(MessinaInfo::decode(bytes)),
        12 => {
            let _ = secondary_index::decode(bytes);
            // The checksum of a block is one that a fuzzer cannot guess.
            let Ok(content) = u32::try_from(bytes.len()) else { return };
            let mut block = content.to_be_bytes().to_vec();
            block.push(0);
            block.extend_from_slice(bytes);
            for level in [0, 1] {
                block.truncate(secondary_index::BLOCK_HEAD_BYTES + len);
                block[4] = level;
                let _ = secondary_index::decode_block(&crate::with_crc(&block), 1 << 20, 1);
            }
        }
        _ => {
            let _ = RawPrefix::decode(&mut base::bytes::Take::new(bytes), FIXED);
            if let Ok(name) = std::str::from_utf8(bytes)
                && let Ok((parsed, component)) = SSTableName::parse_file_name(name)
            {
                assert_eq!(parsed.file_name(&component), name);
            }
        }
    }
}
