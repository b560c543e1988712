//! Admission control for reads: limits how many reads run at once on a shard, and how much memory they hold
//! together. The semaphore is a pure state machine over the events of reads: entering, requesting memory,
//! releasing memory, leaving. Waiting is implemented in `permit`.
//!
//! A read enters before it creates a reader, and has a permit from then on. A permit has a state:
//!
//! ```text
//! enter ─→ waiting_for_admission ─→ active/need_cpu ⇄ active/await ─→ leave
//!                                     ⇅         ⇅
//!                        waiting_for_memory   inactive ─→ evicted
//! ```
//!
//! - Admission takes one of `count` and [`BASE_COST_BYTES`]. Reads of one partition and reads of ranges wait
//!   in two queues, served by weighted round robin (`admission_queue`). If no read is admitted, the next one
//!   is admitted regardless of the memory in use.
//! - A read charges the memory that it holds. Below `memory_bytes` no read waits. Between `memory_bytes` and
//!   `serialize_multiplier` times that, new reads wait. Above, admitted reads that request more wait too,
//!   except for one, the blessed read, which may continue so that it finishes and frees its memory. Above
//!   `kill_multiplier` times `memory_bytes`, a read that requests more is refused, unless it is the blessed
//!   read or the only one. All reads together thus hold at most that limit plus the need of one read.
//! - At most `cpu_concurrency` admitted reads compete for the CPU; reads that wait for the disk do not count.
//! - Parked (inactive) reads keep their count and memory until another read needs them. Then parked reads are
//!   evicted, the oldest first.
//! - The queues are bounded together; a read that enters when they are full is refused.

use std::collections::VecDeque;
use std::fmt::Write;

use crate::admission_queue::AdmissionQueue;
pub use crate::admission_queue::ReadKind;

/// Bytes charged to a read on admission, before it has read anything.
pub const BASE_COST_BYTES: u64 = 16 * 1024;

/// The most lines of a dump; further groups are summed in one line.
const DUMP_LINES_MAX: usize = 20;

/// Limits of a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemaphoreLimits {
    /// The most admitted reads.
    pub count: u64,
    /// The memory that admitted reads hold together before a read has to wait.
    pub memory_bytes: u64,
    /// The most reads that wait for admission or memory.
    pub queue_max: u64,
    /// Multiple of `memory_bytes` above which only one read gets more memory. 0: no such limit.
    pub serialize_multiplier: u64,
    /// Multiple of `memory_bytes` above which a read that requests more memory is refused. 0: no such limit.
    pub kill_multiplier: u64,
    /// The most admitted reads that compete for the CPU.
    pub cpu_concurrency: u64,
}

impl SemaphoreLimits {
    /// ScyllaDB's values for reads of users: 100 reads, 2 % of the shard's memory, and a queue of one read
    /// per kilobyte of that. Small shards use more than 2 %, because otherwise one page of results would take
    /// all of it.
    pub fn for_users(shard_memory_bytes: u64) -> Self {
        let memory_bytes = Self::memory_bytes_of(shard_memory_bytes);
        Self {
            count: 100,
            memory_bytes,
            queue_max: memory_bytes / 1000,
            serialize_multiplier: 2,
            kill_multiplier: 4,
            cpu_concurrency: 2,
        }
    }

    /// Limits for reads of system tables.
    pub fn for_system(shard_memory_bytes: u64) -> Self {
        Self {
            count: 10,
            memory_bytes: Self::memory_bytes_of(shard_memory_bytes),
            queue_max: u64::MAX,
            serialize_multiplier: 0,
            kill_multiplier: 0,
            cpu_concurrency: 1,
        }
    }

    fn memory_bytes_of(shard_memory_bytes: u64) -> u64 {
        (shard_memory_bytes / 50).max((shard_memory_bytes / 8).min(4 << 20))
    }

    fn serialize_bytes(&self) -> u64 {
        limit_of(self.memory_bytes, self.serialize_multiplier)
    }

    fn kill_bytes(&self) -> u64 {
        limit_of(self.memory_bytes, self.kill_multiplier)
    }
}

fn limit_of(memory_bytes: u64, multiplier: u64) -> u64 {
    if multiplier == 0 { u64::MAX } else { memory_bytes.saturating_mul(multiplier) }
}

/// State of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PermitState {
    /// Waits in the queue for a count and memory.
    WaitingForAdmission,
    /// Is admitted, and waits for more memory: all reads together are at the serialize limit.
    WaitingForMemory,
    /// Is admitted, and uses the CPU.
    ActiveNeedCpu,
    /// Is admitted, and waits for the disk.
    ActiveAwait,
    /// Its readers are parked between two pages. They may be evicted when a waiting read needs the permit.
    Inactive,
    /// Was parked, and its readers were dropped for another read.
    Evicted,
}

