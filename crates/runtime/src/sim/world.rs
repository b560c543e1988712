//! The run loop of the simulated world: nodes, virtual time, operations in flight, and ways to stop.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use base::rng::Rng;
use iosched::{Direction, Disk as IoDisk, DiskOptions};

use super::backend::SimBackend;
use super::disk::{Disk, InodeId};
use super::faults::FaultPlan;
use super::net::Network;
use super::sim_disk::SimDisk;
use crate::ShardId;
use crate::group::CpuGroup;
use crate::groups::Groups;
use crate::shard::queue::{Inbox, LocalQueue, Message};
use crate::shard::remote::Remote;
use crate::shard::reply::Reply;
use crate::shard::{Shard, call_message};
use crate::stall::StallOptions;

/// The initial wall clock time: 2026-01-01T00:00:00Z.
const WALL_START_US: i64 = 1_767_225_600_000_000;

/// Time quota of a poll. A poll that takes more than twice as long is an overrun.
const TASK_QUOTA_US: u64 = 500;

/// Bytes of a long transfer that one channel of a disk serves at a time.
const STRIPE_BYTES: usize = 16 << 10;

/// The most calls of `need_preempt` in one poll that return false.
const UNPREEMPTED_CALLS_MAX: u64 = 200;

/// Parameters of a world.
#[derive(Clone, Debug)]
pub struct SimOptions {
    pub seed: u64,
    /// Number of shards of each node.
    pub shards: u32,
    pub faults: FaultPlan,
    /// Whether the ready task that runs is chosen by the shares of the groups, and not at random.
    pub by_shares: bool,
    /// The disk as the I/O scheduler models it; the number of shards is filled in.
    pub disk: DiskOptions,
    /// The virtual time after which `run_until` stops with an error.
    pub run_us_max: u64,
    /// The number of steps after which `run_until` stops with an error, since tasks that only yield make no
    /// progress.
    pub run_steps_max: u64,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            shards: 1,
            faults: FaultPlan::default(),
            by_shares: false,
            disk: DiskOptions::default(),
            run_us_max: 24 * 3_600_000_000,
            run_steps_max: 1_000_000_000,
        }
    }
}

/// Reason for which a world stopped before the reply arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimStop {
    /// The operation of the fault plan was reached; to be continued with `kill` or `power_loss`.
    Crashed,
    /// The shard's tasks were dropped.
    ShardGone,
    /// No task is ready, and nothing is in flight or scheduled: the reply cannot arrive.
    Stuck,
    /// The limit of virtual time or of steps was reached.
    TooLong,
}

impl fmt::Display for SimStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crashed => "the world crashed as planned",
            Self::ShardGone => "the shard's tasks were dropped before it answered",
            Self::Stuck => {
                "nothing is left to run, yet the answer is not there: a deadlock or a lost wake-up"
            }
            Self::TooLong => "the answer did not come within the limit of time or steps",
        })
    }
}

impl std::error::Error for SimStop {}

pub(crate) struct Operation {
    due_us: u64,
    happen: Box<dyn FnOnce(&World)>,
}

struct NodeShards {
    /// Becomes false when the node dies.
    alive: Rc<Cell<bool>>,
    shards: Vec<Shard>,
}

pub(crate) struct World {
    pub(crate) rng: RefCell<Rng>,
    pub(crate) disk: RefCell<Disk>,
    pub(crate) network: RefCell<Network>,
    pub(crate) faults: RefCell<FaultPlan>,
    /// Process id of the lock's holder, by directory.
    pub(crate) locks: RefCell<BTreeMap<InodeId, u32>>,
    now_us: Cell<u64>,
    under_way: RefCell<Vec<Operation>>,
    nodes: RefCell<Vec<NodeShards>>,
    crashed: Cell<bool>,
    /// The total adjustment of the wall clock by tests.
    wall_set_us: Cell<i64>,
    by_shares: bool,
    /// The time until which each channel of the disk is busy, if the disk has a speed.
    disk_busy_until_ns: RefCell<Vec<u64>>,
    /// The choices of a step; kept between steps to reuse the allocation.
    choices: RefCell<Vec<Choice>>,
    ops: Cell<u64>,
    steps: Cell<u64>,
    pids: Cell<u32>,
    calls_until_preempt: Cell<u64>,
    /// Hash of every choice so far and its time.
    trace: Cell<u64>,
}

