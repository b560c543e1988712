//! A running compaction.
//!
//! The merge is computed when the job starts, because its inputs do not change; the job then takes its time.
//! Tombstones and expired rows are purged by the production rules ([`compaction::purge`]).

use std::collections::VecDeque;

use compaction::purge::{self, Blocker, GcBefore, Outside, PurgeHorizon};
use compaction::weight::Weight;
use compaction::{Finished, Plan, SSTableId, SSTableView};
use model::{PartitionKey, Tombstone};

use crate::population::Population;
use crate::sketch::{Entry, has_partition, merge};
use crate::store::{Content, Made, Store};

/// See the head of this file.
pub struct Job {
    pub plan: Plan,
    /// `None` for a major compaction, which is not admitted by weight.
    pub weight: Option<Weight>,
    /// Outputs that are not sealed yet.
    outputs: VecDeque<Made>,
    /// Sealed outputs that are in the table, which happens before the end only in a job that releases inputs.
    shown: Vec<SSTableId>,
    shown_bytes: f64,
    released_bytes: f64,
    input_level: u32,
    last_key: Option<PartitionKey>,
    pub input_bytes: f64,
    pub input_disk_bytes: f64,
    pub output_bytes: f64,
    pub output_disk_bytes: f64,
    /// Bytes of output, before compression, of the outputs that are sealed.
    sealed_bytes: f64,
    /// Bytes of input that were merged.
    pub read_bytes: f64,
    pub needs_bytes: u64,
}

/// What a purge needs to know.
pub struct PurgeRules {
    pub now_s: u32,
    pub gc: GcBefore,
    pub tombstone_bytes_ratio: f64,
}

struct OutsideTable<'a> {
    view: &'a SSTableView,
    content: &'a Content,
    population: &'a Population,
}

impl Outside for OutsideTable<'_> {
    fn id(&self) -> SSTableId {
        self.view.id
    }
    fn first(&self) -> &PartitionKey {
        &self.view.first
    }
    fn last(&self) -> &PartitionKey {
        &self.view.last
    }
    fn min_live_timestamp_us(&self) -> i64 {
        self.view.min_timestamp_us
    }
    fn may_contain(&self, key: &PartitionKey) -> bool {
        self.population.position(key).is_some_and(|partition| has_partition(&self.content.entries, partition))
    }
}

/// The merge of the inputs: expired rows become tombstones, and tombstones that may go are left out. Also the
/// SSTables that kept tombstones.
fn merged(
    store: &Store,
    plan: &Plan,
    rules: &PurgeRules,
    population: &Population,
) -> (Vec<Entry>, Vec<SSTableId>) {
    let inputs = || plan.inputs.iter().filter_map(|id| store.get(*id));
    let mut entries = merge(inputs().map(|(_, content)| content.entries.as_slice()));
    let mut blockers: Vec<SSTableId> = vec![];
    if inputs().all(|(view, _)| !view.may_delete) {
        return (entries, blockers);
    }
    let max_timestamp_us = inputs().map(|(view, _)| view.max_timestamp_us).max().unwrap_or(i64::MIN);
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return (entries, blockers) };
    let (first, last) = (first.place.partition(), last.place.partition());
    let make_horizon = || {
        let is_input: base::HashSet<SSTableId> = plan.inputs.iter().chain(&plan.expired).copied().collect();
        let is_outside = |(view, content): &(&SSTableView, &Content)| {
            content.first().partition() <= last
                && content.last().partition() >= first
                && !is_input.contains(&view.id)
        };
        let outside = store.iter().filter(is_outside);
        let outside = outside.map(|(view, content)| OutsideTable { view, content, population });
        PurgeHorizon::new(outside, max_timestamp_us)
    };
    let mut horizon = None;
    entries.retain_mut(|entry| {
        if !entry.is_dead(rules.now_s) {
            return true;
        }
        let tombstone = Tombstone { timestamp_us: entry.timestamp_us, deletion_time_s: entry.dies_s };
        if rules.gc.blocks(entry.dies_s).is_none() {
            let key = population.key(entry.place.partition());
            let horizon = horizon.get_or_insert_with(make_horizon);
            let limit = horizon.max_purgeable(key, None, |_| None);
            if purge::blocks(tombstone, &rules.gc, limit).is_none() {
                return false;
            }
            if let Some(Blocker::SSTable(id)) = limit.1
                && !blockers.contains(&id)
            {
                blockers.push(id);
            }
        }
        if !entry.is_tombstone() {
            let bytes = entry.bytes() * rules.tombstone_bytes_ratio;
            *entry = Entry::tombstone(entry.place, entry.timestamp_us, entry.dies_s, bytes);
        }
        true
    });
    (entries, blockers)
}