impl PermitState {
    /// The name of the state in ScyllaDB's diagnostics.
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitingForAdmission => "waiting_for_admission",
            Self::WaitingForMemory => "waiting_for_memory",
            Self::ActiveNeedCpu => "active/need_cpu",
            Self::ActiveAwait => "active/await",
            Self::Inactive => "inactive",
            Self::Evicted => "evicted",
        }
    }
}

/// Number of a permit of a semaphore. Reused after its read has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitId(pub(crate) u32);

/// Why a read is refused. The texts are ScyllaDB's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The queue of waiting reads is full.
    QueueFull(String),
    /// The memory of all reads exceeds the kill limit.
    Killed(String),
    /// The read was not admitted, or got no memory, before its timeout.
    TimedOut(String),
}

impl Refusal {
    /// The error text for the client.
    pub fn text(&self) -> &str {
        match self {
            Self::QueueFull(text) | Self::Killed(text) | Self::TimedOut(text) => text,
        }
    }
}

/// Counters and current state of a semaphore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SemaphoreStats {
    /// Reads that were admitted, with or without waiting.
    pub reads_admitted: u64,
    /// Reads that were admitted without waiting.
    pub reads_admitted_immediately: u64,
    /// Reads that had to wait for admission.
    pub reads_enqueued_for_admission: u64,
    /// Reads that had to wait for more memory after their admission.
    pub reads_enqueued_for_memory: u64,
    /// Reads that had to wait because an active read needed the CPU.
    pub reads_queued_because_need_cpu: u64,
    /// Reads that had to wait because too little memory was free.
    pub reads_queued_because_memory: u64,
    /// Reads that had to wait because the number of active reads was at its limit.
    pub reads_queued_because_count: u64,
    /// Reads that were refused after waiting for their timeout.
    pub reads_timed_out: u64,
    /// Reads that were refused because the queue was full.
    pub reads_shed_due_to_overload: u64,
    /// Reads that were ended because all reads together exceeded the kill limit.
    pub reads_killed_due_to_kill_limit: u64,
    /// Parked reads whose readers were dropped for a waiting read.
    pub inactive_reads_evicted: u64,
    /// `permits`: permits that exist now. `active`: those of them that are admitted.
    pub permits: u64,
    /// See `permits`.
    pub active: u64,
    /// Reads that wait for admission or memory now.
    pub queued: u64,
    /// The number of admitted reads, each of which counts as one.
    pub used_count: u64,
    /// The bytes that are charged to permits now.
    pub used_bytes: u64,
    /// The largest value of `used_bytes` so far.
    pub used_bytes_max: u64,
}

struct Permit {
    /// `ks.table`; the string is shared with the other permits of the table.
    table: std::sync::Arc<str>,
    operation: &'static str,
    state: PermitState,
    bytes: u64,
    /// The part of `bytes` that is charged for being parked.
    parked_bytes: u64,
    /// In `WaitingForMemory`: the memory that all readers of this read wait for together.
    wanted_bytes: u64,
    is_admitted: bool,
    /// Whether it was waiting for the disk when it began to wait for memory.
    was_awaiting: bool,
}

/// The resource that keeps a read from being admitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Short {
    Cpu,
    Memory,
    Count,
}

/// Admission semaphore of one shard and one class of reads. See the head of this file.
pub struct Semaphore {
    name: String,
    limits: SemaphoreLimits,
    permits: Vec<Option<Permit>>,
    free: Vec<u32>,
    for_admission: AdmissionQueue<PermitId>,
    for_memory: VecDeque<PermitId>,
    inactive: VecDeque<PermitId>,
    /// Whether reads were evicted since the last [`Self::take_evicted`].
    has_evicted: bool,
    blessed: Option<PermitId>,
    need_cpu: u64,
    stats: SemaphoreStats,
}

impl Semaphore {
    /// A semaphore without reads. `name` is part of the texts of refusals and diagnostics.
    pub fn new(name: impl Into<String>, limits: SemaphoreLimits) -> Self {
        Self {
            name: name.into(),
            limits,
            permits: vec![],
            free: vec![],
            for_admission: AdmissionQueue::new(),
            for_memory: VecDeque::new(),
            inactive: VecDeque::new(),
            has_evicted: false,
            blessed: None,
            need_cpu: 0,
            stats: SemaphoreStats::default(),
        }
    }

    /// The name given to [`Self::new`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limits given to [`Self::new`], or set later by [`Self::set_limits`].
    pub fn limits(&self) -> SemaphoreLimits {
        self.limits
    }

    /// Sets new limits. Reads that wait already are subject to them from the next event on.
    pub fn set_limits(&mut self, limits: SemaphoreLimits) {
        self.limits = limits;
    }

