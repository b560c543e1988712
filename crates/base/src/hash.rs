//! Hash maps whose order is the same in every run.
//!
//! The standard maps draw a random seed; a simulation that iterates one of them would not repeat.

/// A hash map with a fixed, fast hasher. Iteration order depends only on the insertions.
#[allow(clippy::disallowed_types, reason = "this alias is the door")]
pub type HashMap<K, V> = std::collections::HashMap<K, V, rustc_hash::FxBuildHasher>;

/// A hash set with a fixed, fast hasher. Iteration order depends only on the insertions.
#[allow(clippy::disallowed_types, reason = "this alias is the door")]
pub type HashSet<K> = std::collections::HashSet<K, rustc_hash::FxBuildHasher>;