impl World {
    pub(crate) fn now_us(&self) -> u64 {
        self.now_us.get()
    }

    pub(crate) fn wall_us(&self) -> i64 {
        WALL_START_US + self.now_us.get() as i64 + self.wall_set_us.get()
    }

    pub(crate) fn need_preempt(&self) -> bool {
        let left = self.calls_until_preempt.get();
        self.calls_until_preempt.set(left.saturating_sub(1));
        left == 0
    }

    /// Runs `happen` after the latency of an operation. One that moves bytes waits for the disk before.
    pub(crate) fn begin(&self, moves: Option<(Direction, usize)>, happen: Box<dyn FnOnce(&Self)>) {
        let faults = self.faults.borrow();
        let latency_us = faults.latency_us(&mut self.rng.borrow_mut());
        let mut from_us = self.now_us.get();
        if let (Some(speed), Some((direction, bytes))) = (faults.disk_speed, moves) {
            let channels = &mut *self.disk_busy_until_ns.borrow_mut();
            channels.resize(faults.disk_channels.max(1), 0);
            let stripes = bytes.div_ceil(STRIPE_BYTES).max(1);
            let each_ns = speed.cost_ns(direction, bytes as u64) * channels.len() as u64 / stripes as u64;
            let mut done_ns = 0;
            for _ in 0..stripes {
                let channel = channels.iter_mut().min().expect("a disk has a channel");
                *channel = (*channel).max(from_us * 1000) + each_ns;
                done_ns = done_ns.max(*channel);
            }
            from_us = done_ns.div_ceil(1000);
        }
        self.under_way.borrow_mut().push(Operation { due_us: from_us + latency_us, happen });
    }

    /// Runs `happen` after `us` microseconds.
    pub(crate) fn after(&self, us: u64, happen: Box<dyn FnOnce(&Self)>) {
        let due_us = self.now_us.get().saturating_add(us);
        self.under_way.borrow_mut().push(Operation { due_us, happen });
    }

    fn note(&self, choice: u64) {
        let when = Rng::new(self.trace.get() ^ self.now_us.get()).next_u64();
        let mixed = Rng::new(when ^ choice).next_u64();
        self.trace.set(mixed);
    }

    /// Executes one step, or returns the reason why none is possible.
    fn step(&self) -> Result<(), SimStop> {
        if self.crashed.get() {
            return Err(SimStop::Crashed);
        }
        self.steps.set(self.steps.get() + 1);
        let now_us = self.now_us.get();
        let choices = &mut *self.choices.borrow_mut();
        choices.clear();
        let mut next_us = u64::MAX;
        for (node, shards) in self.nodes.borrow().iter().enumerate() {
            for (at, shard) in shards.shards.iter().enumerate() {
                if shard.queue().ready_tasks() > 0 || shard.queue().inbox().has_messages() {
                    choices.push(Choice::Shard(node, at));
                }
                if let Some(deadline_us) = shard.next_deadline_us() {
                    next_us = next_us.min(deadline_us);
                    if deadline_us <= now_us {
                        choices.push(Choice::Timers(node, at));
                    }
                }
            }
        }
        for (at, operation) in self.under_way.borrow().iter().enumerate() {
            next_us = next_us.min(operation.due_us);
            if operation.due_us <= now_us {
                choices.push(Choice::Operation(at));
            }
        }
        if choices.is_empty() {
            if next_us == u64::MAX {
                return Err(SimStop::Stuck);
            }
            self.now_us.set(next_us);
            return Ok(());
        }
        let choice = self.rng.borrow_mut().index(choices.len());
        self.note(choice as u64);
        match choices[choice] {
            Choice::Shard(node, at) => self.run_shard(&self.shard(node, at)),
            Choice::Timers(node, at) => {
                let shard = self.shard(node, at);
                let _entered = shard.queue().enter();
                shard.begin_turn(now_us * 1000);
            }
            Choice::Operation(at) => self.complete(at)?,
        }
        Ok(())
    }

    fn shard(&self, node: usize, at: usize) -> Shard {
        self.nodes.borrow()[node].shards[at].clone()
    }