    /// The memory that the permits hold, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.stats.used_bytes
    }

    /// The counters since the semaphore was made, and the present state.
    pub fn stats(&self) -> SemaphoreStats {
        SemaphoreStats { queued: self.queued(), ..self.stats }
    }

    fn queued(&self) -> u64 {
        (self.for_admission.len() + self.for_memory.len()) as u64
    }

    fn permit(&self, id: PermitId) -> &Permit {
        self.permits[id.0 as usize].as_ref().expect("a permit that has not left")
    }

    fn permit_mut(&mut self, id: PermitId) -> &mut Permit {
        self.permits[id.0 as usize].as_mut().expect("a permit that has not left")
    }

    /// The state of a permit. Panics if its read has ended.
    pub fn state(&self, id: PermitId) -> PermitState {
        self.permit(id).state
    }

    /// The bytes charged to the permit.
    pub fn bytes(&self, id: PermitId) -> u64 {
        self.permit(id).bytes
    }

    fn set_state(&mut self, id: PermitId, state: PermitState) {
        let before = std::mem::replace(&mut self.permit_mut(id).state, state);
        self.need_cpu += u64::from(state == PermitState::ActiveNeedCpu);
        self.need_cpu -= u64::from(before == PermitState::ActiveNeedCpu);
    }

    /// Enters a read. Afterwards its state is `ActiveNeedCpu`, or `WaitingForAdmission` until
    /// [`Self::next_ready`] returns it. May evict parked reads to make it admissible; their [`Self::state`]
    /// shows it.
    ///
    /// Errors: [`Refusal::QueueFull`] if the read would have to wait and the queue is full.
    pub fn enter(
        &mut self,
        table: &std::sync::Arc<str>,
        operation: &'static str,
        kind: ReadKind,
    ) -> Result<PermitId, Refusal> {
        let mut short = self.short_of();
        while matches!(short, Some(Short::Memory | Short::Count)) && self.evict_inactive() {
            short = self.short_of();
        }
        let waits = short.is_some() || !self.for_admission.is_empty() || !self.for_memory.is_empty();
        if waits && self.queued() >= self.limits.queue_max {
            self.stats.reads_shed_due_to_overload += 1;
            return Err(Refusal::QueueFull(format!("{}: wait queue overload", self.name)));
        }
        let permit = Permit {
            table: table.clone(),
            operation,
            state: PermitState::WaitingForAdmission,
            bytes: 0,
            parked_bytes: 0,
            wanted_bytes: 0,
            is_admitted: false,
            was_awaiting: false,
        };
        let id = match self.free.pop() {
            Some(at) => {
                self.permits[at as usize] = Some(permit);
                PermitId(at)
            }
            None => {
                self.permits.push(Some(permit));
                PermitId(u32::try_from(self.permits.len() - 1).expect("fewer than 2^32 reads at once"))
            }
        };
        self.stats.permits += 1;
        if waits {
            self.stats.reads_enqueued_for_admission += 1;
            match short {
                Some(Short::Cpu) => self.stats.reads_queued_because_need_cpu += 1,
                Some(Short::Memory) => self.stats.reads_queued_because_memory += 1,
                Some(Short::Count) => self.stats.reads_queued_because_count += 1,
                None => {}
            }
            self.for_admission.push(kind, id);
        } else {
            self.stats.reads_admitted_immediately += 1;
            self.admit(id);
        }
        Ok(id)
    }

    fn short_of(&self) -> Option<Short> {
        let used = self.stats.used_bytes;
        if used >= self.limits.serialize_bytes() {
            return Some(Short::Memory);
        }
        if self.need_cpu >= self.limits.cpu_concurrency {
            return Some(Short::Cpu);
        }
        if self.stats.used_count == 0 {
            return None;
        }
        if self.stats.used_count >= self.limits.count {
            return Some(Short::Count);
        }
        (used + BASE_COST_BYTES > self.limits.memory_bytes).then_some(Short::Memory)
    }

    fn admit(&mut self, id: PermitId) {
        self.permit_mut(id).is_admitted = true;
        self.stats.used_count += 1;
        self.stats.active += 1;
        self.stats.reads_admitted += 1;
        self.charge(id, BASE_COST_BYTES);
        self.set_state(id, PermitState::ActiveNeedCpu);
    }

    fn charge(&mut self, id: PermitId, bytes: u64) {
        self.permit_mut(id).bytes += bytes;
        self.stats.used_bytes += bytes;
        self.stats.used_bytes_max = self.stats.used_bytes_max.max(self.stats.used_bytes);
    }

    /// Requests `bytes` more for an admitted read. True: they are charged. False: the read waits until
    /// [`Self::next_ready`] returns it, and the bytes are charged then. A read may make further requests
    /// while it waits.
    ///
    /// Errors: [`Refusal::Killed`] above the kill limit.
    pub fn request(&mut self, id: PermitId, bytes: u64) -> Result<bool, Refusal> {
        // Active reads take precedence over parked ones.
        while self.stats.used_bytes.saturating_add(bytes) >= self.limits.serialize_bytes()
            && self.evict_inactive()
        {}
        let after = self.stats.used_bytes.saturating_add(bytes);
        // One read must always be able to finish, regardless of the memory that it needs.
        let is_spared = self.blessed == Some(id) || self.stats.used_count == 1;
        if after > self.limits.kill_bytes() && !is_spared {
            self.stats.reads_killed_due_to_kill_limit += 1;
            let permit = self.permit(id);
            let (table, operation) = (&permit.table, permit.operation);
            let text =
                format!("kill limit triggered on semaphore {} by permit {table}:{operation}", self.name);
            return Err(Refusal::Killed(text));
        }
        let permit = self.permit_mut(id);
        if permit.state == PermitState::WaitingForMemory {
            permit.wanted_bytes += bytes;
            return Ok(false);
        }
        if self.may_charge(id, bytes) {
            self.charge(id, bytes);
            return Ok(true);
        }
        self.stats.reads_enqueued_for_memory += 1;
        let permit = self.permit_mut(id);
        permit.wanted_bytes = bytes;
        permit.was_awaiting = permit.state == PermitState::ActiveAwait;
        self.set_state(id, PermitState::WaitingForMemory);
        self.for_memory.push_back(id);
        Ok(false)
    }

    fn may_charge(&mut self, id: PermitId, bytes: u64) -> bool {
        let used = self.stats.used_bytes;
        if used < self.limits.memory_bytes || used.saturating_add(bytes) < self.limits.serialize_bytes() {
            return true;
        }
        *self.blessed.get_or_insert(id) == id
    }

    /// Releases `bytes` that an admitted read no longer holds.
    pub fn release(&mut self, id: PermitId, bytes: u64) {
        let permit = self.permit_mut(id);
        if permit.state == PermitState::Evicted {
            // An evicted read is charged nothing.
            return;
        }
        permit.bytes = permit.bytes.checked_sub(bytes).expect("nobody gives back what it was not charged");
        self.stats.used_bytes -= bytes;
    }

    /// Sets whether an admitted read waits for the disk or another shard.
    pub fn set_awaiting(&mut self, id: PermitId, is_awaiting: bool) {
        self.set_state(id, if is_awaiting { PermitState::ActiveAwait } else { PermitState::ActiveNeedCpu });
    }

    /// Parks an admitted read between pages. `bytes` is memory that the parked read keeps alive and that was
    /// not charged while it ran. If parked reads exceed the memory limit by that, the oldest are evicted.
    pub fn park(&mut self, id: PermitId, bytes: u64) {
        self.set_state(id, PermitState::Inactive);
        self.inactive.push_back(id);
        self.permit_mut(id).parked_bytes = bytes;
        self.charge(id, bytes);
        while bytes > 0 && self.stats.used_bytes > self.limits.memory_bytes && self.evict_inactive() {}
        // A read that waits between pages is not the one that has to finish.
        if self.blessed == Some(id) {
            self.blessed = None;
        }
        if self.queued() > 0 {
            self.evict_inactive();
        }
    }

    /// Resumes a parked read. False: it was evicted and has to enter again.
    pub fn unpark(&mut self, id: PermitId) -> bool {
        if self.permit(id).state == PermitState::Evicted {
            return false;
        }
        self.inactive.retain(|parked| *parked != id);
        let bytes = std::mem::take(&mut self.permit_mut(id).parked_bytes);
        self.release(id, bytes);
        self.set_state(id, PermitState::ActiveNeedCpu);
        true
    }

    /// Evicts the read that was parked first: releases its count and memory. False if no read is parked.
    fn evict_inactive(&mut self) -> bool {
        let Some(id) = self.inactive.pop_front() else { return false };
        self.give_up(id);
        self.set_state(id, PermitState::Evicted);
        self.stats.inactive_reads_evicted += 1;
        self.has_evicted = true;
        true
    }

    /// Whether parked reads were evicted since the last call; if so, the caller drops the readers that they
    /// hold.
    pub fn take_evicted(&mut self) -> bool {
        std::mem::take(&mut self.has_evicted)
    }

    fn give_up(&mut self, id: PermitId) {
        let permit = self.permit_mut(id);
        let bytes = std::mem::take(&mut permit.bytes);
        let was_admitted = std::mem::take(&mut permit.is_admitted);
        self.stats.used_bytes -= bytes;
        self.stats.used_count -= u64::from(was_admitted);
        self.stats.active -= u64::from(was_admitted);
        if self.blessed == Some(id) {
            self.blessed = None;
        }
    }

    /// Ends a read, whether it is active, parked or still waiting.
    pub fn leave(&mut self, id: PermitId) {
        self.give_up(id);
        match self.permit(id).state {
            PermitState::WaitingForAdmission => self.for_admission.remove(id),
            PermitState::WaitingForMemory => self.for_memory.retain(|waiting| *waiting != id),
            PermitState::Inactive => self.inactive.retain(|parked| *parked != id),
            state => self.need_cpu -= u64::from(state == PermitState::ActiveNeedCpu),
        }
        self.permits[id.0 as usize] = None;
        self.free.push(id.0);
        self.stats.permits -= 1;
    }

    /// Counts a read that waited too long for admission. The caller then ends it with [`Self::leave`].
    pub fn time_out(&mut self) -> Refusal {
        self.stats.reads_timed_out += 1;
        Refusal::TimedOut(format!("Semaphore timed out: {}", self.name))
    }

    /// A read that waited and may go on now, since it is admitted or has its memory; `None` if there is none.
    /// To be called after every release, leave and change to awaiting, until it returns `None`. Reads that
    /// wait for memory come before those that wait for admission.
    pub fn next_ready(&mut self) -> Option<PermitId> {
        if let Some(id) = self.for_memory.front().copied() {
            let bytes = self.permit(id).wanted_bytes;
            while !self.may_charge(id, bytes) && self.evict_inactive() {}
            if !self.may_charge(id, bytes) {
                return None;
            }
            self.for_memory.pop_front();
            self.charge(id, bytes);
            let was_awaiting = self.permit(id).was_awaiting;
            self.set_awaiting(id, was_awaiting);
            return Some(id);
        }
        if self.for_admission.is_empty() {
            return None;
        }
        let mut short = self.short_of();
        while matches!(short, Some(Short::Memory | Short::Count)) && self.evict_inactive() {
            short = self.short_of();
        }
        if short.is_some() {
            return None;
        }
        let id = self.for_admission.pop()?;
        self.admit(id);
        Some(id)
    }

    /// A diagnostic dump for people: permits by table, operation and state, the scarce resources, and the
    /// counters. The layout is ScyllaDB's. `trigger` is the permit that caused the dump.
    pub fn dump(&self, problem: &str, trigger: Option<PermitId>) -> String {
        let (limits, stats) = (&self.limits, self.stats());
        let mut out = format!(
            "Semaphore {} with {}/{} count and {}/{} memory resources: {problem}, dumping permit diagnostics:\n",
            self.name, stats.used_count, limits.count, stats.used_bytes, limits.memory_bytes
        );
        // Writing to a string cannot fail.
        if let Some(id) = trigger {
            let Permit { table, operation, state, bytes, is_admitted, .. } = self.permit(id);
            let _ = writeln!(
                out,
                "Trigger permit: count={}, memory={bytes}, table={table}, operation={operation}, state={}",
                u64::from(*is_admitted),
                state.name()
            );
        }
        let bottlenecks = [
            ("CPU", self.need_cpu > 0),
            ("memory", stats.used_bytes >= limits.memory_bytes),
            ("disk", stats.used_count >= limits.count),
        ];
        let bottlenecks: Vec<&str> =
            bottlenecks.iter().filter(|(_, is_short)| *is_short).map(|(name, _)| *name).collect();
        if !bottlenecks.is_empty() {
            let _ = writeln!(out, "Identified bottleneck(s): {}", bottlenecks.join(", "));
        }
        out.push_str("\npermits\tcount\tmemory\ttable/operation/state\n");
        let groups = self.groups();
        let mut total = PermitGroup::default();
        for (line, group) in groups.iter().enumerate() {
            if line < DUMP_LINES_MAX {
                let PermitGroup { permits, count, bytes, table, operation, state } = group;
                let state = state.map_or("", PermitState::name);
                let _ = writeln!(out, "{permits}\t{count}\t{bytes}\t{table}/{operation}/{state}");
            }
            total.permits += group.permits;
            total.count += group.count;
            total.bytes += group.bytes;
        }
        let omitted: u64 = groups.iter().skip(DUMP_LINES_MAX).map(|group| group.permits).sum();
        if omitted > 0 {
            let _ = writeln!(out, "{omitted} permits omitted for brevity");
        }
        let _ = writeln!(out, "\n{}\t{}\t{}\ttotal\n\nStats:", total.permits, total.count, total.bytes);
        for (name, value) in self.counters() {
            let _ = writeln!(out, "{name}: {value}");
        }
        out
    }

    /// The counters, by ScyllaDB's names.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let stats = self.stats();
        vec![
            ("permit_based_evictions", stats.inactive_reads_evicted),
            ("inactive_reads", self.inactive.len() as u64),
            ("total_failed_reads", stats.reads_timed_out + stats.reads_killed_due_to_kill_limit),
            ("total_reads_shed_due_to_overload", stats.reads_shed_due_to_overload),
            ("total_reads_killed_due_to_kill_limit", stats.reads_killed_due_to_kill_limit),
            ("reads_admitted", stats.reads_admitted),
            ("reads_enqueued_for_admission", stats.reads_enqueued_for_admission),
            ("reads_enqueued_for_memory", stats.reads_enqueued_for_memory),
            ("reads_admitted_immediately", stats.reads_admitted_immediately),
            ("reads_queued_because_need_cpu_permits", stats.reads_queued_because_need_cpu),
            ("reads_queued_because_memory_resources", stats.reads_queued_because_memory),
            ("reads_queued_because_count_resources", stats.reads_queued_because_count),
            ("reads_timed_out", stats.reads_timed_out),
            ("current_permits", stats.permits),
            ("need_cpu_permits", self.need_cpu),
            ("queued_permits", stats.queued),
        ]
    }

    /// The permits by table, operation and state, in falling order of memory.
    pub fn groups(&self) -> Vec<PermitGroup> {
        let mut groups: Vec<PermitGroup> = vec![];
        for permit in self.permits.iter().flatten() {
            let same = groups.iter_mut().find(|group| {
                group.operation == permit.operation
                    && group.state == Some(permit.state)
                    && *group.table == *permit.table
            });
            let group = match same {
                Some(group) => group,
                None => {
                    let (table, operation) = (permit.table.to_string(), permit.operation);
                    groups.push(PermitGroup {
                        table,
                        operation,
                        state: Some(permit.state),
                        ..PermitGroup::default()
                    });
                    groups.last_mut().expect("one was pushed")
                }
            };
            group.permits += 1;
            group.count += u64::from(permit.is_admitted);
            group.bytes += permit.bytes;
        }
        groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.table.cmp(&b.table)));
        groups
    }
}

