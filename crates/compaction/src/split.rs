//! Splits the output of a major compaction, so that the result is not one SSTable that stays alone in its
//! size class. The output is divided into a half, a quarter, an eighth, … of the bytes, as by `nodetool
//! compact -s`.

use crate::plan::{Layout, Split};
use crate::view::SSTableView;

/// Minimum size of a piece, in bytes.
const PIECE_MIN_BYTES: u64 = 50 << 20;

/// Splits off a half, then a quarter, and so on, while the piece has at least 50 MiB. Tokens are evenly
/// distributed, so a fraction of the token range has about that fraction of the bytes.
pub(crate) fn halves(sstables: &[&SSTableView]) -> Layout {
    let bytes: u64 = sstables.iter().map(|sstable| sstable.data_bytes).sum();
    let first = sstables.iter().map(|sstable| sstable.first.token()).min();
    let last = sstables.iter().map(|sstable| sstable.last.token()).max();
    let (Some(first), Some(last)) = (first, last) else { return Layout::whole() };
    let mut left = i128::from(last) - i128::from(first);
    let mut token = i128::from(first);
    let mut piece_bytes = bytes / 2;
    let mut tokens = vec![];
    while piece_bytes >= PIECE_MIN_BYTES && left >= 2 {
        left /= 2;
        token += left;
        tokens.push(i64::try_from(token).expect("between two tokens"));
        piece_bytes /= 2;
    }
    let split = if tokens.is_empty() { Split::Nowhere } else { Split::Tokens(tokens) };
    Layout { split, ..Layout::whole() }
}
