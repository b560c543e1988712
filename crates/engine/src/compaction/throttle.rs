//! Rate limit for the reads of all compactions of a shard.

use std::cell::{Cell, RefCell};

use base::HashMap;
use runtime::Shard;

/// Longest sleep, so that a stop or a new rate takes effect soon.
const NAP_US_MAX: u64 = 50_000;
/// Time for which unused rate is kept.
const BURST_US: u64 = 100_000;

/// GCRA with a burst of a tenth of a second. Bytes are charged after they were read.
#[derive(Default)]
pub(super) struct Throttle {
    /// 0: no limit.
    bytes_per_s: Cell<u64>,
    /// The time at which the bytes read so far are paid for.
    paid_until_us: Cell<u64>,
    /// Bytes that each job had read at its last call of [`Self::pass`].
    passed_bytes: RefCell<HashMap<u64, u64>>,
}

impl Throttle {
    pub(super) fn bytes_per_s(&self) -> u64 {
        self.bytes_per_s.get()
    }

    pub(super) fn set_bytes_per_s(&self, bytes_per_s: u64) {
        self.bytes_per_s.set(bytes_per_s);
    }

    /// Waits until `read_bytes`, the total that job `job` has read so far, is within the rate, or `must_stop`
    /// returns true.
    pub(super) async fn pass(&self, shard: &Shard, read_bytes: u64, job: u64, must_stop: impl Fn() -> bool) {
        let before = self.passed_bytes.borrow_mut().insert(job, read_bytes).unwrap_or(0);
        let rate = self.bytes_per_s.get();
        if rate == 0 {
            return;
        }
        let cost_us = (read_bytes - before).saturating_mul(1_000_000) / rate;
        let from_us = self.paid_until_us.get().max(shard.now_us().saturating_sub(BURST_US));
        let until_us = from_us + cost_us;
        self.paid_until_us.set(until_us);
        loop {
            let ahead_us = until_us.saturating_sub(shard.now_us());
            if ahead_us == 0 || must_stop() || self.bytes_per_s.get() != rate {
                return;
            }
            shard.sleep_us(ahead_us.min(NAP_US_MAX)).await;
        }
    }

    pub(super) fn forget(&self, job: u64) {
        self.passed_bytes.borrow_mut().remove(&job);
    }
}