/// Permits with the same table, operation and state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermitGroup {
    /// The number of permits of the group.
    pub permits: u64,
    /// The number of them that are admitted.
    pub count: u64,
    /// The bytes charged to them.
    pub bytes: u64,
    /// `ks.table`
    pub table: String,
    /// The operation, in ScyllaDB's words: `data-query`, `mutation-query`, …
    pub operation: &'static str,
    /// Their common state; `None` in the line of all other groups.
    pub state: Option<PermitState>,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::rng::Rng;

    use super::*;

    const LIMITS: SemaphoreLimits = SemaphoreLimits {
        count: 3,
        memory_bytes: 100 << 10,
        queue_max: 5,
        serialize_multiplier: 2,
        kill_multiplier: 4,
        cpu_concurrency: 100,
    };

    fn table() -> Arc<str> {
        "ks.t".into()
    }

    fn enter(semaphore: &mut Semaphore) -> PermitId {
        semaphore.enter(&table(), "data-query", ReadKind::Partition).unwrap()
    }

    fn ready(semaphore: &mut Semaphore) -> Vec<PermitId> {
        std::iter::from_fn(|| semaphore.next_ready()).collect()
    }

    #[test]
    fn count_is_given_in_the_order_of_coming() {
        let mut semaphore = Semaphore::new("s", LIMITS);
        let ids: Vec<PermitId> = (0..6).map(|_| enter(&mut semaphore)).collect();
        let waiting = |semaphore: &Semaphore| {
            ids.iter()
                .filter(|id| semaphore.permits[id.0 as usize].as_ref().is_some_and(|p| !p.is_admitted))
                .count()
        };
        assert_eq!(waiting(&semaphore), 3);
        semaphore.leave(ids[1]);
        assert_eq!(ready(&mut semaphore), [ids[3]]);
        semaphore.leave(ids[4]);
        semaphore.leave(ids[0]);
        assert_eq!(ready(&mut semaphore), [ids[5]]);
        assert_eq!((semaphore.stats().used_count, semaphore.stats().queued), (3, 0));
    }

    /// A read of one partition is admitted when the first of the running scans ends, however many wait.
    #[test]
    fn a_read_of_a_partition_is_admitted_before_the_scans_that_wait() {
        let mut semaphore = Semaphore::new("s", SemaphoreLimits { queue_max: 1000, ..LIMITS });
        let scans: Vec<PermitId> =
            (0..500).map(|_| semaphore.enter(&table(), "data-query", ReadKind::Range).unwrap()).collect();
        let point = enter(&mut semaphore);
        assert_eq!(
            (semaphore.state(point), semaphore.stats().queued),
            (PermitState::WaitingForAdmission, 498)
        );
        semaphore.leave(scans[0]);
        assert_eq!(ready(&mut semaphore), [point]);
        semaphore.leave(point);
        assert_eq!(ready(&mut semaphore), [scans[3]]);
    }

    #[test]
    fn the_queue_has_a_bound() {
        let mut semaphore = Semaphore::new("sl:default", LIMITS);
        let ids: Vec<PermitId> = (0..8).map(|_| enter(&mut semaphore)).collect();
        assert_eq!(semaphore.stats().queued, ids.len() as u64 - 3);
        let refused = semaphore.enter(&table(), "data-query", ReadKind::Range).unwrap_err();
        assert_eq!(refused.text(), "sl:default: wait queue overload");
        assert_eq!(semaphore.stats().reads_shed_due_to_overload, 1);
    }

    #[test]
    fn memory_is_waited_for_serialized_and_refused() {
        let mut semaphore = Semaphore::new("s", SemaphoreLimits { count: 10, ..LIMITS });
        let (a, b, d) = (enter(&mut semaphore), enter(&mut semaphore), enter(&mut semaphore));
        assert_eq!(semaphore.request(a, 74 << 10), Ok(true), "there was some left");
        let c = enter(&mut semaphore);
        assert_eq!(semaphore.state(c), PermitState::WaitingForAdmission, "a new read waits");
        assert_eq!(semaphore.request(b, 70 << 10), Ok(true), "below the serialize limit nobody else does");
        assert_eq!(semaphore.request(a, 20 << 10), Ok(true), "the first beyond it is blessed");
        assert_eq!(semaphore.request(b, 20 << 10), Ok(false));
        assert_eq!(semaphore.state(b), PermitState::WaitingForMemory);
        assert_eq!(semaphore.request(a, 50 << 10), Ok(true));
        let killed = semaphore.request(d, 200 << 10).unwrap_err();
        assert_eq!(killed.text(), "kill limit triggered on semaphore s by permit ks.t:data-query");
        assert_eq!(semaphore.request(b, 1 << 10), Ok(false), "another reader of the same read");
        assert_eq!(ready(&mut semaphore), []);
        semaphore.leave(a);
        assert_eq!(
            ready(&mut semaphore),
            [b],
            "who waits for memory comes first, and the new read still waits"
        );
        assert_eq!(semaphore.bytes(b), (16 + 70 + 20 + 1) << 10);
        semaphore.release(b, 90 << 10);
        assert_eq!(ready(&mut semaphore), [c]);
    }

    #[test]
    fn one_read_is_always_admitted() {
        let mut semaphore =
            Semaphore::new("s", SemaphoreLimits { memory_bytes: 10, serialize_multiplier: 0, ..LIMITS });
        let first = enter(&mut semaphore);
        assert_eq!(semaphore.state(first), PermitState::ActiveNeedCpu);
        let second = enter(&mut semaphore);
        assert_eq!(semaphore.state(second), PermitState::WaitingForAdmission);
        semaphore.leave(first);
        assert_eq!(ready(&mut semaphore), [second]);
    }

    #[test]
    fn a_task_that_waits_for_the_disk_needs_no_cpu() {
        let mut semaphore = Semaphore::new("s", SemaphoreLimits { cpu_concurrency: 1, ..LIMITS });
        let (a, b) = (enter(&mut semaphore), enter(&mut semaphore));
        assert_eq!(semaphore.state(b), PermitState::WaitingForAdmission);
        semaphore.set_awaiting(a, true);
        assert_eq!(ready(&mut semaphore), [b]);
        semaphore.set_awaiting(a, false);
        assert_eq!(semaphore.stats().reads_queued_because_need_cpu, 1);
    }

    #[test]
    fn parked_reads_go_when_others_need_their_place() {
        let mut semaphore = Semaphore::new("s", LIMITS);
        let ids: Vec<PermitId> = (0..3).map(|_| enter(&mut semaphore)).collect();
        ids.iter().for_each(|id| semaphore.park(*id, 0));
        assert!(semaphore.unpark(ids[1]));
        let other = enter(&mut semaphore);
        assert_eq!(semaphore.state(other), PermitState::ActiveNeedCpu);
        assert_eq!(semaphore.state(ids[0]), PermitState::Evicted);
        assert!(!semaphore.unpark(ids[0]) && semaphore.unpark(ids[2]));
        semaphore.leave(ids[0]);
        assert_eq!(semaphore.stats().inactive_reads_evicted, 1);
        assert!(semaphore.take_evicted() && !semaphore.take_evicted());
    }

    /// An active read takes the memory of parked ones at once and does not wait for it.
    #[test]
    fn parked_reads_give_their_memory_to_those_that_go_on() {
        let mut semaphore = Semaphore::new("s", LIMITS);
        let (parked, active) = (enter(&mut semaphore), enter(&mut semaphore));
        let most = LIMITS.memory_bytes * LIMITS.serialize_multiplier;
        assert!(semaphore.request(parked, most - 2 * BASE_COST_BYTES - 1).unwrap());
        semaphore.park(parked, 0);
        assert!(semaphore.request(active, LIMITS.memory_bytes).unwrap());
        assert_eq!(semaphore.state(parked), PermitState::Evicted);
    }

    /// Memory that a parked read keeps alive is charged while it is parked. If that is too much, the oldest
    /// are evicted.
    #[test]
    fn parked_reads_are_charged_for_what_they_keep_alive() {
        let mut semaphore = Semaphore::new("s", LIMITS);
        let ids: Vec<PermitId> = (0..3).map(|_| enter(&mut semaphore)).collect();
        semaphore.park(ids[0], 1000);
        assert_eq!(
            (semaphore.bytes(ids[0]), semaphore.stats().used_bytes),
            (17_384, 3 * BASE_COST_BYTES + 1000)
        );
        assert!(semaphore.unpark(ids[0]));
        assert_eq!(semaphore.stats().used_bytes, 3 * BASE_COST_BYTES);
        semaphore.park(ids[0], 1000);
        semaphore.park(ids[1], LIMITS.memory_bytes - 4 * BASE_COST_BYTES);
        assert_eq!(semaphore.state(ids[0]), PermitState::Inactive);
        semaphore.park(ids[2], 2 * BASE_COST_BYTES);
        let state = |at: usize| semaphore.state(ids[at]);
        let kept = PermitState::Inactive;
        assert_eq!((state(0), state(1), state(2)), (PermitState::Evicted, kept, kept));
        assert_eq!(semaphore.stats().used_bytes, LIMITS.memory_bytes);
    }

    /// For any sequence of events the counts are consistent. When all reads have left, no memory is held and
    /// no read waits.
    #[test]
    fn nothing_leaks_and_each_waiter_is_woken() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let limits = SemaphoreLimits { cpu_concurrency: 1 + rng.below(4), queue_max: 20, ..LIMITS };
            let mut semaphore = Semaphore::new("s", limits);
            let mut ids: Vec<PermitId> = vec![];
            for _ in 0..500 {
                let some = (!ids.is_empty()).then(|| ids[rng.index(ids.len())]);
                let active = some.filter(|id| {
                    matches!(semaphore.state(*id), PermitState::ActiveNeedCpu | PermitState::ActiveAwait)
                });
                match (rng.below(8), some, active) {
                    (0..3, ..) => {
                        let kind = if rng.below(2) == 0 { ReadKind::Partition } else { ReadKind::Range };
                        ids.extend(semaphore.enter(&table(), "data-query", kind));
                    }
                    (3, _, Some(id)) => drop(semaphore.request(id, rng.below(60 << 10))),
                    (4, _, Some(id)) => {
                        let bytes = rng.below(semaphore.bytes(id) + 1);
                        semaphore.release(id, bytes);
                    }
                    (5, _, Some(id)) => semaphore.set_awaiting(id, rng.below(2) == 0),
                    (6, _, Some(id)) => semaphore.park(id, rng.below(3) * (20 << 10)),
                    (6, Some(id), _) if semaphore.state(id) == PermitState::Inactive => {
                        semaphore.unpark(id);
                    }
                    (7, Some(id), _) => {
                        semaphore.leave(id);
                        ids.retain(|other| *other != id);
                    }
                    _ => {}
                }
                ready(&mut semaphore);
                let stats = semaphore.stats();
                assert_eq!(stats.used_bytes, ids.iter().map(|id| semaphore.bytes(*id)).sum::<u64>());
                assert!(stats.used_count <= limits.count && stats.permits == ids.len() as u64);
                let largest = ids.iter().map(|id| semaphore.bytes(*id)).max().unwrap_or(0);
                assert!(stats.used_bytes - largest <= limits.kill_bytes());
                let text = semaphore.dump("user request", ids.first().copied());
                assert!(text.contains(&format!(
                    "\n{}\t{}\t{}\ttotal\n",
                    ids.len(),
                    stats.used_count,
                    stats.used_bytes
                )));
            }
            // As reads end one after the other, all others are admitted in turn.
            while !ids.is_empty() {
                let runs = |id: &PermitId| {
                    !matches!(
                        semaphore.state(*id),
                        PermitState::WaitingForAdmission | PermitState::WaitingForMemory
                    )
                };
                let at =
                    ids.iter().position(runs).unwrap_or_else(|| panic!("seed {seed}: all wait for nobody"));
                semaphore.leave(ids.swap_remove(at));
                ready(&mut semaphore);
            }
            let stats = semaphore.stats();
            assert_eq!((stats.used_bytes, stats.used_count, stats.queued, semaphore.need_cpu), (0, 0, 0, 0));
        }
    }

    #[test]
    fn a_dump_reads_as_cassandra_does() {
        let mut semaphore = Semaphore::new("sl:default", SemaphoreLimits { count: 2, ..LIMITS });
        let ids: Vec<PermitId> = (0..3).map(|_| enter(&mut semaphore)).collect();
        semaphore.request(ids[1], 1000).unwrap();
        semaphore.set_awaiting(ids[1], true);
        let dump = semaphore.dump("timed out", Some(ids[2]));
        let expect = "Semaphore sl:default with 2/2 count and 33768/102400 memory resources: timed out, dumping permit diagnostics:
Trigger permit: count=0, memory=0, table=ks.t, operation=data-query, state=waiting_for_admission
Identified bottleneck(s): CPU, disk

permits\tcount\tmemory\ttable/operation/state
1\t1\t17384\tks.t/data-query/active/await
1\t1\t16384\tks.t/data-query/active/need_cpu
1\t0\t0\tks.t/data-query/waiting_for_admission

3\t2\t33768\ttotal

Stats:
permit_based_evictions: 0
";
        assert!(dump.starts_with(expect), "{dump}");
    }
}
