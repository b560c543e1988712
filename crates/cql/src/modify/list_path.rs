//! Cell paths of new list elements: time UUIDs, whose order is the order of the list.
//!
//! Appended elements have the time of the write, counted up in steps of 100 ns. Prepended elements have that
//! time mirrored at the start of 2010, so that elements of a later write come earlier in the list. Cassandra
//! and ScyllaDB use the same paths, so lists written by different databases can be mixed. Source: Cassandra
//! 4.1 `cql3/Lists.java`.

use std::cell::Cell;

/// 2010-01-01 in microseconds since the Unix epoch.
const MIRROR_US: i64 = 1_262_304_000_000_000;

/// Steps of 100 ns from 1582-10-15, the epoch of time UUIDs, to the Unix epoch.
const UUID_EPOCH_STEPS: i64 = 0x01B2_1DD2_1381_4000;

/// Generates the paths of one request. All paths are distinct, and those of one list are in the order of the
/// calls.
pub struct ListPaths<'a> {
    clock_us: &'a dyn Fn() -> i64,
    random: &'a dyn Fn() -> u64,
    /// The time in microseconds and the last eight bytes of the UUIDs, drawn for the first path.
    drawn: Cell<Option<(i64, u64)>>,
    appended: Cell<i64>,
    prepended: Cell<i64>,
}

impl<'a> ListPaths<'a> {
    /// `clock_us` must never return the same value twice.
    pub fn new(clock_us: &'a dyn Fn() -> i64, random: &'a dyn Fn() -> u64) -> Self {
        Self { clock_us, random, drawn: Cell::new(None), appended: Cell::new(0), prepended: Cell::new(0) }
    }

    fn drawn(&self) -> (i64, u64) {
        let drawn = self.drawn.get().unwrap_or_else(|| {
            // The RFC 4122 variant, and the multicast bit, which marks a node id that is not the address of a
            // network card.
            let low = (self.random)() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0100_0000_0000;
            ((self.clock_us)(), low)
        });
        self.drawn.set(Some(drawn));
        drawn
    }

    /// Returns the path of the next appended element.
    pub fn append(&self) -> [u8; 16] {
        let (now_us, low) = self.drawn();
        let number = self.appended.replace(self.appended.get() + 1);
        time_uuid(now_us.saturating_mul(10).saturating_add(number), low)
    }

    /// Returns the paths of `count` prepended elements, in list order.
    pub fn prepend(&self, count: usize) -> impl Iterator<Item = [u8; 16]> + use<> {
        let (now_us, low) = self.drawn();
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let behind = self.prepended.get();
        self.prepended.set(behind.saturating_add(count));
        let mirrored = MIRROR_US.saturating_mul(2).saturating_sub(now_us).saturating_mul(10);
        let first = mirrored.saturating_sub(behind).saturating_sub(count);
        (0..count).map(move |number| time_uuid(first.saturating_add(number), low))
    }
}

/// Builds a time UUID from `steps` of 100 ns since the Unix epoch.
fn time_uuid(steps: i64, low: u64) -> [u8; 16] {
    let time = steps.wrapping_add(UUID_EPOCH_STEPS) as u64;
    let high = time << 32 | (time >> 16) & 0xFFFF_0000 | 0x1000 | (time >> 48) & 0x0FFF;
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use model::CqlType;

    use super::*;

    fn is_rising(paths: &[[u8; 16]]) -> bool {
        paths.is_sorted_by(|a, b| CqlType::TimeUuid.compare(a, b).is_lt())
    }

    #[test]
    fn appended_elements_come_after_prepended_ones_and_later_writes_further_out() {
        let now = 1_700_000_000_000_000;
        let at = |us: i64| {
            let clock = move || us;
            let paths = ListPaths::new(&clock, &|| 7);
            let last: Vec<_> = paths.prepend(2).collect();
            let first: Vec<_> = paths.prepend(3).collect();
            let front = [first, last].concat();
            (front, [paths.append(), paths.append()])
        };
        let (front, back) = at(now);
        let (later_front, later_back) = at(now + 1);
        let all = [later_front, front, back.to_vec(), later_back.to_vec()].concat();
        assert!(is_rising(&all), "{all:x?}");
        assert!(all.iter().all(|path| CqlType::TimeUuid.validate(path).is_ok()));
    }

    #[test]
    fn the_time_is_the_writes() {
        // 2023-11-14T22:13:20Z: the UUID's time field, read by hand from RFC 4122's layout.
        let uuid = uuid::Uuid::from_bytes(time_uuid(17_000_000_000_000_000, 0x8000_0000_0000_0000));
        let (seconds, nanos) = uuid.get_timestamp().expect("a time UUID").to_unix();
        assert_eq!((seconds, nanos), (1_700_000_000, 0));
    }
}
