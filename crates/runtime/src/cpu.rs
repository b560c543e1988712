//! CPU scheduler of one shard: chooses the group whose task runs next, and accounts CPU time by group.
//!
//! Each group has a virtual time ([`FairShares`]): it is charged the time that its tasks ran, divided by its
//! shares. Idleness earns no credit. A group becomes idle only if none of its tasks is ready after a poll, so
//! a task that makes itself ready again while it runs was never idle.
//!
//! The scheduler has no clock: it uses the time that the run loop read last, once per poll.

use iosched::FairShares;

use crate::group::{CpuGroup, GROUPS_MAX};
use crate::groups::Groups;

/// CPU use of one group on one shard. Times are on the shard's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// Time that its tasks ran.
    pub ran_ns: u64,
    /// Time during which at least one of its tasks was ready or running.
    pub ready_ns: u64,
    /// Number of polls of its tasks.
    pub polls: u64,
    /// Sum over long polls of the time beyond twice the quota.
    pub overrun_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    counters: GroupCounters,
    ready_since_ns: u64,
    generation: u32,
    /// Shares that apply on this shard only; 0: the shares of the table of groups apply.
    own_shares: u32,
}

/// The CPU scheduler of one shard. See the head of the file.
pub(crate) struct Cpu {
    fair: FairShares,
    entries: [Entry; GROUPS_MAX],
    quota_ns: u64,
    version: u64,
}

impl Cpu {
    pub(crate) fn new(quota_ns: u64) -> Self {
        Self { fair: FairShares::default(), entries: Default::default(), quota_ns, version: 0 }
    }

    /// Applies changes of the table of groups, if there are any. Returns a bit for each number that was given
    /// to a new group.
    pub(crate) fn follow(&mut self, groups: &Groups) -> Option<u32> {
        let version = groups.version();
        if version == self.version {
            return None;
        }
        self.version = version;
        let mut renewed = 0;
        for (index, entry) in self.entries.iter_mut().enumerate() {
            let generation = groups.generation(index);
            if generation != entry.generation {
                renewed |= 1 << index;
                *entry = Entry { generation, ready_since_ns: entry.ready_since_ns, ..Entry::default() };
            }
            let shares = match entry.own_shares {
                0 => groups.shares(CpuGroup::of_index(index)),
                own => own,
            };
            self.fair.set_shares(index, shares);
        }
        Some(renewed)
    }

    /// Sets shares that apply on this shard, regardless of the table of groups.
    pub(crate) fn set_own_shares(&mut self, group: CpuGroup, shares: u32) {
        self.entries[group.index()].own_shares = shares.max(1);
        self.fair.set_shares(group.index(), shares);
    }

    pub(crate) fn shares(&self, index: usize) -> u32 {
        self.fair.shares(index)
    }

    /// A task of the group has become ready.
    #[inline]
    pub(crate) fn ready(&mut self, index: usize, now_ns: u64) {
        if !self.fair.is_ready(index) {
            self.fair.wake(index, 0);
            self.entries[index].ready_since_ns = now_ns;
        }
    }

    /// No task of the group is ready any more.
    pub(crate) fn idle(&mut self, index: usize, now_ns: u64) {
        if self.fair.is_ready(index) {
            self.fair.sleep(index);
            let entry = &mut self.entries[index];
            entry.counters.ready_ns += now_ns.saturating_sub(entry.ready_since_ns);
        }
    }

    /// The group whose task runs next.
    #[inline]
    pub(crate) fn next(&self) -> Option<usize> {
        self.fair.next()
    }

    /// Charges a group for a task that ran from `from_ns` to `now_ns`.
    #[inline]
    pub(crate) fn ran(&mut self, index: usize, from_ns: u64, now_ns: u64, still_ready: bool) {
        let took_ns = now_ns.saturating_sub(from_ns);
        self.fair.charge(index, took_ns);
        let entry = &mut self.entries[index];
        entry.counters.ran_ns += took_ns;
        entry.counters.polls += 1;
        if took_ns > 2 * self.quota_ns {
            entry.counters.overrun_ns += took_ns - 2 * self.quota_ns;
        }
        if !still_ready {
            self.idle(index, now_ns);
        }
    }