    fn run_shard(&self, shard: &Shard) {
        let _entered = shard.queue().enter();
        shard.stats_cell().add(|stats| stats.turns += 1);
        shard.queue().set_now_ns(self.now_us.get() * 1000);
        shard.handle_messages();
        let ready = shard.queue().ready_tasks();
        if ready > 0 {
            let (task, calls, passes_us) = {
                let mut rng = self.rng.borrow_mut();
                (rng.index(ready), rng.below(UNPREEMPTED_CALLS_MAX), rng.below(3))
            };
            self.note(task as u64);
            self.calls_until_preempt.set(calls);
            let after = || self.now_us.set(self.now_us.get() + passes_us);
            if self.by_shares {
                shard.follow_groups();
                shard.run_next(after);
            } else {
                shard.run_at(task, after);
            }
        }
        // A turn settles when no task is ready, and for some seeds before.
        if self.rng.borrow_mut().chance(1, 8) {
            shard.settle();
        }
        while shard.queue().ready_tasks() == 0 && shard.settle() {}
        shard.queue().deliver_all();
    }

    /// Counts an operation that happens within a task's poll, or returns false: then it must be a step of its
    /// own, before which the world stops, or the seed wants it to be one.
    pub(crate) fn may_happen_at_once(&self) -> bool {
        let limit = self.faults.borrow().crash_after_ops;
        let is_free = limit.is_none_or(|limit| self.ops.get() < limit);
        let happens = is_free && self.rng.borrow_mut().chance(3, 4);
        self.ops.set(self.ops.get() + u64::from(happens));
        happens
    }

    fn complete(&self, at: usize) -> Result<(), SimStop> {
        let limit = self.faults.borrow().crash_after_ops;
        if limit.is_some_and(|limit| self.ops.get() >= limit) {
            self.faults.borrow_mut().crash_after_ops = None;
            self.crashed.set(true);
            return Err(SimStop::Crashed);
        }
        self.ops.set(self.ops.get() + 1);
        let operation = self.under_way.borrow_mut().swap_remove(at);
        (operation.happen)(self);
        Ok(())
    }

    /// Kills all processes. Each of their operations in flight is executed or not.
    fn kill(&self) {
        self.crashed.set(false);
        let nodes = std::mem::take(&mut *self.nodes.borrow_mut());
        for node in &nodes {
            node.alive.set(false);
            drop_all_tasks(&node.shards);
            for shard in &node.shards {
                let _entered = shard.queue().enter();
                shard.drop_locals();
            }
            // A singleton that is dropped may spawn a last task.
            drop_all_tasks(&node.shards);
        }
        let mut under_way = self.under_way.take();
        while !under_way.is_empty() {
            let (at, happens) = {
                let mut rng = self.rng.borrow_mut();
                (rng.index(under_way.len()), rng.chance(1, 2))
            };
            let operation = under_way.swap_remove(at);
            if happens {
                (operation.happen)(self);
            }
        }
        self.disk.borrow_mut().close_all();
        self.locks.borrow_mut().clear();
        drop(nodes);
    }
}

fn drop_all_tasks(shards: &[Shard]) {
    let not_done = |shard: &&Shard| {
        let _entered = shard.queue().enter();
        !shard.drop_tasks()
    };
    let mut rounds = 0;
    while shards.iter().filter(not_done).count() > 0 {
        rounds += 1;
        assert!(rounds < 1000, "tasks outlive their cancellation");
    }
}

#[derive(Clone, Copy)]
enum Choice {
    Shard(usize, usize),
    Timers(usize, usize),
    Operation(usize),
}

/// A simulated world.
pub struct SimWorld {
    world: Rc<World>,
    options: SimOptions,
}

/// A process in a world, until it is killed.
#[derive(Clone, Debug)]
pub struct SimNode {
    remote: Remote,
    shards: Vec<Shard>,
}

impl SimNode {
    /// Access to the shards from the test; replies are passed to [`SimWorld::run_until`].
    pub fn remote(&self) -> &Remote {
        &self.remote
    }
}

