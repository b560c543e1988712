//! Weighted fair queueing by virtual time: the class that has used least in proportion to its shares goes
//! next.
//!
//! 1. A class is charged what it uses divided by its shares, so a class with twice the shares is charged
//!    half.
//! 2. Of the ready classes, the one with the smallest charge goes next; among equals, the one with the lower
//!    number.
//! 3. A class that becomes ready after being idle is raised to the charge of the class that went last, less a
//!    given allowance: idleness earns no credit. A class that is always ready is never raised, which keeps
//!    the proportions exact.
//!
//! Amounts may have any unit; the CPU and the disk use nanoseconds.

/// The largest number of classes.
pub const CLASSES_MAX: usize = 24;

/// The shares of a class for which none were set.
pub const SHARES_DEFAULT: u32 = 1000;

/// Base-2 logarithm of the parts into which one unit is divided before the division by the shares.
const PARTS_LOG2: u32 = 16;

/// When a charge reaches this value, all charges are reduced, so that no sum overflows.
const REBASE_AT: u64 = 1 << 62;

#[derive(Clone, Copy, Debug)]
struct Class {
    shares: u32,
    /// 2^32 / shares: replaces a division by a multiplication.
    weight: u64,
    charged: u64,
}

/// The virtual time of up to [`CLASSES_MAX`] classes.
#[derive(Clone, Debug)]
pub struct FairShares {
    classes: [Class; CLASSES_MAX],
    /// One bit for each class that is ready.
    ready: u32,
    /// The charge of the class that went last, before that turn.
    last: u64,
}

impl Default for FairShares {
    fn default() -> Self {
        let class = Class { shares: SHARES_DEFAULT, weight: weight(SHARES_DEFAULT), charged: 0 };
        Self { classes: [class; CLASSES_MAX], ready: 0, last: 0 }
    }
}

fn weight(shares: u32) -> u64 {
    (1 << 32) / u64::from(shares)
}

impl Class {
    fn parts(&self, amount: u64) -> u64 {
        let parts = (u128::from(amount) * u128::from(self.weight)) >> (32 - PARTS_LOG2);
        // A charge of 0 would let a class with many shares go forever.
        u64::try_from(parts).unwrap_or(REBASE_AT).clamp(1, REBASE_AT)
    }
}

impl FairShares {
    /// The shares of a class.
    pub fn shares(&self, class: usize) -> u32 {
        self.classes[class].shares
    }

    /// Changes the shares from now on; charges made before stay. 0 counts as 1.
    pub fn set_shares(&mut self, class: usize, shares: u32) {
        let shares = shares.max(1);
        let class = &mut self.classes[class];
        (class.shares, class.weight) = (shares, weight(shares));
    }

    /// Whether the class is ready.
    pub fn is_ready(&self, class: usize) -> bool {
        self.ready & 1 << class != 0
    }

    /// One bit for each class that is ready.
    pub fn ready(&self) -> u32 {
        self.ready
    }

    /// Marks a class as ready. If it was idle, it may catch up with `forgiven`, an amount as in
    /// [`FairShares::charge`].
    pub fn wake(&mut self, class: usize, forgiven: u64) {
        if self.is_ready(class) {
            return;
        }
        let forgiven = if forgiven == 0 { 0 } else { self.classes[class].parts(forgiven) };
        let entry = &mut self.classes[class];
        entry.charged = entry.charged.max(self.last.saturating_sub(forgiven));
        self.ready |= 1 << class;
    }

    /// Marks a class as idle.
    pub fn sleep(&mut self, class: usize) {
        self.ready &= !(1 << class);
    }

    /// The class that goes next; `None` if no class is ready.
    pub fn next(&self) -> Option<usize> {
        self.next_among(u32::MAX)
    }

    /// The class that goes next among those with a bit in `among`.
    pub fn next_among(&self, among: u32) -> Option<usize> {
        let mut left = self.ready & among;
        if left == 0 {
            return None;
        }
        let mut least = left.trailing_zeros() as usize;
        left &= left - 1;
        while left != 0 {
            let class = left.trailing_zeros() as usize;
            if self.classes[class].charged < self.classes[least].charged {
                least = class;
            }
            left &= left - 1;
        }
        Some(least)
    }

    /// Charges a class the `amount` that it used in its turn.
    pub fn charge(&mut self, class: usize, amount: u64) {
        let entry = &mut self.classes[class];
        self.last = self.last.max(entry.charged);
        entry.charged += entry.parts(amount);
        if entry.charged >= REBASE_AT {
            self.rebase();
        }
    }