    /// The CPU use of a group up to now.
    pub(crate) fn counters(&self, index: usize, now_ns: u64) -> GroupCounters {
        let entry = &self.entries[index];
        let so_far_ns =
            if self.fair.is_ready(index) { now_ns.saturating_sub(entry.ready_since_ns) } else { 0 };
        GroupCounters { ready_ns: entry.counters.ready_ns + so_far_ns, ..entry.counters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA_NS: u64 = 500_000;

    /// Runs tasks of `groups` that are always ready, or become ready again during their poll. Returns the CPU
    /// time of each group after `for_ns`.
    fn run(groups: &[(CpuGroup, u32, u64)], for_ns: u64) -> Vec<u64> {
        let table = Groups::default();
        let mut cpu = Cpu::new(QUOTA_NS);
        for (group, shares, _) in groups {
            table.set_shares(*group, *shares);
            cpu.ready(group.index(), 0);
        }
        assert_eq!((cpu.follow(&table), cpu.follow(&table)), (Some(0), None));
        let mut now_ns = 0;
        while now_ns < for_ns {
            let index = cpu.next().unwrap();
            let (.., takes_ns) = groups.iter().find(|(group, ..)| group.index() == index).unwrap();
            // The group's only task wakes itself; its queue was empty until then.
            cpu.ready(index, now_ns);
            cpu.ran(index, now_ns, now_ns + takes_ns, true);
            now_ns += takes_ns;
        }
        groups.iter().map(|(group, ..)| cpu.counters(group.index(), now_ns).ran_ns).collect()
    }

    #[test]
    fn lone_tasks_that_wake_themselves_get_their_shares() {
        use CpuGroup::{Compaction, Maintenance, Statement};
        let ran = run(
            &[(Statement, 1000, 3_000), (Compaction, 200, 400_000), (Maintenance, 100, 50_000)],
            13_000_000_000,
        );
        let tenths: Vec<u64> = ran.iter().map(|ran_ns| (ran_ns + 50_000_000) / 100_000_000).collect();
        assert_eq!(tenths, [100, 20, 10]);
    }

    #[test]
    fn time_ready_is_time_run_and_time_waited() {
        let mut cpu = Cpu::new(QUOTA_NS);
        cpu.ready(0, 1_000);
        cpu.ready(1, 1_000);
        cpu.ran(0, 1_000, 5_000, false);
        cpu.ran(1, 5_000, 6_500, false);
        let counters = cpu.counters(1, 100_000);
        assert_eq!((counters.ran_ns, counters.ready_ns, counters.polls), (1_500, 5_500, 1));
        cpu.ready(1, 200_000);
        assert_eq!(cpu.counters(1, 200_300).ready_ns, 5_800);
    }

    #[test]
    fn a_poll_may_take_two_quotas() {
        let mut cpu = Cpu::new(QUOTA_NS);
        cpu.ready(0, 0);
        cpu.ran(0, 0, 2 * QUOTA_NS, true);
        cpu.ran(0, 0, 2 * QUOTA_NS + 7, true);
        assert_eq!(cpu.counters(0, 0).overrun_ns, 7);
    }

    #[test]
    fn a_number_used_again_begins_anew() {
        let (groups, mut cpu) = (Groups::default(), Cpu::new(QUOTA_NS));
        let first = groups.create("first", 10).unwrap();
        cpu.follow(&groups);
        cpu.set_own_shares(first, 77);
        groups.set_shares(CpuGroup::Statement, 5);
        cpu.follow(&groups);
        assert_eq!(cpu.shares(first.index()), 77, "its own shares stay");
        cpu.ready(first.index(), 0);
        cpu.ran(first.index(), 0, 100, false);
        groups.remove(first).unwrap();
        let second = groups.create("second", 20).unwrap();
        assert_eq!(second, first);
        cpu.follow(&groups);
        assert_eq!((cpu.shares(second.index()), cpu.counters(second.index(), 0).polls), (20, 0));
    }
}
