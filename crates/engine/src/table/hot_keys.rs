//! The partitions that clients use most, measured while `nodetool toppartitions` runs: the Space-Saving
//! algorithm (Metwally, Agrawal, El Abbadi 2005).
//!
//! A sampler has a fixed number of counters. A key without a counter takes over the smallest one, whose count
//! becomes the key's possible error. Guarantees: a key that occurs more often than `occurrences / capacity`
//! has a counter; a count is never too small and at most its error too large. Without a sampling, a request
//! costs one comparison. The smallest counter is found by a scan, so a new key costs O(capacity); the
//! capacity is at most [`CAPACITY_MAX`].

use base::HashMap;
use model::PartitionKey;

/// Limit of the counters of a sampler.
pub const CAPACITY_MAX: usize = 1024;

/// A key, how often it occurred at most, and by how much this may be too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotKey {
    pub key: PartitionKey,
    pub count: u64,
    pub error: u64,
}

/// Counts the occurrences of keys.
#[derive(Clone, Debug)]
pub struct KeySampler {
    capacity: usize,
    counters: HashMap<PartitionKey, (u64, u64)>,
    occurrences: u64,
}

impl KeySampler {
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.clamp(1, CAPACITY_MAX), counters: HashMap::default(), occurrences: 0 }
    }

    pub fn add(&mut self, key: &PartitionKey) {
        self.occurrences += 1;
        if let Some((count, _)) = self.counters.get_mut(key) {
            *count += 1;
            return;
        }
        let mut error = 0;
        if self.counters.len() == self.capacity
            && let Some((least, (count, _))) = self.counters.iter().min_by_key(|(_, (count, _))| *count)
        {
            error = *count;
            let least = least.clone();
            self.counters.remove(&least);
        }
        self.counters.insert(key.clone(), (error + 1, error));
    }

    /// All occurrences that were counted.
    pub fn occurrences(&self) -> u64 {
        self.occurrences
    }

    /// The keys that occurred most, the most frequent first, in a fixed order.
    pub fn top(&self, count: usize) -> Vec<HotKey> {
        let of = |(key, (count, error)): (&PartitionKey, &(u64, u64))| HotKey {
            key: key.clone(),
            count: *count,
            error: *error,
        };
        let mut keys: Vec<HotKey> = self.counters.iter().map(of).collect();
        keys.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        keys.truncate(count);
        keys
    }
}

/// The samplers of a table on a shard.
#[derive(Clone, Debug)]
pub struct KeySamplers {
    pub reads: KeySampler,
    pub writes: KeySampler,
}

impl KeySamplers {
    pub fn new(capacity: usize) -> Self {
        Self { reads: KeySampler::new(capacity), writes: KeySampler::new(capacity) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> PartitionKey {
        PartitionKey::new(number.to_be_bytes().to_vec())
    }

    #[test]
    fn frequent_keys_are_found_and_counts_are_within_their_error() {
        let mut sampler = KeySampler::new(20);
        let mut truth: HashMap<u32, u64> = HashMap::default();
        let mut add = |number: u32| {
            sampler.add(&key(number));
            *truth.entry(number).or_default() += 1;
        };
        // Ten hot keys among a thousand cold ones.
        for round in 0..1000u32 {
            (0..10).filter(|hot| round % (hot + 1) == 0).for_each(&mut add);
            add(1000 + round);
        }
        assert_eq!(sampler.occurrences(), truth.values().sum::<u64>());
        let top = sampler.top(20);
        assert_eq!(top.len(), 20);
        assert_eq!(top[0].key, key(0));
        let guaranteed = sampler.occurrences() / 20;
        for (number, count) in &truth {
            let found = top.iter().find(|hot| hot.key == key(*number));
            assert!(found.is_some() || *count <= guaranteed, "{number} occurred {count} times");
            if let Some(HotKey { count: at_most, error, .. }) = found {
                assert!(at_most >= count && at_most - error <= *count, "{number}: {count}, {found:?}");
            }
        }
    }

    #[test]
    fn without_replacement_counts_are_exact() {
        let mut sampler = KeySampler::new(4);
        [1, 2, 2, 3, 3, 3].into_iter().for_each(|number| sampler.add(&key(number)));
        let top: Vec<_> = sampler.top(2).into_iter().map(|hot| (hot.key, hot.count, hot.error)).collect();
        assert_eq!(top, [(key(3), 3, 0), (key(2), 2, 0)]);
    }
}
