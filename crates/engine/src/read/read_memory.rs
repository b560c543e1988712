//! Divides the memory of reads among the groups: each has a part of its own, and all may borrow from a pool.
//! Pure.
//!
//! One half of the memory is divided by shares and never lent, so that a group finds its part free when it
//! becomes active. The other half is a pool: a group may hold its own part and whatever the others have not
//! borrowed from the pool. A group without others may use everything.

/// The reads of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub shares: u32,
    /// Current memory; it may exceed the limit.
    pub used_bytes: u64,
}

/// The limit of the group at index `at`; `memory_bytes` is for all groups.
pub fn limit_bytes(memory_bytes: u64, holders: &[Holder], at: usize) -> u64 {
    let pool_bytes = memory_bytes / 2;
    let divided_bytes = memory_bytes - pool_bytes;
    let shares: u64 = holders.iter().map(|holder| u64::from(holder.shares)).sum();
    let own_bytes = |holder: &Holder| {
        let bytes = u128::from(divided_bytes) * u128::from(holder.shares) / u128::from(shares.max(1));
        bytes as u64
    };
    let others = holders.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, holder)| holder);
    let borrowed_bytes: u64 = others.map(|other| other.used_bytes.saturating_sub(own_bytes(other))).sum();
    own_bytes(&holders[at]) + pool_bytes.saturating_sub(borrowed_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares and held bytes of each group, and the expected limit of each from 1000 bytes.
    #[track_caller]
    fn check(groups: &[(u32, u64)], expect: &[u64]) {
        let holders: Vec<Holder> = groups
            .iter()
            .map(|(shares, used_bytes)| Holder { shares: *shares, used_bytes: *used_bytes })
            .collect();
        let found: Vec<u64> = (0..holders.len()).map(|at| limit_bytes(1000, &holders, at)).collect();
        assert_eq!(found, expect, "{groups:?}");
    }

    #[test]
    fn who_is_alone_has_all() {
        check(&[(1000, 0)], &[1000]);
        check(&[(7, 900)], &[1000]);
    }

    #[test]
    fn unused_shares_are_lent() {
        check(&[(1000, 0), (1000, 0)], &[750, 750]);
        // The second group holds 100 more than its own 250.
        check(&[(1000, 0), (1000, 350)], &[650, 750]);
        check(&[(800, 0), (200, 0)], &[900, 600]);
    }

    #[test]
    fn no_plan_takes_an_input_of_another_job() {
        // The whole pool is borrowed; the own part of 250 is still free.
        check(&[(1000, 0), (1000, 750)], &[250, 750]);
        check(&[(1000, 200), (1000, 5000)], &[250, 750]);
        check(&[(600, 400), (300, 200), (100, 250)], &[550, 350, 400]);
    }

    #[test]
    fn together_they_never_hold_more_than_there_is() {
        let mut rng = base::rng::Rng::new(3);
        let mut holders = [1000, 200, 17, 1].map(|shares| Holder { shares, used_bytes: 0 });
        for _ in 0..10_000 {
            let at = rng.index(holders.len());
            // A read ends, or one begins that fits.
            holders[at].used_bytes -= rng.below(holders[at].used_bytes + 1);
            let limit = limit_bytes(1_000_000, &holders, at);
            assert!(limit >= 500_000 * u64::from(holders[at].shares) / 1218);
            let room = limit.saturating_sub(holders[at].used_bytes);
            holders[at].used_bytes += rng.below(room + 1);
            assert!(holders.iter().map(|holder| holder.used_bytes).sum::<u64>() <= 1_000_000);
        }
    }
}
