//! Settings of the CQL server that nodetool changes while the node runs: timeouts, and the probability that a
//! request is traced. A start restores the configured values.

use std::cell::Cell;

use engine::EngineError;
use runtime::Shard;

use super::{CqlShard, Timeouts, on_all_shards};

/// A kind of timeout, by its name in Cassandra's nodetool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    Read,
    Range,
    Write,
    CounterWrite,
    CasContention,
    Truncate,
}

impl TimeoutKind {
    pub const ALL: [(&'static str, Self); 6] = [
        ("read", Self::Read),
        ("range", Self::Range),
        ("write", Self::Write),
        ("counterwrite", Self::CounterWrite),
        ("cascontention", Self::CasContention),
        ("truncate", Self::Truncate),
    ];

    /// The kind of this name.
    ///
    /// # Errors
    /// The text lists the names.
    pub fn of_name(name: &str) -> Result<Self, String> {
        let wanted = name.to_ascii_lowercase();
        if let Some((_, kind)) = Self::ALL.iter().find(|(name, _)| *name == wanted) {
            return Ok(*kind);
        }
        if ["internodeconnect", "internodeuser", "internodestreaminguser", "misc"].contains(&&wanted[..]) {
            return Err(format!("{wanted} is a timeout between nodes; this node is alone"));
        }
        let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
        Err(format!("there is no timeout {name:?}; there are: {}", names.join(", ")))
    }
}

impl Timeouts {
    pub fn get(&self, kind: TimeoutKind) -> u64 {
        match kind {
            TimeoutKind::Read => self.read_us,
            TimeoutKind::Range => self.range_us,
            TimeoutKind::Write => self.write_us,
            TimeoutKind::CounterWrite => self.counter_us,
            TimeoutKind::CasContention => self.conditional_us.saturating_sub(self.write_us),
            TimeoutKind::Truncate => self.truncate_us,
        }
    }

    /// A conditional write may take the timeout of writes and that of contention.
    pub fn set(&mut self, kind: TimeoutKind, us: u64) {
        let contention_us = self.get(TimeoutKind::CasContention);
        match kind {
            TimeoutKind::Read => self.read_us = us,
            TimeoutKind::Range => self.range_us = us,
            TimeoutKind::Write => {
                self.write_us = us;
                self.conditional_us = us.saturating_add(contention_us);
            }
            TimeoutKind::CounterWrite => self.counter_us = us,
            TimeoutKind::CasContention => self.conditional_us = self.write_us.saturating_add(us),
            TimeoutKind::Truncate => self.truncate_us = us,
        }
    }
}

/// See the head of this file.
pub(crate) struct RuntimeSettings {
    pub timeouts: Cell<Timeouts>,
    /// 0.0 to 1.0
    trace_probability: Cell<f64>,
}

impl RuntimeSettings {
    pub fn new(timeouts: Timeouts) -> Self {
        Self { timeouts: Cell::new(timeouts), trace_probability: Cell::new(0.0) }
    }

    /// Whether to trace a request whose client did not ask for it; `random` is uniform.
    #[inline]
    pub fn is_traced(&self, random: impl FnOnce() -> u64) -> bool {
        let probability = self.trace_probability.get();
        // 53 bits are exact in a float, so a probability of 1 is above each of them.
        probability > 0.0 && ((random() >> 11) as f64 / (1u64 << 53) as f64) < probability
    }
}

/// The timeouts now.
///
/// # Errors
/// The node has stopped, or does not serve CQL.
pub fn timeouts(shard: &Shard) -> Result<Timeouts, EngineError> {
    Ok(CqlShard::of(shard)?.runtime.timeouts.get())
}

/// Sets a timeout for requests that begin from now on.
pub async fn set_timeout(shard: &Shard, kind: TimeoutKind, us: u64) {
    on_all_shards(shard, move |cql| {
        let mut timeouts = cql.runtime.timeouts.get();
        timeouts.set(kind, us);
        cql.runtime.timeouts.set(timeouts);
    })
    .await;
}

/// The probability with which a request is traced.
///
/// # Errors
/// The node has stopped, or does not serve CQL.
pub fn trace_probability(shard: &Shard) -> Result<f64, EngineError> {
    Ok(CqlShard::of(shard)?.runtime.trace_probability.get())
}

/// `probability`: 0.0 to 1.0.
pub async fn set_trace_probability(shard: &Shard, probability: f64) {
    on_all_shards(shard, move |cql| cql.runtime.trace_probability.set(probability)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts() -> Timeouts {
        Timeouts { read_us: 1, range_us: 2, write_us: 3, counter_us: 4, conditional_us: 8, truncate_us: 6 }
    }

    #[test]
    fn each_timeout_is_set_alone() {
        for (name, kind) in TimeoutKind::ALL {
            let mut changed = timeouts();
            changed.set(TimeoutKind::of_name(name).unwrap(), 1000);
            for (_, other) in TimeoutKind::ALL {
                let expect = if other == kind { 1000 } else { timeouts().get(other) };
                assert_eq!(changed.get(other), expect, "{name} {other:?}");
            }
        }
        let mut changed = timeouts();
        changed.set(TimeoutKind::Write, 100);
        assert_eq!(changed.conditional_us, 105);
        assert!(TimeoutKind::of_name("misc").unwrap_err().contains("between nodes"));
        assert!(TimeoutKind::of_name("wirte").unwrap_err().contains("counterwrite"));
    }

    #[test]
    fn the_probability_of_a_trace() {
        let settings = RuntimeSettings::new(timeouts());
        assert!(!settings.is_traced(|| 0));
        settings.trace_probability.set(1.0);
        assert!(settings.is_traced(|| u64::MAX) && settings.is_traced(|| 0));
        settings.trace_probability.set(0.25);
        let rng = std::cell::Cell::new(1u64);
        let next = || {
            rng.set(
                rng.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
            );
            base::murmur3::hash128(&rng.get().to_be_bytes()).0
        };
        let traced = (0..10_000).filter(|_| settings.is_traced(next)).count();
        assert!((2300..2700).contains(&traced), "{traced}");
    }
}
