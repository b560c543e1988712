//! Hash maps with the same order in every run.
//!
//! The standard maps use a random seed, so a simulation that iterates over one of them would not be
//! reproducible.

/// A hash map with a fixed, fast hasher. The order of iteration depends only on the insertions.
#[allow(clippy::disallowed_types, reason = "this alias is the door")]
pub type HashMap<K, V> = std::collections::HashMap<K, V, rustc_hash::FxBuildHasher>;

/// A hash set with a fixed, fast hasher. The order of iteration depends only on the insertions.
#[allow(clippy::disallowed_types, reason = "this alias is the door")]
pub type HashSet<K> = std::collections::HashSet<K, rustc_hash::FxBuildHasher>;
