//! Live rows and tombstones of the pages that clients read of a table: distributions since the start, and
//! sums and maxima of the last five minutes.
//!
//! The last minutes are kept in a ring of one-minute slots, each with sums and maxima. So the figures of "the
//! last five minutes" are those of at least four and at most five minutes. Counting a page is constant time
//! and allocates nothing.

use base::histogram::EstimatedHistogram;

const SLOT_US: u64 = 60_000_000;
const SLOTS: usize = 5;
/// Buckets up to about a hundred million rows.
const OFFSETS: usize = 98;

/// The pages of one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    /// The number of the minute; 0 for an unused slot.
    minute: u64,
    pages: u64,
    live: u64,
    live_max: u64,
    dead: u64,
    dead_max: u64,
}

/// Average and maximum of the last five minutes, for live rows or for tombstones of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recent {
    pub pages: u64,
    pub sum: u64,
    pub max: u64,
}

impl Recent {
    /// The mean of a page; `None` without pages.
    pub fn mean(&self) -> Option<f64> {
        (self.pages > 0).then(|| self.sum as f64 / self.pages as f64)
    }

    pub fn merge(&mut self, other: &Self) {
        self.pages += other.pages;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Live rows of a page, since the start.
    pub live: EstimatedHistogram,
    /// Tombstones of a page, since the start.
    pub dead: EstimatedHistogram,
    recent: [Slot; SLOTS],
}

impl Default for Slices {
    fn default() -> Self {
        // A bucket of its own for 0: most pages have no tombstones.
        let zero = |offsets: &[u64]| [&[0], offsets].concat();
        let empty = || {
            let offsets = zero(EstimatedHistogram::new(OFFSETS).offsets());
            let counts = vec![0; offsets.len() + 1];
            EstimatedHistogram::from_parts(offsets, counts).expect("the offsets rise")
        };
        Self { live: empty(), dead: empty(), recent: [Slot::default(); SLOTS] }
    }
}

impl Slices {
    /// Counts a page with these live rows and tombstones.
    pub fn add(&mut self, now_us: u64, live: u64, dead: u64) {
        self.live.add(live);
        self.dead.add(dead);
        let minute = now_us / SLOT_US + 1;
        let slot = &mut self.recent[(minute % SLOTS as u64) as usize];
        if slot.minute != minute {
            *slot = Slot { minute, ..Slot::default() };
        }
        slot.pages += 1;
        slot.live += live;
        slot.live_max = slot.live_max.max(live);
        slot.dead += dead;
        slot.dead_max = slot.dead_max.max(dead);
    }

    /// Live rows and tombstones of the last five minutes.
    pub fn recent(&self, now_us: u64) -> (Recent, Recent) {
        let minute = now_us / SLOT_US + 1;
        let (mut live, mut dead) = (Recent::default(), Recent::default());
        for slot in self.recent.iter().filter(|slot| slot.minute + SLOTS as u64 > minute) {
            live.merge(&Recent { pages: slot.pages, sum: slot.live, max: slot.live_max });
            dead.merge(&Recent { pages: slot.pages, sum: slot.dead, max: slot.dead_max });
        }
        (live, dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_five_minutes_and_all_time() {
        let mut slices = Slices::default();
        let at = |minutes: u64| minutes * SLOT_US;
        assert_eq!(slices.recent(at(0)), (Recent::default(), Recent::default()));
        slices.add(at(0), 10, 1000);
        slices.add(at(3), 20, 0);
        slices.add(at(3), 40, 4);
        let (live, dead) = slices.recent(at(4));
        assert_eq!((live.pages, live.mean(), live.max), (3, Some(70.0 / 3.0), 40));
        assert_eq!((dead.sum, dead.max), (1004, 1000));
        // The first page is five minutes old.
        let (live, dead) = slices.recent(at(5));
        assert_eq!((live.pages, live.mean(), live.max, dead.max), (2, Some(30.0), 40, 4));
        assert_eq!(slices.recent(at(60)).0.mean(), None);
        // The slot is used again.
        slices.add(at(63), 7, 7);
        assert_eq!(slices.recent(at(63)).0, Recent { pages: 1, sum: 7, max: 7 });
        assert_eq!((slices.live.count(), slices.dead.max(), slices.live.percentile(0.5)), (4, 1109, 10));
        assert_eq!((slices.dead.percentile(0.25), slices.dead.percentile(0.5)), (0, 4));
    }
}