impl Job {
    /// Starts the plan: marks its inputs, and removes the SSTables that it drops without reading.
    pub fn start(
        plan: Plan,
        weight: Option<Weight>,
        needs_bytes: u64,
        store: &mut Store,
        rules: &PurgeRules,
        population: &Population,
    ) -> Self {
        let (mut input_level, mut input_bytes, mut input_disk_bytes) = (u32::MAX, 0.0, 0.0);
        for id in &plan.inputs {
            let (view, _) = store.get(*id).unwrap_or_else(|| panic!("{id:?} does not exist: {plan:?}"));
            assert!(view.is_free(), "{id:?} is not free: {plan:?}");
            input_level = input_level.min(view.level);
            input_bytes += view.data_bytes as f64;
            input_disk_bytes += view.disk_bytes as f64;
            store.set_compacting(*id, true);
        }
        let (entries, blockers) = merged(store, &plan, rules, population);
        plan.expired.iter().for_each(|id| _ = store.remove(*id));
        let mut outputs: VecDeque<Made> = store.make(entries, &plan.layout, rules.now_s, population).into();
        let output_bytes: f64 = outputs.iter().map(|made| made.view.data_bytes as f64).sum();
        let output_disk_bytes = outputs.iter().map(|made| made.view.disk_bytes as f64).sum();
        if output_bytes >= input_bytes {
            outputs.iter_mut().for_each(|made| made.content.blockers.clone_from(&blockers));
        }
        Self {
            last_key: outputs.iter().map(|made| &made.view.last).max().cloned(),
            plan,
            weight,
            outputs,
            shown: vec![],
            shown_bytes: 0.0,
            released_bytes: 0.0,
            input_level: if input_level == u32::MAX { 0 } else { input_level },
            input_bytes,
            input_disk_bytes,
            output_bytes,
            output_disk_bytes,
            sealed_bytes: 0.0,
            read_bytes: 0.0,
            needs_bytes,
        }
    }

    /// Bytes of input, from now, until an output is sealed in the table or the job ends.
    pub fn until_event(&self) -> f64 {
        let end = self.input_bytes - self.read_bytes;
        match self.outputs.front() {
            Some(next) if self.plan.release_early => {
                let sealed = self.sealed_bytes + next.view.data_bytes as f64;
                (sealed / self.output_bytes.max(1.0) * self.input_bytes - self.read_bytes).min(end)
            }
            _ => end,
        }
        .max(0.0)
    }

    /// Bytes on disk written so far.
    pub fn written_bytes(&self) -> f64 {
        self.output_disk_bytes * self.part()
    }

    fn part(&self) -> f64 {
        if self.input_bytes > 0.0 { (self.read_bytes / self.input_bytes).min(1.0) } else { 1.0 }
    }

    /// Bytes on disk of the outputs that are not in the table yet.
    pub fn hidden_bytes(&self) -> f64 {
        (self.written_bytes() - self.shown_bytes).max(0.0)
    }

    /// Space that the job takes now and would not take if it had not started.
    pub fn temporary_bytes(&self) -> f64 {
        (self.written_bytes() - self.released_bytes).max(0.0)
    }

    /// Bytes that the job may still take in addition to its inputs, by its plan.
    pub fn promised_bytes(&self) -> f64 {
        (self.needs_bytes as f64 - self.temporary_bytes()).max(0.0)
    }

    /// Seals the outputs that are complete and, in a job that releases inputs, replaces inputs by them.
    /// Returns true if the table has changed.
    pub fn seal(&mut self, store: &mut Store) -> bool {
        let mut has_changed = false;
        while self.plan.release_early
            && self.read_bytes < self.input_bytes - 0.5
            && self.outputs.len() > 1
            && self.until_event() <= 0.5
        {
            let mut made = self.outputs.pop_front().expect("there are outputs");
            self.sealed_bytes += made.view.data_bytes as f64;
            self.shown_bytes += made.view.disk_bytes as f64;
            self.shown.push(made.view.id);
            made.view.compacting = true;
            let last = made.content.last();
            // A partition may be divided between outputs; its inputs are needed until its end.
            let is_divided =
                self.outputs.front().is_some_and(|next| next.content.first().partition() == last.partition());
            let ended: Vec<SSTableId> = self
                .plan
                .inputs
                .iter()
                .filter(|id| {
                    store.get(**id).is_some_and(|(_, content)| {
                        let input_last = content.last().partition();
                        input_last < last.partition() || (!is_divided && input_last == last.partition())
                    })
                })
                .copied()
                .collect();
            for id in ended {
                self.released_bytes += store.remove(id) as f64;
            }
            store.add(made);
            has_changed = true;
        }
        has_changed
    }

    pub fn is_done(&self) -> bool {
        self.read_bytes >= self.input_bytes - 0.5
    }

    /// Replaces the inputs that are left by the outputs that are left.
    pub fn end(&mut self, store: &mut Store) {
        self.plan.inputs.iter().for_each(|id| _ = store.remove(*id));
        self.shown.iter().for_each(|id| store.set_compacting(*id, false));
        self.outputs.drain(..).for_each(|made| store.add(made));
    }

    /// The report for the strategy.
    pub fn finished(&self) -> Finished<'_> {
        Finished {
            plan: &self.plan,
            input_level: self.input_level,
            last_key: self.last_key.clone(),
            input_bytes: self.input_bytes as u64,
            output_bytes: self.output_bytes as u64,
        }
    }
}
