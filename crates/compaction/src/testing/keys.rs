//! Partition keys by their place on the ring.

use std::sync::LazyLock;

use model::PartitionKey;

/// So many there are.
pub const KEYS: u32 = 1 << 16;

static SORTED: LazyLock<Vec<PartitionKey>> = LazyLock::new(|| {
    let mut keys: Vec<PartitionKey> =
        (0..KEYS).map(|n| PartitionKey::new(n.to_be_bytes().as_slice())).collect();
    keys.sort_unstable();
    keys
});

/// The key at a place: of two, the one with the greater place comes later on the ring. Places are about evenly spread.
///
/// # Panics
/// From [`KEYS`] on.
pub fn key(place: u32) -> &'static PartitionKey {
    &SORTED[place as usize]
}