impl SimWorld {
    /// An empty world, without processes and with an empty disk.
    pub fn new(options: SimOptions) -> Self {
        let world = World {
            rng: RefCell::new(Rng::new(options.seed)),
            disk: RefCell::new(Disk::new()),
            network: RefCell::default(),
            faults: RefCell::new(options.faults.clone()),
            locks: RefCell::default(),
            now_us: Cell::new(1_000_000),
            under_way: RefCell::default(),
            nodes: RefCell::default(),
            crashed: Cell::new(false),
            wall_set_us: Cell::new(0),
            by_shares: options.by_shares,
            disk_busy_until_ns: RefCell::default(),
            choices: RefCell::default(),
            ops: Cell::new(0),
            steps: Cell::new(0),
            pids: Cell::new(100),
            calls_until_preempt: Cell::new(0),
            trace: Cell::new(0),
        };
        Self { world: Rc::new(world), options }
    }

    /// Starts a process on the current disk, runs `init` on each of its shards, and returns when all have
    /// finished.
    pub fn start_node<F, Fut>(&self, init: F) -> Result<SimNode, SimStop>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        assert!(self.options.shards > 0, "a node has at least one shard");
        let pid = self.world.pids.get();
        self.world.pids.set(pid + 1);
        let alive = Rc::new(Cell::new(true));
        let ids = 0..self.options.shards;
        let groups: Arc<Groups> = Arc::default();
        let disk = Arc::new(IoDisk::new(DiskOptions { shards: self.options.shards, ..self.options.disk }));
        let inboxes: Arc<[Arc<Inbox>]> = ids.clone().map(|id| Arc::new(Inbox::new(id, None))).collect();
        let shards: Vec<Shard> = ids
            .map(|id| {
                let rng = self.world.rng.borrow_mut().fork();
                let backend = SimBackend::new(Rc::clone(&self.world), Rc::clone(&alive), pid, rng);
                let queue = LocalQueue::new(id, Arc::clone(&inboxes), Arc::clone(&groups), TASK_QUOTA_US);
                let stalls = StallOptions::default();
                Shard::new(Rc::new(queue), id, Rc::new(backend), Arc::clone(&disk), stalls, false)
            })
            .collect();
        self.world.nodes.borrow_mut().push(NodeShards { alive, shards: shards.clone() });
        let node = SimNode { remote: Remote::new(Arc::clone(&inboxes), groups, false), shards };
        let init = Arc::new(init);
        let started: Vec<Reply<()>> = (inboxes.iter())
            .map(|inbox| {
                let init = Arc::clone(&init);
                let (message, reply) = {
                    let here = Location::caller();
                    call_message(CpuGroup::Maintenance, here, move |shard| init(shard), false)
                };
                inbox.deliver([Message::Call(message)]);
                reply
            })
            .collect();
        for reply in started {
            self.run_until(reply)?;
        }
        Ok(node)
    }

    /// Runs the world until the reply arrives.
    pub fn run_until<T>(&self, reply: Reply<T>) -> Result<T, SimStop> {
        let mut reply = pin!(reply);
        self.run_while(|| !reply.is_ready())?;
        match reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.map_err(|_gone| SimStop::ShardGone),
            Poll::Pending => unreachable!("the reply was ready"),
        }
    }

    /// Runs `f` as a task on a shard of `node` until it finishes. Unlike in a call, nothing needs to be
    /// `Send`.
    pub fn block_on<T, F, Fut>(&self, node: &SimNode, shard: ShardId, f: F) -> Result<T, SimStop>
    where
        T: 'static,
        F: FnOnce(Shard) -> Fut,
        Fut: Future<Output = T> + 'static,
    {
        let shard = &node.shards[shard as usize];
        let slot = Rc::new(RefCell::new(None));
        {
            let _entered = shard.queue().enter();
            let (running, slot) = (f(shard.clone()), Rc::clone(&slot));
            let task = async move {
                let result = running.await;
                slot.replace(Some(result));
            };
            shard.spawn(CpuGroup::Statement, task).detach();
        }
        // If the task is dropped, this is the only reference to the slot.
        self.run_while(|| slot.borrow().is_none() && Rc::strong_count(&slot) > 1)?;
        slot.take().ok_or(SimStop::ShardGone)
    }

    /// Runs the world for `us` of virtual time, even if no work is left before.
    pub fn run_for_us(&self, us: u64) -> Result<(), SimStop> {
        let end_us = self.world.now_us() + us;
        match self.run_while(|| self.world.now_us() < end_us) {
            Err(SimStop::Stuck) => {
                self.world.now_us.set(end_us);
                Ok(())
            }
            result => result,
        }
    }

    fn run_while(&self, mut wanted: impl FnMut() -> bool) -> Result<(), SimStop> {
        let end_us = self.world.now_us().saturating_add(self.options.run_us_max);
        let end_steps = self.world.steps.get().saturating_add(self.options.run_steps_max);
        while wanted() {
            self.world.step()?;
            if self.world.now_us() > end_us || self.world.steps.get() > end_steps {
                return Err(SimStop::TooLong);
            }
        }
        Ok(())
    }

    /// Kills all processes at once. Completed writes stay in the page cache; operations in flight are
    /// executed or not.
    pub fn kill(&self) {
        self.world.kill();
    }

    /// Loss of power: all processes die. Unsynced data is applied, torn or dropped.
    pub fn power_loss(&self) {
        self.world.kill();
        let mut rng = self.world.rng.borrow_mut();
        self.world.disk.borrow_mut().lose_power(&mut rng);
    }

    /// Sets the number of shards of nodes that are started from now on.
    pub fn set_shards(&mut self, shards: u32) {
        self.options.shards = shards;
    }

    /// Changes the faults from now on.
    pub fn set_faults(&self, change: impl FnOnce(&mut FaultPlan)) {
        change(&mut self.world.faults.borrow_mut());
    }

    /// Stops the world before it executes the operation after `ops` further ones.
    pub fn crash_after(&self, ops: u64) {
        let at = self.world.ops.get() + ops;
        self.set_faults(|faults| faults.crash_after_ops = Some(at));
    }

    /// The number of I/O operations so far.
    pub fn io_ops(&self) -> u64 {
        self.world.ops.get()
    }

    /// The world's monotonic clock, in microseconds.
    pub fn now_us(&self) -> u64 {
        self.world.now_us()
    }

    /// The wall clock, in microseconds since 1970.
    pub fn wall_us(&self) -> i64 {
        self.world.wall_us()
    }

    /// A clock that tasks can advance, since their computation takes no virtual time otherwise.
    pub fn clock(&self) -> SimClock {
        SimClock(Rc::clone(&self.world))
    }

    /// The disk, to inspect and to damage.
    pub fn disk(&self) -> SimDisk {
        SimDisk(Rc::clone(&self.world))
    }

    /// Hash of all names and bytes of the disk.
    pub fn disk_snapshot_hash(&self) -> u64 {
        self.world.disk.borrow().hash()
    }

    /// Hash of all choices of the schedule so far, with their times.
    pub fn schedule_hash(&self) -> u64 {
        self.world.trace.get()
    }

    /// The seed of the world.
    pub fn seed(&self) -> u64 {
        self.options.seed
    }
}

/// See [`SimWorld::clock`].
#[derive(Clone)]
pub struct SimClock(Rc<World>);

impl SimClock {
    /// The world's monotonic clock, in microseconds.
    pub fn now_us(&self) -> u64 {
        self.0.now_us.get()
    }

    /// Adjusts the wall clock by `us`, forward or back.
    pub fn set_wall_by_us(&self, us: i64) {
        self.0.wall_set_us.set(self.0.wall_set_us.get() + us);
    }

    /// Advances the clock, as if the running task took `us` longer.
    pub fn pass_us(&self, us: u64) {
        self.0.now_us.set(self.0.now_us.get() + us);
    }
}

impl fmt::Debug for SimClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimClock({} us)", self.0.now_us.get())
    }
}

impl Drop for SimWorld {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Tasks may be in an inconsistent state and are not dropped. The seed is printed to reproduce the
            // failure.
            eprintln!(
                "simulated world: seed {}, {} us, {} I/O operations, {} steps",
                self.options.seed,
                self.world.now_us(),
                self.world.ops.get(),
                self.world.steps.get()
            );
            return;
        }
        self.world.kill();
    }
}

impl fmt::Debug for SimWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimWorld(seed {}, {} us)", self.options.seed, self.world.now_us())
    }
}