    /// Takes back `amount` of a charge, because the class used less. At least one part of the charge stays: a
    /// class whose requests were free could go forever.
    pub fn refund(&mut self, class: usize, amount: u64) {
        let entry = &mut self.classes[class];
        entry.charged = entry.charged.saturating_sub(entry.parts(amount) - 1);
    }

    /// Reduces all charges by the smallest charge of the ready classes.
    fn rebase(&mut self) {
        let by = self.next().map_or(REBASE_AT, |least| self.classes[least].charged);
        self.last = self.last.saturating_sub(by);
        for class in &mut self.classes {
            class.charged = class.charged.saturating_sub(by).min(REBASE_AT / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs classes with these shares that are always ready. `uses` is the amount that each uses at a time;
    /// the result is the total of each.
    fn run(shares: &[u32], uses: &[u64], total: u64) -> Vec<u64> {
        let mut fair = FairShares::default();
        for (class, shares) in shares.iter().enumerate() {
            fair.set_shares(class, *shares);
            fair.wake(class, 0);
        }
        let mut got = vec![0; shares.len()];
        while got.iter().sum::<u64>() < total {
            let class = fair.next().unwrap();
            fair.charge(class, uses[class]);
            got[class] += uses[class];
        }
        got
    }

    #[test]
    fn what_each_gets_is_as_its_shares() {
        let got = run(&[1000, 200, 100], &[100, 100, 100], 13_000_000);
        let parts: Vec<u64> = got.iter().map(|got| (got + 50_000) / 100_000).collect();
        assert_eq!(parts, [100, 20, 10]);
    }

    #[test]
    fn large_steps_are_paid_for() {
        let got = run(&[100, 100], &[10, 5_000], 20_000_000);
        assert!(got[0].abs_diff(got[1]) <= 10_000, "{got:?}");
    }

    #[test]
    fn idleness_earns_no_credit() {
        let mut fair = FairShares::default();
        fair.wake(0, 0);
        for _ in 0..1000 {
            fair.charge(0, 1000);
        }
        fair.wake(1, 0);
        let mut got = [0, 0];
        for _ in 0..100 {
            let class = fair.next().unwrap();
            fair.charge(class, 1000);
            got[class] += 1;
        }
        assert_eq!(got, [50, 50]);
    }

    #[test]
    fn what_is_forgiven_bounds_the_credit() {
        let mut fair = FairShares::default();
        fair.wake(0, 0);
        for _ in 0..1000 {
            fair.charge(0, 1000);
        }
        fair.wake(1, 20_000);
        let first: Vec<usize> = (0..25)
            .map(|_| {
                let class = fair.next().unwrap();
                fair.charge(class, 1000);
                class
            })
            .collect();
        assert!((20..=22).contains(&first.iter().take_while(|class| **class == 1).count()), "{first:?}");
    }

    #[test]
    fn a_class_that_sleeps_keeps_its_charge() {
        let mut fair = FairShares::default();
        fair.set_shares(1, 100);
        fair.wake(0, 0);
        let mut got = [0, 0];
        for _ in 0..11_000 {
            fair.wake(1, 0);
            let class = fair.next().unwrap();
            fair.charge(class, 1000);
            got[class] += 1;
            fair.sleep(1);
        }
        assert!((900..=1100).contains(&got[1]), "{got:?}");
    }

    #[test]
    fn shares_change_while_running() {
        let mut fair = FairShares::default();
        let mut got = [0_u32, 0];
        fair.wake(0, 0);
        fair.wake(1, 0);
        for round in 0..20_000 {
            if round == 10_000 {
                assert_eq!(std::mem::take(&mut got), [5000, 5000]);
                fair.set_shares(1, 250);
            }
            let class = fair.next().unwrap();
            fair.charge(class, 700);
            got[class] += 1;
        }
        assert!(got[0].abs_diff(8000) <= 2, "{got:?}");
    }

    #[test]
    fn large_numbers_are_set_back_together() {
        let mut fair = FairShares::default();
        fair.set_shares(0, 1);
        fair.wake(0, 0);
        fair.charge(0, u64::MAX);
        fair.wake(1, 0);
        for _ in 0..100 {
            let class = fair.next().unwrap();
            fair.charge(class, 1 << 60);
        }
        assert!(fair.classes.iter().all(|class| class.charged < REBASE_AT + REBASE_AT / 2));
    }

    #[test]
    fn shares_of_nothing_count_as_one() {
        let mut fair = FairShares::default();
        fair.set_shares(0, 0);
        assert_eq!(fair.shares(0), 1);
    }
}
