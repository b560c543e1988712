//! Partition keys by their position on the ring.

use std::sync::LazyLock;

use model::PartitionKey;

/// The number of keys.
pub const KEYS: u32 = 1 << 16;

static SORTED: LazyLock<Vec<PartitionKey>> = LazyLock::new(|| {
    let mut keys: Vec<PartitionKey> =
        (0..KEYS).map(|n| PartitionKey::new(n.to_be_bytes().as_slice())).collect();
    keys.sort_unstable();
    keys
});

/// The key at a position: a key with a larger position comes later on the ring. Positions are about evenly
/// distributed.
///
/// # Panics
/// If `place` is [`KEYS`] or more.
pub fn key(place: u32) -> &'static PartitionKey {
    &SORTED[place as usize]
}
